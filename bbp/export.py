"""A table of any file of bbp as CSV, LaTeX or JSON, errors beside values and digits to match them."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bbp.console import messages, options, program
from bbp.console.messages import FileError, plain
from bbp.files import disk
from theory.checks import ParameterError

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = {".csv": "csv", ".tex": "latex", ".json": "json"}
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
    """Print or write one table of the file."""
    from bbp.exports import tables
    from bbp.files import dataset

    form = next((form for form in tables.FORMS if getattr(args, form)), None)
    if args.out is not None:
        ending = Path(args.out).suffix
        by_ending = ENDINGS.get(ending.lower(), form)
        if form not in (None, by_ending):
            raise ParameterError(f"out ends in {ending}, but --{form} is asked for")
        form = by_ending
    form = form or "csv"
    out = None if args.out is None else disk.destination(args.out)
    for name in ("out", "columns", "table"):
        if args.list and getattr(args, name) is not None:
            raise ParameterError(f"{name} is for a table, and --list prints their names")
    if out is not None:
        disk.require_apart({"out": out}, [args.file])
        disk.require_free(out, force=args.force)
    found = tables.tables(dataset.open(args.file))
    if args.list:
        for name, each in found.items():
            program.show(f"{name:14} {len(each):8d} rows: {', '.join(tables.quantities(each))}")
        return program.OK
    digits = tables.DIGITS[form] if args.digits is None else min(options.integer()("digits", args.digits), 17)
    name, table = _chosen(found, args.table)
    if args.columns is not None:
        table = tables.chosen(table, _columns(name, table, tables.quantities(table), args.columns))
    elif form == "latex":
        table, left = tables.fitting(table)
        if left:
            messages.log.info("left out, empty or beyond a page: %s (--columns chooses)", ", ".join(left))
    written = tables.FORMS[form](name, table, digits)
    if out is None:
        sys.stdout.write(written if form == "json" else plain(written))
    else:
        disk.prepare_directory(out.parent)
        disk.write_bytes(out, written.encode())
        program.show(f"wrote {args.out}")
    return program.OK


def _chosen(found: Mapping[str, pd.DataFrame], name: str | None) -> tuple[str, pd.DataFrame]:
    if not found:
        raise FileError("the file holds no table")
    if name is None:
        return next(iter(found.items()))
    if name not in found:
        raise ParameterError(
            f"no table {name!r}{options.nearest(name, list(found))}; there are {', '.join(found)}"
        )
    return name, found[name]


def _columns(name: str, table: pd.DataFrame, held: list[str], asked: str) -> list[str]:
    """The columns of these names, in this order."""
    names = [each.strip() for each in asked.split(",")]
    for each in names:
        if each not in held:
            if each in table:
                raise ParameterError(f"{each!r} comes with its value, which is what columns must name")
            near = options.nearest(each, held)
            raise ParameterError(f"no column {each!r}{near}; {name} has {', '.join(held)}")
        if names.count(each) > 1:
            raise ParameterError(f"columns names {each} twice")
    return names


main = functools.partial(
    program.program, "export", add_arguments, run, summary=__doc__ or "", example=EXAMPLE
)


if __name__ == "__main__":
    sys.exit(main())
