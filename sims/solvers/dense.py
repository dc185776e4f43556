"""Through the dense Hessian, with the rank of the largest overlap among all eigenvectors."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sims import card, hessian
from sims.blas import threads_for
from sims.dense.eigen import Eigenpairs, lowest_on_device, lowest_together, power_of_two
from sims.instance import Instance
from sims.memory import dense_bytes
from sims.pinned import pinned
from sims.signal import signal_vectors
from sims.solvers import Solver


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
    width, found = card.solved_together(order, dtype.itemsize), []
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


SOLVER = Solver(solve_together, dense_bytes, dense=True)
