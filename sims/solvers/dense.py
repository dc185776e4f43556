"""Through the dense Hessian, with the rank of the largest overlap among all eigenvectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sims import hessian, machine
from sims.backend import pinned, power_of_two, threads_for
from sims.dense.all_overlaps import STEPS
from sims.dense.eigen import Eigenpairs, lowest_on_device, lowest_together
from sims.instance import Instance, finite_p, padded, real_dtype, samples_of
from sims.signal import signal_vectors
from sims.solvers import Solver
from theory.checks import count
from theory.model.network import Network


@pinned
def solve_dense(drawn: Instance, k: int) -> Eigenpairs:
    """Lowest k eigenpairs of an instance through its dense Hessian, with the rank of the largest overlap of all.

    In units of a power of two near the largest weight, which float32 could not hold for every a.
    """
    return solve_together([drawn], k)[0]


@pinned
def solve_together(drawn: Sequence[Instance], k: int) -> list[Eigenpairs]:
    """`solve_dense` of several instances of one model, N and M, the same to the bit: see `sims.dense.eigen.lowest_together`."""
    with threads_for(drawn[0].student.size):
        return _together(drawn, k)


def _together(drawn: Sequence[Instance], k: int) -> list[Eigenpairs]:
    signals = [signal_vectors(one.teacher, one.student.shape[0]) for one in drawn]
    weights = hessian.weights_together(drawn)
    units = [power_of_two(size) for size in np.max(np.abs(weights), axis=(1, 2, 3)).tolist()]
    weights = weights / np.reshape(units, (-1, 1, 1, 1))
    if jax.default_backend() == "cpu":
        data = [np.asarray(one.data)[: one.m] for one in drawn]
        matrices = [hessian.dense_blas(*both) for both in zip(data, weights, strict=True)]
        return lowest_together(matrices, k, signals, units)
    order, dtype = drawn[0].student.size, drawn[0].student.dtype
    width, found = machine.solved_together(order, dtype.itemsize), []
    for start in range(0, len(drawn), width):
        here = slice(start, start + width)
        made = [_on_device(*both) for both in zip(drawn[here], weights[here], strict=True)]
        # always so many, for the numbers of a matrix not to depend on its company
        made += [jnp.eye(order, dtype=dtype)] * (width - len(made))
        found += lowest_on_device(jnp.stack(made), k, signals[here])
    return [pairs.times(unit) for pairs, unit in zip(found, units, strict=True)]


def _on_device(drawn: Instance, weights: NDArray) -> jax.Array:
    assert drawn.data is not None  # sample_point draws it for this solver
    padded = np.zeros((len(drawn.data), *weights.shape[1:]), drawn.data.dtype)
    padded[: drawn.m] = weights
    return hessian.dense(drawn.data, jnp.asarray(padded))


def dense_bytes(model: Network, n: int, alpha: float, *, eigenpairs: int, dtype: Any = "float64") -> int:
    """Peak bytes of one dense sample at (N, alpha): the arrays it holds at once, on JAX's default platform.

    CPU: the matrix (reduced in place), a block of it, the data, some rows of them scaled, the weights, the
    sweep of `sims.dense.all_overlaps` or the basis of its bound, the vectors. GPU: the data and the weights, padded, and the
    most of three steps: blocks of the matrix (each a sum of shares, of rows scaled apart in float64), blocks beside the matrix,
    the matrix in two copies with its vectors and the workspace of syevd (2 n^2).
    """
    p, m, item = finite_p(model), samples_of(alpha, n), real_dtype(dtype).itemsize
    n, eigenpairs = count("n", n), count("eigenpairs", eigenpairs)
    order, signal = p * n, p * model.p_star
    columns = 4 * order * (eigenpairs + signal)
    if jax.default_backend() != "cpu":
        rows, blocks = padded(m), p * (p + 1) // 2 * n**2
        # as XLA splits products at alpha = 2 (`python -m benchmarks.gpu_compile --part dense`): more for longer ones
        shares = 8 if item * n**2 <= 2**18 else 4 if item * n**2 <= 2**21 else 2
        build = blocks + shares * n**2 + (rows * n if item == 8 else 0)
        steps = max(build, blocks + order**2, 5 * order**2)
        return item * (rows * n + 2 * rows * p**2 + columns + steps)
    sweeps = 8 * padded(order) * max(6 + 2 * signal, STEPS)
    block = n**2 if p > 1 else 0
    return item * (order**2 + block + (padded(m) + hessian.BLOCK) * n + columns) + 8 * m * 3 * p**2 + sweeps


SOLVER = Solver(solve_together, dense_bytes, dense=True)
