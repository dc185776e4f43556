"""Quenched theory against dense samples, and its speed against eigh.

    python benchmarks/quenched.py samples     # one by one: lowest eigenvalue and overlaps, both theories
    python benchmarks/quenched.py edge        # the lowest eigenvalue that is no outlier, against three edges
    python benchmarks/quenched.py threshold   # where samples cross over, against the threshold of the law
    python benchmarks/quenched.py speed       # one prediction at M = 2,000, p = 2 against LAPACK on the same sample

Dense matrices are built and diagonalised here with NumPy alone. Each sample's prediction is conditioned on its own
preactivations. --quick takes few samples of small matrices.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
import scipy.linalg

import theory
from theory.finite.edge import finite_edge
from theory.finite.quenched import quenched
from theory.finite.threshold import threshold as threshold_at
from theory.finite.tracy_widom import MEAN
from theory.general.dyson import Dyson
from theory.model import Network

# p, p_star, a, alpha, n, samples: outlier present, then edges without one, each for both kinds of transition
SAMPLES = [
    (1, 1, 0.5, 3.0, 300, 60),
    (1, 1, 0.5, 3.0, 1000, 24),
    (1, 1, 2.0, 3.0, 500, 40),
    (2, 1, 0.3, 2.5, 400, 40),
    (2, 1, 1.5, 2.5, 400, 40),
    (3, 1, 0.3, 2.5, 300, 40),
    (1, 1, 0.5, 0.8, 300, 60),
    (1, 1, 0.5, 0.8, 2000, 8),
    (1, 1, 2.0, 0.7, 500, 40),
    (2, 1, 0.3, 0.6, 400, 40),
    (2, 1, 1.5, 0.5, 400, 40),
    (3, 1, 0.3, 0.5, 300, 40),
]
# p, p_star, a, alpha, n: no outlier, some near their threshold, all far from it
EDGES = [
    (1, 1, 0.1, 0.8, 100),
    (1, 1, 0.1, 0.8, 400),
    (1, 1, 0.5, 0.8, 200),
    (2, 1, 0.3, 0.6, 200),
    (1, 1, 0.5, 2.0, 200),
    (1, 1, 0.5, 3.0, 200),
    (1, 2, 0.5, 14.0, 100),
    (2, 1, 0.3, 2.5, 100),
    (1, 1, 0.5, 5.0, 400),
    (1, 1, 0.3, 8.0, 200),
    (2, 1, 0.3, 5.0, 200),
    (2, 1, 0.3, 10.0, 100),
    (2, 1, 20.0, 40.0, 50),
    (4, 1, 0.5, 4.0, 50),
]
# p, p_star, a, n, samples at each alpha
THRESHOLDS = [
    (1, 1, 0.5, 300, 80),
    (1, 1, 0.5, 1000, 12),
    (1, 1, 2.0, 300, 80),
    (1, 1, 2.0, 1000, 12),
    (2, 1, 1.0, 300, 24),
]


@dataclass
class Sample:
    """One dense Hessian: its preactivations, the overlaps of its rows (teacher first), ascending eigenvalues and each
    eigenvector's squared overlap."""

    lam: np.ndarray
    u: np.ndarray
    gram: np.ndarray
    values: np.ndarray
    overlaps: np.ndarray


def dense(model: Network, n: int, alpha: float, rng: np.random.Generator) -> Sample:
    p, q, m = int(model.p), model.p_star, round(alpha * n)
    student = rng.standard_normal((p, n))
    student *= np.sqrt(n) / np.linalg.norm(student, axis=1, keepdims=True)
    teacher = np.linalg.qr(rng.standard_normal((n, q)))[0].T
    data = rng.standard_normal((m, n)) / np.sqrt(n)
    lam, u = data @ student.T, data @ teacher.T * np.sqrt(n)
    values, vectors = scipy.linalg.eigh(hessian(model, data, lam, u), overwrite_a=True, check_finite=False)
    overlaps = np.sum((teacher @ vectors.reshape(p, n, p * n)) ** 2, axis=(0, 1))
    rows = np.concatenate([teacher, student / np.sqrt(n)])
    return Sample(lam, u, rows @ rows.T, values, overlaps)


def hessian(model: Network, data: np.ndarray, lam: np.ndarray, u: np.ndarray) -> np.ndarray:
    p, n = int(model.p), data.shape[1]
    weights = model.weights(lam, model.outputs(u))
    out = np.empty((p, n, p, n))
    for i in range(p):
        for j in range(i + 1):
            out[i, :, j, :] = (data.T * weights[:, i, j]) @ data
            out[j, :, i, :] = out[i, :, j, :]
    return out.reshape(p * n, p * n)


def infinite(model: Network, alpha: float, n: int) -> tuple[float, float]:
    """Lowest eigenvalue and overlap by the N = inf theory, with the mean Tracy-Widom shift where it has a sharp edge."""
    found = next(iter(theory.outliers(model, alpha)), None)
    if found is not None:
        return found.value, found.overlap
    edge = theory.edge(model, alpha)
    shift = MEAN / finite_edge(model, alpha, n).scale if edge.kind == "sharp" else 0.0
    return edge.value - shift, np.nan


def samples(quick: bool) -> None:
    print(
        "Lowest eigenvalue, sample by sample. MSE and variance of (found - predicted); ratio = N = inf over quenched"
    )
    print(
        " p p*    a alpha     n  runs |  var inf  var quen ratio |  MSE inf  MSE quen ratio | q2 found      quenched N=inf"
    )
    for p, p_star, a, alpha, n, runs in SAMPLES[:: 3 if quick else 1]:
        model, rng = Network(p, p_star, a), np.random.default_rng([p, n, int(100 * alpha)])
        n, runs = (150, 8) if quick else (n, runs)
        value, overlap = infinite(model, alpha, n)
        rows = []
        for _ in range(runs):
            sample = dense(model, n, alpha, rng)
            predicted = quenched(model, sample.lam, sample.u, n, sample.gram)
            present = int(np.sum(np.isfinite(predicted.outliers)))
            lowest = predicted.lowest - (0 if present else MEAN / predicted.scale)
            full = present == len(predicted.outliers)
            q2 = (sample.overlaps[:present].mean(), predicted.overlaps.mean()) if full else (np.nan, np.nan)
            rows.append((sample.values[0] - value, sample.values[0] - lowest, *q2))
        plain, ours, found, expected = np.array(rows).T
        seen = np.isfinite(found)
        text = "no outlier"
        if np.isfinite(overlap) and seen.sum() > 1:
            gap = found[seen] - expected[seen]
            error = found[seen].std(ddof=1) / np.sqrt(seen.sum())
            text = f"{found[seen].mean():.3f} +- {error:.3f}  {expected[seen].mean():.3f}   {overlap:.3f}"
            text += f"  (per sample {gap.mean():+.3f} +- {gap.std(ddof=1) / np.sqrt(seen.sum()):.3f}, {seen.sum()} samples)"
        var, mse = (plain.var(ddof=1), ours.var(ddof=1)), (np.mean(plain**2), np.mean(ours**2))
        print(
            f"{p:2d} {p_star:2d} {a:4g} {alpha:5g} {n:5d} {runs:5d} | {var[0]:.2e}  {var[1]:.2e} {var[0] / var[1]:5.1f} |"
            f" {mse[0]:.2e}  {mse[1]:.2e} {mse[0] / mse[1]:5.1f} | {text}",
            flush=True,
        )


def edge(quick: bool) -> None:
    print(
        "(lowest level of the bulk - edge) kappa, less Tracy and Widom's mean: 0 +- error where the edge is right"
    )
    print(" p p*    a alpha     n outliers runs |  edge of `quenched`   edge of n - p - p*      edge of n")
    for p, p_star, a, alpha, n in EDGES[:: 4 if quick else 1]:
        model, rng = Network(p, p_star, a), np.random.default_rng([p, n, int(100 * alpha)])
        rows = []
        for _ in range(20 if quick else 200):
            sample = dense(model, n, alpha, rng)
            found = quenched(model, sample.lam, sample.u, n, sample.gram)
            present, weights = (
                int(np.isfinite(found.outliers).sum()),
                model.weights(sample.lam, model.outputs(sample.u)),
            )
            scaled = (sample.values[present] - found.edge) * found.scale + MEAN
            # Each edge is that of the equation of its dimension, in units of the Hessian.
            others = [Dyson(weights, 1 / k).edge().value * k / n for k in (n - p - p_star, n)]
            rows.append((present, scaled, *(scaled + (found.edge - z) * found.scale for z in others)))
        table = np.array(rows)
        for present in np.unique(table[:, 0]):
            here = table[table[:, 0] == present, 1:]
            if len(here) < 20:
                continue
            mean, error = here.mean(axis=0), here.std(axis=0, ddof=1) / np.sqrt(len(here))
            cells = "   ".join(f"{m:+.2f} +- {e:.2f}  " for m, e in zip(mean, error, strict=True))
            print(
                f"{p:2d} {p_star:2d} {a:4g} {alpha:5g} {n:5d} {present:8.0f} {len(here):4d} | {cells}",
                flush=True,
            )


def threshold(quick: bool) -> None:
    print(
        "phi: share of samples whose eigenvector of largest overlap is among the p p_star lowest; logistic fit in alpha."
    )
    print("phi at a threshold is one number for all n and models if that threshold is the right one.")
    print(" p p*    a     n runs x 6 | phi = 1/2 at     | of the law     phi there | N = inf  phi there")
    for p, p_star, a, n, runs in THRESHOLDS[:: 2 if quick else 1]:
        model, rng = Network(p, p_star, a), np.random.default_rng([p, n])
        n, runs = (100, 10) if quick else (n, runs)
        draws, infinite = 20 if quick else 120, theory.threshold(model).alpha
        predicted = threshold_at(model, n, draws=draws)
        alphas = np.linspace(0.55 * predicted.alpha, 1.1 * max(infinite, predicted.alpha), 6)
        ranks = [[np.argmax(dense(model, n, v, rng).overlaps) for _ in range(runs)] for v in alphas]
        fit = Logistic(alphas, np.mean(np.array(ranks) < model.degeneracy, axis=1), runs)
        (half, error), (one, e1), (two, e2) = fit.half(), fit.at(predicted.alpha), fit.at(infinite)
        print(
            f"{p:2d} {p_star:2d} {a:4g} {n:5d} {runs:4d}     | {half:.3f} +- {error:.3f}  |"
            f" {predicted.alpha:.3f} +- {predicted.error:.3f}  {one:.2f} +- {e1:.2f} |"
            f" {infinite:.3f}  {two:.2f} +- {e2:.2f}",
            flush=True,
        )


class Logistic:
    """Logistic curve through the fractions of `runs` trials at x, by iterated least squares, with its errors."""

    def __init__(self, x: np.ndarray, fraction: np.ndarray, runs: int):
        self.centre, self.scale = x.mean(), x.std()
        design = np.stack([np.ones_like(x), (x - self.centre) / self.scale], axis=1)
        self.beta = np.array([0.0, 2.0])
        for _ in range(50):
            chance = 1 / (1 + np.exp(-design @ self.beta))
            weight = np.maximum(runs * chance * (1 - chance), 1e-9)
            self.information = design.T @ (weight[:, None] * design)
            step = np.linalg.solve(self.information, design.T @ (runs * (fraction - chance)))
            self.beta = self.beta + np.clip(step, -1, 1)

    def half(self) -> tuple[float, float]:
        """Where the curve is 1/2, and the standard error of that."""
        gradient = np.array([-1 / self.beta[1], self.beta[0] / self.beta[1] ** 2])
        error = np.sqrt(gradient @ np.linalg.solve(self.information, gradient))
        return self.centre - self.scale * self.beta[0] / self.beta[1], self.scale * error

    def at(self, x: float) -> tuple[float, float]:
        """The curve at x, and its standard error."""
        row = np.array([1.0, (x - self.centre) / self.scale])
        value = 1 / (1 + np.exp(-row @ self.beta))
        return value, value * (1 - value) * np.sqrt(row @ np.linalg.solve(self.information, row))


def speed(quick: bool) -> None:
    model, n, alpha = Network(2, 1, 1.0), 200 if quick else 1000, 2.0
    rng = np.random.default_rng(0)
    data = rng.standard_normal((round(alpha * n), n)) / np.sqrt(n)
    student, teacher = (rng.standard_normal((k, n)) for k in (2, 1))
    lam, u = (
        data @ (v * np.sqrt(n) / np.linalg.norm(v, axis=1, keepdims=True)).T for v in (student, teacher)
    )
    ours = []
    for _ in range(30):
        start = clocks()
        result = quenched(model, lam, u, n)
        ours.append(clocks() - start)
    wall, cpu = np.median(ours, axis=0)
    start = clocks()
    matrix = hessian(model, data, lam, u)
    built = clocks() - start
    values = scipy.linalg.eigh(matrix, subset_by_index=[0, 2], overwrite_a=True, check_finite=False)[0]
    peer_wall, peer_cpu = clocks() - start
    print(f"M = {len(lam)}, p = 2, N = {n}: edge, {len(result.outliers)} outliers, overlaps; median of 30")
    print(f"quenched    {1e3 * wall:8.1f} ms   CPU {1e3 * cpu:8.1f} ms")
    print(
        f"eigh        {1e3 * peer_wall:8.1f} ms   CPU {1e3 * peer_cpu:8.1f} ms   (matrix {1e3 * built[1]:.1f} ms CPU)"
    )
    print(f"ratio       {peer_wall / wall:8.0f}      CPU {peer_cpu / cpu:8.0f}")
    print(f"predicted {np.round(result.outliers, 4)}, found {np.round(values, 4)}")


def clocks() -> np.ndarray:
    """Wall and processor time in seconds: on a shared machine only the second means much."""
    return np.array([time.perf_counter(), time.process_time()])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["samples", "edge", "threshold", "speed"])
    parser.add_argument("--quick", action="store_true", help="few samples of small matrices")
    options = parser.parse_args()
    globals()[options.part](options.quick)


if __name__ == "__main__":
    main()
