"""Other activations: overlap of the lowest eigenvector with the teacher for sigmoid and tanh, samples and general theory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bbp.gallery.base import Data, Effort, Entry, Named
from bbp.plots import layout, style
from bbp.plots import sweep as sweep_plots
from sims.instance import draw as draw_instance
from sims.instance import labels
from theory.checks import NotConverged
from theory.general.any_weight import activation_weight, general_spectrum
from theory.model import Committee

Array = NDArray[np.float64]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _sigmoid_first(x: Array) -> Array:
    return _sigmoid(x) * (1 - _sigmoid(x))


def _sigmoid_second(x: Array) -> Array:
    return _sigmoid_first(x) * (1 - 2 * _sigmoid(x))


def _tanh_first(x: Array) -> Array:
    return 1 / np.cosh(x) ** 2


def _tanh_second(x: Array) -> Array:
    return -2 * np.tanh(x) * _tanh_first(x)


CASES: dict[str, tuple[tuple[Callable, Callable, Callable], float]] = {
    "sigmoid": ((_sigmoid, _sigmoid_first, _sigmoid_second), 1.0),
    "tanh": ((np.tanh, _tanh_first, _tanh_second), 50.0),
}
ALPHA = np.linspace(1, 10, 7)
FINE = np.linspace(0.6, 10.4, 40)


def build(effort: Effort) -> Mapping[str, Named]:
    """Overlap of the lowest eigenvector with the teacher row, p = p* = 1, samples and theory of mixed outliers."""
    (n, *_), samples = effort.sizes([300], [1000]), effort.count(10, 40)
    arrays: dict[str, Named] = {
        "alpha": (("alpha",), ALPHA),
        "fine": (("fine",), FINE),
        "n": ((), np.int64(n)),
    }
    for name, (activation, a) in CASES.items():
        weight = activation_weight(*activation, a=a)
        rows = [[_overlap(weight, n, alpha, effort.seed, s) for s in range(samples)] for alpha in ALPHA]
        theory = [_theory(weight, alpha, effort.seed) for alpha in FINE]
        arrays[f"{name}_overlap"] = ("alpha", "sample"), np.array(rows)
        arrays[f"{name}_theory"] = ("fine",), np.array(theory)
    return arrays


def _overlap(weight: Callable, n: int, alpha: float, seed: int, sample: int) -> float:
    """Squared overlap of the lowest eigenvector of one dense sample with its teacher row."""
    instance = draw_instance(Committee(1, 1, 1.0), n, float(alpha), seed=seed, sample=sample)
    lam, u = labels(instance)
    data = np.asarray(instance.data)[: instance.m]
    f = weight(lam, u, np.empty((len(lam), 0)))[:, 0, 0]
    vector = np.linalg.eigh((data.T * f) @ data)[1][:, 0]
    return float((np.asarray(instance.signal)[0] @ vector) ** 2)


def _theory(weight: Callable, alpha: float, seed: int) -> float:
    """Teacher's part of the lowest outlier's overlap; 0 where none leaves the bulk, NaN where there is no edge."""
    try:
        found = general_spectrum(weight, float(alpha), points=2**12, scramblings=2, seed=seed)
    except NotConverged:
        return math.nan
    return float(found.overlaps[0] * found.teacher_share[0]) if found.outliers.size else 0.0


def draw(data: Data) -> Figure:
    """One panel: both activations."""
    fig = style.new_figure("single", 2.8)
    ax = layout.panels(fig, 1, "single")[0]
    for index, (name, (_, a)) in enumerate(CASES.items()):
        label = f"{name}, $a = {a:g}$: samples, $N = {int(data['n'])}$"
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
