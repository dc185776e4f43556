"""HDF5 files of one envelope: a format name and version, a checksum of the contents, written whole or
not at all.

Written through memory, so that HDF5 itself never holds a half-written file on disk and needs no file
lock. Read through `reading`, which turns everything that can be wrong with a file into one line.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bbp.console.errors import FileError
from bbp.files import atomic

FORMAT, VERSION, DIGEST = "format", "format_version", "sha256"
Locking = bool | str | None


def write(path: str | Path, fill: Callable[[h5py.File], None], *, format: str, version: int) -> None:
    """Write the HDF5 file that `fill(file)` describes, with its envelope, atomically; OSError leaves the
    old file.
    """
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        fill(file)
        file.attrs[FORMAT] = format
        file.attrs[VERSION] = version
        file.attrs[DIGEST] = digest(file)
    atomic.write_bytes(Path(path), buffer.getvalue())


@contextmanager
def reading(
    path: str | Path, format: str, version: int | None = None, *, locking: Locking = None
) -> Iterator[h5py.File]:
    """The open file at `path`, after checking its format, version and contents; FileError (one line)
    otherwise.

    locking     passed to h5py: None takes the library's default (or HDF5_USE_FILE_LOCKING), False opens
                without
                a lock, for network file systems on which locks fail, "best-effort" tries
    """
    with _explained(path), _open(path, locking) as file:
        _check_envelope(file, str(path), format, version)
        yield file


def format_of(path: str | Path, *, locking: Locking = None) -> str:
    """The format name of a file written by this package, for instance "bbp-sweep"; FileError for any
    other file.
    """
    with _explained(path), _open(path, locking) as file:
        return _format(file, str(path))


def attach(dataset: h5py.Dataset, scales: Sequence[h5py.Dataset]) -> None:
    """Make `scales` the dimensions of `dataset`, in order, as netCDF readers expect them."""
    for dimension, scale in zip(dataset.dims, scales, strict=True):
        dimension.attach_scale(scale)


def coordinate(group: h5py.Group, name: str, values: Any, **attributes: str) -> h5py.Dataset:
    """A dataset of `values` (length,) that serves as the dimension `name`."""
    dataset = group.create_dataset(name, data=values)
    dataset.make_scale(name)
    dataset.attrs.update(attributes)
    return dataset


def put_json(group: h5py.Group, name: str, value: Any) -> None:
    """Store `value` as JSON text in a scalar dataset: attributes stop at 64 KiB, datasets do not."""
    group.create_dataset(name, data=json.dumps(value), dtype=h5py.string_dtype())


def get_json(group: h5py.Group, name: str) -> Any:
    """The value that `put_json` stored."""
    return json.loads(group[name].asstr()[()])


def digest(file: h5py.File) -> str:
    """SHA-256 over names, shapes, types and contents of all datasets and attributes, in order of name."""
    total = hashlib.sha256()

    def add(name: str, item: h5py.HLObject) -> None:
        total.update(name.encode())
        if isinstance(item, h5py.Dataset):
            _add_values(total, item[()])
        for key in sorted(item.attrs):
            # Dimension bookkeeping holds object references, which a rewrite may renumber.
            if key not in ("DIMENSION_LIST", "REFERENCE_LIST", DIGEST):
                total.update(key.encode())
                _add_values(total, item.attrs[key])

    add("/", file)
    file.visititems(add)
    return total.hexdigest()


def _add_values(total: Any, value: Any) -> None:
    array = np.asarray(value)
    total.update(f"{array.shape}{array.dtype.str}".encode())
    if array.dtype.kind == "O":
        texts = [item.decode() if isinstance(item, bytes) else str(item) for item in array.ravel()]
        total.update(json.dumps(texts).encode())
    elif array.dtype.kind == "U":
        total.update("\0".join(array.ravel()).encode())
    else:
        total.update(np.ascontiguousarray(array).tobytes())


def _open(path: str | Path, locking: Locking) -> h5py.File:
    path = Path(path)
    if not path.exists():
        raise FileError(f"no such file: {str(path)!r}")
    if path.is_dir():
        raise FileError(f"{str(path)!r} is a directory, not a file")
    if not path.is_file():
        raise FileError(f"{str(path)!r} is not a regular file")
    with open(path, "rb") as file:
        if not file.read(1):
            raise FileError(f"{str(path)!r} is empty")
    if not h5py.is_hdf5(path):
        raise FileError(f"{str(path)!r} is not an HDF5 file")
    return h5py.File(path, "r", locking=locking)


@contextmanager
def _explained(path: str | Path) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except PermissionError:
        raise FileError(f"{str(path)!r} cannot be read: permission denied") from None
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, MemoryError) as error:
        text = " ".join(str(error).split())
        word = "truncated" if "truncated" in text else "damaged"
        raise FileError(f"{str(path)!r} is {word}: {text}") from None


def _format(file: h5py.File, path: str) -> str:
    found = file.attrs.get(FORMAT)
    if not isinstance(found, str) or not found.startswith("bbp-"):
        raise FileError(f"{path!r} is an HDF5 file, but not one of bbp's")
    return found


def _check_envelope(file: h5py.File, path: str, format: str, version: int | None) -> None:
    found = _format(file, path)
    if found != format:
        raise FileError(f"{path!r} is a {found} file, not a {format} file")
    number = int(file.attrs[VERSION])
    version = number if version is None else version
    if number > version:
        raise FileError(
            f"{path!r} has {format} version {number}, newer than this program's {version}: update bbp"
        )
    if number < version:
        raise FileError(
            f"{path!r} has {format} version {number}, older than this program's {version}: run it again"
        )
    if file.attrs[DIGEST] != digest(file):
        raise FileError(f"{path!r} is damaged: its contents do not match their checksum")
