"""Minima of the loss: how many there are against overlap and loss, where the teacher makes saddles of them, where flows end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bbp.analysis.finite_size import midpoint
from bbp.analysis.recovery import THRESHOLD
from bbp.gallery import Array, Arrays, Data, Effort, descents, figure
from bbp.plots import layout, style
from theory.exact.transition import alpha_zero_map, threshold_map
from theory.minima import Minima, complexity, preactivation_law, threshold
from theory.model import Network
from theory.path import bbp_time

A = 0.5
ALPHA = (2.0, 2.5, 3.0, 4.0, 5.2541366)  # the last: where the most numerous become unstable
OVERLAP = np.linspace(0, 0.8, 17)
SHARE = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35])  # of the loss of the most numerous
NORMALISATIONS = np.geomspace(0.03, 10, 11)
FLOW_A, LOST_ALPHA, HALF_ALPHA = (0.1, 0.5, 2.0), (2.0, 3.0, 4.0, 5.0, 6.0), (1.5, 2.0, 2.5, 3.0, 3.5)
STEPS = 12_000
ENDS = (2.0, 3.0)  # alphas of the descents whose ends are shown
EDGES = np.linspace(0, 3, 31)  # of |lambda|
Place = tuple[float, float | None]  # overlap, and loss where it is given


def build(effort: Effort) -> Arrays:
    """All curves, thresholds of p = p* = 1 over a, and ends of descents from random starts."""
    model = Network(a=A)
    (n, *_), samples = effort.sizes([300], [1000]), effort.count(8, 24)
    (small, *_), many = effort.sizes([100], [200]), effort.count(16, 64)
    free = [complexity(model, alpha) for alpha in ALPHA]
    overlaps: list[Place] = [(float(m), None) for m in OVERLAP]
    at_overlap = [_followed(model, alpha, top, overlaps) for alpha, top in zip(ALPHA, free, strict=True)]
    at_loss = [_at_losses(model, alpha, top) for alpha, top in zip(ALPHA, free, strict=True)]
    found = [threshold(Network(a=float(a))) for a in NORMALISATIONS]
    start = threshold_map(1, 1, NORMALISATIONS)
    ends = [_ends(model, alpha, n, samples, effort.seed) for alpha in ENDS]
    laws = [_law(model, complexity(model, alpha)) for alpha in ENDS]
    kinds = [[_lost(a, alpha, effort.seed) for alpha in LOST_ALPHA] for a in FLOW_A]
    half = [_half(a, small, many, effort.seed) for a in FLOW_A]
    return {
        "alpha": ("alpha", np.array(ALPHA)),
        "overlap": ("overlap", OVERLAP),
        "share": ("share", SHARE),
        "loss": ("alpha", np.array([top.loss for top in free])),
        "at_overlap": (("alpha", "overlap"), np.array(at_overlap)),
        "at_loss": (("alpha", "share"), np.array(at_loss)),
        "a": ("a", NORMALISATIONS),
        "alpha_bbp": ("a", start.alpha),
        "alpha_0": ("a", alpha_zero_map(1, 1, NORMALISATIONS, method="overlap")),
        "alpha_minima": ("a", np.array([each.alpha for each in found])),
        "flow_a": ("flow_a", np.array(FLOW_A)),
        "lost_alpha": ("lost_alpha", np.array(LOST_ALPHA)),
        "lost": (("flow_a", "lost_alpha"), np.array(kinds, dtype=np.int8)),
        "half": (("flow_a", "part"), np.array(half)),
        "n": np.int64(n),
        "half_n": np.int64(small),
        "ends_alpha": ("ends_alpha", np.array(ENDS)),
        "edge": ("edge", EDGES),
        "ends": (("ends_alpha", "bin"), np.array([density for density, _ in ends])),
        "ends_loss": (("ends_alpha", "sample"), np.array([loss for _, loss in ends])),
        "law": (("ends_alpha", "place"), np.array([density for _, density in laws])),
        "size": ("place", laws[0][0]),
    }


def _followed(model: Network, alpha: float, top: Minima, places: Sequence[Place]) -> list[float]:
    """Complexities at places, each found from the one before."""
    near, values = top, []
    for overlap, loss in places:
        found = complexity(model, alpha, overlap, loss, near=[near])
        near = near if found.saddle is None else found
        values.append(found.complexity)
    return values


def _at_losses(model: Network, alpha: float, top: Minima) -> list[float]:
    """Outwards from the loss of the most numerous."""
    places: list[Place] = [(0.0, float(share * top.loss)) for share in SHARE]
    middle = int(np.argmin(np.abs(SHARE - 1)))
    below = _followed(model, alpha, top, places[middle::-1])
    return [*below[::-1], *_followed(model, alpha, top, places[middle + 1 :])]


def _lost(a: float, alpha: float, seed: int) -> int:
    """1 where gradient flow loses the outlier, 0 where it does not, -1 where that is not resolved."""
    return {"lost": 1, "none": 0}.get(
        bbp_time(Network(a=a), alpha, samples=2**12, scramblings=4, seed=seed).kind, -1
    )


def _half(a: float, n: int, samples: int, seed: int) -> tuple[float, float]:
    """alpha at which half of the flows recover, with its error."""
    rules = {"steps": STEPS, "records": 4, "loss_floor": 1e-6}
    hits = []
    for alpha in HALF_ALPHA:
        found = descents(Network(a=a), n, alpha, samples, seed, rules)
        hits.append(found.projection[:, -1] > THRESHOLD)
    at = midpoint(np.array(HALF_ALPHA), np.array(hits, dtype=float), np.random.default_rng(seed))
    return at.value, at.error


def _ends(model: Network, alpha: float, n: int, samples: int, seed: int) -> tuple[Array, Array]:
    """Density of |lambda| at ends that did not find the teacher, and the loss of each (NaN where it did)."""
    from sims.dynamics.flow import Rules  # late: it brings JAX
    from sims.dynamics.run import descend

    flow = Rules(tolerance=1e-5)
    counts, losses = np.zeros(len(EDGES) - 1), np.full(samples, np.nan)
    number = 0
    for sample in range(samples):
        track = descend(model, n, alpha, flow, steps=STEPS, records=2, seed=seed, sample=sample)
        if track.overlap_matrix[-1, 0, 0] ** 2 > THRESHOLD:
            continue
        lam = np.abs(np.asarray(track.state.lam, np.float64).ravel())
        counts += np.histogram(lam, EDGES)[0]
        number += len(lam)
        losses[sample] = track.loss[-1] / len(lam)
    return counts / max(number, 1) / np.diff(EDGES), losses


def _law(model: Network, at: Minima) -> tuple[Array, Array]:
    """|lambda| of EDGES[-1] and below, and the density of the law of minima there."""
    law, size = preactivation_law(at, model), np.linspace(0, EDGES[-1], 151)
    nodes, place = np.unique(law.lam, return_inverse=True)
    density = np.bincount(place, law.probability) / at.step
    return size, np.interp(size, nodes, density) + np.interp(-size, nodes, density)


@figure("minima", build)
def minima(data: Data) -> Figure:
    """Minima of the loss, p = p* = 1. Above: complexity (logarithm of their mean number over N) against overlap with the
    teacher and against loss at a = 0.5; dotted: mean loss at the ends of gradient flow. Below left, against a: from which
    alpha on the most numerous are unstable towards the teacher, beside alpha_BBP and alpha_0 of the start, the alphas
    between which gradient flow at N = infinity stops losing the outlier (where that is resolved), and where half of the
    flows recover. Below right: preactivations at the ends of flows that did not find the teacher, and at the most numerous
    minima.
    """
    fig, (overlaps, losses, thresholds, ends) = layout.figure(4, 5.6, columns=2)
    for i, alpha in enumerate(data["alpha"]):
        look: dict[str, Any] = {"color": style.colour(i), "linewidth": 1.0}
        overlaps.plot(data["overlap"], data["at_overlap"][i], label=rf"$\alpha = {alpha:.4g}$", **look)
        losses.plot(data["share"] * data["loss"][i], data["at_loss"][i], **look)
    for ax, words in ((overlaps, "overlap $m$ with the teacher"), (losses, "loss of a sample")):
        ax.axhline(0, color=style.GREY, linewidth=0.6, zorder=1)
        ax.set(ylim=(-0.06, 0.16), xlabel=words, ylabel=r"complexity $\Sigma$")
    _thresholds(thresholds, data)
    for i, alpha in enumerate(data["ends_alpha"]):
        tint = style.colour(list(data["alpha"]).index(alpha))
        middle = (data["edge"][1:] + data["edge"][:-1]) / 2
        label = rf"ends, $\alpha = {alpha:g}$"
        ends.plot(middle, data["ends"][i], "o", color=tint, markersize=2.8, label=label)
        ends.plot(data["size"], data["law"][i], color=tint, label=rf"minima, $\alpha = {alpha:g}$")
        losses.axvline(np.nanmean(data["ends_loss"][i]), color=tint, linestyle=":", linewidth=0.9)
    normal = np.sqrt(2 / np.pi) * np.exp(-(data["size"] ** 2) / 2)
    look = {"color": style.GREY, "linestyle": "--", "linewidth": 0.9}
    ends.plot(data["size"], normal, label="at the start", **look)
    ends.set(xlabel=r"preactivation $|\lambda|$", ylabel="density", ylim=(0, None))
    ends.legend(fontsize="x-small")
    layout.title(losses, rf"$p = p^* = 1$, $a = {A:g}$")
    layout.title(ends, f"$N = {int(data['n'])}$")
    layout.legend_above(fig, [overlaps], 5)
    return fig


def _thresholds(ax: Axes, data: Data) -> None:
    ax.plot(data["a"], data["alpha_minima"], color=style.colour(0), label="minima unstable")
    ax.plot(data["a"], data["alpha_bbp"], color=style.BLACK, label=r"$\alpha_\mathrm{BBP}$")
    ax.plot(data["a"], data["alpha_0"], color=style.BLACK, linestyle=":", label=r"$\alpha_0$")
    words: str | None = "flow keeps the outlier from here on"
    for a, lost in zip(data["flow_a"], data["lost"], strict=True):
        last = int(np.flatnonzero(lost == 1)[-1]) if np.any(lost == 1) else len(lost)
        later = np.flatnonzero(lost[last + 1 :] == 0)
        if len(later):
            between = data["lost_alpha"][[last, last + 1 + later[0]]]
            ax.plot([a, a], between, color=style.colour(1), linewidth=3, alpha=0.5, label=words)
            words = None
    ax.errorbar(
        data["flow_a"], data["half"][:, 0], yerr=data["half"][:, 1], color=style.colour(2), marker="s", linestyle="none",
        label=f"half of flows recover, $N = {int(data['half_n'])}$",
    )  # fmt: skip
    ax.set(xscale="log", ylim=(0, None), xlabel=r"normalisation $a$", ylabel=r"$\alpha$")
    ax.legend(fontsize="x-small")
