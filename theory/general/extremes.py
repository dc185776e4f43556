"""The support of a network's weights for `theory.general.support`: extremes by search over all preactivations and outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.general.lowest import Lowest, lowest
from theory.general.orbits import equal_students
from theory.general.support import Extreme, Support
from theory.model.network import Network
from theory.model.readout import shifted

Array = NDArray[Any]

_FAR = 1e3  # preactivations from here on count as at infinity
_FAR_OUTPUT = 1e6
_DIVERGES = 4  # codimension of the lowest weights up to which E (Q + F)^-2 diverges
_ALL_ORDERS = 4  # p up to which every permutation of a place is kept


def support(model: Network) -> Support:
    """A fresh support of a model of finite p: searches add to it."""
    return Support(partial(_extreme, model), bottom(model), scalar(model))


def scalar(model: Network) -> bool:
    """Whether G is a multiple of I by symmetry: signs of the preactivations and permutations of the students."""
    return model.p == 1 or (model.even_students and equal_students(model))


@lru_cache(maxsize=64)
def bottom(model: Network) -> Extreme:
    """The infimum of the weights themselves."""
    return _extreme(model, np.zeros((int(model.p), int(model.p))))


@lru_cache(maxsize=64)
def bottom_place(model: Network) -> tuple[Array, float]:
    """Preactivations (p,) and output where the weights are lowest."""
    found = _search(model, np.zeros((int(model.p), int(model.p))))
    lam, y = _map(model)(found.x[None, :], np.array([found.y]))
    return lam[0], float(y[0])


def _map(model: Network) -> Callable[[Array, Array], tuple[Array, Array]]:
    """From what is searched over to (lam, y): themselves where every pair occurs, else normals of which lam, and without
    noise y too, are functions."""
    if _all_pairs(model):
        return lambda x, y: (x, y)
    mixing, p_star = model.mixing(), model.p_star
    if model.noise or model.output_noise:
        return lambda v, y: (v @ mixing.T, y)
    return lambda v, y: (v @ mixing.T, model.outputs(v[:, :p_star]))


def _all_pairs(model: Network) -> bool:
    own = model.mixing()[:, model.p_star :]
    return bool(np.linalg.matrix_rank(own, tol=1e-9) == len(own))


@lru_cache(maxsize=8)
def _searched(model: Network, shift: bytes) -> Lowest:
    p = int(model.p)
    moved = np.frombuffer(shift).reshape(p, p)
    mapped, free = _map(model), _all_pairs(model)

    def smallest(x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            f = model.weights_at(*mapped(x, y)) + moved
        bad = ~np.all(np.isfinite(f), axis=(1, 2))
        f[bad] = 0.0
        values = np.linalg.eigvalsh(f)[:, 0]
        values[bad] = np.inf
        return values

    def outputs(x: Array) -> Array:
        return model.student_outputs(mapped(x, np.zeros(len(x)))[0])

    unit, bounded = model.a if model.rule.has_a else 1.0, bool(np.any(moved))
    known = _known(model) if bounded else ()
    return lowest(smallest, p if free else p + model.p_star, model.reach, outputs, unit, bounded, known)


def _known(model: Network) -> list[tuple[Array, float]]:
    """Where the weights themselves are lowest, one student there, or all of them."""
    found = _search(model, np.zeros((int(model.p), int(model.p))))
    one = found.x[int(np.argmax(np.abs(model.student.second(shifted(found.x, model.bias, np), np))))]
    return [(found.x, found.y), (np.full_like(found.x, one), found.y)]


def _search(model: Network, shift: Array) -> Lowest:
    return _searched(model, np.ascontiguousarray(shift, dtype=np.float64).tobytes())


def _extreme(model: Network, shift: Array) -> Extreme:
    found = _search(model, shift)
    lam, y = _map(model)(found.x[None, :], np.array([found.y]))
    alike = _all_pairs(model) and equal_students(model)
    weights = model.weights_at(_orders(lam[0]) if alike else lam, y)
    return Extreme(found.value, weights, _closed(model, lam[0], float(y[0])))


def _orders(lam: Array) -> Array:
    """The place under all permutations of the students, or cyclic ones where there are many; weights are permuted with it."""
    p = len(lam)
    if p > _ALL_ORDERS:
        return np.array([np.roll(lam, shift) for shift in range(p)])
    return np.unique(np.array(list(permutations(lam))), axis=0)


def _closed(model: Network, lam: Array, y: float) -> bool:
    """Whether averages of (Q + F)^-2 exist: the place lies at infinity, or in many dimensions."""
    low, high = model.reach
    if np.any(np.abs(lam) >= _FAR) or abs(y) >= _FAR_OUTPUT:
        return True
    if model.target is not None and (
        y <= low or y >= high
    ):  # an end may be taken on a set of one codimension
        return not model.attains(y) or len(lam) + 1 > _DIVERGES
    if y >= high:
        return True
    if y <= low:
        return not model.attains(y) or len(lam) + model.p_star > _DIVERGES
    return len(lam) + 1 > _DIVERGES
