"""Names that users were told before: they work, or one line says the new one."""

import importlib

import pytest

import theory.finite
import theory.general


@pytest.mark.parametrize(
    ("name", "new"),
    [("finite_n", "finite"), ("finite_n.law", "finite"), ("quenched", "finite.quenched")],
)
def test_former_modules_say_where_they_are(name, new):
    with pytest.raises(ImportError, match=rf"^theory\.{name.split('.')[0]} is now theory\.{new}$"):
        importlib.import_module(f"theory.{name}")


def test_modules_of_finite_n_are_the_same_objects():
    former = importlib.import_module("theory.finite.law")
    for gone in ("edge.edge_scale", "quenched.quenched_mean", "threshold.margin_threshold"):
        module, name = gone.split(".")
        with pytest.raises(NotImplementedError, match=f"^{name} is now .*finite"):
            getattr(importlib.import_module(f"theory.finite.{module}"), name)(1, n=2)
    assert former.finite_law is theory.finite.law
    assert importlib.import_module("theory.finite.questions").quantile is theory.finite.quantile
    assert importlib.import_module("theory.finite.validity").doubt is former.doubt


def test_first_names_of_the_front():
    assert (
        theory.bbp_threshold is theory.threshold and theory.general.Spectrum is theory.general.results.Found
    )
    assert theory.bulk_edge is theory.edge and theory.teacher_branch is theory.spectrum
    model = theory.Network(a=0.5)
    assert [theory.outlier(model, 3.0)] == list(theory.outliers(model, 3.0))


@pytest.mark.parametrize("name", ["general.ScalarLaw", "general.activation_weight", "student_outliers"])
def test_what_went_says_what_takes_its_place(name):
    module, _, last = f"theory.{name}".rpartition(".")
    with pytest.raises(ImportError, match=rf"^theory\.{name} is now [^\n]+$"):
        getattr(importlib.import_module(module), last)
