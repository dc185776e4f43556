"""The bulk of the spectrum on the real axis: z(g), its derivatives, the left edge; and the roots that make edge and outlier.

Source: arXiv 2510.18435 for the self-consistent equation 1/g = z - alpha K(g). Units are those of the Hessian as written, or of
(p/2) H when p = inf; likewise g = (1/pN) E Tr (z - H)^-1. A model is a quadratic committee, here and in
`theory.exact.outliers`, with any noise before the teacher's square. The bulk has no right edge: the weights are unbounded
above, so its density reaches to +infinity.

Where edge, outlier and threshold sit is told by a walk of t = -2g/p from 0 to 1. With K, S of the paper, W = E[(t phi)^2],
U = t E[(1 - y) phi], alpha W = 1 + g^2 z'(g), S = K - U/t,

    edge        dz/dg = 0       <=>  alpha W(t) = 1   (sharp, t < 1), or t = 1 when alpha W(1) <= 1 (smooth)
    outlier     z = alpha S     <=>  alpha U(t) = 1   with t below the edge's
    threshold   both at once    <=>  U(t) = W(t) (continuous), or t = 1 when W(1) <= U(1) (discontinuous).

One edge and at most one outlier: docs/theory.md, "The walk in t"; symbols: docs/notation.md.

Roots are found in v = log(1 + r/b), r = (1 - t)/t, in which log W and log U are close to straight lines: b is
the scale of a + yhat at the low end of yhat, where 1/D^k gets its weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theory.checks import NotConverged, ParameterError, broadcast, count, finite, numpy_defaults, one, ratio
from theory.exact import quadratic
from theory.exact.averages import (
    Kernel,
    Widths,
    average,
    kernel_edge,
    kernel_edge_wide,
    kernel_k,
    kernel_outlier_wide,
    kernel_radial,
    kernel_square,
    kernel_u,
    kernel_u_slope,
    kernel_w,
    kernel_w_slope,
)
from theory.model.network import Network

Array = Any

_FEW_DIGITS = 1e-3  # |z| below this times 1/t
_LARGE = 1.0  # a from which a + y + yhat is mostly a
_TOLERANCE = 1e-8  # relative step that is the last: its error, by quadratic convergence, is below rounding
_FLOOR = 1e-15  # absolute part of that test, where v itself is tiny
_STEPS = 100  # of Newton's method and bisections together


# ---- roots ----


def newton(
    function: Callable[[Array, Any], tuple[Array, Array]],
    start: Array,
    low: Array,
    high: Array,
    steps: int = _STEPS,
) -> Array:
    """Roots of functions of v >= 0 that are positive at `low` and negative at `high` (inf where no bound is known).

    function(v, index) returns value and derivative at v for the problems `index` (integers into start), all 1-D. Raises
    NotConverged, carrying the best estimate, when `steps` evaluations do not suffice.

    Newton's method inside a bracket that every evaluation tightens, all roots at once. Unlike scipy.optimize.newton on arrays
    it cannot run away, unlike scipy.optimize.elementwise.find_root it uses the derivative, which comes almost free with
    our averages, and it evaluates only what has not converged yet.
    """
    v, low, high = (np.array(x, dtype=np.float64) for x in (start, low, high))
    active = np.arange(v.size)
    for _ in range(steps):
        if not active.size:
            return v
        here = v[active]
        value, slope = function(here, active)
        low[active] = np.where(value >= 0, here, low[active])
        high[active] = np.where(value <= 0, here, high[active])
        moved = _step(here, value, slope, low[active], high[active])
        v[active] = moved
        done = (np.abs(moved - here) <= _TOLERANCE * np.abs(moved) + _FLOOR) | (value == 0)
        active = active[~done]
    if active.size:
        raise NotConverged(f"{active.size} of {v.size} roots not found in {steps} steps", v)
    return v


def _step(v: Array, value: Array, slope: Array, low: Array, high: Array) -> Array:
    """Newton where it stays inside the bracket, else bisection (doubling where there is no upper bound yet)."""
    bounded = np.isfinite(high)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        moved = v - value / slope
        inside = (moved >= low) & (moved <= np.where(bounded, high, 4 * low + 4))
    middle = np.where(bounded, (low + high) / 2, 2 * low + 1)
    # Back to an end of the bracket whose sign is known: where values are rounding this would go on for ever.
    inside &= (moved == v) | ((moved != low) & (moved != high))
    return np.where(value == 0, v, np.where(inside, moved, middle))


def at_end(models: Widths, *kernels: Kernel, dtype: Any = np.float64) -> list[Array]:
    """Averages at t = 1, the end of the walk, in the precision `dtype`."""
    return average(kernels, models, np.ones(models.shape, dtype), np.zeros(models.shape, dtype))


def split(r: Array) -> tuple[Array, Array]:
    """t = 1/(1 + r) and 1 - t, each to full relative precision."""
    return 1 / (1 + r), r / (1 + r)


def edge_root(models: Widths, alpha: Array) -> Array:
    """r = (1-t)/t at the left edge: 0 where it is smooth. models and alpha 1-D of one length."""
    return _met(models, alpha, kernel_w, kernel_w_slope, np.zeros(models.shape), 0.0)


def outlier_root(models: Widths, alpha: Array, r_edge: Array) -> Array:
    """r at the teacher outlier: NaN where none exists. All 1-D of one length."""
    return _met(models, alpha, kernel_u, kernel_u_slope, r_edge, np.nan)


def _met(models: Widths, alpha: Array, kernel: Kernel, slope: Kernel, start: Array, absent: float) -> Array:
    """r > start where alpha times an average is 1; `absent` where it is below 1 at the start already."""

    def log_excess(v: Array, index: Array) -> tuple[Array, Array]:
        value, growth, rate = _evaluate(models, v, index, kernel, slope)
        return np.log(alpha[index] * value), growth / value * rate

    (value,) = average([kernel], models, *split(start))
    with np.errstate(divide="ignore"):  # a product that underflows is below 1
        excess = np.log(alpha * value)
    return _solve(models, log_excess, excess, start, absent)


def threshold_root(models: Widths, log_ratio_at_end: Array | None = None) -> Array:
    """r at the transition: 0 where it is discontinuous. models 1-D; log W(1)/U(1) may be given if known."""

    def log_ratio(v: Array, index: Array) -> tuple[Array, Array]:
        w, dw, u, du, rate = _evaluate(models, v, index, kernel_w, kernel_w_slope, kernel_u, kernel_u_slope)
        return np.log(w / u), (dw / w - du / u) * rate

    if log_ratio_at_end is None:
        w, u = at_end(models, kernel_w, kernel_u)
        log_ratio_at_end = np.log(w / u)
    return _solve(models, log_ratio, log_ratio_at_end, np.zeros(models.shape), 0.0)


def _solve(
    models: Widths,
    function: Callable[[Array, Array], tuple[Array, Array]],
    value_at_start: Array,
    start: Array,
    absent: float,
) -> Array:
    """Root r > start of a function of v that is positive at the start; `absent` where it is not."""
    r = np.full(models.shape, absent)
    chosen = np.flatnonzero(value_at_start > 0)
    scale = _scale(models)[chosen]
    low = np.log1p(start[chosen] / scale)
    v = newton(
        lambda v, index: function(v, chosen[index]),
        # As if the logarithm fell with slope -2, as W ~ t^2 does far out.
        low + np.minimum(value_at_start[chosen], 4) / 2,
        low,
        np.full(chosen.size, np.inf),
    )
    r[chosen] = scale * np.expm1(v)
    return r


def _evaluate(models: Widths, v: Array, index: Array, *kernels: Kernel) -> list[Array]:
    """Averages at v for the models `index`, then dt/dv."""
    part = models.take(index)
    scale = _scale(part)
    r = scale * np.expm1(v)
    t, rest = split(r)
    # dt/dr = -t^2, dr/dv = b + r
    return [*average(kernels, part, t, rest), -(t**2) * (scale + r)]


def _scale(models: Widths) -> Array:
    low_end = models.a + models.clean * np.maximum(1 - models.two_over_p, 0)
    # 1 - 2/p is the mode of yhat, 0 for p = 1 and 2
    return low_end / (1 + low_end)


# ---- z ----


def unit(model: Network) -> float:
    """Factor from (p/2) H to the Hessian as written: 2/p, and 1 for p = inf."""
    return 1.0 if math.isinf(model.p) else 2 / model.p


def problems(model: Network, alpha: ArrayLike) -> tuple[Widths, Array, tuple[int, ...]]:
    """A quadratic model with any noise, once for each alpha, and alpha (n,), both flattened; the shape of alpha. Raises
    ParameterError on any other model or alpha."""
    model, alpha = quadratic(model), np.asarray(ratio("alpha", alpha))
    models = Widths.of(model.p, model.p_star, model.a, model.noise).broadcast((alpha.size,))
    return models, alpha.ravel(), alpha.shape


def shift(
    models: Widths, alpha: Array, t: Array, rest: Array, met: Callable[..., Array] | None = None
) -> Array:
    """z in units of (p/2) H: -1/t + alpha E[phi].

    met: `at_edge` or `at_outlier`, where t < 1 meets alpha W = 1 or alpha U = 1. They give z/alpha with 1/t written as
    alpha W/t or alpha U/t, used where -1/t + alpha E[phi] leaves few digits: a -> 0 at large alpha, t -> 0, z of order alpha.
    """
    (mean,) = average([kernel_k], models, t, rest)
    z = np.asarray(-1 / t + alpha * mean)
    if met is not None and np.any(lost := (np.abs(z) * t < _FEW_DIGITS) & (rest > 0)):
        z[lost] = alpha[lost] * met(models.take(lost), t[lost], rest[lost])
    return z


def at_edge(models: Widths, t: Array, rest: Array) -> Array:
    """K - W/t = E[(c yhat - y)(a + y)/D^2]: z/alpha at a sharp edge."""

    def part(kernel: Kernel) -> Callable[[Array], Array]:
        return lambda at: average([kernel], models.take(at), t[at], rest[at])[0]

    return _by_size(models, part(kernel_edge), part(kernel_edge_wide))


def at_outlier(models: Widths, t: Array, rest: Array) -> Array:
    """K - U/t = E[y phi] (with noise E[(b y + 1 - b) phi]): z/alpha at the outlier. models, t and rest = 1 - t are 1-D.

    At small a from D phi = b c yhat - y, so that y phi = b c yhat - y - a phi - t (b c yhat - y) phi. The mean of the first
    two terms, b - 1 + 2b/p, is exact; for p = inf, where it is 0, what is left is of one sign, while y phi itself changes
    sign. At large a, where a phi cancels that mean, by `kernel_outlier_wide`."""

    def narrow(at: Array) -> Array:
        part = models.take(at)
        mean, square = average([kernel_k, kernel_square], part, t[at], rest[at])
        clean = part.clean
        biased = clean - 1 + clean * part.two_over_p - part.a * mean - t[at] * square
        return clean * biased + (1 - clean) * mean

    return _by_size(
        models, narrow, lambda at: average([kernel_outlier_wide], models.take(at), t[at], rest[at])[0]
    )


def _by_size(models: Widths, narrow: Callable[[Array], Array], wide: Callable[[Array], Array]) -> Array:
    """Values of models (1-D) by their a: functions of indices."""
    value, large = np.empty(models.shape), models.a > _LARGE
    for chosen, function in ((~large, narrow), (large, wide)):
        if np.any(chosen):
            value[chosen] = function(np.flatnonzero(chosen))
    return value


@numpy_defaults
def edge_resolvent(model: Network, alpha: float) -> float:
    """Resolvent trace g at the left edge at one alpha, in inverse units of it: -p/2 (-1 for p = inf) where it is smooth, above
    it where sharp. Models and refusals are those of `z_of_g`.

    >>> edge_resolvent(Network(1, 1, 2.0), 1.0)
    -0.5"""
    _, r = edges(model, one("alpha", ratio("alpha", alpha)))
    return float(-split(r)[0] / unit(model))


@numpy_defaults
def edges(model: Network, alpha: ArrayLike) -> tuple[Array, Array]:
    """Values of the left edges at alpha (any shape), and r = (1 - t)/t there, above 0 where they are sharp. A single one is
    remembered: outliers and density ask for the same one again."""
    models, alphas, shape = problems(model, alpha)
    if alphas.size == 1:
        # Numbers are what is remembered: arrays are given away, and belong to who asked.
        value, r = np.reshape(_edge_at(model, float(alphas[0])), (2, 1))
    else:
        value, r = _edges(model, models, alphas)
    return value.reshape(shape), r.reshape(shape)


@lru_cache(maxsize=256)
def _edge_at(model: Network, alpha: float) -> tuple[float, float]:
    value, r = _edges(model, *problems(model, alpha)[:2])
    return float(value[0]), float(r[0])


def _edges(model: Network, models: Widths, alphas: Array) -> tuple[Array, Array]:
    r = edge_root(models, alphas)
    return unit(model) * shift(models, alphas, *split(r), at_edge), r


@numpy_defaults
def z_of_g(model: Network, alpha: ArrayLike, g: ArrayLike, derivative: int = 0) -> Array:
    """z(g) = 1/g + alpha K(g), or its first or second derivative in g, for g_min <= g < 0.

    g_min = -p/2 (-1 for p = inf). Where dz/dg < 0 all the way from 0-, g is the resolvent trace at z left of the bulk. At a
    sharp edge z' = 0, and z'' < 0 sets the scale of the square root.

    Parameters
    ----------
    model : Network
        A quadratic committee, with any noise before the teacher's square.
    alpha, g : float or array
        M/N, and the resolvent trace in [g_min, 0); they broadcast.
    derivative : int
        0, 1 or 2.

    Returns
    -------
    float or array

    Raises
    ------
    ParameterError
        On unfit arguments, and shapes that do not broadcast.

    >>> g = edge_resolvent(Network(1, 1, 0.5), 2.0)
    >>> abs(z_of_g(Network(1, 1, 0.5), 2.0, g, derivative=1)) < 1e-12
    True
    """
    order = count("derivative", derivative, 0)
    if order > 2:
        raise ParameterError(f"derivative must be 0, 1 or 2, got {derivative!r}")
    model = quadratic(model)
    alphas, at = broadcast(alpha=ratio("alpha", alpha), g=finite("g", g))
    t = -at * unit(model)
    outside = (t <= 0) | (t > 1)
    if np.any(outside):
        raise ParameterError(f"g must lie in [{-1 / unit(model)}, 0), got {float(at[outside].flat[0])}")
    models = Widths.of(model.p, model.p_star, model.a, model.noise).broadcast(t.shape)
    if order == 0:
        z = unit(model) * shift(models, alphas, t, 1 - t)
    elif order == 1:
        (w,) = average([kernel_w], models, t, 1 - t)
        # In (p/2) H dz/dt = (1 - alpha W) / t^2; each derivative in g brings -2/p.
        z = -(unit(model) ** 2) * (1 - alphas * w) / t**2
    else:
        w, slope = average([kernel_w, kernel_w_slope], models, t, 1 - t)
        z = unit(model) ** 3 * (-alphas * slope / t**2 - 2 * (1 - alphas * w) / t**3)
    return float(z) if z.ndim == 0 else z


@numpy_defaults
def riemannian_shift(model: Network, alpha: ArrayLike) -> Array:
    """What the whole spectrum moves by on the product of spheres: -alpha (2/p) E[yhat (yhat - y)/(a + y)].

    The Riemannian Hessian is the Euclidean one less (w_k . dL/dw_k)/N on each block k (and p directions are removed), the
    same number on every block as N -> inf: it moves no threshold and no overlap. It is negative.

    Parameters
    ----------
    model : Network
        A quadratic committee, with any noise before the teacher's square.
    alpha : float or array
        M/N.

    Returns
    -------
    float or array
        Of the shape of alpha, in units of the Hessian, of (p/2) H for p = inf.

    Raises
    ------
    ParameterError
        On any other model, and unless alpha is positive and finite.

    >>> round(float(riemannian_shift(Network(2, 1, 1.0), 1.5)), 6)
    -1.450558
    """
    models, alphas, shape = problems(model, alpha)
    # At t = 0 phi = f: a plain average.
    none = np.zeros(models.shape)
    (mean,) = average([kernel_radial], models, none, 1 - none, branches=(1,))
    return (-unit(model) * alphas * mean).reshape(shape)[()]
