"""A table of a file, chosen, cut and written: the work of `bbp export`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from bbp.console import messages, options, program
from bbp.console.grids import integer
from bbp.console.messages import FileError, plain
from bbp.exports import text
from bbp.exports.tables import quantities, tables
from bbp.files import dataset, disk
from theory.checks import ParameterError

ENDINGS = {".csv": "csv", ".tex": "latex", ".json": "json"}


def run(args: argparse.Namespace) -> int:
    """Print or write one table of the file."""
    form = _form(args, None if args.out is None else Path(args.out))
    out = None if args.out is None else disk.destination(args.out)
    for name in ("out", "columns", "table"):
        if args.list and getattr(args, name) is not None:
            raise ParameterError(f"{name} is for a table, and --list prints their names")
    if out is not None:
        disk.require_apart({"out": out}, [args.file])
        disk.require_free(out, force=args.force)
    found = tables(dataset.open(args.file))
    if args.list:
        for name, each in found.items():
            program.show(f"{name:14} {len(each):8d} rows: {', '.join(quantities(each))}")
        return program.OK
    digits = text.DIGITS[form] if args.digits is None else min(integer("digits", args.digits), 17)
    name, table = _chosen(found, args.table)
    if args.columns is not None:
        table = _cut(name, table, args.columns)
    elif form == "latex":
        table, left = text.fitting(table)
        if left:
            messages.log.info("left out, empty or beyond a page: %s (--columns chooses)", ", ".join(left))
    written = text.FORMS[form](name, table, digits)
    if out is None:
        sys.stdout.write(written if form == "json" else plain(written))
    else:
        disk.prepare_directory(out.parent)
        disk.write_bytes(out, written.encode())
        program.show(f"wrote {args.out}")
    return program.OK


def _form(args: argparse.Namespace, out: Path | None) -> str:
    named = next((form for form in text.FORMS if getattr(args, form)), None)
    ending = ENDINGS.get(out.suffix.lower() if out is not None else "", named)
    if named and named != ending:
        raise ParameterError(f"out ends in {out.suffix if out else ''}, but --{named} is asked for")
    return ending or "csv"


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


def _cut(name: str, table: pd.DataFrame, asked: str) -> pd.DataFrame:
    """The table's columns of these names, in this order."""
    held, names = quantities(table), [each.strip() for each in asked.split(",")]
    for each in names:
        if each not in held:
            near = options.nearest(each, held)
            raise ParameterError(f"no column {each!r}{near}; {name} has {', '.join(held)}")
        if names.count(each) > 1:
            raise ParameterError(f"columns names {each} twice")
    return text.chosen(table, names)
