"""Other activations: overlap of the lowest eigenvector with the teacher for sigmoid and tanh, samples and theory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from bbp.experiments import models
from bbp.gallery.base import Data, Effort, Entry, Named, sampled
from bbp.plots import layout, style
from bbp.plots import sweep as sweep_plots
from theory.model.network import Network

CASES = {"sigmoid": Network(a=1.0, activation="sigmoid"), "tanh": Network(a=50.0, activation="tanh")}
ALPHA = np.linspace(1, 10, 7)
FIRST, LAST, POINTS = 0.6, 10.4, 30  # of the curves


def build(effort: Effort) -> Mapping[str, Named]:
    """Overlap of the lowest eigenvector with the teacher row, p = p* = 1, samples and theory; 0 where none leaves the bulk."""
    (n, *_), samples = effort.sizes([300], [1000]), effort.count(10, 40)
    arrays: dict[str, Named] = {
        "alpha": (("alpha",), ALPHA),
        "n": ((), np.int64(n)),
    }
    for name, model in CASES.items():
        found = sampled(model, n, ALPHA, samples, effort.seed)
        arrays[f"{name}_overlap"] = ("alpha", "sample"), found["overlap"]
        threshold, kind = models.transition(model)
        # Zero up to the threshold; points crowd above it, where the curve is steep.
        above = threshold * (1 + 1e-6) + (LAST - threshold) * np.linspace(0, 1, POINTS) ** 2
        fine = np.array([FIRST, threshold, *above])
        overlap = np.append([0.0, 0.0], models.theory_along(model, above)["overlap"])
        arrays[f"{name}_fine"] = (f"{name}_fine",), fine
        arrays[f"{name}_theory"] = (f"{name}_fine",), overlap
        arrays[f"{name}_alpha_bbp"] = (), np.float64(threshold)
        arrays[f"{name}_discontinuous"] = (), np.int8(kind == "discontinuous")
    return arrays


def draw(data: Data) -> Figure:
    """One panel: both activations, their thresholds marked with kind and value."""
    fig = style.new_figure("single", 3.3)
    ax = layout.panels(fig, 1, "single")[0]
    for index, (name, model) in enumerate(CASES.items()):
        count = data[f"{name}_overlap"].shape[-1]
        label = f"{name}, $a = {model.a:g}$: {count} samples, $N = {int(data['n'])}$"
        sweep_plots.sampled_points(ax, data["alpha"], data[f"{name}_overlap"], index=index, label=label)
        tint = style.colour(index)
        theory = rf"{name}: theory, $N = \infty$"
        ax.plot(data[f"{name}_fine"], data[f"{name}_theory"], color=tint, linewidth=1.1, label=theory)
        threshold, kind = float(data[f"{name}_alpha_bbp"]), style.KINDS[int(data[f"{name}_discontinuous"])]
        mark = rf"{name}: $\alpha_\mathrm{{BBP}} = {threshold:.3f}$, {kind}"
        ax.axvline(threshold, color=tint, linestyle=(":", "-.")[index], linewidth=0.9, zorder=1, label=mark)
    ax.set_xlabel(r"$\alpha = M/N$")
    ax.set_ylabel(r"squared overlap $q^2$")
    ax.set_ylim(bottom=0)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.02), ncols=1)
    return fig


ENTRY = Entry(
    "activations",
    "Other activations, p = p* = 1: squared overlap of the lowest eigenvector with the teacher for the sigmoid (a = 1) and "
    "tanh (a = 50), samples and theory, thresholds marked: the sigmoid's overlap jumps to 0.078 at alpha_BBP = 2.422, that of "
    "tanh rises from 0 at 1.810. Points: means of samples with one standard error; below threshold they show what N = 300 "
    "leaves in the lowest eigenvector, which theory at N = infinity puts at 0. Teacher and student directions mix in these "
    "outliers.",
    build,
    draw,
)
