"""Whole figures at print width: panels wired to the plotting functions, with legends beside the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from bbp.analysis.spectrum import Pool, Spectrum
from bbp.analysis.summary import observables, own_names
from bbp.analysis.theory_curves import theory_curves
from bbp.experiments import models
from bbp.experiments.phase_file import discontinuous, widths
from bbp.files import dataset
from bbp.plots import phase as phase_plots
from bbp.plots import spectrum as spectrum_plots
from bbp.plots import style
from bbp.plots import sweep as sweep_plots
from theory.exact.transition import bbp_threshold
from theory.finite.validity import UNKNOWN
from theory.model import Network

Array = NDArray[np.float64]

LONGEST_LABEL = 34  # letters on an axis
WIDE = 30  # ratio of largest to smallest threshold from which their axis is logarithmic
SLIVER = 0.25  # of a panel: what the samples' eigenvalues must cover of it to be drawn as a histogram
MOST_BINS, FEWEST_BINS, PER_BIN = 48, 12, 12  # of a histogram of eigenvalues


def sweep_figure(sweep: xr.Dataset, *, width: str = "double") -> Figure:
    """Lowest eigenvalue and squared overlap of samples against alpha, with the theory of their N and of N = infinity.

    Points: means over samples of the lowest eigenvalue, and of q2 averaged over the p p_star lowest eigenvectors, the ones
    that leave the bulk together; open points are the (p p_star + 1)-th eigenvalue, the lowest that stays.
    Coloured lines and bands: finite-N theory, the mean over draws, its error, and wider one draw's scatter.
    """
    own = own_names(sweep)
    rows = 1 + -(-len(own) // 2) if width == "double" else 2 + len(own)
    fig = style.new_figure(width, 0.5 + 2.5 * rows if width == "double" else 0.5 + 2.2 * rows)
    grid = fig.subplots(rows, 2 if width == "double" else 1, sharex="col")
    values, overlaps, *more = lettered(list(np.ravel(grid)))[: 2 + len(own)]
    for ax in np.ravel(grid)[2 + len(own) :]:
        ax.remove()
    sweep_panels(values, overlaps, sweep)
    for ax, name in zip(more, own, strict=True):
        quantity_panel(ax, sweep, name)
    axes = [values, overlaps, *more]
    for index, ax in enumerate(axes):
        bottom = index >= len(axes) - (2 if width == "double" else 1)
        ax.set_xlabel(r"$\alpha = M/N$" if bottom else "")
        ax.tick_params(labelbottom=bottom)
    legend_above(fig, axes, 4 if width == "double" else 2)
    return fig


def quantity_panel(ax: Axes, sweep: xr.Dataset, name: str) -> None:
    """The mean over samples of any observable of a sweep against alpha, for each N; of one over eigenpairs the lowest's."""
    seen = observables(sweep)
    sweep_plots.mark_threshold(ax, sweep.alpha_bbp, sweep.kind)
    for index, n in enumerate(sweep.n.values):
        sweep_plots.sampled_points(
            ax, sweep.alpha.values, seen[name].values[index], index=index, label=f"samples, $N = {n}$"
        )
    ax.set_ylabel(words_of(sweep, name))


def words_of(found: xr.Dataset, name: str) -> str:
    """What the axis of an observable says: its words where they are few, else its name."""
    words = str(found[name].attrs.get("long_name", name))
    return words if len(words) <= LONGEST_LABEL else name


def name_doubt(ax: Axes, found: xr.Dataset) -> None:
    """A line of the legend where the finite-N theory of a file is not known to hold."""
    if found.attrs.get("theory_n_doubt"):
        ax.plot([], [], " ", label=UNKNOWN)


def sweep_panels(values: Axes | None, overlaps: Axes | None, sweep: xr.Dataset) -> None:
    """The lowest eigenvalues on one axes and the squared overlap on the other, of which either may be None."""
    model, alpha, seen = models.of(sweep), sweep.alpha.values, observables(sweep)
    group = models.group(model)
    theory_lines(values, overlaps, sweep)
    at_n = "theory_n_lowest" in sweep and bool(np.isfinite(sweep.theory_n_lowest).any())
    more = seen.sizes["eigenpair"] > group
    for ax, name in ((values, "lowest"), (overlaps, "overlap")):
        if ax is None:
            continue
        sweep_plots.mark_threshold(ax, sweep.alpha_bbp, sweep.kind)
        for index, n in enumerate(sweep.n.values):
            look: dict[str, Any] = {"index": index, "label": f"samples, $N = {n}$"}
            sweep_plots.sampled_points(ax, alpha, seen[name].values[index], **look)
            if ax is values and more:
                rest = rf"$\lambda_{{{group + 1}}}$, $N = {n}$"
                above = seen.eigenvalues.values[index, ..., group]
                sweep_plots.sampled_points(ax, alpha, above, index=index, label=rest, filled=False)
            if at_n and np.isfinite(sweep.theory_n_lowest.values[index]).any():
                parts = [
                    f"theory_n_{name}{part}" for part in ("", "_std", "_error")
                ]  # files of before lack the error
                curves = [sweep[part].values[index] for part in parts if part in sweep]
                sweep_plots.finite_band(ax, alpha, *curves, index=index, label=f"theory, $N = {n}$")
    if values is not None:
        if at_n:
            sweep_plots.name_bands(values)
            name_doubt(values, sweep)
        name_model(values, model)
        which = (
            rf"eigenvalues $\lambda_1$ and $\lambda_{{{group + 1}}}$"
            if more
            else r"lowest eigenvalue $\lambda_1$"
        )
        values.set_ylabel(which)
    if overlaps is not None:
        sweep_plots.name_lack(overlaps, sweep.alpha_bbp, sweep.kind)
        overlaps.set_ylabel(
            "squared overlap $q^2$" if group == 1 else f"overlap $q^2$, mean of {group} lowest"
        )


def theory_lines(values: Axes | None, overlaps: Axes | None, source: xr.Dataset) -> None:
    """Edge and outlier of the model of a sweep or comparison in one panel, the overlap in the other."""
    curves = theory_curves(source)
    alpha = curves.alpha.values
    if values is not None:
        sweep_plots.edge_and_outlier(values, alpha, curves.theory_edge.values, curves.theory_outlier.values)
    if overlaps is not None:
        sweep_plots.overlap_curve(overlaps, alpha, curves.theory_overlap.values)


def phase_figure(phase: xr.Dataset, *, width: str = "double") -> Figure:
    """alpha_BBP against a for each p; beside it (below it at single width) alpha_BBP against p, a panel for each a.

    Thresholds at finite N, BBP times and minima, if the file has them, stand in a row below, again a panel for each a.
    """
    cuts, of_n = phase.sizes["at_a"], phase.sizes["finite_a"] if "alpha_bbp_n" in phase else 0
    lower = [
        panel for name, panel in (("bbp_time", time_panel), ("minima_kind", minima_panel)) if name in phase
    ]
    sizes = of_n + cuts * len(lower)
    top = 1.9 * max(cuts, 2) if width == "double" else 2.9 + 1.9 * cuts
    fig = style.new_figure(width, top + 2.1 * (min(sizes, 1) if width == "double" else sizes))
    main, *axes = phase_panels(fig, cuts, sizes, width)
    special = dataset.config(phase)
    threshold_panel(main, phase)
    main.set_title(
        ", ".join([f"$p^* = {phase.attrs['p_star']}$", *special_words(special)]), loc="right", pad=3.0
    )
    lines = widths(phase)
    for index, ax in enumerate(axes[:cuts]):
        widths_panel(ax, lines, index, network=bool(models.special(special)))
        ax.set_xlabel(r"student width $p$" if index == cuts - 1 else "")
        ax.tick_params(labelbottom=index == cuts - 1)
    if cuts:
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.16), ncols=2)
    for index, ax in enumerate(axes[cuts : cuts + of_n]):
        finite_panel(ax, phase, index)
    for place, ax in enumerate(axes[cuts + of_n :]):
        lower[place // cuts](ax, phase, place % cuts)
    return fig


def phase_panels(fig: Figure, cuts: int, sizes: int, width: str) -> list[Axes]:
    """The main panel, `cuts` smaller ones in a column, `sizes` in a row below; all in one column at single width."""
    if width == "single":
        ratios = [1.5] + [1.0] * (cuts + sizes)
        return lettered(list(np.ravel(fig.subplots(len(ratios), 1, height_ratios=ratios))))
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
    return lettered([fig.add_subplot(place) for place in places])


def threshold_panel(ax: Axes, phase: xr.Dataset) -> None:
    """alpha_BBP(a), a curve for each p, with the key to line styles and the tricritical marks."""
    handles: list[Artist] = []
    a, alpha, jumps = phase.a.values, phase.alpha_bbp.values, discontinuous(phase)
    for index, p in enumerate(phase.p.values):
        drawn = phase_plots.threshold_curve(
            ax,
            a,
            alpha[index],
            jumps[index],
            p=p,
            a_c=float(phase.a_c[index]),
            alpha_c=float(phase.alpha_c[index]),
            index=index,
        )
        handles.append(drawn[0])
    for kind in style.KINDS:
        handles.append(Line2D([], [], color=style.GREY, linestyle=style.KIND_LINES[kind], label=kind))
    if np.isfinite(phase.a_c).any():
        handles.append(
            Line2D([], [], color=style.GREY, linestyle="none", label=r"$a_c$", **phase_plots.TRICRITICAL)
        )
    if is_logarithmic(a):
        plain_log_axis(ax)
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
        ax.set_yscale("log")
    ax.set_xlabel(r"normalisation $a$")
    ax.set_ylabel(r"$\alpha_\mathrm{BBP}$")
    ax.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.06), ncols=4)


def widths_panel(ax: Axes, lines: xr.Dataset, index: int, *, network: bool = False) -> None:
    """alpha_BBP(p) and both alpha_0 (of a network one) at one a of a map over (p, a), with the p = inf value if it is there."""
    at = lines.isel(a=index)
    p, alpha, jump = at.p.values, at.alpha_bbp.values, discontinuous(at)
    finite = np.isfinite(p)
    limit, jumps = alpha[~finite], jump[finite]
    zeros = {name: at[f"alpha_0_{name}"].values[finite] for name in ("overlap", "continuation")}
    alpha_0 = {name: np.where(jumps, zero, np.nan) for name, zero in zeros.items()}
    if network:
        del alpha_0["continuation"]  # which is not computed
    phase_plots.widths_curve(
        ax,
        p[finite],
        alpha[finite],
        jumps,
        alpha_0={name: zero for name, zero in alpha_0.items() if np.isfinite(zero).any()},
        limit=float(limit[0]) if limit.size else None,
    )
    if finite.sum() > 2 and is_logarithmic(p[finite]):
        plain_log_axis(ax)
    ax.text(0.96, 0.93, f"$a = {float(at.a):g}$", transform=ax.transAxes, ha="right", va="top")
    silent = p[finite][jumps & np.isnan(zeros["continuation"])]
    if silent.size and not network:  # otherwise its curve would end without a word
        words = rf"no $\alpha_0$ by continuation at $p = {silent.min():g}$" + (
            rf" to ${silent.max():g}$" if silent.size > 1 else ""
        )
        ax.set_title(words, loc="right", pad=3.0, fontsize="small")
    ax.set_ylabel(r"$\alpha$")


def lettered(axes: list[Axes]) -> list[Axes]:
    """The same axes, with (a), (b)... above their upper left corners if there are several."""
    for ax, letter in zip(axes, "abcdefghijklmnopqrstuvwxyz", strict=False):
        if len(axes) > 1:
            ax.set_title(f"({letter})", loc="left", pad=3.0, fontweight="bold")
    return axes


def relettered(axes: list[Axes]) -> list[Axes]:
    """The same axes with letters anew, or none where one is left."""
    for ax in axes:
        ax.set_title("", loc="left")
    return lettered(axes)


def finite_panel(ax: Axes, phase: xr.Dataset, index: int) -> None:
    """alpha_BBP(N) of each p at one a, with its limit at N = inf."""
    at = phase.isel(finite_a=index)
    a, p_star = float(at.finite_a), int(phase.attrs["p_star"])
    for row, p in enumerate(phase.p.values):
        alpha, error = (at[f"alpha_bbp_n{part}"].values[:, row] for part in ("", "_error"))
        if np.isfinite(alpha).any():
            phase_plots.finite_curve(ax, phase.n.values, alpha, error, p=p, index=row)
            limit = bbp_threshold(Network(p, p_star, a))
            phase_plots.limit_line(ax, limit.alpha, limit.kind, p=p, index=row)
    name_doubt(ax, phase)
    plain_log_axis(ax)
    ax.set_xlabel(r"input dimension $N$")
    ax.set_ylabel(r"$\alpha_\mathrm{BBP}(N)$")
    ax.set_title(f"$a = {a:g}$", loc="right", pad=3.0)


def time_panel(ax: Axes, phase: xr.Dataset, index: int) -> None:
    """When gradient flow loses the outlier, of each finite p at one a, against alpha; dotted: alpha_BBP at N = inf."""
    at, p_star = phase.isel(at_a=index), int(phase.attrs["p_star"])
    for row, p in enumerate(phase.p.values):
        time, error = (at[name].values[row] for name in ("bbp_time", "bbp_time_error"))
        if np.isfinite(time).any():
            look = phase_plots.width_look(row, p)
            ax.errorbar(
                phase.alpha.values, time, error, color=look["color"], marker=look.get("marker"), markersize=3.4,
                label=phase_plots.width_name(p),
            )  # fmt: skip
            if not models.special(dataset.config(phase)):
                limit = bbp_threshold(Network(p, p_star, float(at.at_a)))
                ax.axvline(limit.alpha, color=look["color"], linestyle=":", linewidth=0.9)
    ax.set_ylim(bottom=0)
    ax.set_xlabel(r"$\alpha$")
    ax.set_ylabel("outlier lost at time $t$")
    ax.set_title(f"$a = {float(at.at_a):g}$", loc="right", pad=3.0)


def minima_panel(ax: Axes, phase: xr.Dataset, index: int) -> None:
    """Complexity of the most numerous minima at one a against alpha, open where the teacher makes saddles of them; dashed: from
    where on; dotted: alpha_BBP of p = 1."""
    at = phase.isel(at_a=index)
    phase_plots.minima_curve(
        ax,
        phase.minima_alpha.values,
        at.minima_complexity.values,
        at.minima_instability.values > 0,
        float(at.alpha_minima),
    )
    if not models.special(dataset.config(phase)):
        limit = bbp_threshold(Network(1, 1, float(at.at_a))).alpha
        ax.axvline(limit, color=style.GREY, linestyle=":", linewidth=0.9)
    ax.set_xlabel(r"$\alpha$")
    ax.set_ylabel(r"complexity $\Sigma$")
    ax.set_title(f"$p = 1$, $a = {float(at.at_a):g}$", loc="right", pad=3.0)


def spectrum_figure(spectrum: Spectrum, *, width: str = "double") -> Figure:
    """Density of states with edge, outlier and pooled eigenvalues: most of the bulk, and the left edge close up."""
    fig = style.new_figure(width, 3.0 if width == "double" else 5.0)
    whole, close = panels(fig, 2, width)
    spectrum_panel(whole, spectrum, *whole_window(spectrum))
    spectrum_panel(close, spectrum, *edge_window(spectrum))
    name_model(whole, spectrum.model, rf"$\alpha = {spectrum.alpha:.6g}$")
    # Near alpha = 1 the density has a peak at 0 that would hide the rest.
    low = spectrum.rho[spectrum.lam < 0.5 * spectrum.start]
    if low.size and np.isfinite(spectrum.edge.value):
        whole.set_ylim(0, min(1.1 * spectrum.rho.max(), 5 * low.max()))
    legend_above(fig, [whole, close], 4 if width == "double" else 2)
    return fig


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
            spectrum_plots.pooled_eigenvalues(ax, values, bins, total=pool.total, label=label)
    shown = (spectrum.lam >= left) & (spectrum.lam <= right)
    spectrum_plots.density_curve(ax, spectrum.lam[shown], spectrum.rho[shown])
    if np.isfinite(spectrum.edge.value):
        spectrum_plots.mark_edge(ax, spectrum.edge.value, spectrum.edge.kind)
    for outlier in spectrum.outliers:
        spectrum_plots.mark_outlier(ax, outlier.value, outlier.overlap)
    if spectrum.atom and left < 0 < right:
        spectrum_plots.mark_atom(ax, spectrum.atom)
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


def panels(fig: Figure, count: int, width: str, *, share_x: bool = False) -> list[Axes]:
    """`count` panels side by side at two-column width, one below the other at single width, lettered (a), (b)..."""
    stacked = width == "single"
    shape = (count, 1) if stacked else (1, count)
    return lettered(list(np.ravel(fig.subplots(*shape, sharex=share_x and stacked))))


def name_model(ax: Axes, model: Network, more: str = "") -> None:
    """The model above the upper right corner: p, p*, a where its loss has one, and what is added."""
    record = models.record(model)
    parts = [phase_plots.width_name(model.p), f"$p^* = {model.p_star}$"]
    parts += [f"$a = {model.a:.6g}$"] if models.has_a(record) else []
    parts += special_words(record)
    ax.set_title(", ".join([*parts, more] if more else parts), loc="right", pad=3.0)


def special_words(record: Mapping[str, Any]) -> list[str]:
    """What of a record makes its model no committee: "tanh", "squared loss", "noise 0.3"."""
    special = models.special(record)
    return [
        f"{models.short(value)}{' loss' * (name == 'loss')}"
        if isinstance(value, str)
        else f"{name} {value:g}"
        for name, value in special.items()
    ]


def legend_above(fig: Figure, axes: Sequence[Axes], columns: int) -> None:
    """One legend over all panels: each label once, in the order drawn, in at most so many columns, no wider than the figure."""
    entries: dict[str, Artist] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    columns = fitting_columns(list(entries), columns, fig.get_figwidth())
    fig.legend(list(entries.values()), list(entries), loc="outside upper center", ncols=columns)


def fitting_columns(labels: Sequence[str], most: int, inches: float) -> int:
    """The largest number of columns, at most `most`, in which a legend of these labels is no wider than that; 1 if none is."""
    size = FontProperties(size=mpl.rcParams["legend.fontsize"]).get_size_in_points()
    font = FontProperties(family=mpl.rcParams["font.family"], size=size)
    wide = [text_to_path.get_text_width_height_descent(label, font, "$" in label)[0] for label in labels]
    key = mpl.rcParams["legend.handlelength"] + mpl.rcParams["legend.handletextpad"]
    for columns in range(min(most, len(labels)), 1, -1):
        groups = [group for group in np.array_split(wide, columns) if group.size]
        points = sum(float(group.max()) + key * size for group in groups)
        gaps = (columns - 1) * mpl.rcParams["legend.columnspacing"] + 2 * mpl.rcParams["legend.borderpad"]
        if points + gaps * size <= 72 * inches:
            return columns
    return 1


def is_logarithmic(grid: Array) -> bool:
    """Whether a grid of positive numbers is nearer to equal ratios than to equal steps."""
    if grid.size < 3:
        return False
    ratios = np.array([two / one for one, two in pairwise(grid)])
    steps = np.diff(grid)
    return bool(np.ptp(np.log(ratios)) / np.log(ratios).mean() < np.ptp(steps) / steps.mean())


def plain_log_axis(ax: Axes) -> None:
    """A logarithmic abscissa labelled with plain numbers (0.01, 0.1, 1), and with powers of ten from 10^4 on."""
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(10))
    ax.xaxis.set_major_formatter(FuncFormatter(_decade))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _decade(value: float, _: int) -> str:
    return f"{value:g}" if 1e-3 < value < 9e3 else f"$10^{{{round(np.log10(value))}}}$"
