"""Finite-N theory beside a sweep: the law's own numbers, at a bounded cost."""

import numpy as np

from bbp.analysis import summary
from bbp.analysis.summary import FEWEST_DRAWS, LABELS, THEORY_N, draws_of, finite_theory
from theory import finite
from theory.model import Committee


def test_fields_are_those_of_the_law_and_sizes_without_a_bulk_are_nan():
    model, alpha = Committee(1, 1, 0.5), np.array([1.0, 2.0])
    found = finite_theory(model, [3, 40], alpha, seed=5)
    assert set(found) == {*THEORY_N, "draws"} and found.pop("draws").tolist() == [0, summary.MOST_DRAWS]
    assert all(values.shape == (2, 2) and np.isnan(values[0]).all() for values in found.values())
    law = finite.law(model, 2.0, 40, draws=summary.MOST_DRAWS, seed=5)
    for name in ("lowest", "overlap", "informative"):
        assert found[name][1, 1] == law.mean(name)[0]
    assert found["lowest_error"][1, 1] == law.mean("lowest")[1]
    assert found["overlap_std"][1, 1] == law.std("overlap")


def test_draws_are_bounded_by_the_labels_of_all_sizes():
    model, alpha, sizes = Committee(2, 1, 1.0), np.linspace(1, 2, 10), [400, 1600]
    draws = draws_of(model, sizes, alpha, 1600)
    assert FEWEST_DRAWS <= draws <= summary.MOST_DRAWS
    assert draws * alpha.sum() * 1600 * 3 * len(sizes) <= LABELS
    assert (
        draws_of(model, [50], alpha, 50) == summary.MOST_DRAWS and draws_of(model, [10**6], alpha, 10**6) == 0
    )
