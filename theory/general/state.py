"""The sums over weights that solvers of the matrix Dyson equation need at one Q (`theory.general.dyson`), and index tables for
symmetric p x p matrices: packed rows over many samples, orthonormal coordinates, operators on them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

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
        # An entry off the diagonal counts twice in the Frobenius product.
        self.scale = np.where(self.rows == self.cols, 1.0, np.sqrt(2.0))
        self.basis = np.zeros((d, p, p))
        # Matrices of Frobenius norm 1.
        half = np.where(self.rows == self.cols, 1.0, np.sqrt(0.5))
        self.basis[np.arange(d), self.rows, self.cols] = half
        self.basis[np.arange(d), self.cols, self.rows] = half
        self.flat = self.basis.reshape(d, p * p)
        self.unit = self.coordinates(np.eye(p))
        # (B X B)_ij = sum_km B_ik B_mj X_km: products of two packed entries, read off their Gram matrix
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
        # R_ab and R_ba are one packed entry.
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
            # Leading minors: both positive for a positive definite matrix.
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


class State:
    """The sums over weights at one admissible Q; everything a solver needs there.

    q, inverse_q, root (p, p)  Q, Q^{-1}, Q^{1/2}
    c (m,)                     coefficients
    packing                    index tables between (p, p) and the D = p (p + 1)/2 entries of a symmetric matrix
    b, weighted (D, m)         B of every weight, packed, and c B
    mean (p, p)                sum c B
    span (D, d)                orthonormal coordinates of the matrices that Q may be; None: all, d = D
    map (d, d)                 L in orthonormal coordinates
    unit (d,)                  I
    """

    def __init__(
        self,
        q: Array,
        eigen: tuple[Array, Array],
        coefficients: Array,
        packing: Symmetric,
        inverse: Array,
        span: Array | None = None,
    ):
        values, vectors = eigen
        self.q, self.span, self.eigen = q, span, eigen
        self.root = (vectors * np.sqrt(values)) @ vectors.T
        self.inverse_q = (vectors / values) @ vectors.T
        self.c, self.packing = coefficients, packing
        # B = I - Q^(1/2) (Q + F)^(-1) Q^(1/2)
        self.b = packing.congruence(self.root) @ inverse
        np.negative(self.b, out=self.b)
        self.b[packing.diagonal] += 1.0
        self.weighted = self.b * self.c
        self.mean = packing.unpack(self.weighted.sum(axis=1))
        # L[X] = sum c B X B as a matrix: one product of (D, m) arrays, in place of m sandwiches
        whole = packing.operator(self.weighted @ self.b.T)
        self.map = whole if span is None else span.T @ whole @ span
        self.unit = self.coordinates(np.eye(len(q)))

    def coordinates(self, matrix: Array) -> Array:
        """Coordinates (d,) of a symmetric matrix, projected on the span."""
        whole = self.packing.coordinates(matrix)
        return whole if self.span is None else self.span.T @ whole

    def matrix(self, x: Array) -> Array:
        """The symmetric matrix with coordinates x (d,)."""
        return self.packing.matrix(x if self.span is None else self.span @ x)

    def residual(self, z: float) -> Array:
        """Q^{-1/2} (kappa - k_z(Q)) Q^{-1/2} as coordinates (d,): for Sigma = I that of Z(Q) - z."""
        return self.coordinates(self.mean - z * self.inverse_q) - self.unit

    def z(self) -> Array:
        """Z(Q) = kappa - Q, (p, p)."""
        mean = self.mean if self.span is None else self.matrix(self.coordinates(self.mean))
        # kappa = Q^(1/2) (sum c B) Q^(1/2)
        return self.root @ mean @ self.root - self.q

    def centre(self) -> float:
        """z from traces: exact where all matrices are multiples of the identity."""
        return float(np.trace(self.z())) / len(self.q)

    def bound(self) -> float:
        """The largest z with kappa - k_z(Q) >= 0: a lower bound of the edge."""
        return float(np.linalg.eigvalsh(self.z())[0])

    def left(self, z: float) -> Array:
        """(d, d): less the derivative of the whitened residual in Q. Positive definite left of the edge."""
        return np.eye(len(self.map)) - self.map

    def z_slope(self, z: float) -> Array:
        """Less the derivative of the whitened residual in z, coordinates (d,)."""
        return self.coordinates(self.inverse_q)

    def top(self, z: float) -> tuple[float, Array]:
        """Spectral radius rho of L and its eigenvector E (d,), signed so that its trace is positive; rho = 1 at the edge."""
        # L is self-adjoint in the Frobenius product: symmetric in orthonormal coordinates.
        values, vectors = np.linalg.eigh(self.map)
        e = vectors[:, -1]
        return float(values[-1]), e if e @ self.unit > 0 else -e

    def gradient(self, e: Array, z: float) -> tuple[Array, float]:
        """Derivative of rho along whitened X, <W, X>, as coordinates (d,), and in z: W = -2 sym sum c (I - B) E B E B, 0."""
        full = self.matrix(e)
        b = self.b[self.packing.position]
        eb = (full @ b.reshape(len(full), -1)).reshape(b.shape)
        ebe = np.einsum("dkm,kdm->dm", b[self.packing.rows], eb[:, self.packing.cols])
        # sum c (I - B) E B E B, by its two terms
        w = full @ self.packing.unpack(ebe @ self.c) - self.packing.triple(self.weighted @ ebe.T, full)
        return self.coordinates(-(w + w.T)), 0.0

    def bordered(self, z: float, row: Array, corner: float, residual: Array, rest: float) -> Array:
        """Newton step (x, dz) of residual = 0 at z with one more equation: <row, x> + corner dz = rest."""
        d = len(row)
        lhs = np.empty((d + 1, d + 1))
        lhs[:d, :d] = -self.left(z)
        lhs[:d, d] = -self.z_slope(z)
        lhs[d, :d], lhs[d, d] = row, corner
        return np.linalg.solve(lhs, np.append(-residual, rest))

    def pull(self, z: float) -> Array | None:
        """z - zeta_z(Q), (p, p), by which Xi - zeta differs from Xi - z: None stands for 0 (`theory.general.correlated`)."""
        return None

    def pull_slope(self, c: Array, z: float) -> tuple[Array | float, float]:
        """Derivatives of <c, z - zeta_z(Q)>, c (p, p): along whitened X as coordinates (d,), and in z."""
        return 0.0, 0.0

    def loaded(self, z: float, x: Array) -> Array:
        """x (..., k, p) on the spike block as it lies on the spike directions: x N^{-1} Q^{-1}."""
        return x

    def moved(self, x: Array) -> Array:
        """Q after a whitened step x (d,)."""
        q = self.q + self.root @ self.matrix(x) @ self.root
        return (q + q.T) / 2


def newton_step(state: State, residual: Array, z: float) -> Array | None:
    """Solve (I - L) x = residual (d,) at z; None where I - L is not positive definite, that is, not left of the edge."""
    try:
        # Cholesky's factorisation is the test rho < 1 as well.
        return cho_solve(cho_factor(state.left(z), lower=True), residual)
    except LinAlgError:
        return None
