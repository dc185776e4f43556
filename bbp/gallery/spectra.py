"""Spectra with edge and outlier: the density of theory over eigenvalues of dense samples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from bbp.analysis import spectrum
from bbp.gallery.base import Data, Effort, Entry, Named, sampled
from bbp.plots import layout, style
from theory.model import Committee

CASES = {
    "sharp": (Committee(2, 1, 0.3), 2.5),
    "smooth": (Committee(2, 1, 1.5), 0.8),
    "beyond": (Committee(2, 1, 1.5), 2.0),
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
    """Close to the left edge, a panel for each case."""
    fig = style.new_figure("double", 2.9)
    axes = layout.panels(fig, len(CASES), "double")
    for ax, (name, (model, alpha)) in zip(axes, CASES.items(), strict=True):
        values = data[f"{name}_eigenvalues"]
        values = values[np.isfinite(values).all(axis=1)]
        pool = spectrum.Pool(values, int(data["n"]), values.shape[1])
        found = spectrum.of_model(model, alpha, pool)
        left, right = layout.edge_window(found)
        layout.spectrum_panel(ax, found, left, right + (right - left))
        ax.set_title(rf"$p = 2$, $a = {model.a:g}$, $\alpha = {alpha:g}$", loc="right", pad=3.0, fontsize=7)
        ax.set_ylabel(r"density $\rho(\lambda)$" if ax is axes[0] else "")
    layout.legend_above(fig, axes, 3)
    return fig


ENTRY = Entry(
    "spectra",
    "Left end of the spectrum: density of states at N = infinity, edge and outlier over pooled eigenvalues of samples, at a "
    "sharp edge with outlier, a smooth edge without, and beyond a discontinuous transition.",
    build,
    draw,
)
