"""Lowest eigenpairs of a dense Hessian, with residuals, a result code and overlaps of the whole spectrum.

On the CPU: Householder reduction to a tridiagonal matrix T (sytrd), the k lowest pairs of T (bisection
and inverse iteration), and only those k vectors carried back (ormqr). This is what SciPy's `eigh` does
for a subset. It differs in keeping T: squared overlaps of ALL eigenvectors with a few given directions cost O(n^2)
(`sims.dense.all_overlaps`) where `eigh` would form n vectors, and at large orders a bound in O(n) on what the others can have
(`sims.dense.all_overlaps`) may spare even that. On a GPU: the device's own `eigh`, whose result JAX does not check; here it
is.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh, eigh_tridiagonal

from sims.backend import HIGHEST, blas, pinned, power_of_two, threads_for
from sims.checks import reals
from sims.dense.all_overlaps import (
    SEPARATE,
    Spectrum,
    group_means,
    groups,
    lowest_vectors,
    settled,
    spectra_overlaps,
)
from sims.dense.reduction import Reduced, carried, same, tridiagonal
from sims.machine import WIDEST
from theory.checks import ParameterError, count, flag

BOUNDED = (
    1000  # order above which a bound may spare all eigenvalues: below, they take less time than the bound
)
IN_UNITS = ("norm", "tol", "above")  # entries of `Eigenpairs.stats` that are in units of the matrix
_MILD = 32  # binary orders of magnitude about 1 within which a matrix is taken as it is
_TRUST = 50  # errors of pairs accepted, in n eps |H| and n eps: the threshold of LAPACK's own tests


class Code(enum.IntEnum):
    """How a solve ended."""

    CONVERGED = 0
    NOT_CONVERGED = 1  # an iteration ran out of steps; the best pairs are returned
    INVALID = 2  # NaN or infinity in the matrix or in the result
    INACCURATE = 3  # residuals or orthonormality beyond tolerance
    FAILED = 4  # a library routine gave up


@dataclass(frozen=True)
class Overlaps:
    """Squared overlaps of the lowest eigenvectors with the span of given directions.

    q2        (k,), in a degenerate space its mean overlap, as in `Spectrum`
    rank      0-based rank, in the whole spectrum, of the eigenvector of largest squared overlap
    spectrum  the overlaps of all eigenvectors; None where the lowest settled the rank
    """

    q2: NDArray
    rank: int
    spectrum: Spectrum | None = None


@dataclass(frozen=True)
class Eigenpairs:
    """Lowest eigenpairs of an n x n symmetric matrix, lowest first.

    values     (k,)
    vectors    (n, k), orthonormal columns
    residuals  (k,), ||H v - lambda v||
    code       Code.CONVERGED if every pair passed the checks
    stats      how it was found: "method", "orthonormality" (largest entry of V'V - I), iterations, products
    signal     squared overlaps with given directions, where asked for and available
    """

    values: NDArray
    vectors: NDArray
    residuals: NDArray
    code: Code
    stats: dict[str, Any] = field(default_factory=dict)
    signal: Overlaps | None = None

    def times(self, unit: float) -> Eigenpairs:
        """The pairs of `unit` times the matrix, unit a power of two; of stats those in `IN_UNITS` are the matrix's too."""
        if unit == 1:
            return self
        stats = {name: value * unit if name in IN_UNITS else value for name, value in self.stats.items()}
        signal = self.signal
        if signal is not None and signal.spectrum is not None:
            spectrum = replace(signal.spectrum, values=signal.spectrum.values * unit)
            signal = replace(signal, spectrum=spectrum)
        return replace(
            self, values=self.values * unit, residuals=self.residuals * unit, stats=stats, signal=signal
        )


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
    hessian, overwrite = _checked_matrix(hessian), flag("overwrite", overwrite)
    signal = None if signal is None else _checked_signal(signal, hessian)
    n = hessian.shape[0]
    if count("k", k) > n:
        raise ParameterError(f"k must be at most the order of the Hessian, got k = {k}, order {n}")
    check_order(n)
    if isinstance(hessian, jax.Array) and jax.default_backend() != "cpu":
        return lowest_on_device(hessian[None], k, [signal])[0]
    matrix = (
        np.asarray(hessian)
        if overwrite and not isinstance(hessian, jax.Array)
        else np.array(hessian, order="F")
    )
    return lowest_together([matrix], k, [signal])[0]


def lowest_on_device(hessians: jax.Array, k: int, signals: Sequence[NDArray | None]) -> list[Eigenpairs]:
    """`lowest_dense` of the first of a stack (b, n, n), as many as there are signals, by one call of the device's `eigh`.

    What fails the checks is solved on the host.
    """
    units = [_unit(size) for size in np.asarray(jnp.max(jnp.abs(hessians), axis=(1, 2))).tolist()]
    if any(unit != 1 for unit in units):
        hessians = hessians / jnp.asarray(units, hessians.dtype)[:, None, None]
    return [
        pairs.times(unit)
        if pairs.code is Code.CONVERGED
        else lowest_together([np.array(hessians[i], order="F")], k, [signals[i]], [unit])[0]
        for i, (pairs, unit) in enumerate(zip(_on_device(hessians, k, signals), units, strict=False))
    ]


def lowest_together(
    matrices: Sequence[NDArray],
    k: int,
    signals: Sequence[NDArray | None],
    units: Sequence[float] | None = None,
) -> list[Eigenpairs]:
    """`lowest_dense` of several NumPy matrices of one order with as many directions each; column-major ones are destroyed.

    units   powers of two that the matrices are in units of: pairs are those of the matrices times these

    What a matrix gives does not depend on its company, of which `sims.dense.all_overlaps.side_by_side` is best.
    """
    with threads_for(len(matrices[0])):
        return _together(matrices, k, signals, units)


def _together(
    matrices: Sequence[NDArray], k: int, signals: Sequence[NDArray | None], units: Sequence[float] | None
) -> list[Eigenpairs]:
    largest = [float(max(matrix.max(), -matrix.min())) for matrix in matrices]
    own, units = [_unit(size) for size in largest], units or [1.0] * len(matrices)
    finite = [i for i, size in enumerate(largest) if np.isfinite(size)]
    reduced = [tridiagonal(matrices[i], own[i], signals[i], own[i] * units[i]) for i in finite]
    found = dict(zip(finite, _finished(reduced, _lowest(reduced, k), k), strict=True))
    return [
        found[i] if i in found else _nothing(matrix, k, Code.INVALID, "not finite")
        for i, matrix in enumerate(matrices)
    ]


def _unit(largest: float) -> float:
    """What a matrix of this largest entry is solved in units of: 1, unless squares of its entries come near the ends of the
    range of float32 or float64."""
    unit = power_of_two(largest)
    return 1.0 if 2.0**-_MILD <= unit <= 2.0**_MILD else unit


def _checked_matrix(hessian: Any) -> Any:
    """A square matrix in float32 or float64 (others that hold real numbers are converted); else ParameterError."""
    array = reals("hessian", hessian)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise ParameterError(f"hessian must be a square matrix (n, n), got shape {array.shape}")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _checked_signal(signal: Any, hessian: Any) -> Any:
    """Directions (n, r) in the matrix's dtype; else ParameterError."""
    array = reals("signal", signal)
    if array.ndim != 2 or array.shape[0] != hessian.shape[0]:
        raise ParameterError(f"signal must be columns ({hessian.shape[0]}, r), got shape {array.shape}")
    return array


def check_order(n: int, platform: str | None = None) -> None:
    """ParameterError if dense routines cannot index a matrix of order n on this platform (default: JAX's)."""
    platform = platform or jax.default_backend()
    widest = WIDEST.get(platform, WIDEST["gpu"])
    if n > widest:
        raise ParameterError(
            f"a dense Hessian of order p N = {n} is beyond the {widest} that {platform} routines index"
        )


Low = tuple[NDArray, NDArray, Overlaps | None]  # values (k,) and vectors (n, k) of T, overlaps


def _lowest(problems: list[Reduced], k: int) -> list[Low | str]:
    """The k lowest pairs of each T, or why there are none."""
    try:
        return list(_pairs(problems, k)) if problems else []
    except (np.linalg.LinAlgError, ValueError) as error:
        if len(problems) > 1:
            return [found for problem in problems for found in _lowest([problem], k)]
        return [str(error).splitlines()[0]]


def _pairs(problems: list[Reduced], k: int) -> list[Low]:
    """The same with overlaps where there is a signal: of the lowest pairs if they settle the rank, else of all."""
    if problems[0].signal is None:
        return [(*_by_bisection(problem, k), None) for problem in problems]
    if len(problems[0].d) > BOUNDED:
        return [_bounded(problem, k) for problem in problems]
    given = [(problem.d, problem.e, problem.rotated, problem.width) for problem in problems]
    return [
        _of_spectrum(problem, spectrum, k)
        for problem, spectrum in zip(problems, spectra_overlaps(given), strict=True)
    ]


def _of_spectrum(problem: Reduced, spectrum: Spectrum, k: int) -> Low:
    vectors = lowest_vectors(problem.d, problem.e, spectrum.values[:k])
    return spectrum.values[:k], vectors, _from_spectrum(spectrum, k, problem.unit)


def _by_bisection(problem: Reduced, k: int) -> tuple[NDArray, NDArray]:
    return eigh_tridiagonal(problem.d, problem.e, select="i", select_range=(0, k - 1), lapack_driver="stebz")


def _bounded(problem: Reduced, k: int) -> Low:
    # one value more than asked for says how far apart the others are
    low, vectors = _by_bisection(problem, min(k + 1, len(problem.d)))
    vectors, rotated = vectors[:, :k], problem.rotated
    found = _by_bound(problem.d, problem.e, rotated, low, vectors, problem.norm, problem.width)
    if found is None:
        (spectrum,) = spectra_overlaps([(problem.d, problem.e, rotated, problem.width)])
        found = _from_spectrum(spectrum, k, problem.unit)
    return low[:k], vectors, found


def _finished(problems: list[Reduced], lows: list[Low | str], k: int) -> list[Eigenpairs]:
    """Pairs of each H from those of its T, with their residuals; by the whole matrix where these are not good."""
    given = {i: low for i, low in enumerate(lows) if not isinstance(low, str)}
    try:
        pairs = _carried([problems[i] for i in given], list(given.values())) if given else []
    except np.linalg.LinAlgError:
        pairs = []
    found = {
        i: own for i, own in zip(given, pairs, strict=False) if own.code in (Code.CONVERGED, Code.INVALID)
    }
    return [
        found[i] if i in found else _whole(one.matrix, k, one.signal).times(one.unit)
        for i, one in enumerate(problems)
    ]


def _carried(problems: list[Reduced], lows: list[Low]) -> list[Eigenpairs]:
    """Pairs of each H from those of its T, checked. What is O(n) is done for all at once."""
    n, k = lows[0][1].shape
    dtype = problems[0].matrix.dtype
    vectors, products = np.empty((len(lows), k, n), dtype), np.empty((len(lows), k, n), dtype)
    for i, (one, low) in enumerate(zip(problems, lows, strict=True)):
        columns = carried(one.matrix, one.tau, low[1].astype(dtype, copy=False), "N")
        vectors[i], products[i] = columns.T, blas("symm", dtype)(1.0, one.matrix, columns, lower=0).T
    norms, units = ([getattr(one, name) for one in problems] for name in ("norm", "unit"))
    return _checked(
        np.array([low[0] for low in lows]),
        vectors,
        products,
        np.array(norms),
        np.array(units),
        "tridiagonal",
        [low[2] for low in lows],
    )


def _by_bound(
    d: NDArray, e: NDArray, signal: NDArray, values: NDArray, vectors: NDArray, norm: float, width: float
) -> Overlaps | None:
    """Overlaps of the k lowest vectors (n, k) of T if they settle the rank; values (k + 1,) or, if k = n, (n,)."""
    k = vectors.shape[1]
    if k < len(d) and values[k] - values[k - 1] <= max(width, SEPARATE * norm):
        return None
    gemm = blas("gemm", vectors.dtype)
    amplitudes = gemm(1.0, vectors, signal, trans_a=1)
    q2 = group_means(np.sum(amplitudes**2, axis=1), *groups(values[:k], width))
    if settled(d, e, gemm(-1.0, vectors, amplitudes, beta=1.0, c=signal), float(np.max(q2))):
        return Overlaps(q2, int(np.argmax(q2)))
    return None


def _from_spectrum(spectrum: Spectrum, k: int, unit: float = 1.0) -> Overlaps:
    if unit != 1:
        spectrum = Spectrum(spectrum.values * unit, spectrum.overlaps)
    return Overlaps(spectrum.overlaps[:k], int(np.argmax(spectrum.overlaps)), spectrum)


def _whole(matrix: NDArray, k: int, signal: ArrayLike | None) -> Eigenpairs:
    """Every pair by `scipy.linalg.eigh` from the upper triangle: the slow twin and the fallback."""
    upper = np.triu(matrix)
    full = upper + np.triu(matrix, 1).T
    try:
        # divide and conquer: its vectors are orthonormal to a few eps, those of the default (MRRR) to a hundred and more
        values, vectors = eigh(full, driver="evd")
    except (np.linalg.LinAlgError, ValueError) as error:
        return _nothing(matrix, k, Code.FAILED, str(error).splitlines()[0])
    return _from_all(full, values, vectors, k, signal, "eigh")


def _on_device(hessians: jax.Array, k: int, signals: Sequence[ArrayLike | None]) -> list[Eigenpairs]:
    number = len(signals)
    values, vectors = jnp.linalg.eigh(hessians)
    low = vectors[:number, :, :k]
    products = np.asarray(jnp.matmul(hessians[:number], low, precision=HIGHEST))
    overlaps: list[Overlaps | None] = [None] * number
    if signals[0] is not None:
        directions = jnp.asarray(np.stack([np.asarray(signal) for signal in signals]))
        amplitudes = jnp.matmul(jnp.swapaxes(vectors[:number], 1, 2), directions, precision=HIGHEST)
        raw = np.asarray(jnp.sum(amplitudes**2, axis=2))
        overlaps = [_grouped(*both, k) for both in zip(np.asarray(values)[:number], raw, strict=True)]
    found = np.asarray(values)[:number]
    return _checked(
        found[:, :k],
        np.swapaxes(np.asarray(low), 1, 2),
        np.swapaxes(products, 1, 2),
        np.max(np.abs(found), axis=1),
        np.ones(number),
        "device eigh",
        overlaps,
    )


def _from_all(
    full: NDArray, values: NDArray, vectors: NDArray, k: int, signal: ArrayLike | None, method: str
) -> Eigenpairs:
    overlaps = None
    if signal is not None:
        overlaps = _grouped(values, np.sum((vectors.T @ np.asarray(signal)) ** 2, axis=1), k)
    low, norms = vectors[:, :k], np.max(np.abs(values), keepdims=True)
    products = (full @ low).T[None]
    return _checked(values[None, :k], low.T[None], products, norms, np.ones(1), method, [overlaps])[0]


def _grouped(values: NDArray, raw: NDArray, k: int) -> Overlaps:
    width = same(len(values), np.finfo(values.dtype).eps * max(abs(values[0]), abs(values[-1])))
    means = group_means(raw.astype(np.float64), *groups(values, width))
    return _from_spectrum(Spectrum(values.astype(np.float64), means), k)


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


def _nothing(matrix: NDArray, k: int, code: Code, why: str) -> Eigenpairs:
    blank = np.full(k, np.nan)
    return Eigenpairs(
        blank, np.full((len(matrix), k), np.nan, matrix.dtype), blank.copy(), code, {"failure": why}
    )
