"""Is the law of theory.finite_n.law the law of dense samples? Means, scatter, and a calibration test on twelve models.

    python -m benchmarks.finite_law [--samples 60] [--draws 400]

For each model and each of lowest, overlap (mean of the p p_star lowest) and overlap_lowest: mean found / predicted, and the
two-sample Kolmogorov-Smirnov p-value of samples against draws (the probability integral transform of a sample in the draws is
uniform if the law is right). Where it were right, one p-value of the 36 in 100 would fall below 0.01: 0.36 are expected.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy.stats import ks_2samp

from theory.finite_n.law import finite_law
from theory.model import Committee

# p, p_star, a, alpha, N
MODELS = [
    (1, 1, 0.5, 0.8, 200), (1, 1, 0.5, 3.0, 200), (1, 1, 0.5, 8.0, 200), (1, 1, 0.5, 1.4, 800),
    (1, 1, 2.0, 1.0, 200), (1, 1, 2.0, 1.7, 400), (1, 1, 2.0, 3.0, 800), (1, 1, 0.5, 1.4, 1600),
    (1, 2, 0.5, 4.0, 400), (1, 2, 3.0, 2.0, 300), (2, 1, 1.5, 0.6, 200), (2, 1, 1.5, 1.2, 400),
    (2, 1, 0.3, 1.2, 300), (2, 1, 0.3, 2.5, 200), (2, 2, 0.5, 2.5, 200), (2, 2, 2.0, 1.5, 200),
    (4, 1, 0.5, 1.0, 200), (4, 2, 1.0, 2.5, 200),
]  # fmt: skip
FIELDS = ("lowest", "overlap", "overlap_lowest")


def sample(model: Committee, alpha: float, n: int, rng: np.random.Generator) -> Any:
    """The three fields of one dense Hessian."""
    p, k = int(model.p), int(model.degeneracy)
    teacher = np.linalg.qr(rng.standard_normal((n, model.p_star)))[0].T
    student = rng.standard_normal((p, n))
    student /= np.linalg.norm(student, axis=1, keepdims=True)
    x = rng.standard_normal((round(alpha * n), n))
    weights = model.weights(x @ student.T, x @ teacher.T)
    hessian = np.block([[x.T @ (weights[:, i, j, None] * x) / n for j in range(p)] for i in range(p)])
    values, vectors = np.linalg.eigh(hessian)
    q2 = (np.einsum("ln,knj->klj", teacher, vectors[:, :k].reshape(p, n, k)) ** 2).sum((0, 1))
    return values[0], q2.mean(), q2[0]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--draws", type=int, default=400)
    args = parser.parse_args()
    small = 0
    for index, (p, p_star, a, alpha, n) in enumerate(MODELS):
        model, rng = Committee(p, p_star, a), np.random.default_rng(index)
        found = np.array([sample(model, alpha, n, rng) for _ in range(args.samples)])
        law, cells = finite_law(model, alpha, n, draws=args.draws), []
        for column, name in enumerate(FIELDS):
            drawn, seen = getattr(law, name), found[:, column]
            chance = ks_2samp(drawn, seen).pvalue
            small += chance < 0.01
            error = seen.std(ddof=1) / np.sqrt(len(seen))
            spread = f"sd {seen.std(ddof=1):.3f}/{drawn.std(ddof=1):.3f}"
            cells.append(f"{seen.mean():+.3f}({error:.3f})/{drawn.mean():+.3f} {spread} KS {chance:.2g}")
        print(f"p={p} p*={p_star} a={a} alpha={alpha} N={n} | " + " | ".join(cells), flush=True)
    print(f"p-values below 0.01: {small} of {3 * len(MODELS)}")


if __name__ == "__main__":
    main()
