"""How answers print: one short line with errors beside values, and in a notebook a table with units."""

from __future__ import annotations

import html
import math
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

DIGITS = 11  # of a number without an error
LONGEST = 40  # characters of anything that is no number
# Units of what answers hold, by name; what is not here is a pure number.
UNITS = dict.fromkeys(
    ("edge", "outlier", "outliers", "lowest", "lowest_std", "edge_std", "eigenvalues", "residuals"), "Hessian"
) | dict.fromkeys(("alpha", "alpha_0", "half"), "M/N")


class Printed:
    """A dataclass whose `str` and `repr` are one line: fields at their defaults are left out, arrays told by shape and ends,
    and an error NAME_error stands behind NAME (`error` behind the first field).

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class Measured(Printed):
    ...     value: float
    ...     kind: str
    ...     error: float = 0.0
    >>> Measured(1.2345, "sharp", 0.02)
    Measured(value=1.234 ± 0.02, kind='sharp')
    """

    def __repr__(self) -> str:
        parts = [f"{name}={number}{error and f' ± {error}'}" for name, number, error in self._printed()]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """The table of a notebook."""
        cells = [(*row, self._unit_of(row[0])) for row in self._printed()]
        rows = ["".join(f"<td>{html.escape(text, quote=False)}</td>" for text in row) for row in cells]
        head = "".join(f"<th>{name}</th>" for name in (type(self).__name__, "", "error", "unit"))
        return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"

    def _unit_of(self, name: str) -> str:
        """The unit of a field, "" of a pure number."""
        own = getattr(type(self), "_units", {})
        return own.get(name, UNITS.get(name, ""))

    def _printed(self) -> list[tuple[str, str, str]]:
        """Name, value and error of every field that is worth a word."""
        held = {field.name: field for field in fields(self) if field.repr}  # type: ignore[arg-type]
        first = next(iter(held))
        errors = {name: f"{name}_error" for name in held if f"{name}_error" in held}
        if "error" in held and first not in errors:
            errors[first] = "error"
        found = []
        for name, field in held.items():
            value = getattr(self, name)
            if name in errors.values() or (name != first and _same(value, field.default)):
                continue
            error = getattr(self, errors[name]) if name in errors else 0.0
            found.append((name, *_told(value, error)))
        return found


def _same(value: Any, default: Any) -> bool:
    if default is MISSING or isinstance(value, np.ndarray):
        return False
    both_nan = (
        isinstance(value, float) and isinstance(default, float) and math.isnan(value) and math.isnan(default)
    )
    return both_nan or value is default or (type(value) is type(default) and value == default)


def _told(value: Any, error: Any) -> tuple[str, str]:
    """A value and its error as texts, the value to two digits of the error."""
    if isinstance(value, np.ndarray) and value.ndim:
        size = np.nan_to_num(np.asarray(error, dtype=np.float64))
        largest = float(np.max(size, initial=0.0))
        return _array(value), f"{largest:.1g} at most" if largest else ""
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if not isinstance(value, float):
        text = repr(value)
        return text if len(text) <= LONGEST else text[: LONGEST - 3] + "...", ""
    error = float(error)
    if not 0 < error < math.inf or not math.isfinite(value):
        return f"{value:.{DIGITS}g}", ""
    decimals = 1 - math.floor(math.log10(error))
    return f"{value:.{decimals}f}" if 0 <= decimals <= 15 else f"{value:.{DIGITS}g}", f"{error:.1g}"


def _array(values: np.ndarray) -> str:
    shape = f"array {values.shape}"
    if values.dtype.kind == "b":
        return f"{shape}, {np.mean(values):.3g} of them true" if values.size else shape
    if values.dtype.kind not in "fiu":
        held = list(dict.fromkeys(map(str, values.ravel().tolist())))
        return f"{shape} of {', '.join(held[:3])}{', ...' if len(held) > 3 else ''}" if any(held) else shape
    known = values[np.isfinite(values)]
    return f"{shape}, {known.min():.6g} to {known.max():.6g}" if known.size else f"{shape}, no number"
