"""The infimum of a scalar weight f(x, y) over everything its arguments can be, infinity included.

The left edge of a spectrum is smooth or sharp according to how the weights end below, which nodes of a quadrature cannot
tell: n of them come near an infimum at infinity only like 1/log n. A weight l'' s'(x)^2 + l' s''(x) is low where the output y
lies some way off the student's own, yhat = s(x), at any x: so it is looked at over x and y, and over x and y - yhat, both on
grids of all scales. The lowest places are polished. Boxes of growing size show whether the minimum has been reached, is
approached at infinity, or falls without end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Weight = Callable[[Array, Array], Array]
Outputs = Callable[[Array], Array]

_GOLDEN = (np.sqrt(5) - 1) / 2
_SECTIONS = 24  # golden sections: a place to 1e-5 of its bracket
_BOXES = np.array([1e1, 1e2, 1e3, 1e4])  # of x; y within their fourth power
_FAR = np.geomspace(12, 1e4, 40)
_INPUTS = np.concatenate([-_FAR[::-1], np.linspace(-12, 12, 481), _FAR])
_SCALES = np.geomspace(1e-12, 1e16, 160)
_OFFSETS = np.geomspace(1e-4, 1e4, 97)  # of y from yhat, in units of the loss
_RESOLVED = 1e-6  # relative rounding of y - yhat from which an offset says nothing
_STEADY = 1e-9  # relative fall from one box to the next below which the minimum has converged
_FALLING = 0.5  # ratio of one fall to the one before from which it goes on for ever
_BOTTOMLESS = 1e6  # falls of this many times the size near 0 do not end
_PLACES = 8  # of each grid that are polished
_ZOOMS, _ZOOM, _HALF = 40, 0.6, 4  # grids of 9 by 9 about a place: 1e-9 of its distance to neighbours
_ALIKE = 1e-13  # relative difference of minima that count as equal
_NEXT = 1e-6  # relative distance within which an end of the outputs is tried
_INSIDE = 12.0  # of x: beyond, no node reaches
_INSIDE_OUTPUT = 1e6


@dataclass(frozen=True)
class Floor:
    """The infimum of a weight.

    value   -inf where the weight is unbounded below
    x, y    where it is taken or approached
    place   "inside" (x and y finite, y inside its range), "low" and "high" (x finite, y at that end of its range), "far"
            (anything else: at infinity)
    error   of the value where it had to be extrapolated from boxes of growing size
    """

    value: float
    x: float
    y: float
    place: str
    error: float = 0.0


def floor(
    weight: Weight,
    outputs: tuple[float, float],
    start: float = -np.inf,
    student: Outputs | None = None,
    unit: float = 1.0,
) -> Floor:
    """Infimum of weight(x, y), vectorised and broadcasting, over start <= x < inf and y in the closed range `outputs`.

    student  yhat(x), off which y is looked at too; None: 0
    unit     size of y - yhat on which the loss changes
    """
    plane = _Plane(weight, outputs, student or np.zeros_like, start)
    x = _INPUTS[_INPUTS >= start]
    grids = [plane.absolute(x), plane.relative(x, unit)]
    boxes = np.array([min(np.min(grid.within(box)) for grid in grids) for box in _BOXES])
    falls, best = -np.diff(boxes), float(boxes[-1])
    moving = not falls[-1] <= _STEADY * (1 + abs(best))
    bottomless = best < -_BOTTOMLESS * (1 + abs(boxes[0]))
    if np.isneginf(best) or bottomless or (moving and falls[-1] > _FALLING * falls[-2]):
        return Floor(-np.inf, np.nan, np.nan, "far")
    values, places, outs = plane.polished(grids)
    value = float(np.min(values))
    at = int(np.argmax(values <= value + _ALIKE * (1 + abs(value))))
    x_best, y_best = float(places[at]), plane.ended(float(places[at]), float(outs[at]), value)
    if moving and value > best - falls[-1]:  # the boxes' own minimum: still on its way
        ratio = falls[-1] / falls[-2]
        rest = falls[-1] * ratio / (1 - ratio)
        return Floor(float(value - rest), x_best, y_best, "far", float(rest))
    return Floor(value, x_best, y_best, plane.place(x_best, y_best))


@dataclass(frozen=True)
class _Grid:
    """Values (n, m) at x (n,) and y (n, m), and whether their columns are offsets from yhat."""

    x: Array
    y: Array
    columns: Array
    values: Array
    outputs: tuple[float, float]
    relative: bool

    def within(self, box: float) -> Array:
        """Values in a box |x| <= box, |y| <= box^4, away from the lower end of y by box^-3."""
        kept = (np.abs(self.x) <= box * (1 + 1e-12))[:, None] & (np.abs(self.y) <= box**4)
        kept &= (self.y - self.outputs[0] >= box**-3) | (self.y == self.outputs[0])
        return np.where(kept, self.values, np.inf)

    def reach(self, i: int, j: int) -> tuple[float, float]:
        """Distances in x and in columns of the neighbours of a point."""
        x, columns = self.x[max(i - 1, 0) : i + 2], self.columns[max(j - 1, 0) : j + 2]
        return float(np.max(np.abs(x - self.x[i]))), float(np.max(np.abs(columns - self.columns[j])))

    def lowest(self) -> list[tuple[int, int]]:
        """The lowest local minima; of equal ones those well inside first, then those at an end, then others."""
        padded = np.pad(self.values, 1, constant_values=np.inf)
        n, m = self.values.shape
        around = [padded[1 + i : 1 + i + n, 1 + j : 1 + j + m] for i in (-1, 0, 1) for j in (-1, 0, 1)]
        local = np.all([self.values <= other for other in around], axis=0) & np.isfinite(self.values)
        i, j = np.nonzero(local)
        values = self.values[i, j]
        y = self.y[i, j]
        from_ends = np.min([np.abs(y - end) for end in self.outputs], axis=0)
        inside = (np.abs(self.x[i]) < _INSIDE) & (np.abs(y) < _INSIDE) & (from_ends > 1e-3)
        rounded = np.round(values / (_ALIKE * (1 + np.abs(values).min(initial=1.0))))
        order = np.lexsort((~inside & (from_ends > 0), ~inside, rounded))[:_PLACES]
        return [(int(i[k]), int(j[k])) for k in order]


@dataclass(frozen=True)
class _Plane:
    weight: Weight
    outputs: tuple[float, float]
    student: Outputs
    start: float

    def absolute(self, x: Array) -> _Grid:
        """y at its ends, and at all scales from either end of its range, or out to infinity where it has no end."""
        low, high = self.outputs
        parts = [
            low + _SCALES if np.isfinite(low) else -_SCALES,
            high - _SCALES if np.isfinite(high) else _SCALES,
            np.array([v for v in self.outputs if np.isfinite(v)]),
            np.linspace(-5, 5, 81),
        ]
        y = np.unique(np.concatenate(parts))
        y = y[(y >= low) & (y <= high)]
        return self._grid(x, np.broadcast_to(y, (len(x), len(y))), y, False)

    def relative(self, x: Array, unit: float) -> _Grid:
        """y at all scales off yhat, where it can be so."""
        offsets = unit * np.concatenate([-_OFFSETS[::-1], _OFFSETS])
        return self._grid(x, self.student(x)[:, None] + offsets, offsets, True)

    def _grid(self, x: Array, y: Array, columns: Array, relative: bool) -> _Grid:
        values = self.at(x[:, None], y)
        if relative:
            yhat = self.student(x)[:, None]
            rounded = np.abs(columns) * _RESOLVED < np.finfo(float).eps * np.abs(yhat)
            values = np.where(rounded, np.inf, values)
        return _Grid(x, y, columns, values, self.outputs, relative)

    def at(self, x: Any, y: Any) -> Array:
        """The weight, inf where y is out of its range or the weight undefined."""
        x, y = np.asarray(x, float), np.asarray(y, float)
        with np.errstate(all="ignore"):
            values = self.weight(x, np.clip(y, *self.outputs))
        return np.where(np.isnan(values) | (y < self.outputs[0]) | (y > self.outputs[1]), np.inf, values)

    def polished(self, grids: list[_Grid]) -> tuple[Array, Array, Array]:
        """Values and places x, y (k,) of the minima next to the lowest points of the grids: grids about them, ever finer."""
        rows = [(g.x[i], g.columns[j], *g.reach(i, j), g.relative) for g in grids for i, j in g.lowest()]
        x, column, wide, high, relative = np.array(rows, dtype=float).T
        best = self.at(x, self._output(x, column, relative))
        steps, each = np.linspace(-1, 1, 2 * _HALF + 1), np.arange(len(x))
        for _ in range(_ZOOMS):
            near_x = np.clip(x + wide * steps[:, None], max(self.start, -_FAR[-1]), _FAR[-1])[:, None]
            near = (column + high * steps[:, None])[None, :]
            values = self.at(near_x, self._output(near_x, near, relative)).reshape(-1, len(x))
            at = np.argmin(values, axis=0)
            lower = values[at, each] < best
            i, j = np.unravel_index(at, (len(steps), len(steps)))
            x, column = np.where(lower, near_x[i, 0, each], x), np.where(lower, near[0, j, each], column)
            best = np.where(lower, values[at, each], best)
            wide, high = wide * _ZOOM, high * _ZOOM
        return best, x, self._output(x, column, relative)

    def _output(self, x: Array, column: Array, relative: Array) -> Array:
        return np.clip(np.where(relative > 0, self.student(x), 0.0) + column, *self.outputs)

    def ended(self, x: float, y: float, value: float) -> float:
        """y, or the end of its range next to it where the weight is as low there."""
        for end in self.outputs:
            if (
                np.isfinite(end)
                and abs(y - end) <= _NEXT * (1 + abs(end))
                and self.at(x, end) <= value + _ALIKE * (1 + abs(value))
            ):
                return end
        return y

    def place(self, x: float, y: float) -> str:
        """Where a minimum lies: see `Floor`."""
        low, high = self.outputs
        if abs(x) >= _INSIDE or abs(y) >= _INSIDE_OUTPUT:
            return "far"
        return "low" if y == low else "high" if y == high else "inside"


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


def _clean(values: Array) -> Array:
    return np.where(np.isnan(values), np.inf, values)
