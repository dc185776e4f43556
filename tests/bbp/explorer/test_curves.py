"""What the panels draw against theory called directly, over the corners of the controls."""

import itertools
import math
import warnings

import numpy as np
import pytest

from bbp.explorer import curves, figures
from bbp.explorer.answer import Answer, answer
from bbp.explorer.state import State
from tests.cases import cases
from theory import Committee, bbp_threshold, bulk_edge, density, outlier

CORNERS = list(itertools.product((1, 3, 512, math.inf), (1, 64), (0.01, 100.0), (0.1, 1.0, 200.0)))


@cases(("p", "p_star", "a", "alpha"), CORNERS)
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
