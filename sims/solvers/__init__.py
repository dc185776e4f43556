"""Ways to the lowest eigenpairs of a sample, a module each: sims/solvers/NAME.py with a `SOLVER`, found there by its name.

NAME is what `sample_point(solver=NAME)` and `bbp sweep --solver NAME` take. The contract: `Solver`, which gives `Eigenpairs`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.instance import Instance

IN_UNITS = ("norm", "tol", "above")  # entries of `Eigenpairs.stats` that are in units of the matrix


class Code(enum.IntEnum):
    """How a solve ended."""

    CONVERGED = 0
    NOT_CONVERGED = 1  # an iteration ran out of steps; the best pairs are returned
    INVALID = 2  # NaN or infinity in the matrix or in the result
    INACCURATE = 3  # residuals or orthonormality beyond tolerance
    FAILED = 4  # a library routine gave up


@dataclass(frozen=True)
class Overlaps:
    """Squared overlaps of eigenvectors with the span of given directions; in a degenerate space its mean, whatever the basis.

    q2     (k,) of the lowest
    rank   0-based rank, in the whole spectrum, of the eigenvector of largest squared overlap
    every  (n,) of all eigenvectors; None where the lowest settled the rank
    """

    q2: NDArray
    rank: int
    every: NDArray | None = None


@dataclass(frozen=True)
class Eigenpairs:
    """Lowest eigenpairs of an n x n symmetric matrix, lowest first.

    values     (k,)
    vectors    (n, k), orthonormal columns, of NumPy; inside a search of JAX
    residuals  (k,), ||H v - lambda v||
    code       Code.CONVERGED if every pair passed the checks
    stats      how it was found: "method", "orthonormality" (largest entry of V'V - I), iterations, products
    signal     squared overlaps with given directions, where asked for and available
    """

    values: NDArray
    vectors: Any
    residuals: NDArray
    code: Code
    stats: dict[str, Any] = field(default_factory=dict)
    signal: Overlaps | None = None

    def times(self, unit: float) -> Eigenpairs:
        """The pairs of `unit` times the matrix, unit a power of two; of stats those in `IN_UNITS` are the matrix's too."""
        if unit == 1:
            return self
        stats = {name: value * unit if name in IN_UNITS else value for name, value in self.stats.items()}
        return replace(self, values=self.values * unit, residuals=self.residuals * unit, stats=stats)


def nothing(like: Any, k: int, code: Code, why: str) -> Eigenpairs:
    """What a solve that gave nothing returns: NaN, vectors of as many entries and of the dtype of `like`."""
    blank = np.full(k, np.nan)
    return Eigenpairs(blank, np.full((like.size, k), np.nan, like.dtype), blank, code, {"failure": why})


@dataclass(frozen=True)
class Solver:
    """A way to eigenpairs.

    solve  (instances, k) -> Eigenpairs of each: in units of the Hessian, lowest first, those of a sample the same whatever
           others come with it; a `code` other than CONVERGED fails the sample. `signal` holds overlaps with the signal space
    bytes  (model, n, alpha, *, eigenpairs, dtype) -> peak bytes of one sample
    rows   whether solve wants the data drawn beforehand
    dense  whether it indexes a dense matrix of order p N
    """

    solve: Callable[[Sequence[Instance], int], list[Eigenpairs]]
    bytes: Callable[..., int]
    rows: bool = True
    dense: bool = False
