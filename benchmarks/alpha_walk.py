"""Products that a search needs at an alpha when it starts from what was found at its neighbours, on shared data.

Walks down from the largest alpha. A line for each: products from a random start; from the lowest vectors of the alpha above;
from these extrapolated by those two above; from the lowest pairs in the span of both; and the largest residual that the
vectors of the alpha above have here, from which a search has to come down to --tol.

    python -m benchmarks.alpha_walk [--n 700] [--high 1.5] [--step 0.04] [--points 6] [--pairs 3] [--block 8]
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sims.backend import settings
from sims.instance import draw
from sims.krylov import Plan, Settings
from sims.krylov.solver import search
from sims.operator import HessianOperator, hessian_operator
from theory.model import Network


def searched(
    operator: HessianOperator, start: NDArray | None, options: argparse.Namespace
) -> tuple[int, NDArray]:
    """Products of a search in float32 from these columns, filled up by random ones to a block, and what it found."""
    low = operator.lowered()
    assert low is not None
    plan = Plan.of(
        operator.order, low.dtype, options.pairs, 2, Settings(tol=options.tol, block=options.block)
    )
    rng = np.random.default_rng(3)
    columns = rng.standard_normal((operator.order, plan.block)) / np.sqrt(operator.order)
    if start is not None:
        columns[:, : start.shape[1]] = start[:, : plan.block]
    solver = search(jnp.asarray(columns, np.float32), replace(plan, tol=plan.tol / operator.units[0]), rng)
    block = next(solver)
    while True:
        try:
            block = solver.send(low.product([0], [block])[0])
        except StopIteration as end:
            return end.value.stats["products"], np.asarray(end.value.vectors, np.float64)


def projected(operator: HessianOperator, columns: NDArray) -> tuple[NDArray, float]:
    """Ritz vectors of orthonormal columns, lowest first, and the largest of their residuals."""
    product = np.asarray(operator.product([0], [jnp.asarray(columns, operator.dtype)])[0])
    gram = columns.T @ product
    values, mixing = np.linalg.eigh((gram + gram.T) / 2)
    rest = product @ mixing - columns @ mixing * values
    return columns @ mixing, float(np.linalg.norm(rest, axis=0).max()) * operator.units[0]


def main() -> None:
    """Print a line for each alpha."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in {"n": 700, "points": 6, "pairs": 3, "block": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, number in {"high": 1.5, "step": 0.04, "tol": 1e-4}.items():
        parser.add_argument(f"--{name}", type=float, default=number)
    options = parser.parse_args()
    print("alpha   random  neighbour  extrapolated  span of two  residual of the neighbour's")
    above: list[NDArray] = []
    for alpha in options.high - options.step * np.arange(options.points):
        operator = hessian_operator(
            draw(Network(2, a=0.3), options.n, alpha, seed=1, data=False, shared=True)
        )
        products, found = searched(operator, None, options)
        line = f"{alpha:5.3f} {products:8d}"
        if above:
            wanted = above[-1][:, : options.pairs]
            line += f" {searched(operator, above[-1], options)[0]:10d}"
        if len(above) > 1:
            left, _, right = np.linalg.svd(
                above[-2].T @ above[-1]
            )  # the rotation of the older that meets the newer
            both = np.linalg.qr(np.concatenate([wanted, above[-2][:, : options.pairs]], axis=1))[0]
            starts = 2 * above[-1] - above[-2] @ (left @ right), projected(operator, both)[0]
            line += "{:14d} {:10d} + 1".format(*(searched(operator, start, options)[0] for start in starts))
        if above:
            line += f"  {projected(operator, wanted)[1]:.2f}"
        print(line, flush=True)
        above.append(found)


if __name__ == "__main__":
    with settings():
        main()
