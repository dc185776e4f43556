"""Samples too large for a dense Hessian: which solver, which layout of the data, and what can still be said of ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax

from sims import card
from sims.dense.eigen import WIDEST, Code, Eigenpairs
from sims.instance import Instance, finite_p, real_dtype, samples_of
from sims.krylov.memory import krylov_bytes
from sims.krylov.signal import signal_overlaps
from sims.krylov.solver import Settings, lowest_krylov
from sims.memory import dense_bytes, fits
from sims.operator.operator import HessianOperator, hessian_operator
from sims.operator.sharded import sharded_operator
from sims.pinned import pinned
from theory.checks import count
from theory.model.network import Network

DENSE = 4000  # orders p N up to which dense solves take seconds on a CPU, and give every rank
TOL = {
    "float64": 1e-6,
    "float32": 1e-4,
}  # residuals: values then err by tol^2 over the gap, q2 by tol over it
RELATIVE = {"float64": 1e-7, "float32": 1e-5}  # the same in units of |H|, for a large, where H is small


def preferred_solver(model: Network, n: int, alpha: float, k: int, dtype: Any = "float64") -> str:
    """ "dense" while the order p N is small enough in time and memory, else "krylov"."""
    p, n = finite_p(model), count("n", n)
    if jax.default_backend() == "cpu":
        fast = p * n <= DENSE
    else:
        fast = p * n <= WIDEST["gpu"] and card.prefers_dense(
            samples_of(alpha, n), n, p, real_dtype(dtype).itemsize
        )
    return "dense" if fast and fits(dense_bytes(model, n, alpha, eigenpairs=k, dtype=dtype)) else "krylov"


@pinned
def solve_krylov(drawn: Instance, k: int) -> Eigenpairs:
    """Lowest k eigenpairs of an instance drawn without its data, matrix-free.

    The data are stored where they fit and drawn again at every product where they do not, with rows over
    all devices where JAX sees several. Residuals to TOL, or RELATIVE |H| where that is less. Overlaps with the signal
    come with them (`sims.krylov.signal`).
    """
    dtype = str(real_dtype(drawn.student.dtype))
    stored = stores(drawn.model, drawn.n, drawn.m / drawn.n, k, dtype)
    settings = Settings(tol=TOL[dtype], relative=RELATIVE[dtype])
    degeneracy = int(drawn.model.degeneracy)
    operator = operator_of(drawn, stored)
    pairs = lowest_krylov(operator, k, degeneracy=degeneracy, settings=settings)
    if pairs.code is Code.INVALID:
        return pairs
    return replace(pairs, signal=signal_overlaps(operator, pairs, drawn.teacher))


@pinned
def operator_of(drawn: Instance, stored: bool) -> HessianOperator:
    """The operator on one device, or over all that JAX sees."""
    if jax.device_count() > 1:
        return sharded_operator(drawn, stored=stored)
    return hessian_operator(drawn, stored=stored)


def stores(model: Network, n: int, alpha: float, k: int, dtype: Any) -> bool:
    """Whether the data of one sample fit in memory, over all devices, beside the solver."""
    return fits(_bytes(model, n, alpha, k, dtype, stored=True))


def point_bytes(model: Network, n: int, alpha: float, *, eigenpairs: int, dtype: Any = "float64") -> int:
    """Peak bytes on one device of one matrix-free sample, in the layout that `solve_krylov` would choose."""
    stored = stores(model, n, alpha, eigenpairs, dtype)
    return _bytes(model, n, alpha, eigenpairs, dtype, stored=stored)


def _bytes(model: Network, n: int, alpha: float, k: int, dtype: Any, *, stored: bool) -> int:
    settings = Settings(tol=TOL[str(real_dtype(dtype))])
    devices = jax.device_count()
    return krylov_bytes(
        model,
        n,
        alpha,
        eigenpairs=k,
        dtype=dtype,
        stored=stored,
        settings=settings,
        devices=1 if jax.default_backend() == "cpu" else devices,
    )
