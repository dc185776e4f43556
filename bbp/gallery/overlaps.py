"""Squared overlap against alpha, continuous and discontinuous: theory, samples, and the quenched theory of finite N."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from bbp.gallery.base import Data, Effort, Entry, Named, rounded, sampled
from bbp.plots import layout, style
from bbp.plots import sweep as sweep_plots
from theory.checks import NotConverged
from theory.finite_n.quenched import quenched
from theory.model import Committee
from theory.outliers import teacher_branch
from theory.transition import bbp_threshold

MODELS = {"continuous": Committee(2, 1, 0.7), "discontinuous": Committee(2, 1, 1.5)}
DRAWS = 12  # of labels, for the quenched theory


def build(effort: Effort) -> Mapping[str, Named]:
    """q2 of samples, of quenched draws and at N = inf for p = 2, p* = 1, a = 0.7 and a = 1.5."""
    (n, *_), samples = effort.sizes([300], [2000]), effort.count(12, 50)
    arrays: dict[str, Named] = {}
    for kind, model in MODELS.items():
        threshold = bbp_threshold(model).alpha
        alpha = rounded(np.linspace(0.55, 2.2, 9) * threshold)
        fine = np.sort([*np.linspace(0.5, 2.3, 300) * threshold, threshold * (1 + 1e-9)])
        branch = teacher_branch(model, fine)
        names = f"{kind}_alpha", f"{kind}_fine"
        found = sampled(model, n, alpha, samples, effort.seed)
        arrays |= {
            names[0]: ((names[0],), alpha),
            names[1]: ((names[1],), fine),
            f"{kind}_theory": ((names[1],), np.nan_to_num(branch.overlap)),
            f"{kind}_overlap": ((names[0], "sample"), found["overlap"]),
            f"{kind}_quenched": ((names[0],), np.array([_quenched(model, a, n, effort.seed) for a in alpha])),
            f"{kind}_alpha_bbp": ((), np.float64(threshold)),
        }
    return arrays | {"n": ((), np.int64(n))}


def _quenched(model: Committee, alpha: float, n: int, seed: int) -> float:
    """Mean q2 over draws of labels, 0 for each of the p p_star directions without an outlier."""
    found = []
    for draw in range(DRAWS):
        rng = np.random.default_rng([seed, draw])
        try:
            overlaps = quenched(model, *model.draw_labels(round(alpha * n), rng), n).overlaps
        except NotConverged:
            continue
        found.append(np.nan_to_num(overlaps).mean())
    return float(np.mean(found)) if found else math.nan


def draw(data: Data) -> Figure:
    """Two panels, one for each kind of transition."""
    fig = style.new_figure("double", 2.9)
    axes = layout.panels(fig, 2, "double")
    for ax, (kind, model) in zip(axes, MODELS.items(), strict=True):
        sweep_plots.overlap_curve(ax, data[f"{kind}_fine"], np.nan_to_num(data[f"{kind}_theory"]))
        (line,) = ax.plot(
            data[f"{kind}_alpha"], data[f"{kind}_quenched"], color=style.GREEN, linestyle=(0, (1, 1))
        )
        line.set_label("quenched theory, same $N$")
        label = f"samples, $N = {int(data['n'])}$"
        sweep_plots.sampled_points(ax, data[f"{kind}_alpha"], data[f"{kind}_overlap"], index=0, label=label)
        sweep_plots.mark_threshold(ax, float(data[f"{kind}_alpha_bbp"]), kind)
        layout.name_model(ax, model)
        ax.set_xlabel(r"$\alpha = M/N$")
        ax.set_ylabel(r"squared overlap $q^2$")
        ax.set_ylim(bottom=0)
    layout.legend_above(fig, axes, 3)
    return fig


ENTRY = Entry(
    "overlap",
    "Squared overlap of the outlier eigenvectors with the teacher against alpha: continuous (a = 0.7) and "
    "discontinuous (a = 1.5) transition at p = 2, p* = 1; theory at N = infinity and quenched theory beside samples.",
    build,
    draw,
)
