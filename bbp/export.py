"""A table of any file of bbp as CSV, LaTeX or JSON, errors beside values and digits to match them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bbp.console import program
from bbp.console.errors import FileError
from bbp.console.grids import integer
from bbp.console.text import plain
from bbp.exports import text
from bbp.exports.columns import Table
from bbp.exports.tables import tables
from bbp.files import atomic, outputs
from theory.checks import ParameterError

EXAMPLE = """  bbp export sweep.h5 --csv --out sweep.csv
  bbp export phase.h5 --table widths --latex
  bbp export compare.h5 --columns alpha,n,lowest,theory_n_lowest --out lowest.tex
  bbp export compare.h5 --json | jq .rows[0]
  bbp export sweep.h5 --list"""
ENDINGS = {".csv": "csv", ".tex": "latex", ".json": "json"}


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
    form = _form(args, None if args.out is None else Path(args.out))
    out = None if args.out is None else outputs.destination(args.out)
    for name in ("out", "columns", "table"):
        if args.list and getattr(args, name) is not None:
            raise ParameterError(f"{name} is for a table, and --list prints their names")
    if out is not None:
        outputs.require_apart({"out": out}, [args.file])
        outputs.require_free(out, force=args.force)
    found = tables(args.file)
    if args.list:
        for each in found:
            program.show(f"{each.name:14} {each.rows:8d} rows: {', '.join(c.name for c in each.columns)}")
        return program.OK
    digits = text.DIGITS[form] if args.digits is None else min(integer("digits", args.digits), 17)
    table = _chosen(found, args.table)
    if args.columns is not None:
        table = _cut(table, args.columns)
    elif form == "latex":
        table, left = text.fitting(table)
        if left:
            program.log.info("left out, empty or beyond a page: %s (--columns chooses)", ", ".join(left))
    written = text.FORMS[form](table, digits)
    if out is None:
        sys.stdout.write(written if form == "json" else plain(written))
    else:
        atomic.prepare_directory(out.parent)
        atomic.write_bytes(out, written.encode())
        program.show(f"wrote {args.out}")
    return program.OK


def _form(args: argparse.Namespace, out: Path | None) -> str:
    named = next((form for form in text.FORMS if getattr(args, form)), None)
    ending = ENDINGS.get(out.suffix.lower() if out is not None else "", named)
    if named and named != ending:
        raise ParameterError(f"out ends in {out.suffix if out else ''}, but --{named} is asked for")
    return ending or "csv"


def _chosen(found: Sequence[Table], name: str | None) -> Table:
    if not found:
        raise FileError("the file holds no table")
    if name is None:
        return found[0]
    names = [each.name for each in found]
    if name not in names:
        raise ParameterError(f"no table {name!r}{program.nearest(name, names)}; there are {', '.join(names)}")
    return found[names.index(name)]


def _cut(table: Table, asked: str) -> Table:
    """The table's columns of these names, in this order."""
    held = {column.name: column for column in table.columns}
    names = [name.strip() for name in asked.split(",")]
    for name in names:
        if name not in held:
            near = program.nearest(name, list(held))
            raise ParameterError(f"no column {name!r}{near}; {table.name} has {', '.join(held)}")
        if names.count(name) > 1:
            raise ParameterError(f"columns names {name} twice")
    return replace(table, columns=tuple(held[name] for name in names))


def main(argv: Sequence[str] | None = None) -> int:
    """The program `bbp export`."""
    return program.program("export", add_arguments, run, argv, summary=__doc__ or "", example=EXAMPLE)


if __name__ == "__main__":
    sys.exit(main())
