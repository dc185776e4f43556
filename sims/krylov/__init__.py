"""The search without the matrix, of which `sims.solvers.krylov` makes the solver of that name; here what decides about it:
settings, the sizes that follow from them, and the bytes these take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from sims.checks import FLOOR, finite_p, of_type, real_dtype, samples_of
from sims.rows import block_size
from sims.threefry import gemm_width
from theory.checks import ParameterError, count, positive
from theory.model.network import Network

MIXED = 1e-6  # the least tol for which a search in float32 brings a float64 problem to its end
PANELS = 24  # blocks of vectors alive at once in a step: those that wait, side by side, projected, orthonormal, apart
# Blocks of streamed rows: one in use while another is drawn, for which XLA plans four on the CPU and its result alone on a GPU
# (its memory_analysis)
DRAWN = {"cpu": 5, "gpu": 2}


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
    """Sizes of a solve: pairs k, columns of a block and of the basis, tolerances, products allowed, whether it searches in
    float32 and judges in float64, seed."""

    k: int
    block: int
    basis: int
    tol: float
    relative: float
    products: int
    mixed: bool
    seed: int

    @classmethod
    def of(cls, order: int, dtype: np.dtype, k: int, degeneracy: int, settings: Settings) -> Plan:
        """The sizes for k pairs of a matrix of this order; ParameterError where they do not fit together."""
        of_type("settings", settings, Settings)
        k = count("k", k)
        if k > order:
            raise ParameterError(f"k must be at most the order of the Hessian, got k = {k}, order {order}")
        if settings.block is None:
            # Wider than a degenerate space: no member of one is missed.
            block = max(8, k, count("degeneracy", degeneracy) + 2)
        else:
            block = count("block", settings.block)
            if block < k:
                raise ParameterError(f"block must be at least the number of pairs {k}, got {block}")
            if block > max(order, 64):  # a little more than a small order does no harm
                raise ParameterError(f"block must be at most the order {order}, got {block}")
        default = max(min(1536, order // 2), 12 * block)
        basis = default if settings.basis is None else count("basis", settings.basis)
        if basis < 4 * block:
            raise ParameterError(f"basis must hold at least 4 blocks of {block} columns, got {basis}")
        single = dtype == np.float32
        tol, relative = (1e-4 if single else 1e-8), (1e-5 if single else 1e-9)
        if settings.tol is not None:
            tol, relative = positive("tol", settings.tol), math.inf
        products = count("products", settings.products, minimum=2)
        return cls(
            k,
            block,
            basis // block * block,
            tol,
            relative if settings.relative is None else positive("relative", settings.relative),
            products,
            settings.mixed and dtype == np.float64 and tol >= MIXED and products > 3,
            count("seed", settings.seed, minimum=0),
        )

    @property
    def smallest(self) -> int:
        """Orders up to this are diagonalised whole."""
        return self.basis + 2 * self.block

    @property
    def width(self) -> int:
        """Columns in a chunk of the basis."""
        return self.block * max(1, -(-256 // self.block))

    def accepted(self, dtype: Any, norm: float) -> float:
        """The residual that is asked for in units of H, or the rounding of the products where that is larger."""
        tol = min(self.tol, self.relative * norm) if norm else self.tol
        return max(tol, FLOOR * float(np.finfo(dtype).eps) * norm)


def data_bytes(n: int, m: int, dtype: Any, *, stored: bool, mixed: bool = False) -> int:
    """Bytes of the data (m, n) in blocks of rows.

    stored  kept, with the transpose on the CPU; else DRAWN blocks
    mixed   with a float32 copy
    """
    item = real_dtype(dtype).itemsize
    size = block_size(m, n, dtype, stored=stored)
    host = jax.default_backend() == "cpu"
    if not stored:
        width = n if host else 2 * gemm_width(-(-n // 2))
        return DRAWN["cpu" if host else "gpu"] * size * width * item
    width = 2 * n if host else 2 * gemm_width(-(-n // 2))
    return -(-m // size) * size * width * (item + (4 if mixed else 0))


def solver_bytes(order: int, plan: Plan, dtype: Any, sets: int = 1) -> int:
    """Bytes of the bases, blocks and projected matrices of `sets` solves that run in step."""
    item = real_dtype(dtype).itemsize
    if order <= plan.smallest:
        return sets * 4 * 8 * order**2
    # Row-major and column-major on the CPU, filled up rows on a GPU (`sims.krylov.basis`).
    long, copies = (order, 2) if jax.default_backend() == "cpu" else (gemm_width(order), 1)
    columns = copies * (plan.basis + plan.width) + PANELS * plan.block
    contraction = 2 * copies * plan.basis // 5  # the old basis stands while the new one is formed
    return sets * (long * item * (columns + contraction) + 4 * 8 * plan.basis**2)


def krylov_bytes(
    model: Network,
    n: int,
    alpha: float,
    *,
    eigenpairs: int,
    dtype: Any = "float64",
    stored: bool = True,
    settings: Settings | None = None,
    sets: int = 1,
    devices: int = 1,
) -> int:
    """Peak bytes on one device of a matrix-free solve of `sets` Hessians on the same data (alpha: the largest).

    devices  those that share the rows, each with memory of its own
    """
    settings, dtype = Settings() if settings is None else settings, np.dtype(real_dtype(dtype))
    p, m, sets = finite_p(model), samples_of(alpha, n), count("sets", sets)
    n, eigenpairs = count("n", n), count("eigenpairs", eigenpairs)
    share = -(-m // count("devices", devices))
    plan = Plan.of(p * n, dtype, eigenpairs, int(model.degeneracy), settings)
    preactivations = 2 * m * (sets * (p + 1) + p) * 8  # in float64 until the units of the weights are known
    return (
        data_bytes(n, share, dtype, stored=stored, mixed=stored and plan.mixed)
        + solver_bytes(p * n, plan, dtype, sets)
        + preactivations
    )
