"""Levels next to the edge of a random spectrum: those of a GOE, in the variable that counts them.

Local statistics of eigenvalues depend on the symmetry class alone. A level of any bulk is placed by the variable y in
which the mean number of levels below is (2 / 3 pi) y^{3/2}, as in the Airy process: at a square-root edge y is linear
in the energy, elsewhere the map is that of equal counts."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

Array = NDArray[np.float64]

ORDER = 400  # of the GOE: its 24 lowest levels differ from the Airy process by far less than they fluctuate
_SEEN = (
    24,
    250,
)  # so many levels see so many rows: beyond row 172 their vectors die out as Airy functions, to 1e-13 here
_SEED = 20260
_BATCH = 64


def airy_levels(draws: int, keep: int) -> Array:
    """The `keep` lowest levels (draws, keep) of independent GOE matrices in the variable y, ascending; always the same draws.

    >>> airy_levels(3, 2).shape
    (3, 2)
    """
    batches = [_batch(number, keep) for number in range(-(-draws // _BATCH))]
    return np.concatenate(batches)[:draws]


@lru_cache(maxsize=64)
def _batch(number: int, keep: int) -> Array:
    """Tridiagonal form of the GOE (Dumitriu and Edelman, J. Math. Phys. 43 (2002) 5830), spectrum scaled to [-2, 2]."""
    rng = np.random.default_rng([_SEED, number])
    return np.array([_counted(_lowest(rng, keep)) for _ in range(_BATCH)])


def _lowest(rng: np.random.Generator, keep: int) -> Array:
    diagonal = rng.standard_normal(ORDER)
    beside = np.sqrt(rng.chisquare(np.arange(ORDER - 1, 0, -1)) / 2)
    rows = _SEEN[1] if keep <= _SEEN[0] else ORDER
    low = eigh_tridiagonal(diagonal[:rows], beside[: rows - 1], eigvals_only=True, lapack_driver="sterf")[
        :keep
    ]
    return np.asarray(low) / math.sqrt(ORDER / 2)


def _counted(x: Array) -> Array:
    """y of levels x of a semicircle on [-2, 2]; linear beyond its edge."""
    inside = np.clip(x, -2, 2)
    below = 0.5 + inside * np.sqrt(4 - inside**2) / (4 * math.pi) + np.arcsin(inside / 2) / math.pi
    y = (1.5 * math.pi * ORDER * np.maximum(below, 0)) ** (2 / 3)
    return np.where(x > -2, y, ORDER ** (2 / 3) * (x + 2))
