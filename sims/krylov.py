"""Lowest eigenpairs without the matrix: block Krylov with full reorthogonalisation and thick restarts.

A block of b vectors grows the space span(V, HV, H^2 V, ...). Each new block is orthogonalised against the
whole basis twice; the coefficients of the first pass are the projected matrix T = Q' H Q itself, so that
restarts, replaced directions and rounding are all in T, which is never assumed to be block tridiagonal. For
the Ritz pair (theta, Q s) the residual is R s_last, with s_last the last b entries of s and R the factor of
the block that comes next. T is diagonalised on the host in float64, at intervals that follow the convergence
seen. A full basis is contracted to its lowest Ritz vectors plus the block to come (thick restart: Wu and
Simon, SIAM J. Matrix Anal. Appl. 22, 602 (2000)).

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
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.blas import dsymv

from sims.eigen import Code, Eigenpairs
from sims.hessian import HIGHEST
from sims.krylov_basis import Basis, orthonormal, project_block
from theory.checks import ParameterError, count, positive

Solver = Generator[jax.Array, jax.Array, "Ritz"]

FLOOR = 10.0  # residuals below FLOOR eps |H| are rounding
MIXED = 1e-6  # the least tol for which a search in float32 brings a float64 problem to its end


class BlockOperator(Protocol):
    """Symmetric matrices, all of one order: `sets` of them, known by their products with blocks (order, b)."""

    @property
    def order(self) -> int: ...

    @property
    def dtype(self) -> np.dtype: ...

    @property
    def sets(self) -> int: ...

    def product(self, chosen: Sequence[int], blocks: Sequence[jax.Array]) -> list[jax.Array]:
        """H V for one block of each chosen set."""

    def lowered(self) -> BlockOperator | None:
        """The same matrices in float32, or None."""

    def ordered(self, vectors: jax.Array) -> jax.Array:
        """Vectors (order, k) from the operator's order of rows to block-major."""


@dataclass(frozen=True)
class Settings:
    """What decides about a solve; None: chosen from the problem.

    tol       largest residual ||H v - lambda v|| accepted, in units of H (default 1e-8 in float64, 1e-4 in
              float32); where that lies below the rounding of the products, FLOOR eps |H|, the latter counts:
              stats["tol"] is the one used
    block     vectors in a block; at least the number of pairs
    basis     columns kept before a restart
    products  block products allowed
    mixed     search in float32 and judge in float64 where tol allows
    seed      of the random start
    """

    tol: float | None = None
    block: int | None = None
    basis: int | None = None
    products: int = 5000
    mixed: bool = True
    seed: int = 0


@dataclass
class Ritz:
    """Result of one solve: values (b,) and vectors (order, b), in the operator's order of rows, of which the
    first k were wanted; residuals (b,)."""

    values: NDArray[np.float64]
    vectors: jax.Array
    residuals: NDArray[np.float64]
    code: Code
    stats: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Sizes of a solve: pairs k, block b, columns of the basis, tolerance, products allowed."""

    k: int
    block: int
    basis: int
    tol: float
    products: int

    @classmethod
    def of(cls, order: int, dtype: np.dtype, k: int, degeneracy: int, settings: Settings) -> Plan:
        """The sizes for k pairs of a matrix of this order; ParameterError where they do not fit together."""
        if count("k", k) > order:
            raise ParameterError(f"k must be at most the order of the Hessian, got k = {k}, order {order}")
        if settings.block is None:
            block = max(8, k, degeneracy + 2)
        else:
            block = count("block", settings.block)
            if block < k:
                raise ParameterError(f"block must be at least the number of pairs {k}, got {block}")
        basis = default_basis(order, block) if settings.basis is None else count("basis", settings.basis)
        if basis < 4 * block:
            raise ParameterError(f"basis must hold at least 4 blocks of {block} columns, got {basis}")
        tol = settings.tol
        tol = (1e-4 if dtype == np.float32 else 1e-8) if tol is None else positive("tol", tol)
        return cls(k, block, basis // block * block, tol, count("products", settings.products))

    @property
    def smallest(self) -> int:
        """Orders up to this are diagonalised whole."""
        return self.basis + 2 * self.block

    @property
    def width(self) -> int:
        """Columns in a chunk of the basis."""
        return self.block * max(1, -(-256 // self.block))


def default_basis(order: int, block: int) -> int:
    """Columns kept before a restart: 1536, or half the order if that is less, but 12 blocks at least."""
    return max(min(1536, order // 2), 12 * block)


def lowest_krylov(
    operator: BlockOperator, k: int, *, degeneracy: int = 1, settings: Settings | None = None
) -> Eigenpairs:
    """The k lowest eigenpairs of an operator of one set, vectors block-major (index k N + i) on the host.

    degeneracy  p p_star: the block is wider than it

    The code is NOT_CONVERGED, with the best pairs, where the products allowed ran out. Orders that fit in one
    basis are diagonalised whole. Raises ParameterError for k outside 1..order or unfit settings.
    """
    if operator.sets != 1:
        raise ParameterError(f"lowest_krylov wants an operator of one set, got {operator.sets}")
    return lowest_of_sets(operator, k, degeneracy=degeneracy, settings=settings)[0]


def lowest_of_sets(
    operator: BlockOperator, k: int, *, degeneracy: int = 1, settings: Settings | None = None
) -> list[Eigenpairs]:
    """The k lowest eigenpairs of every set of an operator; each step one pass over the data serves all sets."""
    settings = settings or Settings()
    plan = Plan.of(operator.order, operator.dtype, k, degeneracy, settings)
    mixed = mixes(settings, plan, operator.dtype) and operator.order > plan.smallest
    lowered = operator.lowered() if mixed else None
    solvers = [
        solve(operator.order, operator.dtype, plan, settings.seed, mixed=lowered is not None)
        for _ in range(operator.sets)
    ]
    return [_public(operator, ritz, k) for ritz in drive(operator, lowered, solvers)]


def mixes(settings: Settings, plan: Plan, dtype: Any) -> bool:
    """Whether a solve searches in float32 and is judged in float64."""
    return settings.mixed and dtype == np.float64 and plan.tol >= MIXED


def drive(operator: BlockOperator, lowered: BlockOperator | None, solvers: Sequence[Solver]) -> list[Ritz]:
    """Run one solver for each set to its end, all in step."""
    results: dict[int, Ritz] = {}
    waiting = {i: next(solver) for i, solver in enumerate(solvers)}
    while waiting:
        for source in (operator, lowered):
            chosen = [i for i, v in waiting.items() if source is not None and v.dtype == source.dtype]
            if source is None or not chosen:
                continue
            # a few numbers of sets only, so that few shapes are compiled: the last one is repeated
            padded = chosen + chosen[-1:] * (_bucket(len(chosen), len(solvers)) - len(chosen))
            products = source.product(padded, [waiting[i] for i in padded])
            for i, product in zip(chosen, products, strict=False):
                try:
                    waiting[i] = solvers[i].send(product)
                except StopIteration as end:
                    results[i] = end.value
                    del waiting[i]
    return [results[i] for i in range(len(solvers))]


def _bucket(number: int, largest: int) -> int:
    """1, 2, 3, 4, 6, 8, 12, 16, 24, ...: the first at or above `number`, at most `largest`."""
    power = 1 << max(0, (number - 1).bit_length())
    return min(largest, 3 * power // 4 if 4 * number <= 3 * power and power > 2 else power)


def solve(order: int, dtype: np.dtype, plan: Plan, seed: int, *, mixed: bool) -> Solver:
    """The lowest pairs of one matrix: whole if small, else by search, in float32 first if `mixed`."""
    rng = np.random.default_rng(seed)
    if order <= plan.smallest:
        return (yield from whole(order, dtype, plan))
    start = jnp.asarray(rng.standard_normal((order, plan.block)), np.float32 if mixed else dtype)
    if not mixed:
        return (yield from search(start, plan, rng))
    found = yield from search(start, plan, rng)
    rough = found.stats
    if found.code is Code.INVALID:
        return found
    vectors, _, _ = orthonormal(found.vectors.astype(dtype), 0.0, rng)
    vectors, _, _ = orthonormal(vectors, 0.0, rng)
    found = _rayleigh_ritz(vectors, (yield vectors), plan, rough["norm"])
    if found.code is not Code.CONVERGED:
        found = yield from search(found.vectors, plan, rng)
    else:
        found.stats.update(products=1, restarts=0, block=plan.block)
    found.stats["products_float32"] = rough["products"]
    return found


def whole(order: int, dtype: np.dtype, plan: Plan) -> Solver:
    """All of a small matrix, by its products with the columns of the identity, and a dense solve in float64."""
    matrix = np.empty((order, order))
    for start in range(0, order, plan.block):
        stop = min(start + plan.block, order)
        unit = np.zeros((order, plan.block), dtype)
        unit[np.arange(start, stop), np.arange(stop - start)] = 1
        matrix[:, start:stop] = np.asarray((yield jnp.asarray(unit)))[:, : stop - start]
    blank = np.full(plan.k, np.nan)
    if not np.all(np.isfinite(matrix)):
        nothing = jnp.full((order, plan.k), jnp.nan, dtype)
        return Ritz(blank, nothing, blank, Code.INVALID, {"failure": "not finite"})
    matrix = (matrix + matrix.T) / 2
    # Divide and conquer: its vectors are orthonormal to a few eps, those of the default (MRRR) to a hundred and more.
    values, vectors = eigh(matrix, driver="evd")
    norm = float(max(abs(values[0]), abs(values[-1])))
    low, values = vectors[:, : plan.k], values[: plan.k]
    residuals = np.linalg.norm(matrix @ low - low * values, axis=0) + np.finfo(dtype).eps * norm
    stats = {"method": "products", "products": -(-order // plan.block), "norm": norm, "tol": plan.tol}
    return Ritz(values, jnp.asarray(low, dtype), residuals, Code.CONVERGED, stats)


def search(start: jax.Array, plan: Plan, rng: np.random.Generator) -> Solver:
    """Block Krylov from `start` (order, b), in its dtype."""
    space = _Space(start, plan, rng)
    products, due, seen, trust = 0, 4, None, 0.7
    best: Ritz | None = None
    while True:
        space.take((yield space.next))
        products += 1
        if not space.finite:
            return Ritz(*space.blank(), Code.INVALID, space.stats(products))
        last = products >= plan.products - 1
        if products >= due or space.full or last:
            tol = plan_tol(plan, start.dtype, space.norm)
            mixing, estimates = space.ritz()
            worst = float(np.max(estimates[: plan.k]))
            if (worst <= trust * tol and space.dimension >= plan.k) or last:
                vectors = space.basis.combine(mixing[:, : plan.block])
                best = _rayleigh_ritz(vectors, (yield vectors), plan, space.norm)
                products += 1
                best.stats.update(space.stats(products))
                if best.code is Code.CONVERGED or products >= plan.products or trust < 0.05:
                    return best
                trust /= 4  # the estimate was too good: rounding; go further before asking again
            due, seen = products + _wait(products, worst, trust * tol, seen), (products, worst)
            if space.full:
                space.restart()


def plan_tol(plan: Plan, dtype: Any, norm: float) -> float:
    """The residual that is asked for: plan.tol, or the rounding of the products where that is larger."""
    return max(plan.tol, FLOOR * float(jnp.finfo(dtype).eps) * norm)


class _Space:
    """The Krylov space: basis Q, T = Q' H Q, the block that comes next, and its factor R.

    A Krylov step couples a block to the last two alone; its components along the older ones are rounding, which
    grows by a factor |H| / |R| a step. So new blocks are met by the whole basis two at a time, in one pass (the
    basis is read from memory, and reading it is what a pass costs): the first of a pair waits, `pending`, while the
    second is made from it.
    """

    def __init__(self, start: jax.Array, plan: Plan, rng: np.random.Generator):
        self.plan, self.rng = plan, rng
        self.basis = Basis(start.shape[0], plan.block, start.dtype, plan.width)
        self.eps = float(jnp.finfo(start.dtype).eps)
        self.projected = np.zeros((plan.basis, plan.basis))
        self.norm = 0.0
        self.restarts = 0
        self.factor = np.zeros((plan.block, plan.block))
        self.along = np.zeros((0, plan.block))  # the last columns of T
        first, _, _ = orthonormal(start, 0.0, rng)
        self.next, _, _ = orthonormal(first, 0.0, rng)
        self.finite = True
        self.coupled = False  # whether the next block couples to all of the basis
        self.pending = False  # whether it has met the last two blocks of the basis alone

    @property
    def dimension(self) -> int:
        return self.basis.dimension

    @property
    def full(self) -> bool:
        return self.dimension + self.plan.block > self.plan.basis

    def take(self, product: jax.Array) -> None:
        """Add the block `next` to the basis, with its product, and make the block that follows."""
        if self.pending:
            self._second(product)
        else:
            self._first(product)

    def _first(self, product: jax.Array) -> None:
        """`next` is orthogonal to the whole basis; the block that follows waits, where it can be told well from these."""
        self.basis.append(self.next)
        rest, along = (self.basis.project if self.coupled else self.basis.project_recent)(product)
        if not self._seen(along):
            return
        self.next, self.factor, fresh = self._orthonormal(rest, self.norm)
        self.along = along
        self.pending = not (self.coupled or fresh) and self._distinct()
        self.coupled = False
        if self.pending:
            self._write()
        else:
            self._settle(fresh)

    def _second(self, product: jax.Array) -> None:
        """`next` (q) waits, and `product` is that of q: q and the block r that follows meet the whole basis together.

        With q = Q c + q' S and r = Q c' + q' G + r' S' the product of q' follows from that of q, which is
        H q = l B + q A + r R' with l the last block of Q, and from H Q = Q T + q' (S R) l', R the factor of q:

            H q' S = l B + Q (c A + c' R' - T c) + q' (S A + G R' - S R l'Q c) + r' S' R'
        """
        b, d = self.plan.block, self.dimension
        waiting = self.next
        rest, near = self.basis.project_last(waiting, product)
        if not self._seen(near):
            return
        rest, factor, fresh = self._orthonormal(rest, self.norm)
        both, found = self.basis.project(jnp.concatenate([waiting, rest], axis=1))
        c, c_rest = found[:, :b], found[:, b:]
        waiting, turn, new = self._orthonormal(both[:, :b], 1.0)
        rest, turned = project_block(waiting, both[:, b:])
        rest, again, renewed = self._orthonormal(rest, 1.0)

        self.along += c @ self.factor
        self.factor = turn @ self.factor
        self._write()
        back = np.linalg.inv(turn)
        along = c @ near[b:] + c_rest @ factor - self.projected[:d, :d] @ c
        along[d - b :] += near[:b]
        own = turn @ near[b:] + turned @ factor - self.factor @ c[d - b :]
        self.basis.append(waiting)
        self.next, self.factor = rest, again @ factor @ back
        self.along = np.concatenate([along, own]) @ back
        self.pending = False
        if fresh or new or renewed or np.max(np.abs(found)) > 0.1:
            self._settle(fresh or new or renewed)
        else:
            self._write()

    def _settle(self, fresh: int = 0) -> None:
        """`next` against the whole basis, and again where it was not nearly orthogonal or has `fresh` columns."""
        for _ in range(3):
            rest, correction = self.basis.project(self.next)
            self.along = self.along + correction @ self.factor
            self.next, again, new = self._orthonormal(rest, 1.0)
            self.factor = again @ self.factor
            if not (fresh or new) and np.max(np.abs(correction)) < 0.1:
                break
            fresh = 0
        self.pending = False
        self._write()

    def _seen(self, along: NDArray) -> bool:
        """Whether the coefficients of a product are finite; |H| is at least the length of its columns."""
        self.finite = bool(np.all(np.isfinite(along)))
        if self.finite:
            self.norm = max(self.norm, float(np.max(np.linalg.norm(along, axis=0))))
        return self.finite

    def _orthonormal(self, columns: jax.Array, scale: float) -> tuple[jax.Array, NDArray, int]:
        return orthonormal(columns, FLOOR * self.eps * scale, self.rng)

    def _distinct(self) -> bool:
        """Whether the rounding of the last product leaves the block made from it orthogonal to a hundredth."""
        return bool(np.linalg.svd(self.factor, compute_uv=False)[-1] > 100 * FLOOR * self.eps * self.norm)

    def _write(self) -> None:
        """The last columns of T."""
        d, b = self.dimension, self.plan.block
        self.projected[:d, d - b : d] = self.along
        self.projected[d - b : d, :d] = self.along.T
        self.projected[d - b : d, d - b : d] = (self.along[d - b :] + self.along[d - b :].T) / 2

    def ritz(self) -> tuple[NDArray, NDArray]:
        """Mixing of the basis into one block of the lowest Ritz vectors, and the estimates of their residuals."""
        d, b = self.dimension, self.plan.block
        projected = self.projected[:d, :d]
        self.norm = max(self.norm, spectral_norm(projected))
        _, mixing = eigh(projected, subset_by_index=[0, min(b, d) - 1], check_finite=False)
        return mixing, np.linalg.norm(self.factor @ mixing[d - b :], axis=0)

    def restart(self) -> None:
        """Contract the basis to its lowest Ritz vectors, two fifths of it."""
        if self.pending:
            self._settle()
        d, b = self.dimension, self.plan.block
        kept = max(2, 2 * self.plan.basis // (5 * b)) * b
        values, mixing = eigh(self.projected[:d, :d], subset_by_index=[0, kept - 1])
        self.basis.contract(mixing)
        self.projected[:] = 0
        np.fill_diagonal(self.projected[:kept, :kept], values)
        self.coupled = True
        self.restarts += 1

    def blank(self) -> tuple[NDArray, jax.Array, NDArray]:
        blank = np.full(self.plan.block, np.nan)
        return blank, jnp.full(self.next.shape, jnp.nan, self.next.dtype), blank

    def stats(self, products: int) -> dict[str, Any]:
        return {"products": products, "restarts": self.restarts, "block": self.plan.block}


def spectral_norm(matrix: NDArray, steps: int = 12) -> float:
    """A lower bound on |T|, good to a few per cent: power steps (by SciPy's BLAS, whose threads `eigh` uses next)."""
    vector = np.linalg.norm(matrix, axis=0)
    fortran = np.asfortranarray(matrix)
    for _ in range(steps):
        vector = dsymv(1.0, fortran, vector / (np.linalg.norm(vector) or 1.0))
    return float(np.linalg.norm(vector))


def _wait(products: int, worst: float, tol: float, seen: tuple[int, float] | None) -> int:
    """Products until T is looked at again: most of the way to where the residual should meet its tolerance."""
    if worst <= tol or seen is None or worst >= seen[1]:
        return max(2, products // 2)
    rate = math.log(seen[1] / worst) / (products - seen[0])
    return min(max(2, math.ceil(0.8 * math.log(worst / tol) / rate)), max(2, products // 2))


def _rayleigh_ritz(vectors: jax.Array, product: jax.Array, plan: Plan, norm: float) -> Ritz:
    """Ritz pairs of the orthonormal columns `vectors` (order, b) from their product with H, residuals anew."""
    gram, projected = (np.asarray(x) for x in _small(vectors, product))
    values, mixing = eigh((projected + projected.T) / 2, gram)
    vectors, residuals, skew = _rotate(vectors, product, mixing, values)
    residuals = np.asarray(residuals, dtype=np.float64)
    tol = plan_tol(plan, vectors.dtype, norm)
    good = np.all(residuals[: plan.k] <= tol)
    stats = {"method": "block Krylov", "tol": tol, "norm": norm, "orthonormality": float(skew)}
    return Ritz(values, vectors, residuals, Code.CONVERGED if good else Code.NOT_CONVERGED, stats)


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
    return vectors, jnp.linalg.norm(rest, axis=0), jnp.max(jnp.abs(gram - jnp.eye(len(gram))))


def _public(operator: BlockOperator, ritz: Ritz, k: int) -> Eigenpairs:
    vectors = np.asarray(operator.ordered(ritz.vectors[:, :k]))
    return Eigenpairs(ritz.values[:k], vectors, ritz.residuals[:k], ritz.code, ritz.stats)
