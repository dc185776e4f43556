"""Phase diagram: alpha_BBP, its kind, the overlap jump, both alpha_0 and a_c over widths p and normalisations a."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from bbp.console import options, program
from bbp.experiments.options import PHASE

SUMMARY = (
    "Transitions alpha_BBP, their kind and overlap jump, alpha_0 and a_c over widths p and normalisations a."
)
EXAMPLE = """\
  bbp phase --p 1,2,4,inf --p-star 1 --a-grid 0.01:3:60:log --out phase.h5
  bbp phase --p 1,2 --at-a 0.5,1.5 --n 1e3,1e4,1e6 --out finite.h5
  bbp plot phase.h5 --out phase.pdf"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, from their table."""
    options.add(parser, PHASE)


def run(args: argparse.Namespace) -> int:
    """Carry out the command; 0 done, 1 if thresholds at finite N failed."""
    given = options.given(args, PHASE)
    how = options.checked(PHASE, given)
    # Only now SciPy is imported: --help and wrong options are answered at once.
    experiment = importlib.import_module("bbp.experiments.phase").build(given)
    return importlib.import_module("bbp.engine.door").carry_out(experiment, how)


def main(argv: Sequence[str] | None = None) -> int:
    """The program `bbp phase`."""
    return program.program("phase", add_arguments, run, argv, summary=SUMMARY, example=EXAMPLE)


if __name__ == "__main__":
    sys.exit(main())
