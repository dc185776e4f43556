"""Large Hessians on one GPU: everything that is claimed there, in one run of under six minutes.

python benchmarks/gpu_large.py            on a card of 80 GB
python benchmarks/gpu_large.py --small    the same steps at toy sizes, on any machine, to see that they run

Not yet run on a GPU: no figure of this script is quoted anywhere. Printed:
1. copy bandwidth; the product H V at N = M = 5e4, p = 2, in float32 for blocks of 1 to 16 vectors: milliseconds,
   and GB/s counting two reads of X (target: 90 % of the copy bandwidth at some block size), for several sizes of
   the blocks of rows
2. the lowest 6 pairs at N = 1e5, alpha = 1.2, p = 2, a = 0.3 to 1e-4: seconds of drawing and of solving
   (target: 30 s of solving), for a few sizes of block and basis while time is left
3. a streaming run at N = 2e5: bytes planned (target: within 20 GB), seconds a product
4. a grid of 16 alphas on shared data against one point at N = 2e4 (target: 3 x)
5. dense eigh at p N = 8,000
Each step is skipped, with a line that says so, once the time set by --minutes has gone by.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from sims.dense.eigen import lowest_dense
from sims.hessian import dense, weights
from sims.instance import draw, preactivations
from sims.krylov.memory import krylov_bytes
from sims.krylov.solver import Settings, lowest_krylov
from sims.one_draw import converged, sample_grid
from sims.operator.operator import HessianOperator, hessian_operator
from theory.model import Committee

MODEL = Committee(p=2, p_star=1, a=0.3)
LARGE = {
    "product": 50_000,
    "pairs": 100_000,
    "stream": 200_000,
    "grid": 20_000,
    "dense": 4000,
    "copy": 1 << 31,
}
SMALL = {"product": 200, "pairs": 200, "stream": 150, "grid": 100, "dense": 60, "copy": 1 << 22}


def main() -> None:
    options = arguments()
    sizes = SMALL if options.small else LARGE
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind} ({jax.default_backend()})", flush=True)
    start = time.perf_counter()
    for step in (product_rates, lowest_pairs, dense_solve, shared_grid, streaming):
        spent = (time.perf_counter() - start) / 60
        if spent > options.minutes:
            print(f"{step.__name__}: left out, {spent:.1f} minutes gone", flush=True)
            continue
        step(sizes, lambda: (time.perf_counter() - start) / 60 < options.minutes)
    print(f"all of it: {time.perf_counter() - start:.0f} s")


def product_rates(sizes: dict[str, int], time_left: Callable[[], bool]) -> None:
    copy = copy_bandwidth(sizes["copy"])
    print(f"copy: {copy / 1e9:.0f} GB/s", flush=True)
    n = sizes["product"]
    for rows in (n // 32, n // 8, n // 2):
        operator = hessian_operator(draw(MODEL, n, 1.0, dtype="float32", data=False), size=rows)
        data = 4 * n * n
        for k in (1, 4, 8, 16):
            columns = jnp.ones((n, 2 * k), jnp.float32)
            seconds = best(lambda columns=columns, operator=operator: operator.columns(columns), 5)
            rate = 2 * data / seconds
            print(
                f"product N = M = {n}, k = {k:2d}, blocks of {rows} rows: {1e3 * seconds:7.1f} ms, "
                f"{rate / 1e9:.0f} GB/s, {100 * rate / copy:.0f} % of copy",
                flush=True,
            )
        del operator
        if not time_left():
            return


def lowest_pairs(sizes: dict[str, int], time_left: Callable[[], bool]) -> None:
    n = sizes["pairs"]
    start = time.perf_counter()
    operator = hessian_operator(draw(MODEL, n, 1.2, dtype="float32", data=False))
    jax.block_until_ready(operator.parts)
    print(f"pairs N = {n}: drawn in {time.perf_counter() - start:.1f} s", flush=True)
    for block, basis in ((8, 1536), (16, 1536), (16, 3072), (8, 3072)):
        solve(operator, Settings(tol=1e-4, block=block, basis=max(min(basis, n // 2), 5 * block)))
        if not time_left():
            return


def solve(operator: HessianOperator, settings: Settings) -> None:
    lowest_krylov(
        operator, 6, degeneracy=2, settings=Settings(block=settings.block, basis=settings.basis, products=4)
    )
    start = time.perf_counter()
    found = lowest_krylov(operator, 6, degeneracy=2, settings=settings)
    print(
        f"  block {settings.block}, basis {settings.basis}: {time.perf_counter() - start:.1f} s, {found.code.name}, "
        f"residual {np.max(found.residuals):.1e}, {found.stats}, values {found.values}",
        flush=True,
    )


def dense_solve(sizes: dict[str, int], _: Callable[[], bool]) -> None:
    instance = draw(MODEL, sizes["dense"], 1.2)
    matrix = dense(instance.data, weights(MODEL, *preactivations(instance)))
    lowest_dense(matrix, 6)
    start = time.perf_counter()
    found = lowest_dense(matrix, 6)
    print(
        f"dense eigh p N = {len(matrix)}: {time.perf_counter() - start:.2f} s, {found.code.name}", flush=True
    )


def shared_grid(sizes: dict[str, int], _: Callable[[], bool]) -> None:
    n = sizes["grid"]
    points = [(MODEL, float(alpha)) for alpha in np.linspace(0.9, 1.5, 16)]

    def run(chosen, block):
        fixed = {"eigenpairs": 3, "dtype": "float32"}
        sample_grid(chosen, n, settings=Settings(block=block, products=4), **fixed)
        start = time.perf_counter()
        found = sample_grid(chosen, n, settings=Settings(tol=1e-4, block=block), **fixed)
        return time.perf_counter() - start, converged(found)

    single, _ = run(points[-1:], None)
    for block in (3, 4):
        together, good = run(points, block)
        print(
            f"grid N = {n}, 16 alphas, block {block}: {together:.1f} s, one point {single:.1f} s, "
            f"ratio {together / single:.2f}, converged {good}",
            flush=True,
        )


def streaming(sizes: dict[str, int], _: Callable[[], bool]) -> None:
    n = sizes["stream"]
    planned = krylov_bytes(MODEL, n, 1.2, eigenpairs=6, dtype="float32", stored=False)
    operator = hessian_operator(draw(MODEL, n, 1.2, dtype="float32", data=False), stored=False)
    columns = jnp.ones((n, 16), jnp.float32)
    seconds = best(lambda: operator.columns(columns), 1)
    found = lowest_krylov(operator, 6, degeneracy=2, settings=Settings(products=6))
    stats = jax.devices()[0].memory_stats() or {}
    print(
        f"streaming N = {n}: {seconds:.1f} s a product of 8 vectors, 6 products of the solver left residual "
        f"{np.max(found.residuals):.1e}; planned {planned / 1e9:.1f} GB, peak {stats.get('peak_bytes_in_use')}",
        flush=True,
    )


def copy_bandwidth(size: int) -> float:
    """Bytes a second, read and written, of a copy of `size` bytes."""
    source = jnp.ones(size // 4, jnp.float32)
    add = jax.jit(lambda x: x + 1)  # a copy that cannot be left out
    return 2 * size / best(lambda: add(source), 10)


def best(work: Callable[[], jax.Array], repeat: int) -> float:
    seconds = []
    for _ in range(repeat + 1):  # the first run compiles
        start = time.perf_counter()
        jax.block_until_ready(work())
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="toy sizes")
    parser.add_argument("--minutes", type=float, default=4.5, help="no step starts after this time")
    return parser.parse_args()


if __name__ == "__main__":
    main()
