"""Compare finite-N samples with theory: a table, a figure, and a file of the numbers.

Reads sweep files (several, or one with several N; samples of one model are pooled) and prints, for each model, the
observables with bootstrap errors beside the N = infinity theory and the quenched theory of finite N, the crossings of phi,
the law of the edge's shift, and alpha_0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bbp import plot, store
from bbp.analysis import comparison_file
from bbp.analysis.comparison import Comparison, compare
from bbp.analysis.comparison_table import table
from bbp.analysis.pool import pool
from bbp.console import grids, program
from bbp.console.errors import FileError
from bbp.console.program import log
from bbp.files import atomic, outputs
from bbp.plots import style
from bbp.plots.compare import compare_figure

EXAMPLE = """  bbp sweep --alpha-grid 0.8:2:13 --n 200,400,800 --a 0.5 --samples 64 --out results/sizes.h5
  bbp compare results/sizes.h5 --out sizes.png --save results/sizes-compare.h5"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bbp compare`."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE.h5", help="sweep files; those of one model are pooled"
    )
    parser.add_argument("--out", metavar="FIG", help="figure to draw: .png, .pdf or .svg (one model only)")
    parser.add_argument("--save", metavar="FILE.h5", help="file of the numbers to write (one model only)")
    parser.add_argument(
        "--draws", default="16", help="draws of labels for the quenched theory; 0 leaves it out (16)"
    )
    parser.add_argument("--repeats", default="1000", help="bootstrap repeats, at least 100 (1000)")
    parser.add_argument("--seed", default="0", help="of the bootstrap and of the labels (0)")
    parser.add_argument(
        "--width", choices=list(style.WIDTHS), default="double", help="columns of print (double)"
    )
    parser.add_argument("--force", action="store_true", help="replace existing output files")


def run(args: argparse.Namespace) -> int:
    """Carry out the command."""
    draws, repeats = grids.integer("draws", args.draws, 0), grids.integer("repeats", args.repeats, 100)
    seed = grids.seed(args.seed)
    given = {name: getattr(args, name) for name in ("out", "save")}
    places = {name: outputs.destination(value, name) for name, value in given.items() if value is not None}
    form = plot.form_of(Path(args.out)) if args.out is not None else ""
    outputs.require_apart(places, args.files)
    for path in places.values():
        outputs.require_free(path, force=args.force)
        atomic.prepare_directory(path.parent)
    sweeps = pool([sweep for path in args.files for sweep in store.load_all(path)])
    if places and len(sweeps) > 1:
        names = "; ".join(store.describe(sweep.model) for sweep in sweeps)
        raise FileError(f"the files hold {len(sweeps)} models ({names}): a figure or a file shows one")
    comparisons: list[Comparison] = []
    with program.Progress(len(sweeps), unit="model") as progress:
        for sweep in sweeps:
            comparisons.append(compare(sweep, draws=draws, repeats=repeats, seed=seed))
            progress.advance()
    program.show("\n\n".join(table(comparison) for comparison in comparisons))
    if args.save is not None:
        comparison_file.save(
            places["save"], comparisons[0], files=args.files, draws=draws, repeats=repeats, seed=seed
        )
        log.info("wrote %s", places["save"])
    if args.out is not None:
        figure = compare_figure(comparisons[0], width=args.width)
        atomic.write_bytes(places["out"], plot.render(figure, form, 300))
        log.info("wrote %s", places["out"])
    return program.OK


def main(argv: Sequence[str] | None = None) -> int:
    """The command `bbp compare`."""
    return program.program("compare", add_arguments, run, argv, summary=__doc__ or "", example=EXAMPLE)


if __name__ == "__main__":
    sys.exit(main())
