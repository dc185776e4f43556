"""A table of any file of bbp as CSV, LaTeX or JSON, errors beside values and digits to match them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bbp.console import program

EXAMPLE = """  bbp export sweep.h5 --csv --out sweep.csv
  bbp export phase.h5 --table widths --latex
  bbp export compare.h5 --columns alpha,n,lowest,theory_n_lowest --out lowest.tex
  bbp export compare.h5 --json | jq .rows[0]
  bbp export sweep.h5 --list"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `bbp export`."""
    parser.add_argument("file", metavar="FILE.h5", help="any file that bbp wrote")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--csv", action="store_true", help="comma separated (the default, but for --out's ending)"
    )
    form.add_argument("--latex", action="store_true", help="a tabular for LaTeX's booktabs: 0.374(11)")
    form.add_argument("--json", action="store_true", help="rows with every digit, and what columns mean")
    form.add_argument("--list", action="store_true", help="the tables that the file holds")
    parser.add_argument("--table", metavar="NAME", help="which table (default: the first that --list shows)")
    parser.add_argument(
        "--columns",
        metavar="LIST",
        help="only these, in this order, such as alpha,n,lowest (default: all; in LaTeX those that fit on a page)",
    )
    parser.add_argument(
        "--digits", metavar="D", help="of numbers without an error: 12 in CSV, 6 in LaTeX, all in JSON"
    )
    parser.add_argument("--out", metavar="FILE", help="write there, not on the screen: .csv, .tex or .json")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def run(args: argparse.Namespace) -> int:
    """The work, whose libraries --help does not wait for."""
    from bbp.exports import export

    return export.run(args)


def main(argv: Sequence[str] | None = None) -> int:
    """The program `bbp export`."""
    return program.program("export", add_arguments, run, argv, summary=__doc__ or "", example=EXAMPLE)


if __name__ == "__main__":
    sys.exit(main())
