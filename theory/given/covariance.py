"""The covariance of inputs from their rows: its population spectrum, the directions that hold much of it, scales of rows.

Covariance. Of S = Z'Z/M0 the eigenvalues are spread more than those of Sigma, by the noise of M0 rows. With b = the mean square
error of S over N and d = the mean square distance of its eigenvalues from their mean (Ledoit and Wolf, J. Multivariate Anal. 88
(2004) 365, who estimate both), Sigma's own eigenvalues have the variance d - b. Hence

    s = 1 + sqrt(1 - b/d) (s_S - 1),

whose second moment is right. Ledoit and Wolf's s, without the root, is what makes the MATRIX closest to Sigma in its wrong
eigenvectors. Its spectrum is too narrow, and here the spectrum counts (docs/inputs.md has the measurement).

Scales. Rows are x = sqrt(tau) Sigma^(1/2) xi, xi normal. From the leverage h = x' (S + ridge)^(-1) x / M0 of a row that S has
in it, that of the row left out is h/(1 - h) (Sherman and Morrison). Over its mean this is tau times (1 + noise). Gaussian rows
have the noise too: its variance is v = 2 sum w^2/(sum w)^2, w = s/(s + ridge). Scales are the power of it whose exponent leaves
the variance of tau alone, 0 for Gaussian rows. Directions that are taken apart are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.checks import ParameterError
from theory.model.inputs import Inputs

Array = NDArray[Any]

_NULL = 1e-10  # eigenvalues below this part of the largest are 0
_SHARE, _TIMES = (
    0.04,
    3,
)  # of all variance in one direction, and times the mean one, above which it is taken apart
_OWN = 2048  # rows by which the mean of tau is told
_APART = 8  # one in so many directions at most


@dataclass(frozen=True)
class Population:
    """Covariance of inputs, from `count` rows.

    s (r,), vectors (N, r)   eigenvalues above 0, largest first, spread as Sigma's, and eigenvectors
    raw (r,)                 those of the rows themselves
    own (o, r)               some of the rows in the eigenbasis, by which scales of mean 1 are told
    """

    n: int
    count: int
    s: Array
    raw: Array
    vectors: Array
    own: Array

    @property
    def apart(self) -> int:
        """How many of the first directions have so much of the variance that no sum over directions averages them: they are
        taken apart, and projections of the rows on them are taken as they are."""
        most = len(self.s) // _APART
        return min(int(np.sum(self.raw > max(_SHARE * self.raw.sum(), _TIMES * self.raw.mean()))), most)

    def coordinates(self, rows: Array) -> Array:
        """Rows (m, N) in the eigenbasis, (m, r)."""
        return rows @ self.vectors

    def scales(self, coordinates: Array, ridge: float) -> Array:
        """tau (m,) of rows that the covariance has in it, from their coordinates (m, r); mean 1 over `own`."""
        k = self.apart
        weight = 1 / (self.raw[k:] + ridge) / self.count

        def left_out(points: Array) -> Array:
            # A row is part of S: h / (1 - h) is its leverage in the others (Sherman and Morrison).
            h = points[:, k:] ** 2 @ weight
            return h / np.maximum(1 - h, 1 / self.count)

        own = left_out(self.own)
        # Relative variance that Gaussian rows have: w = s / (s + ridge), 2 sum w^2 / (sum w)^2.
        noise = 2 * float(np.sum((self.raw[k:] * weight) ** 2)) / float(np.sum(self.raw[k:] * weight)) ** 2
        seen = float(np.var(own / own.mean()))
        # Var(tau (1 + noise)) = seen: the exponent leaves the variance of tau alone, 0 where that is all noise.
        power = math.sqrt(max(0.0, seen - noise) / (1 + noise) / seen) if seen > 0 else 0.0
        scale = float(np.mean(np.maximum(own, 1e-300) ** power))
        return np.maximum(np.maximum(left_out(coordinates), 1e-300) ** power / scale, 1e-12)


@lru_cache(maxsize=8)
def population(rows: Inputs, half: int | None = None) -> Population:
    """Covariance of the inputs from their rows, its spectrum corrected for the noise of few rows.

    Parameters
    ----------
    rows : Inputs
    half : int or None
        0 or 1: from every other of the rows, by which the error of the covariance is told; None: from all.

    Returns
    -------
    Population

    Raises
    ------
    ParameterError
        Where fewer than four directions vary.
    """
    n, index = rows.n, rows.typical if half is None else rows.typical[half::2]
    count = len(index)
    s_matrix, fourth = np.zeros((n, n)), 0.0
    for block in rows.blocks(index):
        s_matrix += block.T @ block / count
        fourth += float(np.sum(np.sum(block**2, axis=1) ** 2)) / count
    raw, vectors = np.linalg.eigh(s_matrix)
    raw, vectors = np.maximum(raw[::-1], 0), vectors[:, ::-1]
    rank = int(np.sum(raw > _NULL * raw[0]))
    if rank < 4:
        raise ParameterError(f"{rows.name} must vary in at least 4 directions, got {rank} of {n}")
    # directions that no row has are left out; all those that too few rows leave open are not
    size = rank if rank < min(count - 1, n) else n
    raw, vectors = raw[:size], np.ascontiguousarray(vectors[:, :size])
    mean = raw.mean()
    spread = float(np.mean((raw - mean) ** 2))
    # Ledoit and Wolf: mean square error of S over N, from the scatter of single rows about it
    noise = max(0.0, (fourth - float(raw @ raw)) / count / size)
    # sqrt(1 - b/d): the second moment of the spectrum is right (see the top)
    part = math.sqrt(max(0.0, 1 - noise / spread)) if spread > 0 else 0.0
    own = rows.take(index[np.arange(min(count, _OWN)) * count // min(count, _OWN)]) @ vectors
    return Population(n, count, mean + part * (raw - mean), raw, vectors, own)


@lru_cache(maxsize=8)
def heaviest(rows: Inputs) -> NDArray[np.int64]:
    """Numbers of the rows that stand for all, the heaviest first: by x' (S + its mean eigenvalue)^(-1) x."""
    found, index = population(rows), rows.typical
    weight = 1 / (found.raw + found.raw.mean())
    heavy = np.concatenate([found.coordinates(block) ** 2 @ weight for block in rows.blocks(index)])
    return np.asarray(index[np.argsort(-heavy, kind="stable")])
