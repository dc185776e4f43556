"""Where `--solver auto` should change from dense to Krylov: seconds of one sample by both, at growing orders p N.

    python benchmarks/solvers.py [--orders 1000,2000,3000,4000,6000] [--p 2] [--a 0.3] [--alphas 1.2,2.5] [--repeat 2]

Both give the p p_star + 4 lowest pairs with checked residuals: dense to rounding, Krylov to `sims.solvers.krylov.SETTINGS`.
Dense also gives the rank of the largest overlap in the whole spectrum, Krylov only where the lowest pairs settle it. Wall
seconds, least of the repetitions, after a first call that compiles; the largest difference between the eigenvalues of both; the
ranks found. Cut-offs now: `sims.sampling.DENSE`.
"""

from __future__ import annotations

import argparse
import time

import jax
import numpy as np

from sims.sampling import DENSE, PointResult, sample_point
from theory.model import Network


def timed(
    model: Network, n: int, alpha: float, dtype: str, solver: str, repeat: int
) -> tuple[float, PointResult]:
    """Least seconds of one sample, and the sample."""
    seconds = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        found = sample_point(model, n, alpha, [0], 0, dtype=dtype, solver=solver)
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:]), found


def main() -> None:
    options = arguments()
    model = Network(p=options.p, a=options.a)
    print(
        f"{jax.devices()[0].device_kind}, p = {options.p}, a = {options.a}, {options.dtype}; auto changes beyond {DENSE}"
    )
    print(f"{'p N':>6} {'alpha':>6} {'dense':>8} {'krylov':>8} {'ratio':>6} {'difference':>11}  ranks")
    for order in map(int, options.orders.split(",")):
        for alpha in map(float, options.alphas.split(",")):
            both = [
                timed(model, order // options.p, alpha, options.dtype, solver, options.repeat)
                for solver in ("dense", "krylov")
            ]
            (dense, exact), (krylov, found) = both
            apart = np.max(np.abs(exact.eigenvalues - found.eigenvalues))
            ranks = f"{exact.max_overlap_rank[0]} {found.max_overlap_rank[0]}"
            print(
                f"{order:>6} {alpha:>6} {dense:7.2f}s {krylov:7.2f}s {dense / krylov:6.2f} {apart:11.1e}  {ranks}",
                flush=True,
            )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--orders", default="1000,2000,3000,4000,6000", help="orders p N, comma-separated")
    parser.add_argument("--p", type=int, default=2)
    parser.add_argument("--a", type=float, default=0.3)
    parser.add_argument("--alphas", default="1.2,2.5", help="comma-separated")
    parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
    parser.add_argument("--repeat", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
