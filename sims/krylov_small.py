"""Lowest eigenpairs of the projected matrix T on the host: what a convergence test needs, and no more.

T grows to order one or two thousand, and a dense solve for a few of its pairs (a reduction to tridiagonal form,
half of it products of a matrix with single vectors) at every test would cost as much as the products with H.
Here: one Cholesky factor of T - sigma, with sigma just below the spectrum, and block inverse iteration from the
vectors of the last test, accelerated by Rayleigh-Ritz on three successive iterates. It stops as soon as
the pairs of T are better than the pairs of H they stand for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

DENSE = 256  # orders up to this are solved whole
GUARD = 8  # columns iterated beyond the pairs wanted

Pairs = tuple[NDArray, NDArray]


def lowest_pairs(matrix: NDArray, k: int, tol: float, guess: NDArray | None = None) -> Pairs:
    """Values (k,) and vectors (d, k) of a symmetric float64 matrix (d, d), residuals at most tol where rounding allows.

    guess  (at most d, at least k) approximate vectors of a leading block of the matrix
    """
    d = len(matrix)
    k = min(k, d)
    if d <= max(DENSE, 4 * (k + GUARD)) or guess is None:
        return eigh(matrix, subset_by_index=[0, k - 1])
    vectors = np.random.default_rng(0).standard_normal((d, k + GUARD)) / d
    vectors[: len(guess), :k] += guess[:, :k]
    values, vectors = _rayleigh_ritz(matrix, vectors, k + GUARD)
    factor = _factor(matrix, values)
    if factor is None:
        return eigh(matrix, subset_by_index=[0, k - 1])
    for _ in range(20):
        once = cho_solve(factor, vectors, check_finite=False)
        once /= np.linalg.norm(once, axis=0)
        twice = cho_solve(factor, once, check_finite=False)
        twice /= np.linalg.norm(twice, axis=0)
        values, vectors = _rayleigh_ritz(matrix, np.concatenate([vectors, once, twice], axis=1), k + GUARD)
        if np.max(np.linalg.norm(matrix @ vectors[:, :k] - vectors[:, :k] * values[:k], axis=0)) <= tol:
            return values[:k], vectors[:, :k]
    return eigh(matrix, subset_by_index=[0, k - 1])


def spectral_norm(matrix: NDArray, steps: int = 12) -> float:
    """A lower bound on |T|, good to a few per cent: power steps."""
    vector = np.linalg.norm(matrix, axis=0)
    for _ in range(steps):
        vector = matrix @ (vector / (np.linalg.norm(vector) or 1.0))
    return float(np.linalg.norm(vector))


def _rayleigh_ritz(matrix: NDArray, vectors: NDArray, k: int) -> Pairs:
    basis = np.linalg.qr(vectors)[0]
    values, mixing = eigh(basis.T @ (matrix @ basis), subset_by_index=[0, k - 1])
    return values, basis @ mixing


def _factor(matrix: NDArray, values: NDArray) -> tuple[NDArray, bool] | None:
    """Cholesky factor of matrix - sigma, sigma below the lowest value by as little as succeeds."""
    step = max(0.3 * (values[-1] - values[0]), 1e-8 * np.max(np.abs(values)))
    for _ in range(40):
        shifted = matrix.copy()
        np.fill_diagonal(shifted, matrix.diagonal() - (values[0] - step))
        try:
            return cho_factor(shifted, overwrite_a=True, check_finite=False)
        except LinAlgError:
            step *= 4
    return None
