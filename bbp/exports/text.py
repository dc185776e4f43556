"""A table as CSV, LaTeX or JSON. Numbers with an error have its digits: two of the error's own, the value's as far as these.

In CSV an unknown number is an empty cell and infinity is "inf"; in JSON they are null and "inf", and no digit is left out.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bbp.exports.tables import ERROR, Column, Table

DIGITS = {"csv": 12, "latex": 6, "json": 17}  # significant ones of a number without an error
SYMBOLS = {
    "n": "$N$",
    "p": "$p$",
    "p_star": "$p^*$",
    "a": "$a$",
    "finite_a": "$a$",
    "alpha": r"$\alpha$",
    "alpha_bbp": r"$\alpha_\mathrm{BBP}$",
    "alpha_bbp_n": r"$\alpha_\mathrm{BBP}(N)$",
    "alpha_0_overlap": r"$\alpha_0$, overlap",
    "alpha_0_continuation": r"$\alpha_0$, continuation",
    "a_c": "$a_c$",
    "p_c": "$p_c$",
    "alpha_c": r"$\alpha_\mathrm{BBP}(a_c)$",
    "jump": r"$\Delta q^2$",
    "lowest": r"$\lambda_1$",
    "eigenvalues": r"$\lambda$",
    "overlap": "$q^2$",
    "overlaps": "$q^2$",
    "phi": r"$\phi$",
    "phi_group": r"$\phi$",
    "gap": r"$\Delta\lambda$",
    "theory_edge": r"$\lambda_-$",
    "theory_outlier": r"$\lambda_\mathrm{out}$",
    "theory_overlap": r"$q^2_\infty$",
    "edge": r"$\lambda_-$",
    "outlier": r"$\lambda_\mathrm{out}$",
    "m2": "$m^2$",
}
_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
}


def decimals(error: float) -> int | None:
    """Decimals that show two digits of an error (negative: tens); None where it has none.

    >>> [decimals(e) for e in (0.0123, 0.00999, 4.5, 120.0, 0.0, math.nan)]
    [3, 3, 1, -1, None, None]
    """
    if not math.isfinite(error) or error <= 0:
        return None
    return -int(f"{error:.1e}".partition("e")[2]) + 1


def matched(value: float, error: float, digits: int = 12) -> tuple[str, str]:
    """A value and its error in plain digits, both to two digits of the error.

    >>> matched(0.374216, 0.0113)
    ('0.374', '0.011')
    >>> matched(1234.5, 120.0)
    ('1230', '120')
    """
    places = decimals(error)
    if places is None or not math.isfinite(value):
        return plain(value, digits), plain(error, digits)
    return tuple(f"{round(x, places):.{max(places, 0)}f}" for x in (value, error))  # type: ignore[return-value]


def plain(value: Any, digits: int = 12) -> str:
    """A number to so many digits, whole ones as they are; text as it is; nothing for an unknown number.

    >>> plain(1 / 3), plain(7), plain(math.nan), plain(-math.inf), plain("sharp")
    ('0.333333333333', '7', '', '-inf', 'sharp')
    """
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float | np.floating):
        return "" if math.isnan(value) else f"{value:.{digits}g}"
    return str(value)


def as_csv(table: Table, digits: int = DIGITS["csv"]) -> str:
    """A head and a row for each point; an error is a column NAME_error after its value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = []
    for column in table.columns:
        head += [column.name] if column.error is None else [column.name, column.name + ERROR]
    writer.writerow(head)
    cells = [_cells(column, digits, lambda *alone: (plain(*alone),), matched) for column in table.columns]
    for row in range(table.rows):
        writer.writerow([cell for column in cells for cell in column[row]])
    return text.getvalue()


def as_latex(table: Table, digits: int = DIGITS["latex"]) -> str:
    """A tabular for the package booktabs; a value and its error as 0.374(11), the error in units of the last digit."""
    aligned = "".join("l" if column.values.dtype.kind in "OUS" else "r" for column in table.columns)
    head = " & ".join(SYMBOLS.get(column.name, escaped(column.name)) for column in table.columns)
    lines = [r"\begin{tabular}{" + aligned + "}", r"\toprule", head + r" \\", r"\midrule"]
    cells = [_cells(column, digits, _latex, _with_error) for column in table.columns]
    lines += [" & ".join(column[row] for column in cells) + r" \\" for row in range(table.rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def as_json(table: Table, digits: int = DIGITS["json"]) -> str:
    """{"table": name, "about": {column: words}, "rows": [{column: value}]}, errors as NAME_error, every digit kept."""
    rows = [
        {
            name: _json(values[row], digits)
            for column in table.columns
            for name, values in ((column.name, column.values), (column.name + ERROR, column.error))
            if values is not None
        }
        for row in range(table.rows)
    ]
    about = {column.name: column.about for column in table.columns if column.about}
    return json.dumps({"table": table.name, "about": about, "rows": rows}, indent=1, allow_nan=False) + "\n"


def escaped(text: str) -> str:
    r"""Text with the characters that LaTeX takes for its own spelled out.

    >>> escaped("p_c & 5%")
    'p\\_c \\& 5\\%'
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def _cells(column: Column, digits: int, alone: Callable[..., Any], both: Callable[..., Any]) -> list[Any]:
    """A cell a row: `alone(value, digits)`, or `both(value, error, digits)` where the column has errors."""
    if column.error is None:
        return [alone(value, digits) for value in column.values]
    return [both(float(v), float(e), digits) for v, e in zip(column.values, column.error, strict=True)]


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
