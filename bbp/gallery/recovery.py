"""Where gradient flow recovers the teacher: shares of random starts, thresholds against N and their extrapolation; how the
overlap grows from a small one where N is large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import theory
from bbp.analysis.estimates import Estimate, fraction
from bbp.analysis.finite_size import midpoint
from bbp.analysis.laws import POWER, fit_law
from bbp.analysis.recovery import STEP_LIMIT, THRESHOLD
from bbp.gallery import Array, Arrays, Data, Effort, descents, figure
from bbp.plots import layout, style
from theory.model import Network
from theory.path import bbp_time

A = 0.5
ALPHA = {1: (2.0, 2.5, 3.0, 3.5), 2: (1.2, 1.4, 1.6, 1.8, 2.0, 2.2)}
PAPER = {100: 96, 200: 64, 400: 48, 1000: 16}  # samples by N: half an hour of a core
# Laws by which thresholds are extrapolated, their lines and names; which one holds is not known.
LAWS = {"1/N": ("-", "in $1/N$"), "N^-1/2": ("--", "in $N^{-1/2}$")}


def build_recovery(effort: Effort) -> Arrays:
    """Samples, how many recovered and how many still moved, for p = 1 and 2, p* = 1, every N and alpha."""
    sizes = effort.sizes([50, 100], tuple(PAPER))
    rules = {"steps": 40_000, "records": 4, "loss_floor": 1e-6}
    counts = empty(sizes)
    for i, p in enumerate(ALPHA):
        for j, n in enumerate(sizes):
            samples = effort.count(24, PAPER.get(n, 48))
            for k, alpha in enumerate(ALPHA[p]):
                found = descents(Network(p, 1, A), n, alpha, samples, effort.seed, rules)
                add(counts, (i, j, k), found.projection[:, -1], found.code)
    return counts


def empty(sizes: tuple[int, ...]) -> Arrays:
    """The arrays of the figure at input dimensions `sizes`, nothing counted yet."""
    shape = len(ALPHA), len(sizes), max(map(len, ALPHA.values()))
    alpha = np.full((shape[0], shape[2]), np.nan)
    for i, grid in enumerate(ALPHA.values()):
        alpha[i, : len(grid)] = grid
    return {
        "p": ("p", np.array(list(ALPHA))),
        "n": ("n", np.array(sizes)),
        "alpha": (("p", "place"), alpha),
        "alpha_bbp": ("p", np.array([theory.threshold(Network(p, 1, A)).alpha for p in ALPHA])),
    } | {
        name: (("p", "n", "place"), np.zeros(shape, np.int64)) for name in ("samples", "recovered", "moving")
    }


def add(arrays: Arrays, place: tuple[int, int, int], projection: Array, code: Array) -> None:
    """Count descents that ended at projections (S,) with codes (S,)."""
    known = np.isfinite(projection)
    recovered = known & (projection > THRESHOLD)
    moving = known & ~recovered & (code == STEP_LIMIT)
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
    value, error, *_ = np.array([threshold(data, i, j) for j in range(len(data["n"]))]).T
    return value, error


@figure("recovery", build_recovery)
def recovery(data: Data) -> Figure:
    """Gradient flow from random starts, p* = 1, a = 0.5. Left: share of samples that recover the teacher, with 95 %
    intervals. Right: alpha at which half do, against 1/N, lines in 1/N and in the square root of it with their values at N
    = infinity; dotted: alpha_BBP of that p, which is continuous here, so that alpha_0 is the same.
    """
    fig, (left, right) = layout.figure(2, 3.2)
    for i, p in enumerate(data["p"].tolist()):
        for j, n in enumerate(data["n"].tolist()):
            _shares(left, data, i, j, f"$N = {n}$")
        _thresholds(right, data, i, f"$p = {p}$")
        left.axvline(data["alpha_bbp"][i], color=style.GREY, linestyle=":", linewidth=0.9)
    for i, p in enumerate(data["p"].tolist()):
        left.annotate(
            f"$p = {p}$", (np.nanmean(data["alpha"][i]), 1.06), ha="center", va="bottom", fontsize="small"
        )
    left.set(xlabel=r"$\alpha = M/N$", ylabel=rf"share with $m^2 > {THRESHOLD:g}$", ylim=(-0.03, 1.18))
    for look, words in LAWS.values():
        right.plot([], [], color=style.GREY, linestyle=look, linewidth=0.8, label=words)
    right.plot([], [], color=style.GREY, linestyle=":", linewidth=0.9, label=r"$\alpha_\mathrm{BBP}$")
    right.set(
        xlabel=r"$1/N$",
        ylabel=r"half of the samples recover at $\alpha$",
        xlim=(-0.0004, None),
        ylim=(0, None),
    )
    right.xaxis.set_major_locator(MaxNLocator(4))
    layout.title(right, f"$p^* = 1$, $a = {A:g}$")
    layout.legend_above(fig, [left, right], 5)
    return fig


def _shares(ax: Axes, data: Data, i: int, j: int, label: str) -> None:
    alpha, found = share(data, i, j)
    value, _, low, high = np.array(found).T
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


TIMES = np.geomspace(0.05, 250, 75)
RECOVERED = 0.5  # of m^2
SAMPLES = 2**13  # of the flows at N = infinity that say when the Hessian's outlier is lost


class Case(NamedTuple):
    """Flows of one kind: how far they are followed, the overlap at the start (0: random students), and how many samples."""

    p: int
    alpha: float
    n: int
    time: float
    overlap: float
    samples: int


QUICK = (Case(1, 2.0, 1000, 10.0, 0.1, 2), Case(1, 4.0, 1000, 10.0, 0.1, 2), Case(2, 2.0, 1000, 10.0, 0.1, 2))
LARGE = (
    *(Case(1, alpha, 10_000, 50.0, 0.05, 4) for alpha in (3.0, 4.0, 2.0, 5.0, 2.5, 3.5)),
    *(Case(2, alpha, 10_000, 50.0, 0.05, 4) for alpha in (2.0, 1.2, 1.6, 2.4)),
    *(Case(1, alpha, 30_000, 50.0, 0.02, 3) for alpha in (3.0, 2.5, 3.5)),
    Case(2, 2.0, 30_000, 50.0, 0.02, 3),
    *(Case(1, alpha, 10_000, 250.0, 0.0, 16) for alpha in (3.5, 3.0, 4.0)),
    *(Case(2, alpha, 10_000, 250.0, 0.0, 16) for alpha in (2.0, 1.8)),
)


def build_growth(effort: Effort) -> Arrays:
    """m^2 against time of every sample. Paper mode takes hours: `benchmarks/recovery_large.py` keeps each sample as it ends."""
    cases = QUICK if effort.mode == "quick" else LARGE
    if effort.n is not None:
        cases = tuple(case._replace(n=effort.n[0]) for case in cases)
    if effort.samples is not None:
        cases = tuple(case._replace(samples=effort.samples) for case in cases)
    found = {case: [flow(case, s, effort.seed) for s in range(case.samples)] for case in cases}
    return arrays({case: [(track.time, m2(track)) for track in tracks] for case, tracks in found.items()})


def m2(track: Any) -> Array:
    """Largest share of a student row in the teacher's span, along a trajectory."""
    return np.max(np.sum(track.overlap_matrix**2, axis=-1), axis=-1)


def flow(case: Case, sample: int, seed: int = 0) -> Any:
    """One trajectory (`sims.dynamics.run.Track`), over data drawn as they are asked for."""
    from sims.dynamics.run import descend  # late: it brings JAX

    teacher: list[Array] = []

    def start(student: Array, rows: Array) -> Array:
        # at the overlap exactly, where one is asked for: else what is drawn
        teacher.append(rows)
        if not case.overlap:
            return student
        apart = student - (student @ rows.T / case.n) @ rows
        apart *= np.sqrt(case.n) / np.linalg.norm(apart, axis=1, keepdims=True)
        return case.overlap * rows + np.sqrt(1 - case.overlap**2) * apart

    def recovered(state: Any) -> bool:
        overlap = np.asarray(state.student, np.float64) @ teacher[0].T / case.n
        return bool(np.max(np.sum(overlap**2, axis=1)) > RECOVERED)

    return descend(
        Network(p=case.p, a=A), case.n, case.alpha, data="deferred", seed=seed, sample=sample, steps=4000,
        time=case.time, records=400, directions=4000, start=start, until=recovered,
    )  # fmt: skip


def arrays(found: Mapping[Case, Sequence[tuple[Array, Array]]]) -> Arrays:
    """The arrays of the figure from times and m^2 of the samples of every case; NaN where a flow had ended."""
    most = max(len(paths) for paths in found.values())
    values = np.full((len(found), most, len(TIMES)), np.nan)
    ends = np.full((2, len(found), most), np.nan)
    for i, paths in enumerate(found.values()):
        for j, (time, path) in enumerate(paths):
            values[i, j] = np.where(time[-1] >= TIMES, np.interp(TIMES, time, path), np.nan)
            ends[:, i, j] = time[-1], path[-1]
    lost = {
        (p, alpha): bbp_time(Network(p=p, a=A), alpha, samples=SAMPLES, scramblings=4).time
        for p, alpha in {case[:2] for case in found}
    }
    columns = ("p", "alpha", "n", "overlap")
    return {name: ("case", np.array([getattr(case, name) for case in found])) for name in columns} | {
        "time": ("time", TIMES),
        "m2": (("case", "sample", "time"), values),
        "end_time": (("case", "sample"), ends[0]),
        "end_m2": (("case", "sample"), ends[1]),
        "bbp_time": ("case", np.array([lost[case[:2]] for case in found])),
    }


@figure("growth", build_growth)
def growth(data: Data) -> Figure:
    """Gradient flow from a small overlap m_0 with the teacher, p* = 1, a = 0.5: m^2 over that of the start, geometric means
    of samples as far as none has recovered (m^2 = 1/2). Lines: N = 10,000, m_0 = 0.05; dashed: N = 30,000, m_0 = 0.02.
    Circles: when the Hessian loses its informative direction at N = infinity. Data drawn as they are asked for.
    """
    fig, axes = layout.figure(2, 3.2)
    for ax, p in zip(axes, (1, 2), strict=True):
        there = np.flatnonzero(data["p"] == p)
        for colour, alpha in enumerate(sorted(set(data["alpha"][there]))):
            for i in there[data["alpha"][there] == alpha]:
                if data["overlap"][i]:
                    _curve(ax, data, int(i), colour, data["n"][i] == data["n"].max() > data["n"].min())
        ax.set(xscale="log", yscale="log", xlabel="time of the flow", ylabel=r"$m^2 / m_0^2$")
        layout.title(ax, f"$p = {p}$, $p^* = 1$, $a = {A:g}$")
        ax.legend(fontsize="x-small")
    return fig


def _curve(ax: Axes, data: Data, i: int, colour: int, dashed: bool) -> None:
    """The geometric mean of the samples of one case as far as all go on, and where the Hessian's outlier is lost."""
    living = data["m2"][i][np.isfinite(data["end_time"][i])]
    ratio = np.exp(np.mean(np.log(living), axis=0)) / data["overlap"][i] ** 2
    label = None if dashed else rf"$\alpha = {data['alpha'][i]:g}$"
    tint = style.colour(colour)
    ax.plot(data["time"], ratio, color=tint, linestyle="--" if dashed else "-", marker="", label=label)
    lost = data["bbp_time"][i]
    if np.isfinite(lost):
        ax.plot([lost], [np.interp(lost, data["time"], ratio)], "o", color=tint, markersize=4)
