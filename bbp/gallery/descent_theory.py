"""How the Hessian loses the informative direction along gradient flow: samples, theory of their labels and of their path."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bbp.gallery.base import Array, Data, Effort, Entry, Named
from bbp.plots import layout, style
from bbp.plots.descent import samples_in_time, time_axis
from theory.model import Network
from theory.path import bbp_time

A, STEPS, RECORDS = 0.5, 700, 12
CASES = ((1, 3.0), (2, 2.0))  # p and alpha, above alpha_BBP: the direction is there at the start
ROUTES = {"conditioned": "theory of the path", "quenched": "theory of the labels"}


def build(effort: Effort) -> Mapping[str, Named]:
    """Eigenvalue, q2 and both theories at twelve records of descents from random starts, p* = 1, and the BBP time."""
    from sims.descent.hessians import FRAMES
    from sims.descent.path import Rules
    from sims.descent.samples import sample_descents

    (n, *_), samples = effort.sizes([200], [400]), effort.count(8, 24)
    rules = Rules(steps=STEPS, records=40)
    kept: dict[str, list[Array]] = {}
    times = []
    for p, alpha in CASES:
        model = Network(p, 1, A)
        found = sample_descents(
            model, n, alpha, range(samples), effort.seed,
            rules=rules, eigenpairs=p, hessians=RECORDS, theory=True,
        )  # fmt: skip
        along = {"time": found.time[:, found.hessian_records], "m2": found.m2[:, found.hessian_records]}
        along |= {
            "eigenvalue": found.eigenvalues[:, :, FRAMES.index("plain"), 0],
            "riemannian": found.eigenvalues[:, :, FRAMES.index("riemannian"), 0],
            "overlap": found.overlaps[:, :, FRAMES.index("plain"), 0],
        }
        for name, values in (along | found.predicted).items():
            kept.setdefault(name, []).append(values)
        lost = bbp_time(model, alpha, samples=2**12, scramblings=4)
        times.append((lost.time, lost.error))
    arrays: dict[str, Named] = {
        "p": (("case",), np.array([p for p, _ in CASES])),
        "alpha": (("case",), np.array([alpha for _, alpha in CASES])),
        "bbp_time": (("case",), np.array([time for time, _ in times])),
        "bbp_time_error": (("case",), np.array([error for _, error in times])),
        "n": ((), np.int64(n)),
    }
    return arrays | {name: (("case", "sample", "record"), np.array(rows)) for name, rows in kept.items()}


def predicted(data: Data, route: str, case: int) -> tuple[Array, Array]:
    """Lowest eigenvalue and its overlap by a route, (sample, record) each; of labels the outlier's or the edge and 0."""
    if route == "conditioned":
        return data["conditioned_lowest"][case], data["conditioned_overlap"][case]
    outlier = data[f"{route}_outlier"][case]
    lowest = np.where(np.isfinite(outlier), outlier, data[f"{route}_edge"][case])
    return lowest, np.where(np.isfinite(outlier), data[f"{route}_overlap"][case], 0.0)


def draw(data: Data) -> Figure:
    """Above the lowest eigenvalue, below its eigenvector's overlap with the signal space; a column for each case."""
    fig = style.new_figure("double", 4.8)
    axes = fig.subplots(2, len(data["p"]), sharex="col")
    layout.lettered(list(axes.flat))
    for case, (p, alpha) in enumerate(zip(data["p"], data["alpha"], strict=True)):
        time = data["time"][case]
        for ax, name, part in ((axes[0, case], "eigenvalue", 0), (axes[1, case], "overlap", 1)):
            line = _mean(ax, time, data[name][case], "o", 0, "samples")
            for index, (route, words) in enumerate(ROUTES.items(), 1):
                _mean(ax, time, predicted(data, route, case)[part], "-" if index == 1 else "-.", index, words)
            time_axis(ax, [line], low=None)
            ax.axvline(
                data["bbp_time"][case], color=style.GREY, linestyle=":", linewidth=0.9, zorder=0,
                label=r"lost at $N=\infty$",
            )  # fmt: skip
        axes[1, case].set_ylim(bottom=0)
        axes[0, case].set_title(
            rf"$p = {p}$, $\alpha = {alpha:g}$, $a = {A:g}$, $N = {int(data['n'])}$", loc="right", pad=3.0
        )
        axes[0, case].set_xlabel("")
    axes[0, 0].set_ylabel(r"lowest eigenvalue $\lambda_1$")
    axes[1, 0].set_ylabel(r"its $q^2$ with the teacher")
    layout.legend_above(fig, [axes[0, 0]], 4)
    return fig


def _mean(ax: Axes, time: Array, values: Array, look: str, index: int, words: str) -> Line2D:
    """The mean over samples against time, within a band of its standard error."""
    common, rows = samples_in_time(time, values)
    mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    (line,) = ax.plot(common, mean, look, color=style.colour(index), markersize=3, label=words)
    ax.fill_between(common, mean - error, mean + error, color=style.colour(index), alpha=0.2, linewidth=0)
    return line


ENTRY = Entry(
    "descent-theory",
    "Along gradient flow from random starts, p* = 1: lowest eigenvalue of the Hessian and its eigenvector's squared overlap"
    " with the teacher (means over samples, bands their standard errors), conditioned theory, which knows the forces that the"
    " path has used, and quenched theory, which knows the labels alone. Dotted: when the outlier is lost at N = infinity.",
    build,
    draw,
)
