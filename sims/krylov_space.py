"""A block Krylov space that grows: basis, projected matrix, the block to come."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, qr

from sims.krylov_basis import Basis, Orthonormal, beside, new_block, orthonormal, pair_of_blocks
from sims.krylov_plan import FLOOR, Plan
from sims.projected import lowest, sparse, spectral_norm, times

LARGE = 400  # order of T from which its pairs are looked at without diagonalising it


class Space:
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
        self.kept = 0  # columns of the basis that the last restart left
        self.lowest = np.zeros(0)  # Ritz values last seen
        self.factor = np.zeros((plan.block, plan.block))
        self.along = np.zeros((0, plan.block))  # the last columns of T
        self.next = orthonormal(orthonormal(start, 0.0, rng).vectors, 0.0, rng).vectors
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
        if self.coupled:
            rest, along = self.basis.project(product)
            if not self._seen(along):
                return
            made = orthonormal(rest, self._floor(self.norm), self.rng)
        else:
            made, near = self._new_block(self.basis.recent, product)
            along = np.concatenate([np.zeros((self.dimension - len(near), self.plan.block)), near])
            if not self._seen(near):
                return
        self.next, self.factor, self.along = made.vectors, made.factor, along
        self.pending = not (self.coupled or made.fresh) and self._distinct()
        self.coupled = False
        if self.pending:
            self._write()
        else:
            self._settle(made.fresh)

    def _second(self, product: jax.Array) -> None:
        """`next` (q) waits, and `product` is that of q: q and the block r that follows meet the whole basis together.

        With q = Q c + q' S and r = Q c' + q' G + r' S' the product of q' follows from that of q, which is
        H q = l B + q A + r R' with l the last block of Q, and from H Q = Q T + q' (S R) l', R the factor of q:

            H q' S = l B + Q (c A + c' R' - T c) + q' (S A + G R' - S R l'Q c) + r' S' R'
        """
        b, d = self.plan.block, self.dimension
        made, near = self._new_block((self.basis.recent[-1], self.next), product)
        if not self._seen(near):
            return
        both, found = self.basis.project(beside(self.next, made.vectors))
        waiting, turned, following = pair_of_blocks(both, self._floor(1.0), self.rng)
        c, c_rest = found[:, :b], found[:, b:]

        self.along += c @ self.factor
        self.factor = waiting.factor @ self.factor
        self._write()
        back = np.linalg.inv(waiting.factor)
        along = c @ near[b:] + c_rest @ made.factor - times(self.projected[:d, :d], b, self.kept, c)
        along[d - b :] += near[:b]
        own = waiting.factor @ near[b:] + turned @ made.factor - self.factor @ c[d - b :]
        self.basis.append(waiting.vectors)
        self.next, self.factor = following.vectors, following.factor @ made.factor @ back
        self.along = np.concatenate([along, own]) @ back
        self.pending = False
        fresh = made.fresh or waiting.fresh or following.fresh
        if fresh or np.max(np.abs(found)) > 0.1:
            self._settle(fresh)
        else:
            self._write()

    def _settle(self, fresh: int = 0) -> None:
        """`next` against the whole basis, and again where it was not nearly orthogonal or has `fresh` columns."""
        for _ in range(3):
            rest, correction = self.basis.project(self.next)
            self.along = self.along + correction @ self.factor
            made = orthonormal(rest, self._floor(1.0), self.rng)
            self.next, self.factor = made.vectors, made.factor @ self.factor
            if not (fresh or made.fresh) and np.max(np.abs(correction)) < 0.1:
                break
            fresh = 0
        self.pending = False
        self._write()

    def _new_block(
        self, near: tuple[jax.Array, ...], product: jax.Array
    ) -> tuple[Orthonormal, NDArray[np.float64]]:
        return new_block(near, product, self.norm, self._floor(1.0), self.rng)

    def _seen(self, along: NDArray) -> bool:
        """Whether the coefficients of a product are finite; |H| is at least the length of its columns."""
        self.finite = bool(np.all(np.isfinite(along)))
        if self.finite:
            self.norm = max(self.norm, float(np.max(np.linalg.norm(along, axis=0))))
        return self.finite

    def _floor(self, scale: float) -> float:
        return FLOOR * self.eps * scale

    def _distinct(self) -> bool:
        """Whether the rounding of the last product leaves the block made from it orthogonal to a hundredth."""
        return bool(np.linalg.svd(self.factor, compute_uv=False)[-1] > 100 * self._floor(self.norm))

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
        self.lowest, mixing = eigh(projected, subset_by_index=[0, min(b, d) - 1], check_finite=False)
        return mixing, self._residuals(mixing)

    def estimate(self) -> float:
        """The largest residual of the k lowest Ritz pairs, estimated; cheaper than `ritz` where T is large."""
        d, k = self.dimension, self.plan.k
        if d >= LARGE:
            matrix = sparse(self.projected[:d, :d], self.plan.block, self.kept)
            # Ritz values fall as the space grows: below the last ones by as much as they are apart
            found = lowest(matrix, k, 2 * self.lowest[0] - self.lowest[k - 1] - self.eps * self.norm)
            if found is not None:
                self.lowest[:k], vectors = found
                self.norm = max(self.norm, spectral_norm(matrix))
                return float(np.max(self._residuals(vectors)))
        return float(np.max(self.ritz()[1][:k]))

    def _residuals(self, mixing: NDArray) -> NDArray:
        return np.linalg.norm(self.factor @ mixing[self.dimension - self.plan.block :], axis=0)

    def restart(self) -> None:
        """Contract the basis to its lowest Ritz vectors, two fifths of it."""
        if self.pending:
            self._settle()
        d, b = self.dimension, self.plan.block
        kept = max(2, 2 * self.plan.basis // (5 * b)) * b
        values, mixing = eigh(self.projected[:d, :d], subset_by_index=[0, kept - 1])
        # LAPACK's vectors of a subset are orthonormal to a hundred eps only
        self.basis.contract(qr(mixing, mode="economic")[0])
        self.projected[:] = 0
        self.kept, self.lowest = kept, values[:b]
        np.fill_diagonal(self.projected[:kept, :kept], values)
        self.coupled = True
        self.restarts += 1

    def blank(self) -> tuple[NDArray, jax.Array, NDArray]:
        blank = np.full(self.plan.block, np.nan)
        return blank, jnp.full(self.next.shape, jnp.nan, self.next.dtype), blank

    def stats(self, products: int) -> dict[str, Any]:
        return {"products": products, "restarts": self.restarts, "block": self.plan.block}
