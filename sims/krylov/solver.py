"""Lowest eigenpairs without the matrix: block Krylov with full reorthogonalisation and thick restarts.

A block of b vectors grows the space span(V, HV, H^2 V, ...). Each new block is orthogonalised against the last two
blocks, to which it couples, and then against the whole basis, a few new blocks at a time (`sims.krylov.space`). Every
coefficient goes into the projected matrix T = Q' H Q, so that restarts, replaced directions and rounding are all in it.
For the Ritz pair (theta, Q s) the residual is R s_last, with s_last the last b entries of s and R the factor of the
block that comes next. T is looked at on the host in float64, at intervals that follow the convergence seen. A full basis
is contracted to its lowest Ritz vectors plus the block to come (thick restart: Wu and Simon, SIAM J. Matrix Anal. Appl.
22, 602 (2000)).

How it differs from `scipy.sparse.linalg.eigsh` (single vectors, ARPACK) and
`jax.experimental.sparse.linalg.lobpcg_standard`: a block at least as large as the number of pairs wanted and
as the degeneracy p p_star, so that no member of a cluster is missed; one pass over the data serves the block;
the residuals that decide are ||H v - lambda v||, computed anew from H at the end; and a float64 problem may
do its search in float32 and be judged in float64.

The solver is a generator: it yields blocks and is sent their products. Several solvers, one for each Hessian
on shared data, then advance together with one pass over the data a step (`drive`).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import eigh

from sims.backend import HIGHEST, on_device, pinned
from sims.krylov import Plan, Settings
from sims.krylov.basis import orthonormal
from sims.krylov.space import WAIT, Space
from sims.machine import allotted
from sims.operator import HessianOperator, one_set
from sims.solvers import Code, Eigenpairs, nothing
from theory.checks import count

FRESH = 2  # searches begun anew from what was found, at most
# Yields blocks and is sent their products. Of its pairs, one block with vectors (order, b) in the operator's order of rows, the
# first k were wanted.
Search = Generator[jax.Array, jax.Array, Eigenpairs]


def lowest_krylov(
    operator: HessianOperator, k: int, *, degeneracy: int = 1, settings: Settings | None = None
) -> Eigenpairs:
    """The k lowest eigenpairs of an operator of one set, vectors block-major (index k N + i) on the host.

    degeneracy  p p_star: the block is wider than it

    The code is NOT_CONVERGED, with the best pairs, where the products allowed ran out. Orders that fit in one
    basis are diagonalised whole. Raises ParameterError for k outside 1..order or unfit settings.

    >>> from sims.instance import draw
    >>> from sims.operator import hessian_operator
    >>> from theory.model import Network
    >>> operator = hessian_operator(draw(Network(2, 1, 1.0), 12, 2.5, seed=1))
    >>> lowest_krylov(operator, 3).values.shape
    (3,)
    """
    return lowest_of_sets(one_set(operator), k, degeneracy=degeneracy, settings=settings)[0]


@pinned
def lowest_of_sets(
    operator: HessianOperator, k: int, *, degeneracy: int = 1, settings: Settings | None = None
) -> list[Eigenpairs]:
    """The k lowest eigenpairs of every set of an operator; each step one pass over the data serves all sets."""
    k = count("k", k)
    settings = Settings() if settings is None else settings
    plan = Plan.of(operator.order, operator.dtype, k, degeneracy, settings)
    lowered = operator.lowered() if plan.mixed and operator.order > plan.smallest else None
    solvers = [
        solve(operator.order, operator.dtype, replace(plan, tol=plan.tol / unit), mixed=lowered is not None)
        for unit in operator.units
    ]
    found = drive(operator, lowered, solvers)
    return [_public(operator, each, k).times(unit) for each, unit in zip(found, operator.units, strict=True)]


def drive(
    operator: HessianOperator, lowered: HessianOperator | None, solvers: Sequence[Search]
) -> list[Eigenpairs]:
    """Run one solver for each set to its end, all in step: products together, what follows them by a few threads.

    What a solver does between its products are many small steps, which leave all cores but one idle.
    """
    results: dict[int, Eigenpairs] = {}
    waiting = {i: next(solver) for i, solver in enumerate(solvers)}
    with ThreadPoolExecutor(max(1, min(len(solvers), allotted()))) as threads:
        while waiting:
            # Of searches some may have gone on to float64 while others are in float32: each asks the operator of its dtype.
            for source in (operator, lowered):
                chosen = [i for i, v in waiting.items() if source is not None and v.dtype == source.dtype]
                if source is None or not chosen:
                    continue
                # a few numbers of sets only, so that few shapes are compiled: the last one is repeated
                padded = chosen + chosen[-1:] * (_bucket(len(chosen), len(solvers)) - len(chosen))
                products = source.product(padded, [waiting[i] for i in padded])
                own = [solvers[i] for i in chosen]
                run = threads.map if len(chosen) > 1 else map
                for i, answer in zip(chosen, run(_advance, own, products[: len(own)]), strict=True):
                    if isinstance(answer, Eigenpairs):
                        results[i] = answer
                        del waiting[i]
                    else:
                        waiting[i] = answer
    return [results[i] for i in range(len(solvers))]


@pinned
def _advance(solver: Search, product: jax.Array) -> jax.Array | Eigenpairs:
    """What a solver says when it is sent a product: its next block, or its result. Settings of JAX are a thread's own."""
    try:
        return solver.send(product)
    except StopIteration as end:
        found: Eigenpairs = end.value
        return found


def _bucket(number: int, largest: int) -> int:
    """1, 2, 3, 4, 6, 8, 12, 16, 24, ...: the first at or above `number`, at most `largest`."""
    power = 1 << max(0, (number - 1).bit_length())
    return min(largest, 3 * power // 4 if 4 * number <= 3 * power and power > 2 else power)


def solve(order: int, dtype: np.dtype, plan: Plan, *, mixed: bool) -> Search:
    """The lowest pairs of one matrix: whole if small, else by search, in float32 first if `mixed`."""
    rng = np.random.default_rng(plan.seed)
    if order <= plan.smallest:
        return (yield from whole(order, dtype, plan))
    start = on_device(rng.standard_normal((order, plan.block)), np.float32 if mixed else dtype)
    if not mixed:
        return (yield from search(start, plan, rng))
    found = yield from search(start, replace(plan, products=plan.products - 1), rng)
    rough = found.stats
    if found.code is Code.INVALID:
        return found
    # Orthonormal to rounding of float32 so far; twice, as `orthonormal` asks.
    vectors = orthonormal(found.vectors.astype(dtype), 0.0, rng).vectors
    vectors = orthonormal(vectors, 0.0, rng).vectors
    found = _rayleigh_ritz(vectors, (yield vectors), plan, rough["norm"])
    found.stats.update(products=1, restarts=0, block=plan.block)
    left = plan.products - rough["products"] - 1
    # A search takes two products at least: one for its space, one for the residuals.
    if found.code is not Code.CONVERGED and left >= 2:
        found = yield from search(found.vectors, replace(plan, products=left), rng)
        found.stats["products"] += 1
    found.stats["products_float32"] = rough["products"]
    return found


def whole(order: int, dtype: np.dtype, plan: Plan) -> Search:
    """All of a small matrix, by its products with the columns of the identity, and a dense solve in float64."""
    matrix = np.empty((order, order))
    for start in range(0, order, plan.block):
        stop = min(start + plan.block, order)
        unit = np.zeros((order, plan.block), dtype)
        unit[np.arange(start, stop), np.arange(stop - start)] = 1
        matrix[:, start:stop] = np.asarray((yield on_device(unit)))[:, : stop - start]
    if not np.all(np.isfinite(matrix)):
        return nothing(np.empty(order, dtype), plan.k, Code.INVALID, "not finite")
    # eigh reads one triangle: of a matrix that is symmetric to rounding both are heard.
    matrix = (matrix + matrix.T) / 2
    # Divide and conquer: its vectors are orthonormal to a few eps, those of the default (MRRR) to a hundred and more.
    values, vectors = eigh(matrix, driver="evd")
    norm = float(max(abs(values[0]), abs(values[-1])))
    low, values, above = vectors[:, : plan.k], values[: plan.k], values[min(plan.k, order - 1)]
    # The entries themselves are products in the dtype: their rounding, which the float64 matrix does not show, is added.
    residuals = np.linalg.norm(matrix @ low - low * values, axis=0) + np.finfo(dtype).eps * norm
    tol = plan.accepted(dtype, norm)
    stats = {"method": "products", "products": -(-order // plan.block), "norm": norm, "tol": tol}
    if order > plan.k:
        stats["above"] = float(above)
    return Eigenpairs(values, low.astype(dtype), residuals, Code.CONVERGED, stats)


def search(start: jax.Array, plan: Plan, rng: np.random.Generator) -> Search:
    """Block Krylov from `start` (order, b), in its dtype."""
    space = Space(start, plan, rng)
    products, due, seen, trust, fresh = 0, 4, None, 0.7, 0
    while True:
        space.take((yield space.next))
        products += 1
        if not space.finite:
            blank = nothing(start[:, 0], plan.block, Code.INVALID, "not finite")
            return replace(blank, stats=space.stats(products))
        # One product is kept back for the residuals.
        last = products >= plan.products - 1
        # looked at when no block waits: few numbers of blocks that meet the basis, few shapes compiled
        if (products >= due - WAIT // 2 and not space.waiting) or space.full or last:
            # R s_last is the residual up to rounding of Q and T: it says when to ask, H itself decides.
            mixing, estimates = space.ritz()
            worst = float(np.max(estimates[: plan.k]))
            tol = plan.accepted(start.dtype, space.norm)
            if (worst <= trust * tol and space.dimension >= plan.k) or last:
                vectors = space.basis.combine(mixing[:, : plan.block])
                best = _rayleigh_ritz(vectors, (yield vectors), plan, space.norm)
                products += 1
                best.stats.update(space.stats(products))
                if best.code is Code.CONVERGED or products > plan.products - 2:
                    return best
                trust /= 4  # the estimate was too good: rounding; go further before asking again
                if trust < 0.05:
                    # rounding of a long run is in Q and T: once more from the pairs found, and then leave it at that
                    if fresh == FRESH:
                        return best
                    fresh, trust, seen, due = fresh + 1, 0.7, None, products + 4
                    space = space.anew(best.vectors)
                    continue
            due, seen = products + _wait(products, worst, trust * tol, seen), (products, worst)
            if space.full:
                space.restart()


def _wait(products: int, worst: float, tol: float, seen: tuple[int, float] | None) -> int:
    """Products until T is looked at again: most of the way to where the residual should meet its tolerance.

    A quarter of those done at most: looking is cheap, and the residual falls faster than it did.
    """
    longest = max(2, products // 4)
    if worst <= tol or seen is None or worst >= seen[1]:
        return longest
    # Residuals fall geometrically with the steps: the rate last seen is taken to go on.
    rate = math.log(seen[1] / worst) / (products - seen[0])
    return min(max(2, math.ceil(0.7 * math.log(worst / tol) / rate)), longest)


def _rayleigh_ritz(vectors: jax.Array, product: jax.Array, plan: Plan, norm: float) -> Eigenpairs:
    """Ritz pairs of the orthonormal columns `vectors` (order, b) from their product with H, residuals anew."""
    gram, projected = (np.asarray(x) for x in _small(vectors, product))
    # Generalised, with the Gram matrix: combinations of a long basis are orthonormal to rounding of the sum only.
    values, mixing = eigh((projected + projected.T) / 2, gram)
    vectors, residuals, skew = _rotate(vectors, product, mixing, values)
    residuals = np.asarray(residuals, dtype=np.float64)
    tol = plan.accepted(vectors.dtype, norm)
    good = np.isfinite(tol) and np.all(residuals[: plan.k] <= tol)
    stats = {"method": "block Krylov", "tol": tol, "norm": norm, "orthonormality": float(skew)}
    return Eigenpairs(values, vectors, residuals, Code.CONVERGED if good else Code.NOT_CONVERGED, stats)


@jax.jit
def _small(vectors: jax.Array, product: jax.Array) -> tuple[jax.Array, jax.Array]:
    gram = jnp.matmul(vectors.T, vectors, precision=HIGHEST)
    return gram.astype(jnp.float64), jnp.matmul(vectors.T, product, precision=HIGHEST).astype(jnp.float64)


@jax.jit
def _rotate(
    vectors: jax.Array, product: jax.Array, mixing: jax.Array, values: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    mixing = mixing.astype(vectors.dtype)
    vectors = jnp.matmul(vectors, mixing, precision=HIGHEST)
    rest = jnp.matmul(product, mixing, precision=HIGHEST) - vectors * values.astype(vectors.dtype)
    gram = jnp.matmul(vectors.T, vectors, precision=HIGHEST)
    largest = jnp.max(jnp.abs(rest))  # squares of very small and very large numbers are none
    unit = jnp.where(largest > 0, largest, 1)
    return vectors, jnp.linalg.norm(rest / unit, axis=0) * unit, jnp.max(jnp.abs(gram - jnp.eye(len(gram))))


def _public(operator: HessianOperator, found: Eigenpairs, k: int) -> Eigenpairs:
    vectors = operator.ordered(np.asarray(found.vectors)[:, :k])
    above = {"above": float(found.values[k])} if len(found.values) > k else {}
    return Eigenpairs(found.values[:k], vectors, found.residuals[:k], found.code, found.stats | above)
