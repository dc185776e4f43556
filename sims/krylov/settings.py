"""What decides about a Krylov solve: settings, the sizes that follow from them, the tolerance asked for.

`InUnits` is an operator in units near its size, where squares of what is computed neither under- nor overflow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from sims.backend import power_of_two
from sims.checks import of_type
from sims.operator.operator import HessianOperator
from theory.checks import ParameterError, count, positive

FLOOR = 10.0  # residuals below FLOOR eps |H| are rounding
MIXED = 1e-6  # the least tol for which a search in float32 brings a float64 problem to its end


@dataclass(frozen=True)
class Settings:
    """What decides about a solve; None: chosen from the problem.

    tol       largest residual ||H v - lambda v|| accepted, in units of H (default 1e-8 in float64, 1e-4 in
              float32); where that lies below the rounding of the products, FLOOR eps |H|, the latter counts:
              stats["tol"] is the one used
    relative  the same in units of |H|: the smaller of both counts (default: none if tol is given, else 1e-9 in float64, 1e-5
              in float32; H is small where a is large)
    block     vectors in a block; at least the number of pairs, at most the order (or 64)
    basis     columns kept before a restart
    products  block products allowed, of a search in float32 and of what follows it together; 2 at least
    mixed     search in float32 and judge in float64 where tol allows
    seed      of the random start
    """

    tol: float | None = None
    relative: float | None = None
    block: int | None = None
    basis: int | None = None
    products: int = 5000
    mixed: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Plan:
    """Sizes of a solve: pairs k, block b, columns of the basis, tolerances, products allowed, seed."""

    k: int
    block: int
    basis: int
    tol: float
    products: int
    relative: float = math.inf
    seed: int = 0

    @classmethod
    def of(cls, order: int, dtype: np.dtype, k: int, degeneracy: int, settings: Settings) -> Plan:
        """The sizes for k pairs of a matrix of this order; ParameterError where they do not fit together."""
        of_type("settings", settings, Settings)
        k = count("k", k)
        if k > order:
            raise ParameterError(f"k must be at most the order of the Hessian, got k = {k}, order {order}")
        if settings.block is None:
            block = max(8, k, count("degeneracy", degeneracy) + 2)
        else:
            block = count("block", settings.block)
            if block < k:
                raise ParameterError(f"block must be at least the number of pairs {k}, got {block}")
            if block > max(order, 64):  # a little more than a small order does no harm
                raise ParameterError(f"block must be at most the order {order}, got {block}")
        basis = default_basis(order, block) if settings.basis is None else count("basis", settings.basis)
        if basis < 4 * block:
            raise ParameterError(f"basis must hold at least 4 blocks of {block} columns, got {basis}")
        single = dtype == np.float32
        default = math.inf if settings.tol is not None else 1e-5 if single else 1e-9
        return cls(
            k,
            block,
            basis // block * block,
            tol=(1e-4 if single else 1e-8) if settings.tol is None else positive("tol", settings.tol),
            products=count("products", settings.products, minimum=2),
            relative=default if settings.relative is None else positive("relative", settings.relative),
            seed=count("seed", settings.seed, minimum=0),
        )

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


def mixes(settings: Settings, plan: Plan, dtype: Any) -> bool:
    """Whether a solve searches in float32 and is judged in float64."""
    return settings.mixed and dtype == np.float64 and plan.tol >= MIXED and plan.products > 3


def plan_tol(plan: Plan, dtype: Any, norm: float) -> float:
    """The residual that is asked for in units of H, or the rounding of the products where that is larger."""
    return max(
        min(plan.tol, plan.relative * norm if norm else plan.tol), FLOOR * float(jnp.finfo(dtype).eps) * norm
    )


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
