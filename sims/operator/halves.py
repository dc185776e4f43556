"""Blocks of rows for a GPU: halves of their columns, drawn by one kernel, of a width that products copy nothing for."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from sims.backend import pinned
from sims.threefry import box_muller, encrypted


@pinned
@functools.partial(jax.jit, static_argnames=("count", "n", "dtype"))
def row_halves(
    key: jax.Array, start: jax.Array | int, count: int, n: int, dtype: str
) -> tuple[jax.Array, jax.Array]:
    """The rows of `row_block` in two halves of columns, (count, width) each, for a GPU: one kernel writes both.

    The first ceil(n / 2) columns of each are those of the rows, but for the last of the second where n is odd. The rest fills
    them to a width that products need no copy for, and must meet zeros. The words are those of `jax.random.bits` in its
    partitionable form.
    """
    h = -(-n // 2)
    words = jax.random.key_data(key)
    rows = encrypted(words[0], words[1], jnp.uint32(0), start + jnp.arange(count, dtype=jnp.uint32))
    columns = jnp.arange(gemm_width(h), dtype=jnp.uint32)
    pairs = [
        encrypted(rows[0][:, None], rows[1][:, None], jnp.uint32(0), columns[None] + np.uint32(i * h))
        for i in (0, 1)
    ]
    if jnp.dtype(dtype).itemsize == 8:
        drawn = tuple(x.astype(jnp.uint64) << 32 | y.astype(jnp.uint64) for x, y in pairs)
    else:
        drawn = tuple(x ^ y for x, y in pairs)
    scale = jnp.asarray(1 / math.sqrt(n), dtype)
    first, second = box_muller(drawn, dtype)
    return first * scale, second * scale


def gemm_width(columns: int) -> int:
    """Columns of a block on a GPU: a multiple of what XLA splits the inner dimension of a product in, up to 256 parts of whole
    16 bytes where columns are many; else it would copy the block to pad it."""
    step = 1024 if columns >= 8192 else 128
    return -(-columns // step) * step
