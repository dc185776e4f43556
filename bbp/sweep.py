"""Sample the Hessian over alpha beside the theory, into one HDF5 file.

Draws teachers, students and data at each (n, alpha), finds the lowest eigenpairs of the Hessian and their squared
overlaps q2 with the teacher, and stores them with the theory at N = infinity. The file is written whole or not at all;
the same command finds a finished file and shows it; an unfinished run goes on with --resume.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bbp.console.door import Door
from bbp.experiments.options import SWEEP

EXAMPLE = """  bbp sweep --alpha-grid                         a first look: 11 alphas around alpha_BBP, under a minute
  bbp sweep --alpha-grid 0.5:2:16 --p 2 --a 0.3 --n 400,800 --samples 32 --out results/p2.h5
  bbp sweep --config sweep.toml --workers 4 --resume
  bbp sweep --config sweep.toml --task 3/10      one of ten tasks of a job array; then the same with --merge"""
DOOR = Door("sweep", SWEEP, __doc__ or "", EXAMPLE, rivals=(("a", "a_grid"), ("workers", "scheduler")))
add_arguments, run = DOOR.add_arguments, DOOR.run


def main(argv: Sequence[str] | None = None) -> int:
    """The command `bbp sweep`; its exit code."""
    return DOOR.main(argv)


if __name__ == "__main__":
    sys.exit(main())
