"""The bulk of one draw of preactivations next to its edge, and means less what preactivations explain."""

import numpy as np
import pytest

from theory import Network, finite
from theory.exact import committee_preactivations
from theory.finite.bulk import Preactivations, bulk_curve, control_variates, controlled_mean
from theory.finite.law import quenched_law
from theory.general.dyson import Dyson


def test_edge_of_the_preactivations_is_that_of_the_quenched_theory():
    model, n = Network(1, 1, 0.5), 200
    lam, u = committee_preactivations(model, 300, np.random.default_rng(3))
    bulk = bulk_curve(Preactivations.of(model, lam[None], u[None], n), n, 25)
    exact = Dyson(model.weights(lam, model.outputs(u)), 1 / n).edge().value
    assert bulk.edge[0] == pytest.approx(exact * int(model.p) / 2, rel=1e-9)
    assert np.all(np.diff(bulk.count[0]) > 0) and bulk.count[0, -1] > 25


def bulk_samples(data, samples, rng):
    """Eigenvalues (samples, n) of bulks with the first draw's preactivations, p = 1, units of (p/2) H."""
    f, n = data.f[0][0], data.n
    rows = rng.standard_normal((samples, len(f), n))
    return np.linalg.eigvalsh(np.einsum("smi,m,smj->sij", rows, f, rows, optimize=True) / n)


@pytest.mark.parametrize(("model", "alpha"), [(Network(1, 3, 0.7), 6.0), (Network(1, 1, 0.8), 0.7)])
def test_curve_counts_eigenvalues_past_the_maximum_of_the_density(model, alpha):
    """Eigenvalues of 40 bulks that share their preactivations, N = 100, below each node of the curve: within 4 standard errors
    and half an eigenvalue. The maximum of the density is near eigenvalue 10 in the first case; the second has its atom at 0."""
    n, rng = 100, np.random.default_rng(4)
    lam, u = committee_preactivations(model, round(alpha * n), rng)
    data = Preactivations.of(model, lam[None], u[None], n)
    bulk, found = bulk_curve(data, n, 25), bulk_samples(data, 40, rng)
    count, energy = bulk.count[0], bulk.energy[0]
    below = (found[:, :, None] < energy).sum(axis=1)
    assert count[-1] > 20 and len(count) < 25
    np.testing.assert_array_less(
        np.abs(below.mean(axis=0) - count), 4 * below.std(axis=0) / np.sqrt(40) + 0.5
    )


@pytest.mark.parametrize(
    ("model", "alpha"),
    [(Network(1, 1, 0.5), 1.2), (Network(2, 1, 0.3), 2.0), (Network(4, 2, 3.0), 0.7)],
)
def test_sums_over_preactivations_exceed_their_means_by_nothing_on_the_average(model, alpha):
    """400 draws of 200 data points: within 4 of their standard errors (six comparisons, false alarm 4e-4)."""
    rng = np.random.default_rng(7)
    data = Preactivations.of(
        model, rng.standard_normal((400, 200, model.p)), rng.standard_normal((400, 200, model.p_star)), 150
    )
    excess = control_variates(model, data, alpha)
    assert np.all(np.abs(excess.mean(axis=0)) < 4 * excess.std(axis=0) / 20)


def test_the_error_of_a_corrected_mean_is_as_stated():
    """2,000 means of 64: their scatter is 1 in units of the stated error within 4 of its own errors, 0.063 (false alarm 6e-5),
    half of the plain mean's as three quarters of the variance are explained, and their bias is within 4 errors of none."""
    rng, found = np.random.default_rng(1), []
    for _ in range(2000):
        excess = rng.standard_normal((64, 2)) * [1, 1e-6]
        values = 5 + excess @ [1.5, 0.0] + np.sqrt(0.75) * rng.standard_normal(64)
        found.append(controlled_mean(values, excess))
    means, errors = np.array(found).T
    assert (
        abs(np.std((means - 5) / errors) - 1) < 4 / np.sqrt(2 * 2000) + 0.02
    )  # Student's t of 61 degrees: 1.016
    assert abs(np.mean(means) - 5) < 4 * np.std(means) / np.sqrt(2000)
    assert np.mean(errors) == pytest.approx(np.sqrt(0.75 / 64), rel=0.03)


def test_means_of_the_law_have_smaller_errors_and_shared_preactivations_are_left_alone():
    model = Network(2, 1, 0.3)
    law = finite.law(model, 1.5, 100, draws=100)
    for name, most in (("lowest", 0.75), ("overlap", 0.95)):  # 0.5 and 0.75 are usual
        plain = getattr(law, name)
        value, error = law.mean(name)
        assert error < most * law.std(name) / 10 and abs(value - plain.mean()) < 4 * law.std(name) / 10
    lam, u = committee_preactivations(model, 150, np.random.default_rng(0))
    shared = quenched_law(model, lam, u, 100, draws=30)
    assert shared.mean("lowest")[0] == shared.lowest.mean()
