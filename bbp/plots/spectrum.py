"""The spectrum at one alpha: density of states, left edge, outlier, and eigenvalues of samples."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from numpy.typing import ArrayLike

from bbp.plots import style


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
