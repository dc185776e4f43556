"""Squared overlap against alpha, continuous and discontinuous: samples, theory at N = inf, and the law of finite N."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from bbp.gallery.base import Data, Effort, Entry, Named, rounded, sampled
from bbp.plots import layout, style
from bbp.plots import sweep as sweep_plots
from theory import finite
from theory.exact.outliers import teacher_branch
from theory.exact.transition import bbp_threshold
from theory.model import Network

MODELS = {"continuous": Network(2, 1, 0.7), "discontinuous": Network(2, 1, 1.5)}
DRAWS, POINTS = 100, 14  # of the law, with common random numbers along alpha


def build(effort: Effort) -> Mapping[str, Named]:
    """q2 of samples, of the law at their N and at N = inf for p = 2, p* = 1, a = 0.7 and a = 1.5."""
    (n, *_), samples = effort.sizes([300], [2000]), effort.count(12, 50)
    arrays: dict[str, Named] = {}
    for kind, model in MODELS.items():
        threshold = bbp_threshold(model).alpha
        alpha = rounded(np.linspace(0.55, 2.2, 9) * threshold)
        fine = np.sort([*np.linspace(0.5, 2.3, 300) * threshold, threshold * (1 + 1e-9)])
        branch = teacher_branch(model, fine)
        names = f"{kind}_alpha", f"{kind}_fine", f"{kind}_law_alpha"
        found = sampled(model, n, alpha, samples, effort.seed)
        drawn = np.linspace(0.5, 2.25, POINTS) * threshold
        law = finite.law(model, drawn, n, draws=DRAWS, seed=effort.seed)
        mean, error = law.mean("overlap")
        arrays |= {
            names[0]: ((names[0],), alpha),
            names[1]: ((names[1],), fine),
            f"{kind}_theory": ((names[1],), np.nan_to_num(branch.overlap)),
            f"{kind}_overlap": ((names[0], "sample"), found["overlap"]),
            names[2]: ((names[2],), drawn),
            f"{kind}_law": ((names[2],), mean),
            f"{kind}_law_error": ((names[2],), error),
            f"{kind}_law_std": ((names[2],), law.std("overlap")),
            f"{kind}_alpha_bbp": ((), np.float64(threshold)),
        }
    return arrays | {"n": ((), np.int64(n))}


def draw(data: Data) -> Figure:
    """Two panels, one for each kind of transition."""
    fig = style.new_figure("double", 2.9)
    axes = layout.panels(fig, 2, "double")
    for ax, (kind, model) in zip(axes, MODELS.items(), strict=True):
        limit = sweep_plots.overlap_curve(ax, data[f"{kind}_fine"], np.nan_to_num(data[f"{kind}_theory"]))
        limit.set_label(r"theory, $N = \infty$")
        n, count = int(data["n"]), data[f"{kind}_overlap"].shape[-1]
        law = data[f"{kind}_law"], data[f"{kind}_law_std"]
        name = rf"theory, $N = {n}$, $\pm$ one std of a draw"
        sweep_plots.finite_band(ax, data[f"{kind}_law_alpha"], *law, index=0, label=name)
        label = f"{count} samples, $N = {n}$"
        sweep_plots.sampled_points(ax, data[f"{kind}_alpha"], data[f"{kind}_overlap"], index=0, label=label)
        sweep_plots.mark_threshold(ax, float(data[f"{kind}_alpha_bbp"]), kind)
        layout.name_model(ax, model)
        ax.set_xlabel(r"$\alpha = M/N$")
        ax.set_ylabel(r"overlap $q^2$, mean of 2 lowest")
        ax.set_ylim(bottom=0)
    layout.legend_above(fig, axes, 3)
    return fig


ENTRY = Entry(
    "overlap",
    "Squared overlap of the two lowest eigenvectors, the outliers, with the teacher against alpha: (a) continuous (a = 0.7) "
    "and (b) discontinuous (a = 1.5) transition at p = 2, p* = 1. Points with one standard error of the mean: samples; "
    "blue line and band: the law of finite N (theory.finite.law, 100 draws), its mean and one standard deviation of a single "
    "draw, no parameter fitted; black: N = infinity.",
    build,
    draw,
)
