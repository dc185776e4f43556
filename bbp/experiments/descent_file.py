"""The descent file: gradient descents, their overlaps with the teacher, and the Hessians along the way.

Layout (all datasets carry dimension scales, so xarray opens the file with no helper):

    /n /alpha /sample /start     coordinates; start is "random", "hessian", "spectral", "overlap:M"
    /step /hessian_step          steps at which the path, and the Hessians along it, were recorded (a sample that
                                 has converged before repeats its end)
    /student_row /teacher_row /frame /eigenpair
                                 the other dimensions; frame is "plain" or "riemannian"
    /overlap_matrix              (n, start, alpha, sample, step, student_row, teacher_row) w_k . w*_l / N
    /m2 /projection              (n, start, alpha, sample, step) max_kl m_kl^2 and max_k sum_l m_kl^2
    /loss /gradient              the same shape: loss, and |Riemannian gradient| / sqrt(N)
    /time /steps_taken           the same shape: time of gradient flow, and steps
    /eigenvalues /overlaps       (n, start, alpha, sample, hessian_step, frame, eigenpair) lowest pairs and q2
    /quenched/*                  (n, start, alpha, sample, hessian_step) edge, outlier, overlap
    /conditioned/*               the same shape: edge, lowest, lowest_error, overlap, overlap_error: what theory says of the
                                 plain Hessian, with --theory (sims.descent.theory); NaN where there is none or it was not
                                 asked. Files of before have /annealed/* in place of the latter: students at these overlaps,
                                 independent of the data
    /status /code /reason        (n, start, alpha, sample): 0 not run, 1 done, 2 failed; how it ended
                                 (sims.descent.path.Code); why it failed
    /config                      JSON: every option that decides the numbers, defaults filled in
    root attributes              format, format_version, sha256, p, p_star, a, alpha_bbp, kind, seed, dtype,
                                 device, threshold, versions (JSON), commit, created, seconds, finished
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bbp.experiments import models
from bbp.files import hdf5, table
from bbp.files.table import DONE, FAILED, TEXT, Axis, Field

__all__ = ["COLUMNS", "DIMENSIONS", "DONE", "FAILED", "FORMAT", "VERSION", "DescentData", "load", "save"]

FORMAT, VERSION = "bbp-descent", 1
Array = NDArray[np.float64]
AXES = (
    Axis("n"),
    Axis("start", TEXT),
    Axis("alpha", "f8"),
    Axis("sample"),
    Axis("step"),
    Axis("student_row"),
    Axis("teacher_row"),
    Axis("hessian_step"),
    Axis("frame", TEXT),
    Axis("eigenpair"),
)
OUTER = ("n", "start", "alpha")  # the axes of the points
_PATH = ("sample", "step")
_HESSIANS = ("sample", "hessian_step", "frame", "eigenpair")
COLUMNS = (
    Field("overlap_matrix", (*_PATH, "student_row", "teacher_row"), words="w_k . w*_l / N"),
    Field("m2", _PATH, words="largest squared magnetisation, max_kl m_kl^2"),
    Field(
        "projection", _PATH, words="largest share of a student row in the teacher's span, max_k sum_l m_kl^2"
    ),
    Field("loss", _PATH, words="loss, summed over the samples of the data"),
    Field("gradient", _PATH, words="norm of the Riemannian gradient over sqrt(N)"),
    Field("time", _PATH, words="time of gradient flow: the sum of the steps' sizes"),
    Field("steps_taken", _PATH, "i8", -1, "steps taken"),
    Field("eigenvalues", _HESSIANS, words="lowest eigenvalues of the Hessian along the path"),
    Field("overlaps", _HESSIANS, words="squared overlap of its eigenvectors with the signal space"),
    *(
        Field(
            f"{route}_{part}",
            ("sample", "hessian_step"),
            words=f"{words} of the plain Hessian: {route} theory",
            path=f"{route}/{part}",
            optional=True,
        )
        for route, parts in {
            "quenched": ("edge", "outlier", "overlap"),
            "conditioned": ("edge", "lowest", "lowest_error", "overlap", "overlap_error"),
        }.items()
        for part, words in {
            "edge": "left edge",
            "outlier": "lowest outlier",
            "lowest": "lowest eigenvalue, mean",
            "lowest_error": "lowest eigenvalue, standard deviation",
            "overlap": "squared overlap of the lowest",
            "overlap_error": "squared overlap of the lowest, standard deviation",
        }.items()
        if part in parts
    ),
    table.STATUS,
    Field(
        "code", ("sample",), "i1", -1, "0 converged, 1 step limit, 2 no step lowered the loss, 3 not finite"
    ),
    table.REASON,
)
FIELDS = table.over(OUTER, COLUMNS)
TABLES = (("", AXES, FIELDS),)
DIMENSIONS = {each.name: each.dims for each in FIELDS}


def _none() -> Array:
    return np.zeros(0)


@dataclass(frozen=True)
class DescentData:
    """One model's descents, arrays as in the layout above; `dims` holds the coordinates, `attributes` the root's."""

    model: models.Model
    dims: dict[str, NDArray[Any]]
    overlap_matrix: Array
    m2: Array
    projection: Array
    loss: Array
    gradient: Array
    time: Array
    steps_taken: NDArray[np.int64]
    eigenvalues: Array
    overlaps: Array
    status: NDArray[np.int8]
    code: NDArray[np.int8]
    reason: NDArray[np.object_]
    quenched_edge: Array = field(default_factory=_none)
    quenched_outlier: Array = field(default_factory=_none)
    quenched_overlap: Array = field(default_factory=_none)
    conditioned_edge: Array = field(default_factory=_none)
    conditioned_lowest: Array = field(default_factory=_none)
    conditioned_lowest_error: Array = field(default_factory=_none)
    conditioned_overlap: Array = field(default_factory=_none)
    conditioned_overlap_error: Array = field(default_factory=_none)
    config: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def alpha_bbp(self) -> float:
        """The Hessian's threshold at random initialisation, N = inf."""
        return float(self.attributes["alpha_bbp"])


def save(path: str | Path, found: DescentData) -> None:
    """Write the descents to `path`, whole or not at all (OSError)."""

    def fill(file: h5py.File) -> None:
        table.write(file, AXES, FIELDS, found.dims | {name: getattr(found, name) for name in DIMENSIONS})
        hdf5.put_json(file, "config", found.config)
        own = models.record(found.model)
        file.attrs.update({"finished": 1} | found.attributes | own)

    hdf5.write(path, fill, format=FORMAT, version=VERSION)


def load(path: str | Path, *, locking: hdf5.Locking = None) -> DescentData:
    """The descents in the file at `path`; FileError, one line, where it is not such a file or is damaged."""
    with hdf5.reading(path, FORMAT, VERSION, locking=locking) as file:
        attributes = hdf5.attributes(file)
        found = table.read(file, AXES, FIELDS)
        dims = {axis.name: found.pop(axis.name) for axis in AXES}
        models.held(attributes)
        return DescentData(
            model=models.build(attributes),
            dims=dims,
            **found,
            config=hdf5.get_json(file, "config"),
            attributes=attributes,
        )
