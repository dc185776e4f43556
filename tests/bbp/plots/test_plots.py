"""Plotting functions draw the data they are given, and the style tells curves apart in grey."""

import itertools
import math

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import colors
from matplotlib.figure import Figure

import bbp
from bbp.plots import phase as phase_plots
from bbp.plots import spectrum as spectrum_plots
from bbp.plots import style
from bbp.plots import sweep as sweep_plots
from theory.checks import ParameterError


@pytest.fixture
def ax():
    return Figure().subplots()


def test_sampled_points_carry_means_and_error_bars(ax):
    alpha, values = [0.5, 1.0, 2.0], np.array([[1.0, 3.0], [np.nan, np.nan], [5.0, np.nan]])
    points, _, bars = sweep_plots.sampled_points(ax, alpha, values, index=1, filled=False, label="N").lines
    np.testing.assert_array_equal(points.get_xydata(), [[0.5, 2.0], [2.0, 5.0]])
    heights = [segment[:, 1] for segment in bars[0].get_segments()]
    np.testing.assert_allclose(heights, [[1.0, 3.0], [5.0, 5.0]])
    assert points.get_markerfacecolor() == "white" and points.get_color() == style.colour(1)
    assert points.get_marker() == style.marker(1)


def test_theory_curves_carry_the_theory(ax):
    alpha, edge = np.array([1.0, 2.0, 3.0]), np.array([-3.0, -2.0, -1.0])
    outlier, overlap = np.array([np.nan, -2.5, -2.0]), np.array([np.nan, 0.1, 0.2])
    below, out = sweep_plots.edge_and_outlier(ax, alpha, edge, outlier)
    np.testing.assert_array_equal(below.get_ydata(), edge)
    np.testing.assert_array_equal(out.get_ydata(), outlier)
    assert below.get_linestyle() != out.get_linestyle()
    np.testing.assert_array_equal(sweep_plots.overlap_curve(ax, alpha, overlap).get_ydata(), overlap)


def test_smooth_curves_pass_through_their_points_and_leave_nan_out():
    """Monotone in between, a parabola's middle to 2 %; two points stay two."""
    alpha, values = np.linspace(1, 2, 6), np.linspace(1, 2, 6) ** 2
    at, (curve, twice) = sweep_plots.between([*alpha, 3.0], [*values, np.nan], [*(2 * values), 1.0])
    np.testing.assert_allclose(np.interp(alpha, at, curve), values, rtol=1e-12)
    np.testing.assert_allclose(curve, at**2, rtol=0.02)
    np.testing.assert_allclose(twice, 2 * curve, rtol=1e-12)
    assert at[-1] == 2 and np.all(np.diff(curve) > 0)
    assert sweep_plots.between([1.0, 2.0], [3.0, 4.0])[0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", style.KINDS)
def test_the_threshold_is_marked_and_its_kind_told(ax, kind):
    line = sweep_plots.mark_threshold(ax, 1.25, kind)
    assert list(line.get_xdata()) == [1.25, 1.25]
    assert "1.25" in line.get_label() and line.get_label().endswith(f", {kind}")


def test_continuous_and_discontinuous_parts_meet_at_the_tricritical_point(ax):
    a, alpha = np.array([0.1, 0.5, 1.0, 2.0]), np.array([2.0, 1.5, 1.6, 2.4])
    jumps = np.array([False, False, True, True])
    solid, dashed, point = phase_plots.threshold_curve(ax, a, alpha, jumps, p=2, a_c=0.7, alpha_c=1.4)
    np.testing.assert_array_equal(solid.get_xydata(), [[0.1, 2.0], [0.5, 1.5], [0.7, 1.4]])
    np.testing.assert_array_equal(dashed.get_xydata(), [[0.7, 1.4], [1.0, 1.6], [2.0, 2.4]])
    np.testing.assert_array_equal(point.get_xydata(), [[0.7, 1.4]])
    assert solid.get_linestyle() == "-" and dashed.get_linestyle() == "--"
    assert solid.get_color() == dashed.get_color()


@pytest.mark.parametrize("a_c", [0.0, 9.0, math.nan, math.inf])
def test_no_tricritical_mark_outside_the_grid(ax, a_c):
    a, alpha = np.array([0.1, 1.0]), np.array([0.5, 0.9])
    solid, dashed, point = phase_plots.threshold_curve(
        ax, a, alpha, [True, True], p=math.inf, a_c=a_c, alpha_c=0.5
    )
    assert len(solid.get_xdata()) == 0 and len(point.get_xdata()) == 0
    np.testing.assert_array_equal(dashed.get_xydata(), np.stack([a, alpha], axis=1))
    assert solid.get_label() == r"$p = \infty$"


def test_thresholds_against_width_split_by_kind(ax):
    artists = phase_plots.widths_curve(
        ax,
        [1, 2, 4],
        [1.2, 1.0, 0.9],
        [False, True, True],
        alpha_0={"overlap": [np.nan, 0.9, 0.8], "continuation": [np.nan, np.nan, 0.8]},
        limit=0.95,
    )
    np.testing.assert_array_equal(artists["continuous"].get_xydata(), [[1, 1.2]])
    np.testing.assert_array_equal(artists["discontinuous"].get_xydata(), [[2, 1.0], [4, 0.9]])
    np.testing.assert_array_equal(artists["alpha_0 overlap"].get_ydata(), [np.nan, 0.9, 0.8])
    np.testing.assert_array_equal(artists["alpha_0 continuation"].get_ydata(), [np.nan, np.nan, 0.8])
    assert artists["limit"].get_ydata()[0] == 0.95
    assert artists["continuous"].get_color() != artists["discontinuous"].get_color()
    assert artists["continuous"].get_marker() != artists["discontinuous"].get_marker()


def test_pooled_eigenvalues_are_a_density_over_all_of_them(ax):
    values = np.array([-1.0, -0.9, -0.9, 5.0])
    heights, edges, _ = spectrum_plots.pooled_eigenvalues(
        ax, values, [-1.05, -0.95, -0.85], total=8
    ).get_data()
    np.testing.assert_allclose(heights, [1 / 8 / 0.1, 2 / 8 / 0.1])
    np.testing.assert_array_equal(edges, [-1.05, -0.95, -0.85])


def test_spectrum_marks(ax):
    line = spectrum_plots.density_curve(ax, [0.0, 1.0], [0.2, 0.3])
    np.testing.assert_array_equal(line.get_ydata(), [0.2, 0.3])
    assert "sharp" in spectrum_plots.mark_edge(ax, -1.0, "sharp").get_label()
    mark = spectrum_plots.mark_outlier(ax, -1.2, 0.25)
    assert mark.get_xdata()[0] == -1.2 and "0.250" in mark.get_label()


def test_neighbouring_curves_differ_in_lightness_and_in_marker():
    """In grey print: luminance of successive colours (Rec. 709) at least 0.1 apart, every marker distinct."""
    luminance = [np.dot(colors.to_rgb(tint), [0.2126, 0.7152, 0.0722]) for tint in style.COLOURS]
    assert all(abs(one - two) > 0.1 for one, two in itertools.pairwise(luminance))
    assert len(set(style.MARKERS)) == len(style.MARKERS) == len(style.COLOURS)
    assert max(luminance) < 0.75  # dark enough on white paper


def test_the_style_is_left_at_the_door():
    before = dict(mpl.rcParams)
    with style.figure_style():
        assert mpl.rcParams["text.usetex"] is False
    assert dict(mpl.rcParams) == before


def test_widths_of_print():
    assert style.new_figure("single", 2.0).get_figwidth() == 3.4
    with pytest.raises(ParameterError, match="single, double, got 'wide'"):
        style.new_figure("wide", 2.0)


@pytest.mark.parametrize("panel", ["a", "b"])
def test_a_panel_on_axes_of_ones_own_gives_the_artists_it_adds(ax, made_up, panel):
    """Those of the whole figure, under their labels; what was on the axes before is not among them."""
    (before,) = ax.plot([0, 1], [0, 1])
    found = made_up()
    added = bbp.plot(found, ax, panel=panel)
    assert before not in added and set(ax.get_children()) >= set(added)
    labels = {artist.get_label() for artist in ax.containers}
    whole = bbp.plot.draw(found).axes["ab".index(panel)]
    assert labels == {artist.get_label() for artist in whole.containers} != set()
    with pytest.raises(ParameterError, match="panel must be one of a, b"):
        bbp.plot(found, ax, panel="c")
