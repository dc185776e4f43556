"""Keys folded on the host as `jax.random.fold_in` folds them, bit for bit: threefry-2x32 of (0, word) under the key.

A draw needs a handful of keys. The programs that JAX would lower and load for these few integers cost every process about
0.2 s at its start; the keys of single rows, of which there are many, are JAX's.

Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, SC11 (2011), section 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
