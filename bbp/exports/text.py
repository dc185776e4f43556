"""A table as CSV, LaTeX or JSON. Numbers with an error have its digits: two of the error's own, the value's as far as these.

In CSV an unknown number is an empty cell and infinity is "inf"; in JSON they are null and "inf", and no digit is left out.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bbp.exports.columns import Column, Table
from bbp.exports.digits import decimals, matched, plain, with_interval
from bbp.exports.heads import escaped, heads

DIGITS = {"csv": 12, "latex": 6, "json": 17}  # significant ones of a number without an error
WIDE, APART = 45.0, 1.2  # em: a line of 16 cm at 10 pt, and the gap between two columns
_NARROW = dict.fromkeys(".,[]", 0.28) | dict.fromkeys("()", 0.39) | {"-": 0.78, " ": 0.33}  # em; others 0.5


def as_csv(table: Table, digits: int = DIGITS["csv"]) -> str:
    """A head and a row for each point; an error is a column NAME_error after its value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for column in table.columns for name in column.parts])
    cells = [_cells(column, digits, lambda *alone: (plain(*alone),), matched) for column in table.columns]
    ends = [column.interval or () for column in table.columns]
    for row in range(table.rows):
        written: list[str] = []
        for column, interval in zip(cells, ends, strict=True):
            written += [*column[row], *(plain(end[row], digits) for end in interval)]
        writer.writerow(written)
    return text.getvalue()


def as_latex(table: Table, digits: int = DIGITS["latex"]) -> str:
    """A tabular for the package booktabs: a value and its error as 0.374(11), the error in units of the last digit.

    A share stands with its interval, 1.00 [0.88, 1.00]. Numbers without an error have as many decimals as their column needs.
    """
    aligned = "".join("l" if column.values.dtype.kind in "OUS" else "r" for column in table.columns)
    head = " & ".join(heads([column.name for column in table.columns]))
    lines = [r"\begin{tabular}{" + aligned + "}", r"\toprule", head + r" \\", r"\midrule"]
    cells = [_latex_column(column, digits) for column in table.columns]
    lines += [" & ".join(column[row] for column in cells) + r" \\" for row in range(table.rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def as_json(table: Table, digits: int = DIGITS["json"]) -> str:
    """{"table": name, "about": {column: words}, "rows": [{column: value}]}, errors as NAME_error, every digit kept."""
    rows = [
        {
            name: _json(values[row], digits)
            for column in table.columns
            for name, values in column.parts.items()
        }
        for row in range(table.rows)
    ]
    about = {column.name: column.about for column in table.columns if column.about}
    return json.dumps({"table": table.name, "about": about, "rows": rows}, indent=1, allow_nan=False) + "\n"


def fitting(table: Table) -> tuple[Table, list[str]]:
    """The table's first columns, as many as fit on a page, without those that are empty; and the names of those left out.

    The others stand in CSV and JSON, and where they are asked for by name.
    """
    kept: list[Column] = []
    room = WIDE
    names = heads([column.name for column in table.columns])
    for column, head in zip(table.columns, names, strict=True):
        if column.empty:
            continue
        cells = _latex_column(column, DIGITS["latex"])
        room -= max(map(_printed, [head, *cells])) + APART * bool(kept)
        if room < 0:
            break
        kept.append(column)
    kept = kept or list(table.columns)
    names = [column.name for column in kept]
    return replace(table, columns=tuple(kept)), [
        each.name for each in table.columns if each.name not in names
    ]


def _printed(cell: str) -> float:
    """About the width in em of a cell of LaTeX."""
    mathematics = re.sub(
        r"\$[^$]*\$", lambda found: found.group().replace(" ", ""), cell.replace(r"\mathrm", "")
    )
    letters = re.sub(r"[${}^_\\]", "", re.sub(r"\\[A-Za-z]+", "x", mathematics))
    return sum(_NARROW.get(letter, 0.5) for letter in letters)


def _cells(column: Column, digits: int, alone: Callable[..., Any], both: Callable[..., Any]) -> list[Any]:
    """A cell a row: `alone(value, digits)`, or `both(value, error, digits)` where the column has errors."""
    if column.error is None:
        return [alone(value, digits) for value in column.values]
    return [both(float(v), float(e), digits) for v, e in zip(column.values, column.error, strict=True)]


def _latex_column(column: Column, digits: int) -> list[str]:
    """The cells of a column: shares with intervals, numbers with errors, or all to the decimals of the longest."""
    if column.interval is not None and column.share:
        ends = zip(column.values, *column.interval, strict=True)
        written = (with_interval(*map(float, cell)) for cell in ends)
        return ["--" if cell == "-" else f"${cell}$" for cell in written]
    cells = _cells(column, digits, _latex, _with_error)
    if column.error is not None or column.values.dtype.kind != "f":
        return cells
    plainly = [plain(value, digits) for value in column.values if math.isfinite(value)]
    if any("e" in text for text in plainly):
        return cells
    places = max((len(text.partition(".")[2]) for text in plainly), default=0)
    return [
        f"${value:.{places}f}$" if math.isfinite(value) else cell
        for value, cell in zip(column.values, cells, strict=True)
    ]


def _latex(value: Any, digits: int) -> str:
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        return "--" if math.isnan(value) else r"$\infty$" if value > 0 else r"$-\infty$"
    text = plain(value, digits)
    if isinstance(value, float | np.floating):
        number, _, power = text.partition("e")
        return f"${number} \\times 10^{{{int(power)}}}$" if power else f"${number}$"
    return escaped(text)


def _with_error(value: float, error: float, digits: int) -> str:
    places = decimals(error)
    if places is None or not math.isfinite(value):
        return _latex(value, digits)
    shown, spread = matched(value, error, digits)
    return f"${shown}({spread.replace('.', '').lstrip('0') if places > 1 else spread})$"


def _json(value: Any, digits: int) -> Any:
    plainly = value.item() if isinstance(value, np.generic) else value
    if isinstance(plainly, bytes):
        return plainly.decode()
    if isinstance(plainly, float) and not math.isfinite(plainly):
        return None if math.isnan(plainly) else "inf" if plainly > 0 else "-inf"
    return float(f"{plainly:.{digits}g}") if isinstance(plainly, float) else plainly


FORMS: Mapping[str, Callable[[Table, int], str]] = {"csv": as_csv, "latex": as_latex, "json": as_json}
