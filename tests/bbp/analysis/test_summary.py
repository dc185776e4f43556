"""Finite-N theory beside a sweep: the law's own numbers, at a bounded cost."""

import numpy as np
import pytest

from bbp.analysis import summary
from bbp.analysis.summary import FEWEST_DRAWS, LABELS, THEORY_N, draws_of, finite_theory
from bbp.experiments import sweep
from bbp.experiments.columns import Field
from bbp.sweep import PROGRAM
from theory import finite
from theory.checks import ParameterError
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


@pytest.mark.parametrize("name", summary.NAMES)
def test_a_column_named_like_an_average_is_refused_before_any_sample_and_in_files(monkeypatch, made_up, name):
    message = f"column '{name}' of a sweep must have a name of its own: an average is called so"
    with pytest.raises(ParameterError, match=message):
        summary.summarise(made_up().assign({name: made_up().max_overlap_rank}))
    monkeypatch.setattr(sweep, "COLUMNS", (*sweep.COLUMNS, Field(name, ("sample",))))
    with pytest.raises(ParameterError, match=message):
        PROGRAM.experiment({"alpha_grid": "1", "n": 12})


def test_two_columns_of_one_name_are_refused_before_any_sample(monkeypatch):
    monkeypatch.setattr(sweep, "COLUMNS", (*sweep.COLUMNS, *[Field("ipr", ("sample",), words="any")] * 2))
    with pytest.raises(ParameterError, match=r"^column 'ipr' of a sweep .*: another is called so$"):
        PROGRAM.experiment({"alpha_grid": "1", "n": 12})
