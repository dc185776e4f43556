"""The lowest eigenpair of the Hessian along gradient descent: samples, quenched theory, conditioned theory (`theory.path`).

    python -m benchmarks.path_claims [--models 0:6] [--samples 6]

For each model and time: the means over samples of the lowest eigenvalue and of its vector's squared overlap with the teacher,
and predicted less found, with its standard error over samples: by quenched theory, which takes the data for independent of the
students, and by conditioned theory at this n. z is the mean of (predicted - found) / lowest_error, and its standard deviation
over samples in brackets: about 1 where the theory's own error is right.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy.linalg import eigh

from theory.finite.quenched import quenched
from theory.model import Network
from theory.path import closure, conditioned, force
from theory.path.conditioned import moments

# p, a, alpha, overlap of the start, n
MODELS = [
    (1, 1.0, 4.0, 0.2, 1000), (1, 0.3, 3.0, 0.4, 1000), (1, 2.0, 6.0, 0.3, 1000), (1, 0.5, 2.0, 0.0, 1000),
    (2, 1.0, 3.0, 0.25, 400), (2, 0.3, 2.0, 0.4, 400),
]  # fmt: skip
TIMES = (0.0, 0.3, 1.0)
STEP = 0.005


def start(model: Network, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Teacher (1, n) and students (p, n) at the model's overlap with it."""
    teacher = rng.standard_normal((1, n))
    teacher *= np.sqrt(n) / np.linalg.norm(teacher)
    own = rng.standard_normal((int(model.p), n))
    own -= own @ teacher.T @ teacher / n
    own *= np.sqrt(n) / np.linalg.norm(own, axis=1, keepdims=True)
    m = float(model.overlap)
    return teacher, m * teacher + np.sqrt(1 - m**2) * own


def descent(model: Network, x: Any, teacher: Any, w: Any) -> Any:
    """At each of TIMES: time, students, and the forces that closure needs: all of them in one sum, and some moments'."""
    n, p = x.shape[1], len(w)
    y = model.outputs(x @ teacher.T)
    total, done, forces = np.zeros((len(x), p)), 0, []
    for time in TIMES:
        for _ in range(done, round(time / STEP)):
            used = force(model, x @ w.T, y)
            gradient = used.T @ x
            along = np.sum(gradient * w, axis=1) / n
            w = w * (1 + STEP * along[:, None]) - STEP * gradient
            shrunk = np.sqrt(n) / np.linalg.norm(w, axis=1)
            w, total = w * shrunk[:, None], (total * (1 + STEP * along) + STEP * used) * shrunk
            forces.append(used)
        done = len(forces)
        yield time, w, [forces[i] for i in moments(done)] + ([total] if done else [])


def lowest(model: Network, x: Any, teacher: Any, w: Any) -> tuple[float, float]:
    """Lowest eigenvalue of the dense Hessian, and the squared overlap of its vector with the signal space."""
    f, p, n = model.weights(x @ w.T, model.outputs(x @ teacher.T)), len(w), x.shape[1]
    h = np.block([[x.T @ (f[:, i, j, None] * x) for j in range(p)] for i in range(p)])
    values, vectors = eigh(h, subset_by_index=[0, 0])
    return float(values[0]), float(np.sum((vectors.reshape(p, n) @ teacher[0]) ** 2) / n)


def sample(model: Network, alpha: float, n: int, seed: int) -> Any:
    """Rows (time, 7) of one sample: found, quenched and conditioned eigenvalue and overlap, the last one's error."""
    rng = np.random.default_rng([1, seed])
    teacher, w0 = start(model, n, rng)
    x = rng.standard_normal((round(alpha * n), n)) / np.sqrt(n)
    plain, rows = Network(model.p, 1, model.a), []
    for _, w, forces in descent(model, x, teacher, w0):
        both = np.vstack([teacher, w])
        old = quenched(plain, x @ w.T, x @ teacher.T, n, both @ both.T / n)
        new = conditioned(model, closure(x, teacher, w, forces, w0))
        old_overlap = old.overlaps[0] if np.isfinite(old.overlaps[0]) else 0.0
        found = lowest(model, x, teacher, w)
        rows.append([*found, old.lowest, old_overlap, new.lowest, new.overlap, new.lowest_error])
    return rows


def cell(values: Any) -> str:
    """Mean and standard error."""
    return f"{values.mean():+.3f}({values.std(ddof=1) / np.sqrt(len(values)):.3f})"


def main() -> None:
    """Print the table, in the columns of docs/appendix_descents.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--models", default=f"0:{len(MODELS)}", help="first:last of the list")
    args = parser.parse_args()
    first, last = (int(v) for v in args.models.split(":"))
    print(
        "p, a, alpha, start, n | t | found lowest | quenched | conditioned | z | found q2 | quenched | conditioned"
    )
    for p, a, alpha, overlap, n in MODELS[first:last]:
        model = Network(p, 1, a, overlap=overlap)
        rows = np.array([sample(model, alpha, n, seed) for seed in range(args.samples)])
        for i, time in enumerate(TIMES):
            value, q2, old, old_q2, new, new_q2, error = rows[:, i].T
            z = (new - value) / error
            cells = [
                cell(value),
                cell(old - value),
                cell(new - value),
                f"{z.mean():+.1f} ({z.std(ddof=1):.1f})",
            ]
            cells += [cell(q2), cell(old_q2 - q2), cell(new_q2 - q2)]
            print(f"| {p}, {a}, {alpha}, {overlap}, {n} | {time} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
