"""BBP times along gradient flow: without a matrix and extrapolated, and with plain matrices at N = 2,000.

    python -m benchmarks.path_times [--alphas 2,3] [--samples 48]

With a matrix: explicit Euler steps of 0.004, the margin of the teacher's direction by quenched theory of the preactivations at
each time. Preactivations scatter margins by N^(-1/2) at every time alike: the margin at the start is replaced by its value at N
= infinity, which leaves a third of the scatter.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from theory.general.dyson import Dyson
from theory.general.spikes import SpikeBlock
from theory.model import Network
from theory.path import bbp_time, force

STEP, EVERY = 0.004, 10


def margins(model: Network, alpha: float, n: int, until: float, seed: int) -> Any:
    """Times and margins of one flow over a matrix, from students orthogonal to the teacher."""
    rng = np.random.default_rng([2, seed])
    x = rng.standard_normal((round(alpha * n), n), dtype=np.float32) / np.float32(np.sqrt(n))
    w = rng.standard_normal((1, n))
    w[:, 0] = 0
    w *= np.sqrt(n) / np.linalg.norm(w)
    y, rows = n * x[:, 0].astype(float) ** 2, []
    for i in range(round(until / STEP) + 1):
        lam = (x @ w.T.astype(np.float32)).astype(float)
        if i % EVERY == 0:
            dyson = Dyson(model.weights(lam, y), 1 / n)
            edge = dyson.edge()
            rows.append((i * STEP, edge.value - SpikeBlock(dyson, np.sqrt(y)[:, None]).xi(edge.at).item()))
        gradient = (force(model, lam, y).T.astype(np.float32) @ x).astype(float)
        w = w - STEP * (gradient - np.sum(gradient * w) / n * w)
        w *= np.sqrt(n) / np.linalg.norm(w)
    return np.array(rows).T


def main() -> None:
    """Print one line for each alpha."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--a", type=float, default=0.5)
    parser.add_argument("--alphas", default="2,3")
    parser.add_argument("--samples", type=int, default=48)
    args = parser.parse_args()
    for alpha in (float(x) for x in args.alphas.split(",")):
        model = Network(1, 1, args.a)
        found = bbp_time(model, alpha, samples=2**17)
        curves = [margins(model, alpha, 2000, 1.4 * found.time, seed) for seed in range(args.samples)]
        times, shifted = curves[0][0], [c[1] - c[1][0] + found.margin for c in curves]
        roots = np.array([np.interp(0, -row, times) for row in shifted])
        print(
            f"alpha = {alpha:g}: {found.time:.4f} +- {found.error:.4f} without a matrix, "
            f"{roots.mean():.4f} +- {roots.std(ddof=1) / np.sqrt(len(roots)):.4f} at N = 2,000",
            flush=True,
        )


if __name__ == "__main__":
    main()
