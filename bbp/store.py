"""The sweep file: samples of the Hessian over (n, alpha, sample, eigenpair) beside the theory, for
others to open.

Layout (all datasets carry dimension scales, so xarray opens the file with no helper):

    /alpha /n /sample /eigenpair            coordinates
    /eigenvalues /overlaps /residuals       (n, alpha, sample, eigenpair) f8, lowest first; NaN where not run
    /max_overlap_rank                       (n, alpha, sample) i8, -1 where unknown
    /status /reason                         (n, alpha, sample): 0 not run, 1 done, 2 failed and why
    /theory/edge, outlier, overlap          (alpha) f8, NaN where there is none
    /theory_n/lowest, overlap, informative  (n, alpha) f8: theory.finite.law, means over /theory_n/draws (n) draws;
              lowest_error, overlap_error, lowest_std, overlap_std      their standard errors, and the scatter of one draw;
                                            NaN where it would take too long
    /config                                 JSON: every option that decides the numbers, defaults filled in
    /provenance/unit...                     (unit): which samples were computed together, where, in what time
    root attributes                         format, format_version, sha256, p, p_star, a, alpha_bbp,
                                            kind, seed, dtype, device, prng, versions (JSON), commit, finished

A product over (p, p_star, a) has one group per model, /model_000, /model_001, ..., each of this layout
(and opened by xarray with group="model_000"), and the table of models at the root: p, p_star, a,
alpha_bbp, kind over (model).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bbp.console.errors import FileError
from bbp.experiments import models
from bbp.experiments.models import Model
from bbp.files import hdf5, layout, table
from bbp.files.table import DONE, FAILED, NOT_RUN, TEXT, Axis, Field

__all__ = ["DONE", "FAILED", "FORMAT", "NOT_RUN", "VERSION", "Sweep", "describe", "load", "load_all", "save"]

FORMAT, VERSION = "bbp-sweep", 1
AXES = (Axis("n"), Axis("alpha", "f8"), Axis("sample"), Axis("eigenpair"))
COORDINATES = tuple(axis.name for axis in AXES)
OUTER = ("n", "alpha")  # the axes of the points; a unit of work has those that follow
_PAIRS = ("sample", "eigenpair")
# What each sample gives: an observable more is one line here, and its column in what computes (sims.sampling).
COLUMNS = (
    Field("eigenvalues", _PAIRS, words="lowest eigenvalues of the Hessian, lowest first"),
    Field("overlaps", _PAIRS, words="squared overlap of each eigenvector with the signal space"),
    Field("residuals", _PAIRS, words="norm of H v - lambda v"),
    Field(
        "student_shares", _PAIRS, optional=True,
        words="squared overlap of each eigenvector with the span of the student's rows in every block",
    ),
    Field(
        "max_overlap_rank", ("sample",), "i8", -1,
        "rank, in the whole spectrum, of the eigenvector of largest overlap; -1 unknown",
    ),
    table.STATUS,
    table.REASON,
)  # fmt: skip
SAMPLED = table.over(OUTER, COLUMNS)
# What is computed when the file is put together.
THEORY = (
    Field("edge", ("alpha",), path="theory/edge", words="edge of the bulk at N = infinity"),
    Field(
        "outlier", ("alpha",), path="theory/outlier", words="outlier at N = infinity, NaN where there is none"
    ),
    Field(
        "overlap",
        ("alpha",),
        path="theory/overlap",
        words="its squared overlap with the signal space, NaN where there is none",
    ),
    *(
        Field(
            f"{name}_share",
            ("alpha",),
            path=f"theory/{name}_share",
            optional=True,
            words=f"its squared overlap with the span of the {name}",
        )
        for name in ("teacher", "student")
    ),
    *(
        Field(f"{name}_n", OUTER, path=f"theory_n/{name}", words=f"{words}, finite-N theory", optional=True)
        for name, words in (
            ("lowest", "mean over draws of the lowest eigenvalue"),
            ("lowest_error", "standard error of that mean"),
            ("lowest_std", "scatter of one draw of the lowest eigenvalue"),
            ("overlap", "mean over draws of q2 averaged over the p p_star lowest eigenvectors"),
            ("overlap_error", "standard error of that mean"),
            ("overlap_std", "scatter of one draw of that overlap"),
            ("informative", "share of draws in which that overlap exceeds every other eigenvector's"),
        )
    ),
    Field("draws_n", ("n",), "i8", 0, path="theory_n/draws", words="draws of finite-N theory", optional=True),
)
FIELDS = (*SAMPLED, *THEORY)
TABLES = (("", AXES, FIELDS),)
ABOUT = {f.name: f.words for f in SAMPLED if not f.optional}
_MODELS = (
    Field("p", ("model",), "f8"),
    Field("p_star", ("model",), "i8"),
    Field("a", ("model",), "f8"),
    Field("alpha_bbp", ("model",), "f8"),
    Field("kind", ("model",), TEXT),
)


@dataclass(frozen=True)
class Sweep:
    """One model's sweep. Shapes: n (n,), alpha (alpha,), sample (sample,), eigenpair (eigenpair,);

    eigenvalues, overlaps, residuals     (n, alpha, sample, eigenpair)
    max_overlap_rank, status, reason     (n, alpha, sample)
    edge, outlier, overlap               (alpha,) theory at N = infinity, NaN where there is none
    provenance                           columns over units of work: n, alpha, first, count, seconds, host, device
    attributes                           the attributes of the file or group: p, p_star, a, seed, dtype, versions...
    more                                 declared fields (FIELDS) that are none of the above, by name
    """

    model: Model
    alpha_bbp: float
    kind: str
    n: NDArray[np.int64]
    alpha: NDArray[np.float64]
    sample: NDArray[np.int64]
    eigenpair: NDArray[np.int64]
    eigenvalues: NDArray[np.float64]
    overlaps: NDArray[np.float64]
    residuals: NDArray[np.float64]
    max_overlap_rank: NDArray[np.int64]
    status: NDArray[np.int8]
    reason: NDArray[np.object_]
    edge: NDArray[np.float64]
    outlier: NDArray[np.float64]
    overlap: NDArray[np.float64]
    config: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, NDArray[Any]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    more: dict[str, NDArray[Any]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The array of a coordinate or declared field, by name."""
        return self.more[name] if name in self.more else getattr(self, name)

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]], **rest: Any) -> Sweep:
        """A `Sweep` of coordinates and declared fields by name; those that are no attribute are held in `more`."""
        own = {f.name for f in fields(cls)}
        more = {name: values for name, values in arrays.items() if name not in own}
        named: dict[str, Any] = {name: values for name, values in arrays.items() if name in own}
        return cls(**named, **rest, more=more)

    @property
    def finished(self) -> bool:
        """Whether every sample that the configuration asks for has been run."""
        return bool(self.attributes.get("finished", 0))


def save(path: str | Path, sweeps: Sequence[Sweep]) -> None:
    """Write one model's sweep, or a product of several, to `path`, whole or not at all (OSError)."""

    def fill(file: h5py.File) -> None:
        if len(sweeps) == 1:
            _fill(file, sweeps[0])
            return
        for index, sweep in enumerate(sweeps):
            _fill(file.create_group(group_name(index)), sweep)
        _fill_models(file, sweeps)

    hdf5.write(path, fill, format=FORMAT, version=VERSION)


def load(path: str | Path, model: int | None = None, *, locking: hdf5.Locking = None) -> Sweep:
    """The sweep in the file at `path`; of a product over models, the one with index `model`.

    locking is h5py's switch (None, True, False or "best-effort"). Raises FileError, one line: no such file, not HDF5,
    truncated, foreign, damaged, of an older or newer format, or several models and none chosen.

    >>> sweep = load("data/finite_size/c200.h5")
    >>> sweep.kind, sweep.n.tolist()
    ('continuous', [200])
    """
    sweeps = load_all(path, locking=locking)
    if model is None and len(sweeps) == 1:
        return sweeps[0]
    if model is None or not 0 <= model < len(sweeps):
        held = "; ".join(f"{i}: {describe(sweep.model)}" for i, sweep in enumerate(sweeps[:8]))
        more = "; ..." if len(sweeps) > 8 else ""
        wanted = (
            "choose one by its index (bbp plot --model INDEX)" if model is None else f"none has index {model}"
        )
        raise FileError(f"{str(path)!r} holds {len(sweeps)} models ({held}{more}): {wanted}")
    return sweeps[model]


def load_all(path: str | Path, *, locking: hdf5.Locking = None) -> list[Sweep]:
    """Every model's sweep in the file at `path`, in order. Raises FileError as `load` does."""
    with hdf5.reading(path, FORMAT, VERSION, locking=locking) as file:
        if "models" not in file.attrs:
            return [_read(file)]
        models = int(layout.number(hdf5.attributes(file), "models"))
        return [_read(file[group_name(index)]) for index in range(models)]


def group_name(index: int) -> str:
    """The group of the model with this index in a product file."""
    return f"model_{index:03d}"


def describe(model: Model) -> str:
    """A model in words: "p=2 p*=1 a=0.3".

    >>> from theory.model import Committee
    >>> describe(Committee(2, 1, 0.5))
    'p=2 p*=1 a=0.5'
    """
    return models.words(model)


def _fill(group: h5py.Group, sweep: Sweep) -> None:
    held = [f for f in FIELDS if not f.optional or f.name in sweep.more]
    table.write(group, AXES, held, {name: sweep[name] for name in (*COORDINATES, *(f.name for f in held))})
    hdf5.put_json(group, "config", sweep.config)
    _fill_provenance(group.create_group("provenance"), sweep.provenance)
    attributes = {
        "alpha_bbp": sweep.alpha_bbp,
        "kind": sweep.kind,
    }
    group.attrs.update(sweep.attributes | attributes | models.record(sweep.model))


def _fill_provenance(group: h5py.Group, columns: dict[str, NDArray[Any]]) -> None:
    length = len(next(iter(columns.values()))) if columns else 0
    unit = hdf5.coordinate(group, "unit", np.arange(length))
    for name, values in columns.items():
        dtype = TEXT if values.dtype.kind == "O" else "f8"
        table.add(group, Field(f"unit_{name}", ("unit",), dtype), values, [unit])


def _fill_models(file: h5py.File, sweeps: Sequence[Sweep]) -> None:
    model = hdf5.coordinate(file, "model", np.arange(len(sweeps)))
    for column in _MODELS:
        held = [getattr(s if hasattr(s, column.name) else s.model, column.name) for s in sweeps]
        table.add(file, column, held, [model])
    file.attrs["models"] = len(sweeps)
    file.attrs["finished"] = int(all(sweep.finished for sweep in sweeps))


def _read(group: h5py.Group) -> Sweep:
    """The sweep in `group`, every type and shape looked at before it is read; ValueError or KeyError if one is wrong."""
    found = table.read(group, AXES, FIELDS)
    layout.require(min(len(found[name]) for name in COORDINATES) > 0, "a coordinate", "longer than zero")
    layout.require(found["n"] >= 1, "n", "positive")
    attributes = hdf5.attributes(group)
    return Sweep.of(
        found,
        model=models.build(attributes),
        alpha_bbp=models.held(attributes)[0],
        kind=models.held(attributes)[1],
        config=hdf5.get_json(group, "config"),
        provenance=_provenance(group["provenance"]),
        attributes=attributes,
    )


def _provenance(group: h5py.Group) -> dict[str, NDArray[Any]]:
    """The columns of /provenance, all of one length; `seconds` are numbers."""
    length = (len(layout.values(group, "unit", "i", (None,))),)
    kinds = {"unit_seconds": "fi"}
    return {
        name.removeprefix("unit_"): layout.values(group, name, kinds.get(name, "fibO"), length)
        for name in group
        if name != "unit"
    }
