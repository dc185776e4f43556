"""Random numbers: keys, words and normal variates of threefry-2x32. Which keys a draw has, `sims.instance` decides, and names
the random stream that the two make, `STREAM`.

Keys are folded on the host as `jax.random.fold_in` folds them, bit for bit: the words of (0, word) under the key. A draw needs
a handful of keys. The programs that JAX would lower and load for these few integers cost every process about 0.2 s at its
start; the keys of single rows, of which there are many, are JAX's.

Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, SC11 (2011), section 4.

Normal variates come of the bits by the Box-Muller transform, in place of `jax.random.normal`, which inverts the error function
at twice the cost in float64 on a CPU. Two words of random bits give two variates, sqrt(-2 log u) (cos, sin)(2 pi v). In
float64 u has 53 bits and the largest variate is 8.6; in float32 it has 32 bits, where small u keep their digits, and the
largest is 6.7.

Rows of variates have a key each. On the host many samples share the calls of JAX that draw them: a call costs more than the
variates of a small instance do, and a program compiled for each M would cost more than both. So the rows that are wanted are
numbered through, and each call draws the next so many of them: its length depends on N alone, and what a sample gets does not
depend on its company.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sims.backend import pinned

Words = NDArray[np.uint32]
T = TypeVar("T")

_VARIATES = 2**17  # drawn in one call on the host, about: as many as stay in cache
_FEWEST, _MOST = 8, 1024  # rows of a call

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = 0x1BD11BDA


def fold(key: ArrayLike, word: ArrayLike) -> Words:
    """Words (..., 2) of the keys that come of folding words (...) into keys (..., 2), both of 32 bits; shapes broadcast.

    >>> fold([0, 7], [1, 2]).tolist() == [fold([0, 7], 1).tolist(), fold([0, 7], 2).tolist()]
    True
    """
    pair, second = np.asarray(key, np.uint32), np.atleast_1d(np.asarray(word, np.uint32))
    # JAX seeds 64 bits from a word, the upper ones zero.
    x, y = encrypted(pair[..., 0], pair[..., 1], np.zeros_like(second), second)
    return np.stack([x, y], axis=-1).reshape((*np.broadcast_shapes(pair.shape[:-1], np.shape(word)), 2))


def encrypted(first: Any, second: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """The words (x, y) under the key (first, second): arrays of uint32, of NumPy or of JAX, that broadcast.

    Written out, as here, the rounds fuse with what follows them; `jax.random.bits` ends in a kernel of its own on a GPU, whose
    words go to memory and back.
    """
    schedule = first, second, first ^ second ^ np.uint32(_PARITY)
    x, y = x + schedule[0], y + schedule[1]
    for turn in range(5):
        for by in _ROTATIONS[turn % 2]:
            x = x + y
            y = (y << np.uint32(by) | y >> np.uint32(32 - by)) ^ x
        # The key goes in anew after every four rounds, turned on by one, and the number of the turn sets turns apart.
        x = x + schedule[(turn + 1) % 3]
        y = y + schedule[(turn + 2) % 3] + np.uint32(turn + 1)
    return x, y


# Taylor series on |x| <= pi/4: the first terms left out are below 1e-16
_SIN = [(-1) ** j / math.factorial(2 * j + 1) for j in range(8)]
_COS = [(-1) ** j / math.factorial(2 * j) for j in range(9)]


@pinned
def normal_row(key: jax.Array, n: int, dtype: Any = "float64") -> jax.Array:
    """n independent N(0, 1) variates in float32 or float64, (n,): a function of key, n and dtype alone."""
    return jnp.concatenate(normal_halves(key, n, dtype))[:n]


def normal_halves(key: jax.Array, n: int, dtype: Any = "float64") -> tuple[jax.Array, jax.Array]:
    """The same variates in two halves of ceil(n / 2), of an odd n one more than there are. Inside a `pinned` function only.

    A program that returns them apart computes radius and angle of a pair once; joined, XLA does for each of the two.
    """
    word = "uint64" if jnp.dtype(dtype).itemsize == 8 else "uint32"
    return box_muller(jax.random.bits(key, (2, -(-n // 2)), word), dtype)


def box_muller(words: Any, dtype: Any) -> tuple[jax.Array, jax.Array]:
    """Two variates of each pair of words: words[0], words[1] of any shape. Inside a `pinned` function only."""
    size = 8 * jnp.dtype(dtype).itemsize
    kept = 53 if size == 64 else 32
    u = ((words[0] >> (size - kept)).astype(dtype) + 0.5) * 2.0**-kept  # in (0, 1]
    radius = jnp.sqrt(-2 * jnp.log(u))
    cosine, sine = circle(words[1], dtype)
    return radius * cosine, radius * sine


@pinned
def circle(words: jax.Array, dtype: Any) -> tuple[jax.Array, jax.Array]:
    """(cos, sin) of 2 pi v for v = words / 2^size: the two top bits name the quadrant, the others the place in it."""
    size = 8 * jnp.dtype(dtype).itemsize
    quadrant = (words >> (size - 2)).astype(jnp.int32)
    # bits below the quadrant, as many as the significand holds, centred: |x| <= pi/4
    place = ((words << 2) >> (11 if size == 64 else 8)).astype(dtype) * 2.0 ** -(
        53 if size == 64 else 24
    ) - 0.5
    x = place * (math.pi / 2)
    square = x * x
    sine, cosine = x * _series(_SIN, square), _series(_COS, square)
    swapped = (quadrant & 1) == 1
    first, second = jnp.where(swapped, -sine, cosine), jnp.where(swapped, cosine, sine)
    sign = jnp.where(quadrant >= 2, -1, 1).astype(dtype)
    return sign * first, sign * second


def _series(coefficients: list[float], square: jax.Array) -> jax.Array:
    total = jnp.full_like(square, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * square + jnp.asarray(coefficient, square.dtype)
    return total


@pinned
@functools.partial(jax.jit, static_argnames=("count", "n", "dtype"))
def row_block(
    key: jax.Array, start: jax.Array | int, count: int, n: int, dtype: Any = "float64"
) -> jax.Array:
    """Rows start .. start + count - 1, each N(0, I/n), of those with `key`: (count, n).

    Row mu is drawn from fold_in(key, mu), in `dtype`, whatever the block it is drawn in. `start` is traced:
    one compilation serves every block of the same shape.
    """
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, start + jnp.arange(count, dtype=jnp.uint32))
    # a barrier: fused with what follows, radius and angle of a pair would be computed twice, and may round otherwise
    halves = jax.lax.optimization_barrier(_scaled_halves(keys, n, dtype))
    return jnp.concatenate(halves, axis=1)[:, :n]


def _scaled_halves(keys: jax.Array, n: int, dtype: str) -> tuple[jax.Array, jax.Array]:
    """Rows N(0, I/n) from a key each, in halves (`normal_halves`)."""
    first, second = jax.vmap(lambda key: normal_halves(key, n, dtype))(keys)
    scale = jnp.asarray(1 / math.sqrt(n), dtype)
    return first * scale, second * scale


@pinned
@functools.partial(jax.jit, static_argnames=("count", "n", "dtype"))
def row_halves(
    key: jax.Array, start: jax.Array | int, count: int, n: int, dtype: str
) -> tuple[jax.Array, jax.Array]:
    """The rows of `row_block` in two halves of columns, (count, width) each, for a GPU: one kernel writes both, of a width that
    products copy nothing for.

    The first ceil(n / 2) columns of each are those of the rows, but for the last of the second where n is odd. The rest
    must meet zeros. The words are those of `jax.random.bits` in its
    partitionable form.
    """
    h = -(-n // 2)
    words = jax.random.key_data(key)
    rows = encrypted(words[0], words[1], jnp.uint32(0), start + jnp.arange(count, dtype=jnp.uint32))
    columns = jnp.arange(gemm_width(h), dtype=jnp.uint32)
    pairs = [
        # Words of a row are numbered through both halves, as jax.random.bits numbers an array (2, h).
        encrypted(rows[0][:, None], rows[1][:, None], jnp.uint32(0), columns[None] + np.uint32(i * h))
        for i in (0, 1)
    ]
    # As JAX: 64 bits are both words of the cipher, 32 bits their exclusive or.
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


def rows_in_call(n: int) -> int:
    """Rows that one call draws on the host: a power of two, about 2^17 variates.

    >>> rows_in_call(100), rows_in_call(1000)
    (1024, 128)
    """
    return min(max(1 << (_VARIATES // n).bit_length() - 1, _FEWEST), _MOST)


class HostRows:
    """Rows N(0, I/n) as NumPy arrays, one after another, row i from the key of words keys[i] (r, 2) and index[i] (r,)."""

    def __init__(self, keys: NDArray, index: NDArray, n: int, dtype: str):
        self.n, self.dtype, size = n, dtype, rows_in_call(n)
        whole = -(-len(index) // size) * size  # rows that fill up the last call are not used
        keys, index = np.resize(keys, (whole, 2)), np.resize(index.astype(np.uint32), whole)
        starts = range(0, whole, size)
        self._calls = _ahead(_rows(keys[s : s + size], index[s : s + size], n, dtype) for s in starts)
        self._left: tuple[NDArray, ...] = (np.empty((0, n)), np.empty((0, n)))

    def next(self, number: int, length: int | None = None) -> NDArray:
        """The next rows (number, n), and zeros up to `length`."""
        rows, filled = aligned(length or number, self.n, np.dtype(self.dtype)), 0
        rows[number:] = 0
        while filled < number:
            if not len(self._left[0]):
                self._left = tuple(map(np.asarray, next(self._calls)))
            first, second = self._left
            taken, middle = min(number - filled, len(first)), first.shape[1]
            here = rows[filled : filled + taken]
            here[:, :middle], here[:, middle:] = first[:taken], second[:taken, : self.n - middle]
            self._left, filled = (first[taken:], second[taken:]), filled + taken
        return rows


def _ahead(calls: Iterable[T]) -> Iterator[T]:
    """The same items, each after another has been started: JAX draws while the last block is copied."""
    waiting: deque[T] = deque()
    for call in calls:
        waiting.append(call)
        if len(waiting) > 1:
            yield waiting.popleft()
    yield from waiting


@pinned
@functools.partial(jax.jit, static_argnames=("n", "dtype"))
def _rows(keys: jax.Array, index: jax.Array, n: int, dtype: str) -> tuple[jax.Array, jax.Array]:
    """Rows (r, n) in halves, each N(0, I/n), row i from the key of words keys[i] and the index of the row in its stream."""
    wrapped = jax.random.wrap_key_data(keys, impl="threefry2x32")
    return _scaled_halves(jax.vmap(jax.random.fold_in)(wrapped, index), n, dtype)


def aligned(m: int, n: int, dtype: np.dtype) -> NDArray:
    """An empty (m, n) array on a 64-byte boundary, where JAX's CPU client takes it over without a copy."""
    size = m * n * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(m, n)
