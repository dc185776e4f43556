"""Lowest pairs, three ways, on one operator: ours, scipy.sparse.linalg.eigsh, jax's lobpcg_standard.

python benchmarks/krylov.py [--n 4000] [--pairs 6] [--tol 1e-4] [--alpha 1.2] [--p 2] [--a 0.3]

All three multiply by the same float64 `HessianOperator`; eigsh in single vectors, ours and lobpcg in blocks. Ours searches in
float32 (`mixed`; the line without it is printed too) and is judged in float64. Printed for each: seconds (compilation
excluded, by a first run of a few products), products, the largest true residual ||H v - lambda v|| in
float64, and the ratio to ours. The products of eigsh depend much on its start, and the speed of a shared machine drifts: ours
and eigsh run in turns from three starts, and of each the run of median time is printed. Tolerances:
lobpcg's is relative to its own norms; it is run to the number of iterations at which its true residual meets tol.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse.linalg import lobpcg_standard
from scipy.sparse.linalg import LinearOperator, eigsh

from sims.instance import draw
from sims.krylov.solver import Settings, lowest_krylov
from sims.operator import HessianOperator, hessian_operator
from theory.model import Network


def main() -> None:
    options = arguments()
    model = Network(p=options.p, a=options.a)
    start = time.perf_counter()
    operator = hessian_operator(draw(model, options.n, options.alpha, seed=1, data=False))
    jax.block_until_ready(operator.parts)
    print(
        f"N = {options.n}, p = {options.p}, a = {options.a}, alpha = {options.alpha}, {options.pairs} pairs to "
        f"{options.tol}; drawn in {time.perf_counter() - start:.1f} s",
        flush=True,
    )
    compiled(operator, options)
    turns = [
        (by_krylov(operator, options, seed, mixed=True), by_eigsh(operator, options, seed))
        for seed in range(3)
    ]
    krylov, scipy = (sorted(runs, key=lambda run: run[0]) for runs in zip(*turns, strict=True))
    ours = report("block Krylov, float32 search", *krylov[1], None)
    report("scipy eigsh", *scipy[1], ours)
    print(
        "seconds of all: "
        + "; ".join(" ".join(f"{run[0]:.2f} ({run[1]})" for run in runs) for runs in (krylov, scipy)),
        flush=True,
    )
    report("block Krylov, float64 alone", *by_krylov(operator, options, 0, mixed=False), ours)
    report("jax lobpcg_standard", *by_lobpcg(operator, options), ours)


def compiled(operator: HessianOperator, options: argparse.Namespace) -> None:
    """A few products by each, so that none of the times holds a compilation."""
    for mixed in (True, False):
        settings = Settings(tol=options.tol, mixed=mixed, products=30)
        lowest_krylov(operator, options.pairs, degeneracy=operator.p, settings=settings)
    jax.block_until_ready(operator(np.ones((operator.p, operator.n, 1))))


def by_krylov(operator: HessianOperator, options: argparse.Namespace, seed: int, *, mixed: bool):
    settings = Settings(tol=options.tol, mixed=mixed, seed=seed)
    start = time.perf_counter()
    found = lowest_krylov(operator, options.pairs, degeneracy=operator.p, settings=settings)
    seconds = time.perf_counter() - start
    products = found.stats["products"] + found.stats.get("products_float32", 0)
    return (
        seconds,
        f"{products} x {found.stats['block']}",
        found.values,
        residual(operator, found.values, found.vectors),
    )


def by_eigsh(operator: HessianOperator, options: argparse.Namespace, seed: int):
    calls = [0]

    def multiply(vector):
        calls[0] += 1
        return np.asarray(operator(vector.reshape(operator.p, operator.n, -1))).reshape(vector.shape)

    linear = LinearOperator((operator.order, operator.order), matvec=multiply, dtype=np.float64)
    begin = np.random.default_rng(seed).standard_normal(operator.order)
    start = time.perf_counter()
    # eigsh's tol is relative to the eigenvalue
    values, vectors = eigsh(linear, k=options.pairs, which="SA", tol=options.tol, v0=begin)
    seconds = time.perf_counter() - start
    return seconds, f"{calls[0]} x 1", values, residual(operator, values, vectors)


def by_lobpcg(operator: HessianOperator, options: argparse.Namespace, longest: int = 2000):
    """lobpcg for the largest pairs of -H: iterations doubled from 25 until the true residual meets tol, the last run timed."""

    def negative(vectors):
        return -operator(vectors.reshape(operator.p, operator.n, -1)).reshape(vectors.shape)

    start_vectors = jnp.asarray(np.random.default_rng(0).standard_normal((operator.order, options.pairs)))
    lobpcg_standard(negative, start_vectors, m=1)
    iterations = 25
    while True:
        start = time.perf_counter()
        values, vectors, used = lobpcg_standard(negative, start_vectors, m=iterations, tol=1e-14)
        values, vectors = -np.asarray(values), np.asarray(vectors)
        seconds = time.perf_counter() - start
        worst = residual(operator, values, vectors)
        if worst <= options.tol or iterations >= longest or seconds > options.patience:
            return seconds, f"{int(used)} x {options.pairs}", values, worst
        iterations *= 2


def residual(operator: HessianOperator, values: np.ndarray, vectors: np.ndarray) -> float:
    product = np.asarray(operator(vectors.reshape(operator.p, operator.n, -1))).reshape(vectors.shape)
    return float(np.max(np.linalg.norm(product - vectors * values, axis=0)))


def report(name: str, seconds: float, products: str, values, worst: float, ours: float | None) -> float:
    ratio = "" if ours is None else f"   {seconds / ours:5.1f} x ours"
    lowest = ", ".join(f"{v:.6f}" for v in np.sort(values)[:3])
    print(
        f"{name:30s} {seconds:8.2f} s   products {products:>10s}   residual {worst:.1e}   [{lowest}, ...]{ratio}",
        flush=True,
    )
    return seconds


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=4000)
    parser.add_argument("--p", type=int, default=2)
    parser.add_argument("--a", type=float, default=0.3)
    parser.add_argument("--alpha", type=float, default=1.2)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument(
        "--patience", type=float, default=120, help="seconds after which lobpcg is not run longer"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
