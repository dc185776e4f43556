"""The figure that fits a file (sweep, phase diagram, comparison, descents), or the spectrum at one alpha."""

from __future__ import annotations

import argparse
import importlib
import io
import logging
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bbp import store
from bbp.analysis import comparison, spectrum
from bbp.console import grids, program
from bbp.console.errors import FileError, RunError
from bbp.console.program import callable_as
from bbp.experiments import descent_file, models, own, phase_file
from bbp.experiments.options import MODEL
from bbp.files import atomic, dataset, outputs
from bbp.gallery import base
from bbp.gallery.entries import ENTRIES
from bbp.plots import descent as descent_plots
from bbp.plots import layout, options, panels, style
from bbp.plots.compare import compare_figure
from theory.checks import ParameterError, shown
from theory.model import Network

SUMMARY = "Draw the figure that fits a file: sweep, phase diagram, comparison, descents; or the spectrum at one alpha."
EXAMPLE = """\
  bbp plot results/sweep.h5 --out sweep.pdf
  bbp plot results/phase.h5 --panels a --size 3.4x2.5 --font serif --out phase.eps
  bbp plot --spectrum 2.5 --p 2 --a 0.3 --out spectrum.svg
  bbp plot --spectrum 6 --a 2 --activation tanh --covariance power:1 --out tanh.png"""

# No dates: the same file gives the same picture, byte for byte.
METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "eps": {"Creator": ""},
    "pgf": {},
}
_DATED = re.compile(rb"^%%(CreationDate|Creator|Title):.*\n", re.MULTILINE)  # of an .eps


def draw(source: str | Path | xr.Dataset, *, width: str = "double", model: int | None = None) -> Figure:
    """The figure of a result, or of the file at a path, at a print width ("single" or "double" column).

    model chooses one of a sweep over several models, by its index. FileError where the file is none of bbp's, or of
    a kind that has no figure; ParameterError for an unknown width.
    """
    found = source if isinstance(source, xr.Dataset) else dataset.open(source)
    form, name = str(found.attrs.get("format")), "the result" if source is found else repr(str(source))
    if form not in DRAWERS:
        raise FileError(f"{name} is a {form} file, which has no figure here")
    if model is not None and form != store.FORMAT:
        raise ParameterError(f"model chooses one of a sweep over several, but {name} is a {form} file")
    if form == store.FORMAT:
        found = store.chosen(found, model, name)
    with style.figure_style():
        return DRAWERS[form](found, width)


def draw_spectrum(source: xr.Dataset | Network, alpha: float, *, width: str = "double") -> Figure:
    """The spectrum at alpha: theory, and the eigenvalues of a sweep's samples there if `source` is a sweep."""
    if isinstance(source, xr.Dataset):
        found = spectrum.of_sweep(source, alpha)
    else:
        found = spectrum.of_model(source, alpha)
    with style.figure_style():
        return layout.spectrum_figure(found, width=width)


def render(figure: Figure, form: str, dpi: float) -> bytes:
    """The bytes of a figure in the format "png", "pdf", "svg", "eps" or "pgf"; dpi is used by png.

    eps knows no transparency: all is drawn opaque. pgf needs a LaTeX, which measures its words: RunError where there is none.
    """
    buffer = io.BytesIO()
    quiet = logging.getLogger("matplotlib.backends.backend_ps")
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        with style.figure_style():
            more: dict[str, Any] = {"metadata": METADATA[form]} if METADATA[form] else {}  # pgf takes none
            figure.savefig(buffer, format=form, dpi=dpi, **more)
    except _latex_failures() as error:
        if form != "pgf":
            raise
        raise RunError(
            f".pgf needs {mpl.rcParams['pgf.texsystem']} to measure its words, and that failed: {str(error).splitlines()[0]}"
        ) from None
    finally:
        quiet.setLevel(level)
    return _DATED.sub(b"", buffer.getvalue()) if form == "eps" else buffer.getvalue()


def _latex_failures() -> tuple[type[Exception], ...]:
    """What the pgf backend raises where LaTeX fails: looked up then, for its import takes a third of a second."""
    return (
        FileNotFoundError,
        RuntimeError,
        importlib.import_module("matplotlib.backends.backend_pgf").LatexError,
    )


def form_of(path: Path) -> str:
    """The format that the extension of `path` names; ParameterError for any but png, pdf, svg, eps and pgf."""
    form = path.suffix.lower().removeprefix(".")
    if form not in METADATA:
        raise ParameterError(f"out must end in .png, .pdf, .svg, .eps or .pgf, got {str(path)!r}")
    return form


def _gallery(found: xr.Dataset, width: str) -> Figure:
    del width  # a figure of the gallery has a width of its own
    try:
        return ENTRIES[dataset.config(found)["figure"]].draw(base.arrays_of(found))
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
    ) as error:  # what a figure needs, its file alone can say
        words = " ".join(str(error).split())
        raise FileError(f"the file holds no figure of the gallery: {words}") from None


DRAWERS: dict[str, Callable[[xr.Dataset, str], Figure]] = {
    store.FORMAT: lambda found, width: layout.sweep_figure(found, width=width),
    phase_file.FORMAT: lambda found, width: layout.phase_figure(found, width=width),
    comparison.FORMAT: lambda found, width: compare_figure(found, width=width),
    descent_file.FORMAT: lambda found, width: descent_plots.descent_figure(found, width=width),
    base.FORMAT: _gallery,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `bbp plot`."""
    add = parser.add_argument
    add(
        "file",
        metavar="FILE",
        nargs="?",
        help="a file written by bbp sweep, phase, compare, descent or figures",
    )
    add(
        "--out",
        metavar="FIG",
        help="picture to write: .png, .pdf, .svg, .eps or .pgf (default: FILE with .png)",
    )
    add(
        "--width", choices=list(style.WIDTHS), default="double", help="columns of print (default %(default)s)"
    )
    add("--model", type=int, metavar="INDEX", help="which model of a sweep over several")
    add("--dpi", type=float, default=300.0, help="dots per inch of a .png (default %(default)g)")
    add("--force", action="store_true", help="replace the picture if it exists")
    look = parser.add_argument_group("for a journal")
    look.add_argument("--panels", metavar="LETTERS", help="only these panels, such as a,c")
    look.add_argument("--size", metavar="WxH", help="width and height in inches, such as 3.4x2.5")
    look.add_argument(
        "--style",
        metavar="SHEET",
        action="append",
        default=[],
        help="a Matplotlib style sheet (file or name) over the package's style; matplotlibrc: the one Matplotlib reads",
    )
    look.add_argument(
        "--font", metavar="NAME", help="serif, sans-serif, monospace, or the name of an installed font"
    )
    look.add_argument(
        "--labels",
        metavar="WHERE=TEXT",
        nargs="+",
        action="extend",
        default=[],
        help="other words: x=TEXT, y=TEXT, title=TEXT, or a.y=TEXT for panel a alone",
    )
    look.add_argument("--legend", choices=["on", "off"], default="on", help="legends (default %(default)s)")
    one = parser.add_argument_group(
        "the spectrum at one alpha",
        "with FILE, a sweep: theory and its samples there; without: theory of the model given",
    )
    one.add_argument("--spectrum", metavar="ALPHA", help="draw the spectrum at this alpha")
    for name, text in {
        "--p": "student width",
        "--p-star": "teacher width",
        "--a": "normalisation of the loss",
    }.items():
        one.add_argument(name, help=f"{text} (1), without FILE")
    for option in MODEL:
        one.add_argument(option.written, metavar=option.metavar, help=option.words.replace("%", "%%"))


def run(args: argparse.Namespace) -> int:
    """Draw the file's figure and write it."""
    out = _output(args)
    form = form_of(out if args.out is None else Path(args.out))
    if not 10 <= args.dpi <= 2400:
        raise ParameterError(f"dpi must lie between 10 and 2400, got {args.dpi!r}")
    if args.file is not None and Path(args.file).suffix.lower().removeprefix(".") in METADATA:
        dataset.kind_of(args.file)  # a picture is told to be one, before it is found to be its own
    outputs.require_apart({"out": out}, [] if args.file is None else [args.file])
    outputs.require_free(out, force=args.force)
    chosen = options.Options(
        panels=() if args.panels is None else options.parse_panels(args.panels),
        size=None if args.size is None else options.parse_size(args.size),
        labels=options.parse_labels(args.labels),
        legend=args.legend == "on",
    )
    if chosen.size is not None:  # panels side by side where there is room
        args.width = "single" if chosen.size[0] < 5 else "double"
    with style.figure_style(options.settings(args.style, args.font)):
        picture = render(options.apply(_figure(args), chosen), form, args.dpi)
    atomic.prepare_directory(out.parent)
    atomic.write_bytes(out, picture)
    program.show(f"wrote {out}")
    return program.OK


def _output(args: argparse.Namespace) -> Path:
    if args.out is None and args.file is None:
        raise ParameterError("out must be given where there is no FILE to name the picture after")
    if args.out is None and not Path(args.file).name:
        raise FileError(f"{args.file!r} is a directory, not a file")
    return outputs.destination(str(Path(args.file).with_suffix(".png")) if args.out is None else args.out)


def _figure(args: argparse.Namespace) -> Figure:
    special = {
        option.name: getattr(args, option.name) for option in MODEL if getattr(args, option.name) is not None
    }
    given = [name for name in ("p", "p_star", "a") if getattr(args, name) is not None] + list(special)
    if args.file is not None:
        given = [name for name in given if not _provided(name, special.get(name))]
    if args.file is not None and given:
        raise ParameterError(f"{given[0]} is for a spectrum without FILE: {args.file!r} has its own model")
    if args.spectrum is None:
        if args.file is None:
            raise ParameterError("FILE or --spectrum ALPHA must be given")
        return draw(args.file, width=args.width, model=args.model)
    alpha = grids.number("spectrum", args.spectrum)
    if args.file is not None:
        return draw_spectrum(store.load(args.file, args.model), alpha, width=args.width)
    p, p_star, a = ("1" if value is None else value for value in (args.p, args.p_star, args.a))
    widths = grids.widths("p", p)
    if len(widths) != 1:
        raise ParameterError(f"p must be one width, got {shown(p)}")
    model = models.make(
        widths[0],
        grids.integer("p_star", p_star),
        grids.number("a", a),
        {
            option.name: option.read(option.name, special[option.name])
            for option in MODEL
            if option.name in special
        },
    )
    return draw_spectrum(model, alpha, width=args.width)


def _provided(name: str, value: str | None) -> bool:
    """Whether an option says where a function of one's own lies: it is then at hand for the model of a file."""
    if name not in own.KINDS or value is None:
        return False
    return own.read(name, value) is not None


def main(argv: Sequence[str] | None = None) -> int:
    """The program `bbp plot`."""
    return program.program("plot", add_arguments, run, argv, summary=SUMMARY, example=EXAMPLE)


def plot(dataset: xr.Dataset | str | Path, ax: Axes | None = None, *, panel: str = "a") -> list[Artist]:
    """Draw one panel of a result on axes of one's own.

    Parameters
    ----------
    dataset
        A sweep of one model, a phase diagram, a comparison or descents: a file, or what `bbp.open` gives.
    ax
        Where; pyplot's current axes unless given.
    panel
        Its letter in the whole figure (`draw`, or `bbp plot FILE`): "a" is the lowest eigenvalue of sweeps and comparisons, and
        "b" the squared overlap; of a phase diagram alpha_BBP against a; of descents the final m2.

    Returns
    -------
    list of matplotlib.artist.Artist
        What was added, the label of each for a legend.

    Raises
    ------
    theory.checks.ParameterError
        For a result without panels, several models, or a letter that it has not.
    """
    found = dataset if isinstance(dataset, xr.Dataset) else store.dataset.open(dataset)
    if ax is not None and not isinstance(ax, Axes):
        raise ParameterError(f"ax must be axes of Matplotlib, got {shown(ax)}")
    if ax is None:
        ax = importlib.import_module("matplotlib.pyplot").gca()
    return panels.draw(found, ax, panel)


callable_as(__name__, plot)
if __name__ == "__main__":
    sys.exit(main())
