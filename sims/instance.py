"""Random instances of the model: student, teacher and data from one key.

What solvers draw besides (starting vectors, probes of the density of states) comes from NumPy generators of fixed
seeds and changes no instance.

Keys are threefry2x32, named explicitly. Every row of the data has a key of its own, folded from the data key
and the row's index: rows nest (the first rows of a larger draw are those of a smaller one), any block of rows
can be drawn again, and no draw depends on the size of batches or blocks or on the number of devices. Bits
agree between runs on one kind of device; between kinds (CPU, GPU) the integers agree and the normal variates
agree to rounding.

Data are padded with rows of zeros to one of a few lengths, so that a program compiled for one alpha serves its neighbours.
A row of zeros has preactivations 0, weight F = 0, loss 0, gradient 0: the padding is exact and needs no mask.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sims.backend import HIGHEST, blas, pinned
from sims.checks import WORD, below, finite_p, indices, of_type, real_dtype, reals, samples_of
from sims.threefry import HostRows, aligned, fold, normal_row, row_block
from theory.checks import ParameterError, count, flag, one, positive
from theory.model.inputs import Inputs
from theory.model.network import Network

# The map from keys to draws. Its number rises with every change after which a key gives other variates (the layout of keys,
# the transform of bits, the order of rows): samples of two streams must not be taken for those of one.
STREAM = "threefry2x32/1"
ROWS = 64  # rows whose preactivations are found at once where rows are drawn for them
# rows that are numbered through together, about: the last call for them draws more than are used
TOGETHER = 2**16
WEIGHTS, DATA, _NOISE, _OUTPUT_NOISE = 0, 1, 2, 3  # streams of one draw: what its key is folded with


@dataclass(frozen=True)
class Instance:
    """One draw. Rows of student and teacher have norm sqrt(N), unless the model's Gram matrix says otherwise; teacher rows
    are orthogonal.

    model    the Network
    m        number of samples M
    student  (p, N)
    teacher  (p_star, N)
    data     (padded M, N), rows x ~ N(0, Sigma / N), zero from row M on; None: rows are drawn when needed. Sigma is diagonal:
             the coordinates are its eigenbasis, in which student and teacher are isotropic. Of inputs of one's own: M of their
             rows over sqrt(N), in the order of `chosen`
    words    (2,) of the key of the draw; `data_key(key)` is that of its rows
    """

    model: Network
    m: int
    student: jax.Array
    teacher: jax.Array
    data: jax.Array | None
    words: NDArray[np.uint32]

    @property
    @pinned
    def key(self) -> jax.Array:
        """The key of the draw."""
        return _wrapped(self.words)

    @property
    def n(self) -> int:
        """Input dimension N."""
        return self.student.shape[1]

    @property
    @pinned
    def signal(self) -> jax.Array:
        """Unit teacher rows w*_l / sqrt(N), (p_star, N)."""
        return self.teacher / math.sqrt(self.n)

    @property
    def roots(self) -> NDArray[np.float64] | None:
        """Square roots (N,) of the eigenvalues of Sigma; None for Sigma = 1."""
        return input_roots(self.model, self.n)


@pinned
def draw(
    model: Network,
    n: int,
    alpha: float,
    *,
    seed: int = 0,
    sample: int = 0,
    dtype: Any = "float64",
    data: bool = True,
    shared: bool = False,
) -> Instance:
    """One draw of teacher, student and data at (N, alpha).

    Parameters
    ----------
    model : Network
        Of finite p.
    n, alpha : int, float
        Input dimension N, and M / N: M is the nearest integer to alpha N.
    seed, sample : int
        Which draw: a function of (seed, N, alpha, sample) alone.
    dtype : str
        "float64" or "float32", of the arrays.
    data : bool
        False leaves the rows to be drawn when needed; inputs of one's own are always there.
    shared : bool
        True leaves alpha out of the key: teacher, student and rows are then those of every other alpha, of which a larger one
        has more rows.

    Returns
    -------
    Instance

    Raises
    ------
    theory.checks.ParameterError
        On p = inf, p_star > N, M = 0 or an unfit argument.

    >>> drawn = draw(Network(2, 1, 1.0), 12, 2.5, seed=1)
    >>> drawn.m, drawn.student.shape, drawn.teacher.shape, drawn.data.shape
    (30, (2, 12), (1, 12), (128, 12))
    """
    m, n, dtype = _fitting(model, n, alpha, dtype)
    data, shared = flag("data", data), flag("shared", shared)
    words = fold(point_words(seed, n, None if shared else alpha), [below("sample", sample, WORD)])
    on_host = data and jax.default_backend() == "cpu"
    drawn = next(_instances(model, n, m, words, dtype, rows=on_host))
    rows = drawn.data
    if rows is None and data:
        rows = _device_rows(data_key(drawn.key), m, n, dtype, drawn.roots)
    return replace(
        drawn,
        student=jax.device_put(drawn.student),
        teacher=jax.device_put(drawn.teacher),
        # Aligned memory is taken over, not copied.
        data=None if rows is None else jax.device_put(rows, may_alias=True),
    )


def draw_on_host(
    model: Network, n: int, alpha: float, samples: Sequence[int], *, seed: int = 0, dtype: Any = "float64"
) -> Iterator[Instance]:
    """The instances that `draw` gives for these samples, bit for bit, as NumPy arrays, one after the other.

    Raises ParameterError as `draw` does, before the first.

    >>> [drawn.m for drawn in draw_on_host(Network(2, 1, 1.0), 12, 2.5, [0, 3], seed=1)]
    [30, 30]
    """
    m, n, dtype = _fitting(model, n, alpha, dtype)
    samples = [below("sample", sample, WORD) for sample in indices("samples", samples)]
    words = fold(point_words(seed, n, alpha), samples).reshape(-1, 2)
    return _instances(model, n, m, words, dtype, rows=True)


def _fitting(model: Network, n: int, alpha: float, dtype: Any) -> tuple[int, int, str]:
    """M, N and dtype of a draw; ParameterError where they do not fit the model."""
    finite_p(model)
    m, n, dtype = samples_of(alpha, n), count("n", n), str(real_dtype(dtype))
    if model.p_star > n:
        raise ParameterError(
            f"p_star must be at most N for orthogonal teacher rows, got p_star = {model.p_star}, N = {n}"
        )
    if model.inputs is not None:
        model.inputs.require(m, n)
    return m, n, dtype


def _instances(
    model: Network, n: int, m: int, words: NDArray, dtype: str, *, rows: bool
) -> Iterator[Instance]:
    """The draws with these words (s, 2), as NumPy arrays; their rows too, but on inputs of one's own, if asked for."""
    p, height, roots = finite_p(model), 2 * max(int(model.p), model.p_star), input_roots(model, n)
    number = m if rows and model.inputs is None else 0
    together = max(1, TOGETHER // (height + number))
    for start in range(0, len(words), together):
        some = words[start : start + together]
        # first the rows of all weights, `height` of each sample, then those of their data
        of_weights, of_data = fold(some, [[WEIGHTS], [DATA]])
        keys = np.concatenate([np.repeat(of_weights, height, axis=0), np.repeat(of_data, number, axis=0)])
        index = np.concatenate([np.tile(np.arange(height), len(some)), np.tile(np.arange(number), len(some))])
        drawn = HostRows(keys, index, n, dtype)
        weights = drawn.next(len(some) * height).reshape(len(some), height, n)
        students, teachers = weights_from(weights, p, model.p_star)
        for student, teacher, own in zip(students, teachers, some, strict=True):
            data: Any = None
            if model.inputs is not None:
                data = _given_rows(model.inputs, own, m, dtype)
            elif rows:
                data = drawn.next(m, padded(m))
            if data is not None and roots is not None:
                data *= roots.astype(data.dtype)
            at: Any = placed(model, student, teacher)
            yield Instance(model, m, at, teacher, data, own)


def _device_rows(key: jax.Array, m: int, n: int, dtype: str, roots: NDArray | None) -> jax.Array:
    """Rows 0 .. m - 1 of the data whose key is `key`, then zeros: (padded(m), n), drawn on JAX's default device."""
    data = jnp.zeros((padded(m), n), dtype)
    size = math.gcd(len(data), 1024)  # few calls, and few lengths
    for start in range(0, m, size):
        data = _place(data, row_block(key, np.uint32(start), size, n, dtype), start, m)
    return data if roots is None else _spread(data, jnp.asarray(roots, dtype))


def chosen(words: NDArray, count: int, m: int) -> NDArray[np.int64]:
    """Which m of `count` given rows the draw with these words of its key has, (m,): each row has a number of 64 bits, its index
    folded into the data key, and those of the lowest numbers are taken in order. A larger m has those of a smaller one first.

    Parameters
    ----------
    words : array (2,) of uint32
        Of the key of the draw (`Instance.words`).
    count, m : int
        Rows there are, and rows taken: m is at most count.

    Returns
    -------
    array (m,) of int
        Indices of rows, in the order in which the draw has them.

    >>> chosen(np.array([0, 7], np.uint32), 5, 5).tolist() == sorted(range(5))
    False
    """
    pairs = fold(fold(words, DATA), np.arange(count, dtype=np.uint32)).astype(np.uint64)
    numbers = pairs[:, 0] << np.uint64(32) | pairs[:, 1]
    del pairs
    lowest = np.argpartition(numbers, m - 1)[:m] if m < count else np.arange(count)
    return np.asarray(lowest[np.lexsort((lowest, numbers[lowest]))], np.int64)


def _given_rows(rows: Inputs, words: NDArray, m: int, dtype: str) -> NDArray:
    """The data (padded m, N) of the draw with these words: given rows over sqrt(N), then zeros."""
    found = aligned(padded(m), rows.n, np.dtype(dtype))
    found[:m] = rows.take(chosen(words, rows.count, m)) / math.sqrt(rows.n)
    found[m:] = 0
    return found


def weights_from(rows: NDArray, p: int, p_star: int) -> tuple[NDArray, NDArray]:
    """Student (..., p, n), rows uniform on the sphere of radius sqrt(n), and teacher (..., p_star, n), uniform and mutually
    orthogonal (Haar: QR with diag R > 0), from Gaussian rows (..., 2 max(p, p_star), n)."""
    student = rows[..., 0 : 2 * p : 2, :]  # even and odd rows: each is the same whatever the widths
    q, r = np.linalg.qr(np.swapaxes(rows[..., 1 : 2 * p_star : 2, :], -1, -2))
    # LAPACK leaves the signs of diag R open: without this the rows would not be Haar.
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1, 1).astype(q.dtype)
    return _on_sphere(student), _on_sphere(np.swapaxes(q * signs[..., None, :], -1, -2))


def placed(model: Network, rows: NDArray, teacher: NDArray) -> NDArray:
    """Students (p, N) at the model's overlaps with the teacher (p_star, N), from rows (p, N) drawn at random.

    Without overlap and Gram matrix the rows themselves, which meet the teacher by chance, O(N^{-1/2}). With an overlap R
    student k is R_k W* + sqrt(1 - |R_k|^2) times its own direction, its row less the part in the teacher's span:
    w_k.w*_l / N is R_kl exactly, and own directions meet by chance. With a Gram matrix own directions are made orthogonal
    too: w_k.w_j / N is Q_kj. Raises ParameterError where N leaves no room for the directions.
    """
    if model.gram is None and model.overlap == 0.0:
        return rows
    p, (p_star, n) = len(rows), teacher.shape
    need = p_star + (1 if model.gram is None else p)
    if need > n:
        raise ParameterError(f"N must be at least {need} for students at given overlaps, got {n}")
    w, r = teacher.astype(np.float64), model.overlap_matrix
    own = rows - (rows @ w.T / n) @ w
    if model.gram is None:
        # An overlap of 1 leaves nothing, or a rounding error below 0.
        length = np.sqrt(np.clip(1 - np.sum(r**2, axis=1), 0, None))[:, None]
        return (r @ w + length * _on_sphere(own)).astype(rows.dtype)
    q, triangle = np.linalg.qr(own.T)
    own = (q * np.where(np.diag(triangle) < 0, -1, 1)).T * math.sqrt(n)
    return (model.mixing() @ np.concatenate([w, own])).astype(rows.dtype)


def _on_sphere(rows: NDArray) -> NDArray:
    """Rows (..., N) scaled to norm sqrt(N)."""
    return rows * (math.sqrt(rows.shape[-1]) / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(
        rows.dtype
    )


def input_roots(model: Network, n: int) -> NDArray[np.float64] | None:
    """Square roots (n,) of the eigenvalues of Sigma at N = n, by which coordinates of N(0, I_N / N) are multiplied: ascending,
    at the quantiles (i + 1/2) / N of the model's law, rescaled to tr Sigma = N. None for Sigma = 1."""
    law: Any = model.covariance
    return None if law is None else np.sqrt(law.eigenvalues(n))


def point_words(seed: int, n: int, alpha: float | None) -> NDArray[np.uint32]:
    """Words (2,) of the key into which the number of a sample is folded: a function of (seed, N, alpha), or of the first two.

    Folds in N and the two 32-bit words of the float64 alpha; None: data shared by all alpha. Raises ParameterError.
    """
    seed = below("seed", seed, 2**63)
    # the words of jax.random.key(seed), less the program's jax_random_seed_offset
    words = np.asarray([seed >> 32, seed & (WORD - 1)], np.uint32)
    folded = [below("n", count("n", n), WORD)]
    if alpha is not None:
        folded += np.asarray(one("alpha", positive("alpha", alpha))).reshape(1).view(np.uint32).tolist()
    for word in folded:
        words = fold(words, word)
    return words


@pinned
def data_key(key: jax.Array) -> jax.Array:
    """Key of the rows of the data of the draw with this key."""
    return _fold(key, DATA)


def padded(m: int, least: int = 128) -> int:
    """Number of rows at or above m to which data are padded: multiples of `least`, at most 9 in each octave."""
    step = max(least, 1 << max(0, (m - 1).bit_length() - 4))
    return -(-m // step) * step


@pinned
def teacher_noise(
    model: Network, key: jax.Array, start: int, count: int
) -> tuple[jax.Array | None, jax.Array | None]:
    """Normals of the noise of samples start .. start + count - 1 of the draw with `key`, float64: zeta (count, p_star) of
    `noise` and xi (count,) of `output_noise`; None where the model has none.

    Sample mu has keys of its own, in streams of their own: the noise changes nothing else, does not depend on alpha's number of
    rows, and zeta does not depend on whether there is output noise.
    """
    zeta = xi = None
    if model.noise:
        zeta = _normals(_fold(key, _NOISE), np.uint32(start), count, model.p_star)
    if model.output_noise:
        xi = _normals(_fold(key, _OUTPUT_NOISE), np.uint32(start), count, 1)[:, 0]
    return zeta, xi


@pinned
def outputs(instance: Instance, u: NDArray | None = None) -> NDArray[np.float64]:
    """Teacher outputs y (M,) with their noise on the host.

    Parameters
    ----------
    instance : Instance
    u : array (M, p_star)
        Preactivations of the teacher; None: those of `preactivations`.

    Returns
    -------
    array (M,)
        In float64.

    Raises
    ------
    theory.checks.ParameterError
        On u of another shape.
    """
    of_type("instance", instance, Instance)
    u = preactivations(instance)[1] if u is None else reals("u", u, instance.m, len(instance.teacher))
    zeta, xi = (
        None if part is None else np.asarray(part)
        for part in teacher_noise(instance.model, instance.key, 0, instance.m)
    )
    return np.asarray(instance.model.outputs(u, zeta, xi))


@pinned
def preactivations(instance: Instance) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """lam (M, p) and u (M, p_star) on the host in float64, not padded; without data rows are drawn.

    Parameters
    ----------
    instance : Instance

    Returns
    -------
    lam, u : arrays (M, p) and (M, p_star)
        X w_k and X w*_l: of variance 1 where the rows of weights have norm sqrt(N).
    """
    return preactivations_inside(of_type("instance", instance, Instance))


def preactivations_inside(instance: Instance) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`preactivations` for callers that are pinned themselves: to find that out takes as long as those of a small sample."""
    p = instance.student.shape[0]
    if instance.data is not None and jax.default_backend() != "cpu":
        rows = instance.student, instance.teacher  # the data stay on the device
        parts = [np.asarray(jnp.matmul(instance.data, w.T, precision=HIGHEST)) for w in rows]
        lam, u = (part[: instance.m].astype(np.float64) for part in parts)
        return lam, u
    weights = np.concatenate([np.asarray(instance.student), np.asarray(instance.teacher)]).T
    if instance.data is None:
        if instance.roots is not None:
            # Rows are drawn without Sigma^(1/2): the weights have it instead.
            weights = weights * instance.roots[:, None].astype(weights.dtype)
        key, dtype = data_key(instance.key), str(weights.dtype)
        starts = range(0, instance.m, ROWS)
        blocks = (np.asarray(row_block(key, np.uint32(s), ROWS, instance.n, dtype)) for s in starts)
        both = np.concatenate([block @ weights for block in blocks])
    else:
        data = np.asarray(instance.data)
        both = blas("gemm", data.dtype)(1.0, weights, data.T, trans_a=1).T
    both = both[: instance.m].astype(np.float64)
    return both[:, :p], both[:, p:]


@functools.partial(jax.jit, static_argnums=(2, 3))
def _normals(key: jax.Array, start: jax.Array | int, count: int, width: int) -> jax.Array:
    """Normals (count, width) in float64, row i from fold_in(key, start + i)."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, start + jnp.arange(count, dtype=jnp.uint32))
    return jax.vmap(lambda k: normal_row(k, width))(keys)


@functools.partial(jax.jit, donate_argnums=0)
def _spread(rows: jax.Array, roots: jax.Array) -> jax.Array:
    return rows * roots


@functools.partial(jax.jit, donate_argnums=0)
def _place(data: jax.Array, block: jax.Array, start: jax.Array | int, m: jax.Array | int) -> jax.Array:
    inside = start + jnp.arange(block.shape[0]) < m
    return jax.lax.dynamic_update_slice_in_dim(data, jnp.where(inside[:, None], block, 0), start, axis=0)


def _fold(key: jax.Array, word: int) -> jax.Array:
    return _wrapped(fold(np.asarray(jax.random.key_data(key)), word))


def _wrapped(words: Any) -> jax.Array:
    return jax.random.wrap_key_data(words, impl="threefry2x32")
