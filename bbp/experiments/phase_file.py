"""The phase file: alpha_BBP, its kind and what belongs to it over (p, a), for others to open.

Layout (all datasets carry dimension scales, so xarray opens the file with no helper):

    /p /a                          coordinates; p is a float, inf for infinite width
    /alpha_bbp /jump               (p, a) f8: the transition, and the jump of the squared overlap (0 if continuous)
    /kind                          (p, a) "continuous", "discontinuous"; networks without a threshold: "none", "no edge",
                                   "unresolved"; "" where it was not computed, or failed
    /reason                        (p, a) why it failed, or empty
    /alpha_0_overlap               (p, a) f8: the two estimates of alpha_0; NaN where an estimate has no root,
    /alpha_0_continuation          alpha_BBP where the transition is continuous
    /p_c                           (a) i8: the smallest width whose transition is discontinuous, 0 if beyond 2^40
    /a_c /alpha_c                  (p) f8: where the kind changes, and alpha_BBP there; a_c = 0 and alpha_c = its
                                   limit for p = inf
    /n, /finite_a                  coordinates of the finite-N thresholds, if any were asked for
    /alpha_bbp_n, /alpha_bbp_n_error   (n, p, finite_a) f8, NaN for p = inf, and where it failed
    /alpha_bbp_n_reason            (n, p, finite_a) why it failed, or empty
    /widths                        group of the layout of the lines up to /alpha_0_*: alpha_BBP against p at a few a
    /config                        JSON: every option that decides the numbers, defaults filled in
    root attributes                format, format_version, sha256, p_star, versions (JSON), commit, finished
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bbp.experiments.models import KINDS
from bbp.files import hdf5, layout, table
from bbp.files.table import TEXT, Axis, Field

FORMAT, VERSION = "bbp-phase", 1
Array = NDArray[np.float64]
_A = "normalisation of the loss"
AXES = (Axis("p", "f8", "student width"), Axis("a", "f8", _A))
MAP = (
    Field("alpha_bbp", ("p", "a"), words="alpha = M/N of the BBP transition"),
    Field("jump", ("p", "a"), words="jump of the squared overlap q2 at the transition"),
    Field(
        "alpha_0_overlap",
        ("p", "a"),
        words="alpha at which q2, extrapolated from alpha_BBP with its slope there, vanishes",
    ),
    Field(
        "alpha_0_continuation",
        ("p", "a"),
        words="threshold of the theory continued past the smooth edge by principal values",
    ),
    Field("kind", ("p", "a"), TEXT, ""),
    Field("reason", ("p", "a"), TEXT, "", "why it was not found", optional=True),
)
EDGES = (
    Field("a_c", ("p",), words="a at which the kind changes"),
    Field("alpha_c", ("p",), words="alpha_BBP at a_c"),
    Field("p_c", ("a",), "i8", 0, "smallest width whose transition is discontinuous"),
)
FINITE_AXES = (Axis("n", "i8", "input dimension N"), Axis("finite_a", "f8", _A))
_FINITE = ("n", "p", "finite_a")
FINITE = (
    Field("alpha", _FINITE, path="alpha_bbp_n", words="transition at finite N"),
    Field("error", _FINITE, path="alpha_bbp_n_error", words="its standard error over draws of labels"),
    Field("reason", _FINITE, TEXT, "", "why it was not found", path="alpha_bbp_n_reason", optional=True),
)
TABLES = (("", AXES, (*MAP, *EDGES)), ("widths/", AXES, MAP), ("", FINITE_AXES, FINITE))


@dataclass(frozen=True)
class Map:
    """Transitions over widths and normalisations: p (p,), a (a,); the rest (p, a).

    kind is one of bbp.experiments.models.KINDS, or "" where nothing was computed, or it failed for the `reason`; alpha_bbp and
    jump are NaN where there is no threshold, alpha_0 where it has no root; that by continuation is the committee's.
    """

    p: Array
    a: Array
    alpha_bbp: Array
    kind: NDArray[np.object_]
    jump: Array
    alpha_0_overlap: Array
    alpha_0_continuation: Array
    reason: NDArray[np.object_] = field(default_factory=lambda: np.array("", dtype=object))

    @property
    def discontinuous(self) -> NDArray[np.bool_]:
        """(p, a) whether q2 jumps."""
        return np.asarray(self.kind == "discontinuous", dtype=bool)


@dataclass(frozen=True)
class Finite:
    """Thresholds at finite N: n (n,), a (finite_a,), alpha, its standard error, why it failed or "" (n, p, finite_a)."""

    n: NDArray[np.int64]
    a: Array
    alpha: Array
    error: Array
    reason: NDArray[np.object_] = field(default_factory=lambda: np.array("", dtype=object))


@dataclass(frozen=True)
class Phase:
    """A phase diagram: the map over (p, a), the point (a_c, alpha_c) of each p, p_c of each a, cuts at fixed a.

    widths   the map over many p at a few a
    finite   thresholds at finite N, or None
    """

    p_star: int
    curves: Map
    a_c: Array
    alpha_c: Array
    p_c: NDArray[np.int64]
    widths: Map
    finite: Finite | None = None
    config: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)


def save(path: str | Path, phase: Phase) -> None:
    """Write the phase diagram to `path`, whole or not at all (OSError)."""

    def fill(file: h5py.File) -> None:
        curves = phase.curves
        edges = {field.name: getattr(phase, field.name) for field in EDGES}
        scales = table.write(file, AXES, (*MAP, *EDGES), _named(curves) | edges)
        table.write(file.create_group("widths"), AXES, MAP, _named(phase.widths))
        if phase.finite is not None:
            _fill_finite(file, phase.finite, scales["p"])
        hdf5.put_json(file, "config", phase.config)
        file.attrs.update({"finished": 1} | phase.attributes | {"p_star": phase.p_star})

    hdf5.write(path, fill, format=FORMAT, version=VERSION)


def load(path: str | Path, *, locking: hdf5.Locking = None) -> Phase:
    """The phase diagram in the file at `path`; FileError, one line, where it is not one or is damaged."""
    with hdf5.reading(path, FORMAT, VERSION, locking=locking) as file:
        attributes = hdf5.attributes(file)
        curves, edges = _read_map(file), table.read(file, AXES, EDGES)
        return Phase(
            p_star=int(layout.number(attributes, "p_star")),
            curves=curves,
            **{field.name: edges[field.name] for field in EDGES},
            widths=_read_map(file["widths"]),
            finite=_read_finite(file) if "n" in file else None,
            config=hdf5.get_json(file, "config"),
            attributes=attributes,
        )


def _named(found: Map) -> dict[str, Any]:
    named = {part.name: getattr(found, part.name) for part in (*AXES, *MAP)}
    return named | {"reason": np.broadcast_to(found.reason, found.alpha_bbp.shape)}


def _fill_finite(file: h5py.File, finite: Finite, p: h5py.Dataset) -> None:
    scales = table.write(file, FINITE_AXES, (), {"n": finite.n, "finite_a": finite.a}) | {"p": p}
    for part in FINITE:
        values = np.broadcast_to(getattr(finite, part.name), finite.alpha.shape)
        table.add(file, part, values, [scales[dim] for dim in part.dims])


def _read_map(group: h5py.Group) -> Map:
    found = table.read(group, AXES, MAP)
    layout.require(found["p"] >= 1, "p", "at least 1")
    layout.require((found["a"] > 0) & np.isfinite(found["a"]), "a", "positive and finite")
    layout.require(np.isin(found["kind"].astype(str), (*KINDS, "")), "kind", " or ".join(KINDS))
    return Map(**found)


def _read_finite(file: h5py.File) -> Finite:
    found = table.read(file, (AXES[0], *FINITE_AXES), FINITE)
    return Finite(found["n"], found["finite_a"], *(found[part.name] for part in FINITE))
