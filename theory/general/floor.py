"""The infimum of a scalar weight f(x, y) over everything its arguments can be, infinity included.

The left edge of a spectrum is smooth or sharp according to how the weights end below, which nodes of a quadrature cannot
tell: n of them come near an infimum at infinity only like 1/log n. Here it is found by minimising over x at every y of a grid
that spans all scales, then over y; and by the minima over boxes of growing size, which converge, or go on falling where the
weight is unbounded below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.late_scipy import minimize, minimize_scalar

Array = NDArray[Any]
Weight = Callable[[Array, Array], Array]

_GOLDEN = (np.sqrt(5) - 1) / 2
_SECTIONS = 24  # golden sections: a place to 1e-5 of its bracket
_BOXES = np.array([1e1, 1e2, 1e3, 1e4])  # of x; y within their fourth power
_MID = np.linspace(-12, 12, 241)
_FAR = np.geomspace(12, 1e4, 40)
_INPUTS = np.concatenate([-_FAR[::-1], _MID, _FAR])
_SCALES = np.geomspace(1e-12, 1e16, 160)
_OFFSETS = np.concatenate([-np.geomspace(1e4, 1e-2, 30), np.geomspace(1e-2, 1e4, 30)])
_STEADY = 1e-9  # relative fall from one box to the next below which the minimum has converged
_FALLING = 0.5  # ratio of one fall to the one before from which it goes on for ever


@dataclass(frozen=True)
class Floor:
    """The infimum of a weight.

    value   -inf where the weight is unbounded below
    x, y    where it is taken or approached
    place   "inside" (x and y finite, y inside its range), "low" (x finite, y at the lower end of its range), "far" (anything
            else: at infinity or at the upper end)
    exact   False where it had to be extrapolated from boxes of growing size
    """

    value: float
    x: float
    y: float
    place: str
    exact: bool = True


def floor(weight: Weight, outputs: tuple[float, float], start: float = -np.inf) -> Floor:
    """Infimum of weight(x, y), vectorised and broadcasting, over start <= x < inf and y in the closed range `outputs`."""
    x = _INPUTS[_INPUTS >= start]
    y = _outputs(outputs)
    values = _clean(weight(x[:, None], y[None, :]))
    boxes = np.array([_lowest(weight, values, x, y, outputs, box) for box in _BOXES])
    falls, best = -np.diff(boxes), float(boxes[-1])
    moving = not falls[-1] <= _STEADY * (1 + abs(best))
    if np.isneginf(best) or (moving and falls[-1] > _FALLING * falls[-2]):
        return Floor(-np.inf, np.nan, np.nan, "far")
    at = _first_inside(values, x, y, outputs, best)
    if moving:
        ratio = falls[-1] / falls[-2]
        low = float(best - falls[-1] * ratio / (1 - ratio))
        return Floor(low, float(x[at[0]]), float(y[at[1]]), "far", False)
    x_best, y_best, low = _polished(weight, x, y, at, start, outputs)
    near = abs(x_best) < _FAR[-1] / 10
    if near and y_best == outputs[0]:
        place = "low"
    else:
        place = "inside" if near and outputs[0] < y_best < outputs[1] and abs(y_best) < 1e6 else "far"
    return Floor(min(low, best), x_best, y_best, place)


def valley(weight: Weight, y: Array, start: float = -np.inf, reach: float = 4.0) -> Array:
    """The x in [-reach, reach] where weight(x, y) is lowest over x, to 1e-6, for every y (n,): an array (n,).

    Of places alike the one nearest 0: the weight is tilted by 1e-7 of its size.
    """
    grid = np.linspace(max(-reach, start), reach, 81)

    values = _clean(weight(grid[:, None], y[None, :]))
    size = np.where(np.isfinite(values), np.abs(values), 0).max(axis=0)
    at = np.argmin(values + 1e-7 * size * grid[:, None] ** 2, axis=0)
    low, high = grid[np.maximum(at - 1, 0)], grid[np.minimum(at + 1, len(grid) - 1)]

    def tilted(x: Array) -> Array:
        return _clean(weight(x, y)) + 1e-7 * size * x**2

    for _ in range(_SECTIONS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        lower = tilted(left) <= tilted(right)
        low, high = np.where(lower, low, left), np.where(lower, right, high)
    return np.where(size > 0, (low + high) / 2, 0.0)


def _first_inside(
    values: Array, x: Array, y: Array, outputs: tuple[float, float], best: float
) -> tuple[int, ...]:
    """Index of the lowest value; of several alike, one well inside the ranges."""
    lowest = np.unravel_index(np.argmin(values), values.shape)
    inside = (y > outputs[0] + 1e-3) & (y < outputs[1] - 1e-3) & (np.abs(y) < 1e3)
    alike = (values <= best + 1e-13 * (1 + abs(best))) & inside & (np.abs(x)[:, None] < 1e3)
    i, j = np.argwhere(alike)[0] if np.any(alike) else lowest
    return int(i), int(j)


def _polished(
    weight: Weight,
    x: Array,
    y: Array,
    at: tuple[int, ...],
    start: float,
    outputs: tuple[float, float],
) -> tuple[float, float, float]:
    """Place and value of the minimum next to a grid point: over x alone where y is at an end of its grid."""
    i, j = at
    near_x = max(float(x[max(i - 1, 0)]), start), float(x[min(i + 1, len(x) - 1)])

    def along(v: float) -> float:
        return float(_clean(weight(np.array(v), y[j])))

    line = minimize_scalar(along, bounds=near_x, method="bounded", options={"xatol": 1e-10})
    x_best, best = (float(line.x), float(line.fun)) if line.fun < along(x[i]) else (float(x[i]), along(x[i]))
    if j in (0, len(y) - 1):
        return x_best, float(y[j]), best
    near_y = max(float(y[j - 1]), outputs[0]), min(float(y[j + 1]), outputs[1])
    plane = minimize(
        lambda v: float(_clean(weight(np.array(v[0]), np.array(v[1])))),
        [x_best, y[j]],
        method="Nelder-Mead",
        bounds=[near_x, near_y],
        options={"xatol": 1e-9, "fatol": 1e-17, "maxiter": 400},
    )
    if plane.fun < best:
        return float(plane.x[0]), float(plane.x[1]), float(plane.fun)
    return x_best, float(y[j]), best


def _lowest(
    weight: Weight, values: Array, x: Array, y: Array, outputs: tuple[float, float], box: float
) -> float:
    """Lowest value in a box |x| <= box, |y| <= box^4, away from the lower end of y by box^-3: on the grid, and in the valleys
    along curves y = x^n where the residual y - x^n stays fixed while both grow."""
    inside = np.abs(x) <= box * (1 + 1e-12)
    kept = (np.abs(y) <= box**4) & ((y - outputs[0] >= box**-3) | (y == outputs[0]))
    lowest = [np.min(values[np.ix_(inside, kept)])]
    x = x[inside, None]
    offsets = _OFFSETS[np.abs(_OFFSETS) <= box]
    for power in (1, 2, 3):
        along = np.clip(np.abs(x) ** power + offsets, y[kept][0], y[kept][-1])
        lowest.append(np.min(_clean(weight(x, along))))
    return float(min(lowest))


def _outputs(outputs: tuple[float, float]) -> Array:
    """Grid of y: its ends, and all scales from either end of its range, or out to infinity where it has no end."""
    low, high = outputs
    parts = [
        low + _SCALES if np.isfinite(low) else -_SCALES,
        high - _SCALES if np.isfinite(high) else _SCALES,
        np.array([v for v in outputs if np.isfinite(v)]),
        np.linspace(-5, 5, 41),
    ]
    y = np.unique(np.concatenate(parts))
    return y[(y >= low) & (y <= high)]


def _clean(values: Array) -> Array:
    return np.where(np.isnan(values), np.inf, values)
