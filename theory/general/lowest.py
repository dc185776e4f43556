"""The infimum of a function of many preactivations and one output, by search over all scales and descent from the best places.

The twin of `theory.general.floor` in more than two dimensions, where no grid reaches: points of all scales, some on the valleys
where the output stays near that of the student, then Nelder-Mead from the lowest; in boxes of growing size, which show
whether the infimum has been reached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.late_scipy import minimize

Array = NDArray[Any]

_POINTS = 6000  # of one box
_STARTS = 3
_BOXES = 1e1, 1e2, 1e3, 1e4
_STEADY = 1e-6
_FALLING = 0.5
_BOTTOMLESS = 1e6  # falls of this many times the lowest value near 0 do not end


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
    seed: int = 0,
    bounded: bool = False,
) -> Lowest:
    """Infimum of function(x (n, d), y (n,)) -> (n,) over all x and y in `outputs`; student(x) -> (n,) is where valleys run.

    bounded   whether it is known to have a lower bound: points of all boxes are then looked at together
    """
    rng = np.random.default_rng(seed)
    best, place = np.inf, (np.zeros(d), 0.0)
    boxes = []
    for box in _BOXES[-1:] if bounded else _BOXES:
        x, y = _points(rng, d, outputs, student, box)
        values = function(x, y)
        values = np.where(np.isnan(values), np.inf, values)
        for start in np.argsort(values)[:_STARTS]:
            low, at = _descended(function, x[start], float(y[start]), outputs, box)
            if low < best:
                best, place = low, at
        boxes.append(best)
    if bounded:
        return Lowest(best, *place)
    falls = -np.diff(boxes)
    far = best < -_BOTTOMLESS * (1 + abs(boxes[0]))  # a box may have missed how far it goes down there
    if (
        far
        or np.isneginf(best)
        or (falls[-1] > _STEADY * (1 + abs(best)) and falls[-1] > _FALLING * falls[-2])
    ):
        return Lowest(-np.inf, *place)
    return Lowest(best, *place)


def _points(
    rng: np.random.Generator,
    d: int,
    outputs: tuple[float, float],
    student: Callable[[Array], Array],
    box: float,
) -> tuple[Array, Array]:
    low, high = outputs
    moderate = rng.normal(0, 2.5, (_POINTS, d))
    wide = rng.choice([-1.0, 1.0], (_POINTS, d)) * 10 ** rng.uniform(-2, np.log10(box), (_POINTS, d))
    x = np.where(rng.random((_POINTS, d)) < 0.6, moderate, wide)
    offset = rng.choice([-1.0, 1.0], _POINTS) * 10 ** rng.uniform(-2, np.log10(box), _POINTS)
    free = (
        offset**3
        if np.isinf(low)
        else low + np.abs(offset) ** 4
        if np.isinf(high)
        else low + (high - low) * rng.random(_POINTS)
    )
    y = np.where(rng.random(_POINTS) < 0.5, free, student(x) + offset)
    ends = rng.random(_POINTS)
    for end, chosen in ((low, ends < 0.1), (high, ends > 0.9)):
        if np.isfinite(end):
            y = np.where(chosen, end, y)
    return x, np.clip(y, low, high)


def _descended(
    function: Callable[[Array, Array], Array], x: Array, y: float, outputs: tuple[float, float], box: float
) -> tuple[float, tuple[Array, float]]:
    def at(v: Array) -> float:
        value = float(function(v[None, :-1], v[-1:])[0])
        return value if np.isfinite(value) else (1e300 if not value < 0 else -1e300)

    start = np.append(x, y)
    bounds = [(-box, box)] * len(x) + [(max(outputs[0], -(box**4)), min(outputs[1], box**4))]
    found = minimize(
        at,
        start,
        method="Nelder-Mead",
        bounds=bounds,
        options={"xatol": 1e-8, "fatol": 1e-14, "maxiter": 300},
    )
    value, place = (float(found.fun), found.x) if found.fun < at(start) else (at(start), start)
    return (-np.inf if value <= -1e299 else value), (place[:-1], float(place[-1]))
