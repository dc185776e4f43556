"""What theory answers: `Edge`, `Outlier`, `Threshold` and `Spectrum`, the same four for every model and route; at finite N
`Prediction` says what one sample shows.

Two solutions of which one is finer make one with errors, and so do several independent ones (at the end).

Units are those of the Hessian, or of (p/2) H for p = inf. A route says how an answer was found: "exact", "nodes" and "points"
are those of `theory.general.spectrum`, "draws" are draws of preactivations at finite N, the quenched disorder of
`theory.finite`.
Errors are the last change of a refined rule, or a standard deviation over sets of points.

Answers print as one short line with errors beside values, and in a notebook as a table with units (`Printed`).
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

DIGITS = 11  # of a number without an error
LONGEST = 40  # characters of anything that is no number
# Units of what answers hold, by name; what is not here is a pure number.
UNITS = dict.fromkeys(
    (
        "edge",
        "outlier",
        "outliers",
        "margins",
        "lowest",
        "lowest_std",
        "edge_std",
        "eigenvalues",
        "residuals",
    ),
    "Hessian",
) | dict.fromkeys(("alpha", "alpha_0", "half"), "M/N")


class Printed:
    """A dataclass whose `str` and `repr` are one line: fields at their defaults are left out, arrays told by shape and ends,
    and an error NAME_error stands behind NAME (`error` behind the first field, or the one that `asked` names).

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class Measured(Printed):
    ...     value: float
    ...     kind: str
    ...     error: float = 0.0
    >>> Measured(1.2345, "sharp", 0.02)
    Measured(value=1.234 ± 0.02, kind='sharp')
    """

    _former: ClassVar[dict[str, str]] = {}  # fields of other names before: what takes their place
    _units: ClassVar[dict[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        if name in self._former:
            raise AttributeError(f"{type(self).__name__}.{name} is now {self._former[name]}")
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def __repr__(self) -> str:
        parts = [f"{name}={number}{error and f' ± {error}'}" for name, number, error in self._printed()]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """The table of a notebook."""
        cells = [(*row, self._units.get(row[0], UNITS.get(row[0], ""))) for row in self._printed()]
        rows = ["".join(f"<td>{html.escape(text, quote=False)}</td>" for text in row) for row in cells]
        head = "".join(f"<th>{name}</th>" for name in (type(self).__name__, "", "error", "unit"))
        return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"

    def _printed(self) -> list[tuple[str, str, str]]:
        """Name, value and error of every field that is worth a word."""
        shown = {field.name: field for field in fields(self) if field.repr}  # type: ignore[arg-type]
        first = next(iter(shown))
        errors = {name: f"{name}_error" for name in shown if f"{name}_error" in shown}
        if "error" in shown and first not in errors:
            errors[getattr(self, "asked", first)] = "error"
        found = []
        for name, shape in shown.items():
            value = getattr(self, name)
            if name in errors.values() or (name != first and _same(value, shape.default)):
                continue
            error = getattr(self, errors[name]) if name in errors else 0.0
            found.append((name, *_told(value, error)))
        return found


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, np.ndarray):
        return not value.size
    if default is MISSING:
        return False
    both_nan = (
        isinstance(value, float) and isinstance(default, float) and math.isnan(value) and math.isnan(default)
    )
    return both_nan or value is default or (type(value) is type(default) and value == default)


def _told(value: Any, error: Any) -> tuple[str, str]:
    """A value and its error as texts, the value to two digits of the error."""
    if isinstance(value, np.ndarray) and value.ndim:
        size = np.nan_to_num(np.asarray(error, dtype=np.float64))
        largest = float(np.max(size, initial=0.0))
        return _array(value), f"{largest:.1g} at most" if largest else ""
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if not isinstance(value, float):
        text = repr(value)
        return text if len(text) <= LONGEST else text[: LONGEST - 3] + "...", ""
    error = float(error)
    if not 0 < error < math.inf or not math.isfinite(value):
        return f"{value:.{DIGITS}g}", ""
    decimals = 1 - math.floor(math.log10(error))
    return f"{value:.{decimals}f}" if 0 <= decimals <= 15 else f"{value:.{DIGITS}g}", f"{error:.1g}"


def _array(values: np.ndarray) -> str:
    shape = f"array {values.shape}"
    if values.dtype.kind == "b":
        return f"{shape}, {np.mean(values):.3g} of them true" if values.size else shape
    if values.dtype.kind not in "fiu":
        words = list(dict.fromkeys(map(str, values.ravel().tolist())))
        return (
            f"{shape} of {', '.join(words[:3])}{', ...' if len(words) > 3 else ''}" if any(words) else shape
        )
    known = values[np.isfinite(values)]
    return f"{shape}, {known.min():.6g} to {known.max():.6g}" if known.size else f"{shape}, no number"


@dataclass(frozen=True, repr=False)
class Edge(Printed):
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
class Outlier(Printed):
    """Eigenvalues left of the bulk that share one place.

    value          the eigenvalue
    overlap        squared overlap of each eigenvector with the span of teacher and student directions
    teacher_share  share of that overlap on teacher directions: their product is `q2`
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

    @property
    def q2(self) -> float:
        """Squared overlap of each eigenvector with the teacher alone."""
        return self.overlap * self.teacher_share


@dataclass(frozen=True, repr=False)
class Threshold(Printed):
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
    n, share       at finite N: the dimension, and the share of draws at alpha for which what was asked for holds
    asked          which of alpha, n and share the error is of
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
    n: Any = math.inf
    share: Any = math.nan
    asked: str = field(default="alpha", repr=False)

    _former: ClassVar[dict[str, str]] = {
        "overlap": "jump",
        "alpha_error": "error",
        "overlap_error": "jump_error",
        "doubt": "reason",
        "half": "alpha",
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
class Spectrum(Printed):
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


@dataclass(frozen=True, repr=False)
class Prediction(Printed):
    """What theory predicts of one sample of finite N, in units of the Hessian, by what is known of the sample: nothing but its
    model (`theory.finite.edge.finite_edge`), its preactivations (`theory.finite.quenched`), its rows (`theory.given`), what a
    method has used of it (`theory.path.conditioned`). What of the fields that does not tell is NaN or empty.

    None of the four, as `lowest_error` and `overlap_error` are the scatter of samples that share what is known.

    edge           left edge of the bulk, as the known directions push it
    scale          kappa: about `edge` the lowest eigenvalue of the bulk fluctuates as -TW1 / kappa; NaN at a smooth edge
    outliers (k,)  eigenvalues that leave the bulk, lowest first, NaN for those not known; left of `edge` but for one that has
                   barely left, by O(1/n)
    overlaps (k,)  squared overlap of each with the signal space
    margins        how far each known direction is beyond the bulk, largest first: an outlier exists where positive
    lowest         mean of the lowest eigenvalue; where preactivations alone are known without its Tracy-Widom shift: the lowest
                   outlier or the edge
    overlap        mean squared overlap of its eigenvector with the signal space
    kind           of the edge, as in `Edge`
    edge_error     standard deviation of the edge over draws of preactivations, where these are not known
    student_overlaps (k, p)  of each outlier, with the span of one student row over all blocks
    residues (k,)  squared overlap of each with all known directions
    g (p, p)       G at the edge
    """

    edge: float
    scale: float = math.nan
    outliers: np.ndarray = field(default_factory=lambda: np.empty(0))
    overlaps: np.ndarray = field(default_factory=lambda: np.empty(0))
    margins: np.ndarray = field(default_factory=lambda: np.empty(0))
    lowest: float = math.nan
    lowest_error: float = math.nan
    overlap: float = math.nan
    overlap_error: float = math.nan
    kind: str = "sharp"
    edge_error: float = 0.0
    student_overlaps: np.ndarray | None = None
    residues: np.ndarray | None = None
    g: np.ndarray | None = None

    _former: ClassVar[dict[str, str]] = {"mean": "lowest", "std": "lowest_error", "label_std": "edge_error"}


# ---- one alpha, and solutions that make one ----

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
             `teacher_share` and `student_share` are arrays (r,) of theirs, `multiplicity` the tuple of them
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
        if name == "multiplicity":
            return tuple(o.multiplicity for o in self.pulled)
        raise AttributeError(
            f"Found.{name} is now multiplicity" if name == "degeneracy" else f"Found has no {name}"
        )

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
    """Means over independent cubature rules, errors from their spread; outliers found in every rule only, and an unresolved
    kind where rules disagree."""
    kinds, many = {run.kind for run in runs}, {len(run.pulled) for run in runs}
    edge, error = mean_error(np.array([run.edge for run in runs]))
    bulk = Edge(
        float(edge),
        kinds.pop() if len(kinds) == 1 else "unresolved",
        math.hypot(float(error), max(run.edge_error for run in runs)),
        "points",
    )
    pulled = []
    # Lowest first: only those that every rule has can be paired.
    for alike in zip(*(run.pulled[: min(many)] for run in runs), strict=True):
        rows = [(o.value, o.overlap, o.teacher_share, o.student_share, o.multiplicity) for o in alike]
        mean, errors = mean_error(np.array(rows))
        value, overlap, teacher, student, multiplicity = mean.tolist()
        pulled.append(
            Outlier(value, overlap, teacher, student, round(multiplicity), float(errors[0]), float(errors[1]))
        )
    return Found(bulk, tuple(pulled), len(many) == 1)


def mean_error(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean over the first axis, and half of half the width of its 95 % interval by Student's t."""
    n = len(values)
    factor = stdtrit(n - 1, 0.975) / 1.959964
    return values.mean(axis=0), factor * values.std(axis=0, ddof=1) / math.sqrt(n)


def zero_of(alpha: float, overlap: float, slope: float) -> float:
    """Where the tangent of a squared overlap with `slope` in alpha vanishes; NaN where that is at no alpha > 0."""
    value = alpha - overlap / slope if slope > 0 else math.nan
    return value if value > 0 else math.nan
