"""A dense matrix reduced to tridiagonal form in place, and columns carried to and from the basis of that form.

Householder reflectors (sytrd) leave the strict upper triangle of the matrix as it is, so that the matrix itself stays at hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sims.backend import lapack


@dataclass(frozen=True)
class Reduced:
    """A matrix reduced to tridiagonal form T, Q' H Q = T.

    matrix  (n, n), on and above its diagonal H, below it reflectors
    d, e    (n,), (n - 1,) of T, in float64 whatever the matrix: all that follows is O(n^2), and loses nothing more
    tau     of the reflectors
    norm    a bound on |T|
    signal  (n, r) directions, or None
    unit    power of two that eigenvalues and residuals are to be given in, T's times this
    """

    matrix: NDArray
    d: NDArray
    e: NDArray
    tau: NDArray
    norm: float
    signal: NDArray | None
    unit: float = 1.0

    @property
    def width(self) -> float:
        """Distance within which eigenvalues of T count as the same."""
        return same(len(self.d), np.finfo(self.matrix.dtype).eps * self.norm)

    @property
    def rotated(self) -> NDArray:
        """The directions in the basis of T."""
        return carried(self.matrix, self.tau, np.asarray(self.signal), "T").astype(np.float64)


def block_of(n: int) -> int:
    """Columns that the reduction of a matrix of order n takes at once.

    LAPACK's own choice is 32. Fewer leave more of the work to rank-two updates, which are fast while the matrix fits a cache:
    0.76 of the time at n = 100, 0.84 at 200, 0.9 at 300 to 600 (one thread of OpenBLAS; `python -m benchmarks.reduction`).

    >>> [block_of(n) for n in (100, 400, 600, 1000)]
    [8, 8, 16, 32]
    """
    return 8 if n <= 450 else 16 if n <= 700 else 32


def tridiagonal(matrix: NDArray, divisor: float, signal: NDArray | None, unit: float = 1.0) -> Reduced:
    """A matrix (n, n) over `divisor`, reduced, with directions (n, r); one that is column-major is destroyed if divisor = 1."""
    if divisor != 1:
        matrix = matrix / matrix.dtype.type(divisor)
    matrix = np.asfortranarray(matrix)
    diagonal = np.diagonal(matrix).copy()
    reduced, d, e, tau = reduce(matrix)
    # sytrd on the lower triangle leaves the strict upper one: with the diagonal put back it is the matrix again
    np.fill_diagonal(reduced, diagonal)
    return Reduced(reduced, d, e, tau, norm_bound(d, e), signal, unit)


def reduce(matrix: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Q' H Q = T in place: reflectors under the subdiagonal; d (n,), e (n - 1,) of T in float64; tau."""
    n, sytrd = len(matrix), lapack("sytrd", matrix.dtype)
    # LAPACK takes its block of columns from the room it is given
    reduced, d, e, tau, _ = sytrd(matrix, lower=1, lwork=n * block_of(n), overwrite_a=1)
    # T in float64 whatever the matrix: all that follows is O(n^2), and loses nothing more
    return reduced, d.astype(np.float64), e.astype(np.float64), tau


def carried(reduced: NDArray, tau: NDArray, columns: NDArray, trans: str) -> NDArray:
    """Q or Q' times columns (n, c). SciPy does not expose ormtr; it is ormqr on all rows but the first."""
    n, c = columns.shape
    if n == 1:
        return columns
    # reflector j starts at entry (j + 1, j): the same memory read from its second entry on, without a copy
    reflectors = reduced.ravel("K")[1 : 1 + n * (n - 1)].reshape((n, n - 1), order="F")
    rotated, _, info = lapack("ormqr", reduced.dtype)("L", trans, reflectors, tau, columns[1:], 64 * c)
    if info:
        raise np.linalg.LinAlgError(f"ormqr returned {info}")
    result = np.empty((n, c), reduced.dtype, order="F")
    result[0], result[1:] = columns[0], rotated
    return result


def same(n: int, rounding: float) -> float:
    """Distance below which two computed eigenvalues of order n may be one, in units of the rounding eps |H|.

    Seen between neighbours of one space, over four kernels of OpenBLAS: 7 roundings here, and 7, 31 and 83 by NumPy's or
    SciPy's whole spectrum at n = 100, 300 and 600. This allows 40, 69 and 98.
    """
    return 4 * math.sqrt(n) * rounding


def norm_bound(d: NDArray, e: NDArray) -> float:
    """Gershgorin bound on |T|."""
    radius, beside = np.abs(d), np.abs(e)
    radius[:-1] += beside
    radius[1:] += beside
    return float(radius.max())
