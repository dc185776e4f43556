"""What a program stores, declared once: axes, and fields over them with their type, fill value and meaning.

A `Field` serves every place that handles the array: the columns of a unit of work and of its part on disk (its dimensions
after those of the points), samples not run or failed (`fill`), the assembled array, the HDF5 file, what reading checks,
pooling, and the words of the documentation. Adding an array to a file is one line in a list of fields, and
its computation. A module that writes a file names in TABLES its (group, axes, fields).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bbp.files import hdf5, layout

NOT_RUN, DONE, FAILED = 0, 1, 2  # of a sample; where it is stored, how it ended
TEXT = "O"  # the dtype of text, as h5py gives it


@dataclass(frozen=True)
class Axis:
    """A coordinate: `dtype` is "f8", "i8" or TEXT; `words` say what it is."""

    name: str
    dtype: str = "i8"
    words: str = ""


@dataclass(frozen=True)
class Field:
    """An array of a file.

    name      of the column, and of the attribute of what is loaded
    dims      names of its axes, outermost first
    dtype     "f8", "i8", "i1" or TEXT
    fill      what stands where nothing was computed
    words     what it is, with units
    path      where it lies in the file, if not under its name
    before    where it lies in files of before
    optional  files of before it existed lack it: it is then `fill` throughout
    """

    name: str
    dims: tuple[str, ...]
    dtype: str = "f8"
    fill: Any = np.nan
    words: str = ""
    path: str = ""
    optional: bool = False
    before: str = ""

    @property
    def place(self) -> str:
        """Where the dataset lies in its group."""
        return self.path or self.name

    @property
    def kind(self) -> str:
        """The letter of its type in `bbp.files.layout.values`."""
        return np.dtype(self.dtype).kind

    def empty(self, sizes: Mapping[str, int], dims: Sequence[str] | None = None) -> NDArray[Any]:
        """An array of `fill` over its axes (or over `dims`), whose lengths are `sizes`."""
        shape = [sizes[dim] for dim in (self.dims if dims is None else dims)]
        return np.full(shape, self.fill, dtype=self.dtype)

    def check(self, values: NDArray[Any], shape: Sequence[int]) -> None:
        """ValueError unless `values` is of the declared type and of this shape."""
        kind = "O" if values.dtype.kind in "OU" else values.dtype.kind
        if kind != self.kind or (kind != "O" and values.dtype.itemsize != np.dtype(self.dtype).itemsize):
            raise ValueError(f"{self.name} is of type {values.dtype}, not {self.dtype}")
        if values.shape != tuple(shape):
            raise ValueError(f"{self.name} has shape {values.shape}, not {tuple(shape)}")


# How a sample ended, in the columns of every experiment.
STATUS = Field("status", ("sample",), "i1", NOT_RUN, "0 not run, 1 done, 2 failed")
REASON = Field("reason", ("sample",), TEXT, "", "why a sample failed")


def write(
    group: h5py.Group, axes: Iterable[Axis], fields: Iterable[Field], values: Mapping[str, Any]
) -> dict[str, h5py.Dataset]:
    """Write coordinates and fields of `values` (by name) into `group`; the coordinates' datasets, by name."""
    scales = {axis.name: _coordinate(group, axis, values[axis.name]) for axis in axes}
    for field in fields:
        add(group, field, values[field.name], [scales[dim] for dim in field.dims])
    return scales


def add(group: h5py.Group, field: Field, values: Any, scales: Sequence[h5py.Dataset]) -> None:
    """Write one field over dimension scales that are there."""
    text = field.dtype == TEXT
    data = np.asarray(values, dtype=object) if text else values
    dataset = group.create_dataset(field.place, data=data, dtype=h5py.string_dtype() if text else None)
    hdf5.attach(dataset, scales)
    if field.words:
        dataset.attrs["long_name"] = field.words


def read(group: h5py.Group, axes: Iterable[Axis], fields: Iterable[Field]) -> dict[str, NDArray[Any]]:
    """Coordinates and fields by name, each looked at before it is read; ValueError or KeyError if one is not as declared."""
    found = {axis.name: layout.values(group, axis.name, np.dtype(axis.dtype).kind, (None,)) for axis in axes}
    sizes = {name: len(values) for name, values in found.items()}
    for field in fields:
        place = field.before if field.before and field.place not in group else field.place
        if field.optional and place not in group:
            found[field.name] = field.empty(sizes)
        else:
            shape = [sizes[dim] for dim in field.dims]
            # Nothing, written without its type by version 0.1, is of any type of number.
            kinds = "fi" if 0 in shape and field.kind in "fi" else field.kind
            found[field.name] = layout.values(group, place, kinds, shape)
    if "alpha" in sizes:
        good = (found["alpha"] > 0) & np.isfinite(found["alpha"])
        layout.require(good, "alpha", "positive and finite")
    if STATUS.name in found:
        layout.require(np.isin(found[STATUS.name], (NOT_RUN, DONE, FAILED)), STATUS.name, "0, 1 or 2")
    return found


def over(outer: Sequence[str], fields: Iterable[Field]) -> tuple[Field, ...]:
    """Columns as arrays of a file: the same fields, with the axes of the points put before theirs."""
    return tuple(
        Field(f.name, (*outer, *f.dims), f.dtype, f.fill, f.words, f.path, f.optional, f.before)
        for f in fields
    )


def _coordinate(group: h5py.Group, axis: Axis, values: Any) -> h5py.Dataset:
    if axis.dtype == TEXT:
        dataset = group.create_dataset(
            axis.name, data=np.asarray(values, dtype=object), dtype=h5py.string_dtype()
        )
        dataset.make_scale(axis.name)
    else:
        dataset = hdf5.coordinate(group, axis.name, np.asarray(values))
    if axis.words:
        dataset.attrs["long_name"] = axis.words
    return dataset
