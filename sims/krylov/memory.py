"""Bytes of the matrix-free path: the data in either layout, the basis, the blocks."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from sims.instance import finite_p, real_dtype, samples_of
from sims.krylov.settings import Plan, Settings, mixes
from sims.operator.halves import gemm_width
from sims.operator.rows import block_size
from theory.checks import count
from theory.model.network import Network

PANELS = 24  # blocks of vectors alive at once in a step: those that wait, side by side, projected, orthonormal, apart

# Blocks of streamed rows: one in use while another is drawn, for which XLA plans four on the CPU and its result alone on a GPU
# (its memory_analysis)
DRAWN = {"cpu": 5, "gpu": 2}


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
    mixed = stored and mixes(settings, plan, dtype)
    labels = 2 * m * (sets * (p + 1) + p) * 8  # in float64 until the units of the weights are known
    return (
        data_bytes(n, share, dtype, stored=stored, mixed=mixed)
        + solver_bytes(p * n, plan, dtype, sets)
        + labels
    )
