"""The optimal spectral method beside the Hessian at equal alpha, p* = 1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bbp.gallery.base import Data, Effort, Entry, Named, sampled
from bbp.plots import layout, style
from bbp.plots import sweep as sweep_plots
from theory.exact.outliers import teacher_branch
from theory.general.spectral_methods import optimal, spectral_outlier, trimmed
from theory.model import Network

HESSIANS = {1: 0.5, 2: 0.3, 8: 0.1}  # student width -> normalisation
ALPHA = np.linspace(0.3, 4, 140)
POINTS = np.linspace(0.6, 3.8, 6)


def build(effort: Effort) -> Mapping[str, Named]:
    """q2 of the outliers of three Hessians and the p = infinity one, and of two spectral methods; samples of both routes."""
    (n, *_), samples = effort.sizes([300], [1000]), effort.count(10, 40)
    curves = [
        teacher_branch(Network(p, 1, a), ALPHA).overlap for p, a in [*HESSIANS.items(), (math.inf, 0.1)]
    ]
    methods = [[spectral_outlier(method, float(a)) for a in ALPHA] for method in (optimal(), trimmed(6.0))]
    overlaps = [[0.0 if found is None else found.overlap for found in row] for row in methods]
    rows = [[_spectral(n, float(a), effort.seed, s) for s in range(samples)] for a in POINTS]
    model = Network(2, 1, HESSIANS[2])
    return {
        "alpha": (("alpha",), ALPHA),
        "p": (("p",), np.array([*HESSIANS, math.inf])),
        "a": (("p",), np.array([*HESSIANS.values(), 0.1])),
        "hessian": (("p", "alpha"), np.nan_to_num(curves)),
        "optimal": (("alpha",), np.array(overlaps[0])),
        "trimmed": (("alpha",), np.array(overlaps[1])),
        "point": (("point",), POINTS),
        "optimal_sampled": (("point", "sample"), np.array(rows)),
        "hessian_sampled": (("point", "sample"), sampled(model, n, POINTS, samples, effort.seed)["overlap"]),
        "n": ((), np.int64(n)),
    }


def _spectral(n: int, alpha: float, seed: int, sample: int) -> float:
    """Squared overlap of the top eigenvector of sum T(y) x x^T, T optimal, with the teacher, on one draw."""
    from sims.instance import draw as drawn
    from sims.instance import labels

    instance = drawn(Network(1, 1, 1.0), n, alpha, seed=seed, sample=sample)
    _, u = labels(instance)
    data = np.asarray(instance.data)[: instance.m]
    vector = np.linalg.eigh((data.T * optimal()(u[:, 0] ** 2)) @ data)[1][:, -1]
    return float((np.asarray(instance.signal)[0] @ vector) ** 2)


def draw(data: Data) -> Figure:
    """One panel: overlaps against alpha."""
    fig = style.new_figure("single", 3.3)
    ax = layout.panels(fig, 1, "single")[0]
    ax.plot(data["alpha"], data["optimal"], color=style.BLACK, linewidth=1.6, label="optimal $T(y)$")
    ax.plot(data["alpha"], data["trimmed"], color=style.GREY, linestyle=":", label="trimmed $T(y)$, $y < 6$")
    for index, (p, a) in enumerate(zip(data["p"], data["a"], strict=True)):
        label = f"Hessian, {layout.width_name(p)}, $a = {a:g}$"
        style_of: dict[str, Any] = {"linestyle": (0, (5, 1))} if math.isinf(p) else {}
        ax.plot(data["alpha"], data["hessian"][index], color=style.colour(index), label=label, **style_of)
    n = int(data["n"])
    sweep_plots.sampled_points(
        ax, data["point"], data["hessian_sampled"], index=1, label=f"$p = 2$, samples, $N = {n}$"
    )
    sweep_plots.sampled_points(
        ax, data["point"], data["optimal_sampled"], index=5, label=f"optimal $T$, samples, $N = {n}$"
    )
    ax.set_xlabel(r"$\alpha = M/N$")
    ax.set_ylabel(r"squared overlap $q^2$")
    ax.set_ylim(0, 1)
    ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.02), ncols=2, fontsize=6.5)
    return fig


ENTRY = Entry(
    "spectral",
    "Squared overlap with the teacher at equal alpha, p* = 1: outlier of the Hessian at initialisation for several widths, and "
    "the spectral method with optimal and with trimmed preprocessing; samples of both: means within one standard error.",
    build,
    draw,
)
