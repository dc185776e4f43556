"""Gradient descent: overlap with the teacher at the end, along the path, and in the Hessian's eigenvectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from bbp.analysis.recovery import THRESHOLD, chance, recovery
from bbp.analysis.summary import mean_and_error
from bbp.experiments import models
from bbp.plots import layout, style
from bbp.plots import sweep as sweep_plots
from theory.checks import ParameterError

Array = NDArray[np.float64]
NAMES = {
    "random": "random start",
    "hessian": "start at the Hessian's outliers",
    "spectral": "start at the spectral estimate",
}
ROUTES = {
    "conditioned": "--",
    "quenched": "-.",
}  # of theory along the way (sims.dynamics.hessians), and their lines
WORDS = {"conditioned": "theory of the path", "quenched": "theory of the labels"}
CURVES = 4  # alphas whose paths are drawn


def descent_figure(found: xr.Dataset, *, width: str = "double") -> Figure:
    """Final m2 against alpha for every start; m2, the overlap of eigenvectors and the lowest eigenvalue in time from the first.

    All at the largest N. Without Hessians in the file the third panel is left out, and the fourth without theory of them. Bands
    are standard errors over samples.
    """
    n, first, drawn = int(found.n[-1]), str(found.start.values[0]), panels(found)
    count = len(drawn)
    if count == 4 and width == "double":
        fig = style.new_figure(width, 5.2)
        axes = layout.lettered(list(np.ravel(fig.subplots(2, 2))))
    else:
        fig = style.new_figure(width, 2.9 if width == "double" else 2.3 * count + 0.9)
        axes = layout.panels(fig, count, width)
    for ax, draw in zip(axes, drawn, strict=True):
        draw(ax)
    layout.name_model(axes[0], models.of(found))
    axes[1].set_title(f"$N = {n}$, {NAMES.get(first, first)}", loc="right", pad=3.0)
    layout.legend_above(fig, axes, 4 if width == "double" else 1)
    return fig


def panels(found: xr.Dataset) -> list[Callable[[Axes], object]]:
    """What draws each panel of the figure of descents, in order."""
    of: dict[str, Any] = {"found": found, "n": int(found.n[-1]), "start": str(found.start.values[0])}
    of["alphas"] = spread_alphas(found)
    drawn = [partial(final_panel, found=found), partial(path_curves, **of)]
    if found.sizes["hessian_step"]:
        drawn.append(partial(eigenvector_curves, **of))
        drawn += [partial(eigenvalue_curves, **of)] if has_theory(found) else []
    return list(drawn)


@style.added
def final_panel(ax: Axes, found: xr.Dataset) -> None:
    """Mean m2 at the end and at the start against alpha for every start, at the largest N."""
    n = int(found.n[-1])
    for index, start in enumerate(found.start.values.tolist()):
        seen = recovery(found, n, start)
        final_points(ax, seen, index=index, label=NAMES.get(start, start))
        start_line(ax, seen, index=index)
    ax.plot([], [], label="at the start", **_start_look(style.GREY))
    sweep_plots.mark_threshold(ax, found.alpha_bbp, found.attrs["kind"])
    chance_line(ax, chance(found.attrs["p"], found.attrs["p_star"], n))
    ax.set_xlabel(r"$\alpha = M/N$")
    ax.set_ylabel(r"squared magnetisation $m^2$")


def figure(found: xr.Dataset | Mapping[str, xr.Dataset], *, width: str = "double") -> Figure:
    """The figure of descents; of several runs, by name, that of their recovery from the first start that all have."""
    if isinstance(found, xr.Dataset):
        return descent_figure(found, width=width)
    starts = [set(one.start.values.tolist()) for one in found.values()]
    common = [
        name for name in next(iter(found.values())).start.values.tolist() if all(name in s for s in starts)
    ]
    if not common:
        raise ParameterError("descents in one figure must have a start in common")
    return recovery_figure(found, start=common[0], width=width)


def recovery_figure(
    runs: Mapping[str, xr.Dataset],
    *,
    start: str = "random",
    width: str = "double",
    threshold: float = THRESHOLD,
) -> Figure:
    """Several runs, by name, from one start, each of their N a curve: final m2, and the fraction of samples that recover."""
    fig = style.new_figure(width, 3.0 if width == "double" else 5.0)
    magnetisation, fraction = layout.panels(fig, 2, width)
    index, count = 0, sum(found.sizes["n"] for found in runs.values())
    for name, found in runs.items():
        for n in found.n.values.tolist():
            look: dict[str, Any] = {"index": index, "count": count, "label": f"{name}: $N = {n}$"}
            seen = recovery(found, n, start, threshold)
            final_points(magnetisation, seen, line=True, **look)
            success_points(fraction, seen, **look)
            for ax in (magnetisation, fraction):
                tint = style.colour(index, count)
                ax.axvline(found.alpha_bbp, color=tint, linestyle=":", linewidth=0.9, zorder=1)
            index += 1
    for ax, name in ((magnetisation, r"final $m^2$"), (fraction, rf"fraction with $m^2 > {threshold:g}$")):
        ax.plot(
            [], [], color=style.GREY, linestyle=":", linewidth=0.9, label=r"$\alpha_\mathrm{BBP}$ of each"
        )
        ax.set_xlabel(r"$\alpha = M/N$")
        ax.set_ylabel(name)
        ax.set_ylim(-0.03, 1.05)
    layout.title(magnetisation, sweep_plots.model_title(runs))
    fraction.set_title(NAMES.get(start, start), loc="right", pad=3.0)
    layout.legend_above(fig, [magnetisation, fraction], 3 if width == "double" else 2)
    return fig


def final_points(
    ax: Axes, seen: xr.Dataset, *, index: int, label: str, count: int = 0, line: bool = False
) -> ErrorbarContainer:
    """Mean final m2 with bootstrap errors against alpha."""
    values, errors = seen.final.values, np.nan_to_num(seen.final_error.values)
    # means of numbers between 0 and 1: no bar leaves that range
    bars = np.stack([np.minimum(errors, values), np.minimum(errors, 1 - values)]).clip(0)
    return _errorbar(ax, seen.alpha.values, values, bars, index=index, count=count, label=label, line=line)


def success_points(
    ax: Axes, seen: xr.Dataset, *, index: int, label: str, count: int = 0
) -> ErrorbarContainer:
    """Fraction of samples that recover, with its 95 % interval, against alpha."""
    share, low, high = (seen[f"success{end}"].values for end in ("", "_low", "_high"))
    bars = np.nan_to_num(np.stack([share - low, high - share])).clip(0)
    return _errorbar(ax, seen.alpha.values, share, bars, index=index, count=count, label=label, line=True)


def start_line(ax: Axes, seen: xr.Dataset, *, index: int, label: str | None = None) -> Line2D:
    """Mean m2 at the start against alpha, open markers on a thin dashed line in the colour of its points."""
    look = _start_look(style.colour(index)) | {"marker": style.marker(index)}
    (line,) = ax.plot(seen.alpha.values, seen.initial.values, **look, zorder=2, label=label)
    return line


def _start_look(tint: str) -> dict[str, Any]:
    return {
        "color": tint,
        "linestyle": "--",
        "linewidth": 0.8,
        "marker": style.marker(0),
        "markerfacecolor": "white",
    }


def chance_line(ax: Axes, value: float) -> Line2D:
    """Horizontal line at the mean m2 of random students."""
    return ax.axhline(
        value, color=style.GREY, linestyle=":", linewidth=1.0, zorder=1, label="$m^2$ by chance"
    )


@style.added
def path_curves(ax: Axes, found: xr.Dataset, n: int, start: str, alphas: Sequence[float]) -> None:
    """m2 against the time of gradient flow, mean over samples, a curve for each alpha."""
    found = found.sel(n=n, start=start)
    drawn = []
    for index, alpha in enumerate(alphas):
        i = int(np.argmin(np.abs(found.alpha.values - alpha)))
        label = rf"$\alpha = {float(found.alpha[i]):.4g}$"
        look = _look(index, len(alphas)) | {"markevery": (0.03 + 0.03 * index, 0.15)}
        drawn.append(_in_time(ax, found.time.values[i], found.m2.values[i], label=label, **look))
    time_axis(ax, drawn)
    ax.set_ylabel(r"mean $m^2(t)$")


@style.added
def eigenvector_curves(
    ax: Axes, found: xr.Dataset, n: int, start: str, alphas: Sequence[float], frame: str = "riemannian"
) -> None:
    """Largest q2 among the lowest eigenvectors kept of the Hessian, against time; mean over samples."""
    found = found.sel(n=n, start=start)
    moments = np.searchsorted(found.step.values, found.hessian_step.values)
    drawn = []
    for index, alpha in enumerate(alphas):
        i = int(np.argmin(np.abs(found.alpha.values - alpha)))
        largest = found.overlaps.sel(frame=frame).values[i].max(axis=-1)
        drawn.append(_in_time(ax, found.time.values[i][:, moments], largest, **_look(index, len(alphas))))
    time_axis(ax, drawn)
    ax.set_ylabel(rf"largest $q^2$, {found.sizes['eigenpair']} lowest pairs")


@style.added
def eigenvalue_curves(ax: Axes, found: xr.Dataset, n: int, start: str, alphas: Sequence[float]) -> None:
    """Lowest eigenvalue of the plain Hessian (points) against time beside theory of its path and of its labels (lines).

    Theory is drawn as far as all samples have it: that of labels ends where they are fitted.
    """
    found = found.sel(n=n, start=start)
    moments = np.searchsorted(found.step.values, found.hessian_step.values)
    drawn = []
    for index, alpha in enumerate(alphas):
        i = int(np.argmin(np.abs(found.alpha.values - alpha)))
        time = found.time.values[i][:, moments]
        sampled = found.eigenvalues.sel(frame="plain").values[i][..., 0]
        look = _look(index, len(alphas))
        tint = {"color": look["color"]}
        drawn.append(_in_time(ax, time, sampled, **look, linestyle="none"))
        for route, line in ROUTES.items():
            lowest = _lowest(found, route)[i]
            ax.plot(*mean_in_time(*_known(time, lowest)), **tint, linestyle=line)
    for route, line in ROUTES.items():
        ax.plot([], [], color=style.GREY, linestyle=line, label=WORDS[route])
    time_axis(ax, drawn, low=None)
    ax.set_ylabel(r"lowest eigenvalue $\lambda_1$")


def has_theory(found: xr.Dataset) -> bool:
    """Whether descents hold any number of theory along their way."""
    held = [found[f"{route}_edge"] for route in ROUTES if f"{route}_edge" in found]
    return any(bool(np.isfinite(values).any()) for values in held)


def _lowest(found: xr.Dataset, route: str) -> Array:
    """Lowest eigenvalue by a route: what conditioned theory says; the outlier of quenched theory, or its edge."""
    if f"{route}_edge" not in found:
        return np.full(found.quenched_edge.shape, np.nan)
    if route == "conditioned":
        return found.conditioned_lowest.values
    return np.where(np.isfinite(found.quenched_outlier), found.quenched_outlier, found.quenched_edge)


def _known(time: Array, values: Array) -> tuple[Array, Array]:
    """The first records (sample, record) of the samples that have any value, up to the last that all of them have."""
    known = np.isfinite(values)
    rows = known.any(axis=1)
    many = int(np.argmin(np.append(known[rows].all(axis=0), False)))
    return time[rows, :many], values[rows, :many]


def _in_time(ax: Axes, time: Array, values: Array, **look: Any) -> Line2D:
    """The mean over samples (sample, record) in time, and a band of its standard error."""
    common, rows = samples_in_time(time, values)
    mean, error = mean_and_error(rows.T)
    ax.fill_between(common, mean - error, mean + error, color=look["color"], alpha=0.2, linewidth=0)
    (line,) = ax.plot(common, mean, **look)
    return line


def time_axis(ax: Axes, drawn: Sequence[Line2D], low: float | None = 0) -> None:
    """Time on a logarithmic axis that still holds t = 0, at its left end; `low` is where the ordinate begins."""
    positive = [t[t > 0].min() for line in drawn if (t := np.asarray(line.get_xdata())).max(initial=0) > 0]
    # a whole power of ten, so that its tick and that of 0 stay apart
    least = 10.0 ** np.ceil(np.log10(min(positive, default=1.0)))
    ax.set_xscale("symlog", linthresh=least, linscale=0.7)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=low)
    ax.set_xlabel(r"time $t$ of gradient flow")


def mean_in_time(time: Array, values: Array) -> tuple[Array, Array]:
    """Times (time,) and the mean over samples there: see `samples_in_time`; both empty without samples."""
    common, rows = samples_in_time(time, values)
    return common, rows.mean(axis=0) if len(rows) else np.zeros(0)


def samples_in_time(time: Array, values: Array) -> tuple[Array, Array]:
    """Values (sample, record) recorded at times (sample, record) as (sample, time) at the samples' mean times, (time,), and
    where the last has ended.

    The first record is that at t = 0. From the first that has moved on each sample is interpolated linearly in log t, and keeps
    its last value once it has ended. Samples without a result, or that never moved, are left out.
    """
    good = np.all(np.isfinite(values), axis=1) & (time.max(axis=1, initial=0) > 0)
    time, values = time[good], values[good]
    if not len(time):
        return np.zeros(0), np.zeros((0, 0))
    common = np.unique(np.append(time[:, 1:].mean(axis=0), time.max()))
    common = common[common > 0]
    moved = [np.interp(np.log(common), np.log(t[t > 0]), v[t > 0]) for t, v in zip(time, values, strict=True)]
    return np.append(0.0, common), np.column_stack([values[:, 0], np.array(moved)])


def spread_alphas(found: xr.Dataset, count: int = CURVES) -> list[float]:
    """At most `count` alphas of the file, spread over its grid, the ends among them."""
    alpha = found.alpha.values
    chosen = np.unique(np.linspace(0, alpha.size - 1, min(count, alpha.size)).round().astype(int))
    return [float(value) for value in alpha[chosen]]


def _errorbar(
    ax: Axes, alpha: Array, values: Array, bars: Array, *, index: int, count: int, label: str, line: bool
) -> ErrorbarContainer:
    """Points (alpha,) with bars (2, alpha), below and above."""
    return ax.errorbar(
        alpha,
        values,
        yerr=bars,
        linestyle="-" if line else "none",
        linewidth=0.8,
        marker=style.marker(index),
        color=style.colour(index, count),
        elinewidth=0.9,
        zorder=3,
        label=label,
    )


def _look(index: int, count: int) -> dict[str, Any]:
    """Colour, from dark to light as alpha grows, and marker of curve number `index` of `count`, the same in every panel."""
    return {"color": style.ordered(index, count), "marker": style.marker(index), "markersize": 3.0}
