"""From a state to what the page shows: columns of every source, places of lines, ends of axes, numbers and words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.explorer import curves, networks, phase_map
from bbp.explorer.state import State, command, plain, python_lines
from theory.general.results import Found
from theory.model.network import Network

Columns = dict[str, Any]
DIGITS = 6  # significant digits of the numbers on the page


@dataclass
class Answer:
    """What changes on the page.

    sources  columns by name of source
    lines    place of each vertical line, None where there is none
    axes     (x start, x end, y start, y end) by figure
    words    texts by the id of the element that shows them
    """

    sources: dict[str, Columns] = field(default_factory=dict)
    lines: dict[str, float | None] = field(default_factory=dict)
    axes: dict[str, tuple[float, float, float, float]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def unlike(self, before: Answer) -> Answer:
        """What of this answer differs from `before`, which then knows it too: the page is sent nothing twice."""
        fresh = Answer(words=self.words)
        for name, columns in self.sources.items():
            old = before.sources.get(name)
            if old is None or not all(_same(old[key], values) for key, values in columns.items()):
                fresh.sources[name] = before.sources[name] = columns
        for name, place in self.lines.items():
            if name not in before.lines or before.lines[name] != place:
                fresh.lines[name] = before.lines[name] = place
        for name, ends in self.axes.items():
            if before.axes.get(name) != ends:
                fresh.axes[name] = before.axes[name] = ends
        return fresh

    def message(self) -> dict[str, Any]:
        """The answer as it travels: all columns of numbers end to end in one array, which Bokeh sends as bytes.

        "packed" has [name, length] of the columns of each source in it, "sources" the others.
        """
        axes = {name: list(ends) for name, ends in self.axes.items()}
        packed, parts = {}, [np.empty(0)]
        others = {name: columns for name, columns in self.sources.items() if not _numeric(columns)}
        for name, columns in self.sources.items():
            if name not in others:
                packed[name] = [[key, len(values)] for key, values in columns.items()]
                parts += [np.asarray(values, dtype=np.float64) for values in columns.values()]
        found = {"sources": others, "packed": packed, "numbers": np.concatenate(parts)}
        return found | {"lines": self.lines, "axes": axes, "words": self.words}


def _numeric(columns: Columns) -> bool:
    if "color" in columns:  # text, where there is none as well: a page takes no numbers for it
        return False
    flat = all(len(values) == 0 or np.ndim(values[0]) == 0 for values in columns.values())
    return flat and all(np.asarray(values).dtype.kind in "fi" for values in columns.values())


def _same(one: Any, two: Any) -> bool:
    return one is two or (
        len(one) == len(two) and all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    )


def number(value: float | None) -> str:
    """A number as the page shows it, with a true minus sign; "none" for None or NaN."""
    if value is None or math.isnan(value):
        return "none"
    return f"{value:.{DIGITS}g}".replace("-", "−").replace("inf", "∞")


def give_or_take(value: float, error: float) -> str:
    """The error of a number, where its digits show it."""
    return f" ± {error:.1g}" if error > 0.1**DIGITS * abs(value) else ""


def answer(state: State) -> Answer:
    """Everything that theory says about a state."""
    found = all_but_diagram(state)
    found.sources |= diagram(state).sources
    return found


def all_but_diagram(state: State) -> Answer:
    """What theory says about a state, but for the picture of the phases, which costs as much again at another p* or noise."""
    model = state.model
    found = Answer()
    if model.is_committee:
        _spectrum(state, model, found)
        _branches(state, model, found)
    else:
        _network(state, model, found)
    _phase_words(state, found)
    found.words |= {"command": command(state), "python": python_lines(state), "query": state.query()}
    return found


def diagram_of(state: State) -> tuple[int, float]:
    """What the diagram of phases depends on, beside alpha: p* and the noise; that without noise stands for other options."""
    return state.p_star, state.noise if _in_diagram(state) else 0.0


def _in_diagram(state: State) -> bool:
    return replace(state, noise=0.0).quadratic


def diagram(state: State) -> Answer:
    """The picture of the phases."""
    seen = phase_map.phase_map(*diagram_of(state))
    rows = np.flatnonzero((seen.a_c > 0) & np.isfinite(seen.a_c))
    sources: dict[str, Columns] = {
        "phases": {"image": [phase_map.phases(seen, state.alpha)]},
        "thresholds": seen.columns,
        "a_c": {"a": seen.a_c[rows], "row": rows.astype(np.float64)},
    }
    return Answer(sources=sources)


def _spectrum(state: State, model: Network, found: Answer) -> None:
    alpha = state.alpha
    whole, near = curves.spectrum(model, alpha)
    edge, out = whole.edge, whole.outlier
    far, close = {"lam": whole.lam, "rho": whole.rho}, {"lam": near.lam, "rho": near.rho}
    panels(found, far, close, edge.value, [] if out is None else [out.value], whole.atom)
    found.axes["zoom"] = (near.left, near.right, *found.axes["zoom"][2:])
    found.lines |= {"edge": edge.value, "zoom_edge": edge.value}
    units = " (of (p/2) H)" if math.isinf(state.p) else ""
    found.words |= {
        "edge": f"{number(edge.value)} {edge.kind}",
        "outlier": number(out.value if out else None),
        "overlap": number(out.overlap if out else 0.0),
        "atom": number(whole.atom),
        "spectrum-words": f"Density of eigenvalues at α = {number(alpha)}{units}: "
        f"{edge.kind} left edge at {number(edge.value)}; "
        + (
            f"outlier at {number(out.value)}, {number(out.multiplicity)}-fold, squared overlap {number(out.overlap)}; "
            if out
            else "no outlier; "
        )
        + (f"atom of mass {number(whole.atom)} at 0." if whole.atom else "no atom at 0."),
    }


def panels(
    found: Answer, far: Columns, close: Columns, edge: float, outliers: Sequence[float], atom: float
) -> None:
    """Put the density, its marks and its axes into both panels of the spectrum. far, close: "lam" and "rho" there; edge: NaN
    where there is none, and then the curve begins somewhere in the tail."""
    lam, top = far["lam"], _top(far["rho"])
    left = edge if math.isfinite(edge) else float(lam[0])
    lowest, right = min([left, *outliers[:1]]), float(lam[-1])
    near = left + max(1.5 * (left - lowest), 0.25 * abs(left), 1e-3 * abs(lowest))
    heights = close["rho"][(close["lam"] <= near) & np.isfinite(close["rho"])]
    zoom_top = float(np.max(heights, initial=0.0)) or top
    found.sources |= {
        "density": far,
        "zoom": close,
        "outlier": marks(outliers, top, zoom_top),
        "atom": {
            "lam": [0.0] if atom else [],
            "rho": [0.0] if atom else [],
            "top": [top] if atom else [],
            "text": [f" atom {atom:.3g}"] if atom else [],
        },
    }
    found.axes["spectrum"] = (lowest - 0.06 * (right - lowest), right, 0.0, 1.05 * top)
    found.axes["zoom"] = (lowest - 0.35 * (near - left), near, 0.0, 1.25 * zoom_top)


def _network(state: State, model: Network, found: Answer) -> None:
    """Numbers and marks of a model with options: its curves follow from a worker, and so do its numbers where it is slow."""
    found.sources |= {
        "density": {"lam": [], "rho": []},
        "zoom": {"lam": [], "rho": []},
        "atom": {"lam": [], "rho": [], "top": [], "text": []},
        "outlier": marks([], 1.0, 1.0),
        "branch": {"alpha": [], "edge": [], "outlier": [], "overlap": []},
    }
    found.lines |= dict.fromkeys(("edge", "zoom_edge", "lowest_bbp", "recovery_bbp", "recovery_zero"))
    found.lines |= dict.fromkeys(("lowest_here", "recovery_here"), state.alpha)
    found.axes |= {
        "spectrum": (-1.0, 1.0, 0.0, 1.0),
        "zoom": (-1.0, 1.0, 0.0, 1.0),
        "lowest": (0.0, networks.axis_end(model, state.alpha), -1.0, 0.0),
        "recovery": (0.0, networks.axis_end(model, state.alpha), -0.02, 1.02),
    }
    found.words |= {"atom": number(max(0.0, 1 - state.alpha)), "a_c": UNKNOWN}
    if networks.is_slow(model):
        found.words |= dict.fromkeys(("edge", "outlier", "overlap", "phase"), "computing …")
        found.words |= dict.fromkeys(("alpha_bbp", "jump", "alpha_0", "alpha_0_continuation"), TOO_LONG)
        found.words |= {
            "spectrum-words": "Edge, outliers and density follow: the students mix, which takes seconds to minutes.",
            "lowest-words": "Edge and lowest outlier against α, point by point.",
            "recovery-words": "Squared overlap of the lowest outlier with the teacher against α, point by point.",
        }
        return
    here, threshold = networks.at(model, state.alpha), networks.threshold_of(model)
    _numbers(here, found)
    found.words["phase"] = _phase_of(here)
    start = threshold.alpha if math.isfinite(threshold.alpha) else None
    zero = (
        threshold.alpha_0 if threshold.kind == "discontinuous" and math.isfinite(threshold.alpha_0) else None
    )
    found.lines |= dict.fromkeys(("lowest_bbp", "recovery_bbp"), start) | {"recovery_zero": zero}
    transition = f"{number(threshold.alpha)} {threshold.kind}" if start is not None else threshold.kind
    found.words |= {
        "alpha_bbp": transition,
        "jump": number(threshold.jump),
        "alpha_0": number(threshold.alpha_0),
        "alpha_0_continuation": number(start) if threshold.kind == "continuous" else UNKNOWN,
        "lowest-words": f"Edge and lowest outlier against α; α_BBP: {transition}.",
        "recovery-words": f"Squared overlap of the lowest outlier with the teacher against α; α_BBP: {transition}.",
    }


def with_numbers(here: Found) -> Answer:
    """Edge and outliers that a worker has found; those of a model that is not slow are on the page."""
    found = Answer()
    if here.route == "points":
        _numbers(here, found)
        found.words["phase"] = _phase_of(here)
    return found


def _phase_of(here: Found) -> str:
    return "outlier" if len(here.outliers) else "no outlier"


def _numbers(here: Found, found: Answer) -> None:
    """Edge and outliers of a model with options: marks, numbers, and axes that hold them."""
    known = math.isfinite(here.edge)
    edge = here.edge if known else 0.0
    lowest = float(here.outliers[0]) if len(here.outliers) else None
    left, width = edge if lowest is None else lowest, max(1.5 * abs(edge), 0.1)
    found.sources["outlier"] = marks(here.outliers, 1.0, 1.0)
    found.lines |= dict.fromkeys(("edge", "zoom_edge"), here.edge if known else None)
    found.axes |= {
        "spectrum": (left - 0.1 * width, edge + 4 * width, 0.0, 1.0),
        "zoom": (left - 0.1 * width, edge + 0.4 * width, 0.0, 1.0),
    }
    if "lowest" in found.axes:
        found.axes["lowest"] = (*found.axes["lowest"][:2], left - 0.5 * width, edge + 0.5 * width)
    sampled = here.route == "points"
    edge_error, errors = (here.edge_error, here.outliers_error) if sampled else (0.0, 0 * here.outliers)
    found.words |= {
        "edge": f"{number(here.edge)}{give_or_take(here.edge, edge_error)} {here.kind}"
        if known
        else here.kind,
        "outlier": ", ".join(
            number(float(value)) + give_or_take(float(value), float(error))
            for value, error in zip(here.outliers[:4], errors, strict=False)
        )
        or "none",
        "overlap": number(float(here.overlaps[0] * here.teacher_share[0])) if len(here.overlaps) else "0",
        "spectrum-words": f"{_seen(here)} The density follows in a moment.",
    }


def with_density(message: Mapping[str, Any]) -> Answer:
    """What the density of a model with options brings, or the reason why there is none (`networks.curves`)."""
    found, here = Answer(), message["here"]
    if "reason" in message:
        found.words["spectrum-words"] = f"{_seen(here)} No density: {message['reason']}."
        return found
    columns = message["density"]
    panels(
        found, columns, dict(columns), here.edge, [float(value) for value in here.outliers], message["atom"]
    )
    found.words["atom"] = number(message["atom"])
    found.words["spectrum-words"] = (
        f"{_seen(here)} The density is drawn to a part in a thousand of its height or so."
    )
    return found


def with_branch(columns: Columns, axis: tuple[float, float, float, float]) -> Answer:
    """Curves over alpha of a model with options, and the axis that holds them."""
    places = np.concatenate([columns["edge"], columns["outlier"]])
    places = places[np.isfinite(places)]
    room = 0.06 * float(np.ptp(places)) or 0.1 if len(places) else 0.0
    ends = (float(places.min() - room), float(places.max() + room)) if len(places) else axis[2:]
    return Answer(sources={"branch": columns}, axes={"lowest": (*axis[:2], *ends)})


def _seen(here: Found) -> str:
    """Edge, outliers and overlap in words."""
    reason = f" ({here.reason})" if here.reason else ""
    outliers = ", ".join(number(float(value)) for value in here.outliers[:4]) or "none"
    q2 = number(float(here.overlaps[0] * here.teacher_share[0])) if len(here.overlaps) else "0"
    return (
        f"Left edge: {number(here.edge)}, {here.kind}{reason}; outliers: {outliers}; squared overlap of the lowest with the "
        f"teacher: {q2}."
    )


UNKNOWN = "not shown with options"
TOO_LONG = "not shown (takes minutes)"


def marks(places: Any, top: float, zoom_top: float) -> Columns:
    """Columns of marks that stand on the axis at `places`, in both panels of the spectrum."""
    ones = np.ones(len(places))
    return {
        "lam": np.asarray(places, dtype=np.float64),
        "height": 0.035 * top * ones,
        "zoom_height": 0.04 * zoom_top * ones,
    }


def _branches(state: State, model: Network, found: Answer) -> None:
    here = curves.point(model)
    branch = curves.branch(model, curves.axis_end(model, state.alpha))
    threshold = here.threshold
    found.sources["branch"] = {
        "alpha": branch.alpha,
        "edge": branch.edge,
        "outlier": branch.outlier,
        "overlap": branch.overlap,
    }
    low = float(np.nanmin(np.append(branch.edge, branch.outlier[np.isfinite(branch.outlier)])))
    high = float(np.max(branch.edge))
    room = 0.06 * (high - low) or 0.1
    found.axes["lowest"] = (0.0, branch.end, low - room, high + room)
    found.axes["recovery"] = (
        0.0,
        branch.end,
        -0.02,
        max(0.3, min(1.02, 1.25 * float(np.max(branch.overlap)))),
    )
    found.lines |= {name: state.alpha for name in ("lowest_here", "recovery_here")}
    found.lines |= {name: threshold.alpha for name in ("lowest_bbp", "recovery_bbp")}
    found.lines["recovery_zero"] = here.alpha_0 if threshold.kind == "discontinuous" else None
    found.words |= {
        "alpha_bbp": f"{number(threshold.alpha)} {threshold.kind}",
        "jump": number(threshold.jump),
        "alpha_0": number(here.alpha_0),
        "alpha_0_continuation": number(here.alpha_0_continuation),
        "lowest-words": f"Edge and outlier for α from {number(branch.alpha[0])} to {number(branch.end)}: the outlier leaves "
        f"the bulk at α_BBP = {number(threshold.alpha)} ({threshold.kind}).",
        "recovery-words": f"Squared overlap q² against α: 0 up to α_BBP = {number(threshold.alpha)}, "
        + (f"then it jumps to {number(threshold.jump)}" if threshold.jump else "then it grows from 0")
        + f", and reaches {number(float(branch.overlap[-1]))} at α = {number(branch.end)}.",
    }


def _phase_words(state: State, found: Answer) -> None:
    """The present point of the diagram of phases, and the diagram in words."""
    found.sources["present"] = {"a": [state.a], "row": [phase_map.nearest_row(state.p)]}
    noise, a_c = diagram_of(state)[1], None
    if _in_diagram(state):
        where, here = f"with noise Δ = {number(noise)} " if noise else "", PHASES[phase_here(state)]
        a_c = curves.critical(state.p, state.p_star, noise)
        found.words |= {"phase": here, "a_c": number(a_c)}
    else:
        where = "of the quadratic committee without options, "
        here = "not among them, as this model has other options"
    low, high = phase_map.A_RANGE
    found.words |= {
        "phases-words": f"Phase diagram over a (from {low:g} to {high:g}) and p (from 1 to inf) for "
        f"p* = {state.p_star} {where}at α = {number(state.alpha)}: "
        f"the present point, p = {plain(state.p).replace('inf', '∞')}, a = {number(state.a)}, is {here}."
        + (f" Transitions are discontinuous from a_c = {number(a_c)} on." if a_c is not None else ""),
    }


PHASES = {
    phase_map.BELOW: "below the transition: no outlier",
    phase_map.BETWEEN: "between α₀ and α_BBP: no outlier at N = ∞",
    phase_map.CONTINUOUS: "above a continuous transition: outlier",
    phase_map.DISCONTINUOUS: "above a discontinuous transition: outlier",
}


def phase_here(state: State) -> int:
    """The phase of a state without options but noise, from its own thresholds rather than from the picture."""
    model = state.model
    if model.is_committee:
        threshold, alpha_0 = curves.point(model).threshold, curves.point(model).alpha_0
        alpha, kind = threshold.alpha, threshold.kind
    else:
        found = networks.threshold_of(model)
        alpha, kind, alpha_0 = found.alpha, found.kind, found.alpha_0
    jumps = kind == "discontinuous"
    if state.alpha > alpha:
        return phase_map.DISCONTINUOUS if jumps else phase_map.CONTINUOUS
    return phase_map.BETWEEN if jumps and alpha_0 is not None and state.alpha >= alpha_0 else phase_map.BELOW


def _top(rho: NDArray[np.float64]) -> float:
    """Height of the panel of the density: its maximum, or three times a high quantile where it has a pole."""
    return float(min(np.max(rho), 3 * np.quantile(rho, 0.9)))


def row_names(widths: Sequence[float]) -> dict[int, str]:
    """Labels of the rows of the phase diagram."""
    return {row: "∞" if math.isinf(p) else f"{p:g}" for row, p in enumerate(widths)}
