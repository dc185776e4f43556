"""The lowest eigenvalue of the Hessian along gradient flow, and what theory says of it from overlaps and from labels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bbp.gallery.base import Array, Data, Effort, Entry, Named
from bbp.late_sims import descents, frames, sample_descents
from bbp.plots import layout, style
from bbp.plots.descent import samples_in_time, time_axis
from theory.model import Committee

A, STEPS, RECORDS = 0.5, 20_000, 8
CASES = (
    (1, 2.0),
    (2, 1.4),
)  # p and alpha: most descents end without the teacher, and recovery is rare
ROUTES = {"annealed": "theory at the overlaps", "quenched": "quenched theory of the labels"}


def build(effort: Effort) -> Mapping[str, Named]:
    """Eigenvalue, q2 and both theories at eight records of descents from random starts, p* = 1."""
    (n, *_), samples = effort.sizes([200], [400]), effort.count(6, 24)
    rules = descents().Rules(steps=STEPS, records=40, loss_floor=1e-6)
    kept: dict[str, list[Array]] = {}
    for p, alpha in CASES:
        found = sample_descents(
            Committee(p, 1, A), n, alpha, range(samples), effort.seed,
            rules=rules, eigenpairs=p, hessians=RECORDS, theory=True,
        )  # fmt: skip
        along = {"time": found.time[:, found.hessian_records], "m2": found.m2[:, found.hessian_records]}
        along |= {
            "eigenvalue": found.eigenvalues[:, :, frames().index("plain"), 0],
            "riemannian": found.eigenvalues[:, :, frames().index("riemannian"), 0],
            "overlap": found.overlaps[:, :, frames().index("plain"), 0],
        }
        for name, values in (along | found.predicted).items():
            kept.setdefault(name, []).append(values)
    arrays: dict[str, Named] = {
        "p": (("case",), np.array([p for p, _ in CASES])),
        "alpha": (("case",), np.array([alpha for _, alpha in CASES])),
        "n": ((), np.int64(n)),
    }
    return arrays | {name: (("case", "sample", "record"), np.array(rows)) for name, rows in kept.items()}


def predicted(data: Data, route: str, case: int) -> tuple[Array, Array]:
    """Lowest eigenvalue, the outlier's or the edge, and its overlap, 0 in the bulk: (sample, record) each."""
    outlier = data[f"{route}_outlier"][case]
    lowest = np.where(np.isfinite(outlier), outlier, data[f"{route}_edge"][case])
    return lowest, np.where(np.isfinite(outlier), data[f"{route}_overlap"][case], 0.0)


def draw(data: Data) -> Figure:
    """Above the lowest eigenvalue, below its eigenvector's overlap with the signal space; a column for each case."""
    fig = style.new_figure("double", 4.8)
    axes = fig.subplots(2, len(CASES), sharex="col")
    layout.lettered(list(axes.flat))
    for case, (p, alpha) in enumerate(zip(data["p"], data["alpha"], strict=True)):
        time = data["time"][case]
        for ax, name, part in ((axes[0, case], "eigenvalue", 0), (axes[1, case], "overlap", 1)):
            values = data[name][case]
            line = _mean(ax, time, values, "o-", 0, "samples")
            for index, (route, words) in enumerate(ROUTES.items(), 1):
                _mean(
                    ax, time, predicted(data, route, case)[part], "--" if index == 1 else "-.", index, words
                )
            time_axis(ax, [line])
        axes[0, case].axhline(0, color=style.GREY, linewidth=0.6, zorder=0)
        depth = -float(np.nanmin(predicted(data, "annealed", case)[0]))
        axes[0, case].set_ylim(-1.12 * depth, 0.08 * depth)
        axes[0, case].set_title(
            rf"$p = {p}$, $\alpha = {alpha:g}$, $a = {A:g}$, $N = {int(data['n'])}$", loc="right", pad=3.0
        )
        axes[0, case].set_xlabel("")
    axes[0, 0].set_ylabel(r"lowest eigenvalue $\lambda_1$")
    axes[1, 0].set_ylabel(r"its $q^2$ with the teacher")
    layout.legend_above(fig, [axes[0, 0]], 3)
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
    " with the teacher (means over samples, bands their standard errors), N = infinity theory of students drawn at the same"
    " overlaps, and the quenched theory of the labels that the students give. The first does not see that labels are fitted;"
    " the second does.",
    build,
    draw,
)
