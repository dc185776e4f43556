"""What the panels draw against theory called directly, over the corners of the controls."""

import itertools
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from bbp.explorer import curves, figures
from bbp.explorer.answer import Answer, answer, phase_here
from bbp.explorer.state import WIDTHS, State
from theory import Committee, alpha_zero, bbp_threshold, bulk_edge, critical_normalisation, density, outlier
from theory.general import threshold
from theory.transition import threshold_map

CORNERS = list(itertools.product((1, 3, 512, math.inf), (1, 64), (0.01, 100.0), (0.1, 1.0, 200.0)))


@pytest.mark.parametrize(("p", "p_star", "a", "alpha"), CORNERS)
def test_every_corner_answers_with_finite_axes_and_equal_columns(p, p_star, a, alpha):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = answer(State(p, p_star, a, alpha))
    for name, columns in found.sources.items():
        assert set(columns) == set(figures.COLUMNS[name])
        assert len({len(values) for values in columns.values()}) == 1
    for left, right, low, high in found.axes.values():
        assert left < right
        assert low < high
        assert np.all(np.isfinite([left, right, low, high]))
    assert sum(len(values) for columns in found.sources.values() for values in columns.values()) < 10_000


def test_the_density_integrates_to_the_mass_it_should_show():
    whole, window = curves.spectrum(Committee(2, 1, 0.3), 2.0)
    held = np.trapezoid(whole.rho, whole.lam)
    assert 0.75 < held < 1.0
    assert window.left < whole.outlier.value < whole.edge.value < window.right


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
    for drawn in curves.spectrum(model, alpha):
        exact = density(model, alpha, drawn.lam)
        assert np.max(np.abs(drawn.rho - exact)) < bound * np.max(exact)


def test_branches_are_those_of_single_calls():
    model = Committee(1, 2, 0.5)
    found = curves.branch(model, curves.axis_end(model, 3.0))
    for index in (0, 40, len(found.alpha) // 2, -1):
        alpha = float(found.alpha[index])
        out = outlier(model, alpha)
        assert found.edge[index] == pytest.approx(bulk_edge(model, alpha).value, rel=1e-9)
        assert found.overlap[index] == pytest.approx(out.overlap if out else 0.0, abs=1e-9)
    threshold = bbp_threshold(model).alpha
    assert np.min(np.abs(found.alpha - threshold)) < 1e-8 * threshold
    assert np.all(np.diff(found.alpha) > 0)


def test_the_axis_of_alpha_holds_the_present_point_and_stands_still():
    model = Committee(1, 1, 1.0)
    ends = [curves.axis_end(model, alpha) for alpha in (0.1, 1.0, 3.0, 3.3, 30.0, 200.0)]
    assert ends[0] == ends[1] == ends[2]
    assert all(
        end >= 1.02 * alpha for end, alpha in zip(ends, (0.1, 1.0, 3.0, 3.3, 30.0, 200.0), strict=True)
    )


@pytest.mark.parametrize("p_star", [1, 3])
def test_the_phase_diagram_is_that_of_theory(p_star):
    found = curves.phase_map(p_star)
    rng = np.random.default_rng(0)
    alpha = 1.2 * p_star
    codes = curves.phases(found, alpha)
    for row, column in zip(rng.integers(0, len(WIDTHS), 60), rng.integers(0, curves.FINE, 60), strict=True):
        model = Committee(WIDTHS[row], p_star, float(found.a[column]))
        exact = bbp_threshold(model)
        zero = alpha_zero(model)
        beside = [alpha_zero(replace(model, a=model.a * factor)) for factor in (0.8, 1.25)]
        if None in (zero, *beside) and any((zero, *beside)):
            continue  # the picture is a column wide where alpha_0 ceases to exist
        near = [abs(alpha / edge - 1) for edge in (exact.alpha, zero) if edge is not None]
        if min(near) > 0.01 and abs(model.a / (critical_normalisation(model.p, p_star) + 1e-9) - 1) > 0.01:
            assert codes[row, column] == phase_here(State(model.p, p_star, model.a, alpha))
    table = found.columns
    pick = int(rng.integers(len(table["a"])))
    model = Committee(table["p"][pick], p_star, float(table["a"][pick]))
    assert table["alpha_bbp"][pick] == pytest.approx(bbp_threshold(model).alpha, rel=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_picture_of_phases_is_close_to_its_thresholds(noise):
    """Straight lines between normalisations 17 % apart: the corner at a_c is cut, by less than a column of the picture."""
    found, widths = curves.phase_map(1, noise), np.array(WIDTHS)[:, None]
    error = np.abs(found.alpha_bbp / threshold_map(widths, 1, found.a, noise).alpha - 1)
    assert np.max(error) < 0.04
    assert np.median(error) < 0.002


def test_the_phase_diagram_with_noise_is_that_of_the_general_theory():
    found, rng, alpha = curves.phase_map(1, 0.3), np.random.default_rng(1), 2.0
    codes, seen = curves.phases(found, alpha), 0
    for row, column in zip(rng.integers(0, len(WIDTHS), 20), rng.integers(0, curves.FINE, 20), strict=True):
        state = State(WIDTHS[row], 1, float(found.a[column]), alpha, noise=0.3)
        exact = threshold(state.model)
        lost = np.isnan(found.alpha_0[row, max(column - 6, 0) : column + 7])
        if np.any(lost) != np.all(lost):
            continue  # the picture is a column wide where alpha_0 ceases to exist
        near = [abs(alpha / edge - 1) for edge in (exact.alpha, exact.alpha_0) if not math.isnan(edge)]
        if min(near) > 0.02 and abs(np.log(state.a / (found.a_c[row] + 1e-9))) > 0.2:
            assert codes[row, column] == phase_here(state)
            seen += 1
    assert seen >= 10
    words = answer(State(noise=0.3)).words
    assert words["phase"] in words["phases-words"]
    assert "not among them" in answer(State(covariance="mp:0.5")).words["phases-words"]


def test_nothing_is_sent_twice():
    sent = Answer()
    first = answer(State()).unlike(sent)
    assert {"density", "branch", "phases"} <= set(first.sources)
    again = answer(State()).unlike(sent)
    assert not again.sources
    assert not again.lines
    assert not again.axes
    moved = answer(State(alpha=2.1)).unlike(sent)
    assert "density" in moved.sources
    assert "branch" not in moved.sources
    assert "thresholds" not in moved.sources


def test_the_row_of_a_width_is_its_own_or_between():
    assert [curves.nearest_row(p) for p in WIDTHS] == list(range(len(WIDTHS)))
    assert 6 < curves.nearest_row(9) < 8
