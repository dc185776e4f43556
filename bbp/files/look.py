"""Looking before reading: what an HDF5 file declares, checked before its values are read or a link in it is followed.

Files of this package are groups two deep of numbers and text. What others wrote may declare more than memory holds, or point
into other files: refused here, in one line without the file's name.
"""

from __future__ import annotations

from collections.abc import Iterator

import h5py
import numpy as np

from bbp.console.errors import FileError

DEEPEST = 6  # groups within groups
SMALL, PACKED = 2**26, 100  # bytes that any file may declare, and for each of its own, as compressed files do
ATTRIBUTE = 2**20  # elements of an attribute
_SCALES = ("DIMENSION_LIST", "REFERENCE_LIST")  # HDF5's own bookkeeping, of object references


def inspect(file: h5py.File, size: int) -> None:
    """FileError if the open `file` of `size` bytes holds what none of ours does."""
    room = SMALL + PACKED * size
    for name, item in walk(file):
        _check_attributes(name, item)
        if isinstance(item, h5py.Dataset):
            if item.external is not None or item.is_virtual:
                raise FileError(f"{name} has its values in another file")
            if item.shape is None:
                raise FileError(f"{name} has no values")
            _check_type(name, item.dtype)
            room -= item.size * max(item.dtype.itemsize, 1)
            if room < 0:
                raise FileError(f"{name} declares more values than a file of {size} bytes holds")


def walk(group: h5py.Group, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, h5py.HLObject]]:
    """(name, object) of the root ("/") and of all below; FileError for a link elsewhere or groups within themselves."""
    if depth > DEEPEST:
        raise FileError(f"{prefix[:60]}... lies more than {DEEPEST} groups deep")
    if not prefix:
        yield "/", group
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise FileError(f"{prefix}{name} is a link to elsewhere")
        yield prefix + name, group[name]
        if isinstance(group[name], h5py.Group):
            yield from walk(group[name], f"{prefix}{name}/", depth + 1)


def _check_attributes(name: str, item: h5py.HLObject) -> None:
    for key in item.attrs:
        if key in _SCALES:
            continue
        held = item.attrs.get_id(key)
        if held.get_space().get_simple_extent_type() == h5py.h5s.NULL:
            raise FileError(f"attribute {key} of {name} has no value")
        if np.prod(held.shape, dtype=float) > ATTRIBUTE:
            raise FileError(f"attribute {key} of {name} has {held.shape} values")
        _check_type(f"attribute {key} of {name}", held.dtype)


def _check_type(name: str, dtype: np.dtype) -> None:
    text = h5py.check_string_dtype(dtype) is not None
    number = dtype.kind in "biufS" and dtype.itemsize <= 64 and dtype.subdtype is None
    if not (text or number):
        raise FileError(f"{name} is of a type that no file of bbp has")
