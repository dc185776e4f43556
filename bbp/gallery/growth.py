"""How the overlap with the teacher grows along gradient flow from a small one, against alpha, where N is large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bbp.gallery.base import Array, Data, Effort, Entry, Named
from bbp.plots import layout, style
from theory.model import Network
from theory.path import bbp_time

A = 0.5
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


def build(effort: Effort) -> Mapping[str, Named]:
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
    from sims.dynamics.run import descend

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


def arrays(found: Mapping[Case, Sequence[tuple[Array, Array]]]) -> dict[str, Named]:
    """The arrays of the figure from times and m^2 of the samples of every case; NaN where a flow had ended."""
    most = max(len(paths) for paths in found.values())
    values = np.full((len(found), most, len(TIMES)), np.nan)
    ends = np.full((2, len(found), most), np.nan)
    for i, paths in enumerate(found.values()):
        for j, (time, path) in enumerate(paths):
            values[i, j] = np.where(time[-1] >= TIMES, np.interp(TIMES, time, path), np.nan)
            ends[:, i, j] = time[-1], path[-1]
    columns = {
        name: np.array([getattr(case, name) for case in found]) for name in ("p", "alpha", "n", "overlap")
    }
    lost = {
        key: bbp_time(Network(p=key[0], a=A), key[1], samples=SAMPLES, scramblings=4).time
        for key in {c[:2] for c in found}
    }
    kept: dict[str, Named] = {name: (("case",), column) for name, column in columns.items()}
    return kept | {
        "time": (("time",), TIMES),
        "m2": (("case", "sample", "time"), values),
        "end_time": (("case", "sample"), ends[0]),
        "end_m2": (("case", "sample"), ends[1]),
        "bbp_time": (("case",), np.array([lost[case[:2]] for case in found])),
    }


def draw(data: Data) -> Figure:
    """m^2 over that of the start against time, p = 1 and p = 2."""
    fig = style.new_figure("double", 3.2)
    axes = layout.panels(fig, 2, "double")
    for ax, p in zip(axes, (1, 2), strict=True):
        there = np.flatnonzero(data["p"] == p)
        for colour, alpha in enumerate(sorted(set(data["alpha"][there]))):
            for i in there[data["alpha"][there] == alpha]:
                if data["overlap"][i]:
                    _curve(ax, data, int(i), colour, data["n"][i] == data["n"].max() > data["n"].min())
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("time of the flow")
        ax.set_ylabel(r"$m^2 / m_0^2$")
        ax.set_title(f"$p = {p}$, $p^* = 1$, $a = {A:g}$", loc="right", pad=3.0)
        ax.legend(fontsize="x-small")
    return fig


def _curve(ax: Axes, data: Data, i: int, colour: int, dashed: bool) -> None:
    """The geometric mean of the samples of one case as far as all go on, and where the Hessian's outlier is lost."""
    ratio = np.exp(np.mean(np.log(_samples(data, i)), axis=0)) / data["overlap"][i] ** 2
    label = None if dashed else rf"$\alpha = {data['alpha'][i]:g}$"
    ax.plot(
        data["time"],
        ratio,
        color=style.colour(colour),
        linestyle="--" if dashed else "-",
        marker="",
        label=label,
    )
    lost = data["bbp_time"][i]
    if np.isfinite(lost):
        ax.plot([lost], [np.interp(lost, data["time"], ratio)], "o", color=style.colour(colour), markersize=4)


def _samples(data: Data, i: int) -> Array:
    """m^2 (S, T) of the samples of one case."""
    return data["m2"][i][np.isfinite(data["end_time"][i])]


ENTRY = Entry(
    "growth",
    "Gradient flow from a small overlap m_0 with the teacher, p* = 1, a = 0.5: m^2 over that of the start, geometric means"
    " of samples as far as none has recovered (m^2 = 1/2). Lines: N = 10,000, m_0 = 0.05; dashed: N = 30,000, m_0 = 0.02."
    " Circles: when the Hessian loses its informative direction at N = infinity. Data drawn as they are asked for.",
    build,
    draw,
)
