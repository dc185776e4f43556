"""What a figure of the gallery is: how its data are made, stored and drawn.

An `Entry` has a name, a caption, a function `build(effort) -> arrays` and a function `draw(data) -> Figure`. Its data land in
one HDF5 file (dimension scales attached, so xarray opens it), with the configuration that made them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bbp.analysis.observables import of_samples
from bbp.experiments.models import Model
from bbp.files import hdf5, layout, provenance
from bbp.late_sims import instances, sample_point

Array = NDArray[Any]
Named = tuple[tuple[str, ...], Any]  # names of the dimensions, array (or a NumPy number)

FORMAT, VERSION = "bbp-figure", 1


@dataclass(frozen=True)
class Effort:
    """How much to compute. mode "quick" or "paper"; n and samples override the entry's own sizes where given."""

    mode: str = "quick"
    n: tuple[int, ...] | None = None
    samples: int | None = None
    seed: int = 0

    def sizes(self, quick: Sequence[int], paper: Sequence[int]) -> tuple[int, ...]:
        """Input dimensions: those asked for, else the entry's for the mode."""
        return self.n if self.n is not None else tuple(quick if self.mode == "quick" else paper)

    def count(self, quick: int, paper: int) -> int:
        """Number of samples: the one asked for, else the entry's for the mode."""
        return self.samples if self.samples is not None else (quick if self.mode == "quick" else paper)


@dataclass(frozen=True)
class Data:
    """Arrays of one figure: name -> (names of the dimensions, array); a coordinate is the array named as its dimension."""

    arrays: Mapping[str, Named]
    attributes: Mapping[str, Any]

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name][1]

    def __contains__(self, name: str) -> bool:
        return name in self.arrays


@dataclass(frozen=True)
class Entry:
    """One figure: `build` gives the arrays, `draw` the picture from stored data."""

    name: str
    caption: str
    build: Callable[[Effort], Mapping[str, Named]]
    draw: Callable[[Data], Figure]


def save(path: Path, entry: Entry, arrays: Mapping[str, Named], effort: Effort, seconds: float) -> None:
    """Write the data of one figure, whole or not at all (OSError)."""

    def fill(file: h5py.File) -> None:
        scales = {}
        for name, (dims, values) in arrays.items():
            if dims == (name,):
                scales[name] = hdf5.coordinate(file, name, values)
        for name, (dims, values) in arrays.items():
            for dim, length in zip(dims, np.shape(values), strict=True):
                if dim not in scales:
                    scales[dim] = hdf5.coordinate(file, dim, np.arange(length))
            if dims != (name,):
                hdf5.attach(file.create_dataset(name, data=values), [scales[dim] for dim in dims])
        hdf5.put_json(file, "config", config(entry, effort))
        file.attrs.update(
            provenance.record() | {"figure": entry.name, "caption": entry.caption, "seconds": seconds}
        )
        file.attrs["finished"] = 1

    hdf5.write(path, fill, format=FORMAT, version=VERSION)


def load(path: str | Path, *, locking: hdf5.Locking = None) -> tuple[Data, dict[str, Any]]:
    """Data and configuration of a stored figure; FileError, one line, where the file is not one or is damaged."""
    with hdf5.reading(path, FORMAT, VERSION, locking=locking) as file:
        arrays: dict[str, Named] = {}
        for name, item in file.items():
            if name == "config":
                continue
            shape = [None] * len(item.shape)
            arrays[name] = _dims(file, name, item), layout.values(file, name, "fibO", shape)
        for name, (dims, values) in arrays.items():
            layout.require(
                np.shape(values) == tuple(len(arrays[dim][1]) for dim in dims),
                name,
                "of the shape of its coordinates",
            )
        return Data(arrays, hdf5.attributes(file)), hdf5.get_json(file, "config")


def _dims(file: h5py.File, name: str, item: h5py.Dataset) -> tuple[str, ...]:
    """The names of the dimensions of a dataset: its own for a coordinate; else those of the scales attached to it."""
    if item.is_scale:
        return (name,)
    names = {scale.name: key for key, scale in file.items()}
    return tuple(names[dim[0].name] for dim in item.dims)


def config(entry: Entry, effort: Effort) -> dict[str, Any]:
    """What decides the numbers of a figure, as plain data."""
    plain = asdict(effort)
    n = None if effort.n is None else list(effort.n)
    return {"figure": entry.name, **plain, "n": n, "prng": instances().STREAM}


def rounded(alphas: Array) -> Array:
    """alphas to six digits after the point: draws are keyed by the bits of alpha, and the last digit of a threshold must not
    draw them anew."""
    return np.round(alphas, 6)


def sampled(
    model: Model,
    n: int,
    alphas: Sequence[float] | Array,
    samples: int,
    seed: int,
    eigenpairs: int | None = None,
) -> dict[str, Array]:
    """Samples at every alpha: lowest, overlap (mean q2 of the p p_star lowest), hit (largest overlap among these), each

    (alpha, sample), NaN for a sample that failed; eigenvalues (alpha, sample, k) too.
    """
    rows: dict[str, list[Array]] = {"lowest": [], "overlap": [], "hit": [], "eigenvalues": []}
    for alpha in alphas:
        point = sample_point(model, n, float(alpha), range(samples), seed, eigenpairs=eigenpairs)
        found = of_samples(model, point)
        for name in rows:
            rows[name].append(getattr(found, "phi_group" if name == "hit" else name))
    return {name: np.array(values) for name, values in rows.items()}
