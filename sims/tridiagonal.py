"""A dense matrix reduced to tridiagonal form T, and squared overlaps of all eigenvectors of T with a few directions in O(n^2).

Householder reflectors (sytrd) reduce in place and leave the strict upper triangle as it is: the matrix itself stays at hand.

For an eigenvalue x of T (diagonal d, off-diagonal e) the pivots of T - x from the bottom are

    P_n = d_n - x,   P_j = d_j - x - e_j^2 / P_{j+1}

and the eigenvector is v_1 = 1, v_{j+1} = -(e_j / P_{j+1}) v_j. Its product A with a direction s and its squared norm B
are sums that the sweep carries along, relative to the entry last reached:

    A_j = s_j - (e_j / P_{j+1}) A_{j+1}      B_j = 1 + (e_j / P_{j+1})^2 B_{j+1}      overlap = A_1^2 / B_1

This solves (T - x) v = P_1 e_1, one step of inverse iteration from e_1. With x off by a rounding error delta, v is off by
about delta sqrt(n / w) over the spread of the spectrum, w being the squared first entry of the eigenvector. After a
Householder reduction e_1 is the first coordinate, on which the eigenvectors of a Hessian are spread like random ones (w
near 1 / n). Where they are not, overlaps fail to add up to the number of directions; `spectra_overlaps` checks it, and
then takes LAPACK's vectors.

All eigenvalues run side by side: O(n^2) for all, a small part of the time that finding the eigenvalues takes (sterf),
where LAPACK's stemr, which forms the n vectors, takes about as long as the reduction to tridiagonal form. Of small matrices
several share a sweep (`side_by_side`): one alone does not fill it. A sweep always has its full width, so that the numbers of a
matrix do not depend on its company.

An upper bound on the squared overlap of any eigenvector (`overlap_bound`) takes only a few Lanczos steps. For a symmetric T
and a vector s the measure mu = sum over eigenvectors v of (v.s)^2 delta(x - eigenvalue of v) has the total mass |s|^2. m
Lanczos steps from s give a tridiagonal matrix whose eigenvalues x_1 < ... < x_m, and |s|^2 times the squared first entries w_i
of its eigenvectors, are the nodes and weights of the Gauss rule of mu. The inequalities of Chebyshev, Markov and Stieltjes say

    w_1 + ... + w_{i-1}  <=  mu(x < x_i)  <=  mu(x <= x_i)  <=  w_1 + ... + w_i

so that the open interval (x_i, x_{i+1}) holds at most w_i + w_{i+1}, each end beyond the nodes at most w_1 or w_m, and a node
itself at most w_i. With w_0 = w_{m+1} = 0, no eigenvector has

    (v.s)^2  >  max over i of (w_i + w_{i+1})

and for several directions the maxima add up. It holds for every m, also where Lanczos ends early in an invariant subspace:
fewer steps make it larger, not wrong. It falls no faster than about 1 / m, since m weights add up to |s|^2.

Sources: Akhiezer, The Classical Moment Problem, section 2.5; Golub and Meurant, Matrices, Moments and Quadrature with
Applications. The Christoffel function, the largest mass that one point can have, is up to twice as sharp; to bound it
between nodes takes several more rules, whose cost eats up what they gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.linalg.blas import ddot, dgemv, dnrm2

from sims.backend import lapack, pinned
from sims.instance import padded

SMALL = 48  # up to this order the vectors are formed
TOGETHER = 8  # directions in one sweep
LEAST = 8  # orders are filled up to multiples of this, of more the larger they are (`padded`)
_SUM = 1e-9  # error of the sum of overlaps allowed, a share of it
_TINY = 1e-100  # least pivot: its inverse, squared, is still finite
_APART = 1e-11  # relative gap below which a vector of its own cannot be told
STEPS = 64  # Lanczos steps at most
SEPARATE = 1e-8  # gap above the pairs found, a share of |T|, from which on rounding mixes them little with the others
MARGIN = 1e-5  # squared overlap: well above what rounding then does to the bound
_LEFT = 1e-7  # a residual below this share of |T| ends Lanczos: the next vector would be rounding


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
    n, diagonal = len(matrix), np.diagonal(matrix).copy()
    # LAPACK takes its block of columns from the room it is given
    reduced, d, e, tau, _ = lapack("sytrd", matrix.dtype)(
        matrix, lower=1, lwork=n * block_of(n), overwrite_a=1
    )
    # sytrd on the lower triangle leaves the strict upper one: with the diagonal put back it is the matrix again
    np.fill_diagonal(reduced, diagonal)
    d, e = d.astype(np.float64), e.astype(np.float64)
    radius, beside = np.abs(d), np.abs(e)  # Gershgorin
    radius[:-1] += beside
    radius[1:] += beside
    return Reduced(reduced, d, e, tau, float(radius.max()), signal, unit)


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


def side_by_side(n: int) -> int:
    """Matrices of order n that one sweep serves: those of which it takes several to keep it busy.

    >>> side_by_side(100), side_by_side(200), side_by_side(400)
    (8, 4, 2)
    """
    return max(1, min(8, 1024 // padded(n)))


@pinned
def spectra_overlaps(
    problems: Sequence[tuple[NDArray, NDArray, NDArray, float]],
) -> list[tuple[NDArray, NDArray]]:
    """All eigenvalues of T (n,) and the squared overlaps (n,) of their vectors with directions (n, r), of each
    (d, e, directions, width).

    All are of one order and number of directions. Eigenvalues nearer than `width` form one degenerate space, whose members
    are all given its mean overlap. Falls back on LAPACK's vectors where the overlaps do not add up. Raises LinAlgError
    if that fails.
    """
    given = [(d, e, np.asarray(s, dtype=np.float64), all_values(d, e)) for d, e, s, _ in problems]
    # where T splits exactly, a sweep from one end sees one part only
    swept = [i for i, (d, e, _, _) in enumerate(given) if len(d) > SMALL and np.all(e)]
    raw: dict[int, NDArray] = {}
    together = side_by_side(len(given[0][0]))
    for start in range(0, len(swept), together):
        some = swept[start : start + together]
        raw |= zip(some, _swept([given[i] for i in some], together), strict=True)
    found = []
    for i, ((d, e, s, values), (_, _, _, width)) in enumerate(zip(given, problems, strict=True)):
        overlaps = _resolved(values, raw[i], s, width) if i in raw else None
        if overlaps is None:
            values, vectors = eigh_tridiagonal(d, e)
            overlaps = group_means(np.sum((vectors.T @ s) ** 2, axis=1), *groups(values, width))
        found.append((values, overlaps))
    return found


def all_values(d: NDArray, e: NDArray) -> NDArray:
    """All eigenvalues (n,) of T, ascending. Raises LinAlgError where the iteration fails."""
    # Values alone take the QL iteration without square roots, O(n^2).
    values, info = lapack("sterf", d.dtype)(d, e) if len(d) > 1 else (d.copy(), 0)
    if info:
        raise np.linalg.LinAlgError(f"sterf returned {info}")
    return values


def lowest_vectors(d: NDArray, e: NDArray, values: NDArray) -> NDArray:
    """Vectors (n, k) of T for its k lowest eigenvalues (k,), by inverse iteration. Raises LinAlgError where it fails."""
    n = len(d)
    if n == 1:
        return np.ones((1, 1))
    # T as one block: neighbours that a tiny off-diagonal joins are told apart by orthogonalisation
    vectors, info = lapack("stein", d.dtype)(d, e, values, np.ones(n, np.int32), np.full(n, n, np.int32))
    if info:
        raise np.linalg.LinAlgError(f"stein returned {info}")
    return vectors


def groups(values: NDArray, width: float) -> tuple[NDArray, NDArray]:
    """Runs of ascending values whose neighbours are within width: start of each run, and its length."""
    starts = np.flatnonzero(np.append(True, np.diff(values) > width))
    return starts, np.diff(np.append(starts, len(values)))


def group_means(raw: NDArray, starts: NDArray, lengths: NDArray) -> NDArray:
    """raw (n,) with the members of every run replaced by their mean."""
    return np.repeat(np.add.reduceat(raw, starts) / lengths, lengths)


def _resolved(values: NDArray, raw: NDArray, s: NDArray, width: float) -> NDArray | None:
    """Overlaps with means over degenerate spaces; None where `raw` cannot give them or fails the sum rule.

    One space whose vectors cannot be told apart, such as the null space of a matrix of low rank, takes
    what the others leave of the sum.
    """
    total = float(np.vdot(s, s))
    if np.all(values[1:] - values[:-1] > width):
        return raw if abs(raw.sum() - total) < _SUM * total else None
    starts, lengths = groups(values, width)
    means = group_means(raw, starts, lengths)
    if abs(means.sum() - total) < _SUM * total:
        return means
    # The sum rule gives what one space has, not what two have.
    largest = int(np.argmax(lengths))
    inside = np.repeat(np.arange(len(starts)) == largest, lengths)
    means[inside] = (total - np.sum(means[~inside])) / lengths[largest]
    return np.maximum(means, 0) if _apart(values[~inside]) and np.min(means) > -_SUM else None


def _apart(values: NDArray) -> bool:
    """Whether every one of the ascending values has a vector that can be told from its neighbours'."""
    return len(values) < 2 or bool(np.min(np.diff(values)) > _APART * np.max(np.abs(values)))


def _swept(given: list[tuple[NDArray, NDArray, NDArray, NDArray]], together: int) -> NDArray:
    """Squared overlaps (c, n) of the c problems (d, e, s, values), `together` at most; the first again for want of more."""
    n, r = given[0][2].shape
    order = padded(n, LEAST)
    # directions beyond a few go in groups, filled up with zeros: the compiled step grows with their number
    group = min(r, TOGETHER)
    d, e, x = np.zeros((3, together, order))
    s = np.zeros((r + -r % group, together, order))
    for i in range(together):
        d[i, :n], e[i, : n - 1], own, x[i, :n] = given[i if i < len(given) else 0]
        s[:r, i, :n] = own.T
    # rows that stand apart (e = 0) and far off (d) change nothing, and let few lengths be compiled
    d[:, n:], x[:, n:] = 4 * np.maximum(-x[:, :1], x[:, n - 1 : n]) + 1, x[:, n - 1 : n]
    parts = [np.asarray(_sweep(d, e, s[i : i + group], x)) for i in range(0, len(s), group)]
    return (parts[0] if len(parts) == 1 else np.sum(parts, axis=0))[: len(given), :n]


@pinned
@jax.jit
def _sweep(d: jax.Array, e: jax.Array, s: jax.Array, x: jax.Array) -> jax.Array:
    """Squared overlaps (b, n) of the eigenvectors at x (b, n) of b matrices: see the top of the module.

    d, e (b, n)   diagonals and off-diagonals, the last of these 0
    s (r, b, n)   directions
    """
    zero, rows = jnp.zeros_like(x), (d.T[..., None], e.T[..., None], s.transpose(2, 0, 1)[..., None])

    def advance(carry: tuple, row: tuple) -> tuple:
        pivot, products, square = carry
        d_j, e_j, s_j = row
        ratio = e_j / pivot
        pivot = d_j - x - e_j * ratio
        # A pivot is 0 where x is an eigenvalue of the part swept so far: a tiny one stands for it.
        pivot = jnp.where(jnp.abs(pivot) < _TINY, _TINY, pivot)
        products = tuple(s_j[i] - ratio * product for i, product in enumerate(products))
        return (pivot, products, 1 + ratio**2 * square), None

    # The last off-diagonal is 0, so the first pivot, divided by, may be anything but 0.
    start = (jnp.ones_like(x), (zero,) * len(s), zero)
    (_, products, square), _ = jax.lax.scan(advance, start, rows, reverse=True, unroll=8)
    return sum((product**2 for product in products), start=zero) / square


def settled(d: NDArray, e: NDArray, rest: NDArray, largest: float) -> bool:
    """Whether no eigenvector of T among those not found yet has a squared overlap of `largest` or more.

    d (n,), e (n - 1,)  diagonal and off-diagonal of T
    rest (n, r)         the directions less their components along the eigenvectors found, which a gap of at least
                        SEPARATE sets apart from the others
    False says that the bound is not good enough, not that there is such an eigenvector.
    """
    total = float(np.sum(np.square(rest)))
    for steps in (STEPS // 4, STEPS):
        # Of the steps + 1 sums of neighbouring weights, which add up to 2 total, the largest is no smaller than their mean.
        if 2 * total / (steps + 1) >= largest - MARGIN:
            continue
        bound = overlap_bound(d, e, rest, steps)
        if bound < largest - MARGIN:
            return True
        if bound * steps > largest * STEPS:  # out of reach: it falls no faster than 1 / steps
            return False
    return False


def point_mass(weights: NDArray) -> float:
    """The most that one point can have of a measure whose Gauss rule has these weights (m,), nodes ascending."""
    padded = np.concatenate([[0.0], weights, [0.0]])
    return float(np.max(padded[:-1] + padded[1:]))


def overlap_bound(d: NDArray, e: NDArray, directions: NDArray, steps: int) -> float:
    """Upper bound on the squared overlap of any eigenvector of T (d, e) with the span of directions (n, r)."""
    return sum(_largest_mass(d, e, s, steps) for s in np.asarray(directions, np.float64).T)


def _largest_mass(d: NDArray, e: NDArray, s: NDArray, steps: int) -> float:
    total = ddot(s, s)
    if total < MARGIN**2:
        return total
    return total * point_mass(eigh_tridiagonal(*lanczos(d, e, s, steps))[1][0] ** 2)


def lanczos(d: NDArray, e: NDArray, s: NDArray, steps: int) -> tuple[NDArray, NDArray]:
    """Diagonal (m,) and off-diagonal (m - 1,) of the Lanczos matrix of T (d, e) from s, m at most `steps` and n.

    Every vector is made orthogonal to all before it, which SciPy's Lanczos does not offer without its restarts.
    """
    n = len(d)
    # Gershgorin's bound on |T|.
    least = _LEFT * (np.max(np.abs(d)) + 2 * np.max(np.abs(e), initial=0.0))
    basis = np.empty((n, min(steps, n)), order="F")
    alpha: list[float] = []
    beta: list[float] = []
    q = s / dnrm2(s)
    for i in range(basis.shape[1]):
        basis[:, i] = q
        w = d * q
        # T q by its three diagonals.
        w[:-1] += e * q[1:]
        w[1:] += e * q[:-1]
        alpha.append(ddot(w, q))
        w -= alpha[-1] * q
        if i:
            w -= beta[-1] * basis[:, i - 1]
        # the three terms first, then all vectors: one pass is enough
        known = basis[:, : i + 1]
        w = dgemv(-1.0, known, dgemv(1.0, known, w, trans=1), beta=1.0, y=w, overwrite_y=1)
        size = dnrm2(w)
        if size <= least:
            break
        beta.append(size)
        q = w / size
    return np.array(alpha), np.array(beta[: len(alpha) - 1])
