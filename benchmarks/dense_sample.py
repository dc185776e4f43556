"""One dense sample against bare LAPACK on the same matrix for the same pairs, both measured in one run.

A sample is: draw teacher, student and data, build the Hessian, its p p_star + 4 lowest eigenpairs with checked
residuals, their squared overlaps with the signal, and the rank of the largest among ALL eigenvectors (whose overlaps
are found where a bound on them does not settle it). Bare LAPACK is `scipy.linalg.eigh` of the finished matrix: for
the same lowest pairs (the faster of its drivers evr and evx), and for all vectors, which is what it takes to give
that rank. Wall and processor milliseconds, least of the repetitions, taken in turns; ratios of the sample to both.
The first line names the environment of the BLAS, to be quoted with the figures (idle the machine for these):
OPENBLAS_NUM_THREADS 1 or 2, and OPENBLAS_THREAD_TIMEOUT=20 as in the programs (`bbp`), not set here.

    export OPENBLAS_NUM_THREADS=1 OPENBLAS_THREAD_TIMEOUT=20
    python benchmarks/dense_sample.py [--cases 400:1:1.0,1000:2:1.0] [--repeat 5] [--dtype float64]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh

from sims import hessian, instance, sampling
from theory.model import Committee

CASES = "400:1:1.0,400:2:1.0,400:4:1.0,1000:1:1.0,1000:2:1.0,1000:1:2.0,1000:2:2.0,2000:1:1.0"
ENVIRONMENT = ("OPENBLAS_NUM_THREADS", "OPENBLAS_THREAD_TIMEOUT")


def clocks(action: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor seconds of one call."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - processor


def least(actions: dict[str, Callable[[], object]], repeat: int) -> dict[str, np.ndarray]:
    """Least wall and processor time of each action over repetitions taken in turns, after one that does not count."""
    for action in actions.values():
        action()
    seen = [{name: clocks(action) for name, action in actions.items()} for _ in range(repeat)]
    return {name: np.min([once[name] for once in seen], axis=0) for name in actions}


def measure(n: int, p: int, alpha: float, dtype: str, repeat: int) -> dict[str, np.ndarray]:
    model = Committee(p, 1, 0.3)
    drawn = instance.draw(model, n, alpha, dtype=dtype)
    data, weights = np.asarray(drawn.data)[: drawn.m], model.weights(*instance.labels(drawn))
    matrix = hessian.dense_blas(data, weights)
    subset = (0, p + sampling.MARGIN - 1)
    return least(
        {
            "sample": lambda: sampling.sample_point(model, n, alpha, [0], 0, dtype=dtype),
            "draw": lambda: instance.draw(model, n, alpha, dtype=dtype),
            "build": lambda: hessian.dense_blas(data, weights),
            "evr": lambda: eigh(matrix, subset_by_index=subset, driver="evr"),
            "evx": lambda: eigh(matrix, subset_by_index=subset, driver="evx"),
            "all": lambda: eigh(matrix),
        },
        repeat,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default=CASES, help="N:p:alpha, comma-separated")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
    options = parser.parse_args()
    print(*(f"{name}={os.environ.get(name, '(not set)')}" for name in ENVIRONMENT))
    print(
        "milliseconds: wall (processor); ratios of a sample to LAPACK for the same pairs, and to LAPACK for all vectors"
    )
    titles = ("sample", "draw", "build", "LAPACK pairs", "LAPACK all")
    print(
        f"{'N':>5} {'p':>2} {'alpha':>5} "
        + " ".join(f"{title:>15}" for title in titles)
        + "  pairs         all"
    )
    for case in options.cases.split(","):
        n, p, alpha = case.split(":")
        t = measure(int(n), int(p), float(alpha), options.dtype, options.repeat)
        bare = np.minimum(t["evr"], t["evx"])
        shown = (t["sample"], t["draw"], t["build"], bare, t["all"])
        columns = " ".join(f"{1e3 * wall:7.1f} ({1e3 * cpu:5.0f})" for wall, cpu in shown)
        ratios = " ".join("{:5.2f} ({:4.2f})".format(*(t["sample"] / other)) for other in (bare, t["all"]))
        print(f"{n:>5} {p:>2} {alpha:>5} {columns} {ratios}", flush=True)


if __name__ == "__main__":
    main()
