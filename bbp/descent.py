"""Gradient descent on the product of spheres against alpha, and the Hessian along it, into one HDF5 file.

Descents start from random students, from the outlier eigenvectors of the Hessian there, and from the classical
spectral method; the overlaps with the teacher, the loss and the lowest eigenpairs of the Hessian are recorded
on the way. The file is written whole or not at all; the same command finds a finished file and shows it, an
unfinished run goes on with --resume.
"""

from __future__ import annotations

import sys
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from bbp.console.program import callable_as
from bbp.experiments.options import DESCENT
from bbp.experiments.program import NO_OBSERVABLES, Program

EXAMPLE = """  bbp descent                                              a first look at p = 2: about a minute
  bbp descent --p 1 --alpha-grid 0.5:6:12 --n 200 --samples 40 --start random --out results/p1.h5
  bbp plot results/descent.h5 --out descent.pdf"""
PROGRAM = Program("descent", DESCENT, __doc__ or "", EXAMPLE, elsewhere=NO_OBSERVABLES)
add_arguments, run, main = PROGRAM.add_arguments, PROGRAM.run, PROGRAM.main


def descent(
    model: Any = None,
    *,
    alpha: Any = None,
    n: Any = None,
    samples: int = 16,
    out: str | Path | None = None,
    executor: Executor | None = None,
    seed: int = 0,
    progress: bool = True,
    **options: Any,
) -> Any:
    """Gradient descent against alpha, and the Hessian along it.

    Parameters
    ----------
    model, alpha, n, samples, seed
        As in `bbp.sweep`, of one model.
    out, executor, progress
        As in `bbp.sweep`.
    **options
        Those of `bbp descent`, with _ for -: `start`, `dynamics`, `steps`, ...

    Returns
    -------
    xarray.Dataset
        What the file holds.

    Raises
    ------
    theory.checks.ParameterError, KeyboardInterrupt
        As `bbp.sweep`.
    """
    own = {"samples": samples, "seed": seed, **options}
    return PROGRAM.call(own, model, alpha_grid=alpha, n=n, out=out, executor=executor, progress=progress)


callable_as(__name__, descent)
if __name__ == "__main__":
    sys.exit(main())
