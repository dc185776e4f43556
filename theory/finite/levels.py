"""Levels next to the edge of a random spectrum: those of a GOE, in the variable that counts them.

Local statistics of eigenvalues depend on the symmetry class alone. A level of any bulk is placed by the variable y in
which the mean number of levels below is (2 / 3 pi) y^{3/2}, as in the Airy process: at a square-root edge y is linear
in the energy, elsewhere the map is that of equal counts."""

from __future__ import annotations

import math
from functools import lru_cache
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dsterf

Array = NDArray[np.float64]

ORDER = 400  # of the GOE: its 24 lowest levels differ from the Airy process by far less than they fluctuate
_SEEN = (
    24,
    220,
)  # so many levels see so many rows: beyond row 172 their vectors die out as Airy functions, to rounding here
_SEED = 20260
_BATCH = 64


def airy_levels(draws: int, keep: int) -> Array:
    """The `keep` lowest levels (draws, keep) of independent GOE matrices in the variable y, ascending; always the same draws.

    >>> airy_levels(3, 2).shape
    (3, 2)
    """
    starts = range(0, draws, _BATCH)
    return np.concatenate(
        [_batch(start // _BATCH, keep).first(min(_BATCH, draws - start)) for start in starts]
    )


class _Batch:
    """Draws from a seed of their own, made as they are asked for, and once for all threads that ask at the same time."""

    def __init__(self, number: int, keep: int):
        self.rng, self.keep = np.random.default_rng([_SEED, number]), keep
        self.made: list[Array] = []
        self.lock = Lock()

    def first(self, draws: int) -> Array:
        """The first so many (draws, keep)."""
        with self.lock:
            while len(self.made) < draws:
                self.made.append(_counted(_lowest(self.rng, self.keep)))
            return np.array(self.made[:draws])


@lru_cache(maxsize=64)
def _batch(number: int, keep: int) -> _Batch:
    return _Batch(number, keep)


def _lowest(rng: np.random.Generator, keep: int) -> Array:
    """Tridiagonal form of the GOE (Dumitriu and Edelman, J. Math. Phys. 43 (2002) 5830), spectrum scaled to [-2, 2]."""
    diagonal = rng.standard_normal(ORDER)
    beside = np.sqrt(rng.chisquare(np.arange(ORDER - 1, 0, -1)) / 2)
    rows = _SEEN[1] if keep <= _SEEN[0] else ORDER
    values, info = dsterf(diagonal[:rows], beside[: rows - 1])
    if info:
        raise np.linalg.LinAlgError(f"sterf returned {info}")
    return np.asarray(values[:keep]) / math.sqrt(ORDER / 2)


def _counted(x: Array) -> Array:
    """y of levels x of a semicircle on [-2, 2]; linear beyond its edge."""
    inside = np.clip(x, -2, 2)
    below = 0.5 + inside * np.sqrt(4 - inside**2) / (4 * math.pi) + np.arcsin(inside / 2) / math.pi
    y = (1.5 * math.pi * ORDER * np.maximum(below, 0)) ** (2 / 3)
    return np.where(x > -2, y, ORDER ** (2 / 3) * (x + 2))
