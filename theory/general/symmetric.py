"""Index tables for symmetric p x p matrices: packed rows over many samples, orthonormal coordinates,
operators on them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


class Symmetric:
    """Tables for one size p; take them from `symmetric(p)`, which keeps them."""

    def __init__(self, p: int):
        self.size = p
        self.rows, self.cols = np.triu_indices(p)
        d = len(self.rows)
        self.position = np.zeros((p, p), dtype=np.intp)
        self.position[self.rows, self.cols] = self.position[self.cols, self.rows] = np.arange(d)
        self.diagonal = self.position[np.arange(p), np.arange(p)]
        self.scale = np.where(self.rows == self.cols, 1.0, np.sqrt(2.0))
        self.basis = np.zeros((d, p, p))
        half = np.where(self.rows == self.cols, 1.0, np.sqrt(0.5))
        self.basis[np.arange(d), self.rows, self.cols] = half
        self.basis[np.arange(d), self.cols, self.rows] = half
        self.flat = self.basis.reshape(d, p * p)
        self.unit = self.coordinates(np.eye(p))
        i, j, k, m = np.indices((p, p, p, p)).reshape(4, -1)
        self.left = self.position[i, k].reshape(p * p, p * p)
        self.right = self.position[m, j].reshape(p * p, p * p)

    def coordinates(self, matrix: Array) -> Array:
        """Coordinates (D,) of a symmetric matrix in an orthonormal basis of the Frobenius product."""
        return matrix[self.rows, self.cols] * self.scale

    def matrix(self, x: Array) -> Array:
        """The symmetric matrix with coordinates x (D,)."""
        return (x @ self.flat).reshape(self.size, self.size)

    def unpack(self, packed: Array) -> Array:
        """(p, p) of packed upper-triangle entries (D,)."""
        return packed[self.position]

    def congruence(self, s: Array) -> Array:
        """The (D, D) matrix that takes packed R to packed s R s, for symmetric s."""
        r, c = self.rows, self.cols
        first = s[r[:, None], r[None, :]] * s[c[:, None], c[None, :]]
        second = s[r[:, None], c[None, :]] * s[c[:, None], r[None, :]]
        return np.where(r == c, first, first + second)

    def operator(self, gram: Array) -> Array:
        """Coordinates (D, D) of X -> sum c B X B from the Gram matrix of packed B."""
        return self.flat @ gram[self.left, self.right] @ self.flat.T

    def triple(self, gram: Array, middle: Array) -> Array:
        """sum c B E C, (p, p), from the Gram matrix of packed B against packed C."""
        p = self.size
        return (gram[self.left, self.right] @ middle.ravel()).reshape(p, p)

    def invert(self, packed: Array) -> Array | None:
        """Packed inverses of packed symmetric matrices (D, m); None unless all are positive definite.

        Complex ones must have a definite imaginary part, so that no pivot vanishes. An unrolled Cholesky factorisation
        over the p index with the m axis vectorised: at p <= 8 several times faster than LAPACK called m times.
        """
        p, at, complex_ = self.size, self.position, np.iscomplexobj(packed)
        if p == 1:
            return 1.0 / packed if complex_ or packed.min() > 0 else None
        if p == 2:
            det = packed[0] * packed[2] - packed[1] ** 2
            if not complex_ and (det.min() <= 0 or packed[0].min() <= 0):
                return None
            return np.stack([packed[2], -packed[1], packed[0]]) / det
        lower: dict[tuple[int, int], Any] = {}
        for j in range(p):
            pivot = packed[at[j, j]] - sum(lower[j, k] ** 2 for k in range(j))
            if not complex_ and pivot.min() <= 0:
                return None
            lower[j, j] = 1.0 / np.sqrt(pivot)
            for i in range(j + 1, p):
                lower[i, j] = (packed[at[i, j]] - sum(lower[i, k] * lower[j, k] for k in range(j))) * lower[
                    j, j
                ]
        return self._inverse_of_factor(lower, packed)

    def _inverse_of_factor(self, lower: dict[tuple[int, int], Any], packed: Array) -> Array:
        """Packed (L L^T)^{-1}; `lower[j, j]` holds reciprocals of the diagonal."""
        p, at, out = self.size, self.position, np.empty_like(packed)
        inverse: dict[tuple[int, int], Any] = {}
        for j in range(p):
            inverse[j, j] = lower[j, j]
            for i in range(j + 1, p):
                inverse[i, j] = -lower[i, i] * sum(lower[i, k] * inverse[k, j] for k in range(j, i))
        for i in range(p):
            for j in range(i, p):
                out[at[i, j]] = sum(inverse[k, i] * inverse[k, j] for k in range(j, p))
        return out


@lru_cache(maxsize=32)
def symmetric(p: int) -> Symmetric:
    """The tables for symmetric p x p matrices; read-only, shared between callers.

    >>> symmetric(2).coordinates(np.eye(2)).tolist()
    [1.0, 0.0, 1.0]
    """
    return Symmetric(p)
