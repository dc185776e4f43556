"""Laws of scalar weights against Marchenko-Pastur, spiked covariance, and the committee's right values."""

import numpy as np
import pytest

from theory.general.isotropic import given_law, node_averages
from theory.general.quadrature import chi_square_law

MARCHENKO_PASTUR = given_law(1.0, 1.0, 1.0)


def _outlier(law, alpha):
    """The outlier at alpha, or None."""
    found = law.outliers(alpha, law.edge(alpha)[2])
    return found[0] if found else None


def _threshold(law):
    """The first threshold, or None."""
    found = law.thresholds(0)
    return found[0][0] if found else None


@pytest.mark.parametrize("alpha", [0.3, 0.9, 1.5, 4.0, 100.0])
def test_marchenko_pastur_edges(alpha):
    assert -given_law(-1.0, 1.0, 1.0).edge(alpha)[0] == pytest.approx((1 + alpha**0.5) ** 2, rel=1e-12)
    value, kind, _ = MARCHENKO_PASTUR.edge(alpha)
    if alpha > 1:
        assert kind == "sharp" and value == pytest.approx((1 - alpha**0.5) ** 2, rel=1e-12)
    else:
        assert kind == "atom" and value == 0


@pytest.mark.parametrize("variance", [1.5, 3.0, 10.0])
@pytest.mark.parametrize("ratio", [1.05, 2.0, 30.0])
def test_spiked_covariance(variance, ratio):
    """Baik-Ben Arous-Peche: outlier l (alpha + 1/(l-1)) and its overlap, threshold alpha = 1/(l-1)^2."""
    law = given_law(-1.0, variance, 1.0)
    critical = 1 / (variance - 1) ** 2
    threshold = _threshold(law)
    assert threshold.kind == "continuous" and threshold.alpha == pytest.approx(critical, rel=1e-12)
    alpha = ratio * critical
    found = _outlier(law, alpha)
    assert -found.value == pytest.approx(variance * (alpha + 1 / (variance - 1)), rel=1e-12)
    gamma = 1 / alpha
    overlap = (1 - gamma / (variance - 1) ** 2) / (1 + gamma / (variance - 1))
    assert found.overlap == pytest.approx(overlap, rel=1e-11)
    assert _outlier(law, 0.99 * critical) is None


@pytest.mark.parametrize("alpha", [1.0, 1 + 1e-9, 1 - 1e-9, 0.04, 25.0, 1e-30, 1e19])
def test_edges_where_the_root_lies_on_a_node_of_the_grid(alpha):
    """f = -1: d = sqrt(alpha); alpha from 1e-28 on is told from 0."""
    law = given_law(-1.0, 2.0, 1.0)
    value, kind, _ = law.edge(alpha)
    assert kind == ("sharp" if alpha > 1e-28 else "smooth")
    assert value == pytest.approx(-((1 + alpha**0.5) ** 2), rel=1e-13)
    outlier = _outlier(law, alpha)
    assert (outlier is not None) == (alpha > 1)
    if outlier is not None and alpha > 1.1:
        assert outlier.value == pytest.approx(-2 * (alpha + 1), rel=1e-13)


@pytest.mark.parametrize("spike", [2.0, 2 + 1e-9, 2 - 1e-9, 1.5, 11.0])
def test_thresholds_where_the_root_lies_on_a_node_of_the_grid(spike):
    found = _threshold(given_law(-1.0, spike, 1.0))
    assert found.kind == "continuous" and found.alpha == pytest.approx(1 / (spike - 1) ** 2, rel=1e-12)


def test_laws_without_edge_or_threshold():
    nothing = given_law(0.0, 2.0, 1.0)
    assert nothing.edge(1.0)[1] == "atom" and not nothing.thresholds(0)
    assert not given_law(-1.0, 1.0, 1.0).thresholds(0)


def _committee_law(p, p_star, a):
    """The committee as a mixture of its weight eigenvalues, f1 with (p-1)/p and f2 with 1/p, by brute quadrature."""
    yhat, v = chi_square_law(p)
    y, w = chi_square_law(p_star)
    yhat, probability = yhat[:, None], v[:, None] * w
    f1, f2 = 2 / p * (yhat - y) / (a + y), 2 / p * (3 * yhat - y) / (a + y)
    weight = np.concatenate([f1.ravel(), f2.ravel()])
    spike = np.tile(np.broadcast_to(y, f1.shape).ravel(), 2)
    return given_law(
        weight, spike, np.concatenate([(p - 1) / p * probability.ravel(), probability.ravel() / p]), -2 / p
    )


@pytest.mark.parametrize("row", range(0, 15, 3))
def test_committee_thresholds(reference, row):
    case = reference["thresholds"][row]
    found = _threshold(_committee_law(case["p"], case["p_star"], case["a"]))
    assert found.kind == case["kind"]
    assert found.alpha == pytest.approx(case["alpha"], rel=1e-11)


@pytest.mark.parametrize("row", [1, 5, *(pytest.param(row, marks=pytest.mark.slow) for row in (4, 6))])
def test_committee_points(reference, row):
    case = reference["points"][row]
    law = _committee_law(case["p"], case["p_star"], case["a"])
    value, kind, _ = law.edge(case["alpha"])
    found = _outlier(law, case["alpha"])
    assert kind == case["edge_kind"] and value == pytest.approx(case["edge"], rel=1e-10)
    assert (found is None) == (case["outlier"] is None)
    if found is not None:
        assert found.value == pytest.approx(case["outlier"], rel=1e-10)
        assert found.overlap == pytest.approx(case["overlap"], rel=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3, 50, 400])
@pytest.mark.parametrize("breaks", [(), (1.3,), (0.5, 2.0, 7.0)])
def test_chi_square_law(k, breaks):
    y, probability = chi_square_law(k, breaks)
    moments = [probability @ y**j for j in range(3)]
    assert moments == pytest.approx([1, 1, 1 + 2 / k], rel=1e-12)


@pytest.mark.parametrize("softness", [1e-3, 1e-9, 1e-12])
def test_weights_of_many_scales_have_an_edge(softness):
    """f = 1/(y + softness), all positive, over up to 14 decades: no atom at alpha > 1.

    Six dense samples at N = 400, alpha = 3 gave the lowest eigenvalue 1.401(36); fluctuations of order N^(-2/3) = 0.02.
    """
    y, probability = chi_square_law(1)
    law = given_law(1 / (y + softness), y, probability)
    for alpha in (1.0001, 1.2, 3.0, 30.0):
        _, kind, d = law.edge(alpha)
        assert kind == "sharp"
        assert abs(alpha * law.law.at(d).k2 / d**2 - 1) < 1e-9
    assert abs(law.edge(3.0)[0] - 1.401) < 3 * 0.036
    assert law.edge(0.5)[1] == "atom"
    threshold = _threshold(law)
    assert threshold.kind == "continuous"
    assert _outlier(law, threshold.alpha * 1.01) is not None
    assert _outlier(law, threshold.alpha * 0.99) is None


def test_units_do_not_matter():
    """Weights times 1e-8 to 1e12 give the edge times the same, and thresholds that do not move."""
    y, probability = chi_square_law(1)
    for sign in (1, -1):
        f, infimum = sign / (y + 1e-6), -1e6 if sign < 0 else 0.0
        law = given_law(f, y, probability, infimum)
        for unit in (1e-8, 1e12):
            scaled = given_law(unit * f, y, probability, unit * infimum)
            assert abs(scaled.edge(3.0)[0] / unit - law.edge(3.0)[0]) < 1e-10 * abs(law.edge(3.0)[0])
            first, second = _threshold(law), _threshold(scaled)
            assert (first is None) == (second is None)
            assert first is None or abs(first.alpha - second.alpha) < 1e-9 * first.alpha


@pytest.mark.parametrize("n", [3, 8192, 20_001])
def test_averages_of_many_nodes(n):
    """Sums in parts are those of all nodes, at the infimum too, where no node is."""
    rng = np.random.default_rng(n)
    f, w, row = rng.uniform(-0.9, 3, n), rng.random(n) / n, rng.random((3, n)) / n
    for d in (0.0, 0.3):
        found, q = node_averages(f, w, [row], 1.0, 1.0)(d), 1.0 + d
        a = f * q / (q + f)
        wanted = [w @ a, w @ a**2, *(row @ a)[[0, 1, 1, 2]], *(row @ a**2)[[0, 1, 1, 2]]]
        np.testing.assert_allclose(
            [found.k, found.k2, *found.x(0).ravel(), *found.x2(0).ravel()], wanted, rtol=1e-12
        )
