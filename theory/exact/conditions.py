"""The walk of t = -2g/p from 0 to 1 on the real axis: where the edge, the outlier and the threshold sit.

With K, S of the paper (arXiv 2510.18435), W = E[(t phi)^2], U = t E[(1 - y) phi], alpha W = 1 + g^2 z'(g), S = K - U/t,

    edge        dz/dg = 0       <=>  alpha W(t) = 1   (sharp, t < 1), or t = 1 when alpha W(1) <= 1 (smooth)
    outlier     z = alpha S     <=>  alpha U(t) = 1   with t below the edge's
    threshold   both at once    <=>  U(t) = W(t) (continuous), or t = 1 when W(1) <= U(1) (discontinuous).

One edge and at most one outlier: docs/theory.md, "The walk in t"; symbols: docs/notation.md.

Roots are found in v = log(1 + r/b), r = (1 - t)/t, in which log W and log U are close to straight lines: b is
the scale of a + yhat at the low end of yhat, where 1/D^k gets its weight.

All roots are found at once, by Newton's method inside a bracket that every evaluation tightens. Unlike scipy.optimize.newton
on arrays it cannot run away, unlike scipy.optimize.elementwise.find_root it uses the derivative, which comes almost free with
our averages, and it evaluates only what has not converged yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.checks import NotConverged
from theory.exact.averages import Widths, average, kernel_u, kernel_u_slope, kernel_w, kernel_w_slope

Array = Any


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


SOLVER = Newton()


def at_end(models: Widths, *kernels: Callable[..., Array], dtype: Any = np.float64) -> list[Array]:
    """Averages at t = 1, the end of the walk, in the precision `dtype`."""
    return average(kernels, models, np.ones(models.shape, dtype), np.zeros(models.shape, dtype))


def split(r: Array) -> tuple[Array, Array]:
    """t = 1/(1 + r) and 1 - t, each to full relative precision."""
    return 1 / (1 + r), r / (1 + r)


def edge_root(models: Widths, alpha: Array) -> Array:
    """r = (1-t)/t at the left edge: 0 where it is smooth. models and alpha 1-D of one length."""

    def log_excess(v: Array, index: Array) -> tuple[Array, Array]:
        w, slope, rate = _evaluate(models, v, index, kernel_w, kernel_w_slope)
        return np.log(alpha[index] * w), slope / w * rate

    (w_end,) = at_end(models, kernel_w)
    with np.errstate(divide="ignore"):  # a product that underflows is below 1
        excess = np.log(alpha * w_end)
    return _solve(models, log_excess, excess)


def outlier_root(models: Widths, alpha: Array, r_edge: Array) -> Array:
    """r at the teacher outlier: NaN where none exists. All 1-D of one length."""

    def log_excess(v: Array, index: Array) -> tuple[Array, Array]:
        u, slope, rate = _evaluate(models, v, index, kernel_u, kernel_u_slope)
        return np.log(alpha[index] * u), slope / u * rate

    (u,) = average([kernel_u], models, *split(r_edge))
    with np.errstate(divide="ignore"):
        excess = np.log(alpha * u)
    return _solve(models, log_excess, excess, start=r_edge, absent=np.nan)


def threshold_root(models: Widths, log_ratio_at_end: Array | None = None) -> Array:
    """r at the transition: 0 where it is discontinuous. models 1-D; log W(1)/U(1) may be given if known."""

    def log_ratio(v: Array, index: Array) -> tuple[Array, Array]:
        w, dw, u, du, rate = _evaluate(models, v, index, kernel_w, kernel_w_slope, kernel_u, kernel_u_slope)
        return np.log(w / u), (dw / w - du / u) * rate

    if log_ratio_at_end is None:
        w, u = at_end(models, kernel_w, kernel_u)
        log_ratio_at_end = np.log(w / u)
    return _solve(models, log_ratio, log_ratio_at_end)


def _solve(
    models: Widths,
    function: Callable[[Array, Array], tuple[Array, Array]],
    value_at_start: Array,
    start: Array | None = None,
    absent: float = 0.0,
) -> Array:
    """Root r > start of a function of v that is positive at the start; `absent` where it is not."""
    r = np.full(models.shape, absent)
    chosen = np.flatnonzero(value_at_start > 0)
    scale = _scale(models)[chosen]
    low = np.zeros(chosen.size) if start is None else np.log1p(start[chosen] / scale)
    v = SOLVER.solve(
        lambda v, index: function(v, chosen[index]),
        low + np.minimum(value_at_start[chosen], 4) / 2,
        low,
        np.full(chosen.size, np.inf),
    )
    r[chosen] = scale * np.expm1(v)
    return r


def _evaluate(models: Widths, v: Array, index: Array, *kernels: Callable[..., Array]) -> list[Array]:
    """Averages at v for the models `index`, then dt/dv."""
    part = models.take(index)
    scale = _scale(part)
    r = scale * np.expm1(v)
    t, rest = split(r)
    return [*average(kernels, part, t, rest), -(t**2) * (scale + r)]


def _scale(models: Widths) -> Array:
    low_end = models.a + models.clean * np.maximum(1 - models.two_over_p, 0)
    return low_end / (1 + low_end)
