"""The spectrum at one alpha: density of states, left edge, outlier, and eigenvalues of samples."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from bbp.analysis.spectrum import Pool, Spectrum
from bbp.plots import layout, style

SLIVER = 0.25  # of a panel: what the samples' eigenvalues must cover of it to be drawn as a histogram
MOST_BINS, FEWEST_BINS, PER_BIN = 48, 12, 12  # of a histogram of eigenvalues


def density_curve(ax: Axes, lam: ArrayLike, rho: ArrayLike) -> Line2D:
    """Theory density rho(lambda), arrays (lambda,)."""
    (line,) = ax.plot(lam, rho, color=style.BLACK, label="theory", zorder=3)
    return line


def pooled_eigenvalues(
    ax: Axes, eigenvalues: ArrayLike, edges: ArrayLike, *, total: int, label: str | None = None
) -> StepPatch:
    """Histogram of eigenvalues (any shape) over bins with these edges, as a density of states.

    `total` is the number of all eigenvalues of the matrices they come from, known or not: a histogram of the lowest
    few is then the left part of the histogram of all.
    """
    edges = np.asarray(edges, dtype=np.float64)
    heights = np.histogram(np.ravel(eigenvalues), edges)[0] / (total * np.diff(edges))
    return ax.stairs(
        heights, edges, fill=True, color=style.SKY, alpha=0.65, linewidth=0.0, label=label, zorder=1
    )


def mark_edge(ax: Axes, edge: float, kind: str) -> Line2D:
    """Vertical line at the left edge of the bulk; its label says whether the edge is sharp or smooth."""
    return ax.axvline(
        edge, color=style.GREY, linestyle=(0, (4, 1.6)), linewidth=1.0, zorder=2, label=rf"left edge ({kind})"
    )


def mark_outlier(ax: Axes, outlier: float, overlap: float) -> Line2D:
    """A spike that stands on the axis at the outlier, a sixth of the panel high; its label gives the squared overlap."""
    (line,) = ax.plot(
        [outlier, outlier],
        [0.0, 1 / 6],
        transform=ax.get_xaxis_transform(),
        marker="^",
        markevery=[1],
        markersize=5.5,
        color=style.VERMILION,
        zorder=5,
        label=rf"outlier, $q^2 = {overlap:.3f}$",
    )
    return line


def mark_atom(ax: Axes, mass: float) -> Line2D:
    """Dotted line at 0, where eigenvalues of total mass `mass` sit; its label gives the mass."""
    return ax.axvline(
        0.0, color=style.PURPLE, linestyle=":", linewidth=1.2, zorder=2, label=f"atom at 0, mass {mass:.3g}"
    )


def spectrum_figure(spectrum: Spectrum, *, width: str = "double") -> Figure:
    """Density of states with edge, outlier and pooled eigenvalues: most of the bulk, and the left edge close up."""
    fig = style.new_figure(width, 3.0 if width == "double" else 5.0)
    whole, close = layout.panels(fig, 2, width)
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
        known = min(right, pool.complete_below)
        bins = np.linspace(left, right, bin_count(pool, left, right) + 1)
        bins = bins[bins <= known]
        values = pool.eigenvalues[~pool.null]
        label = f"{len(pool.eigenvalues)} samples, $N = {pool.n}$"
        pairs = pool.eigenvalues.shape[1]
        if pairs < pool.size:
            label += (
                rf", {pairs} lowest of {pool.size} eigenvalues (cut at $\lambda = {pool.complete_below:.3g}$)"
            )
        if bins.size > 1 and known - left > SLIVER * (right - left):
            pooled_eigenvalues(ax, values, bins, total=pool.total, label=label)
    shown = (spectrum.lam >= left) & (spectrum.lam <= right)
    if np.isfinite(spectrum.rho).any():
        density_curve(ax, spectrum.lam[shown], spectrum.rho[shown])
    if np.isfinite(spectrum.edge.value):
        mark_edge(ax, spectrum.edge.value, spectrum.edge.kind)
    for outlier in spectrum.outliers:
        mark_outlier(ax, outlier.value, outlier.overlap)
    if spectrum.atom and left < 0 < right:
        mark_atom(ax, spectrum.atom)
    ax.set_xlim(left, right)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    ax.set_xlabel(r"eigenvalue $\lambda$")
    ax.set_ylabel(r"density of states $\rho(\lambda)$")


def bin_count(pool: Pool, left: float, right: float) -> int:
    """Bins of a histogram between left and right: `PER_BIN` eigenvalues each on average, within limits."""
    inside = np.count_nonzero((pool.eigenvalues >= left) & (pool.eigenvalues <= right))
    return int(np.clip(inside / PER_BIN, FEWEST_BINS, MOST_BINS))


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
