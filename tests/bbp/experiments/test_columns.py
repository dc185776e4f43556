"""Columns of samples: those declared, each with words that say what it is, or their samples fail."""

import numpy as np
import pytest

from bbp.experiments.columns import Computation, Field
from bbp.files.variables import DONE, FAILED

IPR = Field("ipr", ("sample",), words="fourth powers of the lowest eigenvector, summed")


def nothing(record, samples):
    return {}


def too_much(record, samples):
    return {name: np.zeros(len(samples)) for name in ("ipr", "spread")}


@pytest.mark.parametrize(
    ("compute_them", "words"),
    [(nothing, "declared, but not computed: ipr"), (too_much, "computed, but not declared: spread")],
)
def test_columns_are_those_declared_or_their_samples_fail(compute_them, words):
    found = Computation(compute_them, (IPR,)).columns({}, range(2), {})
    assert found["status"].tolist() == [FAILED] * 2 and np.isnan(found["ipr"]).all()
    assert set(found["reason"]) == {f"ValueError: {words}"}


def one_fails(record, samples):
    if record["fails"] in samples:
        raise ArithmeticError("no\n number")
    return {"ipr": np.array(samples, float)}


def test_a_sample_that_fails_costs_itself():
    found = Computation(one_fails, (IPR,)).columns({"fails": 6}, range(4, 9), {})
    assert found["status"].tolist() == [DONE, DONE, FAILED, DONE, DONE]
    np.testing.assert_array_equal(found["ipr"], [4, 5, np.nan, 7, 8])
    assert found["reason"].tolist() == ["", "", "ArithmeticError: no number", "", ""]


def test_a_column_says_what_it_is():
    """One that no page of the files knows is an observable, with words of its own."""
    with pytest.raises(ValueError, match="'ipr' must have words"):
        Field("ipr", ("sample",))
    with pytest.raises(ValueError, match="'edge' must have a name of its own: in files this is left edge"):
        Field("edge", ("sample",), words="another edge")
    assert Field("eigenvalues", ("sample", "eigenpair")).attributes == {}
    assert IPR.attributes == {"long_name": IPR.words, "observable": "ipr", "source": "bbp"}
