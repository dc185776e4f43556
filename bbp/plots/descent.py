"""Gradient descent: overlap with the teacher at the end, along the path, and in the Hessian's eigenvectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from bbp.analysis.bootstrap import Estimate
from bbp.analysis.recovery import THRESHOLD, Recovery, chance, recovery
from bbp.experiments.descent_file import DescentData
from bbp.plots import layout, style
from bbp.plots import sweep as sweep_plots

Array = NDArray[np.float64]
NAMES = {
    "random": "random start",
    "hessian": "start at the Hessian's outliers",
    "spectral": "start at the spectral estimate",
}
CURVES = 4  # alphas whose paths are drawn
LINES: tuple[str, ...] = ("-", "--", "-.", ":")


def descent_figure(found: DescentData, *, width: str = "double") -> Figure:
    """Final m2 against alpha for every start; m2 and the overlap of eigenvectors in time from the first start.

    All at the largest N. Without Hessians in the file the third panel is left out.
    """
    n, first = int(found.dims["n"][-1]), str(found.dims["start"][0])
    hessians = found.dims["hessian_step"].size > 0
    count = 3 if hessians else 2
    fig = style.new_figure(width, 2.9 if width == "double" else 2.3 * count + 0.9)
    axes = layout.panels(fig, count, width)
    for index, start in enumerate(found.dims["start"].tolist()):
        seen = recovery(found, n, start)
        final_points(axes[0], seen, index=index, label=NAMES.get(start, start))
        start_line(axes[0], seen, index=index, label=f"{NAMES.get(start, start)}, before")
    sweep_plots.mark_threshold(axes[0], found.alpha_bbp, found.attributes["kind"])
    chance_line(axes[0], chance(found.model.p, found.model.p_star, n))
    axes[0].set_xlabel(r"$\alpha = M/N$")
    axes[0].set_ylabel(r"squared magnetisation $m^2$")
    chosen = spread_alphas(found)
    path_curves(axes[1], found, n, first, chosen)
    if hessians:
        eigenvector_curves(axes[2], found, n, first, chosen)
    layout.name_model(axes[0], found.model)
    axes[1].set_title(f"$N = {n}$, {NAMES.get(first, first)}", loc="right", pad=3.0)
    layout.legend_above(fig, axes, 4 if width == "double" else 1)
    return fig


def recovery_figure(
    runs: Sequence[DescentData], *, start: str = "random", width: str = "double", threshold: float = THRESHOLD
) -> Figure:
    """Several runs from one start, each of their N a curve: final m2, and the fraction of samples that recover."""
    fig = style.new_figure(width, 3.0 if width == "double" else 5.0)
    magnetisation, fraction = layout.panels(fig, 2, width)
    index = 0
    for found in runs:
        for n in found.dims["n"].tolist():
            name = rf"$p = {found.model.p}$, $p^* = {found.model.p_star}$, $N = {n}$"
            seen = recovery(found, n, start, threshold)
            final_points(magnetisation, seen, index=index, label=name, line=True)
            success_points(fraction, seen, index=index, label=name)
            for ax in (magnetisation, fraction):
                ax.axvline(found.alpha_bbp, color=style.colour(index), linestyle=":", linewidth=0.9, zorder=1)
            index += 1
    for ax, name in ((magnetisation, r"final $m^2$"), (fraction, rf"fraction with $m^2 > {threshold:g}$")):
        ax.plot(
            [], [], color=style.GREY, linestyle=":", linewidth=0.9, label=r"$\alpha_\mathrm{BBP}$ of each $p$"
        )
        ax.set_xlabel(r"$\alpha = M/N$")
        ax.set_ylabel(name)
        ax.set_ylim(-0.03, 1.05)
    magnetisation.set_title(f"$a = {runs[0].model.a:g}$, {NAMES.get(start, start)}", loc="right", pad=3.0)
    layout.legend_above(fig, [magnetisation, fraction], 3 if width == "double" else 2)
    return fig


def final_points(
    ax: Axes, seen: Recovery, *, index: int, label: str, line: bool = False
) -> ErrorbarContainer:
    """Mean final m2 with bootstrap errors against alpha."""
    return _points(ax, seen.alpha, seen.final, index=index, label=label, line=line)


def success_points(ax: Axes, seen: Recovery, *, index: int, label: str) -> ErrorbarContainer:
    """Fraction of samples that recover, with its 95 % interval, against alpha."""
    share, low, high = (
        np.array([getattr(e, part) for e in seen.success]) for part in ("value", "low", "high")
    )
    bars = np.nan_to_num(np.stack([share - low, high - share])).clip(0)
    return _errorbar(ax, seen.alpha, share, bars, index=index, label=label, line=True)


def start_line(ax: Axes, seen: Recovery, *, index: int, label: str | None = None) -> Line2D:
    """Mean m2 at the start against alpha, a thin dashed line in the colour of its points."""
    values = [estimate.value for estimate in seen.initial]
    look: dict[str, Any] = {"color": style.colour(index), "linestyle": "--", "linewidth": 0.8}
    (line,) = ax.plot(seen.alpha, values, **look, zorder=2, label=label)
    return line


def chance_line(ax: Axes, value: float) -> Line2D:
    """Horizontal line at the mean m2 of random students."""
    return ax.axhline(
        value, color=style.GREY, linestyle=":", linewidth=1.0, zorder=1, label="$m^2$ by chance"
    )


def path_curves(ax: Axes, found: DescentData, n: int, start: str, alphas: Sequence[float]) -> list[Line2D]:
    """m2 against the time of gradient flow, mean over samples, a curve for each alpha."""
    where = _position(found, n, start)
    drawn = []
    for index, alpha in enumerate(alphas):
        i = int(np.argmin(np.abs(found.dims["alpha"] - alpha)))
        time, mean = mean_in_time(found.time[where][i], found.m2[where][i])
        (line,) = ax.plot(
            time, mean, **_look(index, len(alphas)), label=rf"$\alpha = {found.dims['alpha'][i]:.4g}$"
        )
        drawn.append(line)
    time_axis(ax, drawn)
    ax.set_ylabel(r"mean $m^2(t)$")
    return drawn


def eigenvector_curves(
    ax: Axes, found: DescentData, n: int, start: str, alphas: Sequence[float], frame: str = "riemannian"
) -> list[Line2D]:
    """Largest q2 among the lowest eigenvectors kept of the Hessian, against time; mean over samples."""
    where = _position(found, n, start)
    moments = np.searchsorted(found.dims["step"], found.dims["hessian_step"])
    drawn = []
    for index, alpha in enumerate(alphas):
        i = int(np.argmin(np.abs(found.dims["alpha"] - alpha)))
        largest = found.overlaps[where][i][:, :, found.dims["frame"].tolist().index(frame)].max(axis=-1)
        time, mean = mean_in_time(found.time[where][i][:, moments], largest)
        (line,) = ax.plot(time, mean, marker=style.marker(index), markersize=2.5, **_look(index, len(alphas)))
        drawn.append(line)
    time_axis(ax, drawn)
    ax.set_ylabel(rf"largest $q^2$, {found.dims['eigenpair'].size} lowest pairs")
    return drawn


def time_axis(ax: Axes, drawn: Sequence[Line2D]) -> None:
    """Time on a logarithmic axis that still holds t = 0, at its left end."""
    positive = [t[t > 0].min() for line in drawn if (t := np.asarray(line.get_xdata())).max(initial=0) > 0]
    # a whole power of ten, so that its tick and that of 0 stay apart
    least = 10.0 ** np.ceil(np.log10(min(positive, default=1.0)))
    ax.set_xscale("symlog", linthresh=least, linscale=0.7)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.set_xlabel(r"time $t$ of gradient flow")


def mean_in_time(time: Array, values: Array) -> tuple[Array, Array]:
    """Mean over samples of values (sample, record) recorded at times (sample, record), at the samples' mean times and
    where the last has ended.

    The first record is that at t = 0. From the first that has moved on each sample is interpolated linearly in log t, and keeps
    its last value once it has ended. Samples without a result, or that never moved, are left out.
    """
    good = np.all(np.isfinite(values), axis=1) & (time[:, -1] > 0)
    time, values = time[good], values[good]
    if not len(time):
        return np.zeros(0), np.zeros(0)
    common = np.unique(np.append(time[:, 1:].mean(axis=0), time.max()))
    common = common[common > 0]
    moved = [np.interp(np.log(common), np.log(t[t > 0]), v[t > 0]) for t, v in zip(time, values, strict=True)]
    return np.append(0.0, common), np.append(values[:, 0].mean(), np.mean(moved, axis=0))


def spread_alphas(found: DescentData, count: int = CURVES) -> list[float]:
    """At most `count` alphas of the file, spread over its grid, the ends among them."""
    alpha = found.dims["alpha"]
    chosen = np.unique(np.linspace(0, alpha.size - 1, min(count, alpha.size)).round().astype(int))
    return [float(value) for value in alpha[chosen]]


def _points(
    ax: Axes, alpha: Array, estimates: list[Estimate], *, index: int, label: str, line: bool
) -> ErrorbarContainer:
    values = np.array([e.value for e in estimates])
    errors = np.nan_to_num([e.error for e in estimates])
    # means of numbers between 0 and 1: no bar leaves that range
    bars = np.stack([np.minimum(errors, values), np.minimum(errors, 1 - values)]).clip(0)
    return _errorbar(ax, alpha, values, bars, index=index, label=label, line=line)


def _errorbar(
    ax: Axes, alpha: Array, values: Array, bars: Array, *, index: int, label: str, line: bool
) -> ErrorbarContainer:
    """Points (alpha,) with bars (2, alpha), below and above."""
    return ax.errorbar(
        alpha,
        values,
        yerr=bars,
        linestyle="-" if line else "none",
        linewidth=0.8,
        marker=style.marker(index),
        color=style.colour(index),
        elinewidth=0.9,
        zorder=3,
        label=label,
    )


def _look(index: int, count: int) -> dict[str, Any]:
    """Colour, from dark to light as alpha grows, and line of curve number `index` of `count`."""
    tint = mpl.colormaps["viridis"](0.85 * index / max(count - 1, 1))
    return {"color": tint, "linestyle": LINES[index % len(LINES)]}


def _position(found: DescentData, n: int, start: str) -> tuple[int, int]:
    return found.dims["n"].tolist().index(n), found.dims["start"].tolist().index(start)
