"""Plotting functions draw the data they are given, and the style tells curves apart in grey."""

import itertools
import math

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib import colors
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

import bbp
from bbp.analysis.comparison import compare
from bbp.analysis.spectrum import Pool, Spectrum
from bbp.console.messages import FileError
from bbp.files import dataset
from bbp.files.variables import own_names
from bbp.plots import layout, marks, style
from bbp.plots import phase as phase_plots
from bbp.plots import spectrum as spectrum_plots
from theory.answers import Edge, Outlier
from theory.checks import ParameterError
from theory.model import Committee


@pytest.fixture
def ax():
    return Figure().subplots()


def test_sampled_points_carry_means_and_error_bars(ax):
    alpha, values = [0.5, 1.0, 2.0], np.array([[1.0, 3.0], [np.nan, np.nan], [5.0, np.nan]])
    points, _, bars = marks.sampled_points(ax, alpha, values, index=1, filled=False, label="N").lines
    np.testing.assert_array_equal(points.get_xydata(), [[0.5, 2.0], [2.0, 5.0]])
    heights = [segment[:, 1] for segment in bars[0].get_segments()]
    np.testing.assert_allclose(heights, [[1.0, 3.0], [5.0, 5.0]])
    assert points.get_markerfacecolor() == "white" and points.get_color() == style.colour(1)
    assert points.get_marker() == style.marker(1)


def test_smooth_curves_pass_through_their_points_and_leave_nan_out():
    """Monotone in between, a parabola's middle to 2 %; two points stay two."""
    alpha, values = np.linspace(1, 2, 6), np.linspace(1, 2, 6) ** 2
    at, (curve, twice) = marks.between([*alpha, 3.0], [*values, np.nan], [*(2 * values), 1.0])
    np.testing.assert_allclose(np.interp(alpha, at, curve), values, rtol=1e-12)
    np.testing.assert_allclose(curve, at**2, rtol=0.02)
    np.testing.assert_allclose(twice, 2 * curve, rtol=1e-12)
    assert at[-1] == 2 and np.all(np.diff(curve) > 0)
    assert marks.between([1.0, 2.0], [3.0, 4.0])[0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", style.KINDS)
def test_the_threshold_is_marked_and_its_kind_told(ax, kind):
    line = marks.mark_threshold(ax, 1.25, kind)
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
    values = {
        "alpha_bbp": [1.2, 1.0, 0.9, 0.95],
        "alpha_0_overlap": [1.2, 0.9, 0.8, np.nan],
        "alpha_0_continuation": [1.2, np.nan, 0.8, np.nan],
        "kind": ["continuous", "discontinuous", "discontinuous", "continuous"],
    }
    lines = xr.Dataset(
        {name: (("p", "a"), np.array(column)[:, None]) for name, column in values.items()},
        {"p": [1, 2, 4, np.inf], "a": [1.0]},
    )
    phase_plots.widths_panel(ax, lines, 0)
    drawn = {str(line.get_label()): line for line in ax.get_lines()}
    continuous, jumping = (drawn[rf"$\alpha_\mathrm{{BBP}}$, {kind}"] for kind in style.KINDS)
    np.testing.assert_array_equal(continuous.get_xydata(), [[1, 1.2]])
    np.testing.assert_array_equal(jumping.get_xydata(), [[2, 1.0], [4, 0.9]])
    np.testing.assert_array_equal(drawn[r"$\alpha_0$, overlap"].get_ydata(), [np.nan, 0.9, 0.8])
    np.testing.assert_array_equal(drawn[r"$\alpha_0$, continuation"].get_ydata(), [np.nan, np.nan, 0.8])
    assert drawn[r"$\alpha_\mathrm{BBP}$, $p = \infty$"].get_ydata()[0] == 0.95
    assert continuous.get_color() != jumping.get_color()
    assert continuous.get_marker() != jumping.get_marker()


def test_a_spectrum_is_a_density_of_all_eigenvalues_with_its_marks(ax):
    """Six of eight eigenvalues lie in the window: bars of area 6/8."""
    pool = Pool(np.array([[-1.0, -0.9, -0.8, 3.0], [-0.9, -0.7, 0.2, 5.0]]), 4, 4)
    found = Spectrum(
        Committee(1, 1, 0.5), 2.0, np.array([0.0, 1.0]), np.array([0.2, 0.3]), 0.25,
        Edge(-0.5, "sharp"), (Outlier(-1.2, 0.25),), pool,
    )  # fmt: skip
    spectrum_plots.spectrum_panel(ax, found, -1.05, 1.35)
    heights, edges, _ = next(patch for patch in ax.patches if isinstance(patch, StepPatch)).get_data()
    assert np.isclose((heights * np.diff(edges)).sum(), 6 / 8)
    drawn = {str(line.get_label()): line for line in ax.get_lines()}
    np.testing.assert_array_equal(drawn["theory"].get_ydata(), [0.2, 0.3])
    assert drawn["left edge (sharp)"].get_xdata()[0] == -0.5
    assert drawn["outlier, $q^2 = 0.250$"].get_xdata()[0] == -1.2
    assert drawn["atom at 0, mass 0.25"].get_xdata()[0] == 0


def test_neighbouring_curves_differ_in_lightness_and_in_marker():
    """In grey print: luminance of successive colours (Rec. 709) at least 0.1 apart, every marker distinct."""
    luminance = [np.dot(colors.to_rgb(tint), [0.2126, 0.7152, 0.0722]) for tint in style.COLOURS]
    assert all(abs(one - two) > 0.1 for one, two in itertools.pairwise(luminance))
    assert len(set(style.MARKERS)) == len(style.MARKERS) >= len(style.COLOURS)
    assert max(luminance) < 0.75  # dark enough on white paper


def test_the_style_is_left_at_the_door():
    before = dict(mpl.rcParams)
    with style.figure_style():
        assert mpl.rcParams["text.usetex"] is False
    with mpl.style.context(["bbp.plots.paper", "bbp.plots.talk"]):
        assert mpl.rcParams["axes.labelsize"] == 18 and mpl.rcParams["xtick.direction"] == "in"
    assert dict(mpl.rcParams) == before


def test_widths_of_print():
    assert style.new_figure("single", 2.0).get_figwidth() == 3.4
    with pytest.raises(ParameterError, match="single, double, got 'wide'"):
        style.new_figure("wide", 2.0)


@pytest.mark.parametrize("panel", ["a", "b"])
def test_a_panel_on_axes_of_ones_own_gives_the_artists_it_adds(ax, made_up, panel):
    """Those of the whole figure, under their labels; what was on the axes before is not among them."""
    ax.plot([0, 1], [0, 1])
    found, there = made_up(), set(map(id, ax.get_children()))
    added = bbp.plot(found, ax, panel=panel)
    assert set(map(id, added)) == set(map(id, ax.get_children())) - there
    labels = {artist.get_label() for artist in ax.containers}
    whole = bbp.plot.draw(found).axes["ab".index(panel)]
    assert labels == {artist.get_label() for artist in whole.containers} != set()
    with pytest.raises(ParameterError, match="panel must be one of a, b"):
        bbp.plot(found, ax, panel="c")


def test_many_curves_are_all_told_apart():
    """Fourteen: no two of the same colour and marker, from dark to light; few keep the colours of print."""
    looks = [(style.colour(k, 14), style.marker(k)) for k in range(14)]
    assert len({tint for tint, _ in looks}) == 14 and len({mark for _, mark in looks[:12]}) == 12
    luminance = [np.dot(colors.to_rgb(tint), [0.2126, 0.7152, 0.0722]) for tint, _ in looks]
    assert all(np.diff(luminance) > 0) and luminance[-1] < 0.75
    assert [style.colour(k, 6) for k in range(6)] == list(style.COLOURS)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.8, "0.8"), (0.1 + 0.7, "0.8"), (0.8000000001, "0.8"), (1e-5, "10^{-5}"), (3e-7, r"3 \times 10^{-7}"),
     (100000.0, "100000"), (math.inf, r"\infty"), (1.0, "1")],
)  # fmt: skip
def test_numbers_in_titles_are_plain(value, text):
    assert style.number(value) == text


def test_titles_wrap_where_the_panel_is_narrow():
    figure = Figure(figsize=(3.4, 2))
    ax = figure.subplots()
    words = [
        "$p = 2$",
        "$p^* = 1$",
        "$a = 0.8$",
        "tanh",
        "squared loss",
        "covariance power:0.5",
        "noise $0.3$",
    ]
    layout.title(ax, words)
    found = ax.get_title(loc="right")
    assert "\n" in found and found.replace(",\n", ", ") == ", ".join(words)
    figure.canvas.draw()
    assert ax._right_title.get_window_extent().x0 >= 0
    figure.set_size_inches(12, 2)
    layout.title_again(ax)
    assert ax.get_title(loc="right") == ", ".join(words)


def test_theory_of_few_draws_is_a_band_and_no_smooth_line(ax):
    alpha, mean, error = np.linspace(1, 2, 6), np.linspace(0, 1, 6) ** 2, np.full(6, 0.1)
    *_, few = marks.finite_band(ax, alpha, mean, 3 * error, error, draws=12)
    *_, many = marks.finite_band(ax, alpha, mean, 3 * error, error, draws=400)
    assert len(few.get_xdata()) == 6 and few.get_linestyle() != "-"
    assert len(many.get_xdata()) > 100 and many.get_linestyle() == "-"
    wide, own, *_ = ax.collections
    assert own.get_alpha() > 0.5 > wide.get_alpha()


def test_numbers_of_an_axis_do_not_meet(arranged):
    ax = Figure(figsize=(2.2, 1.5)).subplots()
    ax.set_xlim(0, 1e-3)
    ax.set_xticks(np.linspace(0, 1e-3, 11), [f"{x:.5f}" for x in np.linspace(0, 1e-3, 11)])
    ax.xaxis.set_major_formatter("{x:.5f}")
    assert style._meet(ax.xaxis)
    style.settle_ticks(ax.figure)
    assert not style._meet(ax.xaxis) and len(ax.get_xticks()) >= 2


@pytest.mark.parametrize(("low", "high", "count"), [(150, 1800, 3), (20, 100, 3), (1, 1e8, 5), (300, 400, 2)])
def test_a_logarithmic_axis_has_numbers(ax, low, high, count):
    ax.set_xlim(low, high)
    layout.log_axis(ax)
    ticks = [tick for tick in ax.get_xticks() if low <= tick <= high]
    assert 2 <= len(ticks) and abs(len(ticks) - count) <= 2


def test_several_files_are_told_apart(made_up, tmp_path):
    """Under what tells their models apart, else under their names; what would mix is refused."""
    one, two = made_up(Committee(1, 1, 0.5)), made_up(Committee(2, 1, 0.5), seed=1)
    left, right = bbp.plot.draw([one, two]).axes
    labels = {box.get_label() for box in right.containers}
    assert labels == {f"$p = {p}$: $N = {n}$" for p in (1, 2) for n in (20, 40)}
    assert left.get_title(loc="right") == "$p^* = 1$, $a = 0.5$"
    dark = [box.lines[0].get_color() for box in right.containers]
    assert len(set(dark)) == 4
    again = made_up(Committee(1, 1, 0.5), seed=1)
    named = bbp.plot.draw({"first": one, "second": again}).axes[1].containers
    assert {box.get_label() for box in named} == {
        f"{k}: $N = {n}$" for k in ("first", "second") for n in (20, 40)
    }
    paths = [tmp_path / "a" / "s.h5", tmp_path / "b" / "s.h5"]
    for path in paths:
        path.parent.mkdir()
        dataset.write(path, one)
    assert str(paths[0]) in next(iter(bbp.plot.draw(paths).axes[1].containers)).get_label()
    with pytest.raises(ParameterError, match="is given twice"):
        bbp.plot.draw([paths[0], paths[0]])
    with pytest.raises(FileError, match="one figure shows several results of one kind"):
        bbp.plot.draw([one, compare(two, draws=0, repeats=20)])


def test_each_of_several_files_has_a_colour_of_its_own_lines(made_up, caplog):
    """Threshold, edge and outlier of a model in one colour, the edge dashed; a panel that one file lacks is told."""
    one, two = made_up(Committee(1, 1, 0.5)), made_up(Committee(2, 1, 0.5), seed=1)
    left, _ = bbp.plot.draw([one, two]).axes
    lines = {str(line.get_label()): line for line in left.get_lines()}
    tints = []
    for p in (1, 2):
        own = [line for label, line in lines.items() if label.startswith(f"$p = {p}$: ")]
        assert len(own) == 3 and len({line.get_color() for line in own}) == 1
        edge, out = (next(x for x in own if word in x.get_label()) for word in ("left edge", "outlier"))
        assert edge.get_linestyle() == "--" and out.get_linestyle() == "-"
        tints.append(out.get_color())
    assert tints[0] != tints[1] and not caplog.messages
    more = two.assign(mine=two.eigenvalues)
    more.mine.attrs = {"long_name": "mine", "observable": "mine"}
    assert own_names(more) == ["mine"]
    assert len(bbp.plot.draw([one, more]).axes) == 2
    assert caplog.messages == ["not drawn, for not every file holds it: mine"]


def test_doubt_names_its_sizes(ax):
    marks.doubt_entry(ax, ["N = 20, 40: p N = 40 is below 100", "", "N = 10: p N = 20 is below 100"])
    assert ax.get_legend_handles_labels()[1] == ["theory not known to hold: $N = 10, 20, 40$"]
    marks.doubt_entry(ax, [""])
    assert len(ax.get_lines()) == 1


def test_minima_and_their_lines_have_entries(ax):
    """Open markers where minima are saddles, a line where that begins."""
    phase = xr.Dataset(
        {
            "minima_complexity": (("minima_alpha", "at_a"), [[0.1], [0.2], [0.1]]),
            "minima_instability": (("minima_alpha", "at_a"), [[-1.0], [1.0], [1.0]]),
            "alpha_minima": ("at_a", [1.5]),
        },
        {"minima_alpha": [1.0, 2.0, 3.0], "at_a": [0.5]},
        {"config": "{}"},
    )
    phase_plots.minima_panel(ax, phase, 0)
    assert ax.get_legend_handles_labels()[1][:3] == ["minima", "saddles", "first saddles"]
    np.testing.assert_array_equal(ax.get_lines()[1].get_xydata(), [[2, 0.2], [3, 0.1]])
    assert ax.get_lines()[2].get_xdata()[0] == 1.5
