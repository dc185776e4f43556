"""What decides about a Krylov solve: settings, the sizes that follow from them, the tolerance asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from theory.checks import ParameterError, count, positive

FLOOR = 10.0  # residuals below FLOOR eps |H| are rounding
MIXED = 1e-6  # the least tol for which a search in float32 brings a float64 problem to its end


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


def mixes(settings: Settings, plan: Plan, dtype: Any) -> bool:
    """Whether a solve searches in float32 and is judged in float64."""
    return settings.mixed and dtype == np.float64 and plan.tol >= MIXED


def plan_tol(plan: Plan, dtype: Any, norm: float) -> float:
    """The residual that is asked for: plan.tol, or the rounding of the products where that is larger."""
    return max(plan.tol, FLOOR * float(jnp.finfo(dtype).eps) * norm)
