"""Is the law of theory.finite.law the law of dense samples? Means, scatter, and a calibration test on eighteen models.

    python -m benchmarks.finite_law [--samples 60] [--draws 400] [--models 0:18]
    python -m benchmarks.finite_law --fresh [1 to 6] [--models 0:16]

For each model and each of lowest, overlap (mean of the p p_star lowest), overlap_lowest and overlap_next (the first above
them): mean found / predicted, and the two-sample Kolmogorov-Smirnov p-value of samples against draws (the probability
integral transform of a sample in the draws is uniform if the law is right). Where it were right, one p-value in 100 would
fall below 0.01. From N = 800 on a quarter of the samples are drawn. One line a model, in the columns of
docs/appendix_finite_n.md.
With --fresh: predicted over found, with its error, for other models; alpha from 0.3 to 2 alpha_BBP.
The fourth, fifth and sixth list served no choice; the others served choices. phi: predicted less found.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.stats import ks_2samp

import theory
from theory import finite
from theory.model import Network

# p, p_star, a, alpha, N
MODELS = [
    (1, 1, 0.5, 0.8, 200), (1, 1, 0.5, 3.0, 200), (1, 1, 0.5, 8.0, 200), (1, 1, 0.5, 1.4, 800),
    (1, 1, 2.0, 1.0, 200), (1, 1, 2.0, 1.7, 400), (1, 1, 2.0, 3.0, 800), (1, 1, 0.5, 1.4, 1600),
    (1, 2, 0.5, 4.0, 400), (1, 2, 3.0, 2.0, 300), (2, 1, 1.5, 0.6, 200), (2, 1, 1.5, 1.2, 400),
    (2, 1, 0.3, 1.2, 300), (2, 1, 0.3, 2.5, 200), (2, 2, 0.5, 2.5, 200), (2, 2, 2.0, 1.5, 200),
    (4, 1, 0.5, 1.0, 200), (4, 2, 1.0, 2.5, 200),
]  # fmt: skip
# p, p_star, a, alpha over alpha_BBP, N, samples: the lists of --fresh 1 to 5
FRESH_1 = [
    (1, 1, 0.7, 0.3, 200, 200), (1, 1, 0.3, 0.8, 400, 100), (1, 1, 3.0, 0.6, 400, 100), (1, 1, 3.0, 1.6, 200, 200),
    (1, 1, 0.8, 2.0, 800, 40), (1, 1, 4.0, 1.0, 1600, 16), (1, 2, 0.6, 1.2, 1600, 16), (1, 2, 0.8, 1.3, 200, 150),
    (1, 2, 2.5, 0.8, 200, 200), (2, 1, 0.6, 0.5, 200, 150), (2, 1, 0.2, 1.5, 400, 60), (2, 1, 2.5, 1.0, 200, 150),
    (2, 2, 0.7, 0.7, 200, 100), (2, 2, 3.0, 1.5, 200, 80), (4, 1, 0.3, 0.8, 200, 60), (4, 2, 2.0, 1.5, 200, 40),
]  # fmt: skip
FRESH_2 = [
    (1, 1, 1.4, 0.4, 150, 300), (1, 1, 0.4, 1.3, 300, 150), (1, 1, 6.0, 0.7, 200, 300), (1, 1, 0.9, 0.9, 400, 100),
    (1, 1, 2.5, 1.8, 200, 200), (1, 2, 1.5, 0.5, 150, 300), (1, 2, 0.4, 0.7, 200, 200), (1, 3, 2.0, 1.4, 150, 200),
    (2, 1, 0.9, 0.4, 150, 250), (2, 1, 0.4, 0.9, 200, 200), (2, 1, 4.0, 1.6, 150, 200), (2, 2, 1.2, 1.0, 120, 200),
    (2, 2, 0.5, 1.7, 120, 200), (3, 1, 0.5, 1.2, 120, 200), (4, 1, 1.5, 1.6, 100, 150), (4, 2, 0.8, 0.6, 100, 100),
]  # fmt: skip
FRESH_3 = [
    (1, 1, 1.7, 0.5, 120, 400), (1, 1, 0.6, 1.1, 200, 200), (1, 1, 5.0, 1.5, 150, 300), (1, 2, 1.0, 1.1, 150, 250),
    (1, 3, 1.2, 0.8, 120, 300), (2, 1, 0.5, 0.6, 120, 300), (2, 1, 2.0, 1.2, 150, 200), (2, 2, 1.5, 1.6, 100, 250),
    (2, 3, 1.0, 0.8, 100, 200), (3, 1, 2.0, 0.7, 100, 200), (3, 1, 0.3, 1.7, 100, 200), (4, 1, 0.7, 1.0, 80, 150),
]  # fmt: skip
FRESH_4 = [
    (1, 1, 1.1, 0.6, 160, 300), (1, 1, 0.35, 1.0, 150, 200), (1, 1, 8.0, 1.2, 150, 300), (1, 2, 2.2, 1.5, 150, 250),
    (1, 3, 0.9, 1.1, 120, 250), (2, 1, 0.7, 1.3, 120, 250), (2, 1, 3.5, 0.5, 120, 250), (2, 2, 0.9, 1.8, 100, 200),
    (2, 2, 2.5, 0.6, 100, 200), (3, 1, 1.2, 1.5, 100, 150), (3, 2, 1.0, 1.2, 90, 120), (4, 1, 0.4, 1.4, 80, 120),
]  # fmt: skip
FRESH_5 = [
    (1, 1, 0.75, 0.5, 100, 600), (1, 1, 0.75, 1.2, 250, 300), (1, 1, 1.6, 0.8, 100, 600), (1, 1, 1.6, 1.5, 250, 300),
    (1, 1, 3.5, 0.5, 120, 500), (1, 1, 3.5, 1.1, 300, 200), (1, 1, 0.45, 1.7, 120, 500), (1, 1, 0.2, 1.0, 200, 300),
    (1, 1, 12.0, 1.3, 100, 500), (1, 2, 1.3, 0.5, 120, 400), (1, 2, 1.3, 1.2, 120, 400), (1, 2, 4.0, 0.9, 150, 300),
    (1, 3, 1.5, 1.0, 120, 300), (1, 1, 5.0, 0.7, 400, 120),
]  # fmt: skip
# alpha itself, not over alpha_BBP
FRESH_6 = [
    (2, 3, 1.5, 9.0, 80), (3, 3, 0.8, 6.0, 70), (2, 5, 3.0, 20.0, 70), (4, 2, 0.25, 2.0, 60), (2, 1, 0.08, 1.8, 120),
    (3, 1, 0.1, 1.2, 90), (1, 5, 1.0, 30.0, 80), (1, 8, 2.0, 50.0, 70), (1, 4, 0.3, 20.0, 90), (2, 4, 0.5, 8.0, 90),
]  # fmt: skip
FRESH = {
    1: (FRESH_1, 5),
    2: (FRESH_2, 9),
    3: (FRESH_3, 21),
    4: (FRESH_4, 33),
    5: (FRESH_5, 55),
    6: ([(*model, 200) for model in FRESH_6], 101),
}  # and their seeds
FIELDS = ("lowest", "overlap", "overlap_lowest", "overlap_next", "among")


def sample(model: Network, alpha: float, n: int, rng: np.random.Generator) -> Any:
    """The five fields of one dense Hessian."""
    p, k = int(model.p), int(model.degeneracy)
    teacher = np.linalg.qr(rng.standard_normal((n, model.p_star)))[0].T
    student = rng.standard_normal((p, n))
    student /= np.linalg.norm(student, axis=1, keepdims=True)
    x = rng.standard_normal((round(alpha * n), n))
    weights = model.weights(x @ student.T, model.outputs(x @ teacher.T))
    hessian = np.block([[x.T @ (weights[:, i, j, None] * x) / n for j in range(p)] for i in range(p)])
    values, vectors = eigh(hessian, overwrite_a=True, check_finite=False, driver="evd")
    q2 = (np.einsum("ln,knj->klj", teacher, vectors.reshape(p, n, -1)) ** 2).sum((0, 1))
    return values[0], q2[:k].mean(), q2[0], q2[k], float(np.argmax(q2) < k)


def fresh(models: list[Any], seed: int, first: int, last: int, draws: int) -> None:
    """Print predicted over found for the models of one of these lists."""
    for index, (p, p_star, a, share, n, samples) in list(enumerate(models))[first:last]:
        model, rng = Network(p, p_star, a), np.random.default_rng([seed, index])
        centre = theory.threshold(model).alpha
        alpha = share if seed == FRESH[6][1] else round(share * centre, 2)
        share = round(alpha / centre, 2)
        found = np.array([sample(model, alpha, n, rng) for _ in range(samples)])
        law = finite.law(model, alpha, n, draws=draws, seed=seed)
        cells = [str(v) for v in (p, p_star, a, alpha, share, n, samples)]
        for column, name in enumerate(FIELDS):
            if name == "overlap_lowest" and model.degeneracy == 1:
                cells.append("the same")
                continue
            (mean, scatter), seen = law.mean(name), found[:, column]
            error = seen.std(ddof=1) / np.sqrt(samples)
            if name in ("lowest", "among"):
                cells.append(f"{mean - seen.mean():+.3f} ± {np.hypot(error, scatter):.3f}")
                continue
            ratio = mean / seen.mean()
            cells.append(f"{ratio:.2f} ± {ratio * np.hypot(error / seen.mean(), scatter / mean):.2f}")
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--models", help="first:last of the list")
    parser.add_argument(
        "--fresh",
        nargs="?",
        type=int,
        const=1,
        choices=FRESH,
        help="one of six other lists of models",
    )
    args = parser.parse_args()
    first, last = (int(v) for v in (args.models or f"0:{len(MODELS)}").split(":"))
    if args.fresh:
        models, seed = FRESH[args.fresh]
        return fresh(models, seed, first, last, args.draws)
    small = tests = 0
    for index, (p, p_star, a, alpha, n) in list(enumerate(MODELS))[first:last]:
        model, rng = Network(p, p_star, a), np.random.default_rng([2, index])
        samples = args.samples // 4 if n >= 800 else args.samples
        found = np.array([sample(model, alpha, n, rng) for _ in range(samples)])
        law = finite.law(model, alpha, n, draws=args.draws)
        cells = [str(v) for v in (p, p_star, a, alpha, n, samples)]
        for column, name in enumerate(FIELDS[:4]):
            if name == "overlap_lowest" and model.degeneracy == 1:
                cells.append("the same")
                continue
            drawn, seen = getattr(law, name), found[:, column]
            drawn = drawn[np.isfinite(drawn)]
            chance = ks_2samp(drawn, seen).pvalue
            small, tests = small + (chance < 0.01), tests + 1
            error = seen.std(ddof=1) / np.sqrt(len(seen))
            spread = f"sd {seen.std(ddof=1):.3f} / {drawn.std(ddof=1):.3f}"
            cells.append(f"{seen.mean():.3f} ± {error:.3f} / {drawn.mean():.3f}, {spread}, {chance:.2g}")
        print("| " + " | ".join(cells) + " |", flush=True)
    print(f"p-values below 0.01: {small} of {tests}")


if __name__ == "__main__":
    main()
