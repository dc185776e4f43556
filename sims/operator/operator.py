"""The Hessian as an operator: H V from the data and the weights, never forming H.

With F = d I + c lam lam^T for each sample (`sims.hessian`), a block V of k vectors costs two products with the data,

    Y = X V,    Z_q = d Y_q + c lam_q (sum_r lam_r Y_r),    H V = X^T Z,

and O(M p k) between them. The data are held as blocks of rows, each an array of its own, and one compiled step adds the
share of one block: its shape, and so its compilation, does not depend on alpha, and nothing is ever sliced out of a large
array (a slice of the data inside a compiled loop is a copy, three times the traffic). Rows of zeros in the last block carry
weight zero. Blocks are stored, or drawn again from their key whenever they are needed.

Several Hessians that share their data (the same draw at several alpha or a) are served by one pass: their vectors stand side
by side as columns of V, each with its own weights.

Vectors stand as columns (N, sets p k). For one set that is the same memory as (p N, k) with rows ordered i p + q, the order
in which the solvers keep their vectors.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sims.hessian import HIGHEST, weight_parts
from sims.instance import Instance, data_key, finite_p, padded, real_dtype, row_block
from sims.pinned import pinned
from theory.checks import ParameterError, count, positive
from theory.model import Committee

BLOCK_BYTES = {"cpu": 16 << 20, "gpu": 1 << 30}  # data in one block of rows that is drawn at every pass
_FEW = 16  # student rows that are written out one by one in a compiled step
STORED_BYTES = {
    "cpu": 256 << 20,
    "gpu": 1 << 30,
}  # of one that is kept: larger, for fewer and faster products


@dataclass(frozen=True)
class Rows:
    """Blocks of rows of the data, all of one shape (size, n); rows from M on are zero or carry weight zero.

    stored  one pair (block (size, n), its transpose (n, size) or None) for each block; None: drawn when needed
    key     key of the rows (`data_key`), for blocks drawn when needed

    The transpose is a second copy, for the CPU: XLA's product with a row-major matrix reads it at the speed of the memory bus,
    that with its transpose at a third of it.
    """

    m: int
    n: int
    size: int
    dtype: np.dtype
    stored: tuple[tuple[jax.Array, jax.Array | None], ...] | None
    key: jax.Array

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.m // self.size)

    def __iter__(self) -> Iterator[tuple[jax.Array, jax.Array | None]]:
        if self.stored is not None:
            yield from self.stored
            return
        for i in range(self.blocks):
            yield row_block(self.key, np.uint32(i * self.size), self.size, self.n, str(self.dtype)), None


def block_size(m: int, n: int, dtype: Any, size: int | None = None, *, stored: bool = True) -> int:
    """Rows in a block: m in equal parts of at most STORED_BYTES (BLOCK_BYTES), `padded`; or `size` as given."""
    if size is not None:
        return count("block size", size)
    targets = STORED_BYTES if stored else BLOCK_BYTES
    target = targets.get(jax.default_backend(), targets["gpu"])
    return padded(-(-m // max(1, -(-m * n * np.dtype(dtype).itemsize // target))))


@pinned
def stored_rows(
    key: jax.Array,
    m: int,
    n: int,
    dtype: Any = "float64",
    *,
    size: int | None = None,
    mirror: bool | None = None,
) -> Rows:
    """The first m rows of the data with `key` (from `data_key`), in memory.

    size    rows in a block (default: by bytes, `block_size`)
    mirror  keep the transpose of each block too (default: on the CPU)
    """
    streamed = streamed_rows(key, m, n, dtype, size=block_size(m, n, real_dtype(dtype), size))
    mirror = jax.default_backend() == "cpu" if mirror is None else mirror
    blocks = tuple((block, jnp.array(block.T) if mirror else None) for block, _ in streamed)
    return replace(streamed, stored=blocks)


def streamed_rows(key: jax.Array, m: int, n: int, dtype: Any = "float64", *, size: int | None = None) -> Rows:
    """The first m rows of the data with `key`, drawn again block by block at every pass: memory O(size n)."""
    m, n, dtype = count("m", m), count("n", n), real_dtype(dtype)
    return Rows(m, n, block_size(m, n, dtype, size, stored=False), dtype, None, key)


@dataclass(frozen=True)
class HessianOperator:
    """Hessians (sets of them) on shared data. `operator(V)` is H V.

    rows   the data
    parts  for each block of rows: d (sets, size), c (sets, size), lam (size, p); zero where a set has no such row
    p      student width

    `selected` keeps the operators of some of the sets that `select` made; every copy starts with none.
    """

    rows: Rows
    parts: tuple[tuple[jax.Array, jax.Array, jax.Array], ...]
    p: int
    selected: dict[tuple[int, ...], HessianOperator] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @property
    def sets(self) -> int:
        """How many Hessians the operator holds."""
        return self.parts[0][0].shape[0]

    @property
    def n(self) -> int:
        """Input dimension N."""
        return self.rows.n

    @property
    def order(self) -> int:
        """Order p N of each Hessian."""
        return self.p * self.rows.n

    @property
    def dtype(self) -> np.dtype:
        """Of the data and the products."""
        return self.rows.dtype

    @pinned
    def columns(self, columns: jax.Array) -> jax.Array:
        """H V for V as a matrix (N, sets p k), columns ordered by set, then student row, then vector."""
        total = None
        for (block, mirror), (d, c, lam) in zip(self.rows, self.parts, strict=True):
            share = (block, mirror, columns, d, c, lam)
            total = _first_block(*share) if total is None else _add_block(total, *share)
        assert total is not None  # M is at least 1
        return total

    @pinned
    def __call__(self, vectors: Any) -> jax.Array:
        """H V for V (p, N, k) of one Hessian, or (sets, p, N, k) of several: the same shape, in the run's dtype."""
        vectors = jnp.asarray(vectors, self.dtype)
        wanted = (self.p, self.n) if self.sets == 1 and vectors.ndim == 3 else (self.sets, self.p, self.n)
        if vectors.shape[:-1] != wanted:
            raise ParameterError(f"vectors must have shape {(*wanted, 'k')}, got {vectors.shape}")
        columns = _to_columns(vectors.reshape(self.sets, self.p, self.n, -1))
        return _from_columns(self.columns(columns), (self.sets, self.p)).reshape(vectors.shape)

    @pinned
    def product(self, chosen: Sequence[int], blocks: Sequence[jax.Array]) -> list[jax.Array]:
        """H V for one block V (order, k), rows i p + q, of each chosen set, in one pass over the data."""
        columns = _beside(tuple(blocks), self.n)
        return _apart(self.select(chosen).columns(columns), len(blocks), self.order)

    @pinned
    def select(self, chosen: Sequence[int]) -> HessianOperator:
        """The operator of the chosen sets, on the same data."""
        key = tuple(chosen)
        if key == tuple(range(self.sets)):
            return self
        if key not in self.selected:
            index = np.asarray(key)
            self.selected[key] = replace(
                self, parts=tuple((d[index], c[index], lam) for d, c, lam in self.parts)
            )
        return self.selected[key]

    @pinned
    def ordered(self, vectors: jax.Array) -> jax.Array:
        """Vectors (p N, k) with rows i p + q to block-major rows q N + i."""
        return _block_major(vectors, self.p)

    @pinned
    def lowered(self) -> HessianOperator | None:
        """The same operator with data and weights rounded to float32; None where rows are not stored.

        The operator itself if it is of float32.
        """
        if self.dtype == np.float32:
            return self
        if self.rows.stored is None:
            return None
        stored = tuple((_single(b), None if t is None else _single(t)) for b, t in self.rows.stored)
        rows = replace(self.rows, dtype=np.dtype("float32"), stored=stored)
        return replace(
            self, rows=rows, parts=tuple((_single(d), _single(c), _single(x)) for d, c, x in self.parts)
        )


@pinned
def hessian_operator(
    instance: Instance, *, stored: bool = True, size: int | None = None, mirror: bool | None = None
) -> HessianOperator:
    """The operator of one instance. stored = False: rows are drawn again at every product.

    size, mirror as in `stored_rows`. Data the instance already carries are cut into blocks (a copy: let go of the instance).

    >>> from sims.instance import draw
    >>> from theory.model import Committee
    >>> operator = hessian_operator(draw(Committee(2, 1, 1.0), 12, 2.5, seed=1))
    >>> operator.order, operator(np.ones((1, 2, 12, 3))).shape
    (24, (1, 2, 12, 3))
    """
    dtype = instance.student.dtype
    if not stored:
        rows = streamed_rows(data_key(instance.key), instance.m, instance.n, dtype, size=size)
    elif instance.data is None:
        rows = stored_rows(data_key(instance.key), instance.m, instance.n, dtype, size=size, mirror=mirror)
    else:
        rows = cut_rows(instance, size=size, mirror=mirror)
    return weighted(rows, instance.student, instance.teacher, [(instance.model, instance.m)])


@pinned
def cut_rows(instance: Instance, *, size: int | None = None, mirror: bool | None = None) -> Rows:
    """The data of an instance as blocks of rows."""
    data = instance.data
    if data is None:
        raise ParameterError("cut_rows needs the data of the instance, drawn with data=True")
    mirror = jax.default_backend() == "cpu" if mirror is None else mirror
    size = block_size(instance.m, instance.n, data.dtype, size)
    blocks = []
    for start in range(0, instance.m, size):
        block = data[start : start + size]
        block = jnp.pad(block, ((0, size - block.shape[0]), (0, 0)))
        blocks.append((block, jnp.array(block.T) if mirror else None))
    return Rows(instance.m, instance.n, size, np.dtype(data.dtype), tuple(blocks), data_key(instance.key))


@pinned
def weighted(
    rows: Rows, student: Any, teacher: Any, points: Sequence[tuple[Committee, int]]
) -> HessianOperator:
    """The Hessians of `points` on the same rows, student (p, N) and teacher (p_star, N): one set each.

    points  (model, samples M) with M at most rows.m: the first M rows count. Widths are those of student and teacher.
    """
    both = jnp.concatenate([jnp.asarray(student), jnp.asarray(teacher)]).astype(rows.dtype)
    p, p_star = len(student), len(teacher)
    for model, m in points:
        if (finite_p(model), model.p_star) != (p, p_star):
            raise ParameterError(f"points must share p = {p}, p_star = {p_star}, got {model}")
        if not 1 <= m <= rows.m:
            raise ParameterError(f"samples of a point must lie in 1..{rows.m}, got {m}")
    a = jnp.asarray([positive("a", model.a) for model, _ in points])
    reach = jnp.asarray([m for _, m in points])
    parts = tuple(_parts(block, both, a, reach, i * rows.size, p) for i, (block, _) in enumerate(rows))
    return HessianOperator(rows, parts, p)


def interleaved(vectors: NDArray, p: int) -> NDArray:
    """Block-major vectors (p N, k), rows q N + i, with rows in the operator's order i p + q."""
    return vectors.reshape(p, -1, vectors.shape[1]).transpose(1, 0, 2).reshape(vectors.shape)


@jax.jit
def _to_columns(vectors: jax.Array) -> jax.Array:
    """(sets, p, N, k) -> (N, sets p k)."""
    return jnp.transpose(vectors, (2, 0, 1, 3)).reshape(vectors.shape[2], -1)


@functools.partial(jax.jit, static_argnums=1)
def _from_columns(columns: jax.Array, sets_and_p: tuple[int, int]) -> jax.Array:
    """(N, sets p k) -> (sets, p, N, k)."""
    return jnp.transpose(columns.reshape(len(columns), *sets_and_p, -1), (1, 2, 0, 3))


@functools.partial(jax.jit, static_argnums=1)
def _block_major(vectors: jax.Array, p: int) -> jax.Array:
    return jnp.transpose(vectors.reshape(-1, p, vectors.shape[1]), (1, 0, 2)).reshape(vectors.shape)


@functools.partial(jax.jit, static_argnums=1)
def _beside(blocks: tuple[jax.Array, ...], n: int) -> jax.Array:
    """Blocks (order, k), rows i p + q, as columns (N, sets p k)."""
    return jnp.concatenate([block.reshape(n, -1) for block in blocks], axis=1)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _apart(columns: jax.Array, number: int, order: int) -> list[jax.Array]:
    """The inverse of `_beside`."""
    return [part.reshape(order, -1) for part in jnp.split(columns, number, axis=1)]


def _single(x: jax.Array) -> jax.Array:
    return x.astype(jnp.float32)


@functools.partial(jax.jit, static_argnames="p")
def _parts(
    block: jax.Array, both: jax.Array, a: jax.Array, m: jax.Array, start: jax.Array | int, p: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """d (sets, size), c (sets, size), lam (size, p) of one block, zero on rows from m on."""
    labels = jnp.matmul(block, both.T, precision=HIGHEST)
    lam, u = labels[:, :p], labels[:, p:]
    d, c = jax.vmap(weight_parts, (0, None, None))(a, lam.astype(jnp.float64), u.astype(jnp.float64))
    inside = start + jnp.arange(block.shape[0]) < m[:, None]
    return jnp.where(inside, d, 0).astype(block.dtype), jnp.where(inside, c, 0).astype(block.dtype), lam


def block_share(
    block: jax.Array, mirror: jax.Array | None, columns: jax.Array, d: jax.Array, c: jax.Array, lam: jax.Array
) -> jax.Array:
    """The share of one block of rows in H V: columns (N, sets p k) -> (N, sets p k)."""
    size, p = lam.shape
    y = jnp.matmul(block, columns, precision=HIGHEST).reshape(size, d.shape[0], p, -1)
    z = (_few_rows if p <= _FEW else _many_rows)(y, d.T[:, :, None], c.T[:, :, None], lam)
    across = block.T if mirror is None else mirror
    return jnp.matmul(across, z.reshape(size, -1), precision=HIGHEST)


def _few_rows(y: jax.Array, d: jax.Array, c: jax.Array, lam: jax.Array) -> jax.Array:
    """F y for y (size, sets, p, k), student rows one by one: a sum over their axis is ten times slower on the CPU."""
    rows = range(lam.shape[1])
    along = sum(lam[:, q, None, None] * y[:, :, q] for q in rows) * c
    return jnp.stack([d * y[:, :, q] + lam[:, q, None, None] * along for q in rows], axis=2)


def _many_rows(y: jax.Array, d: jax.Array, c: jax.Array, lam: jax.Array) -> jax.Array:
    """The same for any p, in a program whose size does not grow with it."""
    along = jnp.einsum("mq,msqk->msk", lam, y, precision=HIGHEST) * c
    return d[:, :, None] * y + lam[:, None, :, None] * along[:, :, None, :]


_first_block = jax.jit(block_share)


@functools.partial(jax.jit, donate_argnums=0)
def _add_block(total: jax.Array, *block: Any) -> jax.Array:
    return total + block_share(*block)
