"""Matrix-free, by block Krylov: the layout of the data, and what can still be said of ranks.

Of overlaps with the signal the lowest pairs say q2, and which vector has most of it. Eigenvalues nearer than their residuals,
or rounding, are one degenerate space, whose basis is arbitrary: its members are given its mean overlap, as in the dense path
(`sims.solvers.Overlaps`). The rank of the largest is that in the whole spectrum, or -1 where the pairs do not settle it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sims.backend import pinned
from sims.checks import real_dtype, reals
from sims.density import measure_of
from sims.instance import Instance
from sims.krylov import krylov_bytes
from sims.krylov.solver import Settings, lowest_krylov
from sims.machine import fits
from sims.operator import HessianOperator, hessian_operator, interleaved
from sims.rows import row_mesh
from sims.signal import overlaps, signal_vectors
from sims.solvers import Code, Eigenpairs, Overlaps, Solver
from sims.tridiagonal import MARGIN, STEPS, group_means, groups, point_mass
from theory.checks import count
from theory.model.network import Network

# by dtype; values then err by tol^2 over the gap, q2 by tol over it; relative counts for a large, where H is small
SETTINGS = {
    "float64": Settings(tol=1e-6, relative=1e-7),
    "float32": Settings(tol=1e-4, relative=1e-5),
}
CERTAIN = 0.8  # of the largest q2: pairs found to a residual leave a little of themselves in the rest
CLEAR = 100  # widths that the bound on the next eigenvalue must lie above the highest space for that to be complete
KEPT = 1024  # Lanczos vectors kept for the bound on overlaps: fewer than the basis that found the pairs


@pinned
def solve_krylov(drawn: Instance, k: int) -> Eigenpairs:
    """Lowest k eigenpairs of an instance drawn without its data.

    The data are stored where they fit and drawn again at every product where they do not, with rows over
    all devices where JAX sees several, those of inputs of one's own on one. Overlaps with the signal come with the pairs.
    """
    model, dtype = drawn.model, str(real_dtype(drawn.student.dtype))
    stored = stores(model, drawn.n, drawn.m / drawn.n, k, dtype)
    mesh = row_mesh() if jax.device_count() > 1 and model.inputs is None else None
    operator = hessian_operator(drawn, stored=stored, mesh=mesh)
    pairs = lowest_krylov(operator, k, degeneracy=int(model.degeneracy), settings=SETTINGS[dtype])
    if pairs.code is Code.INVALID:
        return pairs
    return replace(pairs, signal=signal_overlaps(operator, pairs, drawn.teacher))


def stores(model: Network, n: int, alpha: float, k: int, dtype: Any) -> bool:
    """Whether the data of one sample fit in memory, over all devices, beside the solver; given rows are always held."""
    return model.inputs is not None or fits(_bytes(model, n, alpha, k, dtype, True))


def point_bytes(model: Network, n: int, alpha: float, *, eigenpairs: int, dtype: Any = "float64") -> int:
    """Peak bytes on one device of one sample, in the layout that `solve_krylov` would choose."""
    stored = stores(model, n, alpha, eigenpairs, dtype)
    return _bytes(model, n, alpha, eigenpairs, dtype, stored)


def _bytes(model: Network, n: int, alpha: float, k: int, dtype: Any, stored: bool) -> int:
    settings = SETTINGS[str(real_dtype(dtype))]
    devices = 1 if jax.default_backend() == "cpu" else jax.device_count()
    return krylov_bytes(
        model, n, alpha, eigenpairs=k, dtype=dtype, stored=stored, settings=settings, devices=devices
    )


@pinned
def signal_overlaps(operator: HessianOperator, pairs: Eigenpairs, teacher: jax.Array) -> Overlaps:
    """q2 (k,) of pairs found by `sims.krylov.solver`, and the rank of the largest.

    The rank is -1 where pairs did not converge, where two spaces share the largest q2, where its space may go on above
    the pairs, and where neither the sum of all q2 (`certified_rank`) nor a bound on the others (`bounded_rank`) settles it.
    """
    q2 = mean_overlaps(pairs, teacher)
    rank = leader(pairs, q2)
    if rank < 0 or pairs.code is not Code.CONVERGED:
        return Overlaps(q2, -1)
    signal = signal_vectors(teacher, operator.p)
    if certified_rank(q2, signal.shape[1]) < 0 and bounded_rank(operator, pairs.vectors, q2, signal) < 0:
        rank = -1
    return Overlaps(q2, rank)


@pinned
def mean_overlaps(pairs: Eigenpairs, teacher: jax.Array) -> NDArray[np.float64]:
    """q2 (k,), the mean over its space where a value is degenerate (over what was found of the highest space)."""
    raw = np.asarray(overlaps(pairs.vectors, teacher), np.float64)
    return (
        group_means(raw, *groups(pairs.values, _width(pairs))) if np.all(np.isfinite(pairs.values)) else raw
    )


def leader(pairs: Eigenpairs, q2: NDArray) -> int:
    """Index of the first vector of the space with the largest q2 among those found; -1 for a tie or an open space."""
    starts, _ = groups(pairs.values, _width(pairs))
    means = q2[starts]
    best = int(np.argmax(means))
    others = np.delete(means, best)
    if len(others) and np.max(others) > means[best] - MARGIN:
        return -1
    last = best == len(starts) - 1
    # stats["above"] is an upper bound on the next eigenvalue, and is absent where there is none
    if last and pairs.stats.get("above", np.inf) - pairs.values[-1] <= CLEAR * _width(pairs):
        return -1
    return int(starts[best])


def certified_rank(q2: ArrayLike, degeneracy: int) -> int:
    """Rank in the whole spectrum of the vector of largest q2, from the lowest vectors alone; -1 if they do not say.

    q2 over all eigenvectors add up to p p_star and none exceeds 1. The largest one computed is the largest of all if it
    is above what is left for the rest.
    """
    found = reals("q2", q2, None, dtype=np.float64)
    left = min(1.0, count("degeneracy", degeneracy) - float(np.sum(found)))
    return int(np.argmax(found)) if len(found) and float(np.max(found)) > left + MARGIN else -1


@pinned
def bounded_rank(operator: HessianOperator, vectors: NDArray, q2: NDArray, signal: NDArray) -> int:
    """Rank of the largest of q2 (k,) in the whole spectrum, if a bound shows that no other vector has as much; else -1.

    vectors (p N, k) found, signal (p N, r), both block-major. What the vectors leave of the signal has its measure on the
    other eigenvectors, and a few Lanczos steps from it bound what one of them can have (`sims.tridiagonal`). The steps
    are taken where the largest q2 is a quarter or more of what is left, which is where they can settle it.
    """
    rest = signal - vectors @ (vectors.T @ signal)
    total: NDArray[np.float64] = np.einsum("ir,ir->r", rest, rest, dtype=np.float64)
    largest, left = float(np.max(q2)), float(np.sum(total))
    steps = min(STEPS, operator.order, KEPT // len(total))
    if largest < left / 4 or steps < 1:
        return -1
    # What the pairs have nearly all of is rounding, nothing to start Lanczos from: all of it goes to the bound.
    kept = total > MARGIN**2
    bound = float(np.sum(total[~kept]))
    if np.any(kept):
        measures = measure_of(operator, interleaved(rest[:, kept], operator.p), steps).weights
        # A rule is of a normalised vector: its weights count as shares of the squared length.
        bound += float(sum(share * point_mass(w) for share, w in zip(total[kept], measures, strict=True)))
    return int(np.argmax(q2)) if bound < CERTAIN * largest else -1


def _width(pairs: Eigenpairs) -> float:
    """Values nearer than this are one degenerate space."""
    rounding = 16 * float(np.finfo(pairs.vectors.dtype).eps) * pairs.stats.get("norm", 0.0)
    return max(rounding, float(np.max(pairs.residuals)))


SOLVER = Solver(lambda drawn, k: [solve_krylov(one, k) for one in drawn], point_bytes, rows=False)
