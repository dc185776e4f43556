"""What a route finds at one alpha, and how two finer solutions or several independent ones make one with errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from theory.answers import Edge, Outlier, Threshold

Array = NDArray[np.float64]

_OF_EDGE = {"edge": "value", "edge_error": "error", "kind": "kind", "route": "route", "reason": "reason"}
_OF_OUTLIERS = {
    "outliers": "value",
    "outliers_error": "error",
    "overlaps": "overlap",
    "overlaps_error": "overlap_error",
    "teacher_share": "teacher_share",
    "student_share": "student_share",
}


@dataclass(frozen=True)
class Found:
    """Left edge and outliers of one model at one alpha, also by name.

    bulk     the edge: `edge`, `edge_error`, `kind`, `route` and `reason` are its fields
    pulled   outliers at distinct places left of it, lowest first: `outliers`, `outliers_error`, `overlaps`, `overlaps_error`,
             `teacher_share` and `student_share` are arrays (r,) of theirs, `degeneracy` the tuple of multiplicities
    settled  False where refinement went on changing the number of outliers: only the shared ones are listed
    """

    bulk: Edge
    pulled: tuple[Outlier, ...] = ()
    settled: bool = True

    def __getattr__(self, name: str) -> Any:
        if name in _OF_EDGE:
            return getattr(self.bulk, _OF_EDGE[name])
        if name in _OF_OUTLIERS:
            return np.array([getattr(o, _OF_OUTLIERS[name]) for o in self.pulled], dtype=float)
        if name == "degeneracy":
            return tuple(o.multiplicity for o in self.pulled)
        raise AttributeError(f"Found has no {name}")

    def steady(self, tolerance: float) -> bool:
        """Whether every error is below `tolerance`, relative to the edge, that of overlaps to 1."""
        if not self.settled or self.kind == "unresolved":
            return False
        size = max(abs(self.edge), 1e-300)
        errors = [self.edge_error / size, *(self.outliers_error / size), *self.overlaps_error]
        return bool(np.all(np.array(errors) <= tolerance))


def without_edge(route: str, reason: str, kind: str = "no edge") -> Found:
    """No left edge, for a stated reason."""
    return Found(Edge(math.nan, kind, 0.0, route, reason))


def changed(rough: Found, fine: Found) -> Found:
    """The finer solution; its errors are the changes from the rough one. Differing kinds are unresolved."""
    kind = fine.kind if fine.kind == rough.kind else "unresolved"
    error = math.hypot(fine.edge - rough.edge, fine.edge_error)
    pulled = [
        replace(new, error=abs(new.value - old.value), overlap_error=abs(new.overlap - old.overlap))
        for old, new in zip(rough.pulled, fine.pulled, strict=False)
    ]
    same = len(rough.pulled) == len(fine.pulled)
    return Found(replace(fine.bulk, kind=kind, error=error), tuple(pulled), same)


def changed_threshold(rough: Threshold, fine: Threshold) -> Threshold:
    """The same of thresholds."""
    kind, none = fine.kind if rough.kind == fine.kind else "unresolved", fine.kind == "none"
    return replace(
        fine,
        kind=kind,
        error=0.0 if none else abs(fine.alpha - rough.alpha),
        jump_error=0.0 if none else abs(fine.jump - rough.jump),
        alpha_0_error=0.0 if none else abs(fine.alpha_0 - rough.alpha_0),
    )


def scattered(runs: Sequence[Found]) -> Found:
    """Means over independent clouds of points, errors from their spread; outliers found in every cloud only, and an unresolved
    kind where clouds disagree."""
    kinds, many = {run.kind for run in runs}, {len(run.pulled) for run in runs}
    edge, error = mean_error(np.array([run.edge for run in runs]))
    bulk = Edge(
        float(edge),
        kinds.pop() if len(kinds) == 1 else "unresolved",
        math.hypot(float(error), max(run.edge_error for run in runs)),
        "points",
    )
    pulled = []
    # Lowest first: only those that every cloud has can be paired.
    for alike in zip(*(run.pulled[: min(many)] for run in runs), strict=True):
        rows = [(o.value, o.overlap, o.teacher_share, o.student_share, o.multiplicity) for o in alike]
        mean, errors = mean_error(np.array(rows))
        value, overlap, teacher, student, multiplicity = mean.tolist()
        pulled.append(
            Outlier(value, overlap, teacher, student, round(multiplicity), float(errors[0]), float(errors[1]))
        )
    return Found(bulk, tuple(pulled), len(many) == 1)


def mean_error(values: Array) -> tuple[Array, Array]:
    """Mean over the first axis, and half of half the width of its 95 % interval by Student's t."""
    n = len(values)
    factor = stdtrit(n - 1, 0.975) / 1.959964
    return values.mean(axis=0), factor * values.std(axis=0, ddof=1) / math.sqrt(n)


def zero_of(alpha: float, overlap: float, slope: float) -> float:
    """Where the tangent of a squared overlap with `slope` in alpha vanishes; NaN where that is at no alpha > 0."""
    value = alpha - overlap / slope if slope > 0 else math.nan
    return value if value > 0 else math.nan
