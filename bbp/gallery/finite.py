"""Thresholds at finite N, from N = 100 to 1e8, samples on top where they can be had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bbp.analysis.finite_size import midpoint
from bbp.gallery.base import Data, Effort, Entry, Named, rounded, sampled
from bbp.plots import layout, style
from theory import finite
from theory.exact.transition import bbp_threshold
from theory.model import Network

MODELS = {"continuous": Network(1, 1, 0.5), "discontinuous": Network(1, 1, 2.0)}
RANGES = {"continuous": (0.7, 1.35), "discontinuous": (0.3, 1.05)}
SIZES = np.array([100, 300, 1000, 10**4, 10**6, 10**8])  # of theory
ASIDE = 1.15  # factor of N by which points of one N are drawn side by side
MANY = 1000  # up to here a draw is cheap, and thresholds are wide


def build(effort: Effort) -> Mapping[str, Named]:
    """The threshold of finite N with errors, and the alpha at which half of the samples have phi = 1."""
    sizes, samples = effort.sizes([100, 200, 400], [100, 200, 400, 800, 1600]), effort.count(100, 200)
    arrays: dict[str, Named] = {"n": (("n",), SIZES), "sampled_n": (("sampled_n",), np.array(sizes))}
    rng = np.random.default_rng([effort.seed, 3])
    for kind, model in MODELS.items():
        few = effort.count(60, 200)
        draws = [few * 3 if n <= MANY else few for n in SIZES]
        found = [
            finite.threshold(model, int(n), draws=count, seed=effort.seed)
            for n, count in zip(SIZES, draws, strict=True)
        ]
        limit = bbp_threshold(model).alpha
        alpha = rounded(np.linspace(*RANGES[kind], 7) * limit)
        hits = [sampled(model, size, alpha, samples, effort.seed + 1)["hit"] for size in sizes]
        halves = [midpoint(alpha, h, rng) for h in hits]
        errors = np.array([half.error for half in halves])  # none where samples do not settle it
        arrays |= {
            f"{kind}_alpha": (("n",), np.array([each.alpha for each in found])),
            f"{kind}_error": (("n",), np.array([each.error for each in found])),
            f"{kind}_sampled": (
                ("sampled_n",),
                np.where(np.isfinite(errors), [half.value for half in halves], np.nan),
            ),
            f"{kind}_sampled_error": (("sampled_n",), errors),
            f"{kind}_limit": ((), np.float64(limit)),
        }
    return arrays


def draw(data: Data) -> Figure:
    """A panel for each kind, alpha against N on a logarithmic axis."""
    fig = style.new_figure("double", 2.9)
    axes = layout.panels(fig, 2, "double")
    for ax, (kind, model) in zip(axes, MODELS.items(), strict=True):
        look: dict[str, Any] = {"color": style.BLUE, "marker": "o", "markersize": 3, "linewidth": 1.0}
        name = r"theory, $\phi = 1/2$"
        ax.errorbar(data["n"], data[f"{kind}_alpha"], yerr=data[f"{kind}_error"], label=name, **look)
        look = {"color": style.VERMILION, "marker": "s", "linestyle": "none", "markersize": 4, "zorder": 4}
        error = data[f"{kind}_sampled_error"]
        ax.errorbar(
            data["sampled_n"] / ASIDE,
            data[f"{kind}_sampled"],
            yerr=error,
            label=r"samples, $\phi = 1/2$",
            **look,
        )
        limit = float(data[f"{kind}_limit"])
        ax.axhline(limit, color=style.BLACK, linewidth=0.9, label=r"$\alpha_\mathrm{BBP}$, $N = \infty$")
        layout.log_axis(ax)
        ax.margins(y=0.12)
        layout.name_model(ax, model, kind)
        ax.set_xlabel(r"input dimension $N$")
        ax.set_ylabel(r"$\alpha = M/N$")
    layout.legend_above(fig, axes, 3)
    return fig


ENTRY = Entry(
    "finite-thresholds",
    "BBP threshold at finite N out to N = 1e8, p = p* = 1, continuous (a = 0.5) and discontinuous (a = 2). phi = 1/2: half of "
    "the samples, or of the draws of finite-N theory (theory.finite.law), have their largest overlap in the lowest "
    "eigenvector; points of samples where these settle it. Bars: one standard error; points of one N side by side. In (b) all "
    "are far below the line of N = infinity, which theory approaches like 1/log N.",
    build,
    draw,
)
