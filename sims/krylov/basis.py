"""An orthonormal basis that grows by blocks, and the block orthonormalisation it needs.

The basis is kept in chunks of equal shape, filled from the left and zero beyond: every step on a chunk is compiled once,
whatever the dimension reached. On the CPU each chunk is kept row-major and column-major: XLA's product with a thin matrix runs
at full speed only for the operand whose rows are contiguous along the contracted index. On a GPU its rows are filled with zeros
to a width that products need no copy for (`sims.threefry.gemm_width`).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, qr

from sims.backend import HIGHEST, on_device
from sims.rows import across, times, transposed
from sims.threefry import gemm_width

Chunk = tuple[jax.Array, jax.Array | None]


class Basis:
    """Columns (n, dimension), orthonormal, of one dtype, in chunks of `width` columns.

    n      length of the columns
    block  columns that come together; divides the width
    """

    def __init__(self, n: int, block: int, dtype: Any, width: int):
        self.n, self.block, self.dtype = n, block, np.dtype(dtype)
        self.width = width
        self.mirror = jax.default_backend() == "cpu"
        self.dimension = 0
        self._chunks: list[Chunk] = []
        self.recent: tuple[jax.Array, ...] = ()  # the last two blocks, or one; none after `contract`

    def append(self, columns: jax.Array) -> None:
        """Take in a block of orthonormal columns (n, block), orthogonal to the basis."""
        at = self.dimension % self.width
        if at == 0:
            self._chunks.append(_empty(self.n, self.width, str(self.dtype), self.mirror))
        self._chunks[-1] = _write(*self._chunks[-1], columns, at)
        # Two: a Krylov step couples to no more.
        self.recent = (*self.recent[-1:], columns)
        self.dimension += self.block

    def project(self, columns: jax.Array) -> tuple[jax.Array, NDArray[np.float64]]:
        """Columns (n, b) with their part in the basis taken off, chunk after chunk, and its coefficients (dimension, b)."""
        found = []
        for chunk in self._chunks:
            # What the chunks before have left is projected: Gram-Schmidt in its modified form, which loses less to rounding.
            columns, coefficients = _project(*chunk, columns)
            found.append(coefficients)
        return columns, np.concatenate([np.asarray(c, np.float64) for c in found])[: self.dimension]

    def combine(self, mixing: NDArray) -> jax.Array:
        """Columns Q S (n, r) for S (dimension, r)."""
        # Columns of a chunk beyond the dimension are zero: filled up, every part has the shape of a chunk.
        padded = np.zeros((len(self._chunks) * self.width, mixing.shape[1]))
        padded[: self.dimension] = mixing
        parts = padded.reshape(len(self._chunks), self.width, -1).astype(self.dtype)
        total = None
        for chunk, part in zip(self._chunks, parts, strict=True):
            total = _add_combination(total, *chunk, part, self.n)
        assert total is not None  # there is a chunk
        return total

    def contract(self, mixing: NDArray) -> None:
        """Replace the basis by Q S, S (dimension, r) with orthonormal columns and r a multiple of the block."""
        chunks = []
        for start in range(0, mixing.shape[1], self.width):
            part = mixing[:, start : start + self.width]
            # The last chunk gets the shape of the others, for which the steps are compiled.
            part = np.pad(part, ((0, 0), (0, self.width - part.shape[1])))
            chunks.append(self._chunk(self.combine(part)))
        self._chunks, self.dimension, self.recent = chunks, mixing.shape[1], ()

    def _chunk(self, columns: jax.Array) -> Chunk:
        return (transposed(columns), columns) if self.mirror else (_laid(columns), None)


@dataclass(frozen=True)
class Orthonormal:
    """columns = V R up to a floor.

    vectors  V (n, b), orthonormal
    factor   R (b, b)
    fresh    how many columns of V were put in by chance, with rows of zeros in R
    """

    vectors: jax.Array
    factor: NDArray[np.float64]
    fresh: int


def orthonormal(columns: jax.Array, floor: float, rng: np.random.Generator) -> Orthonormal:
    """V (n, b), R (b, b) with columns = V R.

    Cholesky factor of the Gram matrix where that is well conditioned (the caller projects and calls again, which
    makes it good to rounding); else Householder with pivots on the host, in float64, and directions of length below `floor`
    are replaced by random ones, with rows of zeros in R: an invariant space was met, and the search goes on outside it.
    """
    return _by_cholesky(columns, _gram(columns), floor) or _by_householder(columns, floor, rng)


def new_block(
    near: tuple[jax.Array, ...], product: jax.Array, norm: float, floor: float, rng: np.random.Generator
) -> tuple[Orthonormal, NDArray[np.float64]]:
    """What a product (n, b) has outside the orthonormal blocks `near`, orthonormal, and its coefficients in them.

    norm   |H| as far as known; the product counts too
    floor  lengths below floor |H| are rounding
    """
    rest, found, gram = _new_block(near, product)
    coefficients = np.asarray(found, np.float64)
    if not np.all(np.isfinite(coefficients)):  # the caller sees it
        return Orthonormal(rest, np.full(gram.shape, np.nan), 0), coefficients
    # Of the first products |H| is not known yet: what this one shows of it counts.
    floor *= max(norm, float(np.max(np.linalg.norm(coefficients, axis=0))))
    return _by_cholesky(rest, gram, floor) or _by_householder(rest, floor, rng), coefficients


def orthonormal_blocks(columns: jax.Array, block: int, floor: float, rng: np.random.Generator) -> Orthonormal:
    """Blocks side by side (n, s block), nearly orthonormal: V, R with R block upper triangular.

    At once by Cholesky where that is good; else block after block, each against those before it.
    """
    made = _by_cholesky(columns, _gram(columns), floor)
    if made is not None:
        return made
    done: list[jax.Array] = []
    factor, fresh = np.zeros((columns.shape[1], columns.shape[1])), 0
    for i, part in enumerate(apart(columns, block)):
        here = slice(i * block, (i + 1) * block)
        if done:
            for _ in range(2):
                # Twice: the first pass leaves rounding of the whole block, which beside a small rest is not small.
                part, along, _ = _new_block(tuple(done), part)
                factor[: i * block, here] += np.asarray(along)
        made = orthonormal(part, floor, rng)
        factor[here, here], fresh = made.factor, fresh + made.fresh
        done.append(made.vectors)
    return Orthonormal(beside(tuple(done)), factor, fresh)


def _by_cholesky(columns: jax.Array, gram: jax.Array, floor: float) -> Orthonormal | None:
    """V and R from the Gram matrix (b, b) of the columns, factored on the host; None where that is not good."""
    products = np.asarray(gram, np.float64)
    length = np.sqrt(np.diagonal(products))
    # A column near the floor is rounding, which a Cholesky factor would scale up to a unit vector.
    if not (np.all(np.isfinite(products)) and np.all(length > 10 * floor)):
        return None
    try:
        # Of unit columns: lengths far apart are no ill conditioning.
        upper = cholesky(products / (length[:, None] * length))
    except np.linalg.LinAlgError:
        return None
    # the relative error of V'V is eps over the square of the smallest pivot
    if np.min(np.diagonal(upper)) <= 100 * np.sqrt(np.finfo(columns.dtype).eps):
        return None
    # NumPy's, for SciPy's triangular solve wakes the threads of its BLAS for a matrix this small
    inverse = np.linalg.inv(upper) / length[:, None]
    return Orthonormal(_mixed(columns, inverse.astype(columns.dtype)), upper * length, 0)


def _by_householder(columns: jax.Array, floor: float, rng: np.random.Generator) -> Orthonormal:
    # Pivots bring the columns that say nothing new to the end, where the diagonal of R shows their number.
    q, r, pivots = qr(np.asarray(columns, dtype=np.float64), mode="economic", pivoting=True)
    rank = int(np.sum(np.abs(np.diag(r)) > floor))
    r[rank:] = 0
    if rank < q.shape[1]:
        fresh = rng.standard_normal((q.shape[0], q.shape[1] - rank))
        for _ in range(2):
            # Twice, for the same reason as in `orthonormal_blocks`.
            fresh -= q[:, :rank] @ (q[:, :rank].T @ fresh)
            fresh = np.linalg.qr(fresh)[0]
        q[:, rank:] = fresh
    back = np.empty_like(r)
    # columns[:, pivots] = Q R: in the caller's order R is no triangle.
    back[:, pivots] = r
    return Orthonormal(on_device(q, columns.dtype), back, q.shape[1] - rank)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _empty(n: int, width: int, dtype: str, mirror: bool) -> Chunk:
    if mirror:
        return jnp.zeros((width, n), dtype), jnp.zeros((n, width), dtype)
    return jnp.zeros((width, gemm_width(n)), dtype), None


@jax.jit
def _laid(columns: jax.Array) -> jax.Array:
    n = len(columns)
    return jnp.pad(columns, ((0, gemm_width(n) - n), (0, 0))).T


@jax.jit
def _gram(columns: jax.Array) -> jax.Array:
    return jnp.matmul(columns.T, columns, precision=HIGHEST)


@jax.jit
def _mixed(columns: jax.Array, mixing: jax.Array) -> jax.Array:
    return jnp.matmul(columns, mixing, precision=HIGHEST)


@jax.jit
def _project(rows: jax.Array, mirror: jax.Array | None, columns: jax.Array) -> tuple[jax.Array, jax.Array]:
    coefficients = times(rows, columns)
    return columns - across(rows, mirror, coefficients, len(columns)), coefficients


@jax.jit
def _new_block(near: tuple[jax.Array, ...], columns: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Columns (n, b) with their part in the blocks `near` taken off, its coefficients, the Gram matrix of the rest."""
    basis = jnp.concatenate(near, axis=1)
    coefficients = jnp.matmul(basis.T, columns, precision=HIGHEST)
    rest = columns - jnp.matmul(basis, coefficients, precision=HIGHEST)
    return rest, coefficients, jnp.matmul(rest.T, rest, precision=HIGHEST)


@jax.jit
def beside(blocks: tuple[jax.Array, ...]) -> jax.Array:
    """Blocks (n, b) as one (n, s b)."""
    return jnp.concatenate(blocks, axis=1)


@functools.partial(jax.jit, static_argnums=1)
def apart(columns: jax.Array, block: int) -> list[jax.Array]:
    """The inverse of `beside`."""
    return jnp.split(columns, columns.shape[1] // block, axis=1)


@functools.partial(jax.jit, static_argnums=4, donate_argnums=0)
def _add_combination(
    total: jax.Array | None, rows: jax.Array, mirror: jax.Array | None, mixing: jax.Array, n: int
) -> jax.Array:
    found = across(rows, mirror, mixing, n)
    return found if total is None else total + found


@functools.partial(jax.jit, donate_argnums=(0, 1))
def _write(rows: jax.Array, mirror: jax.Array | None, columns: jax.Array, at: jax.Array | int) -> Chunk:
    rows = jax.lax.dynamic_update_slice(rows, columns.T, (at, 0))
    if mirror is not None:
        mirror = jax.lax.dynamic_update_slice(mirror, columns, (0, at))
    return rows, mirror
