"""The phase diagram: alpha_BBP against a and against p, continuous and discontinuous parts told apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

from bbp.analysis.phase import discontinuous, widths
from bbp.experiments import models
from bbp.files import dataset
from bbp.plots import layout, marks, style
from theory.general.spectrum import threshold
from theory.model import Network

Array = NDArray[np.float64]
TRICRITICAL: dict[str, Any] = {
    "marker": "o",
    "markersize": 6.0,
    "markerfacecolor": "white",
    "markeredgewidth": 1.2,
}
WIDE = 30  # ratio of largest to smallest threshold from which their axis is logarithmic
MOST_TICKS = 8  # widths that are the ticks of their axis
FEW = 12  # points of a curve, each of which is then marked
ALPHA_0_LOOKS = {"overlap": (style.BLACK, "x"), "continuation": (style.GREEN, "+")}


def width_look(index: int, p: float, count: int = 0) -> dict[str, Any]:
    """Colour and sparse markers of the curve of width p, number `index` of `count`; p = inf is plain black."""
    if math.isinf(p):
        return {"color": style.BLACK, "linewidth": 1.2 * mpl.rcParams["lines.linewidth"]}
    return {
        "color": style.colour(index, count),
        "marker": style.marker(index),
        "markersize": 0.95 * mpl.rcParams["lines.markersize"],
        "markevery": (0.05 + 0.02 * (index % 5), 0.2),
    }


def split_at(a: ArrayLike, alpha: ArrayLike, discontinuous: ArrayLike, a_c: float, alpha_c: float):
    """The curve alpha(a) as (continuous part, discontinuous part), each (2, n), both reaching the point (a_c, alpha_c).

    The point is left out where it is NaN or lies outside the range of a.
    """
    a, alpha = np.asarray(a, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
    jumps = np.asarray(discontinuous, dtype=bool)
    joint = np.array([[a_c], [alpha_c]]) if a.min() <= a_c <= a.max() else np.empty((2, 0))
    below = np.concatenate([np.stack([a, alpha])[:, ~jumps], joint], axis=1)
    above = np.concatenate([joint, np.stack([a, alpha])[:, jumps]], axis=1)
    return below, above


def threshold_curve(
    ax: Axes,
    a: ArrayLike,
    alpha: ArrayLike,
    discontinuous: ArrayLike,
    *,
    p: float,
    a_c: float = math.nan,
    alpha_c: float = math.nan,
    index: int = 0,
    count: int = 0,
) -> tuple[Line2D, ...]:
    """alpha_BBP(a) at one width, arrays (a,): solid where continuous, dashed where discontinuous, a marker at a_c.

    Returns the two parts, the tricritical marker (empty where a_c is outside the range of a), and the thin lines that join the
    parts where a_c is not known.
    """
    look, joints = width_look(index, p, count), []
    if np.size(a) <= FEW:
        look |= {"markevery": 1, "marker": look.get("marker", "*")}
    below, above = split_at(a, alpha, discontinuous, a_c, alpha_c)
    if math.isnan(a_c):  # nothing else joins the parts
        for change in np.flatnonzero(np.diff(np.asarray(discontinuous, dtype=int))):
            ends = slice(change, change + 2)
            joints += ax.plot(
                np.asarray(a)[ends], np.asarray(alpha)[ends], color=look["color"], linewidth=0.5
            )
    (solid,) = ax.plot(*below, linestyle=style.KIND_LINES["continuous"], label=layout.width_name(p), **look)
    (dashed,) = ax.plot(*above, linestyle=style.KIND_LINES["discontinuous"], **look)
    inside = below.shape[1] + above.shape[1] > np.size(a)
    point = ([a_c], [alpha_c]) if inside else ([], [])
    (tricritical,) = ax.plot(*point, color=look["color"], linestyle="none", zorder=4, **TRICRITICAL)
    return solid, dashed, tricritical, *joints


def phase_figure(phase: xr.Dataset, *, width: str = "double") -> Figure:
    """alpha_BBP against a for each p; beside it (below it at single width) alpha_BBP against p, a panel for each a.

    Thresholds at finite N, BBP times and minima, if the file has them, stand in a row below, again a panel for each a.
    """
    cuts, drawn = phase.sizes["at_a"], panels(phase)
    of_n = phase.sizes["finite_a"] if "alpha_bbp_n" in phase else 0
    sizes = len(drawn) - 1 - cuts
    top = 1.9 * max(cuts, 2) if width == "double" else 2.9 + 1.9 * cuts
    fig = style.new_figure(width, top + 2.1 * (min(sizes, 1) if width == "double" else sizes))
    main, *axes = phase_panels(fig, cuts, sizes, width)
    for ax, draw in zip([main, *axes], drawn, strict=True):
        draw(ax)
    layout.title(main, [f"$p^* = {phase.attrs['p_star']}$", *layout.special_words(dataset.config(phase))])
    for ax in axes[: max(cuts - 1, 0)]:
        ax.set_xlabel("")
        ax.tick_params(labelbottom=False)
    if cuts:
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.16), ncols=2)
    for place in {cuts, *range(cuts + of_n, len(axes), max(cuts, 1))}:
        if place < len(axes):
            _legend_upon(axes[place])
    return fig


def panels(phase: xr.Dataset) -> list[Callable[[Axes], list[Artist]]]:
    """What draws each panel of the figure of a phase diagram, in order: alpha_BBP(a), then each kind of panel at every a."""
    lines, cuts = widths(phase), range(phase.sizes["at_a"])
    network = bool(models.special(dataset.config(phase)))
    drawn: list[Callable[[Axes], list[Artist]]] = [partial(threshold_panel, phase=phase)]
    drawn += [partial(widths_panel, lines=lines, index=index, network=network) for index in cuts]
    of_n = range(phase.sizes["finite_a"] if "alpha_bbp_n" in phase else 0)
    drawn += [partial(finite_panel, phase=phase, index=index) for index in of_n]
    for name, panel in (("bbp_time", time_panel), ("minima_kind", minima_panel)):
        drawn += [partial(panel, phase=phase, index=index) for index in cuts if name in phase]
    return drawn


def _legend_upon(ax: Axes) -> None:
    """A legend above a panel of what the main one does not name: widths have their entries there."""
    found = [(h, t) for h, t in zip(*ax.get_legend_handles_labels(), strict=True) if not t.startswith("$p =")]
    if found:
        handles, labels = [handle for handle, _ in found], [words for _, words in found]
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.16), "borderaxespad": 0.0}
        ax.legend(handles, labels, ncols=layout.fitting_columns(labels, 4, layout.breadth(ax)), **place)


def phase_panels(fig: Figure, cuts: int, sizes: int, width: str) -> list[Axes]:
    """The main panel, `cuts` smaller ones in a column, `sizes` in a row below; all in one column at single width."""
    if width == "single":
        ratios = [1.5] + [1.0] * (cuts + sizes)
        return layout.lettered(list(np.ravel(fig.subplots(len(ratios), 1, height_ratios=ratios))))
    rows = (
        fig.add_gridspec(2, 1, height_ratios=[1.9 * max(cuts, 2), 2.1]) if sizes else fig.add_gridspec(1, 1)
    )
    if cuts:
        upper = rows[0].subgridspec(cuts, 2, width_ratios=[1.5, 1.0])
        places = [upper[:, 0], *(upper[row, 1] for row in range(cuts))]
    else:
        places = [rows[0]]
    if sizes:
        lower = rows[1].subgridspec(1, sizes)
        places += [lower[0, column] for column in range(sizes)]
    return layout.lettered([fig.add_subplot(place) for place in places])


@style.added
def threshold_panel(ax: Axes, phase: xr.Dataset) -> None:
    """alpha_BBP(a), a curve for each p, with the key to line styles and the tricritical marks."""
    handles: list[Artist] = []
    a, alpha, jumps = phase.a.values, phase.alpha_bbp.values, discontinuous(phase)
    for index, p in enumerate(phase.p.values):
        drawn = threshold_curve(
            ax,
            a,
            alpha[index],
            jumps[index],
            p=p,
            a_c=float(phase.a_c[index]),
            alpha_c=float(phase.alpha_c[index]),
            index=index,
            count=phase.sizes["p"],
        )
        handles.append(drawn[0])
    for kind in style.KINDS:
        handles.append(Line2D([], [], color=style.GREY, linestyle=style.KIND_LINES[kind], label=kind))
    if np.isfinite(phase.a_c).any():
        handles.append(Line2D([], [], color=style.GREY, linestyle="none", label=r"$a_c$", **TRICRITICAL))
    if layout.is_logarithmic(a):
        layout.log_axis(ax)
    known = alpha[np.isfinite(alpha)]
    if not known.size:
        words = ", ".join(sorted({kind for kind in phase.kind.values.ravel() if kind}))
        ax.text(
            0.5,
            0.5,
            f"no threshold: {words}" if words else "nothing computed",
            transform=ax.transAxes,
            ha="center",
        )
    elif known.max() > WIDE * known.min():
        layout.log_axis(ax, "y")
    ax.set_xlabel(r"normalisation $a$")
    ax.set_ylabel(r"$\alpha_\mathrm{BBP}$")
    columns = layout.fitting_columns([str(handle.get_label()) for handle in handles], 4, layout.breadth(ax))
    ax.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.06), ncols=columns)


@style.added
def widths_panel(ax: Axes, lines: xr.Dataset, index: int, *, network: bool = False) -> None:
    """alpha_BBP(p) and both alpha_0 (of a network one) at one a of a map over (p, a), with the p = inf value if it is there."""
    at = lines.isel(a=index)
    p, alpha, jump = at.p.values, at.alpha_bbp.values, discontinuous(at)
    finite = np.isfinite(p)
    limit, jumps = alpha[~finite], jump[finite]
    ax.plot(p[finite], alpha[finite], color=style.GREY, linewidth=0.6, zorder=1.5)
    for kind, chosen, shape in (("continuous", ~jumps, "o"), ("discontinuous", jumps, "s")):
        tint = style.KIND_COLOURS[kind]
        ax.plot(
            p[finite][chosen], alpha[finite][chosen], linestyle="none", marker=shape, markersize=3.2, color=tint,
            markerfacecolor=tint if kind == "continuous" else "white", label=rf"$\alpha_\mathrm{{BBP}}$, {kind}",
        )  # fmt: skip
    zeros = {name: at[f"alpha_0_{name}"].values[finite] for name in ALPHA_0_LOOKS}
    for name, (tint, shape) in ALPHA_0_LOOKS.items():
        zero = np.where(jumps, zeros[name], np.nan)
        if np.isfinite(zero).any() and not (network and name == "continuation"):  # which is not computed
            ax.plot(
                p[finite], zero, linestyle=":", linewidth=0.8, marker=shape, markersize=4.0, color=tint,
                label=rf"$\alpha_0$, {name}",
            )  # fmt: skip
    if limit.size:
        words = r"$\alpha_\mathrm{BBP}$, $p = \infty$"
        ax.axhline(limit[0], color=style.BLACK, linewidth=0.8, linestyle="-.", zorder=1, label=words)
    if finite.sum() > 2 and layout.is_logarithmic(p[finite]):
        layout.log_axis(ax)
    if finite.sum() <= MOST_TICKS:
        ax.xaxis.set_major_locator(FixedLocator(p[finite].tolist()))
        ax.xaxis.set_minor_locator(NullLocator())
    elif ax.get_xscale() == "linear":
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.text(0.96, 0.93, f"$a = {style.number(float(at.a))}$", transform=ax.transAxes, ha="right", va="top")
    silent = p[finite][jumps & np.isnan(zeros["continuation"])]
    if silent.size and not network:  # otherwise its curve would end without a word
        words = rf"no $\alpha_0$ by continuation at $p = {silent.min():g}$" + (
            rf" to ${silent.max():g}$" if silent.size > 1 else ""
        )
        layout.title(ax, words, fontsize="small")
    ax.set_xlabel(r"student width $p$")
    ax.set_ylabel(r"$\alpha$")


def _each_width(
    ax: Axes, phase: xr.Dataset, at: xr.Dataset, name: str, x: str, **look: Any
) -> Iterator[tuple[float, str]]:
    """Draw a variable with its errors against x for each p that has any, and give this p and its colour."""
    for row, p in enumerate(phase.p.values):
        value, error = (at[name + part].isel(p=row).values for part in ("", "_error"))
        if np.isfinite(value).any():
            own = width_look(row, p, phase.sizes["p"])
            look |= {"color": own["color"], "marker": own.get("marker"), "label": layout.width_name(p)}
            ax.errorbar(phase[x].values, value, error, **look)
            yield p, own["color"]


@style.added
def finite_panel(ax: Axes, phase: xr.Dataset, index: int) -> None:
    """alpha_BBP(N) of each p at one a, with its limit at N = inf."""
    at = phase.isel(finite_a=index)
    a, p_star = float(at.finite_a), int(phase.attrs["p_star"])
    for p, tint in _each_width(ax, phase, at, "alpha_bbp_n", "n", zorder=3):
        limit = threshold(Network(p, p_star, a))
        line = style.KIND_LINES[limit.kind]
        ax.axhline(limit.alpha, color=tint, linestyle=line, linewidth=0.8, zorder=1)
    ax.plot([], [], color=style.GREY, linewidth=0.8, label=r"$N = \infty$")
    marks.doubt_entry(ax, [str(phase.attrs.get("theory_n_doubt", ""))])
    layout.log_axis(ax)
    ax.set_xlabel(r"input dimension $N$")
    ax.set_ylabel(r"$\alpha_\mathrm{BBP}(N)$")
    layout.title(ax, f"$a = {style.number(a)}$")


@style.added
def time_panel(ax: Axes, phase: xr.Dataset, index: int) -> None:
    """When gradient flow loses the outlier, of each finite p at one a, against alpha; dotted: alpha_BBP at N = inf."""
    at, p_star, seen = phase.isel(at_a=index), int(phase.attrs["p_star"]), False
    for p, tint in _each_width(ax, phase, at, "bbp_time", "alpha", markersize=3.4):
        if not models.special(dataset.config(phase)):
            limit = threshold(Network(p, p_star, float(at.at_a)))
            ax.axvline(limit.alpha, color=tint, linestyle=":", linewidth=0.9)
            seen = True
    if seen:
        words = r"$\alpha_\mathrm{BBP}$ at $N = \infty$"
        ax.plot([], [], color=style.GREY, linestyle=":", linewidth=0.9, label=words)
    ax.set_ylim(bottom=0)
    ax.set_xlabel(r"$\alpha$")
    ax.set_ylabel("outlier lost at time $t$")
    layout.title(ax, f"$a = {style.number(float(at.at_a))}$")


@style.added
def minima_panel(ax: Axes, phase: xr.Dataset, index: int) -> None:
    """Complexity of the most numerous minima at one a against alpha, open where the teacher makes saddles of them; dashed: from
    where on; dotted: alpha_BBP of p = 1."""
    at = phase.isel(at_a=index)
    alpha, complexity = phase.minima_alpha.values, at.minima_complexity.values
    saddles, unstable = at.minima_instability.values > 0, float(at.alpha_minima)
    look: dict[str, Any] = {"color": style.colour(0), "marker": "o", "markersize": 3.4}
    ax.plot(alpha, complexity, label="minima", **look)
    look |= {"linestyle": "none", "markerfacecolor": "white", "zorder": 3}
    ax.plot(alpha[saddles], complexity[saddles], label="saddles", **look)
    if math.isfinite(unstable):
        ax.axvline(unstable, color=style.colour(0), linestyle="--", linewidth=0.9, label="first saddles")
    ax.axhline(0, color=style.GREY, linewidth=0.6, zorder=1)
    if not models.special(dataset.config(phase)):
        limit = threshold(Network(1, 1, float(at.at_a))).alpha
        words = r"$\alpha_\mathrm{BBP}$"
        ax.axvline(limit, color=style.GREY, linestyle=":", linewidth=0.9, label=words)
    ax.set_xlabel(r"$\alpha$")
    ax.set_ylabel(r"complexity $\Sigma$")
    layout.title(ax, f"$p = 1$, $a = {style.number(float(at.at_a))}$")
