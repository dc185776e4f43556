"""The bulk of the spectrum on the real axis: z(g), its derivatives, and the left edge.

Sources: arXiv 2510.18435 for the self-consistent equation 1/g = z - alpha K(g); theory.exact.conditions for the form used here.
Units are those of the Hessian as written, or of (p/2) H when p = inf; likewise g = (1/pN) E Tr (z - H)^-1.
A model is a quadratic committee, here and in `theory.exact.outliers`, with any noise before the teacher's square.
The bulk has no right edge: the weights are unbounded above, so its density reaches to +infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theory.answers import Edge
from theory.checks import ParameterError, broadcast, count, finite, numpy_defaults, one, ratio
from theory.exact.averages import (
    Widths,
    average,
    kernel_edge,
    kernel_edge_wide,
    kernel_k,
    kernel_outlier_wide,
    kernel_radial,
    kernel_square,
    kernel_w,
    kernel_w_slope,
)
from theory.exact.committee import quadratic
from theory.exact.conditions import edge_root, split
from theory.model.network import Network

Array = Any

_FEW_DIGITS = 1e-3  # |z| below this times 1/t
_LARGE = 1.0  # a from which a + y + yhat is mostly a


def unit(model: Network) -> float:
    """Factor from (p/2) H to the Hessian as written: 2/p, and 1 for p = inf."""
    return 1.0 if math.isinf(model.p) else 2 / model.p


def problems(model: Network, alpha: ArrayLike) -> tuple[Widths, Array, tuple[int, ...]]:
    """One model for each entry of alpha (checked: positive, at most 1e100), both flattened; and the shape of alpha."""
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
    return _by_size(
        models,
        lambda at: average([kernel_edge], models.take(at), t[at], rest[at])[0],
        lambda at: average([kernel_edge_wide], models.take(at), t[at], rest[at])[0],
    )


def at_outlier(models: Widths, t: Array, rest: Array) -> Array:
    """K - U/t = E[y phi] (with noise E[(b y + 1 - b) phi]): z/alpha at the outlier.

    At small a from D phi = b c yhat - y, so that y phi = b c yhat - y - a phi - t (b c yhat - y) phi. The mean of the first
    two terms, b - 1 + 2b/p, is exact; for p = inf, where it is 0, what is left is of one sign, while y phi itself changes
    sign. At large a, where a phi cancels that mean, by `kernel_outlier_wide`.
    """

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
def bulk_edge(model: Network, alpha: float) -> Edge:
    """Left edge of the bulk at alpha = M/N: sharp or smooth.

    Holds for every alpha > 0. For alpha <= 1 the edge is negative; the atom of mass 1 - alpha at 0 is not
    part of it. Raises ParameterError unless alpha is positive and finite. Many alpha: `edges`.

    >>> edge = bulk_edge(Network(1, 1, 1.0), 1.5)
    >>> edge.kind, round(edge.value, 6)
    ('sharp', -1.857321)
    """
    value, kind, _ = _edge(quadratic(model), one("alpha", ratio("alpha", alpha)))
    return Edge(value, kind)


@numpy_defaults
def edge_resolvent(model: Network, alpha: float) -> float:
    """Resolvent trace g at the left edge: -p/2 (-1 for p = inf) where it is smooth, above it where sharp.

    >>> edge_resolvent(Network(1, 1, 2.0), 1.0)
    -0.5
    """
    return _edge(quadratic(model), one("alpha", ratio("alpha", alpha)))[2]


@lru_cache(maxsize=256)
def _edge(model: Network, alpha: float) -> tuple[float, str, float]:
    """One edge, remembered: density, outlier and their callers ask for the same one."""
    value, kind, g = edges(model, np.array([alpha]))
    return float(value[0]), str(kind[0]), float(g[0])


@numpy_defaults
def edges(model: Network, alpha: ArrayLike) -> tuple[Array, Array, Array]:
    """Values, kinds (texts) and resolvent traces of the left edges at alpha (any shape)."""
    models, alphas, shape = problems(model, alpha)
    r = edge_root(models, alphas)
    t, rest = split(r)
    found = (
        unit(model) * shift(models, alphas, t, rest, at_edge),
        np.where(r > 0, "sharp", "smooth"),
        -t / unit(model),
    )
    return found[0].reshape(shape), found[1].reshape(shape), found[2].reshape(shape)


@numpy_defaults
def z_of_g(model: Network, alpha: ArrayLike, g: ArrayLike, derivative: int = 0) -> Array:
    """z(g) = 1/g + alpha K(g), or its first or second derivative in g, for g_min <= g < 0.

    alpha and g broadcast; g_min = -p/2 (-1 for p = inf). Where dz/dg < 0 all the way from 0-, g is the
    resolvent trace at z left of the bulk. At a sharp edge z' = 0 and z'' < 0 sets the scale of the square
    root. Raises ParameterError for g outside [g_min, 0), alpha not positive, shapes that do not
    broadcast, derivative not 0, 1 or 2.

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
        z = -(unit(model) ** 2) * (1 - alphas * w) / t**2
    else:
        w, slope = average([kernel_w, kernel_w_slope], models, t, 1 - t)
        z = unit(model) ** 3 * (-alphas * slope / t**2 - 2 * (1 - alphas * w) / t**3)
    return float(z) if z.ndim == 0 else z


@numpy_defaults
def riemannian_shift(model: Network, alpha: ArrayLike) -> Array:
    """What the whole spectrum moves by on the product of spheres: -alpha (2/p) E[yhat (yhat - y)/(a + y)], shape of alpha.

    The Riemannian Hessian is the Euclidean one less (w_k . dL/dw_k)/N on each block k (and p directions are removed), the
    same number on every block as N -> inf: it moves no threshold and no overlap. It is negative. Units of the Hessian,
    or of (p/2) H for p = inf. Raises ParameterError unless alpha is positive and finite.

    >>> round(float(riemannian_shift(Network(2, 1, 1.0), 1.5)), 6)
    -1.450558
    """
    models, alphas, shape = problems(model, alpha)
    none = np.zeros(models.shape)
    (mean,) = average([kernel_radial], models, none, 1 - none, branches=(1,))
    return (-unit(model) * alphas * mean).reshape(shape)[()]
