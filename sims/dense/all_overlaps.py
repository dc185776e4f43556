"""Squared overlaps of all eigenvectors of a tridiagonal matrix with a few directions, in O(n^2).

For an eigenvalue x of T (diagonal d, off-diagonal e) the pivots of T - x from the bottom are

    P_n = d_n - x,   P_j = d_j - x - e_j^2 / P_{j+1}

and the eigenvector is v_1 = 1, v_{j+1} = -(e_j / P_{j+1}) v_j. Its product A with a direction s and its squared norm B
are sums that the sweep carries along, relative to the entry last reached:

    A_j = s_j - (e_j / P_{j+1}) A_{j+1}      B_j = 1 + (e_j / P_{j+1})^2 B_{j+1}      overlap = A_1^2 / B_1

This solves (T - x) v = P_1 e_1, one step of inverse iteration from e_1. With x off by a rounding error delta, v is off by
about delta sqrt(n / w) over the spread of the spectrum, w being the squared first entry of the eigenvector. After a
Householder reduction e_1 is the first coordinate, on which the eigenvectors of a Hessian are spread like random ones (w
near 1 / n). Where they are not, overlaps fail to add up to the number of directions; `spectrum_overlaps` checks it, and
then takes LAPACK's vectors.

All eigenvalues run side by side: O(n^2) for all, a small part of the time that finding the eigenvalues takes (sterf),
where LAPACK's stemr, which forms the n vectors, takes about as long as the reduction to tridiagonal form.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal, get_lapack_funcs

from sims.instance import padded
from sims.pinned import pinned

SMALL = 48  # up to this order the vectors are formed
TOGETHER = 8  # directions in one sweep
_SUM = 1e-9  # error of the sum of overlaps allowed, a share of it
_TINY = 1e-100  # least pivot: its inverse, squared, is still finite
_APART = 1e-11  # relative gap below which a vector of its own cannot be told


@pinned
def spectrum_overlaps(d: NDArray, e: NDArray, directions: NDArray, width: float) -> tuple[NDArray, NDArray]:
    """All eigenvalues (n,) of T and the squared overlaps (n,) of their vectors with directions (n, r).

    width: eigenvalues nearer than this form one degenerate space, whose members are all given its mean overlap. Falls back
    on LAPACK's vectors where the overlaps do not add up. Raises LinAlgError if that fails.
    """
    s = np.asarray(directions, dtype=np.float64)
    values = all_values(d, e)
    if len(d) > SMALL and np.all(e):  # where T splits exactly, a sweep from one end sees one part only
        overlaps = _resolved(values, _swept(d, e, s, values), s, width)
        if overlaps is not None:
            return values, overlaps
    values, vectors = eigh_tridiagonal(d, e)
    raw = np.sum((vectors.T @ s) ** 2, axis=1)
    return values, group_means(raw, *groups(values, width))


def all_values(d: NDArray, e: NDArray) -> NDArray:
    """All eigenvalues (n,) of T, ascending. Raises LinAlgError where the iteration fails."""
    (sterf,) = get_lapack_funcs(("sterf",), (d,))
    values, info = sterf(d, e) if len(d) > 1 else (d.copy(), 0)
    if info:
        raise np.linalg.LinAlgError(f"sterf returned {info}")
    return values


def lowest_vectors(d: NDArray, e: NDArray, values: NDArray) -> NDArray:
    """Vectors (n, k) of T for its k lowest eigenvalues (k,), by inverse iteration. Raises LinAlgError where it fails."""
    n = len(d)
    if n == 1:
        return np.ones((1, 1))
    (stein,) = get_lapack_funcs(("stein",), (d,))
    # T as one block: neighbours that a tiny off-diagonal joins are told apart by orthogonalisation
    vectors, info = stein(d, e, values, np.ones(n, np.int32), np.full(n, n, np.int32))
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
    total = np.sum(s**2)
    starts, lengths = groups(values, width)
    means = group_means(raw, starts, lengths)
    if abs(np.sum(means) - total) < _SUM * total:
        return means
    largest = int(np.argmax(lengths))
    if lengths[largest] == 1:
        return None
    inside = np.repeat(np.arange(len(starts)) == largest, lengths)
    means[inside] = (total - np.sum(means[~inside])) / lengths[largest]
    return np.maximum(means, 0) if _apart(values[~inside]) and np.min(means) > -_SUM else None


def _apart(values: NDArray) -> bool:
    """Whether every one of the ascending values has a vector that can be told from its neighbours'."""
    return len(values) < 2 or bool(np.min(np.diff(values)) > _APART * np.max(np.abs(values)))


def _swept(d: NDArray, e: NDArray, s: NDArray, values: NDArray) -> NDArray:
    n = len(values)
    order = padded(n)
    # rows that stand apart (e = 0) and far off (d) change nothing, and let few lengths be compiled
    far = 4 * np.max(np.abs(values)) + 1
    d, e = _longer(d, order, far), _longer(e, order - 1, 0.0)
    # directions beyond a few go in groups, filled up with zeros: the compiled step grows with their number
    group = min(s.shape[1], TOGETHER)
    s = np.pad(s, ((0, order - n), (0, -s.shape[1] % group)))
    x = _longer(values, order, values[-1])
    parts = [np.asarray(_sweep(d, e, s[:, i : i + group], x)) for i in range(0, s.shape[1], group)]
    return np.sum(parts, axis=0)[:n]


def _longer(array: NDArray, length: int, value: float) -> NDArray:
    return np.append(array, np.full(length - len(array), value))


@jax.jit
def _sweep(d: jax.Array, e: jax.Array, s: jax.Array, x: jax.Array) -> jax.Array:
    """Squared overlaps of the eigenvectors at x (c,) with directions s (n, r): see the top of the module."""
    zero = jnp.zeros_like(x)

    def advance(carry: tuple, row: tuple) -> tuple:
        pivot, products, square = carry
        d_j, e_j, s_j = row
        ratio = e_j / pivot
        pivot = d_j - x - e_j * ratio
        pivot = jnp.where(jnp.abs(pivot) < _TINY, _TINY, pivot)
        products = tuple(s_j[i] - ratio * product for i, product in enumerate(products))
        return (pivot, products, 1 + ratio**2 * square), None

    start = (jnp.ones_like(x), (zero,) * s.shape[1], zero)
    rows = (d, jnp.append(e, 0.0), s)
    (_, products, square), _ = jax.lax.scan(advance, start, rows, reverse=True, unroll=8)
    return sum((product**2 for product in products), start=zero) / square
