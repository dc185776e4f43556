"""Lowest eigenpairs through the dense Hessian, with residuals, a result code, and the rank of the largest overlap of all.

On the CPU: Householder reduction to a tridiagonal matrix T (sytrd), the k lowest pairs of T (bisection
and inverse iteration), and only those k vectors carried back (ormqr). This is what SciPy's `eigh` does
for a subset. It differs in keeping T: squared overlaps of ALL eigenvectors with a few given directions cost O(n^2)
where `eigh` would form n vectors, and at large orders a bound in O(n) on what the others can have may spare even that
(`sims.tridiagonal`). On a GPU: the device's own `eigh`, whose result JAX does not check; here it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh, eigh_tridiagonal

from sims import hessian, machine
from sims.backend import HIGHEST, blas, pinned, power_of_two, threads_for
from sims.checks import finite_p, real_dtype, reals, samples_of
from sims.instance import Instance, padded
from sims.signal import signal_vectors
from sims.solvers import Code, Eigenpairs, Overlaps, Solver, nothing
from sims.tridiagonal import (
    SEPARATE,
    STEPS,
    Reduced,
    carried,
    group_means,
    groups,
    lowest_vectors,
    same,
    settled,
    spectra_overlaps,
    tridiagonal,
)
from theory.checks import ParameterError, count, flag
from theory.model.network import Network

# order above which a bound may spare all eigenvalues: below, they take less time than the bound
BOUNDED = 1000
_MILD = 32  # binary orders of magnitude about 1 within which a matrix is taken as it is
_TRUST = 50  # errors of pairs accepted, in n eps |H| and n eps: the threshold of LAPACK's own tests


@pinned
def lowest_dense(
    hessian: Any, k: int, signal: ArrayLike | None = None, *, overwrite: bool = False
) -> Eigenpairs:
    """The k lowest eigenpairs of a symmetric matrix (n, n), both triangles filled.

    signal     (n, r) orthonormal columns: also find squared overlaps with their span, and which of all n
               eigenvectors has the largest
    overwrite  allow a column-major NumPy matrix to be destroyed

    The matrix is solved in units of a power of two near its largest entry where squares of entries could under- or overflow.

    Raises ParameterError for anything but a square matrix of real floats, k outside 1..n, a signal of another shape, or n
    beyond what the routines can index. A result that fails the checks is computed again by `scipy.linalg.eigh` of the whole
    matrix, and returned with its code if that fails too.

    >>> lowest_dense(np.diag([3.0, 1.0, 2.0]), 2).values.round(9).tolist()
    [1.0, 2.0]
    """
    hessian, overwrite = reals("hessian", hessian), flag("overwrite", overwrite)
    if hessian.ndim != 2 or hessian.shape[0] != hessian.shape[1] or not hessian.size:
        raise ParameterError(f"hessian must be a square matrix (n, n), got shape {hessian.shape}")
    n = len(hessian)
    if signal is not None:
        signal = reals("signal", signal)
        if np.ndim(signal) != 2 or np.shape(signal)[0] != n:
            raise ParameterError(f"signal must be columns ({n}, r), got shape {np.shape(signal)}")
    k = count("k", k)
    if k > n:
        raise ParameterError(f"k must be at most the order of the Hessian, got k = {k}, order {n}")
    check_order(n)
    if isinstance(hessian, jax.Array) and jax.default_backend() != "cpu":
        return lowest_on_device(hessian[None], k, [signal])[0]
    kept = not overwrite or isinstance(hessian, jax.Array)
    return lowest_together([np.array(hessian, order="F") if kept else hessian], k, [signal])[0]


def check_order(n: int) -> None:
    """ParameterError if dense routines cannot index a matrix of order n on JAX's default platform."""
    platform = jax.default_backend()
    widest = machine.WIDEST.get(platform, machine.WIDEST["gpu"])
    if n > widest:
        raise ParameterError(
            f"a dense Hessian of order p N = {n} is beyond the {widest} that {platform} routines index"
        )


@pinned
def solve_together(drawn: Sequence[Instance], k: int) -> list[Eigenpairs]:
    """Lowest k eigenpairs of instances of one model, N and M, each the same to the bit whatever others come with it.

    In units of a power of two near the largest weight, which float32 could not hold for every a.
    """
    with threads_for(drawn[0].student.size):
        signals = [signal_vectors(one.teacher, one.student.shape[0]) for one in drawn]
        weights = hessian.weights_together(drawn)
        units = [power_of_two(size) for size in np.max(np.abs(weights), axis=(1, 2, 3)).tolist()]
        weights = weights / np.reshape(units, (-1, 1, 1, 1))
        if jax.default_backend() == "cpu":
            data = [np.asarray(one.data)[: one.m] for one in drawn]
            matrices = [hessian.dense_blas(*both) for both in zip(data, weights, strict=True)]
            return lowest_together(matrices, k, signals, units)
        order, dtype = drawn[0].student.size, drawn[0].student.dtype
        width, found = machine.solved_together(order, dtype.itemsize), []
        for start in range(0, len(drawn), width):
            here = slice(start, start + width)
            made = [_matrix_on_device(*both) for both in zip(drawn[here], weights[here], strict=True)]
            # always so many, for the numbers of a matrix not to depend on its company
            made += [jnp.eye(order, dtype=dtype)] * (width - len(made))
            found += lowest_on_device(jnp.stack(made), k, signals[here])
        return [pairs.times(unit) for pairs, unit in zip(found, units, strict=True)]


def _matrix_on_device(drawn: Instance, weights: NDArray) -> jax.Array:
    assert drawn.data is not None  # sample_point draws it for this solver
    whole = np.zeros((len(drawn.data), *weights.shape[1:]), drawn.data.dtype)
    whole[: drawn.m] = weights
    return hessian.dense(drawn.data, jnp.asarray(whole))


def lowest_on_device(hessians: jax.Array, k: int, signals: Sequence[Any]) -> list[Eigenpairs]:
    """`lowest_dense` of the first of a stack (b, n, n), as many as there are signals, by one call of the device's `eigh`.

    What fails the checks is solved on the host.
    """
    number = len(signals)
    units = [_unit(size) for size in np.asarray(jnp.max(jnp.abs(hessians), axis=(1, 2))).tolist()]
    if any(unit != 1 for unit in units):
        hessians = hessians / jnp.asarray(units, hessians.dtype)[:, None, None]
    values, vectors = jnp.linalg.eigh(hessians)
    low = vectors[:number, :, :k]
    products = np.asarray(jnp.matmul(hessians[:number], low, precision=HIGHEST))
    found = np.asarray(values)[:number]
    overlaps: list[Overlaps | None] = [None] * number
    if signals[0] is not None:
        directions = jnp.asarray(np.stack([np.asarray(signal) for signal in signals]))
        amplitudes = jnp.matmul(jnp.swapaxes(vectors[:number], 1, 2), directions, precision=HIGHEST)
        raw = np.asarray(jnp.sum(amplitudes**2, axis=2))
        overlaps = [_grouped(*both, k) for both in zip(found, raw, strict=True)]
    rows, products = (np.swapaxes(np.asarray(columns), 1, 2) for columns in (low, products))
    norms = np.max(np.abs(found), axis=1)
    solved = _checked(found[:, :k], rows, products, norms, np.ones(number), "device eigh", overlaps)
    return [
        pairs.times(unit)
        if pairs.code is Code.CONVERGED
        else lowest_together([np.array(hessians[i], order="F")], k, [signals[i]], [unit])[0]
        for i, (pairs, unit) in enumerate(zip(solved, units, strict=False))
    ]


def lowest_together(
    matrices: Sequence[NDArray], k: int, signals: Sequence[Any], units: Sequence[float] | None = None
) -> list[Eigenpairs]:
    """`lowest_dense` of several NumPy matrices of one order with as many directions each; column-major ones are destroyed.

    units   powers of two that the matrices are in units of: pairs are those of the matrices times these

    What a matrix gives does not depend on its company, of which `sims.tridiagonal.side_by_side` is best.
    """
    with threads_for(len(matrices[0])):
        largest = [float(max(matrix.max(), -matrix.min())) for matrix in matrices]
        own, units = [_unit(size) for size in largest], units or [1.0] * len(matrices)
        finite = [i for i, size in enumerate(largest) if np.isfinite(size)]
        reduced = [tridiagonal(matrices[i], own[i], signals[i], own[i] * units[i]) for i in finite]
        found = dict(zip(finite, _lowest(reduced, k), strict=True))
    return [
        found[i] if i in found else nothing(matrix[0], k, Code.INVALID, "not finite")
        for i, matrix in enumerate(matrices)
    ]


def _unit(largest: float) -> float:
    """What a matrix of this largest entry is solved in units of: 1, unless squares of its entries come near the ends of the
    range of float32 or float64."""
    unit = power_of_two(largest)
    return 1.0 if 2.0**-_MILD <= unit <= 2.0**_MILD else unit


Low = tuple[NDArray, NDArray, Overlaps | None]  # values (k,) and vectors (n, k) of T, overlaps


def _lowest(problems: list[Reduced], k: int) -> list[Eigenpairs]:
    """The k lowest pairs of each H from those of its T; of the whole matrix where these fail or are not good."""
    try:
        found = _carried(problems, _pairs(problems, k)) if problems else []
    except (np.linalg.LinAlgError, ValueError):
        # ValueError is SciPy's word for a T that is not finite.
        if len(problems) > 1:  # one that fails costs the others another try
            return [pairs for problem in problems for pairs in _lowest([problem], k)]
        return [_whole(problems[0].matrix, k, problems[0].signal).times(problems[0].unit)]
    return [
        own
        if own.code in (Code.CONVERGED, Code.INVALID)
        else _whole(one.matrix, k, one.signal).times(one.unit)
        for one, own in zip(problems, found, strict=True)
    ]


def _pairs(problems: list[Reduced], k: int) -> list[Low]:
    """The k lowest pairs of each T, with overlaps where there is a signal: of these if they settle the rank, else of all."""
    if problems[0].signal is None:
        return [(*_by_bisection(problem, k), None) for problem in problems]
    if len(problems[0].d) > BOUNDED:
        return [_bounded(problem, k) for problem in problems]
    given = [(problem.d, problem.e, problem.rotated, problem.width) for problem in problems]
    return [
        (values[:k], lowest_vectors(problem.d, problem.e, values[:k]), _of_all(q2, k))
        for problem, (values, q2) in zip(problems, spectra_overlaps(given), strict=True)
    ]


def _by_bisection(problem: Reduced, k: int) -> tuple[NDArray, NDArray]:
    return eigh_tridiagonal(problem.d, problem.e, select="i", select_range=(0, k - 1), lapack_driver="stebz")


def _bounded(problem: Reduced, k: int) -> Low:
    """Overlaps of the lowest pairs alone where a bound says that no other vector has as much."""
    d, e, rotated, width = problem.d, problem.e, problem.rotated, problem.width
    # one value more than asked for says how far apart the others are
    values, vectors = _by_bisection(problem, min(k + 1, len(d)))
    vectors = vectors[:, :k]
    if k == len(d) or values[k] - values[k - 1] > max(width, SEPARATE * problem.norm):
        gemm = blas("gemm", vectors.dtype)
        amplitudes = gemm(1.0, vectors, rotated, trans_a=1)
        q2 = group_means(np.sum(amplitudes**2, axis=1), *groups(values[:k], width))
        rest = gemm(-1.0, vectors, amplitudes, beta=1.0, c=rotated)
        if settled(d, e, rest, float(np.max(q2))):
            return values[:k], vectors, Overlaps(q2, int(np.argmax(q2)))
    ((_, q2),) = spectra_overlaps([(d, e, rotated, width)])
    return values[:k], vectors, _of_all(q2, k)


def _of_all(q2: NDArray, k: int) -> Overlaps:
    return Overlaps(q2[:k], int(np.argmax(q2)), q2)


def _carried(problems: list[Reduced], lows: list[Low]) -> list[Eigenpairs]:
    """Pairs of each H from those of its T, checked. What is O(n) is done for all at once."""
    n, k = lows[0][1].shape
    dtype = problems[0].matrix.dtype
    vectors, products = np.empty((len(lows), k, n), dtype), np.empty((len(lows), k, n), dtype)
    for i, (one, low) in enumerate(zip(problems, lows, strict=True)):
        # Above its diagonal the reduced matrix still is H: residuals are those of H itself, not of T.
        columns = carried(one.matrix, one.tau, low[1].astype(dtype, copy=False), "N")
        vectors[i], products[i] = columns.T, blas("symm", dtype)(1.0, one.matrix, columns, lower=0).T
    norms, units = (np.array([getattr(one, name) for one in problems]) for name in ("norm", "unit"))
    values, overlaps = np.array([low[0] for low in lows]), [low[2] for low in lows]
    return _checked(values, vectors, products, norms, units, "tridiagonal", overlaps)


def _whole(matrix: NDArray, k: int, signal: Any) -> Eigenpairs:
    """Every pair by `scipy.linalg.eigh` from the upper triangle: the slow twin and the fallback."""
    # Below the diagonal lie the reflectors of the reduction that failed.
    full = np.triu(matrix) + np.triu(matrix, 1).T
    try:
        # divide and conquer: its vectors are orthonormal to a few eps, those of the default (MRRR) to a hundred and more
        values, vectors = eigh(full, driver="evd")
    except (np.linalg.LinAlgError, ValueError) as error:
        return nothing(matrix[0], k, Code.FAILED, str(error).splitlines()[0])
    overlaps = None
    if signal is not None:
        overlaps = _grouped(values, np.sum((vectors.T @ np.asarray(signal)) ** 2, axis=1), k)
    low, norms = vectors[:, :k], np.max(np.abs(values), keepdims=True)
    products = (full @ low).T[None]
    return _checked(values[None, :k], low.T[None], products, norms, np.ones(1), "eigh", [overlaps])[0]


def _grouped(values: NDArray, raw: NDArray, k: int) -> Overlaps:
    width = same(len(values), np.finfo(values.dtype).eps * max(abs(values[0]), abs(values[-1])))
    return _of_all(group_means(raw.astype(np.float64), *groups(values, width)), k)


def _checked(
    values: NDArray,
    vectors: NDArray,
    products: NDArray,
    norms: NDArray,
    units: NDArray,
    method: str,
    overlaps: Sequence[Overlaps | None],
) -> list[Eigenpairs]:
    """Pairs of several matrices in their units (b,), with residuals and the code these deserve.

    values (b, k); vectors, as rows, and products H v (b, k, n); norms (b,) of the matrices
    """
    dtype, n = vectors.dtype, vectors.shape[-1]
    rest, gram = products - vectors * values[..., None].astype(dtype), vectors @ np.swapaxes(vectors, 1, 2)
    residuals = np.sqrt(np.add.reduce(rest * rest, axis=2)).astype(np.float64)
    np.einsum("bii->bi", gram)[:] -= 1  # a view of the diagonals
    skew = np.abs(gram).max(axis=(1, 2))
    # LAPACK's bounds on residuals and orthonormality grow with the order; vectors of neighbours by inverse iteration reach a
    # good part of theirs
    bound = _TRUST * n * np.finfo(dtype).eps
    finite = np.isfinite(values).all(axis=1) & np.isfinite(skew)
    good = (residuals.max(axis=1) <= bound * norms) & (skew <= bound)
    codes = np.where(finite, np.where(good, Code.CONVERGED, Code.INACCURATE), Code.INVALID).tolist()
    values, residuals = values.astype(np.float64) * units[:, None], residuals * units[:, None]
    return [
        Eigenpairs(
            values[i], vectors[i].T, residuals[i], Code(code), {"method": method, "orthonormality": size}, own
        )
        for i, (code, size, own) in enumerate(zip(codes, skew.tolist(), overlaps, strict=True))
    ]


def dense_bytes(model: Network, n: int, alpha: float, *, eigenpairs: int, dtype: Any = "float64") -> int:
    """Peak bytes of one dense sample at (N, alpha): the arrays it holds at once, on JAX's default platform.

    CPU: the matrix (reduced in place), a block of it, the data, some rows of them scaled, the weights, the
    sweep of `sims.tridiagonal` or the basis of its bound, the vectors. GPU: the data and the weights, padded, and the
    most of three steps: blocks of the matrix (each a sum of shares, of rows scaled apart in float64), blocks beside the matrix,
    the matrix in two copies with its vectors and the workspace of syevd (2 n^2).
    """
    p, m, item = finite_p(model), samples_of(alpha, n), real_dtype(dtype).itemsize
    n, eigenpairs = count("n", n), count("eigenpairs", eigenpairs)
    order, signal = p * n, p * model.p_star
    columns = 4 * order * (eigenpairs + signal)
    if jax.default_backend() != "cpu":
        rows, blocks = padded(m), p * (p + 1) // 2 * n**2
        # as XLA splits products at alpha = 2 (`python -m benchmarks.gpu_compile --part dense`): more for longer ones
        shares = 8 if item * n**2 <= 2**18 else 4 if item * n**2 <= 2**21 else 2
        build = blocks + shares * n**2 + (rows * n if item == 8 else 0)
        steps = max(build, blocks + order**2, 5 * order**2)
        return item * (rows * n + 2 * rows * p**2 + columns + steps)
    sweeps = 8 * padded(order) * max(6 + 2 * signal, STEPS)
    block = n**2 if p > 1 else 0
    return item * (order**2 + block + (padded(m) + hessian.BLOCK) * n + columns) + 8 * m * 3 * p**2 + sweeps


SOLVER = Solver(solve_together, dense_bytes, dense=True)
