"""Sample the Hessian over alpha beside the theory, into one HDF5 file.

Draws teachers, students and data at each (n, alpha), finds the lowest eigenpairs of the Hessian and their squared
overlaps q2 with the teacher, and stores them with the theory at N = infinity. The file is written whole or not at all;
the same command finds a finished file and shows it; an unfinished run goes on with --resume.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from bbp.console import options, program
from bbp.experiments.options import SWEEP

EXAMPLE = """  bbp sweep --alpha-grid                         a first look: 11 alphas around alpha_BBP, under a minute
  bbp sweep --alpha-grid 0.5:2:16 --p 2 --a 0.3 --n 400,800 --samples 32 --out results/p2.h5
  bbp sweep --config sweep.toml --workers 4 --resume
  bbp sweep --config sweep.toml --task 3/10      one of ten tasks of a job array; then the same with --merge"""
RIVALS = (("a", "a_grid"), ("workers", "scheduler"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, from their table."""
    options.add(parser, SWEEP)


def run(args: argparse.Namespace) -> int:
    """Carry out the command; 0 done, 1 if samples failed."""
    given = options.given(args, SWEEP, RIVALS)
    how = options.checked(SWEEP, given)
    # Only now JAX is imported: --help and wrong options are answered at once.
    experiment = importlib.import_module("bbp.experiments.sweep").build(given)
    return importlib.import_module("bbp.engine.door").carry_out(experiment, how)


def main(argv: Sequence[str] | None = None) -> int:
    """The command `bbp sweep`."""
    return program.program("sweep", add_arguments, run, argv, summary=__doc__ or "", example=EXAMPLE)


if __name__ == "__main__":
    sys.exit(main())
