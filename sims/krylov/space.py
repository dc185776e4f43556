"""A block Krylov space that grows: basis, projected matrix, the block to come.

A Krylov step couples a block to the last two alone; its components along the older ones are rounding, which grows by a
factor |H| / |R| a step, R being what the step leaves. So a few new blocks wait, orthogonal to the last two alone, and then
meet the whole basis together, in one pass: the basis is read from memory, and reading it is what a pass costs.

What is known when they meet: the basis Q (last block l), T with H Q = Q T + q_1 R l', the blocks that wait
W = (q_1 ... q_s) and r, which comes next, with

    H W = l B e_1' + W K + r R' e_s'        K block tridiagonal, e_i the i-th block of the identity

The pass gives C, c, and one orthonormalisation the rest, in W = Q C + W' S, r = Q c + W' G + r' S'. Hence the products of the
new, orthogonal blocks W', exactly and not to rounding of the old ones:

    H W' S = l B e_1' + Q (C K + c R' e_s' - T C) + W' (S K + G R' e_s' - e_1 S_11 R l'Q C) + r' S' R' e_s'

The lowest pairs of T are found without diagonalising it. T is block tridiagonal to rounding; after a restart the Ritz vectors
kept stand first, as a diagonal D that couples by C to the one block that follows. With D eliminated the rest stays a band of
the same width,

    T - x = [ D - x   C' ]        S = B - x - C (D - x)^-1 C' in its first block
            [ C    B - x ]

so that T - x is positive definite, x below the spectrum, where D - x and S are, and its inverse costs O(d b) a vector by the
banded Cholesky factor of S. A block Krylov space of the inverse holds the lowest pairs after a few steps, where SciPy's `eigh`
reduces the whole of T, O(d^3), and `eigsh`, in single vectors, may miss a copy of a degenerate pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded, eigh, qr

from sims.backend import one_thread
from sims.krylov import FLOOR, Plan
from sims.krylov.basis import Basis, Orthonormal, apart, beside, new_block, orthonormal, orthonormal_blocks

WAIT = 3  # blocks that wait at most
LOOSE = 1e-2  # and how far from orthogonal to the basis rounding may leave them
STEPS = 24  # of the space of the inverse of T at most
CLOSE = 0.05  # residuals in T, in units of those in H, that change nothing
LOOK = 3  # steps after which its pairs are looked at
LOWER = 60  # times that a shift is moved down
FEW = 24  # blocks from which on the lowest pairs of T are found without diagonalising it


class Space:
    """The Krylov space: basis Q, T = Q' H Q in `projected`, the block that comes `next`, and its factor R.

    `meet` before Q and T are read: blocks that wait are in neither.
    """

    def __init__(self, start: jax.Array, plan: Plan, rng: np.random.Generator):
        self.plan, self.rng = plan, rng
        self.basis = Basis(start.shape[0], plan.block, start.dtype, plan.width)
        self.eps = float(jnp.finfo(start.dtype).eps)
        self.projected = np.zeros((plan.basis, plan.basis))
        self.norm = 0.0
        self.restarts = 0
        self.kept = 0  # columns of the basis that the last restart left
        self.lowest = np.zeros(0)  # Ritz values last seen
        self.mixing: NDArray | None = None  # and their vectors; none since a restart
        self.factor = np.zeros((plan.block, plan.block))
        self.along = np.zeros((0, plan.block))  # the last columns of T
        # Twice, as `orthonormal` asks: once by Cholesky is good to the square of the conditioning.
        self.next = orthonormal(orthonormal(start, 0.0, rng).vectors, 0.0, rng).vectors
        self.met = True  # whether `next` is orthogonal to the whole basis
        self.growth = 1.0  # of rounding since it was
        self.waiting: list[jax.Array] = []
        # of the blocks that wait: coefficients of their products in the last two blocks, and the factor of what is left
        self.steps: list[tuple[NDArray, NDArray]] = []
        self.finite = True
        self.coupled = False  # whether the next block couples to all of the basis

    @property
    def dimension(self) -> int:
        """Columns of the basis, without the blocks that wait."""
        return self.basis.dimension

    @property
    def full(self) -> bool:
        """Whether one more block would pass the largest basis of the plan."""
        return self.dimension + (len(self.waiting) + 1) * self.plan.block > self.plan.basis

    def take(self, product: jax.Array) -> None:
        """Add the block `next`, whose product this is, and make the block that follows."""
        if self.coupled:
            return self._take_coupled(product)
        if self.met:
            self.basis.append(self.next)
            near = self.basis.recent
        else:
            last = self.waiting[-1] if self.waiting else self.basis.recent[-1]
            self.waiting.append(self.next)
            near = (last, self.next)
        made, along = new_block(near, product, self.norm, self._floor(1.0), self.rng)
        if not self._seen(along):
            return None
        if self.met:
            self._set(
                # To older blocks a Krylov step does not couple: zero but for rounding.
                np.concatenate([np.zeros((self.dimension - len(along), self.plan.block)), along]),
                made.factor,
            )
        else:
            self.steps.append((along, made.factor))
        self.next, self.met = made.vectors, False
        # The direction of which the step leaves least takes its rounding along at full length: it grows by |H| / left.
        left = np.linalg.svd(made.factor, compute_uv=False)[-1]
        self.growth *= self.norm / left if left > 0 else math.inf
        if made.fresh or len(self.waiting) == WAIT or self._floor(self.growth) > LOOSE:
            self.meet(made.fresh)
        return None

    def _take_coupled(self, product: jax.Array) -> None:
        self.basis.append(self.next)
        # After a restart the residuals of the Ritz vectors kept all lie in this block: its product meets every one of them.
        rest, along = self.basis.project(product)
        if self._seen(along):
            made = orthonormal(rest, self._floor(self.norm), self.rng)
            self._set(along, made.factor)
            self.next, self.met, self.coupled = made.vectors, False, False
            self.meet(made.fresh)

    def meet(self, fresh: int = 0) -> None:
        """Make the blocks that wait, and `next`, orthogonal to the whole basis, and the former part of it.

        fresh  columns of `next` put in by chance; these, and blocks far from orthogonal, are met again
        """
        for _ in range(3):
            if self.met:
                return
            found, made = self._met()
            # Where less than a tenth was taken off, what rounding left of it stays at the size of rounding.
            self.met = not (fresh or made.fresh) and bool(np.max(np.abs(found)) < 0.1)
            fresh = 0
        self.met = True

    def _met(self) -> tuple[NDArray, Orthonormal]:
        """One pass: see the top of the module. Returns C and c, and what came of W and r."""
        b, d, wide = self.plan.block, self.dimension, len(self.waiting) * self.plan.block
        columns, found = self.basis.project(beside((*self.waiting, self.next)))
        made = orthonormal_blocks(columns, b, self._floor(1.0), self.rng)
        *blocks, self.next = apart(made.vectors, b)
        # found = (C c): what W and r had in Q; factor = (S G; 0 S'): what is left of them in the blocks W' and r'
        C, c = found[:, :wide], found[:, wide:]
        S, G, S_next = made.factor[:wide, :wide], made.factor[:wide, wide:], made.factor[wide:, wide:]
        if not blocks:  # r alone has met Q: in H Q = Q T + r R l' it is Q c + r' S'
            self._set(self.along + c @ self.factor, S_next @ self.factor)
        else:
            coupling = S[:b, :b] @ self.factor  # in H Q = Q T + q_1 R l' the block q_1 is Q C_1 + w'_1 S_11
            self._set(self.along + C[:, :b] @ self.factor, coupling)
            K, R = self._local(), self.steps[-1][1]
            # rows of H W' S in Q: C K + c R' e_s' - T C, and B in the rows of l
            along = C @ K - times(self.projected[:d, :d], b, self.kept, C)
            along[d - b :, :b] += self.steps[0][0][:b]
            along[:, -b:] += c @ R
            # and in W': S K + G R' e_s' - e_1 S_11 R l'Q C
            own = S @ K
            own[:, -b:] += G @ R
            own[:b] -= coupling @ C[d - b :]
            back = np.linalg.inv(S)  # from H W' S to H W'
            for block in blocks:
                self.basis.append(block)
            self._set(np.concatenate([along, own]) @ back, S_next @ R @ back[-b:, -b:])
        self.waiting, self.steps, self.growth = [], [], 1.0
        return found, made

    def _local(self) -> NDArray:
        """K (s b, s b) of the blocks that wait."""
        b, count = self.plan.block, len(self.steps)
        K = np.zeros((count * b, count * b))
        for i, (along, factor) in enumerate(self.steps):
            here = slice(i * b, (i + 1) * b)
            K[here, here] = along[b:]
            if i:
                K[(i - 1) * b : i * b, here] = along[:b]
            if i + 1 < count:
                K[(i + 1) * b : (i + 2) * b, here] = factor
        return K

    def _set(self, along: NDArray, factor: NDArray) -> None:
        """The last columns of T, symmetric in the rows of their own blocks, and the factor of the block to come."""
        d, wide = along.shape
        first = d - wide
        self.projected[:d, first:d] = along
        self.projected[first:d, :d] = along.T
        # H is symmetric, products with it are to rounding: the mean of both halves.
        self.projected[first:d, first:d] = (along[first:] + along[first:].T) / 2
        self.along, self.factor = along[:, wide - self.plan.block :], factor

    def _seen(self, along: NDArray) -> bool:
        """Whether the coefficients of a product are finite; |H| is at least the length of its columns."""
        self.finite = bool(np.all(np.isfinite(along)))
        if self.finite:
            self.norm = max(self.norm, float(np.max(np.linalg.norm(along, axis=0))))
        return self.finite

    def _floor(self, scale: float) -> float:
        return FLOOR * self.eps * scale

    def ritz(self) -> tuple[NDArray, NDArray]:
        """Mixing of the basis into one block of the lowest Ritz vectors, and the estimates of their residuals."""
        if self.waiting:
            self.meet()
        d, b, kept = self.dimension, self.plan.block, self.kept
        projected = self.projected[:d, :d]
        with one_thread():  # T is small beside what the others of BLAS would leave a product that comes next
            self.norm = max(self.norm, spectral_norm(projected, b, kept))
        tol = self.plan.accepted(self.basis.dtype, self.norm)
        # One more than asked for: the value above the pairs tells how far apart the others are.
        wanted = min(self.plan.k + 1, b)
        guess = self._below()
        found = None
        if d >= FEW * b:
            with one_thread():
                found = lowest(projected, self.factor, kept, wanted, guess, CLOSE * tol, self.mixing)
        # The fast way knows the pattern of T alone. Before pairs are taken for good, what rounding put outside it counts too.
        if found is None or (
            np.max(self._residuals(found[1])[: self.plan.k]) <= tol
            and self._off_pattern(projected, *found) > tol / 4
        ):
            found = eigh(projected, subset_by_index=[0, min(b, d) - 1], check_finite=False)
        self.lowest, self.mixing = found
        return self.mixing, self._residuals(self.mixing)

    def _below(self) -> tuple[float, float]:
        """A number that may lie below the spectrum of T, and a step further down.

        Ritz values fall as the space grows: below the last ones by as much as they are apart.
        """
        if not len(self.lowest):
            return -1.1 * self.norm, self.norm
        low, high = self.lowest[0], self.lowest[self.plan.k - 1]
        apart = max(high - low, 1e-6 * self.norm)
        return low - apart, apart

    def _off_pattern(self, projected: NDArray, values: NDArray, mixing: NDArray) -> float:
        """The largest residual of the k lowest pairs in the whole of T, rounding outside its pattern included."""
        k = self.plan.k
        return float(np.max(np.linalg.norm(projected @ mixing[:, :k] - mixing[:, :k] * values[:k], axis=0)))

    def _residuals(self, mixing: NDArray) -> NDArray:
        return np.linalg.norm(self.factor @ mixing[self.dimension - self.plan.block :], axis=0)

    def restart(self) -> None:
        """Contract the basis to its lowest Ritz vectors, two fifths of it."""
        self.meet()
        d, b = self.dimension, self.plan.block
        kept = max(2, 2 * self.plan.basis // (5 * b)) * b
        values, mixing = eigh(self.projected[:d, :d], subset_by_index=[0, kept - 1])
        # LAPACK's vectors of a subset are orthonormal to a hundred eps only
        self.basis.contract(qr(mixing, mode="economic")[0])
        self.projected[:] = 0
        self.kept, self.lowest, self.mixing = kept, values[:b], None
        np.fill_diagonal(self.projected[:kept, :kept], values)
        # The block to come is orthogonal to all Ritz vectors, those kept included, and H couples it to each.
        self.met, self.coupled = True, True
        self.restarts += 1

    def anew(self, start: jax.Array) -> Space:
        """An empty space that starts from these columns (n, b) and knows what this one does of |H|."""
        space = Space(start, self.plan, self.rng)
        space.norm, space.restarts = self.norm, self.restarts
        return space

    def stats(self, products: int) -> dict[str, Any]:
        """What the solve took: products with columns, restarts, columns of a block."""
        return {"products": products, "restarts": self.restarts, "block": self.plan.block}


def spectral_norm(projected: NDArray, block: int, kept: int, steps: int = 12) -> float:
    """A lower bound on |T|, good to a few per cent: power steps on the pattern of T (d, d)."""
    vector = np.linalg.norm(projected, axis=0)[:, None]
    for _ in range(steps):
        vector = times(projected, block, kept, vector / (np.linalg.norm(vector) or 1.0))
    return float(np.linalg.norm(vector))


def times(projected: NDArray, block: int, kept: int, columns: NDArray) -> NDArray:
    """T (d, d) times columns (d, b), on the pattern of T; d and kept are multiples of the block."""
    down, right = projected.strides
    number, strides = len(projected) // block, (block * (down + right), down, right)
    # The diagonal blocks as a stack without a copy: one batched product takes all of them.
    middle = as_strided(projected, (number, block, block), strides, writeable=False)
    parts = columns.reshape(number, block, -1)
    result = middle @ parts
    if number > 1:
        below = as_strided(projected[block:], (number - 1, block, block), strides, writeable=False)
        result[1:] += below @ parts[:-1]
        result[:-1] += below.transpose(0, 2, 1) @ parts[1:]
    result = result.reshape(columns.shape)
    if block < kept < len(projected):  # the part of the coupling that lies outside the band
        coupling = projected[kept : kept + block, : kept - block]
        result[kept : kept + block] += coupling @ columns[: kept - block]
        result[: kept - block] += coupling.T @ columns[kept : kept + block]
    return result


def inverse_of(
    projected: NDArray, block: int, kept: int, shift: float
) -> Callable[[NDArray], NDArray] | None:
    """(T - x)^-1 times columns (d, b), as a function of these; None where T - x is not positive definite."""
    diagonal = np.diagonal(projected)[:kept] - shift
    if not np.all(diagonal > 0):
        return None
    rest = projected[kept:, kept:]
    coupling = projected[kept : kept + block, :kept]
    factor = None  # of S, by bands (2 b, d - kept)
    if len(rest):
        bands = np.zeros((2 * block, len(rest)))
        for i in range(min(len(bands), len(rest))):
            bands[i, : len(rest) - i] = np.diagonal(rest, -i)
        bands[0] -= shift
        # D couples to one block, so its elimination changes that block alone, and the band stays as wide.
        row, column = np.tril_indices(len(coupling))
        bands[row - column, column] -= ((coupling / diagonal) @ coupling.T)[row, column]
        try:
            factor = cholesky_banded(bands, overwrite_ab=True, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None

    def inverse(columns: NDArray) -> NDArray:
        b = len(coupling)
        above, rest = columns[:kept] / diagonal[:, None], columns[kept:].copy()
        if factor is not None:
            rest[:b] -= coupling @ above
            rest = cho_solve_banded((factor, True), rest, overwrite_b=True, check_finite=False)
            above -= (coupling.T @ rest[:b]) / diagonal[:, None]
        return np.concatenate([above, rest])

    return inverse


def lowest(
    projected: NDArray,
    factor: NDArray,
    kept: int,
    wanted: int,
    guess: tuple[float, float],
    tol: float,
    near: NDArray | None = None,
) -> tuple[NDArray, NDArray] | None:
    """The lowest pairs, one block of them: values (b,) and vectors (d, b) of T (d, d); None where they are not found.

    factor  R (b, b), which couples the last block of T to what follows: the pair (theta, s) of T has the residual R s_last in H
    wanted  of these that have residuals in T below tol, or below CLOSE of those in H
    guess   a number below the spectrum, and how far to go down from it where it is not
    near    vectors (d', b), d' <= d, near those looked for: what was found of a smaller T
    """
    block = len(factor)
    shift, step = guess
    for _ in range(LOWER):
        inverse = inverse_of(projected, block, kept, shift)
        if inverse is not None:
            break
        # Not definite: the shift is not below the spectrum. Ever longer steps get there in a few.
        shift, step = shift - step, 2 * step
    else:
        return None
    d = len(projected)
    steps = min(STEPS, d // block)
    basis, products = np.empty((d, steps * block), order="F"), np.empty((d, steps * block), order="F")
    # Of a fixed seed: the same T gives the same pairs.
    columns = np.random.default_rng(0).standard_normal((d, block))
    if near is not None:  # with a little of everything, for copies of what was found are to be found too
        columns *= CLOSE / math.sqrt(d)
        columns[: len(near)] += near
    for i in range(steps):
        known, last = basis[:, : i * block], slice(i * block, (i + 1) * block)
        for _ in range(2):
            # The inverse brings directions near the shift back: twice, or rounding of them stays.
            columns -= known @ (known.T @ columns)
            columns = np.linalg.qr(columns)[0]
        basis[:, last], products[:, last] = columns, times(projected, block, kept, columns)
        if i % LOOK == LOOK - 1:
            found, applied = basis[:, : last.stop], products[:, : last.stop]
            small = found.T @ applied
            values, mixing = np.linalg.eigh((small + small.T) / 2)
            values, mixing = values[:block], mixing[:, :block]
            vectors = found @ mixing
            here, beyond = applied @ mixing - vectors * values, factor @ vectors[d - block :]
            enough = np.maximum(tol, CLOSE * np.linalg.norm(beyond, axis=0))
            if np.all((np.linalg.norm(here, axis=0) <= enough)[:wanted]):
                return values, vectors
        columns = inverse(columns)
    return None
