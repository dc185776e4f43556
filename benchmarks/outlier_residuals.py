"""Outliers of dense samples less those predicted from each sample's own labels: mean and scatter, with and without block noise.

    python -m benchmarks.outlier_residuals [--samples 60] [--models 12]

For each model: the mean over samples of (found - predicted) of the lowest and of the highest of the p p_star outliers, in
standard errors too, predicted by theory.finite_n.quenched with the actual overlaps of teacher and students (`plain`) and with
the block noise of theory.finite_n.block_noise on top (`noise`). Samples without p p_star predicted outliers are left out.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from theory.finite_n.block_noise import scattered_outliers
from theory.finite_n.quenched import quenched
from theory.model import Committee

# p, p_star, a, alpha, N
MODELS = [
    (1, 1, 0.5, 4.0, 300), (1, 1, 2.0, 5.0, 200), (1, 1, 50.0, 60.0, 100), (1, 1, 1000.0, 700.0, 100),
    (1, 2, 0.5, 14.0, 200), (1, 3, 0.5, 25.0, 200), (2, 1, 0.3, 4.0, 150), (2, 1, 1.5, 4.0, 150),
    (2, 2, 0.5, 8.0, 100), (3, 1, 1.0, 4.0, 100), (4, 1, 0.5, 4.0, 100), (2, 1, 20.0, 40.0, 100),
]  # fmt: skip


def sample(model: Committee, alpha: float, n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    """Lowest p p_star eigenvalues of a dense Hessian, and its labels and overlaps."""
    p, k = int(model.p), int(model.degeneracy)
    rows = np.vstack([np.linalg.qr(rng.standard_normal((n, model.p_star)))[0].T, rng.standard_normal((p, n))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    x = rng.standard_normal((round(alpha * n), n))
    u, lam = x @ rows[: model.p_star].T, x @ rows[model.p_star :].T
    weights = model.weights(lam, u)
    hessian = np.block([[x.T @ (weights[:, i, j, None] * x) / n for j in range(p)] for i in range(p)])
    return np.linalg.eigvalsh(hessian)[:k], lam, u, rows @ rows.T


def residuals(model: Committee, alpha: float, n: int, samples: int, seed: int = 0) -> Any:
    """Found less predicted (kept, 2 ways, p p_star), plain and with block noise."""
    rng, out = np.random.default_rng(seed), []
    for _ in range(samples):
        found, lam, u, gram = sample(model, alpha, n, rng)
        predicted = quenched(model, lam, u, n, gram)
        if np.all(np.isfinite(predicted.outliers)):
            noisy = scattered_outliers(model, predicted, alpha, n, 300, rng)
            out.append((found - predicted.outliers, found - noisy.mean(axis=0)))
    return np.array(out)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--models", type=int, default=len(MODELS))
    args = parser.parse_args()
    print(
        "p p* a alpha N kept | lowest plain, noise | highest plain, noise | (standard errors), sd of the lowest"
    )
    for p, p_star, a, alpha, n in MODELS[: args.models]:
        left = residuals(Committee(p, p_star, a), alpha, n, args.samples)
        if len(left) < 3:
            print(p, p_star, a, alpha, n, len(left), "too few with all outliers")
            continue
        mean, error = left.mean(axis=0), left.std(axis=0, ddof=1) / np.sqrt(len(left))
        cells = [f"{mean[w, i]:+.4f} ({mean[w, i] / error[w, i]:+.1f})" for i in (0, -1) for w in (0, 1)]
        print(
            p,
            p_star,
            a,
            alpha,
            n,
            len(left),
            "|",
            " ".join(cells),
            f"sd {left[:, 0, 0].std(ddof=1):.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
