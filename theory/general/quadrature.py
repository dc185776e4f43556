"""Rules for averages over preactivations: the law of a chi-square, adaptive panels in the plane, Sobol points beyond.

`panels` is an adaptive product rule in two dimensions: Gauss-Legendre nodes on panels that are halved where halves tell more.

For averages over two independent variables, each N(0, 1) or the length of a vector of k of them, of functions with narrow
valleys and near poles, which no one map of the line resolves. A panel is halved across the axis along which the last Legendre
coefficients are largest, so that a valley along the other takes few. `scipy.integrate.cubature` returns integrals; a law of
weights needs the nodes, for which every other average is then a sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtri

from theory.checks import ParameterError, count, numpy_defaults, positive, shown

Array = NDArray[Any]

_STEP = 1 / 16  # of the trapezoid in the transformed variable: 1e-14 for integrands analytic off the ends
_WIDEST = 1e8  # k beyond which the logarithm of the density has lost half of its digits
_ENDS = 3.6  # of the transformed variable: weights beyond fall below 1e-36 of their peak

_ORDER = 8  # nodes of a panel, along each axis
_FIRST = 12  # panels along each axis at the start
_DEPTH = 120  # halvings, at the most
_REACH = 9.5  # standard deviations that the nodes cover: what is left out is 2e-21

_NODES, _WEIGHTS = (v / 2 for v in np.polynomial.legendre.leggauss(_ORDER))
# the last coefficients of the series along an axis
_LAST = np.polynomial.legendre.legvander(2 * _NODES, _ORDER - 1)[:, -2:] * _WEIGHTS[:, None]

SOBOL_DIMENSIONS = 21_201  # that scipy.stats.qmc.Sobol has


@numpy_defaults
def chi_square_law(k: int, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
    """Law of y ~ chi^2_k / k by nodes, double exponential between the `breaks`.

    Written in r = sqrt(k y), whose density r^(k-1) exp(-r^2/2) / (2^(k/2-1) Gamma(k/2)) is smooth for every k.
    Its relative accuracy is 1e-15 k.

    Parameters
    ----------
    k : int
        From 1 to 1e8.
    breaks : sequence of float
        Positive places at which the integrand is not smooth.

    Returns
    -------
    tuple of arrays (n,)
        Nodes and probabilities.

    Raises
    ------
    ParameterError
        On another k, or a break that is not positive.
    """
    if (k := count("k", k)) > _WIDEST:
        raise ParameterError(f"k must be at most {_WIDEST:g}, got {shown(k)}")
    ends = np.atleast_1d(positive("breaks", breaks))
    # r is within a few units of its mode, whatever k: knots there keep a wide law resolved.
    mode = np.sqrt(max(k - 1, 1))
    inner = [mode] if k < 30 else [mode - 4, mode, mode + 4]
    knots = np.unique([0.0, *inner, *np.sqrt(k * ends)])
    pieces = [_tanh_sinh(lo, hi) for lo, hi in pairwise(knots)] + [_half_line(knots[-1], k)]
    r, step = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    with np.errstate(divide="ignore"):
        log_density = (k - 1) * np.log(r) - r**2 / 2 - (k / 2 - 1) * np.log(2) - gammaln(k / 2)
    probability = step * np.exp(log_density)
    keep = probability > 0
    return r[keep] ** 2 / k, probability[keep]


def _tanh_sinh(lo: float, hi: float) -> tuple[Array, Array]:
    t = np.arange(-_ENDS, _ENDS + _STEP / 2, _STEP)
    u = np.pi / 2 * np.sinh(t)
    fraction = 1 / (1 + np.exp(-2 * u))  # distance from `lo`; small values keep their relative accuracy
    weight = (hi - lo) * _STEP * np.pi / 4 * np.cosh(t) / np.cosh(u) ** 2
    return lo + (hi - lo) * fraction, weight


def _half_line(lo: float, k: int) -> tuple[Array, Array]:
    """[lo, inf) by r = lo + exp(t - exp(-t)), made for integrands that decay like a Gaussian."""
    t = np.arange(-3.6, np.log(40 + np.sqrt(2 * k)), _STEP)
    r = np.exp(t - np.exp(-t))
    return lo + r, _STEP * r * (1 + np.exp(-t))


def panels(
    function: Callable[[Array, Array], Array], lines: tuple[int, int], tolerance: float, most: int
) -> tuple[Array, Array, Array]:
    """Nodes t (n,), x (n,) and probabilities (n,) that average function(t, x) -> (k, n) to a relative `tolerance` in each part.

    lines  k of each variable: 1 for N(0, 1), k > 1 for the length of k of them
    most   nodes: the last panels are not quartered again where there would be more
    """
    ends = [
        (-_REACH, _REACH) if k == 1 else (max(0.0, math.sqrt(k) - _REACH), math.sqrt(k) + _REACH)
        for k in lines
    ]
    sides = [np.linspace(*end, _FIRST + 1) for end in ends]
    low = np.array(np.meshgrid(*(side[:-1] for side in sides), indexing="ij")).reshape(2, -1)
    size = np.broadcast_to([[side[1] - side[0]] for side in sides], low.shape)
    kept: list[Array] = []
    whole, _, tails = _integrals(function, low, size, lines)
    total, count = np.zeros(len(whole)), 0
    for _ in range(_DEPTH):
        seen = np.abs(total + whole.sum(axis=1))[:, None, None] + 1e-300
        # Halved across the axis along which the Legendre series converges worst.
        across = np.argmax(np.sum(tails / seen, axis=0), axis=0) == np.arange(2)[:, None]
        size = np.where(across, size / 2, size)
        low = np.stack([low, np.where(across, low + size, low)], axis=2).reshape(2, -1)
        size = np.repeat(size, 2, axis=1)
        parts, nodes, tails = _integrals(function, low, size, lines)
        found = parts.reshape(len(parts), -1, 2).sum(axis=2)
        seen = np.abs(total + found.sum(axis=1))
        # A pair that tells what the whole panel told is fine enough.
        done = np.repeat(np.all(np.abs(found - whole) <= tolerance * seen[:, None], axis=0), 2)
        if count + 2 * np.sum(~done) * _ORDER**2 > most:
            done[:] = True
        total = total + parts[:, done].sum(axis=1)
        kept.append(nodes[:, done].reshape(3, -1))
        count += kept[-1].shape[1]
        if np.all(done):
            break
        low, size, whole, tails = low[:, ~done], size[:, ~done], parts[:, ~done], tails[:, :, ~done]
    t, x, weight = np.concatenate(kept, axis=1)
    keep = weight > 0
    return t[keep], x[keep], weight[keep] / weight[keep].sum()


def _integrals(
    function: Callable[[Array, Array], Array], low: Array, size: Array, lines: tuple[int, int]
) -> tuple[Array, Array, Array]:
    """Integrals (k, c) over panels at corners low (2, c) of sizes (2, c), their nodes and probabilities (3, c, n), and the size
    (k, 2, c) of the last coefficients along each axis."""
    many, shape = low.shape[1], (low.shape[1], _ORDER, _ORDER)
    along = [low[axis][:, None] + size[axis][:, None] * (0.5 + _NODES) for axis in (0, 1)]
    density = [size[axis][:, None] * _density(along[axis], lines[axis]) for axis in (0, 1)]
    t, x = np.broadcast_to(along[0][:, :, None], shape), np.broadcast_to(along[1][:, None, :], shape)
    inside = density[0][:, :, None] * density[1][:, None, :]
    with np.errstate(invalid="ignore"):
        values = function(t.ravel(), x.ravel()).reshape(-1, *shape) * inside
    values = np.where(inside > 0, values, 0.0)
    weight = (inside * _WEIGHTS[:, None] * _WEIGHTS).reshape(many, -1)
    parts = np.einsum("kcij,i,j->kc", values, _WEIGHTS, _WEIGHTS, optimize=True)
    tails = [
        np.abs(np.einsum("kcij,ih->kchj", values, _LAST, optimize=True)) @ _WEIGHTS,
        np.abs(np.einsum("kcij,jh->kchi", values, _LAST, optimize=True)) @ _WEIGHTS,
    ]
    sizes = np.nan_to_num(np.stack([tail.max(axis=2) for tail in tails], axis=1), nan=np.inf)
    return parts, np.stack([t.reshape(many, -1), x.reshape(many, -1), weight]), sizes


def _density(x: Array, k: int) -> Array:
    """Of N(0, 1), or of the length of k of them."""
    if k == 1:
        return np.asarray(np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp((k - 1) * np.log(x) - x**2 / 2 - (k / 2 - 1) * math.log(2) - gammaln(k / 2)))


def product(axes: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Points (n, d) and probabilities (n,) of independent variables, each given by its own."""
    grids, weights = (np.meshgrid(*each, indexing="ij") for each in zip(*axes, strict=True))
    return np.stack([grid.ravel() for grid in grids], axis=1), np.prod(weights, axis=0).ravel()


def sobol(dimensions: int, rng: np.random.Generator, level: int) -> Array:
    """Scrambled Sobol points (2^level, dimensions) of the unit cube, of at most SOBOL_DIMENSIONS."""
    from scipy.stats.qmc import Sobol  # late: takes as long as all other imports

    return Sobol(dimensions, rng=rng).random_base2(level)


def normals(uniform: Array) -> Array:
    """Points of the unit cube, any shape, as ones of independent normals."""
    return np.asarray(ndtri(np.clip(uniform, 2.0**-40, 1 - 2.0**-40)))
