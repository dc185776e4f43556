"""Spectra with edge and outlier: the density of theory over eigenvalues of dense samples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from bbp.analysis import spectrum
from bbp.gallery.base import Data, Effort, Entry, Named, sampled
from bbp.plots import layout, style
from bbp.plots import spectrum as spectrum_plots
from theory.model import Network

CASES = {
    "sharp": (Network(2, 1, 0.3), 2.5),
    "smooth": (Network(2, 1, 1.5), 0.8),
    "beyond": (Network(2, 1, 1.5), 2.0),
}


def build(effort: Effort) -> Mapping[str, Named]:
    """All eigenvalues of a few samples for each case; the theory is computed when the figure is drawn."""
    (n, *_), samples = effort.sizes([200], [1000]), effort.count(30, 40)
    arrays: dict[str, Named] = {"n": ((), np.int64(n))}
    for name, (model, alpha) in CASES.items():
        order = int(model.p) * n
        found = sampled(model, n, [alpha], samples, effort.seed, eigenpairs=order)
        arrays[f"{name}_eigenvalues"] = ("sample", f"{name}_rank"), found["eigenvalues"][0]
    return arrays


def draw(data: Data) -> Figure:
    """Close to the left edge, a panel for each case with its own model, samples and lines."""
    fig = style.new_figure("double", 3.5)
    axes = layout.panels(fig, len(CASES), "double")
    for ax, (name, (model, alpha)) in zip(axes, CASES.items(), strict=True):
        values = data[f"{name}_eigenvalues"]
        values = values[np.isfinite(values).all(axis=1)]
        pool = spectrum.Pool(values, int(data["n"]), values.shape[1])
        found = spectrum.of_model(model, alpha, pool)
        left, right = spectrum_plots.edge_window(found)
        spectrum_plots.spectrum_panel(ax, found, left, right + (right - left))
        name_model = rf"$p = 2$, $p^* = 1$, $a = {model.a:g}$, $\alpha = {alpha:g}$"
        ax.set_title(name_model, loc="right", pad=3.0, fontsize=7)
        handles, labels = ax.get_legend_handles_labels()
        labels = [r"density, $N = \infty$" if label == "theory" else label for label in labels]
        ax.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.09))
        ax.set_ylabel(r"density $\rho(\lambda)$" if ax is axes[0] else "")
    return fig


ENTRY = Entry(
    "spectra",
    "Left end of the spectrum, p = 2, p* = 1: density of states at N = infinity, left edge and outlier over the pooled "
    "eigenvalues of samples: (a) a sharp edge with an outlier, (b) a smooth edge below the transition, (c) beyond a "
    "discontinuous transition. At a smooth edge the density falls faster than any power, and is too small to be seen for the "
    "last few per cent before the edge. Eigenvalues left of the edge: the outliers of these draws in (a) and (c), which "
    "scatter about the arrow; in (b) the scatter of finite N. Height of the arrows: arbitrary.",
    build,
    draw,
)
