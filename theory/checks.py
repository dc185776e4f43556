"""Checks of arguments at the public boundary: one line that says what was wanted and what was given."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np


class ParameterError(ValueError):
    """An argument the caller can mend; one line, like "alpha must be positive and finite, got -1.0"."""


class NotConverged(RuntimeError):
    """An iterative solve that ran out of steps; `best` carries its best estimate so far."""

    def __init__(self, message: str, best: Any = None):
        super().__init__(message)
        self.best = best


def positive(name: str, value: Any) -> Any:
    """`value` as float (or float64 array of its shape), all positive and finite; else ParameterError."""
    return _real_array(name, value, lambda v: (v > 0) & np.isfinite(v), "positive and finite")


def finite(name: str, value: Any) -> Any:
    """`value` as float (or float64 array of its shape), all finite; else ParameterError."""
    return _real_array(name, value, np.isfinite, "finite")


def count(name: str, value: Any, minimum: int = 1) -> int:
    """`value` as int, at least `minimum`; else ParameterError. 2.0 counts as 2; True and "2" do not count."""
    number = _whole(value)
    if number is None or number < minimum:
        raise ParameterError(f"{name} must be an integer of at least {minimum}, got {value!r}")
    return number


def width(name: str, value: Any) -> int | float:
    """A layer width: an integer of at least 1, or math.inf; else ParameterError."""
    if isinstance(value, float | np.floating) and math.isinf(value) and value > 0:
        return math.inf
    number = _whole(value)
    if number is None or number < 1:
        raise ParameterError(f"{name} must be an integer of at least 1 or inf, got {value!r}")
    return number


def widths(name: str, value: Any, infinite: bool = True) -> Any:
    """Layer widths as float64 (array or float): whole numbers from 1, inf only if allowed; else ParameterError."""
    wanted = "an integer of at least 1" + (" or inf" if infinite else "")
    return _real_array(
        name, value, lambda v: (v >= 1) & (v == np.rint(v)) & (np.isfinite(v) | infinite), wanted
    )


def _whole(value: Any) -> int | None:
    if isinstance(value, bool | np.bool_ | str | bytes):
        return None
    try:
        return operator.index(value)
    except TypeError:
        pass
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if math.isfinite(number) and number == int(number) else None


def _real_array(name: str, value: Any, accept: Any, wanted: str) -> Any:
    try:
        if isinstance(value, str | bytes | bool) or np.asarray(value).dtype.kind not in "iuf":
            raise TypeError
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be {wanted}, got {value!r}") from None
    good = accept(array)
    if not np.all(good):
        culprit = value if array.ndim == 0 else array[~good].flat[0].item()
        raise ParameterError(f"{name} must be {wanted}, got {culprit!r}")
    return float(array) if array.ndim == 0 else array
