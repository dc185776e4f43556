"""What the general theory returns: a spectrum at one alpha, and a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _none() -> Array:
    return np.zeros(0)


@dataclass(frozen=True)
class Spectrum:
    """Left edge and outliers of one model at one alpha. Errors are a standard deviation, or the last change of a refined rule.

    edge, edge_error       in units of the Hessian ((p/2) H for p = inf); NaN where there is no edge
    kind                   "sharp" | "smooth" | "atom" | "no edge" | "unresolved"
    route                  "exact" | "cubature" | "points"
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
    def without_edge(cls, route: str, reason: str) -> Spectrum:
        """No left edge, for a stated reason."""
        return cls(math.nan, 0.0, "no edge", route, reason=reason)

    def first(self, count: int) -> Spectrum:
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


@dataclass(frozen=True)
class ModelThreshold:
    """The BBP transition of one model.

    alpha, alpha_error      NaN where there is none
    kind                    "continuous" | "discontinuous" | "none" | "no edge" | "unresolved"
    overlap, overlap_error  squared overlap just above: 0 when continuous
    until                   alpha at which the outlier enters the bulk again: inf where it never does
    route, reason           as in Spectrum
    alpha_0, alpha_0_error  where the overlap would vanish by its tangent (`theory.general.alpha_zero`): alpha where continuous,
                            NaN where there is none
    """

    alpha: float
    kind: str
    overlap: float
    alpha_error: float = 0.0
    overlap_error: float = 0.0
    until: float = math.inf
    route: str = "exact"
    reason: str = ""
    alpha_0: float = math.nan
    alpha_0_error: float = 0.0

    def steady(self, tolerance: float) -> bool:
        """Whether the errors are below `tolerance`, that of alpha relative to alpha."""
        if self.kind in ("none", "no edge"):
            return True
        if self.kind == "unresolved":
            return False
        return self.alpha_error <= tolerance * self.alpha and self.overlap_error <= tolerance


def zero_of(alpha: float, overlap: float, slope: float) -> float:
    """Where the tangent of a squared overlap with `slope` in alpha vanishes; NaN where that is at no alpha > 0."""
    value = alpha - overlap / slope if slope > 0 else math.nan
    return value if value > 0 else math.nan
