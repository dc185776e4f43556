"""The general route: equal to the fast one for the committee, and to dense samples where nothing else is known."""

import numpy as np
import pytest
from scipy.linalg import eigh

import theory
from tests.theory.samples import hessian, rows
from theory.exact import committee_weights
from theory.general.any_weight import general_spectrum
from theory.model import Network

TANH = Network(activation="tanh", a=50.0)


def weight_of(model):
    """Weights of a committee by their formula, of which a search asks for thousands; of others by the model."""
    if model.is_committee:
        return lambda lam, u, xi: committee_weights(model.a, lam, np.mean(u**2, axis=1))
    return lambda lam, u, xi: model.weights(lam, model.outputs(u))


@pytest.mark.parametrize("row", [1, *(pytest.param(row, marks=pytest.mark.slow) for row in (4, 5, 7))])
def test_committee(reference, row):
    """Within 5 of the stated errors, which are themselves below 1e-3 (edge) and 5e-3 (degenerate outliers)."""
    case = reference["points"][row]
    model = Network(case["p"], case["p_star"], case["a"])
    found = general_spectrum(
        weight_of(model), case["alpha"], model.p, model.p_star, infimum=-2 / model.p, points=2**12
    )
    assert found.kind == case["edge_kind"]
    assert found.edge_error < 1e-3 * max(1, abs(case["edge"])) + 1e-3
    assert abs(found.edge - case["edge"]) < 5 * found.edge_error
    if case["outlier"] is None:
        assert not found.outliers.size
    else:
        assert len(found.outliers) == model.degeneracy
        assert np.all(np.abs(found.outliers - case["outlier"]) < 5 * found.outliers_error)
        assert np.all(found.outliers_error < 2e-2)
        assert np.all(np.abs(found.overlaps - case["overlap"]) < 5 * found.overlaps_error)
        assert np.all(found.teacher_share > 0.999)


def test_a_smooth_edge_of_wide_students_needs_no_infimum():
    """p = 2, a = 1, alpha = 0.8: where Q meets the end of the support, found by search, is the committee's smooth edge.

    Within 5 of the stated error, 7 degrees of freedom: false-alarm rate 2e-3; fixed seed."""
    model = Network(2, 1, 1.0)
    found = general_spectrum(weight_of(model), 0.8, 2, points=2**12)
    assert found.kind == theory.edge(model, 0.8).kind == "smooth"
    assert abs(found.edge - theory.edge(model, 0.8).value) < 5 * found.edge_error < 0.02


def _dense(n, alpha, weight, noise, rng):
    """Lowest eigenvalue, and shares of its eigenvector on teacher and student, p = p_star = 1."""
    x = rng.standard_normal((round(alpha * n), n)) / np.sqrt(n)
    w, t = rows(2, n, rng)
    f = weight((x @ w)[:, None], (x @ t)[:, None], rng.standard_normal((len(x), noise)))
    values, vectors = eigh(hessian(f, x), subset_by_index=[0, 0])
    q, _ = np.linalg.qr(np.stack([t, w], axis=1))
    return values[0], np.sum((q.T @ vectors[:, 0]) ** 2), (t @ vectors[:, 0]) ** 2 / n


@pytest.mark.parametrize(
    ("weight", "noise", "alpha"),
    [
        pytest.param(weight_of(TANH), 0, 6.0, marks=pytest.mark.slow),
        (lambda lam, u, xi: committee_weights(0.5, lam, (u + 0.5 * xi)[:, 0] ** 2), 1, 6.0),
    ],
    ids=["tanh", "noise before the square"],
)
def test_samples(weight, noise, alpha):
    """12 dense samples at N = 300: lowest eigenvalue, overlap and teacher overlap within 5 sigma plus a bias of 3/N.

    Two-sided, 11 degrees of freedom: false-alarm rate below 1e-3 for each of six comparisons; fixed seed.
    """
    n, draws = 300, 12
    rng = np.random.default_rng(11)
    sample = np.array([_dense(n, alpha, weight, noise, rng) for _ in range(draws)])
    mean, error = sample.mean(axis=0), sample.std(axis=0, ddof=1) / np.sqrt(draws)
    found = general_spectrum(weight, alpha, noise=noise, points=2**12)
    wanted = np.array([found.outliers[0], found.overlaps[0], found.overlaps[0] * found.teacher_share[0]])
    slack = 5 * error + 3 / n * np.array([abs(wanted[0]), 1, 1])
    assert np.all(np.abs(mean - wanted) < slack)


def test_label_noise_makes_the_weight_unbounded_below():
    """a + y falls below 0 for some labels, however rare they are."""
    found = general_spectrum(
        lambda lam, u, xi: committee_weights(0.5, lam, u[:, 0] ** 2 + 0.1 * xi[:, 0]),
        4.0,
        noise=1,
        points=2**10,
    )
    assert found.kind == "no edge"
    assert np.isnan(found.edge)


@pytest.mark.parametrize(
    "alpha", [pytest.param(1.3, marks=pytest.mark.slow), 1.5, pytest.param(1.6, marks=pytest.mark.slow)]
)
def test_no_false_sharp_edge(alpha):
    """p = 1, a = 2, no infimum given: points alone called the edge sharp, 0.05 away, with an outlier that is not there.

    Within 4 of the stated error, 7 degrees of freedom: false-alarm rate 1e-3 for each; fixed seed."""
    model = Network(a=2.0)
    found = general_spectrum(weight_of(model), alpha)
    assert found.kind == "smooth"
    assert abs(found.edge - theory.edge(model, alpha).value) < 4 * found.edge_error
    assert found.edge_error < 1e-3
    assert not found.outliers.size


def test_tanh_outlier_mixes_teacher_and_student():
    """No sample reaches these digits: two lattices of different seeds must agree within their errors, and to 1e-3 in shares."""
    runs = [general_spectrum(weight_of(TANH), 6.0, points=2**12, seed=s) for s in (0, 1)]
    gap = abs(runs[0].overlaps[0] - runs[1].overlaps[0])
    assert gap < 5 * np.hypot(runs[0].overlaps_error[0], runs[1].overlaps_error[0])
    assert abs(runs[0].teacher_share[0] - runs[1].teacher_share[0]) < 1e-3
    assert 0.28 < runs[0].teacher_share[0] < 0.31
