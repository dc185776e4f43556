"""The data of a Hessian in blocks of rows: kept, or drawn again from their key whenever they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sims import machine
from sims.backend import HIGHEST, pinned
from sims.checks import of_type, stream_key
from sims.instance import (
    Instance,
    data_key,
    input_roots,
    padded,
    real_dtype,
    row_block,
)
from sims.operator.halves import gemm_width, row_halves
from theory.checks import ParameterError, count
from theory.model.network import Network

Block = jax.Array | tuple[jax.Array, jax.Array]  # (size, n), or halves of its columns
# data in one block of rows that is drawn at every pass
BLOCK_BYTES = {"cpu": 16 << 20, "gpu": machine.BLOCK_BYTES}
# of one that is kept: larger on a CPU, for fewer and faster products
STORED_BYTES = {"cpu": 256 << 20, "gpu": machine.BLOCK_BYTES}


@dataclass(frozen=True)
class Rows:
    """Blocks of rows of the data, all of one shape (size, n); rows from M on are zero or carry weight zero.

    On a GPU a block is a pair of halves of its columns, each filled up to a width that products need no copy for
    (`sims.operator.halves.row_halves`); `times` and `across` take either form.

    stored  one pair (block, its transpose (n, size) or None) for each block; None: drawn when needed
    key     key of the rows (`data_key`), for blocks drawn when needed
    roots   (n,) by which the columns of the blocks are multiplied to make inputs of covariance Sigma; None: by nothing

    The transpose is a second copy, for the CPU: XLA's product with a row-major matrix reads it at the speed of the memory bus,
    that with its transpose at a third of it.
    """

    m: int
    n: int
    size: int
    dtype: np.dtype
    stored: tuple[tuple[Block, jax.Array | None], ...] | None
    key: jax.Array
    roots: jax.Array | None = None

    def of(self, model: Network) -> Rows:
        """These rows as the inputs of a model: with the roots of its covariance."""
        roots = input_roots(model, self.n)
        return self if roots is None else replace(self, roots=jnp.asarray(roots, self.dtype))

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.m // self.size)

    def lowered(self) -> Rows | None:
        """The same rows rounded to float32; None where they are not stored."""
        if self.stored is None:
            return None
        stored = tuple(jax.tree.map(single, pair) for pair in self.stored)
        roots = None if self.roots is None else single(self.roots)
        return replace(self, dtype=np.dtype("float32"), stored=stored, roots=roots)

    def __iter__(self) -> Iterator[tuple[Block, jax.Array | None]]:
        if self.stored is not None:
            yield from self.stored
            return
        drawn = drawer()
        for i in range(self.blocks):
            yield drawn(self.key, np.uint32(i * self.size), self.size, self.n, str(self.dtype)), None


def drawer() -> Callable[..., Block]:
    """What draws a block: whole for the CPU, in halves for a GPU."""
    return row_block if jax.default_backend() == "cpu" else row_halves


def times(block: Block, columns: jax.Array) -> jax.Array:
    """X V for a block X of rows and V (n, k)."""
    if isinstance(block, tuple):
        h = -(-columns.shape[0] // 2)
        return times(block[0], columns[:h]) + times(block[1], columns[h:])
    filling = block.shape[1] - columns.shape[0]
    columns = jnp.pad(columns, ((0, filling), (0, 0))) if filling else columns
    return jnp.matmul(block, columns, precision=HIGHEST)


def across(block: Block, mirror: jax.Array | None, z: jax.Array, n: int) -> jax.Array:
    """X^T Z (n, k) for a block X of rows, by its transpose `mirror` where that is kept."""
    if isinstance(block, tuple):
        h = -(-n // 2)
        return jnp.concatenate([across(block[0], None, z, h), across(block[1], None, z, n - h)])
    return jnp.matmul(block.T if mirror is None else mirror, z, precision=HIGHEST)[:n]


def block_size(m: int, n: int, dtype: Any, size: int | None = None, *, stored: bool = True) -> int:
    """Rows in a block, `padded`: m in equal parts of at most STORED_BYTES (BLOCK_BYTES), of `machine.ROWS` at least on a GPU;
    or `size` as given."""
    if size is not None:
        return count("block size", size)
    targets = STORED_BYTES if stored else BLOCK_BYTES
    target = targets.get(jax.default_backend(), targets["gpu"])
    parts = max(1, -(-m * n * np.dtype(dtype).itemsize // target))
    if jax.default_backend() != "cpu":
        parts = min(parts, -(-m // machine.ROWS))
    return padded(-(-m // parts))


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
    m, n = count("m", m), count("n", n)
    streamed = streamed_rows(key, m, n, dtype, size=block_size(m, n, real_dtype(dtype), size))
    mirror = jax.default_backend() == "cpu" if mirror is None else mirror
    blocks = tuple((block, mirrored(block) if mirror else None) for block, _ in streamed)
    return replace(streamed, stored=blocks)


def streamed_rows(key: jax.Array, m: int, n: int, dtype: Any = "float64", *, size: int | None = None) -> Rows:
    """The first m rows of the data with `key`, drawn again block by block at every pass: memory O(size n)."""
    m, n, dtype, key = count("m", m), count("n", n), real_dtype(dtype), stream_key("key", key)
    return Rows(m, n, block_size(m, n, dtype, size, stored=False), dtype, None, key)


@pinned
def rows_of(
    instance: Instance, *, stored: bool = True, size: int | None = None, mirror: bool | None = None
) -> Rows:
    """The data of one instance, its covariance in them. stored = False: drawn again at every product.

    size, mirror as in `stored_rows`. Data the instance already carries are cut into blocks (a copy: let go of the instance).
    """
    dtype = of_type("instance", instance, Instance).student.dtype
    key, m, n = data_key(instance.key), instance.m, instance.n
    if instance.model.inputs is not None:
        return cut_rows(instance, size=size, mirror=mirror)
    if not stored:
        return streamed_rows(key, m, n, dtype, size=size).of(instance.model)
    if instance.data is None:
        return stored_rows(key, m, n, dtype, size=size, mirror=mirror).of(instance.model)
    return cut_rows(instance, size=size, mirror=mirror)


def mirrored(block: Block) -> jax.Array:
    """The transpose of a block, a copy."""
    if isinstance(block, tuple):
        raise ParameterError("mirror must be False where blocks are halves, as on a GPU")
    return jnp.array(block.T)


def single(x: jax.Array) -> jax.Array:
    """An array rounded to float32."""
    return x.astype(jnp.float32)


@pinned
def cut_rows(instance: Instance, *, size: int | None = None, mirror: bool | None = None) -> Rows:
    """The data of an instance as blocks of rows, their covariance in them."""
    data = instance.data
    if data is None:
        raise ParameterError("cut_rows needs the data of the instance, drawn with data=True")
    mirror = jax.default_backend() == "cpu" if mirror is None else mirror
    size = block_size(instance.m, instance.n, data.dtype, size)
    blocks = []
    for start in range(0, instance.m, size):
        block = data[start : start + size]
        filling = 0 if jax.default_backend() == "cpu" else gemm_width(instance.n) - instance.n
        block = jnp.pad(block, ((0, size - block.shape[0]), (0, filling)))
        blocks.append((block, jnp.array(block.T) if mirror else None))
    return Rows(instance.m, instance.n, size, np.dtype(data.dtype), tuple(blocks), data_key(instance.key))
