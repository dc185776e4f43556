"""The BBP transition: where the teacher outlier leaves the bulk, and how; alpha_0, where its overlap would vanish.

Source: arXiv 2510.18435. In the variables of theory.exact.bulk the transition is discontinuous when W(1) <= U(1), then

    alpha = 1/U(1) = (p_star/2) / E[((p-1)/p)/(yhat + a) + (1/p)/(3 yhat + a)];

else continuous, alpha = 1/U(t) = 1/W(t) at the t in (0, 1) where U = W. For p = inf it is always discontinuous,
alpha = p_star (1 + a)/2. Expanding the closed form in 1/p (derived here), wide students approach that from below when
a < 1, so that alpha_BBP rises with p beyond p_c, and from above when a > 1.

alpha_0: where a discontinuous transition would lose its last overlap, were the overlap to vanish continuously. Finite-N
transitions of discontinuous models sit well below alpha_BBP. Source of the idea: arXiv 2510.18435, "the residual overlap
vanishes like a square root". Two estimates:

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

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theory.answers import Threshold
from theory.checks import (
    TEACHERS,
    ParameterError,
    broadcast,
    choice,
    normalisation,
    numpy_defaults,
    variance,
    widths,
)
from theory.exact.averages import (
    Widths,
    average,
    continued,
    kernel_u,
    kernel_u_in_a,
    kernel_u_slope,
    kernel_v,
    kernel_v_slope,
    kernel_w,
    kernel_w_minus_u,
    kernel_w_minus_u_in_a,
    kernel_w_slope,
)
from theory.exact.bulk import at_end, newton, split, threshold_root

Array = Any

_WIDEST = 2.0**40  # p_c that is looked for
_CONSTANT = 2.0**70  # width beyond which p a_c is constant even in extended precision
_NEAR = 1e-12  # |log W/U| below which the kind is that of a against a_c: its own sign is rounding
_SMALL = 0.03  # below this (U - W)/U is computed again in extended precision
# t - 1 in units of 1 + a: from the end of the walk to far beyond where U has turned negative.
_GRID = np.concatenate([[0.0], np.geomspace(0.01, 30.0, 40)])
_STRIDE = 8  # nodes of the grid looked at before the models that are done drop out
_BISECTIONS = 45  # of the distance of two nodes: to rounding


@numpy_defaults
def threshold_map(
    p: ArrayLike, p_star: ArrayLike = 1, a: ArrayLike = 1.0, noise: ArrayLike = 0.0
) -> Threshold:
    """alpha_BBP, its kind and the overlap jump for arrays of p, p_star, a and noise that broadcast against one another.

    Parameters
    ----------
    p, p_star : arrays
        Widths of student (inf allowed) and teacher.
    a : array
        Normalisation of the loss, positive.
    noise : array
        Variance added before the teacher's square.

    Returns
    -------
    Threshold
        Of arrays of the common shape.

    Raises
    ------
    ParameterError
        On any entry that is unfit.

    >>> threshold_map([1, 2, np.inf], 1, 1.0).alpha.round(4)
    array([1.1349, 1.0184, 1.    ])
    """
    models, shape = models_of(p, p_star, a, noise)
    found = transition(models)
    return Threshold(found.alpha.reshape(shape), found.kind.reshape(shape), found.jump.reshape(shape))


@numpy_defaults
def critical_normalisation(p: ArrayLike, p_star: ArrayLike = 1, noise: ArrayLike = 0.0) -> Array:
    """a_c, the normalisation where the transition changes kind: continuous for a < a_c, discontinuous from a_c on.

    Without noise a_c falls with p like 1/p and is 0 for p = inf, where every transition is discontinuous; with noise it tends
    to a number above 0.

    alpha_BBP(a) at fixed p has its minimum at a_c for p = 1, 2, 4, 8 and p_star = 1, but not in general: for p = 512 it lies
    near 0.74 a_c, and for p = 1 with p_star of 5 and more alpha_BBP rises with a from the start.

    Derived here: W(1) = U(1), that is E[(c yhat - y)^2/(c yhat + a)^2] = (2/p_star) E[1/(c yhat + a)] on average over
    the branches; W/U falls with a.

    Parameters
    ----------
    p, p_star, noise : arrays
        As in `threshold_map`.

    Returns
    -------
    float or array
        Of the common shape.

    Raises
    ------
    ParameterError
        On bad widths or noise.

    >>> round(critical_normalisation(1), 6), critical_normalisation(np.inf)
    (1.108756, 0.0)
    """
    models, shape = models_of(p, p_star, 1.0, noise)
    above = np.flatnonzero((models.two_over_p > 0) | (models.clean < 1))
    a_c = np.zeros(models.shape)
    chosen = models.take(above)
    a_c[above] = _critical(chosen) / chosen.clean
    return a_c.reshape(shape) if shape else float(a_c[0])


def _critical(models: Widths) -> Array:
    """a_c / (1 + noise) of finite widths, or of any with noise, models 1-D (their own a is ignored), to the last bit."""
    # Without noise p a_c is constant to all digits long before p overflows the nodes; with noise a_c is.
    narrow = models.two_over_p / np.maximum(models.two_over_p, 2 / _CONSTANT)
    beyond = np.where(models.clean < 1, 1.0, narrow)
    models = replace(models, two_over_p=np.maximum(models.two_over_p, 2 / _CONSTANT))
    # a_c is of order 1/p without noise, of order 1 - b with it
    scale = (models.two_over_p + (1 - models.clean)) * (1 + 1 / models.two_over_p_star)

    def log_ratio(v: Array, index: Array) -> tuple[Array, Array]:
        a = scale[index] * np.expm1(v)
        rest, slope, u, du = at_end(
            replace(models.take(index), a=a), kernel_w_minus_u, kernel_w_minus_u_in_a, kernel_u, kernel_u_in_a
        )
        return np.log1p(rest / u), (slope - rest / u * du) / (u + rest) * (a + scale[index])

    start = np.full(scale.size, 0.5)
    a_c = scale * np.expm1(newton(log_ratio, start, 0 * start, np.inf + start))
    rest, slope = at_end(replace(models, a=a_c), kernel_w_minus_u, kernel_w_minus_u_in_a, dtype=np.longdouble)
    return (a_c - rest / slope).astype(np.float64) * beyond


@numpy_defaults
def critical_width(a: ArrayLike, p_star: ArrayLike = 1) -> Array:
    """p_c, the smallest width p whose transition is discontinuous.

    It grows like 1/a. Derived here: W(1)/U(1) falls with p, so p_c is found by doubling and bisection.

    Parameters
    ----------
    a, p_star : arrays
        As in `threshold_map`.

    Returns
    -------
    int, or array of int64
        Of the common shape.

    Raises
    ------
    ParameterError
        Unless a is positive and p_star a width, or where a is so small that p_c passes 2^40.

    >>> critical_width([0.1, 1.0])
    array([47,  2])
    """
    models, shape = models_of(1, p_star, a)

    def discontinuous(p: Array, dtype: Any = np.float64) -> Array:
        (rest,) = at_end(replace(models, two_over_p=2 / p), kernel_w_minus_u, dtype=dtype)
        return rest <= 0

    high = np.ones(models.shape)
    while np.any(growing := ~discontinuous(high)):
        if np.max(high) >= _WIDEST:
            raise ParameterError(
                f"a must be large enough for p_c below 2^40, got {float(np.min(models.a[growing]))}"
            )
        high = np.where(growing, 2 * high, high)
    low = np.floor(high / 2)  # 0, or a width that is continuous
    while np.any(high - low > 1):
        middle = np.maximum(np.floor((low + high) / 2), 1)
        yes = discontinuous(middle)
        low, high = np.where(yes, low, np.minimum(middle, high - 1)), np.where(yes, middle, high)
    # One width more or less changes W/U by 1/p of itself, near the rounding of the bisection for the widest.
    while np.any(short := ~discontinuous(high, np.longdouble)):
        high = high + short
    while np.any(long := (high > 1) & discontinuous(np.maximum(high - 1, 1), np.longdouble)):
        high = high - long
    return high.astype(np.int64).reshape(shape) if shape else int(high[0])


def models_of(
    p: ArrayLike, p_star: ArrayLike, a: ArrayLike, noise: ArrayLike = 0.0
) -> tuple[Widths, tuple[int, ...]]:
    """Checked models, broadcast and flattened; and their shape. Raises ParameterError."""
    arrays = broadcast(
        p=widths("p", p),
        p_star=widths("p_star", p_star, infinite=False, largest=TEACHERS),
        a=normalisation("a", a),
        noise=variance("noise", noise),
    )
    return Widths.of(*map(np.ravel, arrays)), arrays[0].shape


def transition(models: Widths) -> Threshold:
    """threshold_map of flattened models, unchecked."""
    u, difference, v = at_end(models, kernel_u, kernel_w_minus_u, kernel_v)
    log_ratio = np.log1p(np.maximum(difference / u, -0.5))  # below, only its sign matters
    near = np.flatnonzero((np.abs(log_ratio) < _NEAR) & ((models.two_over_p > 0) | (models.clean < 1)))
    above = models.a[near] >= _critical(models.take(near))
    log_ratio[near[above]] = 0.0
    r = threshold_root(models, log_ratio)
    crossing = np.flatnonzero(r > 0)
    (u_crossing,) = average([kernel_u], models.take(crossing), *split(r[crossing]))
    rest = np.maximum(-difference, 0)
    small = np.flatnonzero((rest > 0) & (rest < _SMALL * u))
    if small.size:  # just above a_c the jump is a small difference of U and W
        (precise,) = at_end(models.take(small), kernel_w_minus_u, dtype=np.longdouble)
        rest[small] = np.maximum(-precise, 0)
    discontinuous = r == 0
    discontinuous[near] = above
    rest[near[~above]] = 0.0
    u[crossing] = u_crossing
    return Threshold(1 / u, np.where(discontinuous, "discontinuous", "continuous"), rest / (rest + v))


# ---- alpha_0 ----


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
    """alpha_0, where a discontinuous transition would lose its overlap, for arrays that broadcast against one another.

    Parameters
    ----------
    p, p_star, a, noise : arrays
        As in `threshold_map`.
    method : str
        "overlap" or "continuation": see the top of the module.
    thresholds : Threshold
        What `threshold_map` gave for the same arrays, where it is at hand; None: computed here.

    Returns
    -------
    array
        Of the common shape, NaN where there is none.

    Raises
    ------
    ParameterError
        For another method, or a bad p, p_star, a or noise.

    >>> alpha_zero_map(2, 1, [0.5, 1.0], "continuation").round(4)
    array([0.9767, 0.9015])
    """
    method = choice("method", method, _METHODS)
    models, shape = models_of(p, p_star, a, noise)
    found = transition(models) if thresholds is None else thresholds
    value = np.array(found.alpha, dtype=np.float64).ravel()
    jumps = np.flatnonzero(np.ravel(found.discontinuous))
    estimate = _METHODS[method](models.take(jumps))
    # The weak-recovery limit p_star (1 + noise)^2 / 2
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
        # alpha - q2 / (dq2/dalpha), both derivatives in t: dq2 = growth / (rest + v)^2, dalpha = -du / u^2
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

    root = newton(gap, (low[found] + high[found]) / 2, low[found], high[found])
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
