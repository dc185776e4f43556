"""The picture of the phases against thresholds called one by one."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bbp.explorer.answer import answer, phase_here
from bbp.explorer.phase_map import COLUMNS, nearest_row, phase_map, phases
from bbp.explorer.state import WIDTHS, State
from theory import Committee, alpha_zero, bbp_threshold, critical_normalisation
from theory.exact.transition import threshold_map
from theory.general import threshold


@pytest.mark.parametrize("p_star", [1, 3])
def test_the_phase_diagram_is_that_of_theory(p_star):
    found = phase_map(p_star)
    rng = np.random.default_rng(0)
    alpha = 1.2 * p_star
    codes = phases(found, alpha)
    for row, column in zip(rng.integers(0, len(WIDTHS), 30), rng.integers(0, COLUMNS, 30), strict=True):
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


@pytest.mark.parametrize(("p_star", "noise"), [(1, 0.0), (2, 0.0), (1, 1.0), (7, 0.21)])
def test_the_picture_of_phases_is_close_to_its_thresholds(p_star, noise):
    """The second and third are the worst of a scan over p_star and noise: bends next to a_c, and where noise equals signal."""
    found, widths = phase_map(p_star, noise), np.array(WIDTHS)[:, None]
    some = slice(3, None, 5)
    exact = threshold_map(widths, p_star, found.a[some], noise)
    error = np.abs(found.alpha_bbp[:, some] / exact.alpha - 1)
    assert np.max(error) < 0.01
    assert np.median(error) < 0.001
    assert np.array_equal(found.a[some] >= found.a_c[:, None], exact.discontinuous)


def test_the_phase_diagram_with_noise_is_that_of_the_general_theory():
    found, rng, alpha = phase_map(1, 0.3), np.random.default_rng(1), 2.0
    codes, seen = phases(found, alpha), 0
    for row, column in zip(rng.integers(0, len(WIDTHS), 20), rng.integers(0, COLUMNS, 20), strict=True):
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


def test_the_row_of_a_width_is_its_own_or_between():
    assert [nearest_row(p) for p in WIDTHS] == list(range(len(WIDTHS)))
    assert 6 < nearest_row(9) < 8
