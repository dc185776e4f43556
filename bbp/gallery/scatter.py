"""Per-instance prediction: lowest eigenvalue of each sample against the quenched theory of its own labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bbp.analysis.edge_statistics import quenched_sample
from bbp.gallery.base import Data, Effort, Entry, Named
from bbp.plots import layout, style
from theory.checks import NotConverged
from theory.exact.bulk import bulk_edge
from theory.exact.outliers import outlier
from theory.finite.tracy_widom import MEAN as TRACY_WIDOM_MEAN
from theory.model import Network

CASES = {
    "continuous": (Network(1, 1, 0.5), 3.0),
    "split": (Network(2, 1, 0.3), 2.5),
    "discontinuous": (Network(2, 1, 1.5), 1.8),
}


def build(effort: Effort) -> Mapping[str, Named]:
    """Measured and predicted lowest eigenvalues of the same draws, and the N = infinity value, for three models."""
    from sims.sampling import sample_point

    (n, *_), samples = effort.sizes([300], [1000]), effort.count(40, 200)
    arrays: dict[str, Named] = {"n": ((), np.int64(n))}
    for name, (model, alpha) in CASES.items():
        measured = sample_point(model, n, alpha, range(samples), effort.seed).eigenvalues[:, 0]
        predicted = [_predicted(model, n, alpha, effort.seed, s) for s in range(samples)]
        limit = outlier(model, alpha)
        arrays |= {
            f"{name}_measured": (("sample",), measured),
            f"{name}_predicted": (("sample",), np.array(predicted)),
            f"{name}_limit": (
                (),
                np.float64(bulk_edge(model, alpha).value if limit is None else limit.value),
            ),
        }
    return arrays


def _predicted(model: Network, n: int, alpha: float, seed: int, sample: int) -> float:
    try:
        found = quenched_sample(model, n, alpha, seed, sample)
    except NotConverged:
        return math.nan
    edge = found.edge - TRACY_WIDOM_MEAN / found.scale
    return found.lowest if np.isfinite(found.outliers).any() else edge


def ratio(data: Data, name: str) -> float:
    """Residual variance about the quenched prediction over that about the N = infinity value: below 1 it predicts better."""
    measured = data[f"{name}_measured"]
    residual = np.nanmean((measured - data[f"{name}_predicted"]) ** 2)
    return float(residual / np.nanmean((measured - float(data[f"{name}_limit"])) ** 2))


def draw(data: Data) -> Figure:
    """A panel for each model."""
    fig = style.new_figure("double", 2.7)
    axes = layout.panels(fig, len(CASES), "double")
    for index, (ax, (name, (model, alpha))) in enumerate(zip(axes, CASES.items(), strict=True)):
        x, y = data[f"{name}_predicted"], data[f"{name}_measured"]
        both = np.concatenate([x, y])
        ends = np.array([np.nanmin(both), np.nanmax(both)])
        ax.plot(ends, ends, color=style.BLACK, linewidth=0.9, label="equality")
        limit = float(data[f"{name}_limit"])
        ax.axhline(limit, color=style.GREY, linestyle=(0, (4, 1.6)), label=r"theory, $N = \infty$")
        look: dict[str, Any] = {
            "color": style.colour(index),
            "marker": style.marker(index),
            "linestyle": "none",
            "markersize": 3,
        }
        ax.plot(x, y, label=f"samples, $N = {int(data['n'])}$" if index == 0 else None, **look)
        ax.set_title(
            f"$p = {model.p}$, $a = {model.a:g}$, $\\alpha = {alpha:g}$", loc="right", pad=3.0, fontsize=7
        )
        ax.set_xlabel(r"$\lambda_1$, quenched theory")
        ax.set_ylabel(r"$\lambda_1$, sample" if index == 0 else "")
        ax.text(
            0.04,
            0.95,
            f"variance ratio {ratio(data, name):.2f}",
            transform=ax.transAxes,
            va="top",
            fontsize=7,
        )
    layout.legend_above(fig, axes, 3)
    return fig


ENTRY = Entry(
    "scatter",
    "Lowest eigenvalue of each sample against its prediction by the quenched theory from its own labels; the ratio is that "
    "of the residual variances about the quenched and about the N = infinity prediction.",
    build,
    draw,
)
