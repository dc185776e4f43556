"""Other activations: overlap of the lowest eigenvector with the teacher for sigmoid and tanh, samples and theory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bbp.experiments import models
from bbp.gallery.base import Data, Effort, Entry, Named, sampled
from bbp.plots import layout, style
from bbp.plots import sweep as sweep_plots
from theory.general.network import Network

CASES = {"sigmoid": Network(a=1.0, activation="sigmoid"), "tanh": Network(a=50.0, activation="tanh")}
ALPHA = np.linspace(1, 10, 7)
FINE = np.linspace(0.6, 10.4, 40)


def build(effort: Effort) -> Mapping[str, Named]:
    """Overlap of the lowest eigenvector with the teacher row, p = p* = 1, samples and theory; 0 where none leaves the bulk."""
    (n, *_), samples = effort.sizes([300], [1000]), effort.count(10, 40)
    arrays: dict[str, Named] = {
        "alpha": (("alpha",), ALPHA),
        "fine": (("fine",), FINE),
        "n": ((), np.int64(n)),
    }
    for name, model in CASES.items():
        found = sampled(model, n, ALPHA, samples, effort.seed)
        arrays[f"{name}_overlap"] = ("alpha", "sample"), found["overlap"]
        arrays[f"{name}_theory"] = ("fine",), np.nan_to_num(models.theory_along(model, FINE).overlap)
    return arrays


def draw(data: Data) -> Figure:
    """One panel: both activations."""
    fig = style.new_figure("single", 2.8)
    ax = layout.panels(fig, 1, "single")[0]
    for index, (name, model) in enumerate(CASES.items()):
        label = f"{name}, $a = {model.a:g}$: samples, $N = {int(data['n'])}$"
        sweep_plots.sampled_points(ax, data["alpha"], data[f"{name}_overlap"], index=index, label=label)
        line: dict[str, Any] = {
            "color": style.colour(index),
            "linewidth": 1.0,
            "linestyle": ("-", (0, (4, 1.6)))[index],
        }
        ax.plot(data["fine"], data[f"{name}_theory"], label=f"{name}: theory, $N = \\infty$", **line)
    ax.set_xlabel(r"$\alpha = M/N$")
    ax.set_ylabel(r"squared overlap $q^2$ with the teacher")
    ax.set_ylim(bottom=0)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.02), ncols=1)
    return fig


ENTRY = Entry(
    "activations",
    "Other activations, p = p* = 1: squared overlap of the lowest eigenvector with the teacher for the sigmoid (a = 1) and "
    "tanh (a = 50), samples and theory. Teacher and student directions mix in these outliers.",
    build,
    draw,
)
