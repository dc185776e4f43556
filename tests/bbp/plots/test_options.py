"""Options of a figure for a journal: panels, sizes, fonts, style sheets, words."""

import numpy as np
import pytest
from matplotlib.backends import backend_pgf
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from bbp import plot
from bbp.console.messages import FileError, RunError
from bbp.files import dataset
from bbp.plots import layout, marks, options, style
from theory.checks import ParameterError
from theory.model import Committee


@pytest.fixture
def sweep_file(tmp_path, made_up):
    path = tmp_path / "sweep.h5"
    dataset.write(path, made_up(Committee(2, 1, 0.3)))
    return path


def test_one_panel_has_its_data_and_the_model_s_name_but_no_letter(sweep_file):
    whole, part = plot.draw(sweep_file), plot.draw(sweep_file)
    options.apply(part, options.read(panels="b", size=(3.4, 2.5)))
    (ax,) = part.axes
    assert ax.get_ylabel() == whole.axes[1].get_ylabel() and ax.get_xlabel()
    assert ax.get_title(loc="left") == "" and ax.get_title(loc="right") == whole.axes[0].get_title(
        loc="right"
    )
    shown, kept = (a.containers[0].lines[0].get_xydata().tolist() for a in (ax, whole.axes[1]))
    assert shown == kept
    assert tuple(part.get_size_inches()) == (3.4, 2.5)


def test_panels_in_their_order_fill_the_figure_and_nothing_meets(sweep_file, arranged):
    figure = options.apply(plot.draw(sweep_file), options.read(panels="b,a"))
    FigureCanvasAgg(figure).draw()
    names = options.panels_of(figure)
    assert set(names) == {"a", "b"}
    first, second = names["a"].get_window_extent(), names["b"].get_window_extent()
    assert first.x1 < second.x0 and "overlap" in names["a"].get_ylabel()
    legend = figure.legends[0].get_window_extent()
    assert not legend.overlaps(first) and legend.x1 <= figure.bbox.x1


def test_a_panel_kept_from_a_column_keeps_its_abscissa_s_name(sweep_file):
    figure = options.apply(plot.draw(sweep_file, width="single"), options.read(panels="a"))
    assert "alpha" in figure.axes[0].get_xlabel()


def test_words_for_all_panels_and_for_one(sweep_file):
    labels = ["x=$\\alpha$", "b.y=ours", "title="]
    left, right = options.apply(plot.draw(sweep_file), options.read(labels=labels)).axes
    assert left.get_xlabel() == right.get_xlabel() == "$\\alpha$"
    assert right.get_ylabel() == "ours" and left.get_ylabel() != "ours"
    assert left.get_title(loc="right") == ""


def test_fonts_and_sheets_reach_the_figure_and_leave_again(sweep_file, tmp_path):
    sheet = tmp_path / "mine.mplstyle"
    sheet.write_text("axes.prop_cycle: cycler('color', ['112233'])\naxes.labelsize: 13\nbackend: pdf\n")
    over = options.read(style=str(sheet), font="serif")
    assert "backend" not in over["style"]
    with style.figure_style(over):
        ax = plot.draw(sweep_file).axes[0]
        assert ax.xaxis.label.get_size() == 13 and ax.xaxis.label.get_family() == ["serif"]
        assert ax.containers[0].lines[0].get_color() == "#112233"
    plain = plot.draw(sweep_file).axes[0]
    assert plain.xaxis.label.get_size() == 9 and plain.containers[0].lines[0].get_color() == style.BLUE


def test_matplotlibrc_is_the_user_s(monkeypatch, tmp_path):
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 4.5\n")
    monkeypatch.chdir(tmp_path)
    assert options.read(style="matplotlibrc")["style"]["lines.linewidth"] == 4.5


def test_the_program_takes_them_all(sweep_file, tmp_path):
    out = tmp_path / "figure.png"
    words = "--panels a --size 3.4x2.5 --font serif --style ggplot --labels x=a a.y=b".split()
    assert plot.main([str(sweep_file), "--out", str(out), "--dpi", "100", "--legend", "off", *words]) == 0
    with Image.open(out) as image:
        assert image.size == (340, 250)


def test_eps_has_blended_colours_and_no_type_3_font(sweep_file):
    """Bands stay pale where nothing can be transparent, and are transparent again afterwards."""
    figure = plot.draw(sweep_file, panels="b")
    (ax,) = figure.axes
    ax.fill_between([0.5, 1], 0, 1, color="blue", alpha=0.25, linewidth=0)
    before = [(band.get_alpha(), band.get_facecolor().tolist()) for band in ax.collections]
    written = plot.render(figure, "eps", 100)
    assert b"0.75 0.75 1 setrgbcolor" in written and b"0 0 1 setrgbcolor" not in written
    assert [(band.get_alpha(), band.get_facecolor().tolist()) for band in ax.collections] == before
    assert b"/FontType 42" in written and b"/FontType 3" not in written
    assert b"/Type3" not in plot.render(figure, "pdf", 100)


def test_pgf_where_there_is_a_latex(sweep_file, monkeypatch):
    """In its place something that says how large words are."""

    class Latex:
        def get_width_height_descent(self, text, prop):
            return 5.0 * len(text), 8.0, 2.0

    monkeypatch.setattr(backend_pgf.LatexManager, "_get_cached_or_new", classmethod(lambda cls: Latex()))
    written = plot.render(plot.draw(sweep_file), "pgf", 100)
    assert b"\\begin{pgfpicture}" in written and b"left edge" in written


def test_pgf_without_latex_is_one_line(sweep_file):
    with style.figure_style({"style": {"pgf.texsystem": "xelatex"}}), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")
        with pytest.raises(RunError, match=r"\.pgf needs xelatex"):
            plot.render(plot.draw(sweep_file), "pgf", 100)


def test_axes_and_colours_are_as_asked_for(sweep_file):
    """Only the overlap is positive: its axis is logarithmic, that of the eigenvalues is not; from Python as from the shell."""
    figure = plot.draw(sweep_file, ylog=True, ylim={"b": (1e-2, 1)}, xlim=(0.1, 3), colors="black,#D55E00")
    left, right = figure.axes
    assert (left.get_yscale(), right.get_yscale()) == ("linear", "log")
    assert right.get_ylim() == (1e-2, 1) and left.get_xlim() == right.get_xlim() == (0.1, 3)
    assert [box.lines[0].get_color() for box in right.containers] == ["black", "#D55E00"]
    mapped = plot.draw(sweep_file, colors="plasma").axes[1].containers
    assert [box.lines[0].get_color() for box in mapped] != [
        box.lines[0].get_color() for box in right.containers
    ]


def test_a_logarithmic_axis_ends_at_what_is_positive(made_up):
    """Bands that reach 0 and curves that vanish do not lower it below three decades; no band of q2 is negative."""
    sweep = made_up(Committee(2, 1, 0.3))
    (ax,) = plot.draw(sweep, panels="b", ylog=True).axes
    low, high = ax.get_ylim()
    top = max(np.nanmax(line.get_ydata()) for box in ax.containers for line in box.lines[:1])
    assert high / 10**3.5 < low and top <= high
    (ax,) = plot.draw(sweep, panels="b").axes
    marks.finite_band(ax, [1, 2, 3], [0.1, 0.1, 0.1], [0.3, 0.3, 0.3], low=0.0)
    assert min(path.vertices[:, 1].min() for band in ax.collections[-2:] for path in band.get_paths()) == 0


def test_a_legend_leaves_room_for_the_panel(made_up, caplog, arranged):
    """Of a narrow figure with many entries: what is left out is told, in one line."""
    sweeps = [made_up(Committee(p, 1, 0.5)) for p in (1, 2, 3)]
    figure = plot.draw(sweeps, panels="a", size=(3.37, 2.6))
    FigureCanvasAgg(figure).draw()
    assert figure.axes[0].get_window_extent().height > 0.35 * figure.bbox.height
    (line,) = caplog.messages
    assert line.startswith("no room in the legend for: ")
    shown = {text.get_text() for text in figure.legends[0].get_texts()}
    assert shown and not shown & set(line.partition(": ")[2].split("; "))


def test_words_of_short_axes_do_not_meet(sweep_file, arranged):
    figure = plot.draw(sweep_file, size=(3.37, 3.0))
    FigureCanvasAgg(figure).draw()
    first, second = (ax.yaxis.label.get_window_extent() for ax in figure.axes)
    assert not first.overlaps(second) and first.y1 <= figure.bbox.y1 and second.y0 >= 0


@pytest.mark.parametrize("size", [(0.5, 0.5), (7, 0.6), (0.6, 5)])
def test_a_size_without_room_for_panels_is_refused(sweep_file, size, arranged):
    with pytest.raises(ParameterError, match="leaves no room for the panels"):
        plot.draw(sweep_file, size=size)


@pytest.mark.parametrize("other", [{"talk": True}, {"size": (7, 3)}])
def test_a_width_does_not_go_with_another(sweep_file, other):
    with pytest.raises(ParameterError, match=f"width cannot go with {next(iter(other))}"):
        plot.draw(sweep_file, width="single", **other)


@pytest.mark.parametrize("place", style.LEGENDS)
def test_legends_are_where_they_are_asked_for(sweep_file, place):
    figure = plot.draw(sweep_file, legend=place)
    within = [ax.get_legend() is not None for ax in figure.axes]
    assert (len(figure.legends), any(within)) == {
        "on": (1, False), "off": (0, False), "inside": (0, True), "right": (1, False)
    }[place]  # fmt: skip


def test_a_figure_for_a_talk_is_one_large_panel_with_few_entries(made_up):
    sweep = made_up(n=tuple(range(20, 44, 2)))
    figure = plot.draw(sweep, talk=True)
    (ax,) = figure.axes
    assert tuple(figure.get_size_inches()) == style.TALK_SIZE and ax.xaxis.label.get_size() == 18
    assert len(figure.legends[0].get_texts()) <= layout.TALK_ENTRIES
    assert len(ax.containers) == 24  # the points are all there
    assert plot.draw(sweep, talk=True, panels="b").axes[0].get_ylabel() == "squared overlap $q^2$"


@pytest.mark.parametrize(("width", "panels"), [("single", "b"), ("double", "a"), ("double", "a,b")])
def test_panels_that_are_left_have_a_sane_shape(sweep_file, width, panels, arranged):
    figure = plot.draw(sweep_file, width=width, panels=panels)
    FigureCanvasAgg(figure).draw()
    for ax in figure.axes:
        box = ax.get_window_extent()
        assert 0.35 < box.height / box.width < 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: options.read(ylim="3:1"), ParameterError, "ylim must be LOW:HIGH"),
        (lambda: options.read(ylim="0:nan"), ParameterError, "ylim must be LOW:HIGH"),
        (lambda: options.read(xlim=["a=0"]), ParameterError, "xlim must be LOW:HIGH"),
        (lambda: options.read(xlim=["A=0:1"]), ParameterError, "xlim must be LOW:HIGH"),
        (lambda: options.read(colors="nosuch"), ParameterError, "colors must be a map"),
        *(
            (lambda given=given: options.read(**given), ParameterError, f"{next(iter(given))} must be")
            for given in (
                {"panels": 3},
                {"panels": [1]},
                {"size": 5},
                {"size": (1,)},
                {"labels": [5]},
                {"ylim": 5},
                {"ylim": {"b": 5}},
                {"xlim": [1, 2, 3]},
                {"talk": "yes"},
                {"ylog": "b"},
                {"style": 5},
                {"font": 3},
                {"colors": 5},
                {"legend": None},
            )
        ),
        (lambda: plot.draw("x.h5", dpi="x"), ParameterError, "dpi must lie between"),
        (lambda: plot.draw("x.h5", out=5), ParameterError, "out must be the name of a file"),
        (lambda: plot.draw("x.h5", model="x"), ParameterError, "model must be a number"),
        (lambda: options.read(colors=[]), ParameterError, "colors must be a map"),
        (lambda: options.read(legend="left"), ParameterError, "legend must be one of"),
        (lambda: options.read(talk=True, panels="a,b"), ParameterError, "talk is for one panel"),
        (lambda: plot.draw("x.h5", colour="red"), ParameterError, "no option 'colour'; did you mean colors"),
        (lambda: options.parse_panels("panels", "a,a"), ParameterError, "panels must be different letters"),
        (lambda: options.parse_panels("panels", "A"), ParameterError, "panels must be different letters"),
        (lambda: options.parse_size("size", "3.4"), ParameterError, "size must be WIDTHxHEIGHT"),
        (lambda: options.parse_size("size", "100x2"), ParameterError, "size must be WIDTHxHEIGHT"),
        (lambda: options.parse_labels("labels", ["z=1"]), ParameterError, "labels must be x=TEXT"),
        (lambda: options.parse_labels("labels", ["x=$\\nonsense$"]), ParameterError, "not mathematics"),
        (lambda: options.read(style="nowhere.mplstyle"), FileError, "neither a file"),
        (lambda: options.read(font="No Such Font"), ParameterError, "font must be serif"),
    ],
)
def test_what_is_unfit_is_told(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_unknown_panel_names_those_there_are(sweep_file):
    with pytest.raises(ParameterError, match="no panel 'c' in this figure; there are a, b"):
        options.apply(plot.draw(sweep_file), options.read(panels="c"))
