"""Dense samples of eight networks with readouts, biases or targets against theory: lowest eigenvalue, overlap with the teacher.

python -m benchmarks.readout_samples [N] [samples] [first model]          (300 and 20: minutes on one core)

The sigma stated is that of the mean over samples with, for what is of order 1/N, 3/N of the value and p*/N more, what a random
vector shares with the teacher (1/N for eigenvalues). Theory is an average over Sobol points, whose error counts too.
"""

from __future__ import annotations

import sys

import numpy as np

from sims.sampling import sample_point
from theory.general import Network, spectrum
from theory.model import Target

PRODUCT = Target("tanh(2 u1 u2)", lambda u, xp: xp.tanh(2 * u[..., 0] * u[..., 1]), -1.0, 1.0)
INDEX = Target("cos 2 u1 + tanh u2", lambda u, xp: xp.cos(2 * u[..., 0]) + xp.tanh(u[..., 1]), -2.0, 2.0)
TRIPLE = Target("tanh(u1 u2 u3)", lambda u, xp: xp.tanh(u[..., 0] * u[..., 1] * u[..., 2]), -1.0, 1.0)
RING = Target("1/(1 + u1^2 + u2^2)", lambda u, xp: 1 / (1 + u[..., 0] ** 2 + u[..., 1] ** 2), 0.0, 1.0)

TANH = {"activation": "tanh", "loss": "squared"}
MODELS = {
    "difference, product": (Network(2, 2, **TANH, readout=(1, -1), bias=(0.5, -0.5), target=PRODUCT), 80.0),
    "bias": (Network(1, 1, a=3.0, activation="tanh", bias=(0.7,)), 20.0),
    "readout": (Network(2, 1, **TANH, readout=(1.0, 0.3)), 8.0),
    "readout, quadratic": (Network(2, 1, a=1.0, readout=(0.8, 0.4)), 8.0),
    "two biases, noise": (Network(2, 1, **TANH, bias=(1.0, -0.5), noise=0.2), 16.0),
    "cosine, one student": (Network(1, 2, **TANH, readout=(1.5,), target=INDEX), 12.0),
    "triple, biases": (Network(2, 3, **TANH, readout=(1.0, -1.0), bias=(0.6, -0.3), target=TRIPLE), 40.0),
    "ring, bias": (Network(1, 2, **TANH, readout=(1.2,), bias=(0.4,), target=RING), 16.0),
}  # fmt: skip


def main(n: int = 300, samples: int = 20, first: int = 0) -> None:
    """Print theory, samples and deviation of each model."""
    print(f"{'model':<22}{'quantity':<10}{'theory':>10}{'samples':>10}{'error':>9}{'sigma':>7}   edge")
    for name, (model, alpha) in list(MODELS.items())[first:]:
        found = spectrum(model, alpha)
        drawn = sample_point(model, n, alpha, range(samples), seed=7)
        teacher = found.overlaps[:1] * found.teacher_share[:1]
        rows = {
            "lowest": (np.append(found.outliers, found.edge)[0], drawn.eigenvalues[:, 0]),
            "teacher": (np.append(teacher, 0.0)[0], drawn.overlaps[:, 0]),
        }
        for quantity, (theory, values) in rows.items():
            mean, error = values.mean(), values.std(ddof=1) / np.sqrt(samples)
            spare = model.p_star / n if quantity == "teacher" else 1 / n
            sigma = (mean - theory) / np.hypot(error, 3 / n * abs(theory) + spare)
            edge = f"   {found.edge:.4f} {found.kind}" if quantity == "lowest" else ""
            print(
                f"{name:<22}{quantity:<10}{theory:>10.4f}{mean:>10.4f}{error:>9.4f}{sigma:>7.1f}{edge}",
                flush=True,
            )


if __name__ == "__main__":
    main(*(int(v) for v in sys.argv[1:]))
