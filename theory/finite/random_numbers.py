"""Random numbers of the draws of theory.finite.law: the same at every alpha, and made once for neighbouring calls.

Each kind has a stream of its own, so that draws do not depend on which others are made with them. What a label has by
itself is the head of a stream: m labels of a draw are the first m of a longer array, of a power of 2, which is kept.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_KEPT = 128  # draws of a seed, the first ones
_LARGEST = 2**14  # numbers of a draw that are kept: 17 MB in all of a kind
ARRIVALS, BLOCK, BESIDE, DIRECTIONS = 0, 1, 2, 3


def block_numbers(
    seed: int, number: int, p: int, w: int, levels: int, k: int, dimension: int
) -> tuple[Array, Array, Array]:
    """Normal numbers (w, w, p^2 + 1) and (p, w, levels), and the triangle (k, k): components of k Gaussian vectors of a
    dimension on the orthonormal basis that Gram and Schmidt make of them."""
    made = _kept_block if number < _KEPT else _block
    return made(seed, number, p, w, levels, k, dimension)


def _block(
    seed: int, number: int, p: int, w: int, levels: int, k: int, dimension: int
) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng([seed, number, BLOCK])
    noise, couplings = rng.standard_normal((w, w, p * p + 1)), rng.standard_normal((p, w, levels))
    triangle = np.tril(rng.standard_normal((k, k)), -1)
    triangle[range(k), range(k)] = np.sqrt(rng.chisquare(dimension - np.arange(k)))
    return noise, couplings, triangle


def beside(seed: int, number: int, m: int, k: int) -> Array:
    """Normal numbers (m, k) of labels: their projections on k more directions."""
    return _head(seed, number, BESIDE, m, k)


def directions(seed: int, number: int, m: int, width: int) -> Array:
    """Unit vectors (m, width) of labels."""
    return _head(seed, number, DIRECTIONS, m, width)


def arrivals(seed: int, number: int, m: int) -> Array:
    """Sums (m,) of independent exponential numbers."""
    return _head(seed, number, ARRIVALS, m, 1)


def _head(seed: int, number: int, kind: int, m: int, width: int) -> Array:
    longer = 1 << (m - 1).bit_length()
    if number >= _KEPT or longer * width > _LARGEST:
        return _stream(seed, number, kind, m, width)
    return _kept_stream(seed, number, kind, longer, width)[:m]


def _stream(seed: int, number: int, kind: int, m: int, width: int) -> Array:
    rng = np.random.default_rng([seed, number, kind])
    if kind == ARRIVALS:
        return np.cumsum(rng.standard_exponential(m))
    normal = rng.standard_normal((m, width))
    return normal / np.linalg.norm(normal, axis=1, keepdims=True) if kind == DIRECTIONS else normal


_kept_block, _kept_stream = lru_cache(maxsize=_KEPT)(_block), lru_cache(maxsize=4 * _KEPT)(_stream)
