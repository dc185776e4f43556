"""What is in this file: format, models, sizes, how complete it is, where it came from.

Reads any file of this package; of a sweep it tells the configuration, the samples done and failed, versions and times.
With an unfinished run's FILE.h5.parts beside it, tells how far that has come.
"""

from __future__ import annotations

import argparse
import functools
import sys

from bbp.console import program

EXAMPLE = """  bbp info results/sweep.h5             one screen
  bbp info results/sweep.h5 --table     and the closing table
  bbp info results/sweep.h5 --json      the configuration, to be read by programs"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bbp info`."""
    parser.add_argument(
        "file", metavar="FILE.h5", help="a file that bbp wrote, or that an unfinished run is to write"
    )
    parser.add_argument("--table", action="store_true", help="the closing table of a sweep too")
    parser.add_argument(
        "--json", action="store_true", help="only the configuration, as JSON (a list, one a model)"
    )


def run(args: argparse.Namespace) -> int:
    """The work, whose libraries --help does not wait for."""
    from bbp.exports import info

    return info.run(args)


main = functools.partial(program.program, "info", add_arguments, run, summary=__doc__ or "", example=EXAMPLE)


if __name__ == "__main__":
    sys.exit(main())
