"""Samples a second: ours side by side, one process of ours, and the plain pipeline on all cores, all in one run.

The plain pipeline is what anyone would write: a process a core, one BLAS thread each, twelve lines of NumPy and LAPACK
with all vectors. Ours are the processes of `bbp.engine.executors` on the same number of cores, and one process of ours alone,
whose rate times the number of cores is what perfect sharing would give. That one is bound to a core (where the system can):
else it draws ahead on a thread of JAX's and keeps 1.2 cores busy at N = 100. Processes have started and compiled before the
clock runs, in turns for `--rounds`, the best round of each counts. Ratios: ours to cores x one process (target 0.9), ours to
plain (1.5), by wall time, and by processor time, which tells more where other programs share the cores. "LAPACK" is the
first of these ratios of as many processes that do nothing but LAPACK's reduction to tridiagonal form (sytrd), half
of a large sample's time: what the cores, their caches and the memory they share leave of perfect sharing. With --dask, the
rates of as many workers of dask to ours are added (target 0.9), and how long they take until they are connected (2 s) and
have given first results; they start before the other processes, which would share their cores.

    python benchmarks/side_by_side.py [--cases 100:1,1000:2] [--alpha 1] [--cores N] [--seconds 2] [--rounds 2] [--dask]
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable

os.environ["OPENBLAS_NUM_THREADS"] = (
    "1"  # before NumPy is imported, here and in all processes that are started here
)

import numpy as np
import psutil
from dask.distributed import Client, LocalCluster
from scipy.linalg import eigh
from scipy.linalg.lapack import dsytrd, dsytrd_lwork

from bbp.console import messages
from bbp.engine import executors
from bbp.sweep import PROGRAM
from sims import machine

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


def reductions(arguments: tuple[int, int]) -> float:
    """So many times LAPACK's reduction of one matrix of this order, and nothing else."""
    order, times = arguments
    lwork = int(dsytrd_lwork(order, lower=1)[0])
    matrix = np.asfortranarray(np.random.default_rng(0).normal(size=(order, order)))
    return sum(float(dsytrd(matrix, lower=1, lwork=lwork)[1][0]) for _ in range(times))


def rate(work: Callable[[], int]) -> tuple[float, float]:
    """Samples a second of one round, and a second of processor time of all children; `work` returns how many it took."""
    start, busy = time.perf_counter(), processor_seconds()
    number = work()
    return number / (time.perf_counter() - start), number / max(processor_seconds() - busy, 0.01)


def processor_seconds() -> float:
    """Processor time of the processes that this one has started, so far."""
    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(time.user + time.system for time in times)


def measure(
    n: int, p: int, options: argparse.Namespace, ours, one, others, other, dask=None
) -> dict[str, np.ndarray]:
    """Best samples a second of each way, of wall and of processor time."""
    found: dict[str, np.ndarray] = {}
    experiment = PROGRAM.experiment(
        {"n": str(n), "p": str(p), "alpha_grid": str(options.alpha), "samples": 10**6}
    )
    point = next(iter(experiment.points(None)))  # type: ignore[arg-type]

    def units(number: int, size: int):
        return [experiment.unit(point, i * size, size) for i in range(number)]

    list(ours(units(2 * options.cores, 2)))  # compile
    list(one(units(1, 2)))
    second, _ = rate(lambda: sum(result.count for result in one(units(1, 4))))
    size = max(1, int(second * options.seconds / BLOCKS))
    ways = {
        "ours": lambda: sum(result.count for result in ours(units(BLOCKS * options.cores, size))),
        "one": lambda: sum(result.count for result in one(units(BLOCKS, size))),
        "plain": lambda: len(
            others.map(plain, [(n, p, options.alpha, i) for i in range(BLOCKS * options.cores * size)], size)
        ),
        "LAPACK": lambda: size * len(others.map(reductions, [(p * n, size)] * (BLOCKS * options.cores), 1)),
        "LAPACK, one": lambda: size * len(other.map(reductions, [(p * n, size)] * BLOCKS, 1)),
    }
    if dask is not None:
        list(dask(units(2 * options.cores, 2)))
        ways["dask"] = lambda: sum(result.count for result in dask(units(BLOCKS * options.cores, size)))
    for _ in range(options.rounds):
        for name, work in ways.items():
            found[name] = np.maximum(found.get(name, 0.0), rate(work))
    return found


@contextlib.contextmanager
def processes(number: int, place: str | None):
    """What runs units on so many processes of ours."""
    with executors.Processes(number, messages.keeping_environment(place)) as pool:
        yield lambda units: executors.results(pool, units)


@contextlib.contextmanager
def one_on_a_core(place: str | None):
    """What runs units on one process of ours, bound to one core with all its threads."""
    can = hasattr(os, "sched_setaffinity")
    before = os.sched_getaffinity(0) if can else set()
    if can:
        os.sched_setaffinity(0, {max(before)})  # a process inherits it from the thread that starts it
    try:
        work = contextlib.ExitStack()
        one = work.enter_context(processes(1, place))
    finally:
        if can:
            os.sched_setaffinity(0, before)
    with work:
        yield one


@contextlib.contextmanager
def workers(options: argparse.Namespace, place: str | None):
    """What runs units on workers of dask, or None without --dask."""
    if not options.dask:
        yield None
        return
    start = time.perf_counter()
    environment = machine.ONE_CORE | messages.keeping_environment(place)
    near = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(options.cores, env=environment, **near) as local, Client(local) as client:
        executor = client.get_executor(pure=False)

        def work(units):
            return executors.results(executor, units)

        connected = time.perf_counter() - start
        experiment = PROGRAM.experiment(
            {"n": "100", "alpha_grid": str(options.alpha), "samples": options.cores}
        )
        point = next(iter(experiment.points(None)))  # type: ignore[arg-type]
        list(work([experiment.unit(point, i, 1) for i in range(options.cores)]))
        print(
            f"{options.cores} workers of dask connected after {connected:.1f} s,"
            f" first results after {time.perf_counter() - start:.1f} s"
        )
        yield work


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default=CASES, help="N:p, ...")
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--cores", type=int, default=machine.allotted())
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--dask", action="store_true", help="and workers of dask")
    options = parser.parse_args()
    os.environ.update(machine.ONE_CORE)
    place = messages.cache_directory(None)
    print(
        f"{options.cores} cores; load {os.getloadavg()[0]:.1f} at the start; samples a second, alpha = {options.alpha:g}"
    )
    print(
        f"{'N':>5} {'p':>2} {'ours':>8} {'one':>8} {'plain':>8} {'ours/cores x one':>17} {'LAPACK':>7} {'ours/plain':>11}"
    )
    context = multiprocessing.get_context("spawn")
    with (
        workers(options, place) as dask,
        processes(options.cores, place) as ours,
        one_on_a_core(place) as one,
        context.Pool(options.cores) as others,
        context.Pool(1) as other,
    ):
        for case in options.cases.split(","):
            n, p = map(int, case.split(":"))
            found = measure(n, p, options, ours, one, others, other, dask)
            shared, gain = found["ours"] / ([options.cores, 1] * found["one"]), found["ours"] / found["plain"]
            lapack = found["LAPACK"] / ([options.cores, 1] * found["LAPACK, one"])
            dasks = ""
            if dask is not None:
                dasks = "; dask/ours {:.2f}, by processor time {:.2f}".format(
                    *(found["dask"] / found["ours"])
                )
            rates = " ".join(f"{found[name][0]:8.1f}" for name in ("ours", "one", "plain"))
            print(
                f"{n:5d} {p:2d} {rates} {shared[0]:17.2f} {lapack[0]:7.2f} {gain[0]:11.2f}"
                f"   by processor time {shared[1]:.2f} {lapack[1]:.2f} {gain[1]:.2f}{dasks}",
                flush=True,
            )


if __name__ == "__main__":
    main()
