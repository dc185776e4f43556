"""The projected matrix T of a Krylov space: its norm, and its lowest pairs without diagonalising it.

T is block tridiagonal to rounding; after a restart the Ritz vectors kept stand first, as a diagonal that couples to the
one block that follows. Shift and invert on that pattern (SciPy's `eigsh` with a sparse factorisation) takes a sixth of
the time of `eigh` for a few lowest pairs at order 1,300. It serves to tell whether a search has converged: single vectors
may miss a copy of a degenerate pair, so what is returned in the end comes from `eigh`.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from scipy.linalg.blas import dsymv
from scipy.sparse import csc_array, diags_array
from scipy.sparse.linalg import ArpackError, eigsh, norm


def spectral_norm(matrix: NDArray | csc_array, steps: int = 12) -> float:
    """A lower bound on |T|, good to a few per cent: power steps."""
    if isinstance(matrix, np.ndarray):  # by SciPy's BLAS, whose threads `eigh` uses next
        product, vector = (
            functools.partial(dsymv, 1.0, np.asfortranarray(matrix)),
            np.linalg.norm(matrix, axis=0),
        )
    else:
        product, vector = matrix.__matmul__, norm(matrix, axis=0)
    for _ in range(steps):
        vector = product(vector / (np.linalg.norm(vector) or 1.0))
    return float(np.linalg.norm(vector))


def times(projected: NDArray, block: int, kept: int, columns: NDArray) -> NDArray:
    """T (d, d) times columns (d, b), on the pattern of T; d and kept are multiples of the block."""
    down, right = projected.strides
    number, strides = len(projected) // block, (block * (down + right), down, right)
    middle = as_strided(projected, (number, block, block), strides, writeable=False)
    parts = columns.reshape(number, block, -1)
    result = middle @ parts
    if number > 1:
        below = as_strided(projected[block:], (number - 1, block, block), strides, writeable=False)
        result[1:] += below @ parts[:-1]
        result[:-1] += below.transpose(0, 2, 1) @ parts[1:]
    result = result.reshape(columns.shape)
    if block < kept < len(projected):  # the part of the coupling that lies outside the band
        coupling = projected[kept : kept + block, : kept - block]
        result[kept : kept + block] += coupling @ columns[: kept - block]
        result[: kept - block] += coupling.T @ columns[kept : kept + block]
    return result


def sparse(projected: NDArray, block: int, kept: int) -> csc_array:
    """T (d, d) on its pattern: block tridiagonal, and the first `kept` rows coupled to the block after them."""
    d = len(projected)
    band = {offset: np.diagonal(projected, -offset) for offset in range(min(2 * block, d))}
    offsets = [*band, *(-offset for offset in band if offset)]
    matrix = diags_array([band[abs(offset)] for offset in offsets], offsets=offsets, shape=(d, d)).tolil()
    following = slice(kept, min(kept + block, d))
    matrix[following, :kept] = projected[following, :kept]
    matrix[:kept, following] = projected[:kept, following]
    return matrix.tocsc()


def lowest(matrix: csc_array, k: int, shift: float) -> tuple[NDArray, NDArray] | None:
    """The k eigenvalues (k,) nearest to `shift`, ascending, and vectors (d, k); None where the factorisation or ARPACK fails.

    A shift below the spectrum gives the lowest. Copies of a degenerate eigenvalue may be missed.
    """
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    try:
        values, vectors = eigsh(matrix, k=k, sigma=shift, which="LM", v0=start)
    except (ArpackError, RuntimeError, ValueError):
        return None
    order = np.argsort(values)
    return values[order], vectors[:, order]
