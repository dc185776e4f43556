"""Thresholds, edges, outliers and overlaps to 1e-10 against 30-digit arithmetic by other formulas (tests/theory/oracle.py).

The table covers 50 models: a from 1e-6 to 100, p to 512 and inf, p_star to 50, a within 1e-6 of a_c on both sides, and
alpha within 1e-6 of alpha_BBP on both sides. A few of its entries are computed afresh here, all of them with -m slow.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import theory
from tests.theory import oracle
from theory.exact.averages import Widths, average, kernel_k, kernel_u, kernel_v, kernel_w
from theory.exact.outliers import edge_gap
from theory.exact.transition import threshold_map
from theory.model import Network

TABLE = json.loads((Path(__file__).parents[2] / "data" / "theory_oracle.json").read_text())["models"]


def committee(row):
    return Network(float(row["p"]) if row["p"] == "inf" else row["p"], row["p_star"], row["a"])


def unit(model):
    return 1.0 if math.isinf(model.p) else 2 / model.p


def test_table_is_wide_enough():
    models = {(str(r["p"]), r["p_star"], r["a"]) for r in TABLE}
    assert len(models) >= 40
    assert any(r["a"] == 1e-4 and r["p"] == 512 for r in TABLE) and any(r["p_star"] == 50 for r in TABLE)


@pytest.mark.parametrize("row", TABLE, ids=lambda r: f"{r['p']}-{r['p_star']}-{r['a']:.6g}")
def test_model(row):
    model = committee(row)
    found = theory.threshold(model)
    assert found.kind == row["kind"]
    assert found.alpha == pytest.approx(float(row["alpha"]), rel=1e-12, abs=0)
    assert found.jump == pytest.approx(float(row["jump"]), rel=1e-10, abs=0)
    points = row["points"]
    branch = theory.spectrum(model, [p["alpha"] for p in points])
    gaps = edge_gap(model, [p["alpha"] for p in points])
    for i, point in enumerate(points):
        assert (branch.kind[i] == "sharp") == (point["edge_kind"] == "sharp")
        assert branch.edge[i] == pytest.approx(unit(model) * float(point["edge"]), rel=1e-10, abs=0)
        if point["outlier"] is None:
            assert np.isnan([branch.outlier[i], branch.overlap[i], gaps[i]]).all()
            continue
        assert branch.outlier[i] == pytest.approx(unit(model) * float(point["outlier"]), rel=1e-10, abs=0)
        assert branch.overlap[i] == pytest.approx(float(point["overlap"]), rel=1e-10, abs=0)


def test_gap_of_edge_and_outlier():
    """Their distance to 1e-9, even where it is 1e-12 of either: the strings carry 30 digits."""
    for row in TABLE:
        model = committee(row)
        points = [p for p in row["points"] if p["outlier"] is not None]
        gaps = edge_gap(model, [p["alpha"] for p in points])
        for gap, point in zip(gaps, points, strict=True):
            exact = oracle.mp.mpf(point["edge"]) - oracle.mp.mpf(point["outlier"])
            assert gap == pytest.approx(unit(model) * float(exact), rel=1e-9, abs=0), (
                row["p"],
                row["a"],
                point,
            )


@pytest.mark.parametrize(
    "p, p_star, a, r",
    [(1, 1, 1e-4, 0.37), (2, 1, 0.3, 1e-7), (3, 5, 30.0, 0.0), (512, 1, 0.3, 2.0), (math.inf, 50, 1.0, 0.1)],
)
def test_averages(p, p_star, a, r):
    exact = oracle.averages(p, p_star, a, r)
    t = 1 / (1 + oracle.mp.mpf(r))
    expected = (exact.phi, exact.phi2 * t**2, t * (exact.phi - exact.y_phi), exact.y_phi2 * t**2)
    at = np.array([float(t)]), np.array([r / (1 + r)])
    for value, right in zip(
        average([kernel_k, kernel_w, kernel_u, kernel_v], Widths.of([p], p_star, a), *at),
        expected,
        strict=True,
    ):
        assert value[0] == pytest.approx(float(right), rel=2e-14, abs=0)


def test_oracle_quadrature_is_that_of_mpmath():
    plain = oracle.by_adaptive_quadrature(2, 1, 0.3, 0.4, 3)
    ours = oracle._over_yhat(
        lambda x: oracle._over_y(1, oracle.mp.mpf(0.3), oracle.mp.mpf(0.4), 3, x), 2, 0.3
    )[0]
    assert abs(plain / ours - 1) < 1e-28


def test_some_of_the_table_afresh():
    for row in TABLE:
        if (row["p"], row["p_star"], row["a"]) in ((2, 1, 1.0), ("inf", 1, 1.0), (1, 1, 0.1)):
            model = committee(row)
            guess = oracle.threshold_root(Widths.of([model.p], model.p_star, model.a))[0]
            alpha, kind, jump = oracle.threshold(model.p, model.p_star, model.a, guess)
            assert kind == row["kind"]
            assert same(alpha, row["alpha"]) and same(jump, row["jump"])


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(TABLE)))
def test_table_afresh(index):
    old = TABLE[index]
    model = committee(old)
    model = model.p, model.p_star, model.a
    alpha, kind, jump = oracle.threshold(*model, oracle.threshold_root(Widths.of([model[0]], *model[1:]))[0])
    assert kind == old["kind"] and same(alpha, old["alpha"]) and same(jump, old["jump"])
    for point in old["points"]:
        at = point["alpha"]
        value, kind, outlier, overlap = oracle.point(*model, at, *oracle.starts(model, at))
        assert kind == point["edge_kind"] and same(value, point["edge"])
        assert same(outlier, point["outlier"]) and same(overlap, point["overlap"])


def same(value, digits):
    """Equal to 24 digits, or both None. The last few of the 30 depend on where the secant method starts."""
    if value is None or digits is None:
        return value is None and digits is None
    value, digits = oracle.mp.mpf(value), oracle.mp.mpf(digits)
    return abs(value - digits) <= oracle.mp.mpf(10) ** -24 * max(abs(digits), oracle.mp.mpf(10) ** -3)


def test_map_and_single_thresholds_agree_on_the_table():
    models = [committee(r) for r in TABLE]
    table = threshold_map([m.p for m in models], [m.p_star for m in models], [m.a for m in models])
    np.testing.assert_allclose(table.alpha, [float(r["alpha"]) for r in TABLE], rtol=1e-12)


# ---- data/values.json: every number that the theory on the real axis must reproduce ----


def test_thresholds(reference):
    for row in reference["thresholds"]:
        found = theory.threshold(committee(row))
        assert found.kind == row["kind"], row
        assert found.alpha == pytest.approx(row["alpha"], rel=1e-12, abs=0), row
        assert (found.jump > 0) == (row["kind"] == "discontinuous"), row


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
