"""Numbers in digits: as many as an error allows, a share with its interval."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


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


def with_interval(value: float, low: float, high: float) -> str:
    """A share and its interval, to two digits of the interval's length and no fewer than two decimals.

    >>> with_interval(1.0, 0.8787, 1.0), with_interval(0.5, 0.4912, 0.5088), with_interval(math.nan, math.nan, math.nan)
    ('1.00 [0.88, 1.00]', '0.500 [0.491, 0.509]', '-')
    """
    if not math.isfinite(value):
        return "-"
    places = max(decimals(high - low) or 0, 2)
    return f"{value:.{places}f} [{low:.{places}f}, {high:.{places}f}]"
