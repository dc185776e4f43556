"""Whether one function is the derivative of another: a check of what users write down by hand.

f' is checked as an integral, f(x + h) - f(x) against Gauss-Legendre on [x, x + h]: where f' is smooth, without the loss of
digits of a difference quotient. Intervals that differ are halved until f' is resolved or the interval is short.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_RULE = np.polynomial.legendre.leggauss(16)
_NODES: Array = np.asarray((_RULE[0] + 1) / 2, dtype=np.float64)  # of [0, 1]
_WEIGHTS: Array = np.asarray(_RULE[1] / 2, dtype=np.float64)
_INTERVALS, _HALVINGS = 20, 8
_RELATIVE, _ROUNDING, _SMALL = 1e-6, 1e-9, 1e-12  # of the integral of |f'|, of |f| here, of |f| anywhere
_CORNERS = 8  # short intervals in which f' itself may jump


def departure(
    f: Callable[[Array], Any], slope: Callable[[Array], Any], low: float, high: float
) -> float | None:
    """A point of [low, high] near which `slope` is not the derivative of f, both elementwise; None where it is everywhere.

    A slope that jumps at a few points passes where f has a corner there; one that misses a jump of f does not.

    >>> departure(np.sin, np.cos, -6.1, 5.9) is None
    True
    >>> round(departure(np.square, np.zeros_like, -1.1, 0.9), 1)
    -1.1
    """
    width = (high - low) / _INTERVALS
    left: Array = low + width * np.arange(_INTERVALS, dtype=np.float64)
    largest = steepest = 0.0
    gap: Array = np.zeros(0)
    for halving in range(_HALVINGS + 1):
        if halving:
            width /= 2
            left = np.concatenate([left, left + width])
        with np.errstate(all="ignore"):
            inside = np.asarray(slope((left[:, None] + width * _NODES).ravel())).reshape(left.size, -1)
            starts, ends = (np.asarray(f(x), dtype=np.float64) for x in (left, left + width))
            largest = max(largest, float(np.abs(starts).max()))
            steepest = max(steepest, float(np.abs(inside).max()))
            gap = np.abs(ends - starts - width * inside @ _WEIGHTS)
            allowed = _RELATIVE * width * np.abs(inside) @ _WEIGHTS + _SMALL * largest
            wrong = ~(gap <= allowed + _ROUNDING * (np.abs(starts) + np.abs(ends)))
        left, gap = left[wrong], gap[wrong]
        if not left.size:
            return None
    if left.size <= _CORNERS and np.all(gap <= width * steepest):
        return None
    return float(left[np.argmax(gap)] + width / 2)
