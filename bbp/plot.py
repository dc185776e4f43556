"""The figure that fits a file: a sweep, a phase diagram or a spectrum, as PNG, PDF or SVG."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from bbp import atomic, cli, h5file, phase_file, store, style
from bbp.errors import FileError
from bbp.plots import figures
from theory.checks import ParameterError

SUMMARY = "Draw the figure that fits a file of bbp: a sweep, a phase diagram or a spectrum."
EXAMPLE = """\
  bbp plot results/sweep.h5 --out sweep.pdf
  bbp plot results/phase.h5 --out phase.png --width single"""

# No dates: the same file gives the same picture, byte for byte.
METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
}


def draw(path: str | Path, *, width: str = "double", model: int | None = None) -> Figure:
    """The figure of the file at `path`, at a print width ("single" or "double" column).

    model chooses one of a sweep over several models, by its index. FileError where the file is none of bbp's, or of
    a kind that has no figure; ParameterError for an unknown width.
    """
    found = h5file.format_of(path)
    if found not in DRAWERS:
        raise FileError(f"{str(path)!r} is a {found} file, which has no figure here")
    with style.figure_style():
        return DRAWERS[found](path, model, width)


def render(figure: Figure, form: str, dpi: float) -> bytes:
    """The bytes of a figure in the format "png", "pdf" or "svg"; dpi is used by png."""
    buffer = io.BytesIO()
    with style.figure_style():
        figure.savefig(buffer, format=form, dpi=dpi, metadata=METADATA[form])
    return buffer.getvalue()


def form_of(path: Path) -> str:
    """The format that the extension of `path` names; ParameterError for any but png, pdf and svg."""
    form = path.suffix.lower().removeprefix(".")
    if form not in METADATA:
        raise ParameterError(f"out must end in .png, .pdf or .svg, got {str(path)!r}")
    return form


def _sweep(path: str | Path, model: int | None, width: str) -> Figure:
    return figures.sweep_figure(store.load(path, model), width=width)


def _phase(path: str | Path, model: int | None, width: str) -> Figure:
    if model is not None:
        raise ParameterError(
            f"model chooses one of a sweep over several models; {str(path)!r} is a phase diagram"
        )
    return figures.phase_figure(phase_file.load(path), width=width)


DRAWERS: dict[str, Callable[[str | Path, int | None, str], Figure]] = {
    store.FORMAT: _sweep,
    phase_file.FORMAT: _phase,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `bbp plot`."""
    add = parser.add_argument
    add("file", metavar="FILE", help="a file written by bbp sweep, bbp phase or bbp spectrum")
    add("--out", metavar="FIG", help="picture to write: .png, .pdf or .svg (default: FILE with .png)")
    add(
        "--width", choices=list(style.WIDTHS), default="double", help="columns of print (default %(default)s)"
    )
    add("--model", type=int, metavar="INDEX", help="which model of a sweep over several")
    add("--dpi", type=float, default=300.0, help="dots per inch of a .png (default %(default)g)")
    add("--force", action="store_true", help="replace the picture if it exists")


def run(args: argparse.Namespace) -> int:
    """Draw the file's figure and write it."""
    out = Path(args.out) if args.out else Path(args.file).with_suffix(".png")
    form = form_of(out)
    if not 10 <= args.dpi <= 2400:
        raise ParameterError(f"dpi must lie between 10 and 2400, got {args.dpi!r}")
    if out.exists() and not args.force:
        raise FileError(f"{str(out)!r} exists: use --force to replace it")
    if out.is_dir():
        raise FileError(f"{str(out)!r} is a directory")
    figure = draw(args.file, width=args.width, model=args.model)
    atomic.prepare_directory(out.parent)
    atomic.write_bytes(out, render(figure, form, args.dpi))
    print(f"wrote {out}")
    return cli.OK


def main(argv: Sequence[str] | None = None) -> int:
    """The program `bbp plot`."""
    return cli.program("plot", add_arguments, run, argv, summary=SUMMARY, example=EXAMPLE)


if __name__ == "__main__":
    sys.exit(main())
