"""What the rows of one's own are drawn from: their covariance, and the scale tau of each row.

Covariance. Of S = Z'Z/M0 the eigenvalues are spread more than those of Sigma, by the noise of M0 rows. With b = the mean square
error of S over N and d = the mean square distance of its eigenvalues from their mean (Ledoit and Wolf, J. Multivariate Anal. 88
(2004) 365, who estimate both), Sigma's own eigenvalues have the variance d - b. Hence

    s = 1 + sqrt(1 - b/d) (s_S - 1),

whose second moment is right. Ledoit and Wolf's s, without the root, is what makes the MATRIX closest to Sigma in its wrong
eigenvectors: its spectrum is too narrow, and here the spectrum counts (docs/inputs.md has the measurement).

Scales. x = sqrt(tau) Sigma^(1/2) xi: with leverages h = x' (S + ridge)^(-1) x / M0 of rows that S has in it, h/(1 - h) is
that of a row left out (Sherman and Morrison), which over its mean is tau times (1 + noise), the noise of variance v = 2 sum
w^2/(sum w)^2, w = s/(s + ridge), that Gaussian rows have too. Scales are its power of an exponent that leaves the variance
of tau alone, 0 for Gaussian rows. The ridge belongs to the question: in the Hessian a row meets (kappa Sigma - z)^(-1), so
ridge = -z/kappa at the edge (`theory.given.labels`). Directions that are held apart are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from theory.checks import ParameterError
from theory.model.inputs import Inputs

Array = NDArray[np.float64]

_NULL = 1e-10  # eigenvalues below this part of the largest are 0
_SHARE, _TIMES = (
    0.04,
    3,
)  # of the whole variance in one direction, and times the mean one, above which it is held apart
_OWN = 2048  # rows kept
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
        """How many of the first directions hold so much of the variance that no sum over directions averages them: they are
        held apart, and projections of the rows on them are taken as they are."""
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
            h = points[:, k:] ** 2 @ weight
            return h / np.maximum(1 - h, 1 / self.count)

        own = left_out(self.own)
        noise = 2 * float(np.sum((self.raw[k:] * weight) ** 2)) / float(np.sum(self.raw[k:] * weight)) ** 2
        seen = float(np.var(own / own.mean()))
        power = math.sqrt(max(0.0, seen - noise) / (1 + noise) / seen) if seen > 0 else 0.0
        scale = float(np.mean(np.maximum(own, 1e-300) ** power))
        return np.maximum(np.maximum(left_out(coordinates), 1e-300) ** power / scale, 1e-12)


@lru_cache(maxsize=8)
def population(rows: Inputs, half: int | None = None) -> Population:
    """The population of inputs; half 0 or 1: from every other of their rows. ParameterError where fewer than four directions
    vary."""
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
    noise = max(0.0, (fourth - float(raw @ raw)) / count / size)
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
