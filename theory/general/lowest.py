"""The infimum of a function of many preactivations and one output, by search over all scales and descent from the best.

The twin of `theory.general.floor` in more than two dimensions, where no grid reaches: points of all scales, some with the
output a given way off that of the student, from whose best others spread ever less far; then Nelder-Mead from the lowest.
Boxes of growing size show whether the infimum has been reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_POINTS = 6000  # of one box
_BEST, _CHILDREN, _GENERATIONS, _SHRINK = 40, 10, 32, 0.6
_STARTS = 3  # of descents: one where there is known to be a lower bound
_BOXES = 1e1, 1e2, 1e3, 1e4
_FALLS = 0.02  # of the lowest value from one box to the next: less is what searches by chance miss
_FALLING = 0.5
_BOTTOMLESS = 1e6  # falls of this many times the lowest value near 0 do not end
_RESOLVED = 1e6  # y - yhat in units of rounding of yhat, below which it says nothing

Place = tuple[Array, float]


@dataclass(frozen=True)
class Lowest:
    """The infimum (-inf where the function is unbounded below) and the place where it was found, (d,) and an output."""

    value: float
    x: Array
    y: float


def lowest(
    function: Callable[[Array, Array], Array],
    d: int,
    outputs: tuple[float, float],
    student: Callable[[Array], Array],
    unit: float = 1.0,
    bounded: bool = False,
    known: Sequence[Place] = (),
) -> Lowest:
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
        return Lowest(best, *place)
    falls = -np.diff(boxes)
    far = best < -_BOTTOMLESS * (1 + abs(boxes[0]))  # a box may have missed how far it goes down there
    if far or np.isneginf(best) or (falls[-1] > _FALLS * abs(best) and falls[-1] > _FALLING * falls[-2]):
        return Lowest(-np.inf, *place)
    return Lowest(best, *place)


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
        x = v[:, :-2]
        return x, np.clip(v[:, -2] + np.where(v[:, -1] > 0, self.student(x), 0.0), *self.outputs)

    def values(self, v: Array) -> Array:
        """The function, inf where it is undefined, where rounding swallows y - yhat, and nearer to the lower end of the
        outputs than the box allows."""
        x, y = self.place(v)
        values = self.function(x, y)
        near = (y > self.outputs[0]) & (y - self.outputs[0] < self.box**-3)
        lost = np.abs(v[:, -2]) < _RESOLVED * np.finfo(float).eps * np.abs(self.student(x))
        return np.where(np.isnan(values) | near | ((v[:, -1] > 0) & lost), np.inf, values)

    def _points(self, rng: np.random.Generator, d: int) -> tuple[Array, Array]:
        low, high = self.outputs
        moderate = rng.normal(0, 2.5, (_POINTS, d))
        reach = np.log10(self.box)
        wide = rng.choice([-1.0, 1.0], (_POINTS, d)) * 10 ** rng.uniform(-2, reach, (_POINTS, d))
        x = np.where(rng.random((_POINTS, d)) < 0.6, moderate, wide)
        alike = rng.random(_POINTS) < 0.3  # students at two places
        x = np.where(alike[:, None] & (rng.random((_POINTS, d)) < 0.5), x[:, :1], x)
        scale = 10 ** rng.uniform(-2, reach, _POINTS)
        offset = rng.choice([-1.0, 1.0], _POINTS) * scale
        free = (
            offset**3
            if np.isinf(low)
            else low + np.abs(offset) ** 4
            if np.isinf(high)
            else low + (high - low) * rng.random(_POINTS)
        )
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

        def at(w: Array) -> float:
            value = float(self.values(np.append(w, v[-1])[None, :])[0])
            return value if np.isfinite(value) else (1e300 if not value < 0 else -1e300)

        bounds = [(-self.box, self.box)] * (len(v) - 2) + [(-(self.box**4), self.box**4)]
        place = np.clip(v[:-1], *np.array(bounds).T)
        best = at(place)
        options = {"xatol": 1e-9, "fatol": 1e-15, "maxiter": 100 * len(v), "adaptive": True}
        found = minimize(at, place, method="Nelder-Mead", bounds=bounds, options=options)
        if found.fun < best:
            best, place = float(found.fun), found.x
        x, y = self.place(np.append(place, v[-1])[None, :])
        return (-np.inf if best <= -1e299 else best), (x[0], float(y[0]))
