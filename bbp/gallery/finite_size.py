"""Samples of finite N beside theory: spectra and the density; the lowest eigenvalue beside quenched theory of its labels, and
its law at a sharp edge, Tracy-Widom about the quenched edge; the fraction phi(alpha; N) of samples whose lowest eigenvector has
the largest overlap, and thresholds out to N = 1e8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

import theory
from bbp.analysis import spectrum
from bbp.analysis.estimates import fraction
from bbp.analysis.finite_size import midpoint, phi_crossing
from bbp.analysis.spectrum import quenched_sample
from bbp.gallery import Array, Arrays, Data, Effort, figure, points_look, rounded, sampled
from bbp.plots import layout, marks, style
from bbp.plots import spectrum as spectrum_plots
from theory import finite
from theory.checks import NotConverged
from theory.finite.edge import finite_edge
from theory.finite.tracy_widom import MEAN as TRACY_WIDOM_MEAN
from theory.finite.tracy_widom import tracy_widom_cdf
from theory.general.spectrum import alpha_zero
from theory.model import Network

SPECTRA = {
    "sharp": (Network(2, 1, 0.3), 2.5),
    "smooth": (Network(2, 1, 1.5), 0.8),
    "beyond": (Network(2, 1, 1.5), 2.0),
}


def build_spectra(effort: Effort) -> Arrays:
    """All eigenvalues of a few samples for each case; the theory is computed when the figure is drawn."""
    (n, *_), samples = effort.sizes([200], [1000]), effort.count(30, 40)
    arrays: Arrays = {"n": np.int64(n)}
    for name, (model, alpha) in SPECTRA.items():
        order = int(model.p) * n
        found = sampled(model, n, [alpha], samples, effort.seed, eigenpairs=order)
        arrays[f"{name}_eigenvalues"] = ("sample", f"{name}_rank"), found["eigenvalues"][0]
    return arrays


@figure("spectra", build_spectra)
def spectra(data: Data) -> Figure:
    """Left end of the spectrum, p = 2, p* = 1: density of states at N = infinity, left edge and outlier over the pooled
    eigenvalues of samples: (a) a sharp edge with an outlier, (b) a smooth edge below the transition, (c) beyond a
    discontinuous transition. At a smooth edge the density falls faster than any power, and is too small to be seen for the
    last few per cent before the edge. Eigenvalues left of the edge: the outliers of these draws in (a) and (c), which
    scatter about the arrow; in (b) the scatter of finite N. Height of the arrows: arbitrary.
    """
    fig, axes = layout.figure(len(SPECTRA), 3.5)
    for ax, (name, (model, alpha)) in zip(axes, SPECTRA.items(), strict=True):
        values = data[f"{name}_eigenvalues"]
        values = values[np.isfinite(values).all(axis=1)]
        pool = spectrum.Pool(values, int(data["n"]), values.shape[1])
        found = spectrum.of_model(model, alpha, pool)
        left, right = spectrum_plots.edge_window(found)
        spectrum_plots.spectrum_panel(ax, found, left, right + (right - left))
        name_model = rf"$p = 2$, $p^* = 1$, $a = {model.a:g}$, $\alpha = {alpha:g}$"
        layout.title(ax, name_model, fontsize=7)
        handles, labels = ax.get_legend_handles_labels()
        labels = [r"density, $N = \infty$" if label == "theory" else label for label in labels]
        ax.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.09))
        ax.set_ylabel(r"density $\rho(\lambda)$" if ax is axes[0] else "")
    return fig


SCATTER = {
    "continuous": (Network(1, 1, 0.5), 3.0),
    "split": (Network(2, 1, 0.3), 2.5),
    "discontinuous": (Network(2, 1, 1.5), 1.8),
}


def build_scatter(effort: Effort) -> Arrays:
    """Measured and predicted lowest eigenvalues of the same draws, and the N = infinity value, for three models."""
    (n, *_), samples = effort.sizes([300], [1000]), effort.count(40, 200)
    arrays: Arrays = {"n": np.int64(n)}
    for name, (model, alpha) in SCATTER.items():
        measured = sampled(model, n, [alpha], samples, effort.seed)["lowest"][0]
        predicted = [_predicted(model, n, alpha, effort.seed, s) for s in range(samples)]
        limit = (*theory.outliers(model, alpha), theory.edge(model, alpha))[0]
        arrays |= {
            f"{name}_measured": ("sample", measured),
            f"{name}_predicted": ("sample", np.array(predicted)),
            f"{name}_limit": np.float64(limit.value),
        }
    return arrays


def _predicted(model: Network, n: int, alpha: float, seed: int, sample: int) -> float:
    try:
        found = quenched_sample(model, n, alpha, seed, sample)
    except NotConverged:
        return math.nan
    pulled = np.isfinite(found.outliers).any()
    return found.lowest if pulled else found.edge - TRACY_WIDOM_MEAN / found.scale


def ratio(data: Data, name: str) -> float:
    """Residual variance about the quenched prediction over that about the N = infinity value: below 1 it predicts better."""
    measured = data[f"{name}_measured"]
    residual = np.nanmean((measured - data[f"{name}_predicted"]) ** 2)
    return float(residual / np.nanmean((measured - float(data[f"{name}_limit"])) ** 2))


@figure("scatter", build_scatter)
def scatter(data: Data) -> Figure:
    """Lowest eigenvalue of each sample against its prediction by the quenched theory from its own labels; the ratio is that
    of the residual variances about the quenched and about the N = infinity prediction.
    """
    fig, axes = layout.figure(len(SCATTER), 2.7)
    for index, (ax, (name, (model, alpha))) in enumerate(zip(axes, SCATTER.items(), strict=True)):
        x, y = data[f"{name}_predicted"], data[f"{name}_measured"]
        both = np.concatenate([x, y])
        ends = np.array([np.nanmin(both), np.nanmax(both)])
        ax.plot(ends, ends, color=style.BLACK, linewidth=0.9, label="equality")
        limit = float(data[f"{name}_limit"])
        ax.axhline(limit, color=style.GREY, linestyle=(0, (4, 1.6)), label=r"theory, $N = \infty$")
        label = f"samples, $N = {int(data['n'])}$" if index == 0 else None
        ax.plot(x, y, label=label, **points_look(index, markersize=3))
        layout.title(ax, f"$p = {model.p}$, $a = {model.a:g}$, $\\alpha = {alpha:g}$", fontsize=7)
        ax.set(xlabel=r"$\lambda_1$, quenched theory", ylabel=r"$\lambda_1$, sample" if index == 0 else "")
        words = f"variance ratio {ratio(data, name):.2f}"
        ax.text(0.04, 0.95, words, transform=ax.transAxes, va="top", fontsize=7)
    layout.legend_above(fig, axes, 3)
    return fig


# The edge is at t = 0.72, far from the poles of single labels (t > 1), and alpha far below alpha_BBP = 2.17: where either is
# near, samples of these sizes are not yet in the limit.
EDGE_MODEL, EDGE_ALPHA = Network(1, 1, 0.1), 1.2


def build_edge(effort: Effort) -> Arrays:
    """Lowest eigenvalues (n, sample), the quenched edges and scales of the same draws, and the variances of theory."""
    sizes, samples = effort.sizes([100, 200, 400], [200, 400, 800, 1600]), effort.count(200, 600)
    rows = [_samples(n, samples, effort.seed) for n in sizes]
    found = [finite_edge(EDGE_MODEL, EDGE_ALPHA, n) for n in sizes]
    return {
        "n": ("n", np.array(sizes)),
        "lowest": (("n", "sample"), np.array([row[0] for row in rows])),
        "edge": (("n", "sample"), np.array([row[1] for row in rows])),
        "scaled": (("n", "sample"), np.array([row[2] for row in rows])),
        "label_std": ("n", np.array([edge.edge_error for edge in found])),
        "std": ("n", np.array([edge.lowest_error for edge in found])),
        "scale": ("n", np.array([edge.scale for edge in found])),
    }


def _samples(n: int, samples: int, seed: int) -> np.ndarray:
    """(3, sample): lowest eigenvalue, quenched edge of the same draw, (edge - lowest) kappa; NaN where either failed."""
    (values,) = sampled(EDGE_MODEL, n, [EDGE_ALPHA], samples, seed)["lowest"]
    rows = np.full((3, samples), np.nan)
    for sample, lowest in enumerate(values):
        if not np.isfinite(lowest):
            continue
        try:
            there = quenched_sample(EDGE_MODEL, n, EDGE_ALPHA, seed, sample)
        except NotConverged:
            continue
        rows[:, sample] = lowest, there.edge, (there.edge - lowest) * there.scale
    return rows


@figure("edge", build_edge)
def edge(data: Data) -> Figure:
    """Lowest eigenvalue at a sharp edge below the threshold, p = p* = 1, a = 0.1: about the quenched edge of each sample it
    has the law of Tracy-Widom; its raw variance is of order 1/N and mostly that of the labels. The teacher's direction, in
    units N^(-1/3) of the edge still near its threshold, pushes the lowest level down by 0.25 to 0.4 of the units of (a):
    the quenched edge contains that push. What is left of it makes the mean 0.1 to 0.2 larger than Tracy-Widom's at N = 100.
    """
    fig, axes = layout.figure(2, 2.9)
    grid = np.linspace(-5, 4, 200)
    axes[0].plot(
        grid, tracy_widom_cdf(grid), color=style.BLACK, linewidth=1.4, label=r"Tracy-Widom, $\beta = 1$"
    )
    for index, n in enumerate(data["n"]):
        values = np.sort(data["scaled"][index][np.isfinite(data["scaled"][index])])
        steps = (np.arange(values.size) + 0.5) / values.size
        tint = style.colour(index)
        axes[0].plot(values, steps, color=tint, linewidth=1.0, drawstyle="steps-mid", label=f"$N = {n}$")
    axes[0].set(
        xlim=(-5, 4),
        ylim=(0, 1),
        xlabel=r"$(E - \lambda_1)\,\kappa$, $E$ the quenched edge",
        ylabel="cumulative distribution",
    )
    n = data["n"].astype(float)
    measured = {r"$\lambda_1$": data["lowest"], "quenched edge": data["edge"]}
    for index, (name, values) in enumerate(measured.items()):
        count = np.isfinite(values).sum(axis=1)
        variance = np.nanvar(values, axis=1, ddof=1) * n
        error = variance * np.sqrt(2 / (count - 1))
        axes[1].errorbar(n, variance, yerr=error, label=f"samples, {name}", **points_look(index))
    axes[1].plot(n, n * data["std"] ** 2, color=style.colour(0), label="labels + Tracy-Widom, theory")
    name = "labels alone, theory"
    axes[1].plot(n, n * data["label_std"] ** 2, color=style.colour(1), linestyle="--", label=name)
    axes[1].set_xscale("log")
    axes[1].set_xticks(n, [f"{size:g}" for size in n])
    axes[1].minorticks_off()
    axes[1].set(ylim=(0, None), xlabel=r"input dimension $N$", ylabel=r"$N \times$ variance")
    layout.name_model(axes[0], EDGE_MODEL)
    layout.title(axes[1], rf"$\alpha = {EDGE_ALPHA:g}$, sharp edge")
    layout.legend_above(fig, axes, 4)
    return fig


MODELS = {"continuous": Network(1, 1, 0.5), "discontinuous": Network(1, 1, 2.0)}
# of alpha_BBP: where phi rises at these N
PHI_RANGES = {"continuous": (0.75, 1.3), "discontinuous": (0.5, 1.1)}
DRAWS = 1200  # of the law, with common random numbers along alpha


def build_phi(effort: Effort) -> Arrays:
    """Hits (n, alpha, sample) of both kinds, fractions with errors, crossings of successive N, the law's phi."""
    sizes, samples = effort.sizes([100, 200, 400], [200, 400, 800, 1600]), effort.count(150, 400)
    arrays: Arrays = {"n": ("n", np.array(sizes)), "pair": ("pair", np.arange(len(sizes) - 1))}
    rng = np.random.default_rng([effort.seed, 7])
    for kind, model in MODELS.items():
        threshold = theory.threshold(model).alpha
        alpha = rounded(np.linspace(*PHI_RANGES[kind], 9) * threshold)
        hits = np.array([sampled(model, n, alpha, samples, effort.seed)["hit"] for n in sizes])
        phi, phi_error, *_ = np.moveaxis(np.apply_along_axis(fraction, -1, hits), -1, 0)
        crossings = [
            phi_crossing(alpha, (hits[i], hits[j]), (sizes[i], sizes[j]), rng).alpha
            for i, j in pairwise(range(len(sizes)))
        ]
        crossing, crossing_error, *_ = np.array(crossings).reshape(-1, 4).T
        zero = alpha_zero(model)
        name = f"{kind}_alpha"
        arrays |= {
            name: ((name,), alpha),
            f"{kind}_hit": (("n", name, "sample"), hits),
            f"{kind}_phi": (("n", name), phi),
            f"{kind}_phi_error": (("n", name), phi_error),
            f"{kind}_theory": (("n", name), predicted_phi(model, sizes, alpha)),
            f"{kind}_crossing": ("pair", crossing),
            f"{kind}_crossing_error": ("pair", crossing_error),
            f"{kind}_alpha_bbp": np.float64(threshold),
            f"{kind}_alpha_0": np.float64(np.nan if zero is None else zero),
        }
    return arrays


def predicted_phi(model: Network, sizes: Sequence[int], alpha: Array) -> Array:
    """phi of theory.finite.law (n, alpha)."""
    return np.array(
        [[finite.law(model, float(at), n, draws=DRAWS).mean("first")[0] for at in alpha] for n in sizes]
    )


@figure("phi", build_phi)
def phi(data: Data) -> Figure:
    """Fraction of samples whose eigenvector of largest overlap with the teacher is that of the smallest eigenvalue, p = p*
    = 1. Points with one standard error: samples; lines, in a band of their error: the law of the small random matrix
    (theory.finite.law), 1,200 draws, no parameter fitted. Discontinuous transition (b): the law's curves cross between 1.0
    and 1.3, well below alpha_BBP. Continuous (a): at these sizes errors place no crossing, of the law or of samples. Over
    all points phi of the law is 0.001 above that of samples in (a), 0.009 below in (b): chi-square 22 and 12 of 27 points.
    """
    fig, axes = layout.figure(2, 3.0)
    for ax, (kind, model) in zip(axes, MODELS.items(), strict=True):
        alpha = data[f"{kind}_alpha"]
        for index, n in enumerate(data["n"]):
            phi, error = data[f"{kind}_phi"][index], data[f"{kind}_phi_error"][index]
            if f"{kind}_theory" in data:  # older files lack it
                law = data[f"{kind}_theory"][index]
                spread = np.sqrt(law * (1 - law) / DRAWS)
                marks.finite_band(ax, alpha, law, np.zeros_like(law), spread, index=index)
            ax.errorbar(alpha, phi, yerr=error, label=f"$N = {n}$", **points_look(index, elinewidth=0.9))
        marks.mark_threshold(ax, float(data[f"{kind}_alpha_bbp"]), kind)
        zero = float(data[f"{kind}_alpha_0"])
        if kind == "discontinuous" and np.isfinite(zero):
            label = rf"$\alpha_0 = {zero:.4g}$ (overlap)"
            ax.axvline(zero, color=style.BLACK, linestyle=(0, (4, 2)), linewidth=0.9, label=label)
        layout.name_model(ax, model)
        ax.set(xlabel=r"$\alpha = M/N$", ylabel=r"fraction $\phi$")
        ax.margins(y=0.1)
    axes[0].plot([], [], color=style.GREY, linewidth=1.0, label="finite-$N$ theory, colour of its $N$")
    layout.legend_above(fig, axes, 3)
    return fig


THRESHOLD_RANGES = {"continuous": (0.7, 1.35), "discontinuous": (0.3, 1.05)}
SIZES = np.array([100, 300, 1000, 10**4, 10**6, 10**8])  # of theory
ASIDE = 1.15  # factor of N by which points of one N are drawn side by side
MANY = 1000  # up to here a draw is cheap, and thresholds are wide


def build_thresholds(effort: Effort) -> Arrays:
    """The threshold of finite N with errors, and the alpha at which half of the samples have phi = 1."""
    sizes, samples = effort.sizes([100, 200, 400], [100, 200, 400, 800, 1600]), effort.count(100, 200)
    arrays: Arrays = {"n": ("n", SIZES), "sampled_n": ("sampled_n", np.array(sizes))}
    rng = np.random.default_rng([effort.seed, 3])
    for kind, model in MODELS.items():
        few = effort.count(60, 200)
        draws = [few * 3 if n <= MANY else few for n in SIZES]
        found = [
            finite.threshold(model, int(n), draws=count, seed=effort.seed)
            for n, count in zip(SIZES, draws, strict=True)
        ]
        limit = theory.threshold(model).alpha
        alpha = rounded(np.linspace(*THRESHOLD_RANGES[kind], 7) * limit)
        hits = [sampled(model, size, alpha, samples, effort.seed + 1)["hit"] for size in sizes]
        halves, errors, *_ = np.array([midpoint(alpha, h, rng) for h in hits]).T
        arrays |= {
            f"{kind}_alpha": ("n", np.array([each.alpha for each in found])),
            f"{kind}_error": ("n", np.array([each.error for each in found])),
            # none where samples do not settle it
            f"{kind}_sampled": ("sampled_n", np.where(np.isfinite(errors), halves, np.nan)),
            f"{kind}_sampled_error": ("sampled_n", errors),
            f"{kind}_limit": np.float64(limit),
        }
    return arrays


@figure("finite-thresholds", build_thresholds)
def finite_thresholds(data: Data) -> Figure:
    """BBP threshold at finite N out to N = 1e8, p = p* = 1, continuous (a = 0.5) and discontinuous (a = 2). phi = 1/2: half
    of the samples, or of the draws of finite-N theory (theory.finite.law), have their largest overlap in the lowest
    eigenvector; points of samples where these settle it. Bars: one standard error; points of one N side by side. In (b) all
    are far below the line of N = infinity, which theory approaches like 1/log N.
    """
    fig, axes = layout.figure(2, 2.9)
    for ax, (kind, model) in zip(axes, MODELS.items(), strict=True):
        ax.errorbar(
            data["n"], data[f"{kind}_alpha"], yerr=data[f"{kind}_error"], color=style.BLUE, marker="o", markersize=3,
            linewidth=1.0, label=r"theory, $\phi = 1/2$",
        )  # fmt: skip
        ax.errorbar(
            data["sampled_n"] / ASIDE, data[f"{kind}_sampled"], yerr=data[f"{kind}_sampled_error"], color=style.VERMILION,
            marker="s", linestyle="none", markersize=4, zorder=4, label=r"samples, $\phi = 1/2$",
        )  # fmt: skip
        limit = float(data[f"{kind}_limit"])
        ax.axhline(limit, color=style.BLACK, linewidth=0.9, label=r"$\alpha_\mathrm{BBP}$, $N = \infty$")
        layout.log_axis(ax)
        ax.margins(y=0.12)
        layout.name_model(ax, model, kind)
        ax.set(xlabel=r"input dimension $N$", ylabel=r"$\alpha = M/N$")
    layout.legend_above(fig, axes, 3)
    return fig
