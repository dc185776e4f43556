"""Descents from random starts: the overlap at the end, and how the Hessian loses the informative direction on the way, under
gradient flow and other methods, beside theory of the labels and of the path."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import theory
from bbp.gallery import Array, Arrays, Data, Effort, descents, figure, points_look
from bbp.plots import layout, marks, style
from bbp.plots.descent import in_time, time_axis
from theory.model import Network
from theory.path import bbp_time, closure, conditioned

KINDS = {"continuous": 0.5, "discontinuous": 1.5}  # normalisation a, at p = 2
WIDTHS = (1, 2, 4)
DESCENT_ALPHA = np.linspace(0.75, 6, 8)


def build_descent(effort: Effort) -> Arrays:
    """m2 at the end of descents from random starts, p* = 1 and p = 1, 2, 4, at two normalisations."""
    (n, *_), samples = effort.sizes([60], [300]), effort.count(12, 40)
    rules = {"steps": 3000 if effort.mode == "quick" else 20_000, "records": 4, "loss_floor": 1e-6}
    arrays: Arrays = {"alpha": ("alpha", DESCENT_ALPHA), "p": ("p", np.array(WIDTHS)), "n": np.int64(n)}
    for kind, a in KINDS.items():
        models = [Network(p, 1, a) for p in WIDTHS]
        final = [
            [_final(model, n, float(alpha), samples, effort.seed, rules) for alpha in DESCENT_ALPHA]
            for model in models
        ]
        arrays[f"{kind}_m2"] = ("p", "alpha", "sample"), np.array(final)
        arrays[f"{kind}_alpha_bbp"] = ("p",), np.array([theory.threshold(model).alpha for model in models])
    return arrays


def _final(
    model: Network, n: int, alpha: float, samples: int, seed: int, rules: dict[str, Any]
) -> np.ndarray:
    """m2 at the last record of each descent, NaN for one that failed."""
    from sims.dynamics.flow import End  # late: it brings JAX

    found = descents(model, n, alpha, samples, seed, rules)
    return np.where(found.code == End.NOT_FINITE, np.nan, found.m2[:, -1])


@figure("descent", build_descent)
def descent(data: Data) -> Figure:
    """Gradient flow from random starts, p* = 1: largest squared magnetisation of a student row at the end against alpha for
    p = 1, 2, 4; dotted: the threshold of the Hessian at initialisation of that width. p = 2, 4 recover earlier than p = 1.
    """
    fig, axes = layout.figure(len(KINDS), 3.0)
    for ax, (kind, a) in zip(axes, KINDS.items(), strict=True):
        for index, p in enumerate(data["p"]):
            m2, tint = data[f"{kind}_m2"][index], style.colour(index)
            marks.sampled_points(ax, data["alpha"], m2, index=index, label=f"$p = {p}$")
            ax.plot(data["alpha"], np.nanmean(m2, axis=1), color=tint, linewidth=0.7)
            ax.axvline(float(data[f"{kind}_alpha_bbp"][index]), color=tint, linestyle=":", linewidth=0.9)
        layout.title(ax, f"$p^* = 1$, $a = {a:g}$, $N = {int(data['n'])}$")
        ax.set(xlabel=r"$\alpha = M/N$", ylabel=r"largest $m^2$ at the end", ylim=(0, 1.03))
    axes[0].plot([], [], color=style.GREY, linestyle=":", label=r"$\alpha_\mathrm{BBP}$ of that $p$")
    layout.legend_above(fig, axes, 4)
    return fig


A, STEPS, RECORDS = 0.5, 700, 12
CASES = ((1, 3.0), (2, 2.0))  # p and alpha, above alpha_BBP: the direction is there at the start
ROUTES = {"conditioned": "theory of the path", "quenched": "theory of the labels"}


def build_theory(effort: Effort) -> Arrays:
    """Eigenvalue, q2 and both theories at twelve records of descents from random starts, p* = 1, and the BBP time."""
    from sims.dynamics.hessians import FRAMES  # late: it brings JAX

    (n, *_), samples = effort.sizes([200], [400]), effort.count(8, 24)
    rules = {"steps": STEPS, "records": 40}
    kept: dict[str, list[Array]] = {}
    lost = [bbp_time(Network(p, 1, A), alpha, samples=2**12, scramblings=4) for p, alpha in CASES]
    for p, alpha in CASES:
        more = {"eigenpairs": p, "hessians": RECORDS, "theory": True}
        found = descents(Network(p, 1, A), n, alpha, samples, effort.seed, rules, **more)
        along = {"time": found.time[:, found.hessian_records], "m2": found.m2[:, found.hessian_records]}
        along |= {
            "eigenvalue": found.eigenvalues[:, :, FRAMES.index("plain"), 0],
            "riemannian": found.eigenvalues[:, :, FRAMES.index("riemannian"), 0],
            "overlap": found.overlaps[:, :, FRAMES.index("plain"), 0],
        }
        for name, values in (along | found.predicted).items():
            kept.setdefault(name, []).append(values)
    arrays: Arrays = {
        "p": ("case", np.array([p for p, _ in CASES])),
        "alpha": ("case", np.array([alpha for _, alpha in CASES])),
        "bbp_time": ("case", np.array([found.time for found in lost])),
        "bbp_time_error": ("case", np.array([found.error for found in lost])),
        "n": np.int64(n),
    }
    return arrays | {name: (("case", "sample", "record"), np.array(rows)) for name, rows in kept.items()}


def predicted(data: Data, route: str, case: int) -> tuple[Array, Array]:
    """Lowest eigenvalue and its overlap by a route, (sample, record) each; of labels the outlier's or the edge and 0."""
    if route == "conditioned":
        return data["conditioned_lowest"][case], data["conditioned_overlap"][case]
    outlier = data[f"{route}_outlier"][case]
    lowest = np.where(np.isfinite(outlier), outlier, data[f"{route}_edge"][case])
    return lowest, np.where(np.isfinite(outlier), data[f"{route}_overlap"][case], 0.0)


@figure("descent-theory", build_theory)
def descent_theory(data: Data) -> Figure:
    """Along gradient flow from random starts, p* = 1: lowest eigenvalue of the Hessian and its eigenvector's squared
    overlap with the teacher (means over samples, bands their standard errors), conditioned theory, which knows the forces
    that the path has used, and quenched theory, which knows the labels alone. Dotted: when the outlier is lost at N =
    infinity.
    """
    cases = len(data["p"])
    fig, axes = layout.figure(2 * cases, 4.8, columns=cases, sharex="col")
    for case, (p, alpha) in enumerate(zip(data["p"], data["alpha"], strict=True)):
        time = data["time"][case]
        above, below = axes[case], axes[cases + case]
        for ax, name, part in ((above, "eigenvalue", 0), (below, "overlap", 1)):
            points: dict[str, Any] = {"color": style.colour(0), "marker": "o", "linestyle": "none"}
            line = in_time(ax, time, data[name][case], markersize=3, label="samples", **points)
            for index, (route, words) in enumerate(ROUTES.items(), 1):
                look = {
                    "color": style.colour(index),
                    "linestyle": "-" if index == 1 else "-.",
                    "label": words,
                }
                in_time(ax, time, predicted(data, route, case)[part], **look)
            time_axis(ax, [line], low=None)
            ax.axvline(
                data["bbp_time"][case], color=style.GREY, linestyle=":", linewidth=0.9, zorder=0,
                label=r"lost at $N=\infty$",
            )  # fmt: skip
        below.set_ylim(bottom=0)
        layout.title(above, rf"$p = {p}$, $\alpha = {alpha:g}$, $a = {A:g}$, $N = {int(data['n'])}$")
        above.set_xlabel("")
    axes[0].set_ylabel(r"lowest eigenvalue $\lambda_1$")
    axes[cases].set_ylabel(r"its $q^2$ with the teacher")
    layout.legend_above(fig, axes[:1], 4)
    return fig


LIFETIME_ALPHA = 3.0
TIMES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0)
# name: step, share of the velocity that is kept, part of the samples in a step
METHODS = {
    "gradient descent": (0.01, 0.0, 1.0),
    "momentum 0.9": (0.002, 0.9, 1.0),
    "momentum 0.9, larger steps": (0.01, 0.9, 1.0),
    "10 % of the samples a step": (0.01, 0.0, 0.1),
    "10 %, momentum 0.9": (0.002, 0.9, 0.1),
}
COLUMNS = ("eigenvalue", "overlap", "predicted_eigenvalue", "predicted_overlap", "m2")


def build_lifetime(effort: Effort) -> Arrays:
    """The lowest eigenpair at nine times, measured and predicted, of the same samples under every method; p = p* = 1."""
    (n, *_), samples = effort.sizes([300], [600]), effort.count(3, 8)
    found = [
        [_followed(n, sample, effort.seed, *numbers) for sample in range(samples)]
        for numbers in METHODS.values()
    ]
    columns: Array = np.moveaxis(np.array(found), -1, 0)
    arrays: Arrays = {
        "time": ("time", np.array(TIMES)),
        "n": np.int64(n),
        "numbers": (("method", "number"), np.array(list(METHODS.values()))),
    }
    return arrays | {
        name: (("method", "sample", "time"), rows) for name, rows in zip(COLUMNS, columns, strict=True)
    }


def _followed(n: int, sample: int, seed: int, step: float, inertia: float, share: float) -> Array:
    """`COLUMNS` at TIMES (T, 5) of one trajectory; NaN from where it diverges."""
    from sims.dynamics import run  # late: it brings JAX
    from sims.dynamics.methods import Descent
    from sims.hessian import dense_blas
    from sims.solvers.dense import lowest_dense

    model = Network(a=A)
    problem, teacher, start = run.drawn(model, n, LIFETIME_ALPHA, seed=seed, sample=sample, dtype="float64")
    held: Any = problem.data
    forces: list[Array] = []  # all that theory needs of a method

    def pull(given: Array) -> Array:
        forces.append(np.asarray(given, np.float64))
        return held.pull(given)

    recorded: Any = SimpleNamespace(push=held.push, pull=pull, dtype=held.dtype)
    method, rng = Descent(step, inertia=inertia, share=share), np.random.default_rng([seed, sample])
    rows, at = np.full((len(TIMES), len(COLUMNS)), np.nan), 0
    for state in run.trajectory(problem._replace(data=recorded), method, start, rng):
        if state.time < TIMES[at] - 1e-9:
            continue
        matrix = dense_blas(held.x, model.weights(state.lam, problem.y))
        pairs = lowest_dense(matrix, 1, overwrite=True)
        found = conditioned(model, closure(held.x, teacher, state.student, forces, start))
        q2, m2 = np.array([pairs.vectors[:, 0] @ teacher[0], state.student[0] @ teacher[0] / n**0.5]) ** 2 / n
        rows[at] = pairs.values[0], q2, found.lowest, found.overlap, m2
        at += 1
        if at == len(TIMES):
            break
    return rows


@figure("lifetime", build_lifetime)
def lifetime(data: Data) -> Figure:
    """The lowest eigenvector of the Hessian from a random start, p = p* = 1, a = 0.5, alpha = 3, under gradient descent,
    momentum and stochastic gradients, against the time of the flow (a step of s with inertia b is s / (1 - b)). Points:
    samples, means and standard errors; lines: theory from what each method has used of its data.
    """
    fig, axes = layout.figure(2, 3.2)
    words = {
        "overlap": "squared overlap $q^2$ with the teacher",
        "eigenvalue": r"lowest eigenvalue $\lambda_1$",
    }
    for ax, name in zip(axes, words, strict=True):
        for i, method in enumerate(METHODS):
            found, theory = data[name][i], data[f"predicted_{name}"][i]
            count = np.sum(np.isfinite(found), axis=0)
            ax.errorbar(
                data["time"], np.nanmean(found, axis=0), yerr=np.nanstd(found, axis=0, ddof=1) / np.sqrt(count),
                label=method, **points_look(i),
            )  # fmt: skip
            ax.plot(data["time"], np.nanmean(theory, axis=0), color=style.colour(i))
        ax.set(xlabel="time of the flow", ylabel=words[name])
    axes[0].set_ylim(bottom=0)
    layout.title(axes[1], rf"$p = p^* = 1$, $a = {A:g}$, $\alpha = {LIFETIME_ALPHA:g}$, $N = {data['n']}$")
    layout.legend_above(fig, axes, 3)
    return fig
