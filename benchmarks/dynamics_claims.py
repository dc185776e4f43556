"""Dynamics without a matrix: large N, its law, and its speed beside the matrix.

    python benchmarks/dynamics_claims.py large    gradient descent, N = 100,000, alpha = 3, 300 steps: seconds and memory
    python benchmarks/dynamics_claims.py law      40 seeds, four observables at four times, six methods, against plain matrices
    python benchmarks/dynamics_claims.py speed    the same descent by a matrix and by deferred data at N = 1,000 to 8,000

Processor seconds, so that other work on the machine matters little. Nothing is chosen by its result.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
from scipy import stats

from sims.dynamics.flow import Rules
from sims.dynamics.methods import Descent, MessagePassing, Method, PowerIteration
from sims.dynamics.problem import Matrix, Problem, retract
from sims.dynamics.run import descend, problem_of, trajectory
from theory.general.spectral_methods import optimal
from theory.model import Network
from theory.path.deferred import Deferred

ONE, TWO, TANH = Network(a=0.5), Network(p=2, a=0.5), Network(p=2, activation="tanh", loss="squared")
METHODS: dict[str, tuple[Network, Method]] = {
    "gradient descent, p = 1": (ONE, Descent(0.02)),
    "momentum and noise, tanh, p = 2": (TANH, Descent(0.1, inertia=0.8, temperature=0.01)),
    "masks of 30 %, p = 1": (ONE, Descent(0.02, share=0.3)),
    "flow, p = 2": (TWO, Rules()),
    "message passing": (ONE, MessagePassing()),
    "power iteration, p = 2": (TWO, PowerIteration(optimal(), 2.0)),
}
SEEDS, MARKS = 40, (1, 5, 15, 40)


def large() -> Iterator[str]:
    """The claim: below 60 s and 2 GB."""
    before = time.process_time()
    track = descend(ONE, 100_000, 3.0, Descent(0.02), steps=300, records=8, data="deferred", directions=400)
    data, seconds = track.problem.data, time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield (
        f"N = 100,000, alpha = 3, 300 steps: {seconds:.1f} s of processor, peak memory {peak:.2f} GiB, of which "
        f"{data.nbytes / 2**30:.2f} GiB for {data.k} + {data.r} directions; X would take {4 * 3e10 / 2**30:.0f} GiB"
    )
    yield f"  loss per sample {track.loss[0] / 3e5:.4f} -> {track.loss[-1] / 3e5:.4f}, defect {data.defect():.1e}"


def made(
    model: Network, m: int, n: int, rng: np.random.Generator, matrix: bool
) -> tuple[Problem, np.ndarray, np.ndarray]:
    """Problem, teacher and a start at overlap 0.45."""
    data: Matrix | Deferred = Deferred(m, n, rng, directions=min(500, m))
    if matrix:
        data = Matrix(rng.standard_normal((m, n), dtype=np.float32) / np.float32(np.sqrt(n)))
    teacher, student = retract(rng.standard_normal((1, n))), retract(rng.standard_normal((int(model.p), n)))
    u = np.asarray(data.push(teacher.astype(np.float32)), float)
    return problem_of(model, data, model.outputs(u)), teacher, retract(student + 0.5 * teacher)


def seen(model: Network, method: Method, seed: int, matrix: bool, n: int = 300) -> np.ndarray:
    """Loss per sample, overlaps with teacher and start, and size of lam at four times, to six digits: (4, 4)."""
    rng = np.random.default_rng([seed, matrix])
    given, teacher, start = made(model, 3 * n, n, rng, matrix)
    start = 0.5 * start if isinstance(method, MessagePassing) else start
    found = []
    for i, state in enumerate(trajectory(given, method, start, rng)):
        if i in MARKS:
            w = state.student
            loss = given.value(state.lam) / len(state.lam)
            found.append((loss, w[0] @ teacher[0] / n, w[0] @ start[0] / n, np.mean(state.lam**2)))
        if i == MARKS[-1]:
            break
    return np.round(found, 6)  # a method that has converged shows its rounding below, which has another law


def law() -> Iterator[str]:
    """Kolmogorov-Smirnov tests of all observables at all times, and the largest difference of means in standard errors."""
    yield f"N = 300, alpha = 3, {SEEDS} seeds of each kind, at steps {MARKS}: smallest of 16 p-values times 16, largest z of 16"
    for name, (model, method) in METHODS.items():
        both = [
            np.array([seen(model, method, seed, matrix) for seed in range(SEEDS)]) for matrix in (True, False)
        ]
        p = min(stats.ks_2samp(both[0][:, t, o], both[1][:, t, o]).pvalue for t in range(4) for o in range(4))
        spread = np.sqrt(sum(x.var(axis=0, ddof=1) for x in both) / SEEDS)
        z = np.max(np.abs(both[0].mean(axis=0) - both[1].mean(axis=0)) / np.maximum(spread, 1e-12))
        yield f"  {name:34s} {min(1.0, 16 * p):.3f}   {z:.2f}"


def speed() -> Iterator[str]:
    """Seconds of processor for 300 steps of gradient descent, drawing of the data apart."""
    for n in (1000, 2000, 4000, 8000):
        taken = []
        for matrix in (True, False):
            rng = np.random.default_rng(n)
            given, _, start = made(ONE, 3 * n, n, rng, matrix)
            before = time.process_time()
            for i, _ in enumerate(trajectory(given, Descent(0.02), start, rng)):
                if i == 300:
                    break
            taken.append(time.process_time() - before)
        yield f"  N = {n}: matrix {taken[0]:.2f} s, deferred {taken[1]:.2f} s, ratio {taken[0] / taken[1]:.2f}"


CLAIMS: dict[str, Callable[[], Iterator[str]]] = {"large": large, "law": law, "speed": speed}


def main() -> int:
    """The claims that are named, or all."""
    names = sys.argv[1:] or list(CLAIMS)
    if not set(names) <= set(CLAIMS):
        print(f"claims are {', '.join(CLAIMS)}", file=sys.stderr)
        return 2
    for name in names:
        print(name, flush=True)
        for line in CLAIMS[name]():
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
