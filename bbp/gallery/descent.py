"""Gradient descent from random starts: largest squared magnetisation m2 at the end against alpha, for both kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bbp.gallery.base import Data, Effort, Entry, Named
from bbp.plots import layout, style
from bbp.plots import sweep as sweep_plots
from theory.exact.transition import bbp_threshold
from theory.model import Network

KINDS = {"continuous": 0.5, "discontinuous": 1.5}  # normalisation a, at p = 2
WIDTHS = (1, 2, 4)
ALPHA = np.linspace(0.75, 6, 8)


def build(effort: Effort) -> Mapping[str, Named]:
    """m2 at the end of descents from random starts, p* = 1 and p = 1, 2, 4, at two normalisations."""
    from sims.descent.path import Rules

    (n, *_), samples = effort.sizes([60], [300]), effort.count(12, 40)
    rules = Rules(steps=3000 if effort.mode == "quick" else 20_000, records=4, loss_floor=1e-6)
    arrays: dict[str, Named] = {
        "alpha": (("alpha",), ALPHA),
        "p": (("p",), np.array(WIDTHS)),
        "n": ((), np.int64(n)),
    }
    for kind, a in KINDS.items():
        models = [Network(p, 1, a) for p in WIDTHS]
        final = [
            [_final(model, n, float(alpha), samples, effort.seed, rules) for alpha in ALPHA]
            for model in models
        ]
        arrays[f"{kind}_m2"] = ("p", "alpha", "sample"), np.array(final)
        arrays[f"{kind}_alpha_bbp"] = ("p",), np.array([bbp_threshold(model).alpha for model in models])
    return arrays


def _final(model: Network, n: int, alpha: float, samples: int, seed: int, rules: Any) -> np.ndarray:
    """m2 at the last record of each descent, NaN for one that failed."""
    from sims.descent.path import Code
    from sims.descent.samples import sample_descents

    found = sample_descents(model, n, alpha, range(samples), seed, rules=rules)
    return np.where(found.code == Code.NOT_FINITE, np.nan, found.m2[:, -1])


def draw(data: Data) -> Figure:
    """A panel for each normalisation, a curve for each width."""
    fig = style.new_figure("double", 3.0)
    axes = layout.panels(fig, len(KINDS), "double")
    for ax, (kind, a) in zip(axes, KINDS.items(), strict=True):
        for index, p in enumerate(data["p"]):
            sweep_plots.sampled_points(
                ax, data["alpha"], data[f"{kind}_m2"][index], index=index, label=f"$p = {p}$"
            )
            mean = np.nanmean(data[f"{kind}_m2"][index], axis=1)
            ax.plot(data["alpha"], mean, color=style.colour(index), linewidth=0.7)
            threshold = float(data[f"{kind}_alpha_bbp"][index])
            ax.axvline(threshold, color=style.colour(index), linestyle=":", linewidth=0.9)
        ax.set_title(f"$p^* = 1$, $a = {a:g}$, $N = {int(data['n'])}$", loc="right", pad=3.0)
        ax.set_xlabel(r"$\alpha = M/N$")
        ax.set_ylabel(r"largest $m^2$ at the end")
        ax.set_ylim(0, 1.03)
    axes[0].plot([], [], color=style.GREY, linestyle=":", label=r"$\alpha_\mathrm{BBP}$ of that $p$")
    layout.legend_above(fig, axes, 4)
    return fig


ENTRY = Entry(
    "descent",
    "Gradient flow from random starts, p* = 1: largest squared magnetisation of a student row at the end against alpha for "
    "p = 1, 2, 4; dotted: the threshold of the Hessian at initialisation of that width. p = 2, 4 recover earlier than p = 1.",
    build,
    draw,
)
