"""Files of others: opened without waiting, refused unless regular, bounded in size."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from bbp.console.errors import FileError

_WAITLESS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_SAME = getattr(os, "O_NOFOLLOW", 0)


def open_regular(
    path: str | Path, flags: int = os.O_RDONLY, *, follow: bool = True, mode: int = 0o666
) -> int:
    """A descriptor of the regular file at `path`; FileError, one line, for a FIFO, a device, a directory, nothing.

    follow   False refuses a symbolic link at the end of `path`, so that what is written is what is named
    """
    name = repr(str(path))
    try:
        handle = os.open(path, flags | _WAITLESS | (0 if follow else _SAME), mode)
    except OSError as error:
        raise FileError(_reason(name, path, error)) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        directory = stat.S_ISDIR(os.fstat(handle).st_mode)
        os.close(handle)
        raise FileError(
            f"{name} is a directory, not a file" if directory else f"{name} is not a regular file"
        )
    return handle


def read_regular(path: str | Path, limit: int | None = None, *, follow: bool = True) -> bytes:
    """The bytes of the regular file at `path`; FileError, one line, if it is none, has more than `limit` or cannot be read."""
    handle = open_regular(path, follow=follow)
    try:
        size = os.fstat(handle).st_size
        if limit is not None and size > limit:
            raise FileError(f"{str(path)!r} has {size} bytes, more than the {limit} that are read")
        with open(handle, "rb", closefd=False) as file:
            data = file.read(size + 1)
            if len(data) > size:  # it grows while it is read
                data += file.read() if limit is None else file.read(max(0, limit - len(data)))
            return data
    except OSError as error:
        raise FileError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)


def _reason(name: str, path: str | Path, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        parts = f"{path}.parts"
        if not os.path.isdir(parts):
            return f"no such file: {name}"
        return (
            f"no such file: {name}, but {parts!r} holds an unfinished run: its command with --resume goes on, with --merge"
            " --partial writes what there is"
        )
    if error.errno == errno.ELOOP:
        return f"{name} is a symbolic link" if os.path.islink(path) else f"{name} is a loop of links"
    if error.errno == errno.ENXIO:
        return f"{name} is not a regular file"
    if error.errno == errno.EISDIR:
        return f"{name} is a directory, not a file"
    return f"{name} cannot be read: {(error.strerror or str(error)).lower()}"
