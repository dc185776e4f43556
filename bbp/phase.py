"""Phase diagram: alpha_BBP, its kind, the overlap jump, both alpha_0 and a_c over widths p and normalisations a."""

from __future__ import annotations

import sys
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from bbp.console.program import callable_as
from bbp.experiments.options import PHASE
from bbp.experiments.program import NO_OBSERVABLES, Program

SUMMARY = (
    "Transitions alpha_BBP, their kind and overlap jump, alpha_0 and a_c over widths p and normalisations a. With an"
    " --activation that is not quadratic maps are smaller unless told: p 1,2,inf, a 1.5:15:5:log, cuts 1,2,3,4,inf at 2,10."
)
EXAMPLE = """\
  bbp phase --p 1,2,4,inf --p-star 1 --a-grid 0.01:3:60:log --out phase.h5
  bbp phase --p 1,2 --at-a 0.5,1.5 --n 1e3,1e4,1e6 --out finite.h5
  bbp plot phase.h5 --out phase.pdf"""
PROGRAM = Program("phase", PHASE, SUMMARY, EXAMPLE, elsewhere=NO_OBSERVABLES)
add_arguments, run, main = PROGRAM.add_arguments, PROGRAM.run, PROGRAM.main


def phase(
    *, out: str | Path | None = None, executor: Executor | None = None, progress: bool = True, **options: Any
) -> Any:
    """Phase diagram over widths p and normalisations a.

    Parameters
    ----------
    out, executor, progress
        As in `bbp.sweep`.
    **options
        Those of `bbp phase`, with _ for -: `p`, `a_grid`, `at_a`, `widths`, `n`, ...

    Returns
    -------
    xarray.Dataset
        What the file holds.

    Raises
    ------
    theory.checks.ParameterError, KeyboardInterrupt
        As `bbp.sweep`.
    """
    return PROGRAM.call(options, out=out, executor=executor, progress=progress)


callable_as(__name__, phase)
if __name__ == "__main__":
    sys.exit(main())
