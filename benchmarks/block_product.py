"""H V against the two bare products with X that it contains, in float64 and float32.

python benchmarks/block_product.py [--n 4000] [--alpha 1.2] [--p 2]

The peer is NumPy's BLAS on the same columns: Y = X V and X^T Y, and no weights. Printed for blocks of 1, 8 and
16 vectors: milliseconds of the best of `--repeat` runs, taken in turns, and the ratio.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from sims.instance import draw
from sims.operator import hessian_operator
from theory.model import Network


def main() -> None:
    options = arguments()
    for dtype in ("float64", "float32"):
        instance = draw(Network(p=options.p, a=0.3), options.n, options.alpha, seed=1, dtype=dtype)
        x = np.array(instance.data[: instance.m])
        operator = hessian_operator(instance)
        del instance
        for k in (1, 8, 16):
            columns = np.random.default_rng(0).standard_normal((options.n, options.p * k)).astype(dtype)
            ours, bare = in_turns(operator, jnp.asarray(columns), x, columns, options.repeat)
            print(
                f"{dtype} N = {options.n} p = {options.p} k = {k:2d}: H V {1e3 * ours:7.1f} ms, "
                f"two bare BLAS products {1e3 * bare:7.1f} ms, ratio {ours / bare:.2f}",
                flush=True,
            )


def in_turns(operator, columns: jax.Array, x: np.ndarray, v: np.ndarray, repeat: int) -> tuple[float, float]:
    ours, bare = [], []
    for _ in range(repeat + 1):  # the first run compiles
        ours.append(seconds(lambda: operator.columns(columns).block_until_ready()))
        bare.append(seconds(lambda: x.T @ (x @ v)))
    return min(ours[1:]), min(bare[1:])


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=4000)
    parser.add_argument("--p", type=int, default=2)
    parser.add_argument("--alpha", type=float, default=1.2)
    parser.add_argument("--repeat", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
