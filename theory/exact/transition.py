"""The BBP transition: where the teacher outlier leaves the bulk, and how.

Source: arXiv 2510.18435. In the variables of theory.exact.conditions the transition is discontinuous when W(1) <= U(1), then

    alpha = 1/U(1) = (p_star/2) / E[((p-1)/p)/(yhat + a) + (1/p)/(3 yhat + a)];

else continuous, alpha = 1/U(t) = 1/W(t) at the t in (0, 1) where U = W. For p = inf it is always discontinuous,
alpha = p_star (1 + a)/2. Expanding the closed form in 1/p (derived here), wide students approach that from below when
a < 1, so that alpha_BBP rises with p beyond p_c, and from above when a > 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theory.answers import Threshold
from theory.checks import TEACHERS, ParameterError, normalisation, numpy_defaults, variance, widths
from theory.exact.averages import (
    Widths,
    average,
    kernel_u,
    kernel_u_in_a,
    kernel_v,
    kernel_w_minus_u,
    kernel_w_minus_u_in_a,
)
from theory.exact.committee import quadratic
from theory.exact.conditions import SOLVER, at_end, split, threshold_root
from theory.model.network import Network

Array = Any

_WIDEST = 2.0**40
_CONSTANT = 2.0**70  # width beyond which p a_c is constant even in extended precision
_NEAR = 1e-12  # |log W/U| below which the kind is that of a against a_c: its own sign is rounding
_SMALL = 0.03  # below this (U - W)/U is computed again in extended precision


@numpy_defaults
def bbp_threshold(model: Network) -> Threshold:
    """alpha_BBP of a model, whether the transition is continuous or discontinuous, and the jump of the overlap.

    >>> found = bbp_threshold(Network(1, 1, 1.0))
    >>> found.kind, round(found.alpha, 6), round(found.jump, 6)
    ('continuous', 1.134854, 0.0)
    """
    model = quadratic(model)
    found = transition(models_of(model.p, model.p_star, model.a, model.noise)[0])
    return Threshold(float(found.alpha[0]), str(found.kind[0]), float(found.jump[0]))


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

    p, p_star and noise broadcast (a float for scalars). Without noise a_c falls with p like 1/p and is 0 for p = inf, where
    every transition is discontinuous; with noise it tends to a number above 0. Raises ParameterError on bad widths or noise.

    alpha_BBP(a) at fixed p has its minimum at a_c for p = 1, 2, 4, 8 and p_star = 1, but not in general: for p = 512 it lies
    near 0.74 a_c, and for p = 1 with p_star of 5 and more alpha_BBP rises with a from the start.

    Derived here: W(1) = U(1), that is E[(c yhat - y)^2/(c yhat + a)^2] = (2/p_star) E[1/(c yhat + a)] on average over
    the branches; W/U falls with a.

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
    scale = (models.two_over_p + (1 - models.clean)) * (1 + 1 / models.two_over_p_star)

    def log_ratio(v: Array, index: Array) -> tuple[Array, Array]:
        a = scale[index] * np.expm1(v)
        rest, slope, u, du = at_end(
            replace(models.take(index), a=a), kernel_w_minus_u, kernel_w_minus_u_in_a, kernel_u, kernel_u_in_a
        )
        return np.log1p(rest / u), (slope - rest / u * du) / (u + rest) * (a + scale[index])

    start = np.full(scale.size, 0.5)
    a_c = scale * np.expm1(SOLVER.solve(log_ratio, start, 0 * start, np.inf + start))
    rest, slope = at_end(replace(models, a=a_c), kernel_w_minus_u, kernel_w_minus_u_in_a, dtype=np.longdouble)
    return (a_c - rest / slope).astype(np.float64) * beyond


@numpy_defaults
def critical_width(a: ArrayLike, p_star: ArrayLike = 1) -> Array:
    """p_c, the smallest width p whose transition is discontinuous: an int, or int64 array of the broadcast shape.

    Raises ParameterError unless a is positive and p_star a width, or when a is so small that p_c passes 2^40 (p_c
    grows like 1/a). Derived here: W(1)/U(1) falls with p, so p_c is found by doubling and bisection.

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
    p, p_star, a, noise = (
        widths("p", p),
        widths("p_star", p_star, infinite=False, largest=TEACHERS),
        normalisation("a", a),
        variance("noise", noise),
    )
    try:
        models = Widths.of(p, p_star, a, noise)
    except ValueError:
        shapes = ", ".join(str(np.shape(v)) for v in (p, p_star, a))
        raise ParameterError(f"p, p_star and a must broadcast, got shapes {shapes}") from None
    return Widths(*(np.ravel(v) for v in models.fields)), models.shape


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
