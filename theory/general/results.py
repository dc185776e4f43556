"""What a route finds at one alpha: edge and all outliers, as arrays that rules of several steps are compared by."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _none() -> Array:
    return np.zeros(0)


@dataclass(frozen=True)
class Found:
    """Left edge and outliers of one model at one alpha. Errors are a standard deviation, or the last change of a refined rule.

    edge, edge_error       in units of the Hessian ((p/2) H for p = inf); NaN where there is no edge
    kind                   "sharp" | "smooth" | "atom" | "no edge" | "unresolved"
    route                  as in `theory.answers`
    outliers (r,)          distinct eigenvalues left of the edge, lowest first
    overlaps (r,)          squared overlap with the span of teacher and student directions
    teacher_share (r,)     share of that overlap that lies on teacher directions
    student_share (r,)     share on the span of the students; with overlapping students the two may add up to more than 1
    degeneracy (r,)        how many eigenvalues share the place
    reason                 why, where kind is "no edge" or "unresolved"
    unsettled              True where refinement went on changing the number of outliers: only the shared ones are listed
    """

    edge: float
    edge_error: float
    kind: str
    route: str
    outliers: Array = field(default_factory=_none)
    outliers_error: Array = field(default_factory=_none)
    overlaps: Array = field(default_factory=_none)
    overlaps_error: Array = field(default_factory=_none)
    teacher_share: Array = field(default_factory=_none)
    teacher_share_error: Array = field(default_factory=_none)
    student_share: Array = field(default_factory=_none)
    degeneracy: tuple[int | float, ...] = ()
    reason: str = ""
    unsettled: bool = False

    @classmethod
    def without_edge(cls, route: str, reason: str) -> Found:
        """No left edge, for a stated reason."""
        return cls(math.nan, 0.0, "no edge", route, reason=reason)

    def first(self, count: int) -> Found:
        """The same with the lowest `count` outliers only."""
        kept = {
            f.name: getattr(self, f.name)[:count]
            for f in fields(self)
            if isinstance(getattr(self, f.name), np.ndarray | tuple)
        }
        return replace(self, **kept)

    def steady(self, tolerance: float) -> bool:
        """Whether every error is below `tolerance`, relative to max(1, |value|) in units of the edge."""
        if self.unsettled or self.kind == "unresolved":
            return False
        size = max(abs(self.edge), 1e-300)
        errors = [self.edge_error / size, *(self.outliers_error / size), *self.overlaps_error]
        return bool(np.all(np.array(errors) <= tolerance))


def zero_of(alpha: float, overlap: float, slope: float) -> float:
    """Where the tangent of a squared overlap with `slope` in alpha vanishes; NaN where that is at no alpha > 0."""
    value = alpha - overlap / slope if slope > 0 else math.nan
    return value if value > 0 else math.nan
