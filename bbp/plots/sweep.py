"""A sweep over alpha: sampled lowest eigenvalues and overlaps with the theory's edge, outlier and overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from bbp.analysis.summary import mean_and_error
from bbp.plots import style
from theory.late_scipy import monotone_cubic

Array = NDArray[np.float64]
FINE = 200  # points of a smooth curve
LACKS = {
    "no edge": r"no left edge at $N = \infty$: no outlier, no threshold",
    "none": r"no $\alpha_\mathrm{BBP}$",
    "unresolved": "theory not resolved",
}
THEORY = r"outlier and its $q^2$, $N = \infty$"


def sampled_points(
    ax: Axes,
    alpha: ArrayLike,
    values: ArrayLike,
    *,
    index: int = 0,
    filled: bool = True,
    label: str | None = None,
) -> ErrorbarContainer:
    """Means over samples with standard errors, values (alpha, sample); `index` picks colour and marker."""
    return points(ax, alpha, *mean_and_error(values), index=index, filled=filled, label=label)


def points(
    ax: Axes,
    alpha: ArrayLike,
    mean: Array,
    error: Array,
    *,
    index: int = 0,
    filled: bool = True,
    label: str | None = None,
) -> ErrorbarContainer:
    """Points with errors, NaN left out, an unknown error drawn as none; `index` picks colour and marker.

    alpha, mean (alpha,); error (alpha,), or (2, alpha) below and above.
    """
    shown = np.isfinite(mean)
    tint = style.colour(index)
    return ax.errorbar(
        np.asarray(alpha, dtype=np.float64)[shown],
        mean[shown],
        yerr=np.nan_to_num(error[..., shown]).clip(0),
        linestyle="none",
        marker=style.marker(index),
        color=tint,
        markerfacecolor=tint if filled else "white",
        elinewidth=0.9,
        zorder=3,
        label=label,
    )


def finite_band(
    ax: Axes,
    alpha: ArrayLike,
    mean: ArrayLike,
    scatter: ArrayLike,
    error: ArrayLike | None = None,
    *,
    index: int = 0,
    label: str | None = None,
) -> Line2D:
    """Finite-N theory (alpha,): its mean, a band of its error and a wider one of a draw's scatter; NaN is left out."""
    tint = style.colour(index)
    at, (middle, width, own) = between(
        alpha, mean, scatter, np.zeros(np.shape(mean)) if error is None else error
    )
    for half, opacity in ((width, 0.13), (own, 0.35)):
        ax.fill_between(at, middle - half, middle + half, color=tint, alpha=opacity, linewidth=0, zorder=0.5)
    (line,) = ax.plot(at, middle, color=tint, linewidth=1.0, zorder=1.5, label=label)
    return line


def name_bands(ax: Axes) -> None:
    """An entry of the legend for the bands of `finite_band`, in no N's colour."""
    ax.fill_between([], [], [], color=style.GREY, alpha=0.3, linewidth=0, label="scatter of one sample")


def between(alpha: ArrayLike, *curves: ArrayLike) -> tuple[Array, list[Array]]:
    """Smooth curves (alpha,) on a finer grid: monotone cubics through the points that all have, those themselves if under 3.

    For theory at finite N, whose means are smooth in alpha (theory.finite.many_labels), not for samples.
    """
    rows = [np.asarray(curve, dtype=np.float64) for curve in curves]
    known = np.all(np.isfinite(rows), axis=0)
    at = np.asarray(alpha, dtype=np.float64)[known]
    if len(at) < 3:
        return at, [row[known] for row in rows]
    fine = np.unique(np.concatenate([at, np.linspace(at[0], at[-1], FINE)]))
    return fine, [monotone_cubic(at, row[known])(fine) for row in rows]


def edge_and_outlier(
    ax: Axes, alpha: ArrayLike, edge: ArrayLike, outlier: ArrayLike
) -> tuple[Line2D, Line2D]:
    """Theory curves of the left edge and of the outlier, shapes (alpha,), NaN where there is none; named where they show."""
    look: dict[str, Any] = {"color": style.GREY, "linestyle": (0, (4, 1.6)), "zorder": 2}
    (below,) = ax.plot(alpha, edge, label=_if_any(edge, r"left edge, $N = \infty$"), **look)
    (out,) = ax.plot(alpha, outlier, color=style.BLACK, label=_if_any(outlier, THEORY), zorder=2.1)
    return below, out


def overlap_curve(ax: Axes, alpha: ArrayLike, overlap: ArrayLike) -> Line2D:
    """Theory curve of the squared overlap (alpha,), NaN left out; named where it shows."""
    (line,) = ax.plot(alpha, overlap, color=style.BLACK, zorder=2, label=_if_any(overlap, THEORY))
    return line


def _if_any(values: ArrayLike, label: str) -> str:
    """The label, or one that no legend shows where there is nothing to see."""
    return label if np.any(np.isfinite(np.asarray(values, dtype=np.float64))) else "_nothing"


def name_lack(ax: Axes, alpha_bbp: float, kind: str) -> None:
    """Above the upper right corner, that there is no threshold and why; nothing where there is one."""
    if not np.isfinite(alpha_bbp):
        ax.set_title(LACKS.get(kind, f"theory: {kind}"), loc="right", pad=3.0)


def mark_threshold(ax: Axes, alpha_bbp: float, kind: str) -> Line2D | None:
    """Vertical line at alpha_BBP whose label says value and kind; dash-dotted if continuous, else dotted; None without one."""
    if not np.isfinite(alpha_bbp):
        return None
    return ax.axvline(
        alpha_bbp,
        color=style.GREY,
        linestyle=style.THRESHOLD_LINES.get(kind, "-."),
        linewidth=0.9,
        zorder=1,
        label=rf"$\alpha_\mathrm{{BBP}} = {alpha_bbp:.4g}$, {kind}",
    )
