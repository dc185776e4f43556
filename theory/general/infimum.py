"""The infimum of a function of preactivations x and one output y over everything they can be, infinity included.

The left edge of a spectrum is smooth or sharp according to how the weights end below, which nodes of a quadrature cannot tell:
n of them come near an infimum at infinity only like 1/log n. A weight l'' s'(x)^2 + l' s''(x) is low where the output y lies
some way off the student's own, yhat = s(x), at any x: so it is looked at over x and y, and over x and y - yhat, at all scales.
In the plane (`plane_infimum`) on grids, whose lowest places are polished; in more dimensions, where no grid reaches
(`searched_infimum`), by points, from whose best others spread ever less far, then Nelder-Mead from the lowest. Boxes of growing
size show whether the infimum has been reached, is approached at infinity, or lies at -infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Weight = Callable[[Array, Array], Array]
Outputs = Callable[[Array], Array]
Place = tuple[Array, float]

_GOLDEN = (np.sqrt(5) - 1) / 2
_SECTIONS = 24  # golden sections: a place to 1e-5 of its bracket
_BOXES = 1e1, 1e2, 1e3, 1e4  # of x; y within their fourth power
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
# of searches in more than two dimensions
_POINTS = 6000  # of one box
_BEST, _CHILDREN, _GENERATIONS, _SHRINK = 40, 10, 32, 0.6
_STARTS = 3  # of descents: one where there is known to be a lower bound
_FALLS = 0.02  # of the lowest value from one box to the next: less is what searches by chance miss


@dataclass(frozen=True)
class Infimum:
    """The infimum of a weight.

    value   -inf where the weight is unbounded below
    x, y    where it is taken or approached: x a number in the plane, (d,) in more dimensions
    place   in the plane "inside" (x and y finite, y inside its range), "low" and "high" (x finite, y at that end of its range),
            "far" (anything else: at infinity)
    error   of the value where it had to be extrapolated from boxes of growing size
    """

    value: float
    x: Any
    y: float
    place: str = ""
    error: float = 0.0


def plane_infimum(
    weight: Weight,
    outputs: tuple[float, float],
    start: float = -np.inf,
    student: Outputs | None = None,
    unit: float = 1.0,
) -> Infimum:
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
        return Infimum(-np.inf, np.nan, np.nan, "far")
    values, places, outs = plane.polished(grids)
    value = float(np.min(values))
    at = int(np.argmax(values <= value + _ALIKE * (1 + abs(value))))
    x_best, y_best = float(places[at]), plane.ended(float(places[at]), float(outs[at]), value)
    if moving and value > best - falls[-1]:  # the boxes' own minimum: still on its way
        ratio = falls[-1] / falls[-2]
        # What is left of a geometric series of falls.
        rest = falls[-1] * ratio / (1 - ratio)
        return Infimum(float(value - rest), x_best, y_best, "far", float(rest))
    return Infimum(value, x_best, y_best, plane.place(x_best, y_best))


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
            # y = yhat + offset holds no digit of a small offset.
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
            # 0.6 of the width, of which the spacing is a quarter: a minimum between nodes stays inside.
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
        """Where a minimum lies: see `Infimum`."""
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


def searched_infimum(
    function: Callable[[Array, Array], Array],
    d: int,
    outputs: tuple[float, float],
    student: Callable[[Array], Array],
    unit: float = 1.0,
    bounded: bool = False,
    known: Sequence[Place] = (),
) -> Infimum:
    """Infimum of function(x (n, d), y (n,)) -> (n,) over all x and y in `outputs`; student(x) -> (n,) is off which y is looked
    at too, at distances of all scales about `unit`.

    bounded   whether it is known to have a lower bound: points of all boxes are then looked at together
    known     places to start from besides
    """
    rng = np.random.default_rng(0)
    boxes: list[float] = []
    v = np.zeros((0, d + 2))
    for box in _BOXES[-1:] if bounded else _BOXES:
        search = _Search(function, outputs, student, unit, box)
        v = np.concatenate([v, search.found(rng, d, known)])
        boxes.append(float(np.min(search.values(v))))
    best, place = min(
        (search.descended(row) for row in search.lowest(v, 1 if bounded else _STARTS)),
        key=lambda found: found[0],
    )
    if bounded:
        return Infimum(best, *place)
    falls = -np.diff(boxes)
    far = best < -_BOTTOMLESS * (1 + abs(boxes[0]))  # a box may have missed how far it goes down there
    if far or np.isneginf(best) or (falls[-1] > _FALLS * abs(best) and falls[-1] > _FALLING * falls[-2]):
        return Infimum(-np.inf, *place)
    return Infimum(best, *place)


@dataclass(frozen=True)
class _Search:
    """In one box: points v (n, d + 2) hold x, a number and 1 where that is y - yhat, 0 where it is y itself."""

    function: Callable[[Array, Array], Array]
    outputs: tuple[float, float]
    student: Callable[[Array], Array]
    unit: float
    box: float

    def found(self, rng: np.random.Generator, d: int, known: Sequence[Place]) -> Array:
        """The lowest points."""
        v, wide = self._points(rng, d)
        more = [np.concatenate([x, [y, 0.0]]) for x, y in known]
        v = np.concatenate([np.array(more).reshape(-1, d + 2), v])
        wide = np.concatenate([np.full((len(more), d + 1), 0.1), wide])
        for _ in range(_GENERATIONS):
            order = np.argsort(self.values(v))[:_BEST]
            v, wide = v[order], wide[order]
            spread = np.repeat(wide, _CHILDREN, axis=0)
            other = np.repeat(v, _CHILDREN, axis=0)
            other[:, :-1] += spread * rng.standard_normal(spread.shape)
            other[:, :d] = np.clip(other[:, :d], -self.box, self.box)
            v, wide = np.concatenate([v, other]), np.concatenate([wide, spread]) * _SHRINK
        return self.lowest(v, _STARTS)

    def lowest(self, v: Array, many: int) -> Array:
        """The lowest of some points."""
        return v[np.argsort(self.values(v))[:many]]

    def place(self, v: Array) -> tuple[Array, Array]:
        """x (n, d) and y (n,) of points."""
        return v[:, :-2], self._output(v, self.student(v[:, :-2]))

    def _output(self, v: Array, yhat: Array) -> Array:
        return np.clip(v[:, -2] + np.where(v[:, -1] > 0, yhat, 0.0), *self.outputs)

    def values(self, v: Array) -> Array:
        """The function, inf where it is undefined, where rounding swallows y - yhat, and nearer to the lower end of the
        outputs than the box allows."""
        x, yhat = v[:, :-2], self.student(v[:, :-2])
        y = self._output(v, yhat)
        values = self.function(x, y)
        near = (y > self.outputs[0]) & (y - self.outputs[0] < self.box**-3)
        lost = np.abs(v[:, -2]) < np.finfo(float).eps / _RESOLVED * np.abs(yhat)
        return np.where(np.isnan(values) | near | ((v[:, -1] > 0) & lost), np.inf, values)

    def _points(self, rng: np.random.Generator, d: int) -> tuple[Array, Array]:
        low, high = self.outputs
        moderate = rng.normal(0, 2.5, (_POINTS, d))
        reach = np.log10(self.box)
        # on a logarithmic scale, as weights may be lowest at large arguments
        wide = rng.choice([-1.0, 1.0], (_POINTS, d)) * 10 ** rng.uniform(-2, reach, (_POINTS, d))
        x = np.where(rng.random((_POINTS, d)) < 0.6, moderate, wide)
        alike = rng.random(_POINTS) < 0.3  # students at two places
        x = np.where(alike[:, None] & (rng.random((_POINTS, d)) < 0.5), x[:, :1], x)
        scale = 10 ** rng.uniform(-2, reach, _POINTS)
        offset = rng.choice([-1.0, 1.0], _POINTS) * scale
        if np.isinf(low):
            free = offset**3
        elif np.isinf(high):
            free = low + np.abs(offset) ** 4
        else:
            free = low + (high - low) * rng.random(_POINTS)
        relative = rng.random(_POINTS) < 0.5
        output = np.where(relative, self.unit * rng.choice([1.0, 0.1, 0.01], _POINTS) * offset, free)
        ends = rng.random(_POINTS)
        for end, chosen in ((low, ends < 0.1), (high, ends > 0.9)):
            if np.isfinite(end):
                output, relative = np.where(chosen, end, output), relative & ~chosen
        v = np.concatenate([x, output[:, None], relative[:, None]], axis=1)
        return v, np.maximum(0.3 * np.abs(v[:, :-1]), 0.1 * np.append(np.ones(d), min(self.unit, 1.0)))

    def descended(self, v: Array) -> tuple[float, Place]:
        """Value and place of the minimum next to a point."""
        from scipy.optimize import minimize

        row = v[None, :].copy()

        def at(w: Array) -> float:
            row[0, :-1] = w
            value = float(self.values(row)[0])
            return value if np.isfinite(value) else (1e300 if not value < 0 else -1e300)

        bounds = [(-self.box, self.box)] * (len(v) - 2) + [(-(self.box**4), self.box**4)]
        place = np.clip(v[:-1], *np.array(bounds).T)
        best = at(place)
        options = {"xatol": 1e-9, "fatol": 1e-15, "maxiter": 100 * len(v), "adaptive": True}
        # Without derivatives: the smallest eigenvalue has kinks, the function walls.
        found = minimize(at, place, method="Nelder-Mead", bounds=bounds, options=options)
        if found.fun < best:
            best, place = float(found.fun), found.x
        x, y = self.place(np.append(place, v[-1])[None, :])
        return (-np.inf if best <= -1e299 else best), (x[0], float(y[0]))


def smallest_eigenvalues(f: Array) -> Array:
    """Smallest eigenvalue (n,) of symmetric matrices (n, p, p), inf where one has entries that are no numbers."""
    bad = ~np.all(np.isfinite(f), axis=(1, 2))
    values = np.linalg.eigvalsh(np.where(bad[:, None, None], 0.0, f))[:, 0]
    return np.where(bad, np.inf, values)
