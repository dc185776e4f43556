"""What the panels draw against theory called directly, over the corners of the controls."""

import itertools
import math
import warnings

import numpy as np
import pytest

import theory
from bbp.explorer import curves
from bbp.explorer.answer import COLUMNS as SOURCES
from bbp.explorer.answer import Answer, all_but_diagram, answer, diagram, phase_here
from bbp.explorer.curves import COLUMNS, nearest_row, phases, threshold_of
from bbp.explorer.state import WIDTHS, State
from theory import Committee, bbp_threshold, bulk_edge, density

CORNERS = list(itertools.product((1, 512, math.inf), (1, 64), (0.01, 100.0), (0.1, 1.0, 200.0)))


@pytest.mark.parametrize(("p", "p_star", "a", "alpha"), CORNERS)
def test_every_corner_answers_with_finite_axes_and_equal_columns(p, p_star, a, alpha):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = answer(State(p, p_star, a, alpha))
    for name, columns in found.sources.items():
        assert set(columns) == set(SOURCES[name])
        assert len({len(values) for values in columns.values()}) == 1
    for left, right, low, high in found.axes.values():
        assert left < right
        assert low < high
        assert np.all(np.isfinite([left, right, low, high]))
    assert sum(len(values) for columns in found.sources.values() for values in columns.values()) < 10_000


def test_the_density_integrates_to_the_mass_it_should_show():
    found = answer(State(2, 1, 0.3, 2.0))
    density = found.sources["density"]
    assert 0.75 < np.trapezoid(density["rho"], density["lam"]) < 1.0
    left, right, *_ = found.axes["zoom"]
    assert left < found.sources["outlier"]["lam"][0] < found.lines["edge"] < right


@pytest.mark.parametrize(
    ("model", "alpha", "bound"),
    [
        (Committee(2, 1, 0.3), 2.0, 1e-7),
        (Committee(8, 2, 1.0), 0.5, 1e-7),
        (Committee(1, 5, 3.0), 50.0, 1e-5),
        (Committee(math.inf, 5, 0.3), 50.0, 1e-5),
    ],
)
def test_the_density_drawn_is_that_of_theory(model, alpha, bound):
    """The last two are among the worst of a scan over models: a sharp edge far narrower than the window."""
    for drawn in curves.committee_density(model, alpha)[::2]:
        exact = density(model, alpha, drawn["lam"])
        assert np.max(np.abs(drawn["rho"] - exact)) < bound * np.max(exact)


def test_branches_are_those_of_single_calls():
    model = Committee(1, 2, 0.5)
    found = curves.committee_branch(model, curves.axis_end(model, 3.0))
    for index in (0, 40, len(found["alpha"]) // 2, -1):
        alpha = float(found["alpha"][index])
        out = next(iter(theory.outliers(model, alpha)), None)
        assert found["edge"][index] == pytest.approx(bulk_edge(model, alpha).value, rel=1e-9)
        assert found["overlap"][index] == pytest.approx(out.overlap if out else 0.0, abs=1e-9)
    threshold = bbp_threshold(model).alpha
    assert np.min(np.abs(found["alpha"] - threshold)) < 1e-8 * threshold
    assert np.all(np.diff(found["alpha"]) > 0)


def test_the_axis_of_alpha_holds_the_present_point_and_stands_still():
    model = Committee(1, 1, 1.0)
    ends = [curves.axis_end(model, alpha) for alpha in (0.1, 1.0, 3.0, 3.3, 30.0, 200.0)]
    assert ends[0] == ends[1] == ends[2]
    assert all(
        end >= 1.02 * alpha for end, alpha in zip(ends, (0.1, 1.0, 3.0, 3.3, 30.0, 200.0), strict=True)
    )


def test_nothing_is_sent_twice():
    sent = Answer()
    seen, state = curves.phase_map(1), State()

    def told(state):
        found = all_but_diagram(state)
        found |= diagram(state, seen)
        return found.unlike(sent)

    first = told(state)
    assert {"density", "branch", "phases"} <= set(first.sources)
    again = told(state)
    assert not again.sources
    assert not again.lines
    assert not again.axes
    moved = told(State(alpha=2.1))
    assert "density" in moved.sources
    assert "branch" not in moved.sources
    assert "thresholds" not in moved.sources


@pytest.mark.parametrize(("p_star", "noise"), [(1, 0.0), (3, 0.0), (1, 1.0), (7, 0.21)])
def test_the_phase_diagram_is_that_of_theory(p_star, noise):
    found, rng, alpha = curves.phase_map(p_star, noise), np.random.default_rng(0), 1.2 * p_star
    codes, table = phases(found, alpha), diagram(State(p_star=p_star), found).sources["thresholds"]
    for row, column in zip(rng.integers(0, len(WIDTHS), 30), rng.integers(0, COLUMNS, 30), strict=True):
        state = State(WIDTHS[row], p_star, float(found.a[column]), alpha, noise=noise)
        assert codes[row, column] == phase_here(state)
        assert found.alpha_bbp[row, column] == pytest.approx(threshold_of(state.model).alpha, rel=1e-9)
    pick = int(rng.integers(len(table["a"])))
    model = State(table["p"][pick], p_star, float(table["a"][pick]), noise=noise).model
    assert table["alpha_bbp"][pick] == pytest.approx(threshold_of(model).alpha, rel=1e-9)


def test_the_words_of_the_diagram_are_those_of_the_phase():
    words = answer(State(noise=0.3)).words
    assert words["phase"] in words["phases-words"]
    assert "not among them" in answer(State(covariance="mp:0.5")).words["phases-words"]


def test_the_row_of_a_width_is_its_own_or_between():
    assert [nearest_row(p) for p in WIDTHS] == list(range(len(WIDTHS)))
    assert 6 < nearest_row(9) < 8
