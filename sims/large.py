"""Samples too large for a dense Hessian: which solver, which layout of the data, and what can still be said of ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sims.eigen import Code, Eigenpairs, Overlaps
from sims.gauss_bound import MARGIN, STEPS, point_mass
from sims.instance import Instance, finite_p, real_dtype
from sims.krylov import Settings, lowest_krylov
from sims.krylov_memory import krylov_bytes
from sims.memory import available_bytes, dense_bytes
from sims.observables import overlaps, signal_vectors
from sims.operator import HessianOperator, hessian_operator, interleaved
from sims.sharding import sharded_operator
from sims.spectrum import measure_of
from theory.model import Committee

KEPT = 1024  # Lanczos vectors kept for the bound on overlaps: fewer than the basis that found the pairs
CERTAIN = 0.8  # of the largest q2: pairs found to a residual leave a little of themselves in the rest
ROOM = 0.9  # share of the free memory that may be planned for
DENSE = {"cpu": 4000, "gpu": 12_000}  # orders p N up to which dense solves take seconds, and give every rank
TOL = {
    "float64": 1e-6,
    "float32": 1e-4,
}  # residuals: values then err by tol^2 over the gap, q2 by tol over it


def preferred_solver(model: Committee, n: int, alpha: float, k: int, dtype: Any = "float64") -> str:
    """ "dense" while the order p N is small enough in time and memory, else "krylov"."""
    platform = "cpu" if jax.default_backend() == "cpu" else "gpu"
    if finite_p(model) * n > DENSE[platform]:
        return "krylov"
    free = available_bytes()
    fits = free is None or dense_bytes(model, n, alpha, eigenpairs=k, dtype=dtype) <= ROOM * free
    return "dense" if fits else "krylov"


def solve_krylov(drawn: Instance, k: int) -> Eigenpairs:
    """Lowest k eigenpairs of an instance drawn without its data, matrix-free.

    The data are stored where they fit and drawn again at every product where they do not, with rows over
    all devices where JAX sees several. Residuals to TOL. Overlaps with the signal come with them, and the rank of the
    largest, -1 where neither the sum of all (`certified_rank`) nor a bound on the others (`bounded_rank`) settles it.
    """
    dtype = str(real_dtype(drawn.student.dtype))
    stored = stores(drawn.model, drawn.n, drawn.m / drawn.n, k, dtype)
    settings = Settings(tol=TOL[dtype])
    degeneracy = int(drawn.model.degeneracy)
    operator = operator_of(drawn, stored)
    pairs = lowest_krylov(operator, k, degeneracy=degeneracy, settings=settings)
    if pairs.code is Code.INVALID:
        return pairs
    q2 = np.asarray(overlaps(pairs.vectors, drawn.teacher), np.float64)
    rank = certified_rank(q2, degeneracy)
    if rank < 0:
        rank = bounded_rank(operator, pairs.vectors, q2, signal_vectors(drawn.teacher, operator.p))
    return replace(pairs, signal=Overlaps(q2, rank))


def operator_of(drawn: Instance, stored: bool) -> HessianOperator:
    """The operator on one device, or over all that JAX sees."""
    if jax.device_count() > 1:
        return sharded_operator(drawn, stored=stored)
    return hessian_operator(drawn, stored=stored)


def stores(model: Committee, n: int, alpha: float, k: int, dtype: Any) -> bool:
    """Whether the data of one sample fit in memory, over all devices, beside the solver."""
    free = available_bytes()
    if free is None:
        return True
    return _bytes(model, n, alpha, k, dtype, stored=True) <= ROOM * free


def point_bytes(model: Committee, n: int, alpha: float, *, eigenpairs: int, dtype: Any = "float64") -> int:
    """Peak bytes on one device of one matrix-free sample, in the layout that `solve_krylov` would choose."""
    stored = stores(model, n, alpha, eigenpairs, dtype)
    return _bytes(model, n, alpha, eigenpairs, dtype, stored=stored)


def certified_rank(q2: ArrayLike, degeneracy: int) -> int:
    """Rank in the whole spectrum of the vector of largest q2, from the lowest vectors alone; -1 if they do not say.

    q2 over all eigenvectors add up to p p_star and none exceeds 1. The largest one computed is the largest of all if it
    is above what is left for the rest.
    """
    q2 = np.asarray(q2, dtype=np.float64)
    left = min(1.0, degeneracy - float(np.sum(q2)))
    return int(np.argmax(q2)) if len(q2) and float(np.max(q2)) > left else -1


def bounded_rank(operator: HessianOperator, vectors: NDArray, q2: NDArray, signal: NDArray) -> int:
    """Rank of the largest of q2 (k,) in the whole spectrum, if a bound shows that no other vector has as much; else -1.

    vectors (p N, k) found, signal (p N, r), both block-major. What the vectors leave of the signal has its measure on the
    other eigenvectors, and a few Lanczos steps from it bound what one of them can have (`sims.gauss_bound`). The steps are
    taken where the largest q2 is a quarter or more of what is left, which is where they can settle it.
    """
    rest = signal - vectors @ (vectors.T @ signal)
    total: NDArray[np.float64] = np.einsum("ir,ir->r", rest, rest, dtype=np.float64)
    largest, left = float(np.max(q2)), float(np.sum(total))
    steps = min(STEPS, operator.order, KEPT // len(total))
    if largest < left / 4 or steps < 1:
        return -1
    kept = total > MARGIN**2
    bound = float(np.sum(total[~kept]))
    if np.any(kept):
        measures = measure_of(operator, interleaved(rest[:, kept], operator.p), steps).weights
        bound += float(sum(share * point_mass(w) for share, w in zip(total[kept], measures, strict=True)))
    return int(np.argmax(q2)) if bound < CERTAIN * largest else -1


def _bytes(model: Committee, n: int, alpha: float, k: int, dtype: Any, *, stored: bool) -> int:
    settings = Settings(tol=TOL[str(real_dtype(dtype))])
    devices = jax.device_count()
    return krylov_bytes(
        model,
        n,
        alpha,
        eigenpairs=k,
        dtype=dtype,
        stored=stored,
        settings=settings,
        devices=1 if jax.default_backend() == "cpu" else devices,
    )
