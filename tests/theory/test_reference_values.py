"""Every number of data/values.json that the theory on the real axis must reproduce."""

import math

import numpy as np
import pytest

import theory
from theory.exact.transition import threshold_map
from theory.model import Committee


def committee(row):
    return Committee(p=float(row["p"]) if row["p"] == "inf" else row["p"], p_star=row["p_star"], a=row["a"])


def test_thresholds(reference):
    for row in reference["thresholds"]:
        found = theory.threshold(committee(row))
        assert found.kind == row["kind"], row
        assert found.alpha == pytest.approx(row["alpha"], rel=1e-12, abs=0), row
        assert (found.jump > 0) == (row["kind"] == "discontinuous"), row


def test_threshold_map_is_the_thresholds_in_one_call(reference):
    rows = reference["thresholds"]
    models = [committee(row) for row in rows]
    table = threshold_map([m.p for m in models], [m.p_star for m in models], [m.a for m in models])
    singles = [theory.threshold(m) for m in models]
    np.testing.assert_allclose(table.alpha, [s.alpha for s in singles], rtol=1e-14)
    np.testing.assert_allclose(table.jump, [s.jump for s in singles], rtol=1e-13, atol=0)
    assert list(table.discontinuous) == [s.kind == "discontinuous" for s in singles]


def test_points(reference):
    for row in reference["points"]:
        model = committee(row)
        edge, found = theory.edge(model, row["alpha"]), next(iter(theory.outliers(model, row["alpha"])), None)
        assert edge.kind == row["edge_kind"]
        assert edge.value == pytest.approx(row["edge"], rel=1e-9, abs=0)
        assert (found is None) == (row["outlier"] is None)
        if found is not None:
            assert found.value == pytest.approx(row["outlier"], rel=1e-9, abs=0)
            assert found.overlap == pytest.approx(row["overlap"], rel=1e-8, abs=0)
            assert found.multiplicity == row["p"] * row["p_star"]


def test_branch_is_the_points_in_one_call():
    model = Committee(p=2, p_star=1, a=0.3)
    alphas = np.array([[0.5, 1.0, 1.5], [2.0, 2.5, 40.0]])
    branch = theory.spectrum(model, alphas)
    for index, alpha in np.ndenumerate(alphas):
        edge, found = theory.edge(model, alpha), next(iter(theory.outliers(model, alpha)), None)
        assert branch.edge[index] == pytest.approx(edge.value, rel=1e-13)
        assert (branch.kind[index] == "sharp") == (edge.kind == "sharp")
        assert math.isnan(branch.outlier[index]) == (found is None)
        if found is not None:
            assert branch.outlier[index] == pytest.approx(found.value, rel=1e-13)
            assert branch.overlap[index] == pytest.approx(found.overlap, rel=1e-12)
