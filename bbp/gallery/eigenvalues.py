"""Eigenvalues of samples: spectra beside the density of theory; the lowest beside quenched theory of its labels, and its law at
a sharp edge, Tracy-Widom about the quenched edge."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

import theory
from bbp.analysis import spectrum
from bbp.analysis.spectrum import quenched_sample
from bbp.gallery.base import Arrays, Data, Effort, figure, points_look, sampled
from bbp.plots import layout, style
from bbp.plots import spectrum as spectrum_plots
from theory.checks import NotConverged
from theory.finite.edge import finite_edge
from theory.finite.tracy_widom import MEAN as TRACY_WIDOM_MEAN
from theory.finite.tracy_widom import tracy_widom_cdf
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
