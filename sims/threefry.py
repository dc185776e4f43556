"""Random numbers: keys, words and normal variates of threefry-2x32.

Keys are folded on the host as `jax.random.fold_in` folds them, bit for bit: the words of (0, word) under the key. A draw needs
a handful of keys. The programs that JAX would lower and load for these few integers cost every process about 0.2 s at its
start; the keys of single rows, of which there are many, are JAX's.

Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, SC11 (2011), section 4.

Normal variates come of the bits by the Box-Muller transform, in place of `jax.random.normal`, which inverts the error function
at twice the cost in float64 on a CPU. Two words of random bits give two variates, sqrt(-2 log u) (cos, sin)(2 pi v). In
float64 u has 53 bits and the largest variate is 8.6; in float32 it has 32 bits, where small u keep their digits, and the
largest is 6.7.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sims.backend import pinned

Words = NDArray[np.uint32]

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = 0x1BD11BDA


def fold(key: ArrayLike, word: ArrayLike) -> Words:
    """Words (..., 2) of the keys that come of folding words (...) into keys (..., 2), both of 32 bits; shapes broadcast.

    >>> fold([0, 7], [1, 2]).tolist() == [fold([0, 7], 1).tolist(), fold([0, 7], 2).tolist()]
    True
    """
    pair, second = np.asarray(key, np.uint32), np.atleast_1d(np.asarray(word, np.uint32))
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
