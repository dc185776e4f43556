"""Options of a figure for a journal: panels, sizes, fonts, style sheets, words."""

import pytest
from matplotlib.backends import backend_pgf
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from bbp import plot
from bbp.console.errors import FileError, RunError
from bbp.files import dataset
from bbp.plots import options, style
from theory.checks import ParameterError
from theory.model import Committee


@pytest.fixture
def sweep_file(tmp_path, made_up):
    path = tmp_path / "sweep.h5"
    dataset.write(path, made_up(Committee(2, 1, 0.3)))
    return path


def test_one_panel_has_its_data_and_the_model_s_name_but_no_letter(sweep_file):
    whole, part = plot.draw(sweep_file), plot.draw(sweep_file)
    options.apply(part, options.Options(panels=("b",), size=(3.4, 2.5)))
    (ax,) = part.axes
    assert ax.get_ylabel() == whole.axes[1].get_ylabel() and ax.get_xlabel()
    assert ax.get_title(loc="left") == "" and ax.get_title(loc="right") == whole.axes[0].get_title(
        loc="right"
    )
    shown, kept = (a.containers[0].lines[0].get_xydata().tolist() for a in (ax, whole.axes[1]))
    assert shown == kept
    assert tuple(part.get_size_inches()) == (3.4, 2.5)


def test_panels_in_their_order_fill_the_figure_and_nothing_meets(sweep_file, arranged):
    figure = options.apply(plot.draw(sweep_file), options.Options(panels=("b", "a")))
    FigureCanvasAgg(figure).draw()
    names = options.panels_of(figure)
    assert set(names) == {"a", "b"}
    first, second = names["a"].get_window_extent(), names["b"].get_window_extent()
    assert first.x1 < second.x0 and "overlap" in names["a"].get_ylabel()
    legend = figure.legends[0].get_window_extent()
    assert not legend.overlaps(first) and legend.x1 <= figure.bbox.x1


def test_a_panel_kept_from_a_column_keeps_its_abscissa_s_name(sweep_file):
    figure = options.apply(plot.draw(sweep_file, width="single"), options.Options(panels=("a",)))
    assert "alpha" in figure.axes[0].get_xlabel()


def test_words_for_all_panels_and_for_one(sweep_file):
    labels = options.parse_labels(["x=$\\alpha$", "b.y=ours", "title="])
    left, right = options.apply(plot.draw(sweep_file), options.Options(labels=labels)).axes
    assert left.get_xlabel() == right.get_xlabel() == "$\\alpha$"
    assert right.get_ylabel() == "ours" and left.get_ylabel() != "ours"
    assert left.get_title(loc="right") == ""


def test_fonts_and_sheets_reach_the_figure_and_leave_again(sweep_file, tmp_path):
    sheet = tmp_path / "mine.mplstyle"
    sheet.write_text("axes.prop_cycle: cycler('color', ['112233'])\naxes.labelsize: 13\nbackend: pdf\n")
    over = options.settings([str(sheet)], "serif")
    assert "backend" not in over
    with style.figure_style(over):
        ax = plot.draw(sweep_file).axes[0]
        assert ax.xaxis.label.get_size() == 13 and ax.xaxis.label.get_family() == ["serif"]
        assert ax.containers[0].lines[0].get_color() == "#112233"
    plain = plot.draw(sweep_file).axes[0]
    assert plain.xaxis.label.get_size() == 9 and plain.containers[0].lines[0].get_color() == style.BLUE


def test_matplotlibrc_is_the_user_s(monkeypatch, tmp_path):
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 4.5\n")
    monkeypatch.chdir(tmp_path)
    assert options.settings(["matplotlibrc"], None)["lines.linewidth"] == 4.5


def test_the_program_takes_them_all(sweep_file, tmp_path):
    out = tmp_path / "figure.png"
    words = [
        "--panels",
        "a",
        "--size",
        "3.4x2.5",
        "--font",
        "serif",
        "--style",
        "ggplot",
        "--labels",
        "x=a",
        "a.y=b",
    ]
    assert plot.main([str(sweep_file), "--out", str(out), "--dpi", "100", "--legend", "off", *words]) == 0
    with Image.open(out) as image:
        assert image.size == (340, 250)


def test_eps_is_the_same_bytes_without_dates(sweep_file):
    one, two = (plot.render(plot.draw(sweep_file), "eps", 100) for _ in range(2))
    assert one == two and one.startswith(b"%!PS-Adobe") and b"CreationDate" not in one


def test_pgf_where_there_is_a_latex(sweep_file, monkeypatch):
    """In its place something that says how large words are."""

    class Latex:
        def get_width_height_descent(self, text, prop):
            return 5.0 * len(text), 8.0, 2.0

    monkeypatch.setattr(backend_pgf.LatexManager, "_get_cached_or_new", classmethod(lambda cls: Latex()))
    written = plot.render(plot.draw(sweep_file), "pgf", 100)
    assert b"\\begin{pgfpicture}" in written and b"left edge" in written


def test_pgf_without_latex_is_one_line(sweep_file):
    with style.figure_style({"pgf.texsystem": "xelatex"}), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")
        with pytest.raises(RunError, match=r"\.pgf needs xelatex"):
            plot.render(plot.draw(sweep_file), "pgf", 100)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: options.parse_panels("a,a"), ParameterError, "panels must be different letters"),
        (lambda: options.parse_panels("A"), ParameterError, "panels must be different letters"),
        (lambda: options.parse_size("3.4"), ParameterError, "size must be WIDTHxHEIGHT"),
        (lambda: options.parse_size("100x2"), ParameterError, "size must be WIDTHxHEIGHT"),
        (lambda: options.parse_labels(["z=1"]), ParameterError, "labels must be x=TEXT"),
        (lambda: options.parse_labels(["x=$\\nonsense$"]), ParameterError, "not mathematics"),
        (lambda: options.settings(["nowhere.mplstyle"], None), FileError, "neither a file"),
        (lambda: options.settings([], "No Such Font"), ParameterError, "font must be serif"),
    ],
)
def test_what_is_unfit_is_told(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_unknown_panel_names_those_there_are(sweep_file):
    with pytest.raises(ParameterError, match="no panel 'c' in this figure; there are a, b"):
        options.apply(plot.draw(sweep_file), options.Options(panels=("c",)))
