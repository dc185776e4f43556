"""An orthonormal basis that grows by blocks, and the block orthonormalisation it needs.

The basis is kept in chunks of equal shape, filled from the left and zero beyond: every step on a chunk is compiled once,
whatever the dimension reached. On the CPU each chunk is kept row-major and column-major: XLA's product with a thin matrix runs
at full speed only for the operand whose rows are contiguous along the contracted index.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from sims.hessian import HIGHEST

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
        self._recent: tuple[jax.Array, ...] = ()  # the last two blocks

    def append(self, columns: jax.Array) -> None:
        """Take in a block of orthonormal columns (n, block), orthogonal to the basis."""
        at = self.dimension % self.width
        if at == 0:
            self._chunks.append(self._chunk(jnp.zeros((self.n, self.width), self.dtype)))
        self._chunks[-1] = _write(*self._chunks[-1], columns, at)
        self._recent = (*self._recent[-1:], columns)
        self.dimension += self.block

    def project(self, columns: jax.Array) -> tuple[jax.Array, NDArray[np.float64]]:
        """Columns (n, b) with their part in the basis taken off, chunk after chunk, and its coefficients (dimension, b)."""
        found = []
        for chunk in self._chunks:
            columns, coefficients = _project(*chunk, columns)
            found.append(coefficients)
        return columns, np.concatenate([np.asarray(c, np.float64) for c in found])[: self.dimension]

    def project_recent(self, columns: jax.Array) -> tuple[jax.Array, NDArray[np.float64]]:
        """As `project`, for the last two blocks alone, the others having coefficients 0."""
        columns, coefficients = _project_blocks(self._recent, columns)
        found = np.zeros((self.dimension, columns.shape[1]))
        found[self.dimension - len(coefficients) :] = np.asarray(coefficients)
        return columns, found

    def project_last(self, waiting: jax.Array, columns: jax.Array) -> tuple[jax.Array, NDArray[np.float64]]:
        """Columns (n, b) with their part in the last block of the basis and in `waiting` taken off; coefficients (2 b, b)."""
        rest, coefficients = _project_blocks((self._recent[-1], waiting), columns)
        return rest, np.asarray(coefficients, np.float64)

    def combine(self, mixing: NDArray) -> jax.Array:
        """Columns Q S (n, r) for S (dimension, r)."""
        padded = np.zeros((len(self._chunks) * self.width, mixing.shape[1]))
        padded[: self.dimension] = mixing
        parts = padded.reshape(len(self._chunks), self.width, -1).astype(self.dtype)
        total = jnp.zeros((self.n, mixing.shape[1]), self.dtype)
        for chunk, part in zip(self._chunks, parts, strict=True):
            total = _add_combination(total, *chunk, part)
        return total

    def contract(self, mixing: NDArray) -> None:
        """Replace the basis by Q S, S (dimension, r) with orthonormal columns and r a multiple of the block."""
        chunks = []
        for start in range(0, mixing.shape[1], self.width):
            part = mixing[:, start : start + self.width]
            part = np.pad(part, ((0, 0), (0, self.width - part.shape[1])))
            chunks.append(self._chunk(self.combine(part)))
        self._chunks, self.dimension, self._recent = chunks, mixing.shape[1], ()

    def _chunk(self, columns: jax.Array) -> Chunk:
        return columns.T if not self.mirror else jnp.array(columns.T), columns if self.mirror else None


def orthonormal(columns: jax.Array, floor: float, rng: np.random.Generator) -> tuple[jax.Array, NDArray, int]:
    """Orthonormal V (n, b), R (b, b) with columns = V R up to `floor`, and the number of columns put in by chance.

    Cholesky factor of the Gram matrix where that is well conditioned (the caller projects and calls again, which
    makes it good to rounding); else Householder with pivots on the host, in float64, and directions of length below `floor`
    are replaced by random ones, with rows of zeros in R: an invariant space was met, and the search goes on outside it.
    """
    basis, upper, good = _cholesky_qr(columns, floor)
    if bool(good):
        return basis, np.asarray(upper, dtype=np.float64), 0
    q, r, pivots = qr(np.asarray(columns, dtype=np.float64), mode="economic", pivoting=True)
    rank = int(np.sum(np.abs(np.diag(r)) > floor))
    r[rank:] = 0
    if rank < q.shape[1]:
        fresh = rng.standard_normal((q.shape[0], q.shape[1] - rank))
        for _ in range(2):
            fresh -= q[:, :rank] @ (q[:, :rank].T @ fresh)
            fresh = np.linalg.qr(fresh)[0]
        q[:, rank:] = fresh
    back = np.empty_like(r)
    back[:, pivots] = r
    return jnp.asarray(q, columns.dtype), back, q.shape[1] - rank


@jax.jit
def _cholesky_qr(columns: jax.Array, floor: jax.Array | float) -> tuple[jax.Array, jax.Array, jax.Array]:
    gram = jnp.matmul(columns.T, columns, precision=HIGHEST).astype(jnp.float64)
    length = jnp.sqrt(jnp.diagonal(gram))
    safe = jnp.where(length > 0, length, 1)
    lower = jnp.linalg.cholesky(gram / (safe[:, None] * safe))
    # the relative error of V'V is eps over the square of the smallest pivot
    pivot = 100 * jnp.sqrt(jnp.finfo(columns.dtype).eps)
    good = jnp.all(jnp.isfinite(lower)) & jnp.all(jnp.diagonal(lower) > pivot) & jnp.all(length > 10 * floor)
    inverse = jax.scipy.linalg.solve_triangular(lower, jnp.eye(len(gram)), lower=True).T / safe[:, None]
    return (
        jnp.matmul(columns, inverse.astype(columns.dtype), precision=HIGHEST),
        lower.T * safe,
        good,
    )


def project_block(block: jax.Array, columns: jax.Array) -> tuple[jax.Array, NDArray[np.float64]]:
    """Columns (n, b) with their part along the orthonormal block (n, b) taken off, and its coefficients (b, b)."""
    rest, coefficients = _project_blocks((block,), columns)
    return rest, np.asarray(coefficients, np.float64)


@jax.jit
def _project(rows: jax.Array, mirror: jax.Array | None, columns: jax.Array) -> tuple[jax.Array, jax.Array]:
    coefficients = jnp.matmul(rows, columns, precision=HIGHEST)
    across = rows.T if mirror is None else mirror
    return columns - jnp.matmul(across, coefficients, precision=HIGHEST), coefficients


@jax.jit
def _project_blocks(blocks: tuple[jax.Array, ...], columns: jax.Array) -> tuple[jax.Array, jax.Array]:
    basis = jnp.concatenate(blocks, axis=1)
    coefficients = jnp.matmul(basis.T, columns, precision=HIGHEST)
    return columns - jnp.matmul(basis, coefficients, precision=HIGHEST), coefficients


@functools.partial(jax.jit, donate_argnums=0)
def _add_combination(
    total: jax.Array, rows: jax.Array, mirror: jax.Array | None, mixing: jax.Array
) -> jax.Array:
    across = rows.T if mirror is None else mirror
    return total + jnp.matmul(across, mixing, precision=HIGHEST)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def _write(rows: jax.Array, mirror: jax.Array | None, columns: jax.Array, at: jax.Array | int) -> Chunk:
    rows = jax.lax.dynamic_update_slice(rows, columns.T, (at, 0))
    if mirror is not None:
        mirror = jax.lax.dynamic_update_slice(mirror, columns, (0, at))
    return rows, mirror
