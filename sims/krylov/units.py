"""Operators of any size in units near their size, where squares of what is computed neither under- nor overflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from sims.dense.eigen import power_of_two
from sims.operator.operator import HessianOperator

if TYPE_CHECKING:
    from sims.krylov.solver import BlockOperator

MILD = (
    2.0**60
)  # sizes from its inverse to it are left as they are: squares of float32 numbers hold out this far


@dataclass(frozen=True)
class InUnits:
    """A `BlockOperator` whose products are divided by `own`, powers of two, one a set."""

    whole: BlockOperator
    own: tuple[float, ...]

    @property
    def order(self) -> int:
        """Rows of each matrix."""
        return self.whole.order

    @property
    def dtype(self) -> np.dtype:
        """Precision of the products."""
        return self.whole.dtype

    @property
    def sets(self) -> int:
        """Number of matrices."""
        return self.whole.sets

    @property
    def units(self) -> tuple[float, ...]:
        """One a set."""
        return tuple(unit * more for unit, more in zip(self.whole.units, self.own, strict=True))

    def product(self, chosen: Sequence[int], blocks: Sequence[jax.Array]) -> list[jax.Array]:
        """H V in the set's unit for one block of each chosen set."""
        products = self.whole.product(chosen, blocks)
        return [product / self.own[i] for i, product in zip(chosen, products, strict=True)]

    def lowered(self) -> BlockOperator | None:
        """The same in float32, or None where float32 has no such numbers."""
        return None

    def ordered(self, vectors: jax.Array) -> jax.Array:
        """Vectors (order, k) from the operator's order of rows to block-major."""
        return self.whole.ordered(vectors)


def in_units(operator: BlockOperator) -> BlockOperator:
    """The operator in units near its size, which one product shows; one of ours has them already."""
    if isinstance(operator, HessianOperator):
        return operator
    vector = np.random.default_rng(0).standard_normal((operator.order, 1))
    probe = jnp.asarray(vector / np.linalg.norm(vector), operator.dtype)
    products = operator.product(range(operator.sets), [probe] * operator.sets)
    own = tuple(power_of_two(float(jnp.max(jnp.abs(product)))) for product in products)
    return operator if all(1 / MILD <= unit <= MILD for unit in own) else InUnits(operator, own)
