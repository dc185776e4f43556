"""How long the informative direction of the Hessian lives under gradient descent, momentum and stochastic gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bbp.gallery.base import Array, Data, Effort, Entry, Named
from bbp.plots import layout, style
from theory.model import Network
from theory.path import closure, conditioned

ALPHA, A = 3.0, 0.5
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


class _Recorded:
    """Data that keep the forces asked for: all that theory needs of a method."""

    def __init__(self, data: Any) -> None:
        self.data, self.dtype = data, data.dtype
        self.forces: list[Array] = []

    def push(self, vectors: Array) -> Array:
        """X v."""
        return self.data.push(vectors)

    def pull(self, forces: Array) -> Array:
        """X' f."""
        self.forces.append(np.asarray(forces, np.float64))
        return self.data.pull(forces)


def build(effort: Effort) -> Mapping[str, Named]:
    """The lowest eigenpair at nine times, measured and predicted, of the same samples under every method; p = p* = 1."""
    (n, *_), samples = effort.sizes([300], [600]), effort.count(3, 8)
    found = [
        [_followed(n, sample, effort.seed, *numbers) for sample in range(samples)]
        for numbers in METHODS.values()
    ]
    columns: Array = np.moveaxis(np.array(found), -1, 0)
    arrays: dict[str, Named] = {
        "time": (("time",), np.array(TIMES)),
        "n": ((), np.int64(n)),
        "numbers": (("method", "number"), np.array(list(METHODS.values()))),
    }
    return arrays | {
        name: (("method", "sample", "time"), rows) for name, rows in zip(COLUMNS, columns, strict=True)
    }


def _followed(n: int, sample: int, seed: int, step: float, inertia: float, share: float) -> Array:
    """`COLUMNS` at TIMES (T, 5) of one trajectory; NaN from where it diverges."""
    from sims.dense.eigen import lowest_dense
    from sims.dynamics import run
    from sims.dynamics.methods import Descent
    from sims.hessian import dense_blas

    model = Network(a=A)
    problem, teacher, start = run.drawn(model, n, ALPHA, seed=seed, sample=sample, dtype="float64")
    held: Any = problem.data
    data, rows = _Recorded(held), np.full((len(TIMES), len(COLUMNS)), np.nan)
    method = Descent(step, inertia=inertia, share=share)
    at = 0
    for state in run.trajectory(
        problem._replace(data=data), method, start, np.random.default_rng([seed, sample])
    ):
        if state.time < TIMES[at] - 1e-9:
            continue
        matrix = dense_blas(held.x, model.weights(state.lam, problem.loss.y))
        pairs = lowest_dense(matrix, 1, overwrite=True)
        found = conditioned(model, closure(held.x, teacher, state.student, data.forces, start))
        overlaps = (
            np.array([pairs.vectors[:, 0] @ teacher[0], state.student[0] @ teacher[0] / n**0.5]) ** 2 / n
        )
        rows[at] = pairs.values[0], overlaps[0], found.lowest, found.overlap, overlaps[1]
        at += 1
        if at == len(TIMES):
            break
    return rows


def draw(data: Data) -> Figure:
    """Overlap of the lowest eigenvector with the teacher against time, and the lowest eigenvalue."""
    fig = style.new_figure("double", 3.2)
    axes = layout.panels(fig, 2, "double")
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
                color=style.colour(i), marker=style.marker(i), linestyle="none", label=method,
            )  # fmt: skip
            ax.plot(data["time"], np.nanmean(theory, axis=0), color=style.colour(i))
        ax.set_xlabel("time of the flow")
        ax.set_ylabel(words[name])
    axes[0].set_ylim(bottom=0)
    axes[1].set_title(
        rf"$p = p^* = 1$, $a = {A:g}$, $\alpha = {ALPHA:g}$, $N = {data['n']}$", loc="right", pad=3.0
    )
    layout.legend_above(fig, axes, 3)
    return fig


ENTRY = Entry(
    "lifetime",
    "The lowest eigenvector of the Hessian from a random start, p = p* = 1, a = 0.5, alpha = 3, under gradient descent,"
    " momentum and stochastic gradients, against the time of the flow (a step of s with inertia b is s / (1 - b)). Points:"
    " samples, means and standard errors; lines: theory from what each method has used of its data.",
    build,
    draw,
)
