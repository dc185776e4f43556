"""The figure that fits a file (sweep, phase diagram, comparison, descents), or the spectrum at one alpha."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bbp.analysis import comparison, scaling, spectrum
from bbp.console import program
from bbp.console.messages import FileError
from bbp.console.options import Option, integer, number, one_width
from bbp.console.program import callable_as
from bbp.experiments import models, own
from bbp.experiments.models import MODEL
from bbp.files import dataset as files
from bbp.files import disk, product
from bbp.plots import descent as descent_plots
from bbp.plots import layout, options, style
from bbp.plots import phase as phase_plots
from bbp.plots import spectrum as spectrum_plots
from bbp.plots import sweep as sweep_plots
from bbp.plots.laws import laws_figure
from bbp.plots.style import METADATA, form_of, render
from theory.checks import ParameterError, choice, shown
from theory.model import Network

SUMMARY = "Draw the figure that fits a file: sweep, phase diagram, comparison, descents; or the spectrum at one alpha."
EXAMPLE = """\
  bbp plot results/sweep.h5 --out sweep.pdf
  bbp plot results/p1.h5 results/p2.h5 --panels b --ylog --ylim 1e-3:1 --out both.pdf
  bbp plot results/phase.h5 --panels a --size 3.4x2.5 --font serif --out phase.eps
  bbp plot results/sweep.h5 --panels b --talk --out talk.png
  bbp plot --spectrum 2.5 --p 2 --a 0.3 --out spectrum.svg
  bbp plot --spectrum 6 --a 2 --activation tanh --covariance power:1 --out tanh.png"""

ALONE = (  # options of a spectrum without FILE
    Option("p", None, one_width, "student width (1), without FILE"),
    Option("p_star", None, integer(), "teacher width (1), without FILE"),
    Option("a", None, number, "normalisation of the loss (1), without FILE"),
    *MODEL,
)
Source = str | Path | xr.Dataset
SEVERAL = files.SWEEP, comparison.FORMAT, files.DESCENT  # what is drawn in one figure, each told apart


def draw(
    source: Source | Sequence[Source] | Mapping[str, Source],
    *,
    width: str | None = None,
    model: int | None = None,
    out: str | Path | None = None,
    dpi: float = 300.0,
    **look: Any,
) -> Figure:
    """The figure of a result, as `bbp plot` draws it.

    Parameters
    ----------
    source
        A result, or the path of a file. Several sweeps, comparisons or descents (a list, or by name) are told apart in one
        figure.
    width
        "single" or "double" column of print (double, if neither); not with size or talk, which say it themselves.
    model
        Index of one of a sweep over several.
    out, dpi
        A picture to write, in the format of its ending.
    **look
        The other options of `bbp plot`, see `bbp.plots.options.LOOK`: panels, size, style (style sheets), font, labels,
        legend, ylog, xlog, ylim, xlim, colors, talk.

    Returns
    -------
    matplotlib.figure.Figure
        On no display.

    Raises
    ------
    ParameterError
        For a bad option, and for results that would mix in one figure; FileError where a file is none of bbp's, or of a kind
        that has no figure.
    """

    def drawn(columns: str) -> Figure:
        found = _opened(source, None if model is None else integer(0)("model", model))
        form = str(next(iter(found.values())).attrs.get("format"))
        results: Any = found if len(found) > 1 else next(iter(found.values()))
        return FIGURES[form][0](results, width=columns)

    return _looking(drawn, width, out, dpi, **look)


def _looking(
    draw: Callable[[str], Figure],
    width: str | None = None,
    out: str | Path | None = None,
    dpi: float = 300.0,
    **look: Any,
) -> Figure:
    """What `draw` gives at a width, as a look has it, written to `out` if that is given."""
    chosen = options.read(**look)
    place = None if out is None else disk.destination(out)
    ending = "" if place is None else form_of(place)
    if isinstance(dpi, bool) or not isinstance(dpi, int | float) or not 10 <= dpi <= 2400:
        raise ParameterError(f"dpi must lie between 10 and 2400, got {shown(dpi)}")
    with style.figure_style(chosen):
        figure = options.apply(draw(_width(width, chosen)), chosen)
        if place is not None:
            picture = render(figure, ending, dpi)
            disk.prepare_directory(place.parent)
            disk.write_bytes(place, picture)
        return figure


def _opened(source: Any, model: int | None) -> dict[str, xr.Dataset]:
    """Results by name, "" for one alone; what would mix silently is refused."""
    several = dict(source) if isinstance(source, Mapping) and not isinstance(source, xr.Dataset) else None
    if several is None:
        listed = source if isinstance(source, list | tuple) else [source]
        several = dict(zip(_names(listed), listed, strict=True))
    if not several:
        raise ParameterError("there is nothing to draw")
    found: dict[str, xr.Dataset] = {}
    for name, one in several.items():
        result = one if isinstance(one, xr.Dataset) else files.open(one)
        form = str(result.attrs.get("format"))
        called = repr(str(one)) if isinstance(one, str | Path) else "the result"
        if form not in FIGURES:
            raise FileError(f"{called} is a {form} file, which has no figure here")
        if model is not None and form not in (files.SWEEP, files.DESCENT):
            raise ParameterError(f"model chooses one of a sweep over several, but {called} is a {form} file")
        found[str(name)] = (
            product.chosen(result, model, called) if form in (files.SWEEP, files.DESCENT) else result
        )
    forms = list(dict.fromkeys(str(one.attrs.get("format")) for one in found.values()))
    if len(found) > 1 and (len(forms) > 1 or forms[0] not in SEVERAL):
        raise FileError(
            f"one figure shows several results of one kind ({', '.join(SEVERAL)}), not {', '.join(forms)}"
        )
    if len(found) == 1:
        return {"": next(iter(found.values()))}
    return found if isinstance(source, Mapping) else dict(sweep_plots.told_apart(found))


def _names(sources: Sequence[Any]) -> list[str]:
    """What legends call files: their names without ending, whole paths where these are alike; results by their number."""
    paths = [str(one) for one in sources if isinstance(one, str | Path)]
    disk.require_once(paths)
    alike = len({Path(path).stem for path in paths}) < len(paths)
    return [
        (str(one) if alike else Path(one).stem) if isinstance(one, str | Path) else f"result {k + 1}"
        for k, one in enumerate(sources)
    ]


def _width(width: str | None, chosen: style.Look) -> str:
    """Panels side by side where there is room; ParameterError where a size is said twice."""
    other = "size" if chosen["size"] is not None else "talk" if chosen["talk"] else ""
    if width is not None and other:
        raise ParameterError(f"width cannot go with {other}, which has a width of its own")
    if chosen["size"] is None:
        return width or "double"
    return "single" if chosen["size"][0] < 5 else "double"


def draw_spectrum(source: xr.Dataset | Network, alpha: float, **look: Any) -> Figure:
    """The spectrum at alpha: theory, and if `source` is a sweep the eigenvalues of its samples there; the rest as in `draw`."""
    of: Callable[..., Any] = spectrum.of_sweep if isinstance(source, xr.Dataset) else spectrum.of_model
    return _looking(lambda width: spectrum_plots.spectrum_figure(of(source, alpha), width=width), **look)


def _gallery(found: xr.Dataset, *, width: str) -> Figure:
    from bbp import gallery  # late: other files need none of its theory

    del width  # a figure of the gallery has a width of its own
    try:
        return gallery.ENTRIES[files.config(found)["figure"]].draw(gallery.arrays_of(found))
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
    ) as error:  # what a figure needs, its file alone can say
        words = " ".join(str(error).split())
        raise FileError(f"the file holds no figure of the gallery: {words}") from None


# By format: the figure of a file, and what gives the functions that draw its panels on axes of one's own, where it has any.
FIGURES: dict[
    str, tuple[Callable[..., Figure], Callable[..., list[Callable[[Axes], list[Artist]]]] | None]
] = {
    files.SWEEP: (sweep_plots.figure, sweep_plots.panels),
    files.PHASE: (phase_plots.phase_figure, phase_plots.panels),
    comparison.FORMAT: (sweep_plots.figure, sweep_plots.panels),
    files.DESCENT: (descent_plots.figure, descent_plots.panels),
    scaling.FORMAT: (laws_figure, None),
    files.FIGURE: (_gallery, None),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `bbp plot`."""
    add = parser.add_argument
    add(
        "files",
        metavar="FILE",
        nargs="*",
        help="a file written by bbp sweep, phase, compare, descent, fit or figures; several sweeps, comparisons or descents are"
        " told apart in one figure",
    )
    add(
        "--out",
        metavar="FIG",
        help="picture to write: .png, .pdf, .svg, .eps or .pgf (default: FILE with .png)",
    )
    add(
        "--width",
        choices=list(style.WIDTHS),
        help="columns of print (default double); not with --size or --talk",
    )
    add("--model", type=int, metavar="INDEX", help="which model of a sweep over several")
    add("--dpi", type=float, default=300.0, help="dots per inch of a .png (default %(default)g)")
    add("--force", action="store_true", help="replace the picture if it exists")
    look = parser.add_argument_group("for a journal or a talk")
    options.add(look)
    one = parser.add_argument_group(
        "the spectrum at one alpha",
        "with FILE, a sweep: theory and its samples there; without: theory of the model given",
    )
    one.add_argument("--spectrum", metavar="ALPHA", help="draw the spectrum at this alpha")
    for option in ALONE:
        one.add_argument(option.written, metavar=option.metavar, help=option.words.replace("%", "%%"))


def run(args: argparse.Namespace) -> int:
    """Draw the figure of the files and write it."""
    out = _output(args)
    form_of(out if args.out is None else Path(args.out))
    for file in args.files:
        if Path(file).suffix.lower().removeprefix(".") in METADATA:
            files.kind_of(file)  # a picture is told to be one, before it is found to be its own
    disk.require_apart({"out": out}, args.files)
    disk.require_free(out, force=args.force)
    _draw(args, out)
    program.show(f"wrote {out}")
    return program.OK


def _output(args: argparse.Namespace) -> Path:
    if not args.files and args.spectrum is None:
        raise ParameterError("FILE or --spectrum ALPHA must be given")
    if args.out is None and len(args.files) != 1:
        why = "no FILE" if not args.files else "more than one FILE"
        raise ParameterError(f"out must be given where there is {why} to name the picture after")
    if args.out is None and not Path(args.files[0]).name:
        raise FileError(f"{args.files[0]!r} is a directory, not a file")
    return disk.destination(str(Path(args.files[0]).with_suffix(".png")) if args.out is None else args.out)


def _draw(args: argparse.Namespace, out: Path) -> None:
    typed = {each.name: text for each in ALONE if (text := getattr(args, each.name)) is not None}
    given = [name for name, text in typed.items() if args.files and not _provided(name, text)]
    if given:
        raise ParameterError(
            f"{given[0]} is for a spectrum without FILE: {args.files[0]!r} has its own model"
        )
    look = {name: getattr(args, name) for name in ("width", "dpi", *options.NAMES)} | {"out": out}
    if args.spectrum is None:
        draw(args.files, model=args.model, **look)
        return
    if len(args.files) > 1:
        raise ParameterError(f"a spectrum is of one file, got {len(args.files)}")
    alpha = number("spectrum", args.spectrum)
    if args.files:
        sweep = product.chosen(files.open(args.files[0], files.SWEEP), args.model, repr(args.files[0]))
        draw_spectrum(sweep, alpha, **look)
        return
    typed = {"p": "1", "p_star": "1", "a": "1"} | typed
    read = {each.name: each.read(each.name, typed[each.name]) for each in ALONE if each.name in typed}
    model = models.make(read.pop("p"), read.pop("p_star"), read.pop("a"), read)
    draw_spectrum(model, alpha, **look)


def _provided(name: str, value: str) -> bool:
    """Whether an option says where a function of one's own lies: it is then at hand for the model of a file."""
    return name in own.KINDS and own.read(name, value) is not None


main = functools.partial(program.program, "plot", add_arguments, run, summary=SUMMARY, example=EXAMPLE)


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
    found = dataset if isinstance(dataset, xr.Dataset) else files.open(dataset)
    if ax is not None and not isinstance(ax, Axes):
        raise ParameterError(f"ax must be axes of Matplotlib, got {shown(ax)}")
    form = str(found.attrs.get("format"))
    _, panels = FIGURES.get(form, (None, None))
    if panels is None:
        raise ParameterError(
            f"a {form} result has no panels: sweeps, phase diagrams, comparisons and descents have"
        )
    product.require_one(found)
    each = dict(zip(layout.LETTERS, panels(found), strict=False))
    choice("panel", panel, list(each))
    if ax is None:
        from matplotlib import pyplot  # late: it chooses a display

        ax = pyplot.gca()
    return each[panel](ax)


callable_as(__name__, plot)
if __name__ == "__main__":
    sys.exit(main())
