"""The descent file: gradient descents, their overlaps with the teacher, and the Hessians along the way.

Layout (all datasets carry dimension scales, so xarray opens the file with no helper):

    /n /alpha /sample /start     coordinates; start is "random", "hessian" or "spectral"
    /step /hessian_step          steps at which the path, and the Hessians along it, were recorded (a sample that
                                 has converged before repeats its end)
    /student_row /teacher_row /frame /eigenpair
                                 the other dimensions; frame is "plain" or "riemannian"
    /overlap_matrix              (n, start, alpha, sample, step, student_row, teacher_row) w_k . w*_l / N
    /m2 /projection              (n, start, alpha, sample, step) max_kl m_kl^2 and max_k sum_l m_kl^2
    /loss /gradient              the same shape: loss, and |Riemannian gradient| / sqrt(N)
    /time /steps_taken           the same shape: time of gradient flow, and steps
    /eigenvalues /overlaps       (n, start, alpha, sample, hessian_step, frame, eigenpair) lowest pairs and q2
    /status /code /reason        (n, start, alpha, sample): 1 done, 2 failed; how it ended (sims.descent.path.Code); why
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

from bbp.files import hdf5, layout
from theory.model import Committee

FORMAT, VERSION = "bbp-descent", 1
DONE, FAILED = 1, 2
Array = NDArray[np.float64]
SAMPLES = ("n", "start", "alpha", "sample")
PATH = (*SAMPLES, "step")
DIMENSIONS = {
    "overlap_matrix": (*PATH, "student_row", "teacher_row"),
    "m2": PATH,
    "projection": PATH,
    "loss": PATH,
    "gradient": PATH,
    "time": PATH,
    "steps_taken": PATH,
    "eigenvalues": (*SAMPLES, "hessian_step", "frame", "eigenpair"),
    "overlaps": (*SAMPLES, "hessian_step", "frame", "eigenpair"),
    "status": SAMPLES,
    "code": SAMPLES,
    "reason": SAMPLES,
}
_KINDS = {
    **dict.fromkeys(("start", "frame", "reason"), "O"),
    **dict.fromkeys(("steps_taken", "status", "code"), "i"),
    "alpha": "f",
}
ABOUT = {
    "overlap_matrix": "w_k . w*_l / N",
    "m2": "largest squared magnetisation, max_kl m_kl^2",
    "projection": "largest share of a student row in the teacher's span, max_k sum_l m_kl^2",
    "loss": "loss, summed over the samples of the data",
    "gradient": "norm of the Riemannian gradient over sqrt(N)",
    "time": "time of gradient flow: the sum of the steps' sizes",
    "steps_taken": "steps taken",
    "eigenvalues": "lowest eigenvalues of the Hessian along the path",
    "overlaps": "squared overlap of its eigenvectors with the signal space",
    "status": "1 done, 2 failed",
    "code": "0 converged, 1 step limit, 2 no step lowered the loss, 3 not finite",
    "reason": "why a sample failed",
}


@dataclass(frozen=True)
class Descended:
    """One model's descents, arrays as in the layout above; `dims` holds the coordinates, `attributes` the root's."""

    model: Committee
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
    config: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def alpha_bbp(self) -> float:
        """The Hessian's threshold at random initialisation, N = inf."""
        return float(self.attributes["alpha_bbp"])


def save(path: str | Path, found: Descended) -> None:
    """Write the descents to `path`, whole or not at all (OSError)."""

    def fill(file: h5py.File) -> None:
        scales = {name: _coordinate(file, name, values) for name, values in found.dims.items()}
        for name, axes in DIMENSIONS.items():
            _dataset(file, name, getattr(found, name), [scales[axis] for axis in axes])
        hdf5.put_json(file, "config", found.config)
        own = {"p": found.model.p, "p_star": found.model.p_star, "a": found.model.a, "finished": 1}
        file.attrs.update(found.attributes | own)

    hdf5.write(path, fill, format=FORMAT, version=VERSION)


def load(path: str | Path, *, locking: hdf5.Locking = None) -> Descended:
    """The descents in the file at `path`; FileError, one line, where it is not such a file or is damaged."""
    with hdf5.reading(path, FORMAT, VERSION, locking=locking) as file:
        attributes = hdf5.attributes(file)
        names = {axis for axes in DIMENSIONS.values() for axis in axes}
        dims = {name: layout.values(file, name, _KINDS.get(name, "i"), (None,)) for name in sorted(names)}
        layout.require((dims["alpha"] > 0) & np.isfinite(dims["alpha"]), "alpha", "positive and finite")
        arrays = {
            name: layout.values(file, name, _KINDS.get(name, "f"), [len(dims[axis]) for axis in axes])
            for name, axes in DIMENSIONS.items()
        }
        layout.require(np.isin(arrays["status"], (DONE, FAILED)), "status", "1 or 2")
        layout.number(attributes, "alpha_bbp")
        layout.word(attributes, "kind", ("continuous", "discontinuous"))
        return Descended(
            model=Committee(*(layout.number(attributes, name) for name in ("p", "p_star", "a"))),
            dims=dims,
            **arrays,
            config=hdf5.get_json(file, "config"),
            attributes=attributes,
        )


def _coordinate(file: h5py.File, name: str, values: NDArray[Any]) -> h5py.Dataset:
    if values.dtype.kind not in "OU":
        return hdf5.coordinate(file, name, values)
    dataset = file.create_dataset(name, data=values.astype(object), dtype=h5py.string_dtype())
    dataset.make_scale(name)
    return dataset


def _dataset(file: h5py.File, name: str, values: NDArray[Any], scales: list[h5py.Dataset]) -> None:
    dtype = h5py.string_dtype() if values.dtype.kind == "O" else None
    data = file.create_dataset(name, data=values, dtype=dtype)
    hdf5.attach(data, scales)
    data.attrs["long_name"] = ABOUT[name]
