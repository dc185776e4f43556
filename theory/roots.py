"""Vectorised root finding: Newton's method inside a bracket that every evaluation tightens.

Unlike scipy.optimize.newton on arrays it cannot run away, unlike scipy.optimize.elementwise.find_root it uses
the derivative, which comes almost free with our averages, and it evaluates only what has not converged yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.checks import NotConverged

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Newton:
    """Safeguarded Newton for functions of v >= 0 that change sign once, from positive to negative.

    tolerance   a step below tolerance * v is the last one: convergence being quadratic, its error is below rounding
    floor       absolute part of that test, where v itself is tiny
    steps       evaluations allowed
    """

    tolerance: float = 1e-8
    floor: float = 1e-15
    steps: int = 100

    def solve(
        self, function: Callable[[Array, Any], tuple[Array, Array]], start: Array, low: Array, high: Array
    ) -> Array:
        """Roots of a function that is positive at `low` and negative at `high` (inf where no bound is known).

        function(v, index) returns value and derivative at v for the problems `index` (integers into start),
        all 1-D. Raises NotConverged, carrying the best estimate, when `steps` evaluations do not suffice.
        """
        v, low, high = (np.array(x, dtype=np.float64) for x in (start, low, high))
        active = np.arange(v.size)
        for _ in range(self.steps):
            if not active.size:
                return v
            here = v[active]
            value, slope = function(here, active)
            low[active] = np.where(value >= 0, here, low[active])
            high[active] = np.where(value <= 0, here, high[active])
            moved = _step(here, value, slope, low[active], high[active])
            v[active] = moved
            done = (np.abs(moved - here) <= self.tolerance * np.abs(moved) + self.floor) | (value == 0)
            active = active[~done]
        if active.size:
            raise NotConverged(f"{active.size} of {v.size} roots not found in {self.steps} steps", v)
        return v


def _step(v: Array, value: Array, slope: Array, low: Array, high: Array) -> Array:
    """Newton where it stays inside the bracket, else bisection (doubling where there is no upper bound yet)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        newton = v - value / slope
    middle = np.where(np.isfinite(high), (low + high) / 2, 2 * low + 1)
    ceiling = np.where(np.isfinite(high), high, 4 * low + 4)
    with np.errstate(invalid="ignore"):
        inside = (newton >= low) & (newton <= ceiling)
    # Back to an end of the bracket whose sign is known: where values are rounding this would go on for ever.
    inside &= (newton == v) | ((newton != low) & (newton != high))
    return np.where(value == 0, v, np.where(inside, newton, middle))
