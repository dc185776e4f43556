"""Dense samples of eight networks against theory: lowest eigenvalue, its overlaps with teacher and student.

python -m benchmarks.general_samples [N] [samples]          (500 and 16: about two minutes on one core)

Deviations are in standard errors of the mean over samples. Left of the bulk the lowest eigenvalue deviates besides by terms of
order 1/N, so the sigma stated is that of the mean plus 3/N of the value.
"""

from __future__ import annotations

import sys

import numpy as np

from sims.sampling import sample_point
from theory.general import Network, spectrum

MODELS = {
    "tanh": (Network(a=3.0, activation="tanh"), 6.0),
    "sigmoid": (Network(a=1.0, activation="sigmoid"), 6.0),
    "noise": (Network(a=2.0, noise=0.3), 6.0),
    "two levels": (Network(a=0.5, noise=0.3, covariance="levels:0.4@2,2.2@1"), 4.0),
    "Marchenko-Pastur": (Network(a=0.5, covariance="mp:0.5"), 4.0),
    "overlap": (Network(a=1.0, overlap=0.8), 5.0),
    "two students": (Network(2, a=2.0, activation="tanh", covariance="levels:0.4@2,2.2@1"), 16.0),
    "and power law": (Network(2, a=2.0, activation="tanh", covariance="power:0.5"), 16.0),
}


def main(n: int = 500, samples: int = 16) -> None:
    """Print theory, samples and deviation of each model."""
    print(f"{'model':<18}{'quantity':<14}{'theory':>10}{'samples':>10}{'error':>9}{'sigma':>7}")
    for name, (model, alpha) in MODELS.items():
        found = spectrum(model, alpha)
        drawn = sample_point(model, n, alpha, range(samples), seed=7)
        rows = {
            "lowest": (found.outliers[0], drawn.eigenvalues[:, 0]),
            "teacher": (found.overlaps[0] * found.teacher_share[0], drawn.overlaps[:, 0]),
            "student": (found.overlaps[0] * found.student_share[0], drawn.student_shares[:, 0]),
        }
        for quantity, (theory, values) in rows.items():
            mean, error = values.mean(), values.std(ddof=1) / np.sqrt(samples)
            sigma = (mean - theory) / np.hypot(error, 3 / n * abs(theory) + 1 / n)
            print(f"{name:<18}{quantity:<14}{theory:>10.4f}{mean:>10.4f}{error:>9.4f}{sigma:>7.1f}")


if __name__ == "__main__":
    main(*(int(v) for v in sys.argv[1:]))
