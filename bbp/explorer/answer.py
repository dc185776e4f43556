"""From a state to what the page shows: columns of every source, places of lines, ends of axes, numbers and words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bbp.explorer import curves
from bbp.explorer.curves import Array, Columns, PhaseMap
from bbp.explorer.state import State, command, plain, python_lines
from theory.answers import Found

Axes = tuple[float, float, float, float]  # x start, x end, y start, y end
DIGITS = 6  # significant digits of the numbers on the page
SHOWN = 4  # outliers in words
UNKNOWN, TOO_LONG = "not shown with options", "not shown (takes minutes)"
BARRED = ("lowest", "lowest_low", "lowest_high", "overlap", "overlap_low", "overlap_high")
# Sources of the figures, and the columns of each.
COLUMNS: Mapping[str, Sequence[str]] = {
    "density": ("lam", "rho"),
    "zoom": ("lam", "rho"),
    "outlier": ("lam", "height", "zoom_height"),
    "atom": ("lam", "rho", "top", "text"),
    "histogram": ("left", "right", "top"),
    "zoom_histogram": ("left", "right", "top"),
    "eigenvalues": ("lam",),
    "sample": ("lam", "height", "zoom_height"),
    "quenched": ("lam", "height", "zoom_height"),
    "branch": ("alpha", "edge", "outlier", "overlap"),
    "finite": ("alpha", *BARRED),
    "drawn": ("alpha", "lowest", "overlap"),
    "sweep": ("alpha", "n", "shape", *BARRED),
    "quantity": ("alpha", "n", "shape", "value", "low", "high"),
    "path": ("alpha", "time", "lowest", "lowest_theory", "edge", "overlap", "overlap_theory", "m2", "color"),
    "path_lines": ("time", "lowest_theory", "edge", "overlap_theory", "m2", "color"),
    "phases": ("image",),
    "thresholds": ("p", "a", "alpha_bbp", "alpha_0", "a_c"),
    "a_c": ("a", "row"),
    "present": ("a", "row"),
}
PHASES = {
    curves.BELOW: "below the transition: no outlier",
    curves.BETWEEN: "between α₀ and α_BBP: no outlier at N = ∞",
    curves.CONTINUOUS: "above a continuous transition: outlier",
    curves.DISCONTINUOUS: "above a discontinuous transition: outlier",
}


@dataclass
class Answer:
    """What changes on the page.

    sources  columns by name of source
    lines    place of each vertical line, None where there is none
    axes     ends of the axes by figure
    words    texts by the id of the element that shows them
    """

    sources: dict[str, Columns] = field(default_factory=dict)
    lines: dict[str, float | None] = field(default_factory=dict)
    axes: dict[str, Axes] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def __ior__(self, more: Answer) -> Answer:
        for name in ("sources", "lines", "axes", "words"):
            getattr(self, name).update(getattr(more, name))
        return self

    def unlike(self, before: Answer) -> Answer:
        """What of this answer differs from `before`, which then knows it too: the page is sent nothing twice."""
        fresh = Answer(words=self.words)
        for name, columns in self.sources.items():
            old = before.sources.get(name)
            if old is None or not all(_same(old[key], values) for key, values in columns.items()):
                fresh.sources[name] = columns
        fresh.lines = {
            name: place
            for name, place in self.lines.items()
            if name not in before.lines or before.lines[name] != place
        }
        fresh.axes = {name: ends for name, ends in self.axes.items() if before.axes.get(name) != ends}
        before |= replace(fresh, words={})
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


def empty(name: str) -> Columns:
    """The columns of a source without rows."""
    return {key: [] for key in COLUMNS[name]}


def number(value: float | None) -> str:
    """A number as the page shows it, with a true minus sign; "none" for None or NaN."""
    if value is None or math.isnan(value):
        return "none"
    return f"{value:.{DIGITS}g}".replace("-", "−").replace("inf", "∞")


def _give_or_take(value: float, error: float) -> str:
    """The number with its error, where its digits show it."""
    return number(value) + (f" ± {error:.1g}" if error > 0.1**DIGITS * abs(value) else "")


def answer(state: State) -> Answer:
    """Everything that theory says about a state."""
    found = all_but_diagram(state)
    found |= diagram(state, curves.phase_map(*diagram_of(state)))
    return found


def all_but_diagram(state: State) -> Answer:
    """What theory says about a state at once, but for the picture of the phases."""
    model, alpha = state.model, state.alpha
    end = curves.axis_end(model, alpha)
    found = Answer(
        lines=dict.fromkeys(("lowest_here", "recovery_here"), alpha),
        words={"command": command(state), "python": python_lines(state), "query": state.query()}
        | {"atom": number(max(0.0, 1 - alpha))},
    )
    if curves.is_slow(model):
        found |= _later(end)
    else:
        found |= with_numbers(state, curves.at(model, alpha))
        found |= _threshold(state, end)
    if model.is_committee:
        found |= with_density(state, curves.at(model, alpha), *curves.committee_density(model, alpha))
        found |= with_branch(curves.committee_branch(model, end), end)
    else:
        found.sources |= {name: empty(name) for name in ("density", "zoom", "atom", "branch")}
    found |= _present(state)
    return found


def _later(end: float) -> Answer:
    """What stands on the page of a slow model before its numbers come."""
    lines = ("edge", "zoom_edge", "lowest_bbp", "recovery_bbp", "recovery_zero")
    words = dict.fromkeys(("edge", "outlier", "overlap", "phase"), "computing …")
    words |= dict.fromkeys(("alpha_bbp", "jump", "alpha_0", "alpha_0_continuation"), TOO_LONG)
    words |= {
        "spectrum-words": "Edge, outliers and density follow: the students mix, which takes seconds to minutes.",
        "lowest-words": "Edge and lowest outlier against α, point by point.",
        "recovery-words": "Squared overlap of the lowest outlier with the teacher against α, point by point.",
    }
    unit = (-1.0, 1.0, 0.0, 1.0)
    axes = {
        "spectrum": unit,
        "zoom": unit,
        "lowest": (0.0, end, -1.0, 0.0),
        "recovery": (0.0, end, -0.02, 1.02),
    }
    return Answer({"outlier": marks([], 1.0, 1.0)}, dict.fromkeys(lines), axes, words)


def _q2(here: Found) -> float:
    """Squared overlap of the lowest outlier with the teacher, 0 without one."""
    return here.pulled[0].overlap * here.pulled[0].teacher_share if here.pulled else 0.0


def with_numbers(state: State, here: Found) -> Answer:
    """Edge and outliers: marks, numbers, and axes that hold them, of figures that have no curves yet."""
    bulk, known = here.bulk, math.isfinite(here.bulk.value)
    edge = bulk.value if known else 0.0
    left, width = min([edge, *(out.value for out in here.pulled[:1])]), max(1.5 * abs(edge), 0.1)
    sampled = bulk.route == "points"
    end = curves.axis_end(state.model, state.alpha)
    outliers = [_give_or_take(out.value, sampled * out.error) for out in here.pulled[:SHOWN]]
    return Answer(
        sources={"outlier": marks(here.outliers, 1.0, 1.0)},
        lines=dict.fromkeys(("edge", "zoom_edge"), bulk.value if known else None),
        axes={
            "spectrum": (left - 0.1 * width, edge + 4 * width, 0.0, 1.0),
            "zoom": (left - 0.1 * width, edge + 0.4 * width, 0.0, 1.0),
            "lowest": (0.0, end, left - 0.5 * width, edge + 0.5 * width),
        },
        words={
            "edge": (_give_or_take(edge, sampled * bulk.error) + " " if known else "") + bulk.kind,
            "outlier": ", ".join(outliers) or "none",
            "overlap": number(_q2(here)),
            "phase": "outlier" if here.pulled else "no outlier",
            "spectrum-words": f"{_seen(state, here)}. The density follows in a moment.",
        },
    )


def _seen(state: State, here: Found) -> str:
    """Edge, outliers and overlap in words."""
    units = " (of (p/2) H)" if math.isinf(state.p) else ""
    edge = f"{number(here.bulk.value)}, {here.bulk.kind}"
    reason = f" ({here.bulk.reason})" if here.bulk.reason else ""
    outliers = ", ".join(
        number(out.value) + (f" ({number(out.multiplicity)}-fold)" if out.multiplicity > 1 else "")
        for out in here.pulled[:SHOWN]
    )
    q2 = f"; squared overlap of the lowest with the teacher: {number(_q2(here))}" if here.pulled else ""
    return f"Eigenvalues at α = {number(state.alpha)}{units}: left edge {edge}{reason}; outliers: {outliers or 'none'}{q2}"


def _threshold(state: State, end: float) -> Answer:
    """Where the transition is."""
    model = state.model
    first = curves.threshold_of(model)
    start = first.alpha if math.isfinite(first.alpha) else None
    jumps = first.kind == "discontinuous"
    if start is not None and not jumps:  # both alpha_0 are alpha_BBP by definition
        continued = number(start)
    else:
        continued = number(curves.continued_zero(model)) if model.is_committee else UNKNOWN
    transition = f"{number(first.alpha)} {first.kind}" if start is not None else first.kind
    return Answer(
        lines={
            **dict.fromkeys(("lowest_bbp", "recovery_bbp"), start),
            "recovery_zero": first.alpha_0 if jumps and math.isfinite(first.alpha_0) else None,
        },
        axes={"recovery": (0.0, end, -0.02, 1.02)},
        words={
            "alpha_bbp": transition,
            "jump": number(first.jump),
            "alpha_0": number(first.alpha_0),
            "alpha_0_continuation": continued,
            "lowest-words": f"Edge and lowest outlier for α up to {number(end)}; α_BBP: {transition}.",
            "recovery-words": "Squared overlap of the lowest outlier with the teacher for α up to "
            f"{number(end)}; α_BBP: {transition}{f', a jump to {number(first.jump)}' if jumps else ''}.",
        },
    )


def with_density(
    state: State, here: Found, far: Columns, atom: float, close: Columns | None = None
) -> Answer:
    """The density ("lam", "rho"), its marks and its axes in both panels of the spectrum; close: the same drawn finer at the
    edge, if it is. Where there is no edge the curve begins somewhere in the tail."""
    near_edge = far if close is None else close
    lam, top = far["lam"], _top(far["rho"])
    left = here.bulk.value if math.isfinite(here.bulk.value) else float(lam[0])
    lowest, right = min([left, *(out.value for out in here.pulled[:1])]), float(lam[-1])
    near = left + max(1.5 * (left - lowest), 0.25 * abs(left), 1e-3 * abs(lowest))
    heights = near_edge["rho"][(near_edge["lam"] <= near) & np.isfinite(near_edge["rho"])]
    zoom_top = float(np.max(heights, initial=0.0)) or top
    pole = [0.0] if atom else []
    rough = "" if close is not None else " The density is drawn to a part in a thousand of its height or so."
    zero = f"atom of mass {number(atom)} at 0" if atom else "no atom at 0"
    return Answer(
        sources={
            "density": far,
            "zoom": dict(near_edge),
            "outlier": marks(here.outliers, top, zoom_top),
            "atom": {
                "lam": pole,
                "rho": pole,
                "top": [top] * len(pole),
                "text": [f" atom {atom:.3g}"] * len(pole),
            },
        },
        axes={
            "spectrum": (lowest - 0.06 * (right - lowest), right, 0.0, 1.05 * top),
            "zoom": (lowest - 0.35 * (near - left), near, 0.0, 1.25 * zoom_top),
        },
        words={"atom": number(atom), "spectrum-words": f"{_seen(state, here)}; {zero}.{rough}"},
    )


def without_density(state: State, here: Found, reason: str) -> Answer:
    """The words where there is no density to show."""
    return Answer(words={"spectrum-words": f"{_seen(state, here)}. No density: {reason}."})


def with_branch(columns: Columns, end: float) -> Answer:
    """Curves over alpha up to `end`, and axes that hold them."""
    places = np.concatenate([columns["edge"], columns["outlier"]])
    places = places[np.isfinite(places)]
    low, high = (places.min(), places.max()) if len(places) else (-1.0, 0.0)
    room = 0.06 * (high - low) or 0.1
    top = max(0.3, min(1.02, 1.25 * float(np.max(columns["overlap"]))))
    axes = {"lowest": (0.0, end, float(low - room), float(high + room)), "recovery": (0.0, end, -0.02, top)}
    return Answer(sources={"branch": columns}, axes=axes)


def marks(places: Any, top: float, zoom_top: float) -> Columns:
    """Columns of marks that stand on the axis at `places`, in both panels of the spectrum."""
    ones = np.ones(len(places))
    return {
        "lam": np.asarray(places, dtype=np.float64),
        "height": 0.035 * top * ones,
        "zoom_height": 0.04 * zoom_top * ones,
    }


def _top(rho: Array) -> float:
    """Height of the panel of the density: its maximum, or three times a high quantile where it has a pole."""
    return float(min(np.max(rho), 3 * np.quantile(rho, 0.9)))


def diagram_of(state: State) -> tuple[int, float]:
    """What the diagram of phases depends on, beside alpha: p* and the noise; that without noise stands for other options."""
    return state.p_star, state.noise if _in_diagram(state) else 0.0


def _in_diagram(state: State) -> bool:
    return replace(state, noise=0.0).quadratic


def diagram(state: State, seen: PhaseMap) -> Answer:
    """The picture of the phases."""
    rows = np.flatnonzero((seen.a_c > 0) & np.isfinite(seen.a_c))
    image = {"image": [curves.phases(seen, state.alpha)]}
    kinks = {"a": seen.a_c[rows], "row": rows.astype(np.float64)}
    return Answer(sources={"phases": image, "thresholds": seen.table, "a_c": kinks})


def _present(state: State) -> Answer:
    """The present point of the diagram of phases, and the diagram in words."""
    words, a_c, noise = {"a_c": UNKNOWN}, "", diagram_of(state)[1]
    if _in_diagram(state):
        where, here = f"with noise Δ = {number(noise)} " if noise else "", PHASES[phase_here(state)]
        words = {"phase": here, "a_c": number(curves.critical(state.p, state.p_star, noise))}
        a_c = f" Transitions are discontinuous from a_c = {words['a_c']} on."
    else:
        where = "of the quadratic committee without options, "
        here = "not among them, as this model has other options"
    low, high = curves.A_RANGE
    words["phases-words"] = (
        f"Phase diagram over a (from {low:g} to {high:g}) and p (from 1 to inf) for "
        f"p* = {state.p_star} {where}at α = {number(state.alpha)}: "
        f"the present point, p = {plain(state.p).replace('inf', '∞')}, a = {number(state.a)}, is {here}.{a_c}"
    )
    present = {"a": [state.a], "row": [curves.nearest_row(state.p)]}
    return Answer(sources={"present": present}, words=words)


def phase_here(state: State) -> int:
    """The phase of a state without options but noise, from its own thresholds rather than from the picture."""
    found = curves.threshold_of(state.model)
    jumps = found.kind == "discontinuous"
    if state.alpha > found.alpha:
        return curves.DISCONTINUOUS if jumps else curves.CONTINUOUS
    return curves.BETWEEN if jumps and state.alpha >= found.alpha_0 else curves.BELOW


def row_names(widths: Sequence[float]) -> dict[int, str]:
    """Labels of the rows of the phase diagram."""
    return {row: "∞" if math.isinf(p) else f"{p:g}" for row, p in enumerate(widths)}
