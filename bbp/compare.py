"""Compare finite-N samples with theory: a table, a figure, and a file of the numbers.

Reads sweep files (several, or one with several N; samples of one model are pooled) and prints, for each model, the
observables with bootstrap errors beside theory at N = infinity and at their N (means over draws of labels), the crossings of
phi, and alpha_0. With --save the draws of finite-N theory go on where they stopped (--resume);
without it they are made in this process, in as many threads as there are cores or --processes says, and nothing is kept.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from bbp.console import options, program
from bbp.console.messages import log
from bbp.console.program import callable_as
from bbp.experiments import models, own
from bbp.experiments.options import COMPARE
from bbp.experiments.program import Program, carry_out
from bbp.files import disk
from theory.checks import ParameterError, shown

EXAMPLE = """  bbp sweep --alpha-grid 0.8:2:13 --n 200,400,800 --a 0.5 --samples 64 --out results/sizes.h5
  bbp compare results/sizes.h5 --out sizes.png --save results/sizes-compare.h5
  bbp compare results/sizes.h5 --draws 1000 --save results/sizes-compare.h5 --resume"""
ALONE = "out", "width", "force", "processes", *own.KINDS  # of how to run: what needs no file of numbers
PROGRAM = Program("compare", COMPARE, __doc__ or "", EXAMPLE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, from their table, and the files."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE.h5", help="sweep files; those of one model are pooled"
    )
    options.add(parser, COMPARE)


def run(args: argparse.Namespace) -> int:
    """Carry out the command; 0 done, 1 if draws failed."""
    asked = options.asked(args, COMPARE)
    how = options.checked(COMPARE, asked)
    _require_file(how, asked)
    places = {name: how[name] for name in ("out", "save") if how[name] is not None}
    disk.require_apart(places, args.files)
    # Only now SciPy and matplotlib are imported: --help and wrong options are answered at once.
    from bbp import plot
    from bbp.experiments.base import each_model
    from bbp.experiments.compare import build
    from bbp.plots.sweep import told_apart

    form = plot.form_of(how["out"]) if how["out"] is not None else ""
    for path in places.values():
        disk.prepare_directory(path.parent)
    if how["out"] is not None:
        disk.require_free(how["out"], force=how["force"])
    run_as = {**how, "out": how["save"]}

    def draw(found: Any) -> None:
        if how["out"] is not None:
            named = {models.words(models.of(one)): one for one in each_model(found)}
            figure = plot.draw(told_apart(named) if len(named) > 1 else found, width=how["width"])
            disk.write_bytes(how["out"], plot.render(figure, form, 300))
            log.info("wrote %s", how["out"])

    return carry_out(build(run_as, asked, args.files), run_as, draw)


def _require_file(how: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """ParameterError for options of a run that is kept, without a file beside which to keep it."""
    for option in COMPARE:
        kept = not option.decides and option.name not in ALONE and option.name in asked
        if kept and how[option.name] not in (None, False) and how["save"] is None:
            why = "it lists the pieces of work" if option.name == "dry_run" else "draws are"
            raise ParameterError(f"{option.written} needs --save FILE.h5: {why} kept beside that file")


main = functools.partial(
    program.program, "compare", add_arguments, run, summary=__doc__ or "", example=EXAMPLE
)


def compare(
    files: str | Path | Sequence[str | Path],
    *,
    out: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool = True,
    **options: Any,
) -> Any:
    """Compare the samples of sweep files with theory.

    Parameters
    ----------
    files : path, or several
        Sweep files.
    out : path
        The file of the numbers (--save of `bbp compare`).
    executor, progress
        As in `bbp.sweep`.
    **options
        The other options of `bbp compare`, with _ for -: `draws`, `repeats`, `seed`, ...

    Returns
    -------
    xarray.Dataset
        As `bbp.analysis.comparison.compare`; a list of them, one a model, where there are several.

    Raises
    ------
    theory.checks.ParameterError, KeyboardInterrupt
        As `bbp.sweep`.
    """
    each = list(files) if isinstance(files, list | tuple) else [files]
    if not each or not all(isinstance(name, str | Path) and str(name) for name in each):
        raise ParameterError(
            f"files must be the name of a sweep file, or a list of several, got {shown(files)}"
        )
    names = [str(name) for name in each]
    return PROGRAM.call(options, names, out=out, executor=executor, progress=progress)


callable_as(__name__, compare)
if __name__ == "__main__":
    sys.exit(main())
