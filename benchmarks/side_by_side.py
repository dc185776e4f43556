"""Samples a second: ours side by side, one process of ours, and the plain pipeline on all cores, all in one run.

The plain pipeline is what anyone would write: a process a core, one BLAS thread each, twelve lines of NumPy and LAPACK with all
vectors. Ours are the processes of `bbp.engine.pool` on the same number of cores, and one process of ours alone, whose rate
times the number of cores is what perfect sharing would give. Processes have started and compiled before the clock runs, in
turns for `--rounds`, the best round of each counts. Ratios: ours to cores x one process (target 0.9), ours to plain (1.5).

    python benchmarks/side_by_side.py [--cases 100:1,200:1,400:1,1000:1] [--alpha 1] [--cores N] [--seconds 2] [--rounds 2]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable

os.environ["OPENBLAS_NUM_THREADS"] = (
    "1"  # before NumPy is imported, here and in all processes that are started here
)

import numpy as np
from scipy.linalg import eigh

from bbp.engine import cache, cores, pool
from bbp.experiments import sweep

CASES = "100:1,200:1,400:1,1000:1,100:2,200:2,400:2,1000:2"
BLOCKS = 3  # units a process in a round


def plain(arguments: tuple[int, int, float, int]) -> float:
    """One sample: blocks X' diag(w_ij) X / M of a committee, all eigenvectors, and the value of the one nearest the teacher."""
    n, p, alpha, seed = arguments
    rng, m = np.random.default_rng(seed), round(alpha * n)
    teacher, student, x = rng.normal(size=n), rng.normal(size=(p, n)), rng.normal(size=(m, n))
    teacher, student = teacher / np.linalg.norm(teacher), student / np.linalg.norm(student, axis=1)[:, None]
    y, s = x @ teacher, x @ student.T
    labels, found = y**2, np.mean(s**2, axis=1)
    weights = np.einsum("mi,mj->mij", s, s) / p + (found - labels)[:, None, None] * np.eye(p)
    hessian = np.block([[(x.T * weights[:, i, j]) @ x / m for j in range(p)] for i in range(p)])
    values, vectors = eigh(hessian, driver="evd", overwrite_a=True, check_finite=False)
    overlaps = sum((teacher @ vectors[i * n : (i + 1) * n]) ** 2 for i in range(p))
    return float(values[np.argmax(overlaps)])


def rate(work: Callable[[], int]) -> float:
    """Samples a second of one round; `work` returns how many it took."""
    start = time.perf_counter()
    number = work()
    return number / (time.perf_counter() - start)


def measure(n: int, p: int, options: argparse.Namespace, ours, one, others) -> dict[str, float]:
    """Best samples a second of each way."""
    found: dict[str, float] = {}
    experiment = sweep.build({"n": str(n), "p": str(p), "alpha_grid": str(options.alpha), "samples": 10**6})
    point = next(iter(experiment.points(None)))  # type: ignore[arg-type]

    def units(number: int, size: int):
        return [experiment.unit(point, i * size, size) for i in range(number)]

    list(ours(units(2 * options.cores, 2)))  # compile
    list(one(units(1, 2)))
    second = rate(lambda: sum(result.count for result in one(units(1, 4))))
    size = max(1, int(second * options.seconds / BLOCKS))
    ways = {
        "ours": lambda: sum(result.count for result in ours(units(BLOCKS * options.cores, size))),
        "one": lambda: sum(result.count for result in one(units(BLOCKS, size))),
        "plain": lambda: len(
            others.map(plain, [(n, p, options.alpha, i) for i in range(BLOCKS * options.cores * size)], size)
        ),
    }
    for _ in range(options.rounds):
        for name, work in ways.items():
            found[name] = max(found.get(name, 0.0), rate(work))
    return found


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default=CASES, help="N:p, ...")
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--cores", type=int, default=cores.allotted())
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    os.environ.update(cores.ONE_CORE)
    place = cache.directory(None)
    print(
        f"{options.cores} cores; load {os.getloadavg()[0]:.1f} at the start; samples a second, alpha = {options.alpha:g}"
    )
    print(
        f"{'N':>5} {'p':>2} {'ours':>8} {'one':>8} {'plain':>8} {'ours/cores x one':>17} {'ours/plain':>11}"
    )
    context = multiprocessing.get_context("spawn")
    with (
        pool.pool(options.cores, place) as ours,
        pool.pool(1, place) as one,
        context.Pool(options.cores) as others,
    ):
        for case in options.cases.split(","):
            n, p = map(int, case.split(":"))
            found = measure(n, p, options, ours, one, others)
            shared, gain = found["ours"] / (options.cores * found["one"]), found["ours"] / found["plain"]
            rates = " ".join(f"{found[name]:8.1f}" for name in ("ours", "one", "plain"))
            print(f"{n:5d} {p:2d} {rates} {shared:17.2f} {gain:11.2f}", flush=True)


if __name__ == "__main__":
    main()
