"""Where gradient flow from random starts recovers the teacher, against N: shares, thresholds and their extrapolation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bbp.analysis.estimates import Estimate, fraction
from bbp.analysis.finite_size import midpoint
from bbp.analysis.laws import POWER, fit_law
from bbp.analysis.recovery import THRESHOLD
from bbp.gallery.base import Array, Data, Effort, Entry, Named
from bbp.plots import layout, style
from theory.exact.transition import bbp_threshold
from theory.model import Network

A = 0.5
ALPHA = {1: (2.0, 2.5, 3.0, 3.5), 2: (1.2, 1.4, 1.6, 1.8, 2.0, 2.2)}
PAPER = {100: 96, 200: 64, 400: 48, 1000: 16}  # samples by N: half an hour of a core
# Laws by which thresholds are extrapolated, their lines and names; which one holds is not known.
LAWS = {"1/N": ("-", "in $1/N$"), "N^-1/2": ("--", "in $N^{-1/2}$")}


def build(effort: Effort) -> Mapping[str, Named]:
    """Samples, how many recovered and how many still moved, for p = 1 and 2, p* = 1, every N and alpha."""
    from sims.descent.path import Rules
    from sims.descent.samples import sample_descents

    sizes = effort.sizes([50, 100], tuple(PAPER))
    rules = Rules(steps=40_000, records=4, loss_floor=1e-6)
    counts = empty(sizes)
    for i, p in enumerate(ALPHA):
        for j, n in enumerate(sizes):
            samples = effort.count(24, PAPER.get(n, 48))
            for k, alpha in enumerate(ALPHA[p]):
                found = sample_descents(Network(p, 1, A), n, alpha, range(samples), effort.seed, rules=rules)
                add(counts, (i, j, k), found.projection[:, -1], found.code)
    return counts


def empty(sizes: tuple[int, ...]) -> dict[str, Named]:
    """The arrays of the figure at input dimensions `sizes`, nothing counted yet."""
    shape = len(ALPHA), len(sizes), max(map(len, ALPHA.values()))
    alpha = np.full((shape[0], shape[2]), np.nan)
    for i, grid in enumerate(ALPHA.values()):
        alpha[i, : len(grid)] = grid
    return {
        "p": (("p",), np.array(list(ALPHA))),
        "n": (("n",), np.array(sizes)),
        "alpha": (("p", "place"), alpha),
        "alpha_bbp": (("p",), np.array([bbp_threshold(Network(p, 1, A)).alpha for p in ALPHA])),
        **{
            name: (("p", "n", "place"), np.zeros(shape, np.int64))
            for name in ("samples", "recovered", "moving")
        },
    }


def add(arrays: Mapping[str, Named], place: tuple[int, int, int], projection: Array, code: Array) -> None:
    """Count descents that ended at projections (S,) with codes (S,)."""
    from sims.descent.path import Code

    known = np.isfinite(projection)
    recovered = known & (projection > THRESHOLD)
    moving = known & ~recovered & (code == Code.STEP_LIMIT)
    for name, hits in (("samples", known), ("recovered", recovered), ("moving", moving)):
        arrays[name][1][place] += int(hits.sum())


def share(data: Data, i: int, j: int) -> tuple[Array, list[Estimate]]:
    """Alphas sampled, and the share that recovers at each with its interval, for p number i and N number j."""
    there = data["samples"][i, j] > 0
    counts = zip(data["samples"][i, j][there], data["recovered"][i, j][there], strict=True)
    return data["alpha"][i][there], [fraction(np.arange(total) < hits) for total, hits in counts]


def threshold(data: Data, i: int, j: int) -> Estimate:
    """alpha at which half of the samples recover, as in `bbp descent`; those that still move have not."""
    there = data["samples"][i, j] > 0
    total, hits = data["samples"][i, j][there], data["recovered"][i, j][there]
    order = np.arange(total.max())
    outcomes = np.where(order < total[:, None], order < hits[:, None], np.nan)
    return midpoint(data["alpha"][i][there], outcomes, np.random.default_rng(0))


def thresholds(data: Data, i: int) -> tuple[Array, Array]:
    """`threshold` and its error (n,) at every N, for p number i."""
    found = [threshold(data, i, j) for j in range(len(data["n"]))]
    return np.array([each.value for each in found]), np.array([each.error for each in found])


def draw(data: Data) -> Figure:
    """Shares against alpha, and where they are one half against 1/N, with alpha_BBP beside them."""
    fig = style.new_figure("double", 3.2)
    left, right = layout.panels(fig, 2, "double")
    for i, p in enumerate(data["p"].tolist()):
        for j, n in enumerate(data["n"].tolist()):
            _shares(left, data, i, j, f"$N = {n}$")
        _thresholds(right, data, i, f"$p = {p}$")
        left.axvline(data["alpha_bbp"][i], color=style.GREY, linestyle=":", linewidth=0.9)
    for i, p in enumerate(data["p"].tolist()):
        left.annotate(
            f"$p = {p}$", (np.nanmean(data["alpha"][i]), 1.06), ha="center", va="bottom", fontsize="small"
        )
    left.set_xlabel(r"$\alpha = M/N$")
    left.set_ylabel(rf"share with $m^2 > {THRESHOLD:g}$")
    left.set_ylim(-0.03, 1.18)
    for look, words in LAWS.values():
        right.plot([], [], color=style.GREY, linestyle=look, linewidth=0.8, label=words)
    right.plot([], [], color=style.GREY, linestyle=":", linewidth=0.9, label=r"$\alpha_\mathrm{BBP}$")
    right.set_xlabel(r"$1/N$")
    right.set_ylabel(r"half of the samples recover at $\alpha$")
    right.set_xlim(left=-0.0004)
    right.set_ylim(bottom=0)
    right.xaxis.set_major_locator(MaxNLocator(4))
    right.set_title(f"$p^* = 1$, $a = {A:g}$", loc="right", pad=3.0)
    layout.legend_above(fig, [left, right], 5)
    return fig


def _shares(ax: Axes, data: Data, i: int, j: int, label: str) -> None:
    alpha, found = share(data, i, j)
    value, low, high = (np.array([getattr(e, part) for e in found]) for part in ("value", "low", "high"))
    ax.errorbar(
        alpha, value, yerr=np.stack([value - low, high - value]).clip(0), color=style.colour(j), marker=style.marker(j),
        linewidth=0.8, elinewidth=0.9, label=label,
    )  # fmt: skip


def _thresholds(ax: Axes, data: Data, i: int, label: str) -> None:
    n, (value, error) = data["n"].astype(float), thresholds(data, i)
    tint = style.colour(i + len(data["n"]))
    ax.errorbar(1 / n, value, yerr=error, color=tint, marker=style.marker(i), linestyle="none", label=label)
    ax.axhline(data["alpha_bbp"][i], color=tint, linestyle=":", linewidth=0.9)
    known = np.isfinite(value) & (np.nan_to_num(error) > 0)
    if known.sum() < 2:
        return
    path = np.linspace(0, 1 / n.min(), 200)
    for law, (look, _) in LAWS.items():
        fit = fit_law(law, n[known], value[known], error[known])
        curve = fit.limit.value + fit.coefficient.value * path ** POWER[law]
        ax.plot(path, curve, color=tint, linestyle=look, linewidth=0.8)
        ax.errorbar([0], [fit.limit.value], yerr=[fit.limit.error], color=tint, linewidth=0.8, capsize=2)


ENTRY = Entry(
    "recovery",
    "Gradient flow from random starts, p* = 1, a = 0.5. Left: share of samples that recover the teacher, with 95 % intervals."
    " Right: alpha at which half do, against 1/N, lines in 1/N and in the square root of it with their values at N = infinity;"
    " dotted: alpha_BBP of that p, which is continuous here, so that alpha_0 is the same.",
    build,
    draw,
)
