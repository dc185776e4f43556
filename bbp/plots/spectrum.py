"""The spectrum at one alpha: density of states, left edge, outlier, and eigenvalues of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bbp.analysis.spectrum import Spectrum
from bbp.plots import layout, style

SLIVER = 0.25  # of a panel: what the samples' eigenvalues must cover of it to be drawn as a histogram
MOST_BINS, FEWEST_BINS, PER_BIN = 48, 12, 12  # of a histogram of eigenvalues


def spectrum_figure(spectrum: Spectrum, *, width: str = "double") -> Figure:
    """Density of states with edge, outlier and pooled eigenvalues: most of the bulk, and the left edge close up."""
    fig, (whole, close) = layout.figure(2, 3.0 if width == "double" else 5.0, width)
    spectrum_panel(whole, spectrum, *whole_window(spectrum))
    spectrum_panel(close, spectrum, *edge_window(spectrum))
    layout.name_model(whole, spectrum.model, rf"$\alpha = {style.number(spectrum.alpha, 6)}$")
    if spectrum.verdict:
        layout.title(close, [f"rows: {spectrum.verdict}"])
    # Near alpha = 1 the density has a peak at 0 that would hide the rest.
    low = spectrum.rho[spectrum.lam < 0.5 * spectrum.start]
    if low.size and np.isfinite(spectrum.edge.value):
        whole.set_ylim(0, min(1.1 * spectrum.rho.max(), 5 * low.max()))
    layout.legend_above(fig, [whole, close], 4 if width == "double" else 2)
    return fig


@style.added
def spectrum_panel(ax: Axes, spectrum: Spectrum, left: float, right: float) -> None:
    """The spectrum between two eigenvalues."""
    pool = spectrum.pool
    if pool is not None:
        # the left part of the histogram of all, where the lowest alone are known
        ends, heights = pool.histogram(left, right, per_bin=PER_BIN, fewest=FEWEST_BINS, most=MOST_BINS)
        label = f"{len(pool.eigenvalues)} samples, $N = {pool.n}$"
        pairs = pool.eigenvalues.shape[1]
        if pairs < pool.size:
            label += (
                rf", {pairs} lowest of {pool.size} eigenvalues (cut at $\lambda = {pool.complete_below:.3g}$)"
            )
        if heights.size and min(right, pool.complete_below) - left > SLIVER * (right - left):
            look: dict[str, Any] = {"color": style.SKY, "alpha": 0.65, "linewidth": 0.0, "zorder": 1}
            ax.stairs(heights, ends, fill=True, label=label, **look)
    shown = (spectrum.lam >= left) & (spectrum.lam <= right)
    if np.isfinite(spectrum.rho).any():
        ax.plot(spectrum.lam[shown], spectrum.rho[shown], color=style.BLACK, label="theory", zorder=3)
    if np.isfinite(spectrum.edge.value):
        look = {"color": style.GREY, "linestyle": (0, (4, 1.6)), "linewidth": 1.0, "zorder": 2}
        ax.axvline(spectrum.edge.value, label=rf"left edge ({spectrum.edge.kind})", **look)
    for outlier in spectrum.outliers:  # a spike that stands on the axis, a sixth of the panel high
        look = {"marker": "^", "markevery": [1], "markersize": 5.5, "color": style.VERMILION, "zorder": 5}
        spike = [outlier.value, outlier.value], [0.0, 1 / 6]
        words = rf"outlier, $q^2 = {outlier.overlap:.3f}$"
        ax.plot(*spike, transform=ax.get_xaxis_transform(), label=words, **look)
    if spectrum.atom and left < 0 < right:
        look = {"color": style.PURPLE, "linestyle": ":", "linewidth": 1.2, "zorder": 2}
        ax.axvline(0.0, label=f"atom at 0, mass {spectrum.atom:.3g}", **look)
    ax.set_xlim(left, right)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    ax.set_xlabel(r"eigenvalue $\lambda$")
    ax.set_ylabel(r"density of states $\rho(\lambda)$")


def lowest(spectrum: Spectrum) -> float:
    """The lowest eigenvalue there is: edge, outlier or sample."""
    found = [spectrum.start, *(outlier.value for outlier in spectrum.outliers)]
    if spectrum.pool is not None:
        found.append(float(spectrum.pool.eigenvalues.min()))
    return min(found)


def whole_window(spectrum: Spectrum) -> tuple[float, float]:
    """From a little left of the lowest eigenvalue to the end of the density's grid."""
    left, right = lowest(spectrum), float(spectrum.lam.max())
    return left - 0.05 * (right - left), right


def edge_window(spectrum: Spectrum) -> tuple[float, float]:
    """The left edge and what lies left of it, with as much of the bulk again."""
    left, edge = lowest(spectrum), spectrum.start
    reach = max(edge - left, 0.08 * (spectrum.lam.max() - edge))
    return left - 0.3 * reach, edge + 1.5 * reach
