"""What is drawn on axes against alpha: points with errors, bands and means of finite-N theory, curves and
thresholds of N = infinity."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from bbp.analysis.summary import mean_and_error
from bbp.plots import style

Array = NDArray[np.float64]
FINE = 200  # points of a smooth curve
MANY_DRAWS = 100  # of finite-N theory, from which on its mean is drawn as a line
MOST_BANDS = 6  # curves that have a band of one sample's scatter each: more would hide one another
ALPHA = r"$\alpha = M/N$"
THEORY = r"outlier and its $q^2$, $N = \infty$"


def sampled_points(ax: Axes, alpha: ArrayLike, values: ArrayLike, **look: Any) -> ErrorbarContainer:
    """Means over samples with standard errors, values (alpha, sample); look: of `points`, such as `index` and `label`."""
    return points(ax, alpha, *mean_and_error(values), **look)


def points(
    ax: Axes,
    alpha: ArrayLike,
    mean: Array,
    error: Array,
    *,
    index: int = 0,
    count: int = 0,
    filled: bool = True,
    line: bool = False,
    label: str | None = None,
) -> ErrorbarContainer:
    """Points with errors, NaN left out, an unknown error drawn as none; `index`, of `count` curves, picks colour
    and marker.

    alpha, mean (alpha,); error (alpha,), or (2, alpha) below and above; line: from point to point, with gaps at NaN.
    """
    shown = np.isfinite(mean) | line
    tint = style.colour(index, count)
    return ax.errorbar(
        np.asarray(alpha, dtype=np.float64)[shown],
        mean[shown],
        yerr=np.nan_to_num(error[..., shown]).clip(0),
        linestyle="-" if line else "none",
        linewidth=0.8,
        marker=style.marker(index),
        color=tint,
        markerfacecolor=tint if filled else "white",
        elinewidth=0.9,
        zorder=3,
        label=label,
    )


@style.added
def finite_band(
    ax: Axes,
    alpha: ArrayLike,
    mean: ArrayLike,
    scatter: ArrayLike,
    error: ArrayLike | None = None,
    *,
    index: int = 0,
    count: int = 0,
    draws: int = 0,
    low: float = -np.inf,
    label: str | None = None,
) -> None:
    """Finite-N theory (alpha,): its mean, a band of its error and a wider one of a draw's scatter; NaN is left out.
    No band reaches below `low`, 0 of what is never negative.

    Among more than MOST_BANDS curves the wide band is left out. Of fewer draws than MANY_DRAWS (0: not known) the mean is
    dotted from one alpha to the next, in a band of its error twice as dark: it is no smooth truth.
    """
    tint, few = style.colour(index, count), 0 < draws < MANY_DRAWS and error is not None
    known = np.zeros(np.shape(mean)) if error is None else error
    at, (middle, width, own) = between(alpha, mean, scatter, known, smooth=not few)
    wide = [(width, 0.13, 0.4)] if count <= MOST_BANDS else []
    for half, opacity, height in (*wide, (own, 0.6 if few else 0.35, 0.5)):
        look: dict[str, Any] = {"alpha": opacity, "zorder": height, "linewidth": 0}
        ax.fill_between(at, np.maximum(middle - half, low), middle + half, color=tint, **look)
    line = (0, (1, 1.4)) if few else "-"
    ax.plot(at, middle, color=tint, linewidth=1.0, linestyle=line, zorder=1.5, label=label)


def doubt_entry(ax: Axes, said: Sequence[str]) -> None:
    """An entry with every N of which `theory.finite.law.doubts` says something; none where it says nothing."""
    words = " ".join(said)
    sizes = sorted({int(n) for group in re.findall(r"\bN = ([0-9, ]+):", words) for n in group.split(",")})
    if words.strip():
        of = f": $N = {', '.join(map(str, sizes))}$" if sizes else ""
        look: dict[str, Any] = {"marker": "$?$", "linestyle": "none", "color": style.GREY}
        ax.plot([], [], label=f"theory not known to hold{of}", **look)


def between(alpha: ArrayLike, *curves: ArrayLike, smooth: bool = True) -> tuple[Array, list[Array]]:
    """Smooth curves (alpha,) on a finer grid: monotone cubics through the points that all have, those themselves if under 3 or
    not smooth.

    For theory at finite N, whose means are smooth in alpha (theory.finite.draw), not for samples.
    """
    from scipy.interpolate import PchipInterpolator

    rows = [np.asarray(curve, dtype=np.float64) for curve in curves]
    known = np.all(np.isfinite(rows), axis=0)
    at = np.asarray(alpha, dtype=np.float64)[known]
    if len(at) < 3 or not smooth:
        return at, [row[known] for row in rows]
    fine = np.unique(np.concatenate([at, np.linspace(at[0], at[-1], FINE)]))
    return fine, [PchipInterpolator(at, row[known])(fine) for row in rows]


def edge_and_outlier(
    ax: Axes, alpha: ArrayLike, edge: ArrayLike, outlier: ArrayLike, *, name: str = ""
) -> tuple[Line2D, Line2D]:
    """Theory curves of the left edge and of the outlier, shapes (alpha,), NaN where there is none; labelled where they show.

    name   of the result whose theory this is
    """
    look: dict[str, Any] = {"color": style.GREY, "linestyle": (0, (4, 1.6)), "zorder": 2}
    (below,) = ax.plot(alpha, edge, label=_if_any(edge, said(name, r"left edge, $N = \infty$")), **look)
    (out,) = ax.plot(
        alpha, outlier, color=style.BLACK, label=_if_any(outlier, said(name, THEORY)), zorder=2.1
    )
    return below, out


def overlap_curve(ax: Axes, alpha: ArrayLike, overlap: ArrayLike, *, name: str = "") -> Line2D:
    """Theory curve of the squared overlap (alpha,), NaN left out; labelled where it shows."""
    (line,) = ax.plot(alpha, overlap, color=style.BLACK, zorder=2, label=_if_any(overlap, said(name, THEORY)))
    return line


def _if_any(values: ArrayLike, label: str) -> str:
    """The label, or one that no legend shows where there is nothing to see."""
    return label if np.any(np.isfinite(np.asarray(values, dtype=np.float64))) else "_nothing"


def mark_threshold(ax: Axes, alpha_bbp: float, kind: str, *, name: str = "") -> Line2D | None:
    """Vertical line at alpha_BBP whose label says value and kind; dash-dotted if continuous, else dotted; None without one."""
    if not np.isfinite(alpha_bbp):
        return None
    return ax.axvline(
        alpha_bbp,
        color=style.GREY,
        linestyle=style.THRESHOLD_LINES.get(kind, "-."),
        linewidth=0.9,
        zorder=1,
        label=said(name, rf"$\alpha_\mathrm{{BBP}} = {style.number(alpha_bbp)}$, {kind}"),
    )


def said(name: str, words: str) -> str:
    """Words of a legend, of a result with this name."""
    return f"{name}: {words}" if name else words
