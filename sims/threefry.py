"""Keys folded on the host as `jax.random.fold_in` folds them, bit for bit: threefry-2x32 of (0, word) under the key.

A draw needs a handful of keys. The programs that JAX would lower and load for these few integers cost every process about
0.2 s at its start; the keys of single rows, of which there are many, are JAX's.

Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, SC11 (2011), section 4.
"""

from __future__ import annotations

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
    schedule = (pair[..., 0], pair[..., 1], pair[..., 0] ^ pair[..., 1] ^ np.uint32(_PARITY))
    x, y = np.broadcast_arrays(np.zeros_like(second) + schedule[0], second + schedule[1])
    for turn in range(5):
        for by in _ROTATIONS[turn % 2]:
            x = x + y
            y = (y << np.uint32(by) | y >> np.uint32(32 - by)) ^ x
        x = x + schedule[(turn + 1) % 3]
        y = y + schedule[(turn + 2) % 3] + np.uint32(turn + 1)
    return np.stack([x, y], axis=-1).reshape((*np.broadcast_shapes(pair.shape[:-1], np.shape(word)), 2))
