"""Gradient descent on the product of spheres against alpha, and the Hessian along it, into one HDF5 file.

Descents start from random students, from the outlier eigenvectors of the Hessian there, and from the classical
spectral method; the overlaps with the teacher, the loss and the lowest eigenpairs of the Hessian are recorded
on the way. The file is written whole or not at all; the same command finds a finished file and shows it, an
unfinished run goes on with --resume.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from bbp.console import options, program
from bbp.experiments.options import DESCENT

EXAMPLE = """  bbp descent                                              a first look at p = 2: about a minute
  bbp descent --p 1 --alpha-grid 0.5:6:12 --n 200 --samples 40 --start random --out results/p1.h5
  bbp plot results/descent.h5 --out descent.pdf"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, from their table."""
    options.add(parser, DESCENT)


def run(args: argparse.Namespace) -> int:
    """Carry out the command; 0 done, 1 if samples failed."""
    given = options.given(args, DESCENT)
    how = options.checked(DESCENT, given)
    # Only now JAX is imported: --help and wrong options are answered at once.
    experiment = importlib.import_module("bbp.experiments.descent").build(given, how["threshold"])
    return importlib.import_module("bbp.engine.door").carry_out(experiment, how)


def main(argv: Sequence[str] | None = None) -> int:
    """The command `bbp descent`."""
    return program.program("descent", add_arguments, run, argv, summary=__doc__ or "", example=EXAMPLE)


if __name__ == "__main__":
    sys.exit(main())
