"""An adaptive product rule in two dimensions: panels of Gauss-Legendre nodes, halved where halves tell more than the whole.

For averages over two independent variables, each N(0, 1) or the length of a vector of k of them, of functions with narrow
valleys and near poles, which no one map of the line resolves. A panel is halved across the axis along which the last Legendre
coefficients are largest, so that a valley along the other takes few. `scipy.integrate.cubature` returns integrals; a law of
weights needs the nodes, for which every other average is then a sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Array = NDArray[Any]

_ORDER = 8  # nodes of a panel, along each axis
_FIRST = 12  # panels along each axis at the start
_DEPTH = 120
_REACH = 9.5  # standard deviations that the nodes cover: what is left out is 2e-21

_NODES, _WEIGHTS = (v / 2 for v in np.polynomial.legendre.leggauss(_ORDER))
_LAST = (
    np.polynomial.legendre.legvander(2 * _NODES, _ORDER - 1)[:, -2:] * _WEIGHTS[:, None]
)  # of the series along an axis


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
        across = np.argmax(np.sum(tails / seen, axis=0), axis=0) == np.arange(2)[:, None]
        size = np.where(across, size / 2, size)
        low = np.stack([low, np.where(across, low + size, low)], axis=2).reshape(2, -1)
        size = np.repeat(size, 2, axis=1)
        parts, nodes, tails = _integrals(function, low, size, lines)
        found = parts.reshape(len(parts), -1, 2).sum(axis=2)
        seen = np.abs(total + found.sum(axis=1))
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
