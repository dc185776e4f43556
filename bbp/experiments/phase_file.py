"""The phase file: alpha_BBP, its kind and what belongs to it over (p, a), for others to open.

Layout (all datasets carry dimension scales, so xarray opens the file with no helper):

    /p /a                          coordinates; p is a float, inf for infinite width
    /alpha_bbp /jump               (p, a) f8: the transition, and the jump of the squared overlap (0 if continuous)
    /kind                          (p, a) "continuous" or "discontinuous"
    /alpha_0_overlap               (p, a) f8: the two estimates of alpha_0; NaN where an estimate has no root,
    /alpha_0_continuation          alpha_BBP where the transition is continuous
    /p_c                           (a) i8: the smallest width whose transition is discontinuous, 0 if beyond 2^40
    /a_c /alpha_c                  (p) f8: where the kind changes, and alpha_BBP there; a_c = 0 and alpha_c = its
                                   limit for p = inf
    /n, /finite_a                  coordinates of the finite-N thresholds, if any were asked for
    /alpha_bbp_n, /alpha_bbp_n_error   (n, p, finite_a) f8, NaN for p = inf
    /widths                        group of the layout of the first four lines: alpha_BBP against p at a few a
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

from bbp.files import hdf5, layout

FORMAT, VERSION = "bbp-phase", 1
KINDS = ("continuous", "discontinuous")
Array = NDArray[np.float64]
ABOUT = {
    "alpha_bbp": "alpha = M/N of the BBP transition",
    "jump": "jump of the squared overlap q2 at the transition",
    "alpha_0_overlap": "alpha at which q2, extrapolated from alpha_BBP with its slope there, vanishes",
    "alpha_0_continuation": "threshold of the theory continued past the smooth edge by principal values",
}
PER_WIDTH = {"a_c": "a at which the kind changes", "alpha_c": "alpha_BBP at a_c"}
FINITE = {
    "alpha_bbp_n": "transition at finite N",
    "alpha_bbp_n_error": "its standard error over draws of labels",
}


@dataclass(frozen=True)
class Map:
    """Transitions over widths and normalisations: p (p,), a (a,); the rest (p, a), alpha_0 NaN where there is no root."""

    p: Array
    a: Array
    alpha_bbp: Array
    discontinuous: NDArray[np.bool_]
    jump: Array
    alpha_0_overlap: Array
    alpha_0_continuation: Array

    @property
    def kind(self) -> NDArray[np.object_]:
        """(p, a) "continuous" or "discontinuous"."""
        return np.where(self.discontinuous, "discontinuous", "continuous").astype(object)


@dataclass(frozen=True)
class Finite:
    """Thresholds at finite N: n (n,), a (finite_a,), alpha and its standard error (n, p, finite_a)."""

    n: NDArray[np.int64]
    a: Array
    alpha: Array
    error: Array


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
        p, a = _fill_map(file, phase.curves)
        for name, about in PER_WIDTH.items():
            _dataset(file, name, getattr(phase, name), [p], about)
        _dataset(file, "p_c", phase.p_c, [a], "smallest width whose transition is discontinuous")
        _fill_map(file.create_group("widths"), phase.widths)
        if phase.finite is not None:
            _fill_finite(file, phase.finite, p)
        hdf5.put_json(file, "config", phase.config)
        file.attrs.update(phase.attributes | {"p_star": phase.p_star, "finished": 1})

    hdf5.write(path, fill, format=FORMAT, version=VERSION)


def load(path: str | Path, *, locking: hdf5.Locking = None) -> Phase:
    """The phase diagram in the file at `path`; FileError, one line, where it is not one or is damaged."""
    with hdf5.reading(path, FORMAT, VERSION, locking=locking) as file:
        attributes = hdf5.attributes(file)
        curves = _read_map(file)
        return Phase(
            p_star=int(layout.number(attributes, "p_star")),
            curves=curves,
            **{name: layout.values(file, name, "f", (curves.p.size,)) for name in PER_WIDTH},
            p_c=layout.values(file, "p_c", "i", (curves.a.size,)),
            widths=_read_map(file["widths"]),
            finite=_read_finite(file, curves.p.size) if "n" in file else None,
            config=hdf5.get_json(file, "config"),
            attributes=attributes,
        )


def _fill_map(group: h5py.Group, thresholds: Map) -> tuple[h5py.Dataset, h5py.Dataset]:
    p = hdf5.coordinate(group, "p", thresholds.p, long_name="student width")
    a = hdf5.coordinate(group, "a", thresholds.a, long_name="normalisation of the loss")
    for name, about in ABOUT.items():
        _dataset(group, name, getattr(thresholds, name), [p, a], about)
    kind = group.create_dataset("kind", data=thresholds.kind, dtype=h5py.string_dtype())
    hdf5.attach(kind, [p, a])
    return p, a


def _fill_finite(file: h5py.File, finite: Finite, p: h5py.Dataset) -> None:
    n = hdf5.coordinate(file, "n", finite.n, long_name="input dimension N")
    a = hdf5.coordinate(file, "finite_a", finite.a, long_name="normalisation of the loss")
    for (name, about), values in zip(FINITE.items(), (finite.alpha, finite.error), strict=True):
        _dataset(file, name, values, [n, p, a], about)


def _dataset(
    group: h5py.Group, name: str, values: NDArray[Any], scales: list[h5py.Dataset], about: str
) -> None:
    data = group.create_dataset(name, data=values)
    hdf5.attach(data, scales)
    data.attrs["long_name"] = about


def _read_map(group: h5py.Group) -> Map:
    p, a = (layout.values(group, name, "f", (None,)) for name in ("p", "a"))
    layout.require(p >= 1, "p", "at least 1")
    layout.require((a > 0) & np.isfinite(a), "a", "positive and finite")
    shape = (p.size, a.size)
    kind = layout.values(group, "kind", "O", shape)
    layout.require(np.isin(kind.astype(str), KINDS), "kind", " or ".join(KINDS))
    arrays = {name: layout.values(group, name, "f", shape) for name in ABOUT}
    return Map(p, a, discontinuous=kind == KINDS[1], **arrays)


def _read_finite(file: h5py.File, widths: int) -> Finite:
    n, a = layout.values(file, "n", "i", (None,)), layout.values(file, "finite_a", "f", (None,))
    alpha, error = (layout.values(file, name, "f", (n.size, widths, a.size)) for name in FINITE)
    return Finite(n, a, alpha, error)
