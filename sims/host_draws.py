"""Many instances on the host, the rows of all of them from few calls of JAX.

A call costs more than the variates of a small instance do, and a program compiled for each M would cost more than both. So the
rows that a list of samples needs, those of their weights and those of their data, are numbered through, and each call draws
the next so many of them: its length depends on N alone, a call serves several small samples or a part of a large one, and what
a sample gets does not depend on its company, since every row has a key of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, cast

import jax
import numpy as np
from numpy.typing import NDArray

from sims import instance
from sims.backend import pinned
from sims.checks import indices
from sims.instance import Instance
from sims.students import placed
from sims.threefry import fold
from theory.checks import count
from theory.model.network import Network

STREAM = (
    2**16
)  # rows that are numbered through together, about: the last call for them draws more than are used
_VARIATES = 2**17  # drawn in one call, about: as many as stay in cache
_FEWEST, _MOST = 8, 1024  # rows of a call


def draw_on_host(
    model: Network, n: int, alpha: float, samples: Sequence[int], *, seed: int = 0, dtype: Any = "float64"
) -> Iterator[Instance]:
    """The instances that `sims.instance.draw` gives for these samples, bit for bit, as NumPy arrays, one after the other.

    Raises ParameterError as `draw` does, before the first.

    >>> from theory.model import Network
    >>> [drawn.m for drawn in draw_on_host(Network(2, 1, 1.0), 12, 2.5, [0, 3], seed=1)]
    [30, 30]
    """
    instance.finite_p(model)
    dtype = str(instance.real_dtype(dtype))
    m, n, samples = instance.samples_of(alpha, n), count("n", n), indices("samples", samples)
    samples = [instance.below("sample", sample, instance.WORD) for sample in samples]
    instance.room_for_teacher(model, n)
    if model.inputs is not None:
        model.inputs.require(m, n)
    return _instances(model, n, m, samples, instance.point_words(seed, n, alpha), dtype)


def rows_in_call(n: int) -> int:
    """Rows that one call draws: a power of two, about 2^17 variates.

    >>> rows_in_call(100), rows_in_call(1000)
    (1024, 128)
    """
    return min(max(1 << (_VARIATES // n).bit_length() - 1, _FEWEST), _MOST)


def _instances(
    model: Network, n: int, m: int, samples: list[int], point: NDArray, dtype: str
) -> Iterator[Instance]:
    p, height = instance.finite_p(model), 2 * max(int(model.p), model.p_star)
    roots = instance.input_roots(model, n)
    drawn_rows = m if model.inputs is None else 0
    together = max(1, STREAM // (height + drawn_rows))
    for start in range(0, len(samples), together):
        some = samples[start : start + together]
        words = fold(point, some)
        drawn = _Rows(fold(words, [[instance.WEIGHTS], [instance.DATA]]), height, drawn_rows, n, dtype)
        weights = drawn.next(len(some) * height).reshape(len(some), height, n)
        students, teachers = instance.weights_from(weights, p, model.p_star)
        for student, teacher, own in zip(students, teachers, words, strict=True):
            data: Any
            if model.inputs is not None:
                data = instance.given_rows(model.inputs, own, m, dtype)
            else:
                data = drawn.next(m, instance.padded(m))
            if roots is not None:
                data *= roots.astype(data.dtype)
            yield Instance(
                model, m, cast(Any, placed(model, student, teacher)), cast(Any, teacher), data, own
            )


class _Rows:
    """The rows of some samples in a row: first those of all their weights, `height` each, then those of their data, m each.

    words  (2, s, 2) of the keys of weights and data
    """

    def __init__(self, words: NDArray, height: int, m: int, n: int, dtype: str):
        self.n, self.dtype, size = n, dtype, rows_in_call(n)
        number = words.shape[1]
        keys = np.concatenate([np.repeat(words[0], height, axis=0), np.repeat(words[1], m, axis=0)])
        index = np.concatenate([np.tile(np.arange(height), number), np.tile(np.arange(m), number)])
        whole = -(-len(index) // size) * size  # rows that fill up the last call are not used
        keys, index = np.resize(keys, (whole, 2)), np.resize(index.astype(np.uint32), whole)
        starts = range(0, whole, size)
        calls = (_rows(keys[s : s + size], index[s : s + size], n, dtype) for s in starts)
        self._calls = instance.ahead(calls, 1)
        self._left: tuple[NDArray, ...] = (np.empty((0, n)), np.empty((0, n)))

    def next(self, number: int, length: int | None = None) -> NDArray:
        """The next rows (number, n), and zeros up to `length`."""
        rows, filled = np.empty((length or number, self.n), self.dtype), 0
        rows[number:] = 0
        while filled < number:
            if not len(self._left[0]):
                self._left = tuple(map(np.asarray, next(self._calls)))
            end = min(number, filled + len(self._left[0]))
            instance.join(self._left, rows[filled:end])
            self._left = tuple(half[end - filled :] for half in self._left)
            filled = end
        return rows


@pinned
@functools.partial(jax.jit, static_argnames=("n", "dtype"))
def _rows(keys: jax.Array, index: jax.Array, n: int, dtype: str) -> tuple[jax.Array, jax.Array]:
    """Rows (r, n) in halves, each N(0, I/n), row i from the key of words keys[i] and the index of the row in its stream."""
    wrapped = jax.random.wrap_key_data(keys, impl="threefry2x32")
    own = jax.vmap(jax.random.fold_in)(wrapped, index)
    return instance.scaled_halves(own, n, dtype)
