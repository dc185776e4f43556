"""Sample the Hessian over alpha beside the theory, into one HDF5 file.

Draws teachers, students and data at each (n, alpha), finds the lowest eigenpairs of the Hessian and their squared
overlaps q2 with the teacher, and stores them with the theory at N = infinity. The file is written whole or not at all;
the same command finds a finished file and shows it; an unfinished run goes on with --resume.
"""

from __future__ import annotations

import sys
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from bbp.console.program import callable_as
from bbp.experiments.options import SWEEP
from bbp.experiments.program import Program

EXAMPLE = """  bbp sweep --alpha-grid                         a first look: 11 alphas around alpha_BBP, under a minute
  bbp sweep --alpha-grid 0.5:2:16 --p 2 --a 0.3 --n 400,800 --samples 32 --out results/p2.h5
  bbp sweep --config sweep.toml --workers 4 --resume
  bbp sweep --config sweep.toml --task 3/10      one of ten tasks of a job array; then the same with --merge"""
PROGRAM = Program("sweep", SWEEP, __doc__ or "", EXAMPLE, rivals=(("a", "a_grid"), ("workers", "scheduler")))
add_arguments, run, main = PROGRAM.add_arguments, PROGRAM.run, PROGRAM.main


def sweep(
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
    """Sample the Hessian over alpha beside the theory.

    Parameters
    ----------
    model : theory.Network, or a sequence of them
        What is sampled; or nothing, and `p`, `p_star`, `a`, `activation`, ... among the options.
    alpha : numbers, or a grid such as "0.5:2:16"
        M / N; 11 points around the model's alpha_BBP unless given.
    n, samples : int, or several n
        Input dimensions (400, or that of `inputs`), and samples at each (n, alpha).
    out : path
        The file to write. Without one nothing is left on disk.
    executor : concurrent.futures.Executor
        Runs the units of work: a `Client` of dask, the executor of mpi4py, any other; `processes`, `workers`, `scheduler` are
        left out then. By default processes of this machine, where they pay.
    seed : int
        Of all draws: a sample depends on seed, n, alpha, dtype and its number, on nothing else.
    progress : bool
        Show a bar and messages.
    **options
        Any other option of `bbp sweep`, with _ for -: `target_error`, `refine`, `solver`, `processes`, `resume`, ...

    Returns
    -------
    xarray.Dataset
        What the sweep file holds: samples over (n, alpha, sample, eigenpair), several models as the dimension `model`; theory.

    Raises
    ------
    theory.checks.ParameterError
        On a wrong option, or a file that cannot be used.
    KeyboardInterrupt
        On Ctrl-C, with a line on what is kept: beside `out` (`resume=True` goes on), or in memory (the same call goes on).
    """
    own = {"samples": samples, "seed": seed, **options}
    return PROGRAM.call(own, model, alpha_grid=alpha, n=n, out=out, executor=executor, progress=progress)


callable_as(__name__, sweep)
if __name__ == "__main__":
    sys.exit(main())
