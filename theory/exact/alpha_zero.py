"""alpha_0: where a discontinuous transition would lose its last overlap, were the overlap to vanish continuously.

Finite-N transitions of discontinuous models sit well below alpha_BBP. Source of the idea: arXiv 2510.18435, "the
residual overlap vanishes like a square root". Two estimates, in the variables of theory.exact.conditions:

overlap        q2(alpha) just above alpha_BBP, extrapolated along its tangent to zero: alpha_BBP - q2/(dq2/dalpha).
continuation   the sharp-edge and outlier conditions together, U = W, continued past g_min (t > 1) with principal
               values and Hadamard finite parts; alpha_0 = 1/U at the first such t, sought while U stays positive.

A continuous transition loses its overlap at alpha_BBP itself: there the tangent starts from q2 = 0 and U = W is met
at t < 1 already, so both estimates are alpha_BBP by their own definitions, and that is what is returned. Either
estimate may not exist (a tangent that reaches no alpha > 0; no root, as for a large jump): None, or NaN in a map. So it is
below p_star (1 + noise)^2 / 2, the weak-recovery limit 1 / E[(E[u_l^2 | y] - 1)^2]: labels hold no information about the
teacher there, and an estimate that falls below it, as the tangent does where a is large, is no threshold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theory.answers import Threshold
from theory.checks import choice, numpy_defaults
from theory.exact.averages import (
    Widths,
    continued,
    kernel_u,
    kernel_u_slope,
    kernel_v,
    kernel_v_slope,
    kernel_w,
    kernel_w_slope,
)
from theory.exact.committee import quadratic
from theory.exact.conditions import SOLVER, at_end
from theory.exact.transition import models_of, transition
from theory.model.network import Network

Array = Any

# t - 1 in units of 1 + a: from the end of the walk to far beyond where U has turned negative.
_GRID = np.concatenate([[0.0], np.geomspace(0.01, 30.0, 40)])
_STRIDE = 8  # nodes of the grid looked at before the models that are done drop out
_BISECTIONS = 45


def alpha_zero(model: Network, method: str = "overlap") -> float | None:
    """alpha_0 of a quadratic model by the method "overlap" or "continuation"; None where that estimate does not exist.

    For a continuous transition both are alpha_BBP. Raises ParameterError for another method.

    >>> round(alpha_zero(Network(2, 1, 1.0)), 4)
    0.9021
    """
    model = quadratic(model)
    value = float(alpha_zero_map(model.p, model.p_star, model.a, method, noise=model.noise))
    return None if np.isnan(value) else value


@numpy_defaults
def alpha_zero_map(
    p: ArrayLike,
    p_star: ArrayLike = 1,
    a: ArrayLike = 1.0,
    method: str = "overlap",
    *,
    noise: ArrayLike = 0.0,
    thresholds: Threshold | None = None,
) -> Array:
    """alpha_0 for arrays of p, p_star, a and noise that broadcast against one another: their shape, NaN where there is none.

    thresholds: what `threshold_map` gave for the same arrays, where it is at hand: computed here otherwise. Raises
    ParameterError for a method other than "overlap" and "continuation", or a bad p, p_star or a.

    >>> alpha_zero_map(2, 1, [0.5, 1.0], "continuation").round(4)
    array([0.9767, 0.9015])
    """
    method = choice("method", method, _METHODS)
    models, shape = models_of(p, p_star, a, noise)
    found = transition(models) if thresholds is None else thresholds
    value = np.array(found.alpha, dtype=np.float64).ravel()
    jumps = np.flatnonzero(np.ravel(found.discontinuous))
    estimate = _METHODS[method](models.take(jumps))
    weak = 1 / (models.take(jumps).two_over_p_star * models.take(jumps).clean ** 2)
    value[jumps] = np.where(estimate < weak, np.nan, estimate)
    return value.reshape(shape)


def _by_overlap(models: Widths) -> Array:
    """Tangent of q2 = (U - W)/(U - W + V) against alpha = 1/U at t = 1."""
    u, w, v, du, dw, dv = at_end(
        models, kernel_u, kernel_w, kernel_v, kernel_u_slope, kernel_w_slope, kernel_v_slope
    )
    rest, growth = u - w, (du - dw) * v - (u - w) * dv
    falls = growth < 0  # q2 falls with t, as alpha does
    with np.errstate(divide="ignore"):
        zero = 1 / u + rest * (rest + v) * du / (growth * u**2)
    return np.where(falls & (zero > 0), zero, np.nan)


def _by_continuation(models: Widths) -> Array:
    low, high = _first_bracket(models)
    found = np.flatnonzero(np.isfinite(high))
    value = np.full(models.shape, np.nan)
    chosen = models.take(found)

    def gap(v: Array, index: Array) -> tuple[Array, Array]:
        gap, slope, _ = _gap(chosen.take(index), v)
        return gap, slope

    root = SOLVER.solve(gap, (low[found] + high[found]) / 2, low[found], high[found])
    value[found] = 1 / _gap(chosen, root)[2]
    return value


def _first_bracket(models: Widths) -> tuple[Array, Array]:
    """Bracket in t - 1 of the first root of U - W, which is positive at t = 1; high is inf where there is none."""
    low, high = np.zeros(models.shape), np.full(models.shape, np.inf)
    open_ = np.arange(models.a.size)
    for start in range(0, _GRID.size - 1, _STRIDE):
        part = models.take(open_)
        ends = (1 + part.a)[:, None] * _GRID[start : start + _STRIDE + 1]
        columns = Widths(*(v[:, None] for v in part.fields))
        closed = [
            _scan(part.take([i]), ends[i], *values, low=low[k : k + 1], high=high[k : k + 1])
            for i, (k, *values) in enumerate(
                zip(open_, *_gap(columns.broadcast(ends.shape), ends), strict=True)
            )
        ]
        open_ = open_[~np.array(closed, dtype=bool)]
        if not open_.size:
            break
    return low, high


def _scan(model: Widths, ends: Array, gap: Array, slope: Array, u: Array, *, low: Array, high: Array) -> bool:
    """Look for the first root between the nodes `ends`: sets low and high if there; True if the search is over."""
    stop = _first(u <= 0)
    crossing = min(_first(gap <= 0), stop)
    for dip in np.flatnonzero((slope[:-1] < 0) & (slope[1:] > 0)):
        # The gap turns between two nodes: it may touch zero there unseen.
        if dip + 1 >= crossing:
            break
        bottom, depth = _bottom(model, ends[dip], ends[dip + 1])
        if depth <= 0:
            low[:], high[:] = ends[dip], bottom
            return True
    if crossing < stop:
        # Already at the first node where the jump is 0 to rounding: the root is that node.
        low[:], high[:] = ends[max(crossing - 1, 0)], ends[crossing]
    return min(stop, crossing) < ends.size


def _first(condition: Array) -> int:
    """Index of the first True, or the length where there is none."""
    return int(np.argmax(condition)) if np.any(condition) else condition.size


def _bottom(model: Widths, low: float, high: float) -> tuple[float, float]:
    """Bisect for the minimum of U - W between two nodes where its slope changes sign: place and value, of a point
    with U - W <= 0 if one is met, else of one so near the minimum that its slope cannot bring it down to 0."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        depth, slope, _ = _gap(model, np.array([middle]))
        if depth[0] <= 0 or depth[0] > abs(slope[0]) * (high - low):
            break
        low, high = (middle, high) if slope[0] < 0 else (low, middle)
    return middle, float(depth[0])


def _gap(models: Widths, beyond: Array) -> tuple[Array, Array, Array]:
    """U - W, its derivative in t, and U at t = 1 + beyond."""
    u, w, du, dw = continued(
        [kernel_u, kernel_w, kernel_u_slope, kernel_w_slope], models, 1 + beyond, -beyond
    )
    return u - w, du - dw, u


_METHODS = {"overlap": _by_overlap, "continuation": _by_continuation}
