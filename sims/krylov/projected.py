"""The projected matrix T of a Krylov space: its norm, and its lowest pairs without diagonalising it.

T is block tridiagonal to rounding; after a restart the Ritz vectors kept stand first, as a diagonal D that couples by C to the
one block that follows. With D eliminated the rest stays a band of the same width,

    T - x = [ D - x   C' ]        S = B - x - C (D - x)^-1 C' in its first block
            [ C    B - x ]

so that T - x is positive definite, x below the spectrum, where D - x and S are, and its inverse costs O(d b) a vector by the
banded Cholesky factor of S. A block Krylov space of the inverse holds the lowest pairs after a few steps, where SciPy's `eigh`
reduces the whole of T, O(d^3), and `eigsh`, in single vectors, may miss a copy of a degenerate pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded

STEPS = 24  # of the space of the inverse at most
CLOSE = 0.05  # residuals in T, in units of those in H, that change nothing
LOOK = 3  # steps after which its pairs are looked at
LOWER = 60  # times that a shift is moved down


def spectral_norm(projected: NDArray, block: int, kept: int, steps: int = 12) -> float:
    """A lower bound on |T|, good to a few per cent: power steps on the pattern of T (d, d)."""
    vector = np.linalg.norm(projected, axis=0)[:, None]
    for _ in range(steps):
        vector = times(projected, block, kept, vector / (np.linalg.norm(vector) or 1.0))
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


@dataclass(frozen=True)
class Inverse:
    """(T - x)^-1 of a positive definite T - x: D - x (kept,), C (b, kept), Cholesky factor of S by bands (2 b, d - kept)."""

    diagonal: NDArray
    coupling: NDArray
    factor: NDArray | None

    @classmethod
    def of(cls, projected: NDArray, block: int, kept: int, shift: float) -> Inverse | None:
        """None where T - x is not positive definite."""
        diagonal = np.diagonal(projected)[:kept] - shift
        if not np.all(diagonal > 0):
            return None
        rest = projected[kept:, kept:]
        coupling = projected[kept : kept + block, :kept]
        if not len(rest):
            return cls(diagonal, coupling, None)
        bands = np.zeros((2 * block, len(rest)))
        for i in range(min(len(bands), len(rest))):
            bands[i, : len(rest) - i] = np.diagonal(rest, -i)
        bands[0] -= shift
        row, column = np.tril_indices(len(coupling))
        bands[row - column, column] -= ((coupling / diagonal) @ coupling.T)[row, column]
        try:
            return cls(
                diagonal, coupling, cholesky_banded(bands, overwrite_ab=True, lower=True, check_finite=False)
            )
        except np.linalg.LinAlgError:
            return None

    def __call__(self, columns: NDArray) -> NDArray:
        """(T - x)^-1 times columns (d, b)."""
        kept, b = len(self.diagonal), len(self.coupling)
        above, rest = columns[:kept] / self.diagonal[:, None], columns[kept:].copy()
        if self.factor is not None:
            rest[:b] -= self.coupling @ above
            rest = cho_solve_banded((self.factor, True), rest, overwrite_b=True, check_finite=False)
            above -= (self.coupling.T @ rest[:b]) / self.diagonal[:, None]
        return np.concatenate([above, rest])


def lowest(
    projected: NDArray,
    factor: NDArray,
    kept: int,
    wanted: int,
    guess: tuple[float, float],
    tol: float,
    near: NDArray | None = None,
) -> tuple[NDArray, NDArray] | None:
    """The lowest pairs, one block of them: values (b,) and vectors (d, b) of T (d, d); None where they are not found.

    factor  R (b, b), which couples the last block of T to what follows: the pair (theta, s) of T has the residual R s_last in H
    wanted  of these that have residuals in T below tol, or below CLOSE of those in H
    guess   a number below the spectrum, and how far to go down from it where it is not
    near    vectors (d', b), d' <= d, near those looked for: what was found of a smaller T
    """
    block = len(factor)
    shift, step = guess
    for _ in range(LOWER):
        inverse = Inverse.of(projected, block, kept, shift)
        if inverse is not None:
            break
        shift, step = shift - step, 2 * step
    else:
        return None
    d = len(projected)
    steps = min(STEPS, d // block)
    basis, products = np.empty((d, steps * block), order="F"), np.empty((d, steps * block), order="F")
    columns = np.random.default_rng(0).standard_normal((d, block))
    if near is not None:  # with a little of everything, for copies of what was found are to be found too
        columns *= CLOSE / math.sqrt(d)
        columns[: len(near)] += near
    for i in range(steps):
        known, last = basis[:, : i * block], slice(i * block, (i + 1) * block)
        for _ in range(2):
            columns -= known @ (known.T @ columns)
            columns = np.linalg.qr(columns)[0]
        basis[:, last], products[:, last] = columns, times(projected, block, kept, columns)
        if i % LOOK == LOOK - 1:
            found, applied = basis[:, : last.stop], products[:, : last.stop]
            small = found.T @ applied
            values, mixing = np.linalg.eigh((small + small.T) / 2)
            values, mixing = values[:block], mixing[:, :block]
            vectors = found @ mixing
            here, beyond = applied @ mixing - vectors * values, factor @ vectors[d - block :]
            enough = np.maximum(tol, CLOSE * np.linalg.norm(beyond, axis=0))
            if np.all((np.linalg.norm(here, axis=0) <= enough)[:wanted]):
                return values, vectors
        columns = inverse(columns)
    return None
