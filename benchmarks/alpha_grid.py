"""A grid in alpha on shared data against one point at the same accuracy.

python benchmarks/alpha_grid.py [--n 2000] [--points 16] [--streamed] [--block 3]

Both through `sims.sampling.sample_grid`, draw included; compilation is excluded by a first run of the same search.
The single point is the largest alpha's; "apart" is its time multiplied by the points.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from sims.krylov.solver import Settings
from sims.sampling import sample_grid
from theory.model import Network


def main() -> None:
    options = arguments()
    model = Network(p=2, a=0.3)
    grid = [(model, float(alpha)) for alpha in np.linspace(options.low, options.high, options.points)]
    single = timed(grid[-1:], options, None)
    print(f"one point, alpha = {options.high}: {single:.2f} s", flush=True)
    for block in options.block:
        together = timed(grid, options, block)
        print(
            f"{options.points} points {options.low}..{options.high}, block {block or 'default'}: {together:.2f} s, "
            f"{together / single:.2f} x one point ({options.points * single / together:.1f} x faster than apart)",
            flush=True,
        )


def timed(points, options: argparse.Namespace, block: int | None) -> float:
    fixed = {"eigenpairs": options.pairs, "stored": not options.streamed, "dtype": options.dtype}
    settings = Settings(tol=options.tol, block=block)
    sample_grid(points, options.n, settings=settings, **fixed)
    start = time.perf_counter()
    found = sample_grid(points, options.n, settings=settings, **fixed)
    seconds = time.perf_counter() - start
    products = [pairs.stats.get("products", 0) + pairs.stats.get("products_float32", 0) for pairs in found]
    converged, worst = (
        all(pairs.code == 0 for pairs in found),
        max(np.max(pairs.residuals) for pairs in found),
    )
    print(f"  converged {converged}, largest residual {worst:.1e}, steps {max(products)}")
    return seconds


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--points", type=int, default=16)
    parser.add_argument("--low", type=float, default=0.9)
    parser.add_argument("--high", type=float, default=1.5)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--block", type=lambda s: [int(b) or None for b in s.split(",")], default=[None, 4])
    parser.add_argument("--streamed", action="store_true", help="draw the rows again at every pass")
    return parser.parse_args()


if __name__ == "__main__":
    main()
