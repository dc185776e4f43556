"""LAPACK's reduction to tridiagonal form (sytrd) by blocks of few columns against its own choice of 32, in turns in one run.

The least of the repetitions, one BLAS thread. The last column is the block in use (`sims.tridiagonal.block_of`) and its
time over that of 32 columns.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.reduction [--orders 100,200,400] [--repeat 40]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.linalg.lapack import dsytrd

from sims.tridiagonal import block_of

BLOCKS = (4, 8, 12, 16, 24, 32)


def seconds(n: int, repeat: int) -> dict[int, float]:
    """Least time of each block at order n."""
    x = np.random.default_rng(0).normal(size=(n, n))
    matrix = np.asfortranarray(x @ x.T)
    scratch, best = matrix.copy(order="F"), dict.fromkeys(BLOCKS, np.inf)
    for _ in range(repeat):
        for block in BLOCKS:
            np.copyto(scratch, matrix)
            start = time.perf_counter()
            dsytrd(scratch, lower=1, lwork=n * block, overwrite_a=1)
            best[block] = min(best[block], time.perf_counter() - start)
    return best


def main() -> None:
    """Print a line for each order."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--orders", default="60,100,150,200,300,400,500,600,800,1000")
    parser.add_argument("--repeat", type=int, default=40)
    options = parser.parse_args()
    print("milliseconds:", *(f"{block:>8}" for block in BLOCKS), "  in use, over 32")
    for n in map(int, options.orders.split(",")):
        best = seconds(n, max(3, options.repeat * 100 // max(n, 100)))
        times = " ".join(f"{1e3 * best[block]:8.3f}" for block in BLOCKS)
        print(f"{n:12d}  {times}  {block_of(n):6d}, {best[block_of(n)] / best[32]:.2f}", flush=True)


if __name__ == "__main__":
    main()
