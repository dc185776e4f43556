"""What `theory.minima` counts against all minima of small samples: python -m benchmarks.minima_claims [--quick].

Minima by descents from random starts, batch after batch until few are new; how many were missed by the numbers of minima that
were reached once and twice (Chao's estimate of unseen species). The logarithm of their mean number over samples (annealed, as
the theory is) has

    log E[number] = N Sigma + C N^(1/2) + O(log N)

where the most numerous minima are marginal: a law of preactivations whose edge lies x beyond the multiplier has exp(N |rho| x)
times as many critical points, and none of its eigenvalues lies there with probability exp(-N^2 x^3 / (12 k)), k = -z''(r) at
the edge (Tracy and Widom's left tail). The largest product is at x = 2 (k |rho| / N)^(1/2), hence C = 4/3 |rho|^(3/2) k^(1/2).

Students and teachers quadratic, p = p_star = 1, with the normalised loss at a = 0.5 and with the squared loss.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from theory.minima import complexity, preactivation_law
from theory.model import Network

Array = NDArray[np.float64]
MODELS = {"a = 0.5": (Network(a=0.5), (2.5, 4.0, 2.0)), "squared": (Network(loss="squared"), (3.0,))}
SIZES = {6: 300, 8: 300, 10: 300, 12: 200, 16: 80, 24: 24}  # and how many samples
BATCH, MOST = 150, 40  # starts at once, and batches
NEW = 0.02  # share of minima reached once below which no more are looked for


def sample(n: int, alpha: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Data (M, n) of variance 1/n and the teacher's outputs (M,)."""
    x = rng.standard_normal((round(alpha * n), n)) / np.sqrt(n)
    teacher = rng.standard_normal(n)
    return x, (x @ (teacher * np.sqrt(n) / np.linalg.norm(teacher))) ** 2


def gradients(model: Network, x: Array, y: Array, w: Array) -> tuple[Array, Array]:
    """Loss (s,) and gradient on the sphere (s, n) of s students w (s, n)."""
    lam = w @ x.T
    yhat = model.student_outputs(lam[..., None])
    force = model.rule.first(y, yhat, model.a, np) * model.slopes(lam[..., None])[..., 0]
    plain = force @ x
    s = np.sum(plain * w, axis=1) / w.shape[1]
    return np.sum(model.rule.value(y, yhat, model.a, np), axis=1), plain - s[:, None] * w


def descended(
    model: Network, x: Array, y: Array, w: Array, tolerance: float = 1e-6, most: int = 4000
) -> tuple[Array, Array]:
    """Ends (k, n) and losses of the descents from students w (s, n) on the sphere that converged, by steps of Barzilai and
    Borwein that never raise the loss."""
    n = w.shape[1]
    loss, slope = gradients(model, x, y, w)
    step, ends, losses = np.full(len(w), 0.02), [], []
    for _ in range(most):
        done = np.linalg.norm(slope, axis=1) < tolerance * np.sqrt(n)
        if done.any():
            ends.append(w[done])
            losses.append(loss[done])
            w, slope, loss, step = (values[~done] for values in (w, slope, loss, step))
        if not len(w):
            break
        moved = w - step[:, None] * slope
        moved *= np.sqrt(n) / np.linalg.norm(moved, axis=1, keepdims=True)
        new, after = gradients(model, x, y, moved)
        better = new <= loss * (1 + 1e-13)
        ds, dg = moved - w, after - slope
        long = np.sum(ds**2, axis=1) / np.maximum(np.abs(np.sum(ds * dg, axis=1)), 1e-300)
        step = np.where(better, np.clip(long, 1e-4, 3.0), step / 4)
        w, slope = np.where(better[:, None], moved, w), np.where(better[:, None], after, slope)
        loss = np.where(better, new, loss)
    return np.concatenate(ends) if ends else w[:0], np.concatenate(losses) if losses else loss[:0]


def curvature(model: Network, x: Array, y: Array, w: Array) -> float:
    """Lowest eigenvalue of the Hessian on the tangent space of the sphere at one student (n,)."""
    lam, n = x @ w, len(w)
    f = model.weights(lam[:, None], y)[:, 0, 0]
    force = (
        model.rule.first(y, model.student_outputs(lam[:, None]), model.a, np)
        * model.slopes(lam[:, None])[:, 0]
    )
    basis = np.linalg.qr(np.column_stack([w, np.eye(n)[:, : n - 1]]))[0][:, 1:]
    return float(np.linalg.eigvalsh(basis.T @ ((x.T * f) @ x) @ basis)[0] - force @ lam / n)


def minima_of(model: Network, x: Array, y: Array, rng: np.random.Generator) -> tuple[int, float, float]:
    """Minima (both signs) found, an estimate of those missed, and the share of them reached once; the teacher itself apart."""
    n = x.shape[1]
    found, times = np.empty((0, n)), np.empty(0, dtype=int)
    for _ in range(MOST):
        w = rng.standard_normal((BATCH, n))
        ends, losses = descended(model, x, y, w * np.sqrt(n) / np.linalg.norm(w, axis=1, keepdims=True))
        for one in ends[losses > 1e-8 * n]:
            near = np.flatnonzero(np.abs(found @ one) / n > 1 - 1e-6)
            if len(near):
                times[near[0]] += 1
            elif curvature(model, x, y, one) > 0:
                found, times = np.vstack([found, one]), np.append(times, 1)
        once = int(np.sum(times == 1))
        if once <= NEW * len(found):
            break
    twice = int(np.sum(times == 2))
    return 2 * len(found), once * (once - 1) / (twice + 1), once / max(len(found), 1)


def correction(model: Network, alpha: float) -> tuple[float, float]:
    """Sigma at its largest, at m = 0, and C."""
    at = complexity(model, alpha)
    law, r = preactivation_law(at, model), at.saddle.r  # type: ignore[union-attr]
    kept = law.probability > 0
    f = model.weights(law.lam[kept, None], law.u[kept] ** 2)[:, 0, 0]
    k = 2 / r**3 - 2 * alpha * float(law.probability[kept] @ (f / (1 + r * f)) ** 3)
    rho = abs(at.saddle.rho)  # type: ignore[union-attr]
    return at.complexity, 4 / 3 * rho**1.5 * k**0.5


def interval(numbers: Array, rng: np.random.Generator) -> tuple[float, float, float]:
    """Relative standard error of a mean, and the bootstrap 95 % interval of its logarithm."""
    means = [np.mean(rng.choice(numbers, len(numbers))) for _ in range(2000)]
    low, high = np.log(np.maximum(np.quantile(means, (0.025, 0.975)), 1e-9))
    return float(np.std(numbers, ddof=1) / np.mean(numbers) / np.sqrt(len(numbers))), float(low), float(high)


def count(name: str, alpha: float, sizes: dict[int, int]) -> None:
    """Mean numbers of minima against N, what is left of their logarithm, and fits."""
    model, rng = MODELS[name][0], np.random.default_rng(7)
    sigma, c = correction(model, alpha)
    print(f"{name}, alpha = {alpha}: Sigma {sigma:.5f}, C {c:.4f}", flush=True)
    logs, errors = [], []
    for n, samples in sizes.items():
        rows = np.array([minima_of(model, *sample(n, alpha, rng), rng) for _ in range(samples)])
        whole = rows[:, 0] + rows[:, 1]
        error, low, high = interval(whole, rng)
        logs.append(np.log(whole.mean()))
        errors.append(error)
        left = logs[-1] - n * sigma - c * np.sqrt(n)
        found, missed, once = rows.mean(axis=0)
        print(
            f"  N {n:2d}: found {found:8.3f}, missed {missed:7.3f}, reached once {once:.3f}, log mean {logs[-1]:.3f}"
            f" (95 %: {low:.3f} to {high:.3f}), less N Sigma + C N^1/2: {left:+.3f}({error:.3f})",
            flush=True,
        )
    n, y, e = np.array(list(sizes), float), np.array(logs), np.array(errors)
    for words, columns, known in (
        ("Sigma, constant", [n, n**0], 0 * n),
        ("Sigma, constant; C N^1/2 known", [n, n**0], c * np.sqrt(n)),
        ("Sigma, log N, constant; C N^1/2 known", [n, np.log(n), n**0], c * np.sqrt(n)),
        ("log N, constant; all else known", [np.log(n), n**0], n * sigma + c * np.sqrt(n)),
    ):
        design = np.stack(columns, axis=1) / e[:, None]
        fit, *_ = np.linalg.lstsq(design, (y - known) / e, rcond=None)
        spread = np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
        chi2 = float(np.sum((design @ fit - (y - known) / e) ** 2))
        numbers = ", ".join(f"{value:.4f}({error:.4f})" for value, error in zip(fit, spread, strict=True))
        print(f"  fit of {words}: {numbers}, chi2 {chi2:.1f} of {len(n) - len(columns)}", flush=True)


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller and fewer")
    given = parser.parse_args()
    sizes = {n: 20 for n in (6, 8, 10, 12)} if given.quick else SIZES
    for name, (_, alphas) in MODELS.items():
        for alpha in alphas:
            count(name, alpha, sizes)


if __name__ == "__main__":
    main()
