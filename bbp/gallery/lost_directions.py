"""When gradient flow loses the Hessian's informative direction, against alpha: N = infinity, from random starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bbp.gallery.base import Data, Effort, Entry, Named
from bbp.plots import layout, style
from theory.exact.transition import bbp_threshold
from theory.model import Network
from theory.path import bbp_time

WIDTHS, NORMALISATIONS, POINTS = (1, 2), (0.5, 1.0), 6
SPAN = 1.08, 2.6  # alphas in units of alpha_BBP
UNTIL = 3.0


def build(effort: Effort) -> Mapping[str, Named]:
    """Times, errors and kinds (p, a, point) at alphas spread over multiples of alpha_BBP."""
    samples = 2**12 if effort.mode == "quick" else 2**16
    factors = np.geomspace(*SPAN, POINTS)
    shape = (len(WIDTHS), len(NORMALISATIONS), POINTS)
    alpha, time, error = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    lost, threshold = np.zeros(shape, dtype=bool), np.zeros(shape[:2])
    for i, j in np.ndindex(*shape[:2]):
        model = Network(WIDTHS[i], 1, NORMALISATIONS[j])
        threshold[i, j] = bbp_threshold(model).alpha
        alpha[i, j] = np.round(threshold[i, j] * factors, 4)
        for k in range(POINTS):
            found = bbp_time(model, alpha[i, j, k], until=UNTIL, samples=samples, seed=effort.seed)
            time[i, j, k], error[i, j, k], lost[i, j, k] = found.time, found.error, found.kind == "lost"
    dims = ("p", "a", "point")
    return {
        "p": (("p",), np.array(WIDTHS)),
        "a": (("a",), np.array(NORMALISATIONS)),
        "alpha_bbp": (("p", "a"), threshold),
        "alpha": (dims, alpha),
        "time": (dims, time),
        "time_error": (dims, error),
        "lost": (dims, lost.astype(np.int8)),
    }


def draw(data: Data) -> Figure:
    """A panel for each a, a curve for each p; open arrows where the direction still lives at the end."""
    fig = style.new_figure("double", 2.9)
    axes = layout.panels(fig, len(data["a"]), "double")
    for j, ax in enumerate(axes):
        for i, p in enumerate(data["p"]):
            alpha, time, error = (data[name][i, j] for name in ("alpha", "time", "time_error"))
            look: dict[str, Any] = {"color": style.colour(i), "marker": style.marker(i)}
            known = data["lost"][i, j].astype(bool)
            ax.errorbar(alpha[known], time[known], error[known], label=rf"$p = {p}$", markersize=3.5, **look)
            ax.plot(
                alpha[~known], np.full(np.sum(~known), UNTIL), linestyle="none", color=look["color"],
                marker="^", markerfacecolor="white",
            )  # fmt: skip
            ax.axvline(data["alpha_bbp"][i, j], color=look["color"], linestyle=":", linewidth=0.9)
        ax.set_ylim(0, 1.08 * UNTIL)
        ax.set_xlabel(r"$\alpha = M/N$")
        ax.set_title(rf"$p^* = 1$, $a = {data['a'][j]:g}$", loc="right", pad=3.0)
    axes[0].set_ylabel("the outlier is lost at time $t$")
    axes[0].plot([], [], color=style.GREY, linestyle=":", label=r"$\alpha_\mathrm{BBP}$")
    axes[0].plot(
        [], [], color=style.GREY, linestyle="none", marker="^", markerfacecolor="white", label="not by then"
    )
    layout.legend_above(fig, [axes[0]], 4)
    return fig


ENTRY = Entry(
    "lost-directions",
    "Gradient flow from random starts, p* = 1, N = infinity: the time at which the Hessian's outlier, there at the start above"
    " alpha_BBP (dotted), is lost on the way; flows in law without a matrix, extrapolated in step and N, with standard errors.",
    build,
    draw,
)
