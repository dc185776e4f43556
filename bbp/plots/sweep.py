"""A sweep over alpha: sampled lowest eigenvalues and overlaps with the theory's edge, outlier and overlap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from bbp import style

Array = NDArray[np.float64]
THEORY = r"outlier and its $q^2$, theory"


@dataclass(frozen=True)
class Sampled:
    """What samples of one size N say at each alpha, shapes (alpha,): mean and standard error over the samples."""

    mean: Array
    error: Array
    count: NDArray[np.int64]


def over_samples(values: ArrayLike) -> Sampled:
    """Mean and standard error of values (alpha, sample); NaN marks a sample that is missing.

    The error is NaN where fewer than two samples are left, the mean is NaN where none is.
    """
    values = np.asarray(values, dtype=np.float64)
    present = np.isfinite(values)
    count = present.sum(axis=1)
    kept = np.where(present, values, 0.0)
    some, several = np.maximum(count, 1), np.maximum(count - 1, 1)
    mean = np.where(count > 0, kept.sum(axis=1) / some, np.nan)
    spread = np.where(present, values - mean[:, None], 0.0)
    error = np.sqrt((spread**2).sum(axis=1) / several / some)
    return Sampled(mean, np.where(count > 1, error, np.nan), count)


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
    points = over_samples(values)
    shown = points.count > 0
    tint = style.colour(index)
    return ax.errorbar(
        np.asarray(alpha, dtype=np.float64)[shown],
        points.mean[shown],
        yerr=np.nan_to_num(points.error[shown]),
        linestyle="none",
        marker=style.marker(index),
        color=tint,
        markerfacecolor=tint if filled else "white",
        elinewidth=0.9,
        zorder=3,
        label=label,
    )


def edge_and_outlier(
    ax: Axes, alpha: ArrayLike, edge: ArrayLike, outlier: ArrayLike
) -> tuple[Line2D, Line2D]:
    """Theory curves of the left edge and of the outlier, shapes (alpha,); the outlier is NaN where there is none."""
    (below,) = ax.plot(
        alpha, edge, color=style.GREY, linestyle=(0, (4, 1.6)), label="left edge, theory", zorder=2
    )
    (out,) = ax.plot(alpha, outlier, color=style.BLACK, label=THEORY, zorder=2.1)
    return below, out


def overlap_curve(ax: Axes, alpha: ArrayLike, overlap: ArrayLike) -> Line2D:
    """Theory curve of the squared overlap (alpha,), zero where there is no outlier (NaN)."""
    (line,) = ax.plot(
        alpha, np.nan_to_num(np.asarray(overlap, dtype=np.float64)), color=style.BLACK, zorder=2
    )
    line.set_label(THEORY)
    return line


def mark_threshold(ax: Axes, alpha_bbp: float, kind: str) -> Line2D:
    """Vertical line at alpha_BBP whose label says its value and kind; solid if continuous, dashed if not."""
    return ax.axvline(
        alpha_bbp,
        color=style.KIND_COLOURS[kind],
        linestyle=style.KIND_LINES[kind],
        linewidth=0.9,
        alpha=0.8,
        zorder=1,
        label=rf"$\alpha_\mathrm{{BBP}} = {alpha_bbp:.4g}$, {kind}",
    )
