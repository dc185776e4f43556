"""One dense sample against bare LAPACK on the same matrix for the same pairs, both measured in one run, and its parts.

A sample is: draw teacher, student and data, build the Hessian, its p p_star + 4 lowest eigenpairs with checked
residuals, their squared overlaps with the signal, and the rank of the largest among ALL eigenvectors (whose overlaps
are found where a bound on them does not settle it). Bare LAPACK is `scipy.linalg.eigh` of the finished matrix: for
the same lowest pairs (the faster of its drivers evr and evx), and for all vectors, which is what it takes to give
that rank. Samples are taken as a sweep takes them, as many together as share calls of JAX. Wall and processor milliseconds a
sample, least of the repetitions, taken in turns; ratios of the sample to both. Then the parts: draw; weights and build; reduce
(sytrd, its reflectors on the signal); spectrum (all eigenvalues, overlaps of all vectors); what is left is pairs of T, their
vectors, residuals, and Python. The floor is what LAPACK's pairs do not do at all: draw, build, spectrum.
The first line names the environment of the BLAS, to be quoted with the figures (idle the machine for these):
OPENBLAS_NUM_THREADS 1 or 2, and OPENBLAS_THREAD_TIMEOUT=20 as in the programs (`bbp`), not set here.

    export OPENBLAS_NUM_THREADS=1 OPENBLAS_THREAD_TIMEOUT=20
    python -m benchmarks.dense_sample [--cases 400:1:1.0,1000:2:1.0] [--repeat 5] [--dtype float64]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh

from sims import hessian, sampling, tridiagonal
from sims.instance import Instance, draw_on_host
from sims.signal import signal_vectors
from theory.model import Network

CASES = "100:1:1.0,100:2:1.0,200:1:1.0,200:2:1.0,400:1:1.0,400:2:1.0,1000:1:1.0,1000:2:1.0,1000:2:2.0"
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
    model, order = Network(p, 1, 0.3), p * n
    number = max(1, min(32, 4 * tridiagonal.side_by_side(order)))
    drawn = list(draw_on_host(model, n, alpha, range(number), dtype=dtype))
    matrices = built(drawn)
    signals = [signal_vectors(one.teacher, p) for one in drawn]
    reduced = [
        tridiagonal.tridiagonal(h.copy(order="F"), 1.0, s) for h, s in zip(matrices, signals, strict=True)
    ]
    problems = [(one.d, one.e, one.rotated, one.width) for one in reduced]
    subset = (0, p + sampling.MARGIN - 1)

    def reduce() -> list:
        again = [
            tridiagonal.tridiagonal(h.copy(order="F"), 1.0, s) for h, s in zip(matrices, signals, strict=True)
        ]
        return [one.rotated for one in again]

    found = least(
        {
            "sample": lambda: sampling.sample_point(model, n, alpha, range(number), 0, dtype=dtype),
            "evr": lambda: [
                eigh(h, subset_by_index=subset, driver="evr", check_finite=False) for h in matrices
            ],
            "evx": lambda: [
                eigh(h, subset_by_index=subset, driver="evx", check_finite=False) for h in matrices
            ],
            "all": lambda: [eigh(h, driver="evd", check_finite=False) for h in matrices],
            "draw": lambda: list(draw_on_host(model, n, alpha, range(number), dtype=dtype)),
            "build": lambda: built(drawn),
            "reduce": reduce,
            "spectrum": lambda: tridiagonal.spectra_overlaps(problems),
        },
        repeat,
    )
    return {name: times / number for name, times in found.items()}


def built(drawn: list[Instance]) -> list[np.ndarray]:
    """The Hessians of some instances."""
    weights = hessian.weights_together(drawn)
    return [hessian.dense_blas(one.data[: one.m], f) for one, f in zip(drawn, weights, strict=True)]  # type: ignore[index]


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
        "milliseconds a sample: wall (processor); ratios of a sample to LAPACK for the same pairs, for all vectors"
    )
    titles = ("sample", "LAPACK pairs", "LAPACK all")
    print(
        f"{'N':>5} {'p':>2} {'alpha':>5} "
        + " ".join(f"{title:>17}" for title in titles)
        + "  pairs         all           draw   build  reduce spectrum, processor time; floor"
    )
    for case in options.cases.split(","):
        n, p, alpha = case.split(":")
        t = measure(int(n), int(p), float(alpha), options.dtype, options.repeat)
        bare = np.minimum(t["evr"], t["evx"])
        columns = " ".join(
            f"{1e3 * wall:8.2f} ({1e3 * cpu:6.2f})" for wall, cpu in (t["sample"], bare, t["all"])
        )
        ratios = " ".join("{:5.2f} ({:4.2f})".format(*(t["sample"] / other)) for other in (bare, t["all"]))
        parts = [t[name][1] for name in ("draw", "build", "reduce", "spectrum")]
        floor = (bare[1] + parts[0] + parts[1] + parts[3]) / bare[1]
        shown = " ".join(f"{1e3 * part:7.2f}" for part in parts)
        print(f"{n:>5} {p:>2} {alpha:>5} {columns} {ratios} {shown}  {floor:.2f}", flush=True)


if __name__ == "__main__":
    main()
