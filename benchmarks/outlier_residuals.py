"""Outliers of dense samples less those predicted from each sample's own preactivations, in two ways: mean and scatter.

    python -m benchmarks.outlier_residuals [--samples 24] [--models 0:12]

For each model: the mean over samples of (found - predicted) of the lowest and of the highest of the p p_star outliers, in
brackets in its standard errors. Predicted by theory.finite.quenched with the actual overlaps of teacher and students
("plain"), over the samples with p p_star predicted outliers ("kept"); and, for p p_star > 1, by the mean of DRAWS small
matrices with the sample's preactivations and overlaps ("law", theory.finite.small_matrix), over all samples.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from theory.finite.draw import draw
from theory.finite.quenched import orthonormal, quenched
from theory.finite.small_matrix import small_pairs
from theory.model import Network

# p, p_star, a, alpha, N
MODELS = [
    (1, 1, 0.5, 4.0, 300), (1, 1, 2.0, 5.0, 200), (1, 1, 50.0, 60.0, 100), (1, 1, 1000.0, 700.0, 100),
    (1, 2, 0.5, 14.0, 200), (1, 3, 0.5, 25.0, 200), (2, 1, 0.3, 4.0, 150), (2, 1, 1.5, 4.0, 150),
    (2, 2, 0.5, 8.0, 100), (3, 1, 1.0, 4.0, 100), (4, 1, 0.5, 4.0, 100), (2, 1, 20.0, 40.0, 100),
]  # fmt: skip

DRAWS = 60


def sample(model: Network, alpha: float, n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    """Lowest p p_star eigenvalues of a dense Hessian, and its preactivations and overlaps."""
    p, k = int(model.p), int(model.degeneracy)
    rows = np.vstack([np.linalg.qr(rng.standard_normal((n, model.p_star)))[0].T, rng.standard_normal((p, n))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    x = rng.standard_normal((round(alpha * n), n))
    u, lam = x @ rows[: model.p_star].T, x @ rows[model.p_star :].T
    weights = model.weights(lam, model.outputs(u))
    hessian = np.block([[x.T @ (weights[:, i, j, None] * x) / n for j in range(p)] for i in range(p)])
    return np.linalg.eigvalsh(hessian)[:k], lam, u, rows @ rows.T


def of_law(model: Network, lam: Any, u: Any, n: int, gram: Any) -> Any:
    """Mean of the lowest p p_star pairs over draws that share preactivations and overlaps, as `quenched_law` has them."""
    basis = np.roll(orthonormal(np.hstack([u, lam]), gram), -model.p_star, axis=1)
    shared = np.stack([np.hstack([lam, u]), basis])
    drawn = draw(model, len(lam), n, range(DRAWS), 1, shared)
    pairs = small_pairs(drawn, range(DRAWS))
    unit = 2 / int(model.p) * drawn.data.n / n
    return np.nanmean(pairs.values[:, : int(model.degeneracy)] * unit[:, None], axis=0)


def residuals(model: Network, alpha: float, n: int, samples: int, seed: int = 0) -> dict[str, Any]:
    """Found less predicted (kept, p p_star) for each way."""
    rng = np.random.default_rng(seed)
    out: dict[str, list[Any]] = {"plain": [], "law": []}
    for _ in range(samples):
        found, lam, u, gram = sample(model, alpha, n, rng)
        if model.degeneracy > 1:
            out["law"].append(found - of_law(model, lam, u, n, gram))
        predicted = quenched(model, lam, u, n, gram)
        if np.all(np.isfinite(predicted.outliers)):
            out["plain"].append(found - predicted.outliers)
    return {way: np.array(rows) for way, rows in out.items()}


def cell(left: Any, which: int) -> str:
    """Mean residual of one outlier, in brackets in standard errors."""
    if len(left) < 3:
        return ""
    mean, error = left[:, which].mean(), left[:, which].std(ddof=1) / np.sqrt(len(left))
    return f"{mean:+.4f} ({mean / error:+.1f})"


def main() -> None:
    """Print the table, in the columns of docs/appendix_finite_n.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--models", default=f"0:{len(MODELS)}", help="first:last of the list")
    args = parser.parse_args()
    first, last = (int(v) for v in args.models.split(":"))
    for p, p_star, a, alpha, n in MODELS[first:last]:
        left = residuals(Network(p, p_star, a), alpha, n, args.samples)
        cells = [cell(left[way], which) for which in (0, -1) for way in ("plain", "law")]
        print(
            "|", " | ".join(map(str, (p, p_star, a, alpha, n, len(left["plain"]), *cells))), "|", flush=True
        )


if __name__ == "__main__":
    main()
