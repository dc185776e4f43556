"""Gradient descent: overlap with the teacher at the end, along the path, and in the Hessian's eigenvectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from bbp.analysis.recovery import THRESHOLD, chance, recovery
from bbp.analysis.summary import mean_and_error
from bbp.experiments import models
from bbp.plots import layout, marks, style
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
    square, count = len(drawn) == 4, len(drawn)
    height = (5.2 if square else 2.9) if width == "double" else 2.3 * count + 0.9
    fig, axes = layout.figure(count, height, width, 2 if square else count)
    for ax, draw in zip(axes, drawn, strict=True):
        draw(ax)
    layout.name_model(axes[0], models.of(found))
    layout.title(axes[1], f"$N = {n}$, {NAMES.get(first, first)}")
    layout.legend_above(fig, axes, 4 if width == "double" else 1)
    return fig


def panels(found: xr.Dataset) -> list[Callable[[Axes], list[Artist]]]:
    """What draws each panel of the figure of descents, in order."""
    hessians = ["overlap", *(["lowest"] if has_theory(found) else [])] if found.sizes["hessian_step"] else []
    drawn = [partial(time_panel, found=found, name=name) for name in ("m2", *hessians)]
    return [partial(final_panel, found=found), *drawn]


@style.added
def final_panel(ax: Axes, found: xr.Dataset) -> None:
    """Mean m2 at the end and at the start against alpha for every start, at the largest N."""
    n = int(found.n[-1])
    look: dict[str, Any] = {"linestyle": "--", "linewidth": 0.8, "markerfacecolor": "white"}
    for index, start in enumerate(found.start.values.tolist()):
        seen = recovery(found, n, start)
        final_points(ax, seen, index=index, label=NAMES.get(start, start))
        tint, mark = style.colour(index), style.marker(index)
        ax.plot(seen.alpha.values, seen.initial.values, color=tint, marker=mark, zorder=2, **look)
    ax.plot([], [], label="at the start", color=style.GREY, marker=style.marker(0), **look)
    marks.mark_threshold(ax, found.alpha_bbp, found.attrs["kind"])
    by_chance: dict[str, Any] = {"linestyle": ":", "linewidth": 1.0, "zorder": 1, "label": "$m^2$ by chance"}
    ax.axhline(chance(found.attrs["p"], found.attrs["p_star"], n), color=style.GREY, **by_chance)
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
    fig, (magnetisation, fraction) = layout.figure(2, 3.0 if width == "double" else 5.0, width)
    for found, row, words, look in sweep_plots.each_size(runs):
        seen = recovery(found, int(found.n[row]), start, threshold)
        final_points(magnetisation, seen, line=True, label=words, **look)
        success_points(fraction, seen, label=words, **look)
        for ax in (magnetisation, fraction):
            tint = style.colour(**look)
            ax.axvline(found.alpha_bbp, color=tint, linestyle=":", linewidth=0.9, zorder=1)
    for ax, name in ((magnetisation, r"final $m^2$"), (fraction, rf"fraction with $m^2 > {threshold:g}$")):
        ax.plot(
            [], [], color=style.GREY, linestyle=":", linewidth=0.9, label=r"$\alpha_\mathrm{BBP}$ of each"
        )
        ax.set_xlabel(r"$\alpha = M/N$")
        ax.set_ylabel(name)
        ax.set_ylim(-0.03, 1.05)
    layout.title(magnetisation, sweep_plots.model_title(runs))
    layout.title(fraction, NAMES.get(start, start))
    layout.legend_above(fig, [magnetisation, fraction], 3 if width == "double" else 2)
    return fig


def final_points(ax: Axes, seen: xr.Dataset, **look: Any) -> ErrorbarContainer:
    """Mean final m2 with bootstrap errors against alpha; look: of `bbp.plots.sweep.points`."""
    values, errors = seen.final.values, np.nan_to_num(seen.final_error.values)
    # means of numbers between 0 and 1: no bar leaves that range
    bars = np.stack([np.minimum(errors, values), np.minimum(errors, 1 - values)])
    return marks.points(ax, seen.alpha.values, values, bars, **look)


def success_points(ax: Axes, seen: xr.Dataset, **look: Any) -> ErrorbarContainer:
    """Fraction of samples that recover, with its 95 % interval, against alpha; look: of `bbp.plots.sweep.points`."""
    share, low, high = (seen[f"success{end}"].values for end in ("", "_low", "_high"))
    bars = np.stack([share - low, high - share])
    return marks.points(ax, seen.alpha.values, share, bars, line=True, **look)


@style.added
def time_panel(ax: Axes, found: xr.Dataset, name: str) -> None:
    """Means over samples in the time of gradient flow, a curve for each of a few alphas; from the first start at the largest N.

    name: "m2"; "overlap", the largest q2 among the lowest eigenvectors kept of the Riemannian Hessian; or "lowest", the lowest
    eigenvalue of the plain Hessian (points) beside theory of its path and of its labels (lines), as far as all samples have it:
    that of labels ends where they are fitted.
    """
    alphas, drawn = spread_alphas(found), []
    found = found.sel(n=int(found.n[-1]), start=str(found.start.values[0]))
    moments = np.searchsorted(found.step.values, found.hessian_step.values)
    for index, alpha in enumerate(alphas):
        at = found.sel(alpha=alpha)
        time = at.time.values if name == "m2" else at.time.values[:, moments]
        # from dark to light as alpha grows, the same in every panel
        look: dict[str, Any] = {"color": style.ordered(index, len(alphas)), "marker": style.marker(index)}
        look["markersize"] = 3.0
        if name == "m2":
            look |= {"label": rf"$\alpha = {alpha:.4g}$", "markevery": (0.03 + 0.03 * index, 0.15)}
            drawn.append(in_time(ax, time, at.m2.values, **look))
        elif name == "overlap":
            largest = at.overlaps.sel(frame="riemannian").values.max(axis=-1)
            drawn.append(in_time(ax, time, largest, **look))
        else:
            lowest = at.eigenvalues.sel(frame="plain").values[..., 0]
            drawn.append(in_time(ax, time, lowest, linestyle="none", **look))
            for route, line in ROUTES.items():
                curve = mean_in_time(*_known(time, _lowest(at, route)))
                ax.plot(*curve, color=look["color"], linestyle=line)
    for route, line in ROUTES.items() if name == "lowest" else ():
        ax.plot([], [], color=style.GREY, linestyle=line, label=WORDS[route])
    time_axis(ax, drawn, low=None if name == "lowest" else 0)
    words = {"m2": r"mean $m^2(t)$", "lowest": r"lowest eigenvalue $\lambda_1$"}
    ax.set_ylabel(words.get(name, rf"largest $q^2$, {found.sizes['eigenpair']} lowest pairs"))


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


def in_time(ax: Axes, time: Array, values: Array, **look: Any) -> Line2D:
    """The mean over samples (sample, record) in time, and a band of its standard error."""
    common, rows = samples_in_time(time, values)
    mean, error = mean_and_error(rows.T)
    ax.fill_between(common, mean - error, mean + error, color=look["color"], alpha=0.2, linewidth=0)
    (line,) = ax.plot(common, mean, **look)
    return line


def time_axis(ax: Axes, drawn: Sequence[Line2D], low: float | None = 0) -> None:
    """Time on a logarithmic axis that still holds t = 0, at its left end; `low` is where the ordinate begins."""
    times = np.concatenate([np.asarray(line.get_xdata(), dtype=float) for line in drawn] or [np.ones(1)])
    digits = np.log10(times[times > 0] if np.any(times > 0) else np.ones(1))
    # A whole power of ten, so that its tick and that of 0 stay apart; not beyond the last time, or there is no other tick.
    least = 10.0 ** min(np.ceil(digits.min()), np.floor(digits.max()))
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
