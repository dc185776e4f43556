"""Laws of scalar weights as nodes with probabilities, for `theory.general.isotropic`: of networks, and given ones.

H = sum_mu f^mu x^mu x^mu^T with x^mu ~ N(0, I_N / N) apart from one direction v, along which E[(v.x)^2 | f] N = s: f = 1,
s = 1 is Marchenko-Pastur; f = 1, s = const spiked covariance; f = T(y), s = u^2 a spectral method of phase retrieval. Right
edges are minus the left edges of the law of -f.

`panels` is an adaptive product rule in two dimensions: Gauss-Legendre nodes on panels that are halved where halves tell more.

For averages over two independent variables, each N(0, 1) or the length of a vector of k of them, of functions with narrow
valleys and near poles, which no one map of the line resolves. A panel is halved across the axis along which the last Legendre
coefficients are largest, so that a valley along the other takes few. `scipy.integrate.cubature` returns integrals; a law of
weights needs the nodes, for which every other average is then a sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from theory.checks import NotConverged, ParameterError, broadcast, finite, one
from theory.general.isotropic import Averages, Block, Isotropic

Array = NDArray[Any]

_BELOW = 1e-6  # relative distance by which rounding may put a node below the infimum,
_ROUNDED = 1e-9  # and share of nodes where that may be more: a + y is then rounding itself


_ORDER = 8  # nodes of a panel, along each axis
_FIRST = 12  # panels along each axis at the start
_DEPTH = 120  # halvings, at the most
_REACH = 9.5  # standard deviations that the nodes cover: what is left out is 2e-21

_NODES, _WEIGHTS = (v / 2 for v in np.polynomial.legendre.leggauss(_ORDER))
# the last coefficients of the series along an axis
_LAST = np.polynomial.legendre.legvander(2 * _NODES, _ORDER - 1)[:, -2:] * _WEIGHTS[:, None]


@dataclass(frozen=True)
class NodeLaw:
    """Weights f (n,) with coefficients of K (n,), and of X for each block (k (k + 1) / 2, n), upper triangle packed.

    f counts the nodes of all branches: K = coefficients @ A(f). For blocks k is 1 or 2.
    """

    f: Array
    coefficients: Array
    rows: tuple[Array, ...]
    blocks: tuple[Block, ...]
    q_min: float
    closed: bool
    scale: float

    @cached_property
    def above(self) -> Array:
        """f - infimum (n,). Raises NotConverged where a weight lies below it."""
        above = self.f + self.q_min
        lowest, below = float(np.min(above)), above < -_BELOW * max(self.q_min, self.scale)
        if np.sum(self.coefficients[below]) > _ROUNDED:
            raise NotConverged(f"a weight lies {-lowest:.3g} below the infimum that was found", -self.q_min)
        return np.maximum(above, 0.0)

    def at(self, d: float) -> Averages:
        """K, K2, X and X2 at q = q_min + d, d > 0 (or d = 0 where averages exist there)."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # A = f q / (q + f) with q + f = (f - infimum) + d: no difference of large numbers at small d
            a = self.f * ((self.q_min + d) / (self.above + d))
            a2 = a * a
        return Averages(
            float(self.coefficients @ a),
            float(self.coefficients @ a2),
            [_unpacked(rows @ a) for rows in self.rows],
            [_unpacked(rows @ a2) for rows in self.rows],
        )


def _unpacked(packed: Array) -> Array:
    return packed.reshape(1, 1) if len(packed) == 1 else packed[[[0, 1], [1, 2]]]


def given_law(
    weight: ArrayLike, spike: ArrayLike, probability: ArrayLike, infimum: float | None = None, many: int = 1
) -> Isotropic:
    """The equations for a discrete law of weights f and of spikes s: arrays (n,), probabilities (n,) that sum to 1.

    infimum  of the support of f (default: the smallest node); give it where the nodes only approach it
    many     spike directions alike
    Raises ParameterError on shapes that differ, entries that are not finite, or probabilities that do not sum to 1.

    >>> value, kind, _ = given_law(1.0, 1.0, 1.0).edge(4.0)  # Marchenko-Pastur
    >>> round(value, 12), kind
    (1.0, 'sharp')
    """
    given = {"weight": weight, "spike": spike, "probability": probability}
    arrays = {name: np.atleast_1d(finite(name, value)) for name, value in given.items()}
    shape = broadcast(**arrays)[0].shape
    if len(shape) != 1:
        raise ParameterError(f"weight, spike and probability must be (n,), got {shape}")
    f, s, w = (np.broadcast_to(array, shape).astype(float) for array in arrays.values())
    if abs(w.sum() - 1) > 1e-6 or np.any(w < 0):
        raise ParameterError(f"probabilities must be >= 0 and sum to 1, got a sum of {w.sum():.9g}")
    lowest = float(f.min()) if infimum is None else one("infimum", finite("infimum", infimum))
    if not lowest <= f.min():
        raise ParameterError(f"infimum must not exceed the smallest weight {f.min():.9g}, got {infimum}")
    q_min = max(0.0, -lowest)
    scale = q_min or float(np.max(np.abs(f)))
    block = Block(np.array([True]), np.zeros((1, 1)), many)
    return Isotropic(NodeLaw(f, w, ((s * w)[None, :],), (block,), q_min, True, scale))


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
