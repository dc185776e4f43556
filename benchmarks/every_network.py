"""Every named activation, loss and several a, and pairs of student and teacher, against weights and Hessians drawn at random.

python -m benchmarks.every_network [alike | pairs | wide] [every]   (half an hour on one core)

Independent of the package's quadratures and searches:

* the infimum by a search at random on all scales, on and off the places where y is near yhat;
* for p = 1 edge and lowest outlier of the law from scrambled Sobol points of weights, the edge as the maximum of z(q) over
  q >= -infimum (8 scramblings, their spread is the error);
* for every p the lowest eigenvalue of dense Hessians. It is compared with the solution for the preactivations of these very
  matrices (lowest outlier or edge), which holds the finite-N effects of preactivations; the law's edge must not lie above that
  by more than their scatter where no outlier exists, since fewer weights bound q less.

A line that deviates by more than 5 sigma (false alarms: one in 3e6 a line), or says what cannot be, ends with MISS.
"""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri

from theory.checks import NotConverged, ParameterError
from theory.general import spectrum
from theory.general.dyson import Dyson
from theory.general.spikes import SpikeBlock
from theory.model.activations import ACTIVATIONS, Activation
from theory.model.losses import LOSSES
from theory.model.network import Network

QUARTIC = Activation(
    "quartic",
    lambda x, xp: x**2 - x**4 / 12,
    lambda x, xp: 2 * x - x**3 / 3,
    lambda x, xp: 2 - x**2,
    "even",
    4,
)
ALPHAS = 0.6, 4.0
A = 0.3, 1.0, 3.0, 10.0
SCRAMBLINGS, LOG_POINTS = 8, 16
N, SAMPLES = 240, 6
SIGMA = 5.0


def models(kind: str) -> Iterator[tuple[str, Network]]:
    """The list of a kind: student and teacher alike, pairs of them, or several students or teachers."""
    entries = [*ACTIVATIONS.values(), QUARTIC]
    rows: list[tuple[Any, ...]]
    if kind == "alike":
        rows = [(1, 1, s, None, rule, a) for s, rule, a in product(entries, LOSSES, A)]
    elif kind == "pairs":
        chosen = (
            (rule, a) for rule, a in (("normalised", 2.0), ("squared", 1.0), ("cauchy", 2.0), ("welsch", 1.0))
        )
        rows = [
            (1, 1, s, t, rule, a) for (rule, a), s, t in product(list(chosen), entries, entries) if s is not t
        ]
    else:
        widths = (2, 1), (1, 2), (3, 1), (2, 2)
        rows = [
            (p, q, s, None, rule, a) for (p, q), s, rule, a in product(widths, entries, LOSSES, (1.0, 5.0))
        ]
        rows += [(2, 1, s, t, "cauchy", 2.0) for s, t in product(entries, entries) if s is not t]
        rows += [(2, 1, "tanh", "quadratic", "normalised", 2.0)]
    for p, p_star, student, teacher, rule, a in rows:
        a = a if LOSSES[rule].has_a else 1.0
        try:
            model = Network(p, p_star, a, activation=student, teacher_activation=teacher, loss=rule)
        except ParameterError:
            continue
        name = f"{p},{p_star} {model.student.name}"
        if model.teacher != model.student:
            name += f" <- {model.teacher.name}"
        yield f"{name} {rule} {a:g}", model


def lowest(model: Network, rng: np.random.Generator) -> tuple[float, bool]:
    """The lowest eigenvalue of weights by searches at random, and whether it goes on falling: sizes many times larger find one
    twice as low."""
    found = [min(_anywhere(model, size, rng), _off_ridge(model, size, rng)) for size in (3e1, 3e4, 3e8)]
    best = min(found)
    return best, best < -1e9 or (best < 2 * found[0] and best < -1)


def _anywhere(model: Network, size: float, rng: np.random.Generator) -> float:
    """The lowest weight over preactivations (lam, u) up to a size, some with all nearly alike, or students up to a sign:
    large outputs that cancel."""
    p, d = int(model.p), int(model.p) + model.p_star
    v = np.where(
        rng.random((60_000, d)) < 0.5, rng.normal(0, 2, (60_000, d)), _scales(rng, (60_000, d), size)
    )
    v[::3] = v[::3, :1]
    off = 1 + rng.choice([-1.0, 1.0], (2, 20_000, 1)) * 10 ** rng.uniform(-14, 0, (2, 20_000, 1))
    v[::3, p:] *= off[0]
    v[1::3, 1:p] = v[1::3, :1] * rng.choice([-1.0, 1.0], (20_000, p - 1))
    v[1::3, p - 1 : p] *= off[1]
    return _evolved(lambda w: _smallest(model, w[:, :p], model.outputs(w[:, p:])), v, size, rng)


def _off_ridge(model: Network, size: float, rng: np.random.Generator) -> float:
    """The same over lam and y - yhat, at the y that the teacher's outputs reach at u up to that size."""
    p, unit = int(model.p), model.a if model.rule.has_a else 1.0
    seen = model.teacher.value(np.concatenate([rng.normal(0, 3, 10**5), _scales(rng, 10**5, size)]), np)
    v = _scales(rng, (40_000, p + 1), size)
    v[::2, :p] = np.where(rng.random((20_000, 1)) < 0.5, rng.normal(0, 2, (20_000, p)), v[::2, :1])
    v[:, p] = unit * rng.choice([-1.0, 1.0], 40_000) * 10 ** rng.uniform(-3, 3, 40_000)

    def values(w: Any) -> Any:
        y = model.student_outputs(w[:, :p]) + w[:, p]
        return np.where((y < seen.min()) | (y > seen.max()), np.inf, _smallest(model, w[:, :p], y))

    return _evolved(values, v, size, rng)


def _scales(rng: np.random.Generator, shape: Any, size: float) -> Any:
    return rng.choice([-1.0, 1.0], shape) * 10 ** rng.uniform(-2, math.log10(size), shape)


def _evolved(function: Any, v: Any, size: float, rng: np.random.Generator) -> float:
    """The lowest value among points v (n, d) and others ever nearer to the best of them."""
    best, width = np.inf, np.maximum(np.abs(v), 0.3)
    for _ in range(60):
        values = function(v)
        order = np.argsort(values)[:40]
        best = min(best, float(values[order[0]]))
        start, spread = np.repeat(v[order], 25, axis=0), np.repeat(width[order], 25, axis=0)
        v = np.concatenate(
            [v[order], np.clip(start + spread * rng.standard_normal(start.shape), -size, size)]
        )
        width = np.concatenate([width[order] * 0.7, spread * 0.7])
    return best


def _smallest(model: Network, lam: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        f = model.weights_at(lam, y)
    bad = ~np.all(np.isfinite(f), axis=(1, 2))
    f[bad] = 0.0
    return np.where(bad, np.inf, np.linalg.eigvalsh(f)[:, 0])


def law(model: Network, alpha: float, bottom: float) -> tuple[np.ndarray, np.ndarray]:
    """Edge and lowest outlier (NaN without one) at p = 1 from Sobol points of weights, and their errors."""
    rows = [_law(model, alpha, bottom, seed) for seed in range(SCRAMBLINGS)]
    values = np.array(rows)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(SCRAMBLINGS) + 1e-15


def _law(model: Network, alpha: float, bottom: float, seed: int) -> tuple[float, float]:
    qmc = importlib.import_module("scipy.stats.qmc")
    draw = qmc.Sobol(1 + model.p_star, rng=np.random.default_rng([seed])).random_base2(LOG_POINTS)
    v = ndtri(np.clip(draw, 2.0**-45, 1 - 2.0**-45))
    lam, u = v[:, :1], v[:, 1:]
    f = model.weights(lam, model.outputs(u))[:, 0, 0]
    q_min = max(0.0, -min(bottom, float(f.min()))) * (1 + 1e-12)
    mean = u.sum(axis=1, keepdims=True) / math.sqrt(model.p_star)
    w = np.concatenate([mean, lam], axis=1)

    def z(t: float) -> float:
        q = q_min + math.exp(t)
        return alpha * float(np.mean(f * q / (q + f))) - q

    scale = math.log(float(np.abs(f).mean()) + q_min)
    grid = np.linspace(scale - 30, scale + 12, 60)
    top = grid[int(np.argmax([z(t) for t in grid]))]
    found = minimize_scalar(
        lambda t: -z(t), bounds=(top - 1, top + 1), method="bounded", options={"xatol": 1e-9}
    )
    edge = max(-float(found.fun), z(top))
    t_edge = float(found.x)

    def margin(t: float) -> float:
        q = q_min + math.exp(t)
        a = f * q / (q + f)
        x = (w * a[:, None]).T @ w / len(f)
        return z(t) - alpha * float(np.linalg.eigvalsh(x)[0])

    if margin(t_edge) <= 0:
        return edge, math.nan
    return edge, z(float(brentq(margin, t_edge, t_edge + 60)))


def dense(model: Network, alpha: float, seed: int) -> tuple[float, float]:
    """Lowest eigenvalue of one Hessian at N, and the solution for its own preactivations."""
    rng, p, p_star = np.random.default_rng([seed, 7]), int(model.p), model.p_star
    n = N // p
    x = rng.standard_normal((round(alpha * n), n)) / math.sqrt(n)
    lam, u = x[:, p_star : p_star + p] * math.sqrt(n), x[:, :p_star] * math.sqrt(n)
    f = model.weights(lam, model.outputs(u))
    h = np.einsum("mij,ma,mb->iajb", f, x, x, optimize=True).reshape(n * p, n * p)
    low = float(np.linalg.eigvalsh(h)[0])
    dyson = Dyson(f, 1 / n)
    try:
        edge = dyson.edge()
        rows = SpikeBlock(dyson, np.concatenate([u, lam], axis=1)).spikes(edge).values
    except NotConverged:
        return low, math.nan
    return low, float(min(edge.value, *rows)) if len(rows) else edge.value


def row(name: str, model: Network, alpha: float, bottom: tuple[float, bool]) -> tuple[str, bool]:
    """One line of the table, and whether it is a miss."""
    started = time.perf_counter()
    try:
        found = spectrum(model, alpha)
    except NotConverged as failure:
        return f"{name:<46}{alpha:>5g}  {failure}", True
    seconds = time.perf_counter() - started
    outlier = float(found.outliers[0]) if len(found.outliers) else math.nan
    text = f"{name:<46}{alpha:>5g} {found.kind:<11}{found.edge:>15.9f}{found.edge_error:>9.0e}{outlier:>15.9f}{seconds:>7.2f}"
    text += f"{bottom[0]:>13.5f}"
    wrong = []
    if found.kind == "no edge":
        return text + ("" if bottom[1] else "  MISS bounded"), not bottom[1]
    if bottom[1]:
        return f"{text}  bottomless", True
    if found.kind == "unresolved":
        return f"{text}  unresolved", True
    if alpha < 1 and found.edge > 0:
        wrong.append("sign")
    if outlier >= found.edge:
        wrong.append("order")
    if model.p == 1:
        mean, error = law(model, alpha, bottom[0])
        size = 1e-6 * abs(mean[0])  # of what a search at random leaves
        deviation = (found.edge - mean[0]) / math.hypot(error[0] + found.edge_error, size)
        text += f"{mean[0]:>13.6f}{deviation:>7.1f}"
        wrong += ["edge"] if abs(deviation) > SIGMA else []
        if math.isnan(outlier) != math.isnan(mean[1]):
            near = abs((outlier if math.isnan(mean[1]) else mean[1]) - found.edge)
            wrong += ["existence"] if near > SIGMA * (np.nanmax(error) + 1e-4 * abs(found.edge)) else []
        elif not math.isnan(outlier):
            off = (outlier - mean[1]) / math.hypot(error[1], size)
            text += f"{off:>7.1f}"
            wrong += ["outlier"] if abs(off) > SIGMA else []
    drawn = np.array([dense(model, alpha, seed) for seed in range(SAMPLES)])
    difference = drawn[:, 0] - drawn[:, 1]
    text += f"{drawn[:, 0].mean():>10.4f}{np.mean(difference):>9.4f}"
    scatter = drawn[:, 1].std(ddof=1) / math.sqrt(SAMPLES)
    if math.isnan(outlier) and found.edge > drawn[:, 1].mean() + SIGMA * scatter + 0.02 * abs(found.edge):
        wrong.append("samples")
    return text + ("  MISS " + ", ".join(wrong) if wrong else ""), bool(wrong)


def main(*arguments: str) -> None:
    """Print the table and how many of its lines are misses."""
    kinds = [a for a in arguments if not a.isdigit()] or ["alike", "pairs", "wide"]
    every = next((int(a) for a in arguments if a.isdigit()), 1)
    head = f"{'model':<46}{'alpha':>5} {'kind':<11}{'edge':>15}{'error':>9}{'outlier':>15}{'s':>7}{'lowest F':>13}"
    print(f"{head}{'points':>13}{'sigma':>7}{'sigma':>7}{'dense':>10}{'- labels':>9}")
    lines = misses = 0
    for kind in kinds:
        for name, model in list(models(kind))[::every]:
            bottom = lowest(model, np.random.default_rng(1))
            for alpha in ALPHAS:
                text, missed = row(name, model, alpha, bottom)
                lines, misses = lines + 1, misses + missed
                print(text, flush=True)
    print(f"{misses} of {lines} lines missed")


if __name__ == "__main__":
    main(*sys.argv[1:])
