"""Means over draws less what their labels explain: the sums have the means that theory says, and errors are as stated."""

import numpy as np
import pytest

from theory import Committee
from theory.exact.committee import committee_labels
from theory.finite.label_bulk import Labels, controlled_mean, label_excess
from theory.finite.law import finite_law, law_of_labels


@pytest.mark.parametrize(
    ("model", "alpha"),
    [(Committee(1, 1, 0.5), 1.2), (Committee(2, 1, 0.3), 2.0), (Committee(4, 2, 3.0), 0.7)],
)
def test_sums_over_labels_exceed_their_means_by_nothing_on_the_average(model, alpha):
    """400 draws of 200 labels: within 4 of their standard errors (six comparisons, false alarm 4e-4)."""
    rng = np.random.default_rng(7)
    labels = Labels.of(
        model, rng.standard_normal((400, 200, model.p)), rng.standard_normal((400, 200, model.p_star)), 150
    )
    excess = label_excess(model, labels, alpha)
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


def test_means_of_the_law_have_smaller_errors_and_shared_labels_are_left_alone():
    model = Committee(2, 1, 0.3)
    law = finite_law(model, 1.5, 100, draws=100)
    for name, most in (("lowest", 0.75), ("overlap", 0.95)):  # 0.5 and 0.75 are usual
        plain = getattr(law, name)
        value, error = law.mean(name)
        assert error < most * law.std(name) / 10 and abs(value - plain.mean()) < 4 * law.std(name) / 10
    lam, u = committee_labels(model, 150, np.random.default_rng(0))
    shared = law_of_labels(model, lam, u, 100, draws=30)
    assert shared.mean("lowest")[0] == shared.lowest.mean()
