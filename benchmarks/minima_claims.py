"""What `theory.minima` counts against minima that were found: python -m benchmarks.minima_claims [--count | --ends] [--quick].

--count  small N by brute force: all minima that many descents reach, log of their mean number against N, its slope against
         the largest complexity over overlaps (annealed as the theory is: a mean over samples, then the logarithm).
--ends   where gradient descents end at N = 1,000: loss, E l'^2, lowest eigenvalue of the Hessian on the sphere, law of the
         preactivation, beside the most numerous minima at the overlap of the ends.

Quadratic student and teacher, p = p_star = 1, a = 0.5.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from theory.minima import Minima, complexity, label_law, most_numerous
from theory.model import Network

Array = NDArray[np.float64]
A = 0.5
MODEL = Network(a=A)


def sample(n: int, alpha: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Data (M, n) of variance 1/n and the teacher's outputs (M,)."""
    x = rng.standard_normal((round(alpha * n), n)) / np.sqrt(n)
    teacher = rng.standard_normal(n)
    return x, (x @ (teacher * np.sqrt(n) / np.linalg.norm(teacher))) ** 2


def gradients(x: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
    """Loss (s,), gradient on the sphere and its multiplier of s students w (s, n)."""
    lam = w @ x.T
    force = 2 * lam * (lam**2 - y) / (A + y)
    plain = force @ x
    s = np.sum(plain * w, axis=1) / w.shape[1]
    return np.sum((lam**2 - y) ** 2 / (2 * (A + y)), axis=1), plain - s[:, None] * w, s


def descended(x: Array, y: Array, w: Array, tolerance: float, most: int) -> Array:
    """Students after descents on the sphere, with steps of Barzilai and Borwein that never raise the loss."""
    n = w.shape[1]
    loss, slope, _ = gradients(x, y, w)
    step = np.full(len(w), 0.02)
    for _ in range(most):
        if np.all(np.linalg.norm(slope, axis=1) < tolerance * np.sqrt(n)):
            break
        moved = w - step[:, None] * slope
        moved *= np.sqrt(n) / np.linalg.norm(moved, axis=1, keepdims=True)
        new, after, _ = gradients(x, y, moved)
        better = new <= loss * (1 + 1e-13)
        ds, dg = moved - w, after - slope
        long = np.sum(ds**2, axis=1) / np.maximum(np.abs(np.sum(ds * dg, axis=1)), 1e-300)
        step = np.where(better, np.clip(long, 1e-4, 3.0), step / 4)
        w, slope, loss = (
            np.where(better.reshape(-1, *[1] * (u.ndim - 1)), v, u)
            for u, v in ((w, moved), (slope, after), (loss, new))
        )
    return w


def curvature(x: Array, y: Array, w: Array) -> Array:
    """Eigenvalues of the Hessian on the tangent space of the sphere at one student (n,), rising, (n - 1,)."""
    lam, n = x @ w, len(w)
    f = 2 * (3 * lam**2 - y) / (A + y)
    s = (2 * lam**2 * (lam**2 - y) / (A + y)).sum() / n
    basis = np.linalg.qr(np.column_stack([w, np.eye(n)[:, : n - 1]]))[0][:, 1:]
    return np.linalg.eigvalsh(basis.T @ ((x.T * f) @ x) @ basis) - s


def minima_of(x: Array, y: Array, starts: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The different minima (up to sign, loss above 0) that descents from random starts reach, and how often each was."""
    n = x.shape[1]
    w = rng.standard_normal((starts, n))
    w = descended(x, y, w * np.sqrt(n) / np.linalg.norm(w, axis=1, keepdims=True), 1e-9, 3000)
    loss, slope, _ = gradients(x, y, w)
    w = w[(np.linalg.norm(slope, axis=1) < 1e-6 * np.sqrt(n)) & (loss > 1e-8 * n)]
    found: list[Array] = []
    times: list[int] = []
    for one in w:
        near = [i for i, other in enumerate(found) if abs(one @ other) / n > 1 - 1e-6]
        if near:
            times[near[0]] += 1
        else:
            found.append(one)
            times.append(1)
    real = [i for i, one in enumerate(found) if curvature(x, y, one)[0] > 0]
    return np.array([found[i] for i in real]).reshape(-1, n), np.array([times[i] for i in real], dtype=int)


def count(quick: bool) -> None:
    """Mean numbers of minima against N, and the slope of their logarithm."""
    rng = np.random.default_rng(7)
    for alpha in (2.5, 4.0):
        sigma = most_numerous(MODEL, alpha, -0.6, 0.6)
        sizes = (8, 12, 16) if quick else (8, 12, 16, 24, 32)
        logs, errors = [], []
        for n in sizes:
            numbers, single = [], []
            for _ in range(20 if quick else 120 if n <= 16 else 30):
                found, times = minima_of(*sample(n, alpha, rng), 100 if quick else 8 * n, rng)
                numbers.append(2 * len(found))
                single.append(np.mean(times == 1) if len(times) else 0.0)
            mean, error = np.mean(numbers), np.std(numbers, ddof=1) / np.sqrt(len(numbers))
            logs.append(np.log(mean))
            errors.append(error / mean)
            print(
                f"alpha {alpha} N {n:3d} minima {mean:7.2f}({error:.2f}) reached once {np.mean(single):.2f}",
                flush=True,
            )
        (slope, _), cov = np.polyfit(sizes, logs, 1, w=1 / np.array(errors), cov="unscaled")
        print(
            f"alpha {alpha}: slope of log(mean number) {slope:.4f}({np.sqrt(cov[0, 0]):.4f}), "
            f"complexity {sigma.complexity:.4f} at m = {sigma.overlap:.3f}"
        )


def ends(quick: bool) -> None:
    """Ends of descents from random starts that did not recover, beside theory."""
    rng = np.random.default_rng(11)
    n, seeds = (200, 3) if quick else (1000, 16)
    for alpha in (2.0, 3.0, 4.0):
        rows, preactivations = [], []
        for _ in range(seeds):
            x = rng.standard_normal((round(alpha * n), n)) / np.sqrt(n)
            teacher = rng.standard_normal(n)
            teacher *= np.sqrt(n) / np.linalg.norm(teacher)
            y = (x @ teacher) ** 2
            w = rng.standard_normal((1, n))
            w = descended(x, y, w * np.sqrt(n) / np.linalg.norm(w), 1e-7, 3000 if quick else 20000)
            loss, slope, _ = gradients(x, y, w)
            m = abs(w[0] @ teacher) / n
            if m > 0.7:
                continue
            lam = x @ w[0]
            force = 2 * lam * (lam**2 - y) / (A + y)
            rows.append(
                (
                    m,
                    loss[0] / len(y),
                    np.mean(force**2),
                    curvature(x, y, w[0])[0],
                    np.linalg.norm(slope) / np.sqrt(n),
                )
            )
            preactivations.append(np.abs(lam))
        if len(rows) < 2:
            print(f"alpha {alpha}: {len(rows)} of {seeds} ended without the teacher")
            continue
        table = np.array(rows)
        mean, error = table.mean(axis=0), table.std(axis=0, ddof=1) / np.sqrt(len(table))
        m = float(np.sqrt(np.mean(table[:, 0] ** 2)))
        print(
            f"alpha {alpha}: {len(table)} of {seeds} ended without the teacher, gradient at most {table[:, 4].max():.1e}"
        )
        print(
            "  samples: "
            + ", ".join(
                f"{name} {mean[i]:.4f}({error[i]:.4f})"
                for i, name in enumerate(("m", "loss", "force", "lowest"))
            )
        )
        for name, at in (
            ("at m", complexity(MODEL, alpha, m)),
            ("at m, their loss", complexity(MODEL, alpha, m, float(mean[1]))),
        ):
            _told(name, at, np.concatenate(preactivations))


def _told(name: str, at: Minima, lam: Array) -> None:
    if at.saddle is None:
        print(f"  {name}: {at.kind}")
        return
    law = label_law(at, MODEL)
    edges = np.quantile(lam, np.linspace(0, 1, 21)[1:-1])
    theory = np.array([law.probability[np.abs(law.lam) <= e].sum() for e in edges])
    distance = np.max(np.abs(theory - np.linspace(0, 1, 21)[1:-1]))
    print(
        f"  {name}: {at.kind}, Sigma {at.complexity:.4f}, loss {at.loss:.4f}, force {at.force:.4f}, "
        f"largest difference of the law of |lambda| {distance:.4f}"
    )


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", action="store_true", help="small N by brute force")
    parser.add_argument("--ends", action="store_true", help="ends of descents at N = 1,000")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer")
    given = parser.parse_args()
    if given.count or not given.ends:
        count(given.quick)
    if given.ends or not given.count:
        ends(given.quick)


if __name__ == "__main__":
    main()
