"""Matrix-free, by block Krylov: see sims.krylov.sample."""

from __future__ import annotations

from collections.abc import Sequence

from sims.dense.eigen import Eigenpairs
from sims.instance import Instance
from sims.krylov.sample import point_bytes, solve_krylov
from sims.solvers import Solver


def solve(drawn: Sequence[Instance], k: int) -> list[Eigenpairs]:
    """Lowest k eigenpairs of each instance, one after another."""
    return [solve_krylov(one, k) for one in drawn]


SOLVER = Solver(solve, point_bytes, rows=False)
