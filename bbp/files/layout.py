"""Looking before reading: what an HDF5 file declares, checked before a byte of its datasets is read or a link followed.

The files of this package are groups two or three deep of numbers and text. A file that others wrote may declare more than
memory holds, point into other files, or hold types that h5py turns into something else than arrays: all refused here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bbp.console.errors import FileError

DEEPEST = 6  # groups within groups
SMALL = 2**26  # bytes that any file may declare
PACKED = 100  # beyond: so many bytes for each of the file's, as a repacked file may have them
ATTRIBUTE = 2**20  # elements of an attribute
# Bookkeeping of dimension scales, written by HDF5 itself: object references, never read here.
SCALES = ("DIMENSION_LIST", "REFERENCE_LIST")


def inspect(file: h5py.File, size: int) -> None:
    """FileError, one line (without the file's name), if the open `file` of `size` bytes holds what none of ours does."""
    room = SMALL + PACKED * size
    for name, item in walk(file):
        _check_attributes(name, item)
        if isinstance(item, h5py.Dataset):
            _check_dataset(name, item)
            room -= item.size * max(item.dtype.itemsize, 1)
            if room < 0:
                raise FileError(f"{name} declares more values than a file of {size} bytes holds")


def walk(group: h5py.Group) -> Iterator[tuple[str, h5py.HLObject]]:
    """(name, object) of the root ("/") and of all below, in the order of `visititems`; FileError for a link elsewhere."""
    yield "/", group
    seen = {_address(group)}
    below = [_entries(group, "", 1)]
    while below:
        entry = next(below[-1], None)
        if entry is None:
            below.pop()
            continue
        name, item = entry
        if _address(item) in seen:
            raise FileError(f"{name} is a second name of another object")
        seen.add(_address(item))
        yield name, item
        if isinstance(item, h5py.Group):
            below.append(_entries(item, name + "/", len(below) + 1))


def values(group: h5py.Group, name: str, kinds: str, shape: Sequence[int | None] = ()) -> NDArray[Any]:
    """The dataset `name` of `group`, once it is seen to be of the right type and shape; ValueError or KeyError if not.

    kinds   letters of NumPy's kinds that will do: "f" floats, "i" integers of either sign, "b", "O" text
    shape   its lengths, None for any; () for a scalar
    """
    item = group[name]
    if not isinstance(item, h5py.Dataset):
        raise ValueError(f"{name} is not a dataset")
    text = h5py.check_string_dtype(item.dtype) is not None
    kind = "O" if text else item.dtype.kind.replace("u", "i")
    if kind not in kinds:
        raise ValueError(f"{name} is of type {item.dtype}")
    if len(item.shape) != len(shape) or any(
        wanted not in (None, length) for wanted, length in zip(shape, item.shape, strict=True)
    ):
        wanted = tuple("any" if length is None else length for length in shape)
        raise ValueError(f"{name} has shape {item.shape}, the coordinates say {wanted}")
    return item.asstr()[()] if text else item[()]


def _entries(group: h5py.Group, prefix: str, depth: int) -> Iterator[tuple[str, h5py.HLObject]]:
    if depth > DEEPEST:
        raise FileError(f"{prefix[:60]}... lies more than {DEEPEST} groups deep")
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise FileError(f"{prefix}{name} is a link to elsewhere")
        yield prefix + name, group[name]


def _address(item: h5py.HLObject) -> Any:
    info = h5py.h5o.get_info(item.id)
    return info.fileno, info.addr


def _check_dataset(name: str, item: h5py.Dataset) -> None:
    if item.external is not None or item.is_virtual:
        raise FileError(f"{name} has its values in another file")
    if item.shape is None:
        raise FileError(f"{name} has no values")
    _check_type(name, item.dtype)


def _check_attributes(name: str, item: h5py.HLObject) -> None:
    for key in item.attrs:
        if key in SCALES:
            continue
        held = item.attrs.get_id(key)
        if held.get_space().get_simple_extent_type() == h5py.h5s.NULL:
            raise FileError(f"attribute {key} of {name} has no value")
        if np.prod(held.shape, dtype=float) > ATTRIBUTE:
            raise FileError(f"attribute {key} of {name} has {held.shape} values")
        _check_type(f"attribute {key} of {name}", held.dtype)


def _check_type(name: str, dtype: np.dtype[Any]) -> None:
    text = h5py.check_string_dtype(dtype) is not None
    number = dtype.kind in "biuf" and dtype.itemsize <= 8 and dtype.subdtype is None
    if not (text or number):
        raise FileError(f"{name} is of a type that no file of bbp has")


def number(attributes: Mapping[str, Any], name: str, *, finite: bool = True) -> Any:
    """The attribute `name`, one number; ValueError or KeyError if it is something else, or not finite where it must be."""
    value = attributes[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or (finite and not math.isfinite(value)):
        raise ValueError(f"attribute {name} is {value!r}")
    return value


def word(attributes: Mapping[str, Any], name: str, choices: Sequence[str]) -> str:
    """The attribute `name`, one of `choices`; ValueError or KeyError if it is something else."""
    value = attributes[name]
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"attribute {name} is {value!r}, not one of {', '.join(choices)}")
    return value


def require(good: Any, name: str, wanted: str) -> None:
    """ValueError "NAME is not WANTED" unless all of `good` holds."""
    if not np.all(good):
        raise ValueError(f"{name} is not {wanted}")
