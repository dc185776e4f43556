"""The theory of one draw of preactivations: against plain root finding on the determinant, identities, and dense matrices."""

import numpy as np
import pytest
from scipy.optimize import brentq

import theory
from tests.theory.samples import lowest, orthogonal, rows
from theory.exact import committee_preactivations
from theory.finite.quenched import edge_displacement, quenched
from theory.finite.tracy_widom import MEAN, tracy_widom_scale
from theory.general.dyson import Dyson
from theory.general.spikes import SpikeBlock
from theory.model import Network


def block(dyson, u, z):
    """z I - Xi(z) written out sample by sample."""
    g = dyson.solve(z)
    p = len(g)
    weights = np.zeros((len(u), p, p))
    weights[:] = dyson.packed.T[:, dyson.packing.position]
    a = weights @ np.linalg.inv(np.eye(p) - g @ weights)
    xi = np.einsum("m,mk,ml,mij->kilj", dyson.c, u, u, a)
    return z * np.eye(u.shape[1] * p) - xi.reshape(u.shape[1] * p, -1)


CASES = [(1, 1, 0.5, 3.0), (2, 1, 0.3, 2.5), (2, 2, 0.3, 5.0), (3, 1, 0.5, 2.5)]


@pytest.mark.parametrize(("p", "p_star", "a", "alpha"), CASES)
def test_outliers_and_overlaps_against_the_determinant(p, p_star, a, alpha):
    model, n = Network(p, p_star, a), 200
    lam, u = committee_preactivations(model, round(alpha * n), np.random.default_rng(p + p_star))
    result = quenched(model, lam, u, n)
    v, inner = np.hstack([u, lam]), n - p - p_star
    dyson, unit = Dyson(model.weights(lam, model.outputs(u)), 1 / inner), inner / n
    present = np.isfinite(result.outliers)
    assert present.any() and np.sum(result.margins > 0) == present.sum()
    for order, (value, overlap) in enumerate(
        zip(result.outliers[present], result.overlaps[present], strict=True)
    ):

        def eigenvalue(z, order=order):
            return np.linalg.eigvalsh(block(dyson, v, z))[-1 - order]

        edge, at = dyson.edge().value, value / unit
        step = 0.02 * (edge - at)
        root = brentq(eigenvalue, at - 0.5, edge - 1e-9, xtol=1e-14, rtol=1e-14)
        assert at == pytest.approx(root, rel=1e-11)
        slope = (eigenvalue(at + step) - eigenvalue(at - step)) / (2 * step)
        vector = np.linalg.eigh(block(dyson, v, at))[1][:, -1 - order]
        seen = np.sum(vector[: p_star * p] ** 2)  # what of it lies on the teacher
        assert overlap == pytest.approx(seen / slope, rel=3e-3)
    assert np.all(np.diff(result.outliers[present]) >= 0) and np.all(result.outliers[present] < result.edge)


def test_bisection_finds_the_same_outlier():
    model, n = Network(2, 1, 0.3), 200
    lam, u = committee_preactivations(model, 500, np.random.default_rng(3))
    result = quenched(model, lam, u, n)
    v, inner = np.hstack([u, lam]), n - 3
    dyson = Dyson(model.weights(lam, model.outputs(u)), 1 / inner)
    found = SpikeBlock(dyson, v).bisected(0, dyson.edge().value)
    assert found[1] * inner / n == pytest.approx(result.outliers[0], rel=1e-11)


def test_permuting_and_rotating_preactivations_changes_nothing():
    model, n = Network(3, 2, 0.4), 150
    rng = np.random.default_rng(2)
    lam, u = committee_preactivations(model, 700, rng)
    turn, turn_star = (np.linalg.qr(rng.standard_normal((k, k)))[0] for k in (3, 2))
    order = rng.permutation(700)
    one, two = quenched(model, lam, u, n), quenched(model, lam[order] @ turn, u[order] @ turn_star, n)
    assert one.edge == pytest.approx(two.edge, rel=1e-11)
    np.testing.assert_allclose(one.outliers, two.outliers, rtol=1e-9)
    np.testing.assert_allclose(one.overlaps, two.overlaps, rtol=1e-7)


def test_large_draws_approach_the_reference_points(reference):
    """Preactivations move the edge by O(N^{-1/2}): at n = 40,000 its standard deviation is below 0.02; 5 sigma on
    one fixed seed."""
    n = 40_000
    for point in (row for row in reference["points"] if row["outlier"] is not None and row["p"] <= 2):
        model = Network(point["p"], point["p_star"], point["a"])
        lam, u = committee_preactivations(model, round(point["alpha"] * n), np.random.default_rng(0))
        result = quenched(model, lam, u, n)
        assert abs(result.edge - point["edge"]) < 0.06
        assert abs(np.nanmean(result.outliers) - point["outlier"]) < 0.06
        assert abs(np.nanmean(result.overlaps) - point["overlap"]) < 0.06


def dense(model, n, m, rng):
    """Preactivations of one sample, the gram of its rows, teacher first, and its lowest eigenvalues."""
    student, teacher = rows(model.p, n, rng), orthogonal(model.p_star, n, rng)
    x, both = rng.standard_normal((m, n)) / np.sqrt(n), np.vstack([teacher, student])
    values, _ = lowest(model, x, student, teacher, k=int(model.degeneracy) + 1)
    return x @ student.T, x @ teacher.T, both @ both.T / n, values


def test_edges_follow_dense_samples_one_by_one():
    """p = 1, no outlier: the edge of each draw explains most of what moves the lowest eigenvalue.

    30 samples at N = 200. The correlation is about 0.85; under independence P(r > 0.6) < 3e-4.
    """
    model, n, rng = Network(1, 1, 0.5), 200, np.random.default_rng(5)
    pairs = []
    for _ in range(30):
        lam, u, _, values = dense(model, n, 160, rng)
        pairs.append((quenched(model, lam, u, n).edge, values[0]))
    predicted, found = np.array(pairs).T
    assert np.corrcoef(predicted, found)[0, 1] > 0.6
    assert np.var(found - predicted) < 0.7 * np.var(found)


@pytest.mark.parametrize("p", [1, 2])
def test_a_direction_that_no_weight_depends_on_is_one_dimension_more(p):
    """Xi = Z + Q for projections that are all 1: the push is the derivative of the edge in the dimension."""
    model, inner, more = Network(p, 1, 0.3), 100, 1e-3
    lam, u = committee_preactivations(model, 250, np.random.default_rng(p))
    weights = model.weights(lam, model.outputs(u))

    def edge_of(dimension):
        return Dyson(weights, 1 / dimension).edge().value * dimension / inner

    dyson = Dyson(weights, 1 / inner)
    block, edge = SpikeBlock(dyson, np.ones((250, 1))), dyson.edge()
    slope = (edge_of(inner + more) - edge_of(inner - more)) / (2 * more)
    push = edge_displacement(block, edge, inner, 0.0)
    assert push < 0 and push == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize(("p", "alpha"), [(1, 1.5), (2, 1.0)])
def test_nothing_jumps_as_an_outlier_appears(p, alpha):
    """The preactivations of one draw, at 40 values of a: where an outlier appears the curves have kinks (second differences to
    0.3/n), no jumps (4 to 6/n between the edges of dimension n and of n - p - p_star)."""
    n, rng = 60, np.random.default_rng(1)
    lam, u = committee_preactivations(Network(p, 1, 1.0), round(alpha * n), rng)
    found = [quenched(Network(p, 1, a), lam, u, n) for a in np.geomspace(0.05, 5, 40)]
    counts = {np.isfinite(each.outliers).sum() for each in found}
    assert counts == {0, 1}
    for name in ("edge", "lowest"):
        values = np.array([getattr(each, name) for each in found])
        assert np.abs(np.diff(values, 2)).max() < 1 / n


def test_scale_of_a_constant_spectrum():
    """kappa = (pN)^{2/3} (2/|z''|)^{1/3} reproduces Johnstone's scale of the largest eigenvalue of a white Wishart matrix.

    Largest eigenvalue of X^T X with M x N entries of variance 1/N: N^{-1} (sqrt N + sqrt M)^2 plus TW1 times
    N^{-1} (sqrt N + sqrt M)(1/sqrt N + 1/sqrt M)^{1/3} (Johnstone, Ann. Statist. 29 (2001) 295).
    """
    n, m = 100, 250
    edge = Dyson(-np.ones((m, 1, 1)), 1 / n).edge()
    scale = tracy_widom_scale(n, edge.curvature)
    johnstone = (np.sqrt(n) + np.sqrt(m)) * (1 / np.sqrt(n) + 1 / np.sqrt(m)) ** (1 / 3) / n
    assert 1 / scale == pytest.approx(johnstone, rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "p_star", "a", "alpha"), [(1, 1, 0.1, 0.8), (1, 1, 0.5, 12.0), (2, 1, 0.3, 10.0), (4, 1, 0.5, 4.0)]
)
def test_the_lowest_eigenvalue_of_the_bulk_follows_tracy_and_widom_about_the_edge(p, p_star, a, alpha):
    """200 samples of order 100 (200 at p > 1): the mean of the eigenvalue above the outliers there are, within 3 standard
    errors and 0.1 of Tracy-Widom's (one alarm in a hundred). The edge of dimension n fails beside outliers, that of n - p -
    p_star at p > 1 (docs/appendix_finite_n.md)."""
    model, n, rng = Network(p, p_star, a), 100 if p < 4 else 50, np.random.default_rng(7)
    rest = []
    for _ in range(200):
        lam, u, _, values = dense(model, n, round(alpha * n), rng)
        found = quenched(model, lam, u, n)
        k = int(np.isfinite(found.outliers).sum())
        rest.append((values[k] - found.edge) * found.scale + MEAN)
    assert abs(np.mean(rest)) < 0.1 + 3 * np.std(rest) / np.sqrt(len(rest))


def test_large_alpha_is_unbiased():
    """p = 1, a = 1000, alpha = 700, N = 40: residuals have mean 0 within 4 standard errors (false alarm 1e-3 at 16 samples)
    and a tenth of the scatter that N = inf theory leaves."""
    model, rng = Network(1, 1, 1000.0), np.random.default_rng(3)
    limit, left = theory.outliers(model, 700.0)[0].value, []
    for _ in range(16):
        lam, u, gram, values = dense(model, 40, 28_000, rng)
        left.append((values[0] - quenched(model, lam, u, 40, gram).outliers[0], values[0] - limit))
    left = np.array(left)
    assert abs(left[:, 0].mean()) < 4 * left[:, 0].std(ddof=1) / 4
    assert left[:, 0].std() < 0.1 * np.sqrt(np.mean(left[:, 1] ** 2))
