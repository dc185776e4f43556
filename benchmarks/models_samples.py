"""Six networks at finite N: the lowest eigenvalue and its overlap, dense against matrix-free, and time beside the committee's.

    python benchmarks/models_samples.py [--n 500] [--samples 4]

The same draws are solved both ways. Printed for each model: mean and standard error over samples of the lowest eigenvalue and
of the teacher's share q2 of its vector, the largest difference between the two solvers, the seconds of a dense sample over
those of the committee's of the same sizes, measured in the same run, and the theory at N = inf.
"""

import argparse
import time

import numpy as np

from sims.sampling import sample_point
from theory import Network
from theory.general.spectrum import solve

CASES = [
    (Network(1, 1, a=50.0, activation="tanh"), 6.0),
    (Network(1, 1, a=2.0, activation="softplus"), 4.0),
    (Network(1, 1, a=2.0, noise=0.3), 6.0),
    (Network(1, 1, a=0.5, noise=0.3, covariance="levels:0.4@0.6666666667,2.2@0.3333333333"), 4.0),
    (Network(1, 1, a=0.5, covariance="levels:0.1@0.5,1@0.35,4@0.15"), 4.0),
    (Network(1, 1, a=1.0, overlap=0.8), 3.0),
]


def timed(model, n, alpha, samples, solver):
    start = time.perf_counter()
    point = sample_point(model, n, alpha, range(samples), 0, eigenpairs=3, solver=solver)
    return point, (time.perf_counter() - start) / samples


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--samples", type=int, default=4)
    args = parser.parse_args()
    for model, alpha in CASES:
        plain = Network(model.p, model.p_star, model.a)
        for each in (plain, model):
            timed(each, args.n, alpha, 1, "dense")  # compiles
        _, beside = timed(plain, args.n, alpha, args.samples, "dense")
        dense, seconds = timed(model, args.n, alpha, args.samples, "dense")
        free, _ = timed(model, args.n, alpha, args.samples, "krylov")
        value, share = model.a * dense.eigenvalues[:, 0], dense.overlaps[:, 0]
        error = 1 / np.sqrt(args.samples - 1)
        record = {
            k: v for k, v in model.record().items() if v not in (None, 0.0, 1, "quadratic", "normalised")
        }
        print(record, f"alpha={alpha} N={args.n}")
        between = np.max(np.abs(dense.eigenvalues - free.eigenvalues))
        print(f"    a * lowest {value.mean():.4f} +- {value.std() * error:.4f}", end=", ")
        print(f"q2 {share.mean():.3f} +- {share.std() * error:.3f}", end=", ")
        print(f"dense - free {between:.1e}, seconds {seconds / beside:.2f} of the committee's")
        found = solve(model, alpha)
        outlier = model.a * found.outliers[:1], found.overlaps[:1]
        print(
            f"    N = inf: a * edge {model.a * found.edge:.4f} ({found.kind}), a * outlier and its overlap {outlier}"
        )


if __name__ == "__main__":
    main()
