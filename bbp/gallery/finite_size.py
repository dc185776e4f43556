"""Finite N, p = p* = 1: phi(alpha; N), the fraction of samples whose lowest eigenvector has the largest overlap, and thresholds
out to N = 1e8; samples and the law of finite N."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

import theory
from bbp.analysis.estimates import fraction
from bbp.analysis.finite_size import midpoint, phi_crossing
from bbp.gallery.base import Array, Arrays, Data, Effort, figure, points_look, rounded, sampled
from bbp.plots import layout, marks, style
from theory import finite
from theory.general.spectrum import alpha_zero
from theory.model import Network

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
        phi = [[fraction(cell) for cell in row] for row in hits]
        crossings = [
            phi_crossing(alpha, (hits[i], hits[j]), (sizes[i], sizes[j]), rng).alpha
            for i, j in pairwise(range(len(sizes)))
        ]
        zero = alpha_zero(model)
        name = f"{kind}_alpha"
        arrays |= {
            name: ((name,), alpha),
            f"{kind}_hit": (("n", name, "sample"), hits),
            f"{kind}_phi": (("n", name), np.array([[e.value for e in row] for row in phi])),
            f"{kind}_phi_error": (("n", name), np.array([[e.error for e in row] for row in phi])),
            f"{kind}_theory": (("n", name), predicted_phi(model, sizes, alpha)),
            f"{kind}_crossing": ("pair", np.array([c.value for c in crossings])),
            f"{kind}_crossing_error": ("pair", np.array([c.error for c in crossings])),
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
        halves = [midpoint(alpha, h, rng) for h in hits]
        errors = np.array([half.error for half in halves])  # none where samples do not settle it
        arrays |= {
            f"{kind}_alpha": ("n", np.array([each.alpha for each in found])),
            f"{kind}_error": ("n", np.array([each.error for each in found])),
            f"{kind}_sampled": (
                ("sampled_n",),
                np.where(np.isfinite(errors), [half.value for half in halves], np.nan),
            ),
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
