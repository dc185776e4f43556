"""An adaptive product rule in two dimensions: panels of Gauss-Legendre nodes, quartered where the quarters tell more.

For averages over two independent variables, each N(0, 1) or the length of a vector of k of them, of functions with narrow
valleys and near poles, which no one map of the line resolves. `scipy.integrate.cubature` returns integrals; a law of weights
needs the nodes, for which every other average is then a sum.
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
_DEPTH = 60
_REACH = 9.5  # standard deviations that the nodes cover: what is left out is 2e-21

_NODES, _WEIGHTS = (v / 2 for v in np.polynomial.legendre.leggauss(_ORDER))


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
    size = np.array([side[1] - side[0] for side in sides])
    kept: list[Array] = []
    whole, _ = _integrals(function, low, size, lines)
    total, count = np.zeros(len(whole)), 0
    for _ in range(_DEPTH):
        size = size / 2
        quarters = low[:, None, :] + size[:, None, None] * np.array([[0, 0, 1, 1], [0, 1, 0, 1]])[:, :, None]
        quarters = quarters.reshape(2, -1)
        parts, nodes = _integrals(function, quarters, size, lines)
        found = parts.reshape(len(parts), 4, -1)
        change = np.abs(found.sum(axis=1) - whole)
        seen = np.abs(total + found.sum(axis=(1, 2)))
        done = np.all(change <= tolerance * seen[:, None], axis=0)
        if count + 4 * np.sum(~done) * _ORDER**2 > most:
            done[:] = True
        total = total + found[:, :, done].sum(axis=(1, 2))
        kept.append(nodes[:, np.tile(done, 4)].reshape(3, -1))
        count += kept[-1].shape[1]
        if np.all(done):
            break
        low = quarters[:, np.tile(~done, 4)]
        whole = parts[:, np.tile(~done, 4)]
    t, x, weight = np.concatenate(kept, axis=1)
    keep = weight > 0
    return t[keep], x[keep], weight[keep] / weight[keep].sum()


def _integrals(
    function: Callable[[Array, Array], Array], low: Array, size: Array, lines: tuple[int, int]
) -> tuple[Array, Array]:
    """Integrals (k, c) over panels with lower corners low (2, c), and their nodes and probabilities (3, c, n)."""
    along = [low[axis][:, None] + size[axis] * (0.5 + _NODES) for axis in (0, 1)]
    weights = [size[axis] * _WEIGHTS * _density(along[axis], lines[axis]) for axis in (0, 1)]
    t = np.broadcast_to(along[0][:, :, None], (low.shape[1], _ORDER, _ORDER)).reshape(low.shape[1], -1)
    x = np.broadcast_to(along[1][:, None, :], (low.shape[1], _ORDER, _ORDER)).reshape(low.shape[1], -1)
    weight = (weights[0][:, :, None] * weights[1][:, None, :]).reshape(low.shape[1], -1)
    values = function(t.ravel(), x.ravel()).reshape(-1, *t.shape)
    with np.errstate(invalid="ignore"):
        parts = np.where(weight > 0, values * weight, 0.0).sum(axis=2)
    return parts, np.stack([t, x, weight])


def _density(x: Array, k: int) -> Array:
    """Of N(0, 1), or of the length of k of them."""
    if k == 1:
        return np.asarray(np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp((k - 1) * np.log(x) - x**2 / 2 - (k / 2 - 1) * math.log(2) - gammaln(k / 2)))
