"""Random instances of the model: student, teacher and data from one key.

What solvers draw besides (starting vectors, probes of the density of states) comes from NumPy generators of fixed
seeds and changes no instance.

Keys are threefry2x32, named explicitly. Every row of the data has a key of its own, folded from the data key
and the row's index: rows nest (the first rows of a larger draw are those of a smaller one), any block of rows
can be drawn again, and no draw depends on the size of batches or blocks or on the number of devices. Bits
agree between runs on one kind of device; between kinds (CPU, GPU) the integers agree and the normal variates
agree to rounding.

Data are padded with rows of zeros to one of a few lengths, so that a program compiled for one alpha serves its neighbours.
A row of zeros has labels 0, weight F = 0, loss 0, gradient 0: the padding is exact and needs no mask.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sims.backend import HIGHEST, blas, pinned
from sims.checks import of_type, reals
from sims.students import on_sphere, placed
from sims.threefry import fold, normal_halves, normal_row
from theory.checks import ParameterError, count, flag, positive, shown
from theory.model.inputs import Inputs
from theory.model.network import Network, network

# The map from keys to draws. Its number rises with every change after which a key gives other variates (the layout of keys,
# the transform of bits, the order of rows): samples of two streams must not be taken for those of one.
STREAM = "threefry2x32/1"
ROWS = 64  # rows drawn by one call on a device, half of the most on the host
_CALL = 2**17  # variates that one call draws on the host, about
WEIGHTS, DATA, _NOISE, _OUTPUT_NOISE = 0, 1, 2, 3  # streams of one draw: what its key is folded with
_WIDEST = 2**31
WORD = 2**32  # how many numbers a word of a key tells apart
T = TypeVar("T")


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


def input_roots(model: Network, n: int) -> NDArray[np.float64] | None:
    """Square roots (n,) of the eigenvalues of Sigma at N = n, by which coordinates of N(0, I_N / N) are multiplied: ascending,
    at the quantiles (i + 1/2) / N of the model's law, rescaled to tr Sigma = N. None for Sigma = 1."""
    law = getattr(model, "covariance", None)
    return None if law is None else np.sqrt(law.eigenvalues(n))


def real_dtype(dtype: Any) -> np.dtype:
    """`dtype` as np.dtype, float32 or float64; else ParameterError."""
    try:
        name = np.dtype(dtype).name
    except (TypeError, ValueError, OverflowError, SyntaxError):
        name = ""
    if dtype is None or name not in ("float32", "float64"):
        raise ParameterError(f"dtype must be float32 or float64, got {shown(dtype)}")
    return np.dtype(name)


def samples_of(alpha: float, n: int) -> int:
    """Number of samples M = round(alpha N); ParameterError if alpha or N is unfit or M would be 0.

    >>> samples_of(2.5, 13)
    32
    """
    alpha, n = _scalar("alpha", alpha), count("n", n)
    if alpha * n >= WORD:
        raise ParameterError(f"alpha N must be below 2^32 samples, got alpha = {alpha!r}, N = {shown(n)}")
    m = round(alpha * n)
    if m < 1:
        raise ParameterError(f"alpha N must round to at least one sample, got alpha = {alpha!r}, N = {n}")
    return m


@pinned
def draw_key(seed: int, n: int, alpha: float | None, sample: int) -> jax.Array:
    """Key of one draw: a function of (seed, N, alpha, sample) alone. alpha = None: data shared by all alpha.

    Folds in N, the two 32-bit words of the float64 alpha, and the sample. Raises ParameterError.
    """
    return _wrapped(_draw_words(seed, n, alpha, sample))


def point_words(seed: int, n: int, alpha: float | None) -> NDArray[np.uint32]:
    """Words (2,) of the key from which those of all samples at a point are folded."""
    seed = below("seed", seed, 2**63)
    # the words of jax.random.key(seed), less the program's jax_random_seed_offset
    words = np.asarray([seed >> 32, seed & (WORD - 1)], np.uint32)
    folded = [below("n", count("n", n), WORD)]
    if alpha is not None:
        folded += np.asarray(_scalar("alpha", alpha)).reshape(1).view(np.uint32).tolist()
    for word in folded:
        words = fold(words, word)
    return words


def _draw_words(seed: int, n: int, alpha: float | None, sample: int) -> NDArray[np.uint32]:
    return fold(point_words(seed, n, alpha), below("sample", sample, WORD))


@pinned
def data_key(key: jax.Array) -> jax.Array:
    """Key of the rows of the data of the draw with this key."""
    return _fold(key, DATA)


def padded(m: int, least: int = 128) -> int:
    """Number of rows at or above m to which data are padded: multiples of `least`, at most 9 in each octave."""
    step = max(least, 1 << max(0, (m - 1).bit_length() - 4))
    return -(-m // step) * step


@pinned
@functools.partial(jax.jit, static_argnames=("count", "n", "dtype"))
def row_block(
    key: jax.Array, start: jax.Array | int, count: int, n: int, dtype: Any = "float64"
) -> jax.Array:
    """Rows start .. start + count - 1, each N(0, I/n), of the data with `key` (from `data_key`): (count, n).

    Row mu is drawn from fold_in(key, mu), in `dtype`, whatever the block it is drawn in. `start` is traced:
    one compilation serves every block of the same shape.
    """
    # a barrier: fused with what follows, radius and angle of a pair would be computed twice, and may round otherwise
    halves = jax.lax.optimization_barrier(_halves(key, start, count, n, dtype))
    return jnp.concatenate(halves, axis=1)[:, :n]


@pinned
@functools.partial(jax.jit, static_argnames=("count", "n", "dtype"))
def _halves(
    key: jax.Array, start: jax.Array | int, count: int, n: int, dtype: str
) -> tuple[jax.Array, jax.Array]:
    """`row_block` in two halves (count, ceil(n / 2)), as `sims.threefry.normal_halves` has them."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, start + jnp.arange(count, dtype=jnp.uint32))
    return scaled_halves(keys, n, dtype)


def scaled_halves(keys: jax.Array, n: int, dtype: str) -> tuple[jax.Array, jax.Array]:
    """Rows N(0, I/n) from a key each, in halves; for programs that return them apart."""
    first, second = jax.vmap(lambda key: normal_halves(key, n, dtype))(keys)
    scale = jnp.asarray(1 / math.sqrt(n), dtype)
    return first * scale, second * scale


def join(halves: Sequence[ArrayLike], rows: NDArray) -> None:
    """Write the first rows of two halves to `rows` (count, n) on the host."""
    first, second = (np.asarray(half)[: len(rows)] for half in halves)
    middle = first.shape[1]
    rows[:, :middle], rows[:, middle:] = first, second[:, : rows.shape[1] - middle]


@pinned
def draw_rows(
    key: jax.Array, m: int, n: int, dtype: Any = "float64", *, length: int | None = None
) -> NDArray:
    """Rows 0 .. m - 1 of the data whose key is `key`, then zeros, on the host: (length, n), length m by default."""
    rows = _aligned(length or m, n, real_dtype(dtype))
    size = min(2 * ROWS, max(8, 1 << (m - 1).bit_length()), max(8, 1 << (_CALL // n).bit_length()))
    calls = ((start, _halves(key, np.uint32(start), size, n, str(rows.dtype))) for start in range(0, m, size))
    for start, halves in ahead(calls):
        join(halves, rows[start : min(start + size, m)])
    rows[m:] = 0
    return rows


@pinned
def draw_data(key: jax.Array, m: int, n: int, dtype: Any = "float64") -> jax.Array:
    """Rows 0 .. m - 1 of the data whose key is `key`, then zeros: (padded(m), n), on JAX's default device."""
    dtype = str(real_dtype(dtype))
    if jax.default_backend() == "cpu":
        return jax.device_put(draw_rows(key, m, n, dtype, length=padded(m)), may_alias=True)
    data = jnp.zeros((padded(m), n), dtype)
    size = math.gcd(len(data), 1024)  # few calls, and few lengths
    for start in range(0, m, size):
        data = _place(data, row_block(key, np.uint32(start), size, n, dtype), start, m)
    return data


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
    p, dtype, data, shared = (
        finite_p(model),
        str(real_dtype(dtype)),
        flag("data", data),
        flag("shared", shared),
    )
    m = samples_of(alpha, n)
    n = count("n", n)
    room_for_teacher(model, n)
    if model.inputs is not None:
        model.inputs.require(m, n)
    words = _draw_words(seed, n, None if shared else alpha, sample)
    key = _wrapped(words)
    student, teacher = draw_weights(key, p, model.p_star, n, dtype)
    student = placed(model, student, teacher)
    roots = input_roots(model, n)
    if model.inputs is not None:
        rows: jax.Array | None = jax.device_put(given_rows(model.inputs, words, m, dtype))
    else:
        rows = draw_data(data_key(key), m, n, dtype) if data else None
    if rows is not None and roots is not None:
        rows = _spread(rows, jnp.asarray(roots, dtype))
    return Instance(model, m, jax.device_put(student), jax.device_put(teacher), rows, words)


def chosen(words: NDArray, count: int, m: int) -> NDArray[np.int64]:
    """Which m of `count` given rows the draw with these words of its key has, (m,): each row has a number of 64 bits, its index
    folded into the data key, and those of the lowest numbers are taken in order. A larger m has those of a smaller one first.

    >>> chosen(np.array([0, 7], np.uint32), 5, 5).tolist() == sorted(range(5))
    False
    """
    pairs = fold(fold(words, DATA), np.arange(count, dtype=np.uint32)).astype(np.uint64)
    numbers = pairs[:, 0] << np.uint64(32) | pairs[:, 1]
    del pairs
    lowest = np.argpartition(numbers, m - 1)[:m] if m < count else np.arange(count)
    return np.asarray(lowest[np.lexsort((lowest, numbers[lowest]))], np.int64)


def given_rows(rows: Inputs, words: NDArray, m: int, dtype: Any) -> NDArray:
    """The data (padded m, N) of the draw with these words: given rows over sqrt(N), then zeros."""
    found = _aligned(padded(m), rows.n, np.dtype(dtype))
    found[:m] = rows.take(chosen(words, rows.count, m)) / math.sqrt(rows.n)
    found[m:] = 0
    return found


def room_for_teacher(model: Network, n: int) -> None:
    """ParameterError where N is too small for orthogonal teacher rows."""
    if model.p_star > n:
        raise ParameterError(
            f"p_star must be at most N for orthogonal teacher rows, got p_star = {model.p_star}, N = {n}"
        )


@pinned
def draw_weights(
    key: jax.Array, p: int, p_star: int, n: int, dtype: Any = "float64"
) -> tuple[NDArray, NDArray]:
    """Student (p, n), rows independent and uniform on the sphere of radius sqrt(n), and teacher (p_star, n).

    Teacher rows are likewise uniform and mutually orthogonal (Haar): QR of Gaussian rows with diag R > 0.
    """
    rows = draw_rows(_fold(key, WEIGHTS), 2 * max(p, p_star), n, dtype)
    return weights_from(rows, p, p_star)


def weights_from(rows: NDArray, p: int, p_star: int) -> tuple[NDArray, NDArray]:
    """Student (..., p, n) and teacher (..., p_star, n) from Gaussian rows (..., 2 max(p, p_star), n)."""
    student = rows[..., 0 : 2 * p : 2, :]  # even and odd rows: each is the same whatever the widths
    q, r = np.linalg.qr(np.swapaxes(rows[..., 1 : 2 * p_star : 2, :], -1, -2))
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1, 1).astype(q.dtype)
    return on_sphere(student), on_sphere(np.swapaxes(q * signs[..., None, :], -1, -2))


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
    if getattr(model, "noise", 0.0):
        zeta = _normals(_fold(key, _NOISE), np.uint32(start), count, model.p_star)
    if getattr(model, "output_noise", 0.0):
        xi = _normals(_fold(key, _OUTPUT_NOISE), np.uint32(start), count, 1)[:, 0]
    return zeta, xi


@pinned
def outputs(instance: Instance, u: NDArray | None = None) -> NDArray[np.float64]:
    """Teacher outputs y (M,) with their noise on the host; u (M, p_star) as from `labels`, which is called without it."""
    of_type("instance", instance, Instance)
    u = labels(instance)[1] if u is None else reals("u", u, instance.m, len(instance.teacher))
    zeta, xi = (
        None if part is None else np.asarray(part)
        for part in teacher_noise(instance.model, instance.key, 0, instance.m)
    )
    return np.asarray(network(instance.model).outputs(u, zeta, xi))


@pinned
def preactivations(instance: Instance) -> tuple[jax.Array, jax.Array]:
    """lam = X w_k, (padded M, p), and u = X w*_l, (padded M, p_star), zero from row M on."""
    of_type("instance", instance, Instance)
    if instance.data is None:
        raise ParameterError("preactivations need the data of the instance, drawn with data=True")
    return (
        jnp.matmul(instance.data, instance.student.T, precision=HIGHEST),
        jnp.matmul(instance.data, instance.teacher.T, precision=HIGHEST),
    )


@pinned
def labels(instance: Instance) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """lam (M, p) and u (M, p_star) on the host in float64, not padded; without data rows are drawn."""
    return labels_inside(of_type("instance", instance, Instance))


def labels_inside(instance: Instance) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`labels` for callers that are pinned themselves: to see that a call is takes as long as the labels of a small sample."""
    weights = np.concatenate([np.asarray(instance.student), np.asarray(instance.teacher)]).T
    if instance.data is None:
        if instance.roots is not None:
            weights = weights * instance.roots[:, None].astype(weights.dtype)
        key, dtype = data_key(instance.key), str(weights.dtype)
        starts = range(0, instance.m, ROWS)
        blocks = (np.asarray(row_block(key, np.uint32(s), ROWS, instance.n, dtype)) for s in starts)
        both = np.concatenate([block @ weights for block in blocks])
    else:
        data = np.asarray(instance.data)
        both = blas("gemm", data.dtype)(1.0, weights, data.T, trans_a=1).T
    both = both[: instance.m].astype(np.float64)
    p = instance.student.shape[0]
    return both[:, :p], both[:, p:]


def finite_p(model: Network) -> int:
    """The student's width as an int; ParameterError for p = inf, and for what is no model."""
    if math.isinf(network(model).p):
        raise ParameterError("p must be finite to draw samples, got inf")
    if model.p >= _WIDEST:
        raise ParameterError(f"p must be below 2^31 to draw samples, got {model.p:g}")
    return int(model.p)


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


def ahead(calls: Iterable[T], depth: int = 2) -> Iterator[T]:
    """The same items, each after `depth` more have been started: JAX draws while the last block is copied."""
    waiting: deque[T] = deque()
    for call in calls:
        waiting.append(call)
        if len(waiting) > depth:
            yield waiting.popleft()
    yield from waiting


def _fold(key: jax.Array, word: int) -> jax.Array:
    return _wrapped(fold(np.asarray(jax.random.key_data(key)), word))


def _wrapped(words: Any) -> jax.Array:
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _aligned(m: int, n: int, dtype: np.dtype) -> NDArray:
    """An empty (m, n) array on a 64-byte boundary, where JAX's CPU client takes it over without a copy."""
    size = m * n * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(m, n)


def _scalar(name: str, value: Any) -> float:
    number = positive(name, value)
    if np.ndim(number):
        raise ParameterError(f"{name} must be one number, got an array of shape {np.shape(number)}")
    return number


def below(name: str, value: int, bound: int) -> int:
    """`value`, a whole number from 0 to bound - 1; else ParameterError."""
    number = count(name, value, minimum=0)
    if number >= bound:
        raise ParameterError(f"{name} must be below {bound}, got {shown(value)}")
    return number
