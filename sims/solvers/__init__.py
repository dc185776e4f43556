"""Ways to the lowest eigenpairs of a sample, a module each: sims/solvers/NAME.py with a `SOLVER`, found there by its name.

NAME is what `sample_point(solver=NAME)` and `bbp sweep --solver NAME` take. The contract: `Solver`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sims.dense.eigen import Eigenpairs
from sims.instance import Instance


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
