"""Answers print in a line, errors beside values, and as a table with units in a notebook."""

import numpy as np
import pytest

from theory import Network, edge, finite, outliers, spectrum, threshold
from theory.answers import Edge, Prediction, Threshold

MODEL = Network(2, 1, 0.3)


def test_a_line_holds_what_differs_from_the_defaults():
    left = edge(MODEL, 2.5)
    assert str(left) == repr(left) == f"Edge(value={left.value:.11g}, kind='sharp')"
    (out,) = outliers(MODEL, 2.5)
    assert str(out) == f"Outlier(value={out.value:.11g}, overlap={out.overlap:.11g}, multiplicity=2)"
    assert str(threshold(MODEL)).startswith("Threshold(alpha=1.0688400298, kind='continuous', jump=0, ")


def test_errors_set_the_digits():
    assert str(Edge(-0.58565432, "smooth", 1.4e-4, "points")) == (
        "Edge(value=-0.58565 ± 0.0001, kind='smooth', route='points')"
    )
    assert "alpha=0.71 ± 0.3" in str(Threshold(0.7089, "continuous", np.nan, 0.31, route="draws"))
    assert "alpha=nan, kind='none'" in str(Threshold(np.nan, "none", np.nan, reason="weights positive"))


def test_arrays_are_told_by_shape_and_ends():
    found = spectrum(MODEL, np.linspace(0.5, 3, 500))
    assert len(str(found)) < 420 and "alpha=array (500,), 0.5 to 3, edge=" in str(found)
    assert "lowest=array (2, 4), " in str(finite.law(MODEL, [2.0, 3.0], 100, draws=4))


def test_the_error_stands_behind_what_was_asked():
    point = Threshold(2.0, "continuous", np.nan, 0.03, n=100, share=0.9149, asked="share")
    assert str(point) == "Threshold(alpha=2, kind='continuous', jump=nan, n=100, share=0.915 ± 0.03)"
    here = Prediction(-1.2345, 30.0, lowest=-1.4321, lowest_error=0.05)
    assert str(here) == "Prediction(edge=-1.2345, scale=30, lowest=-1.432 ± 0.05)"
    with pytest.raises(AttributeError, match=r"^Prediction.std is now lowest_error$"):
        print(here.std)


def test_a_table_says_units():
    table = Edge(-0.58565432, "smooth", 1.4e-4, "points")._repr_html_()
    assert "<td>value</td><td>-0.58565</td><td>0.0001</td><td>Hessian</td>" in table
    assert "<td>alpha</td><td>1.0688400298</td><td></td><td>M/N</td>" in threshold(MODEL)._repr_html_()
    assert "<script>" not in Edge(0.0, "<script>")._repr_html_()
