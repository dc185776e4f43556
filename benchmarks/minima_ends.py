"""Where descents end beside the minima that are counted.

    python -m benchmarks.minima_ends [--n 1000] [--samples 8] [--alpha 2,3]

Gradient flow on the sphere from random starts (`sims.dynamics`), then steps with a line search along the same gradient, until
the gradient per root N is 1e-5 or steps run out. Of the ends that have not found the teacher: loss, E l'^2, lowest eigenvalue
of the Hessian on the sphere, law of |lambda|, against the most numerous minima at their overlap and the minima of their loss
there. Distances of laws: Kolmogorov's (largest difference of the distribution functions) and Wasserstein's (their area apart).

Quadratic student and teacher, p = p_star = 1, a = 0.5.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.sparse.linalg import LinearOperator, eigsh

from sims.dynamics.flow import Rules
from sims.dynamics.run import Track, descend
from theory.minima import Minima, complexity, preactivation_law
from theory.model import Network

Array = NDArray[np.float64]
MODEL = Network(a=0.5)
TOLERANCE, STEPS = 1e-5, 12_000
FOUND = 0.7  # overlap from which on a descent has found the teacher


def ended(n: int, alpha: float, seed: int) -> Track:
    """The flow for a quarter of the gradients, then steps."""
    flow = descend(MODEL, n, alpha, Rules(tolerance=TOLERANCE), steps=STEPS // 4, records=3, seed=seed)
    at = flow.student
    rest = Rules(dynamics="steps", tolerance=TOLERANCE)
    return descend(MODEL, n, alpha, rest, steps=STEPS, records=3, seed=seed, start=lambda *_: at)


def preactivations(track: Track) -> tuple[Array, Array]:
    """Preactivations and outputs (M,)."""
    lam = track.problem.data.push(track.student.astype(track.problem.data.dtype))
    return np.asarray(lam, np.float64)[:, 0], np.asarray(track.problem.y, np.float64)


def lowest(track: Track, lam: Array, y: Array) -> float:
    """Lowest eigenvalue of the Hessian on the sphere, by Lanczos with the data as they are."""
    data, w = track.problem.data, track.student[0] / np.linalg.norm(track.student[0])
    f = MODEL.weights(lam[:, None], y)[:, 0, 0]
    s = float(np.sum(lam * forces(lam, y)) / len(w))

    def product(v: Array) -> Array:
        v = v.ravel() - w * (w @ v.ravel())
        pushed = np.asarray(data.push(v[None].astype(data.dtype)), np.float64)[:, 0]
        out = np.asarray(data.pull((f * pushed)[:, None].astype(data.dtype)), np.float64).ravel() - s * v
        return out - w * (w @ out) + 10 * w * (w @ v)

    operator = LinearOperator((len(w), len(w)), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(len(w))
    return float(
        eigsh(
            operator, 1, which="SA", tol=1e-4, v0=start - w * (w @ start), ncv=60, return_eigenvectors=False
        )[0]
    )


def forces(lam: Array, y: Array) -> Array:
    """l' (M,)."""
    return MODEL.rule.first(y, lam**2, MODEL.a, np) * 2 * lam


class Law:
    """The distribution of |lambda| at minima, between the nodes by a spline of its density."""

    def __init__(self, at: Minima) -> None:
        law = preactivation_law(at, MODEL)
        nodes, place = np.unique(law.lam, return_inverse=True)
        density = np.bincount(place, law.probability) / at.step
        self.cumulative = CubicSpline(nodes, density).antiderivative()

    def below(self, size: Array) -> Array:
        """Probability that |lambda| is below size."""
        size = np.minimum(size, self.cumulative.x[-1])
        return np.asarray(self.cumulative(size) - self.cumulative(-size))

    def distances(self, lam: Array) -> tuple[float, float]:
        """Kolmogorov's and Wasserstein's of a sample (n,)."""
        size = np.sort(np.abs(lam))
        theory, rank = self.below(size), np.arange(1, len(size) + 1) / len(size)
        kolmogorov = max(np.max(rank - theory), np.max(theory - rank + 1 / len(size)))
        grid = np.linspace(0, self.cumulative.x[-1], 4001)
        found = np.searchsorted(size, grid) / len(size)
        return float(kolmogorov), float(np.mean(np.abs(found - self.below(grid))) * grid[-1])


def ends(n: int, alpha: float, samples: int) -> None:
    """The table of one N and alpha."""
    rows, lams, recovered, began = [], [], 0, time.process_time()
    for seed in range(samples):
        track = ended(n, alpha, seed)
        m = abs(float(track.overlap_matrix[-1, 0, 0]))
        if m > FOUND:
            recovered += 1
            continue
        lam, y = preactivations(track)
        loss = float(np.mean(MODEL.losses(lam[:, None], y)))
        rows.append(
            (m, loss, float(np.mean(forces(lam, y) ** 2)), lowest(track, lam, y), float(track.gradient[-1]))
        )
        lams.append(lam)
    print(
        f"alpha {alpha:g}, N {n}: {recovered} of {samples} found the teacher, {time.process_time() - began:.0f} s",
        flush=True,
    )
    if not rows:
        return
    table = np.array(rows)
    error = table.std(axis=0, ddof=1) / np.sqrt(len(table)) if len(table) > 1 else np.full(5, np.nan)
    m = float(np.sqrt(np.mean(table[:, 0] ** 2)))
    told = zip(("m", "loss", "E l'^2", "lowest", "gradient"), table.mean(axis=0), error, strict=True)
    print(
        "  ends: " + ", ".join(f"{name} {value:.5f}({spread:.5f})" for name, value, spread in told),
        flush=True,
    )
    free = complexity(MODEL, alpha, m)
    asked: dict[str, Any] = {
        "most numerous": free,
        "of their loss": complexity(MODEL, alpha, m, float(table[:, 1].mean()), [free]),
    }
    for name, at in asked.items():
        if at.saddle is None:
            print(f"  {name}: {at.kind}", flush=True)
            continue
        law = Law(at)
        each = np.array([law.distances(lam) for lam in lams])
        whole = law.distances(np.concatenate(lams))
        print(
            f"  {name}: {at.kind}, Sigma {at.complexity:.4f}, loss {at.loss:.5f}, E l'^2 {at.force:.4f}; |lambda| of all:"
            f" Kolmogorov {whole[0]:.4f}, Wasserstein {whole[1]:.4f}; of one: {each[:, 0].mean():.4f}, {each[:, 1].mean():.4f}",
            flush=True,
        )
    number = sum(map(len, lams))
    print(
        f"  Kolmogorov of {number} data points of the law itself, for scale: {0.87 / np.sqrt(number):.4f}",
        flush=True,
    )


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--alpha", default="2,3")
    given = parser.parse_args()
    for alpha in map(float, given.alpha.split(",")):
        ends(given.n, alpha, given.samples)


if __name__ == "__main__":
    main()
