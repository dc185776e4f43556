"""Squared overlaps of all eigenvectors of a tridiagonal matrix with a few directions, in O(n^2).

Twisted factorisation (Fernando; Parlett and Dhillon), in a form derived here. For an eigenvalue x of T
(diagonal d, off-diagonal e) the pivots of T - x from the top and from the bottom are

    P_1 = d_1 - x,  P_{j+1} = d_{j+1} - x - e_j^2 / P_j        Q_n = d_n - x,  Q_j = d_j - x - e_j^2 / Q_{j+1}

and the eigenvector is best determined from the index r at which |P_r + Q_r - (d_r - x)| is least: v_r =
1, then v_j = -(e_j / P_j) v_{j+1} above it and v_{j+1} = -(e_j / Q_{j+1}) v_j below. Its product A with a
direction s and its squared norm B are sums that the two sweeps can carry along, relative to the entry
last reached:

    A_{j+1} = s_{j+1} - (e_j / P_j) A_j      B_{j+1} = 1 + (e_j / P_j)^2 B_j      and likewise from the
    bottom.

All eigenvalues run side by side: O(n^2) for all. LAPACK's stemr, which forms the n vectors, takes about as long as the
reduction to tridiagonal form does, and several times as long as this. Overlaps add up to the number of directions;
`spectrum_overlaps` checks it.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from sims.instance import padded

WIDEST = 512  # eigenvalues side by side at most
_CACHE = 2**21  # numbers that one sweep may keep, so as to stay within the cache
SMALL = 128  # up to this order the vectors are formed
_SUM = 1e-9  # error of the sum of overlaps allowed, a share of it
_APART = 1e-11  # relative gap below which a vector of its own cannot be told


def spectrum_overlaps(d: NDArray, e: NDArray, directions: NDArray, width: float) -> tuple[NDArray, NDArray]:
    """All eigenvalues (n,) of T and the squared overlaps (n,) of their vectors with directions (n, r).

    width: eigenvalues nearer than 4 width form one degenerate space, whose members are all given its mean
    overlap. Falls back on LAPACK's vectors where the overlaps do not add up. Raises LinAlgError if that
    fails.
    """
    s = np.asarray(directions, dtype=np.float64)
    if len(d) > SMALL:
        values = eigh_tridiagonal(d, e, eigvals_only=True, lapack_driver="stev")
        raw = _in_chunks(d, e, s, values)
        overlaps = _resolved(values, raw, s, 4 * width)
        if overlaps is not None:
            return values, overlaps
    values, vectors = eigh_tridiagonal(d, e)
    raw = np.sum((vectors.T @ s) ** 2, axis=1)
    return values, group_means(raw, *groups(values, 4 * width))


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


def _in_chunks(d: NDArray, e: NDArray, s: NDArray, values: NDArray) -> NDArray:
    n = len(values)
    order, size = padded(n), chunk(n, s.shape[1])
    # rows that stand apart (e = 0) and far off (d) change nothing, and let few lengths be compiled
    far = 4 * np.max(np.abs(values)) + 1
    d, e = _longer(d, order, far), _longer(e, order - 1, 0.0)
    s = np.concatenate([s, np.zeros((order - n, s.shape[1]))])
    results: list[jax.Array] = []
    for x in _longer(values, -(-n // size) * size, values[-1]).reshape(-1, size):
        results.append(_twisted(d, e, s, x))
        jax.block_until_ready(results[:-1])  # two at work at once, no more
    return np.concatenate([np.asarray(result) for result in results])[:n]


def chunk(n: int, r: int) -> int:
    """Eigenvalues of a matrix of order n taken side by side with r directions: a power of two, 64 to 512."""
    return max(64, min(WIDEST, 1 << (_CACHE // (padded(n) * (2 + r))).bit_length() - 1))


def _longer(array: NDArray, length: int, value: float) -> NDArray:
    return np.append(array, np.full(length - len(array), value))


@functools.partial(jax.jit, static_argnames="unroll")
def _twisted(d: jax.Array, e: jax.Array, s: jax.Array, x: jax.Array, unroll: int = 1) -> jax.Array:
    """Squared overlaps of the eigenvectors at x (c,) with directions s (n, r): see the top of the module."""
    tiny = jnp.sqrt(jnp.finfo(x.dtype).tiny)
    zero, many = jnp.zeros_like(x), jnp.zeros((s.shape[1], len(x)))

    def advance(carry: tuple, row: tuple) -> tuple:
        pivot, product, square = carry
        d_j, e_j, s_j = row
        ratio = e_j / pivot
        pivot = d_j - x - e_j * ratio
        pivot = jnp.where(jnp.abs(pivot) < tiny, tiny, pivot)
        return pivot, s_j[:, None] - ratio * product, 1 + ratio**2 * square

    def down(carry: tuple, row: tuple) -> tuple:
        carry = advance(carry, row)
        return carry, carry

    def up(carry: tuple, rows: tuple) -> tuple:
        below, (least, product, square) = carry
        row, above = rows
        below = advance(below, row)
        mismatch = jnp.abs(above[0] + below[0] - (row[0] - x))
        better = mismatch < least
        # the entry at the twist itself is in both sums
        product = jnp.where(better, above[1] + below[1] - row[2][:, None], product)
        square = jnp.where(better, above[2] + below[2] - 1, square)
        return (below, (jnp.where(better, mismatch, least), product, square)), None

    start = (jnp.ones_like(x), many, zero)
    above: tuple
    _, above = jax.lax.scan(down, start, (d, jnp.append(0.0, e), s), unroll=unroll)
    best = (jnp.full_like(x, jnp.inf), many, jnp.ones_like(x))
    rows = ((d, jnp.append(e, 0.0), s), above)
    (_, (_, product, square)), _ = jax.lax.scan(up, (start, best), rows, reverse=True, unroll=unroll)
    return jnp.sum(product**2, axis=0) / square
