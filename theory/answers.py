"""What theory answers: `Edge`, `Outlier`, `Threshold` and `Spectrum`, the same four for every model and route.

Units are those of the Hessian, or of (p/2) H for p = inf. A route says how an answer was found:

    "exact"   quadratic committees: one Laplace integral (`theory.exact.averages`). Errors are 0: digits are those of rounding
    "nodes"   the resolvent is a multiple of the identity: averages in at most two dimensions, refined until nothing moves
    "points"  matrix Dyson equation on product rules or Sobol points
    "draws"   at finite N: draws of labels (`theory.finite`)

Errors are the last change of a refined rule, or a standard deviation over sets of points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from theory.printing import Printed


class _Answer(Printed):
    """Fields that had other names before say the new one."""

    _former: ClassVar[dict[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._former:
            raise AttributeError(f"{type(self).__name__}.{name} is now {type(self)._former[name]}")
        raise AttributeError(f"{type(self).__name__} has no {name}")


@dataclass(frozen=True, repr=False)
class Edge(_Answer):
    """Left edge of the bulk.

    value   the edge; NaN where there is none
    kind    "sharp" (density like a square root), "smooth" (like exp(-A/distance)), "atom" (no weight is negative and
            alpha <= 1: the spectrum starts with the eigenvalue 0), "no edge" (weights unbounded below) or "unresolved"
    error   of the value
    route   how it was found
    reason  why there is no edge, or none resolved
    """

    value: float
    kind: str
    error: float = 0.0
    route: str = "exact"
    reason: str = ""

    _former: ClassVar[dict[str, str]] = {"g": "theory.exact.bulk.edge_resolvent(model, alpha)"}
    _units: ClassVar[dict[str, str]] = {"value": "Hessian"}


@dataclass(frozen=True, repr=False)
class Outlier(_Answer):
    """Eigenvalues left of the bulk that share one place.

    value          the eigenvalue
    overlap        squared overlap of each eigenvector with the span of teacher and student directions
    teacher_share  share of that overlap on teacher directions: their product is q2
    student_share  share on the span of the students; with overlapping students the two may add up to more than 1
    multiplicity   number of eigenvalues there: p p_star of those of a quadratic teacher
    error          of the value
    overlap_error  of the overlap
    """

    value: float
    overlap: float
    teacher_share: float = 1.0
    student_share: float = 0.0
    multiplicity: int | float = 1
    error: float = 0.0
    overlap_error: float = 0.0

    _former: ClassVar[dict[str, str]] = {
        "degeneracy": "multiplicity",
        "g": "theory.exact.outliers.outlier_resolvent(model, alpha)",
    }
    _units: ClassVar[dict[str, str]] = {"value": "Hessian"}


@dataclass(frozen=True, repr=False)
class Threshold(_Answer):
    """The BBP transition: of one model, or arrays of one shape for many (`threshold_map`) or for several N (`theory.finite`).

    alpha          alpha_BBP, the smallest M/N above which an outlier carries the teacher; NaN where there is none
    kind           "continuous" (sharp edge, the overlap grows from 0), "discontinuous" (smooth edge, it jumps), "none" (no
                   outlier at any alpha), "no edge" (weights unbounded below) or "unresolved"
    jump           squared overlap just above alpha: 0 where continuous
    error          of alpha
    alpha_0        where the overlap would vanish by its tangent (`alpha_zero`): alpha where continuous, NaN where there is
                   none; left out (NaN) by `threshold_map`: see `alpha_zero_map`
    route, reason  how it was found, and why there is none
    jump_error, alpha_0_error  of these
    until          alpha at which the outlier enters the bulk again: inf where it never does
    """

    alpha: Any
    kind: Any
    jump: Any
    error: Any = 0.0
    alpha_0: float = math.nan
    route: str = "exact"
    reason: Any = ""
    jump_error: float = 0.0
    alpha_0_error: float = 0.0
    until: float = math.inf

    _former: ClassVar[dict[str, str]] = {
        "overlap": "jump",
        "alpha_error": "error",
        "overlap_error": "jump_error",
        "doubt": "reason",
        "half": 'margin_threshold(model, n, of="half").alpha',
    }
    _units: ClassVar[dict[str, str]] = {"until": "M/N"}

    @property
    def discontinuous(self) -> Any:
        """Whether the overlap jumps: bool, or array of bools."""
        return self.kind == "discontinuous"

    def steady(self, tolerance: float) -> bool:
        """Whether the errors are below `tolerance`, that of alpha relative to alpha."""
        if self.kind in ("none", "no edge"):
            return True
        if self.kind == "unresolved":
            return False
        return self.error <= tolerance * self.alpha and self.jump_error <= tolerance


@dataclass(frozen=True, repr=False)
class Spectrum(_Answer):
    """Edge and lowest outlier along alpha: arrays of the shape of alpha, NaN where there is no edge or no outlier.

    alpha                          M/N
    edge, edge_error, kind         as in `Edge`; kinds are texts
    outlier, outlier_error         the lowest one, as in `Outlier`
    overlap, overlap_error         its squared overlap with teacher and student directions together
    teacher_share, student_share   shares of that
    reason                         at each alpha, why there is no edge (texts)
    route                          how it was found
    """

    alpha: np.ndarray
    edge: np.ndarray
    edge_error: np.ndarray
    kind: np.ndarray
    outlier: np.ndarray
    outlier_error: np.ndarray
    overlap: np.ndarray
    overlap_error: np.ndarray
    teacher_share: np.ndarray
    student_share: np.ndarray
    reason: np.ndarray
    route: str = "exact"

    _former: ClassVar[dict[str, str]] = {"sharp": 'kind == "sharp"'}

    @property
    def q2(self) -> np.ndarray:
        """Squared overlap of the lowest outlier with the teacher alone."""
        return self.overlap * self.teacher_share
