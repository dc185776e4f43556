"""HDF5 files of one envelope: a format name and version, checksums, written whole or not at all.

Written through memory, so that HDF5 itself never holds a half-written file on disk and needs no file lock, and sealed:
the checksum of all bytes stands behind them (bbp.files.seal). Read through `reading`, which verifies the seal before HDF5
sees the file, or, where there is none, lets a child process read the file first (bbp.files.probe): one flipped bit can
make HDF5 hang or crash. Whatever can be wrong with a file becomes one line.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bbp.console.errors import FileError
from bbp.files import atomic, layout, probe, seal
from bbp.files.regular import open_regular, read_regular

try:
    import fcntl
except ImportError:  # not a POSIX system: nobody's lock can be asked for
    fcntl = None  # type: ignore[assignment]

FORMAT, VERSION, DIGEST = "format", "format_version", "sha256"
Locking = bool | str | None
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def write(path: str | Path, fill: Callable[[h5py.File], None], *, format: str, version: int) -> None:
    """Write the HDF5 file that `fill(file)` describes, with its envelope, atomically; OSError leaves the old file."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        fill(file)
        _put_text(file, FORMAT, format)
        file.attrs[VERSION] = version
        _put_text(file, DIGEST, digest(file))
    atomic.write_bytes(Path(path), seal.sealed(buffer.getvalue()))


@contextmanager
def reading(
    path: str | Path, format: str, version: int | None = None, *, locking: Locking = None
) -> Iterator[h5py.File]:
    """The open file at `path`, after checking its format, version and contents; FileError (one line) otherwise.

    locking     True: refuse a file that another process has open for writing, and one whose file system has no locks;
                "best-effort": the former only; False, None: take no lock, the checksum tells a file half written
    """
    with _explained(path):
        data = _bytes(path, locking)
        sealed = _verified(path, data)
        with _opened(data) as file:
            layout.inspect(file, len(data))
            _check_envelope(file, str(path), format, version)
            if not sealed and text_attribute(file, DIGEST) != digest(file):
                raise _unsound(path)
            yield file


def format_of(path: str | Path, *, locking: Locking = None) -> str:
    """The format name of a file written by this package, for instance "bbp-sweep"; FileError for any other file."""
    with _explained(path):
        data = _bytes(path, locking)
        _verified(path, data)
        with _opened(data) as file:
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


def get_json(group: h5py.Group, name: str, kind: type = dict) -> Any:
    """The value that `put_json` stored; ValueError if it is not JSON, or not a `kind`."""
    value = json.loads(str(layout.values(group, name, "O")))
    if not isinstance(value, kind):
        raise ValueError(f"{name} holds a {type(value).__name__}, not a {kind.__name__}")
    return value


def text_attribute(item: h5py.HLObject, name: str) -> str | None:
    """The text in the attribute `name`, of fixed or of variable length; None where there is none."""
    value = item.attrs.get(name)
    return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else None


def attributes(group: h5py.Group) -> dict[str, Any]:
    """The attributes of `group` as plain values of Python: text, int or float; ValueError where one holds several."""
    return {name: _plain(name, group.attrs[name]) for name in group.attrs if name not in layout.SCALES}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if np.ndim(value):
        raise ValueError(f"attribute {name} has {np.size(value)} values")
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


def digest(file: h5py.File) -> str:
    """SHA-256 over names, shapes, types and contents of all datasets and attributes, in order of name."""
    total = hashlib.sha256()
    for name, item in layout.walk(file):
        total.update(name.encode())
        if isinstance(item, h5py.Dataset):
            _add_values(total, item[()])
        for key in sorted(item.attrs):
            # Dimension bookkeeping holds object references, which a rewrite may renumber.
            if key not in (*layout.SCALES, DIGEST):
                total.update(key.encode())
                _add_values(total, item.attrs[key])
    return total.hexdigest()


def examine(data: bytes) -> None:
    """All that reading does with the HDF5 file in `data`, for `bbp.files.probe`, which does it where a crash costs nothing."""
    with _opened(data) as file:
        layout.inspect(file, len(data))
        digest(file)


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


def _put_text(file: h5py.File, name: str, text: str) -> None:
    """An attribute of fixed length: of variable length it would lie in a heap, where a flipped bit makes HDF5 hang."""
    file.attrs.create(name, text, dtype=h5py.string_dtype("utf-8", len(text.encode())))


def _bytes(path: str | Path, locking: Locking) -> bytes:
    """The bytes of the file at `path`, with a shared lock if `locking` asks for one; FileError if they cannot be had."""
    if locking in (None, False):
        return read_regular(path)
    handle = open_regular(path)
    try:
        _share(handle, path, strict=locking is True)
        return read_regular(path)
    finally:
        os.close(handle)


def _share(handle: int, path: str | Path, *, strict: bool) -> None:
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileError(_held(path)) from None
    except OSError as error:
        if strict:
            raise FileError(f"{str(path)!r} cannot be locked: {error.strerror} (--locking false)") from None


def _verified(path: str | Path, data: bytes) -> bool:
    """Whether `data` carries a seal that fits; without one a child has read it. FileError if it is not fit to be read."""
    name = repr(str(path))
    if not data:
        raise FileError(f"{name} is empty")
    starts = (0, *(512 << power for power in range(20)))
    if not any(data[start : start + len(_SIGNATURE)] == _SIGNATURE for start in starts):
        raise FileError(f"{name} is not an HDF5 file")
    sound = seal.fits(data)
    if sound is False:
        raise _unsound(path)
    if sound is None:
        failure = probe.failure(path, data)
        if failure:
            raise FileError(_held(path) if _is_held(path) else f"{name} is {failure}")
    return bool(sound)


def _unsound(path: str | Path) -> FileError:
    if _is_held(path):
        return FileError(_held(path))
    return FileError(f"{str(path)!r} is damaged: its contents do not match their checksum")


def _held(path: str | Path) -> str:
    return f"{str(path)!r} is open for writing in another process: try again when that has closed it"


def _is_held(path: str | Path) -> bool:
    """Whether another process holds HDF5's lock of a writer on the file."""
    try:
        handle = open_regular(path)
        try:
            _share(handle, path, strict=False)
        finally:
            os.close(handle)
    except FileError:
        return True
    return False


@contextmanager
def _opened(data: bytes) -> Iterator[h5py.File]:
    """The HDF5 file in `data`, read-only: no name, no lock, nothing that can change under the reader."""
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fapl_core(backing_store=False)
    access.set_file_image(data)
    with h5py.File(h5py.h5f.open(b"in memory", h5py.h5f.ACC_RDONLY, access)) as file:
        yield file


@contextmanager
def _explained(path: str | Path) -> Iterator[None]:
    """Whatever reading the file at `path` raises, as a FileError in one line: none of it is the program's fault."""
    try:
        yield
    except FileError as error:
        text = str(error)
        raise error if repr(str(path)) in text else FileError(f"{str(path)!r}: {text}") from None
    except PermissionError:
        raise FileError(f"{str(path)!r} cannot be read: permission denied") from None
    except Exception as error:
        raise FileError(f"{str(path)!r} is {probe.describe(error)}") from None


def _format(file: h5py.File, path: str) -> str:
    found = text_attribute(file, FORMAT)
    if found is None or not found.startswith("bbp-"):
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
    if text_attribute(file, DIGEST) is None:
        raise FileError(f"{path!r} is damaged: it has no checksum")
