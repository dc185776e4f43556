"""Minima against their overlap with the teacher: where they are most numerous, and how near to it there are any."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from theory.checks import ParameterError, finite, one
from theory.minima import saddle
from theory.minima.answers import STEPS, Minima, checked, complexity
from theory.minima.labels import labels
from theory.minima.saddle import Saddle
from theory.model import Network

Array = NDArray[np.float64]

_GRID = 17
_FLAT = 1e-9  # of an overlap, to which the largest complexity is looked for


def most_numerous(model: Network, alpha: float, low: float = -0.99, high: float = 0.99) -> Minima:
    """The minima of largest complexity over overlaps with the teacher.

    Parameters
    ----------
    model, alpha
        As in `complexity`.
    low, high : float
        The overlaps lie in [low, high].

    Returns
    -------
    Minima

    Raises
    ------
    ParameterError
        As `complexity`.
    """
    low, high = (one(name, finite(name, value)) for name, value in (("low", low), ("high", high)))
    if not -1 < low < high < 1:
        raise ParameterError(f"low and high must be rising and inside (-1, 1), got {low} and {high}")
    model, alpha, _ = checked(model, alpha, 0.0)
    if model.even_students and low == -high:
        low = 0.0  # m and -m are alike
    for h in STEPS[1:]:  # coarse nodes tell where, as the complexity is flat there; thin laws need finer ones
        grid = np.linspace(low, high, _GRID)
        found = _scanned(model, alpha, grid, h)
        if any(found):
            break
    else:
        return complexity(model, alpha, (low + high) / 2)
    values = [-math.inf if each is None else each.value for each in found]
    best = int(np.argmax(values))
    held = found[best]
    assert held is not None
    m = float(grid[best])

    def less(m: float) -> float:
        at = saddle.continued(labels(model, m, h), alpha, None, held)
        return math.inf if at is None else -at.value

    left, right = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
    if not (m == 0.0 and model.even_students and values[best + 1] < values[best]):
        top = minimize_scalar(less, bounds=(left, right), method="bounded", options={"xatol": _FLAT})
        m = float(top.x) if top.fun < -values[best] else m
    return complexity(model, alpha, m)


def reach(model: Network, alpha: float, start: Minima) -> float:
    """The largest overlap with the teacher up to which there are minima.

    Parameters
    ----------
    model, alpha
        As in `complexity`.
    start : Minima
        Minima there, such as the most numerous.

    Returns
    -------
    float
        Where the complexity passes 0 above the overlap of `start`; NaN where that has none above 0, or no passage is found.

    Raises
    ------
    ParameterError
        As `complexity`.

    >>> from theory.minima import complexity
    >>> model = Network(a=0.5)
    >>> round(reach(model, 4.0, complexity(model, 4.0)), 4)
    0.4433
    """
    model, alpha, _ = checked(model, alpha, start.overlap)
    if start.saddle is None or not start.complexity > 0:
        return math.nan
    held = start

    def height(m: float) -> float:
        return complexity(model, alpha, m, near=[held]).complexity

    for m in np.linspace(start.overlap, 0.99, _GRID)[1:]:
        found = complexity(model, alpha, float(m), near=[held])
        if found.saddle is None:
            break
        if found.complexity <= 0:
            return float(brentq(height, held.overlap, found.overlap, xtol=1e-8))
        held = found
    return math.nan


def _scanned(model: Network, alpha: float, grid: Array, h: float) -> list[Saddle | None]:
    """The extremum at every overlap, at nodes of step h; each from the one before."""
    found: list[Saddle | None] = []
    for m in grid:
        near = [each for each in found[-1:] if each is not None]
        found.append(saddle.extremum(labels(model, float(m), h), alpha, None, near))
    return found
