"""Bytes of files: they land whole or not at all, with a checksum, and are read with care.

What is written goes to a temporary file beside the target, fsync, rename, fsync of the directory. It has a name that nobody
else gives (`temporary`), and is locked while it is written: what a killed process has left is known by its name, and by its
lock that nobody holds.

The checksum lies behind the last byte (`sealed`), and is verified before anything else looks at the file. HDF5 writes the
length of its part of a file into the file's head and takes no notice of what follows, so a sealed file opens in every program
that reads HDF5 (a block in front of it would hide its signature from some). A program that changes the file overwrites or
drops the seal, or leaves one that no longer fits.

Files of others are opened without waiting, refused unless regular, bounded in size (`read_regular`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import time
import uuid
from contextlib import suppress
from pathlib import Path

from bbp.console import signals
from bbp.console.errors import FileError

try:
    import fcntl
except ImportError:  # not a POSIX system: age alone tells what is left over
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".tmp"
STALE_SECONDS = 3600.0  # after which a temporary file is left over where the file system has no locks to ask
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, 524)
_OURS = re.compile(r"\.bbp-[0-9a-f]{8}-[0-9a-f]{12}\.tmp")


def temporary(path: Path) -> Path:
    """A new name beside `path` for what is to become it, or to be removed: of 30 characters, however long its own."""
    return path.parent / f".bbp-{_mark(path.name)}-{uuid.uuid4().hex[:12]}{SUFFIX}"


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step: a reader, or a crash at any moment, sees the old file or the new one.

    OSError (disk full, read-only, ...) leaves what was there and no temporary file behind.
    """
    _land(path, data, replace=True)


def create(path: Path, data: bytes) -> None:
    """Make a new file `path` of `data`, whole; FileExistsError if there is one. One of many that try succeeds."""
    _land(path, data, replace=False)


def sync_directory(directory: Path) -> None:
    """Make a rename in `directory` durable, where the file system can."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        # Some network file systems refuse fsync on a directory; the rename itself is still atomic there.
        pass
    finally:
        os.close(handle)


def sweep_leftovers(directory: Path, name: str = "") -> None:
    """Remove what killed runs left half written, or half removed, in `directory` (of the target `name`, or of any)."""
    prefix = f".bbp-{_mark(name)}-" if name else ".bbp-"
    with suppress(OSError):
        for entry in list(os.scandir(directory)):
            if entry.name.startswith(prefix) and _OURS.fullmatch(entry.name):
                _remove_leftover(Path(entry.path))


def prepare_directory(directory: Path) -> None:
    """Create `directory`, try a write in it, remove what killed runs left there; FileError with the reason if it fails."""
    probe = temporary(directory / "probe")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        reason = "not a directory" if isinstance(error, FileExistsError) else error.strerror
        if error.errno == errno.ENOENT and directory.is_dir():  # as in /proc
            reason = "no file can be made there"
        raise FileError(f"cannot write in directory {str(directory)!r}: {reason}") from None
    sweep_leftovers(directory)


def _mark(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:8]


def _land(path: Path, data: bytes, *, replace: bool) -> None:
    """Write `data` under a temporary name, then give it its own, in the place of what has it or only if nothing has."""
    name = temporary(path)

    def remove() -> None:
        name.unlink(missing_ok=True)

    with signals.cleaned(remove):
        try:
            with open(name, "xb") as file:
                _hold(file.fileno())
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                if replace:
                    os.replace(name, path)
                else:
                    _link(name, path, data)
        finally:
            remove()
    sync_directory(path.parent)


def _link(name: Path, path: Path, data: bytes) -> None:
    """`path` as a second name of the file `name`; where there are no hard links, exclusive from its first byte on."""
    try:
        os.link(name, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with open(path, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def _hold(handle: int) -> bool | None:
    """Lock what is being written; False if another process holds it, None where the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (OSError, AttributeError):
        return None
    return True


def _remove_leftover(path: Path) -> None:
    with suppress(OSError):
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode):
            shutil.rmtree(path, ignore_errors=True)
        elif stat.S_ISREG(found.st_mode) and _is_left(path, found.st_mtime):
            path.unlink(missing_ok=True)


def _is_left(path: Path, written: float) -> bool:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        free = _hold(handle)
        return time.time() - written > STALE_SECONDS if free is None else free
    finally:
        os.close(handle)


_WORD = b"\nbbp seal"
_MARK = _WORD + b": sha256 of all bytes before this line "
LENGTH = len(_MARK) + 64 + 1


def sealed(data: bytes) -> bytes:
    """`data` and its seal."""
    return data + _MARK + hashlib.sha256(data).hexdigest().encode() + b"\n"


def fits(data: bytes) -> bool | None:
    """Whether the seal at the end of `data` is that of what lies before it, and whole; None where there is no seal."""
    seal = data[-LENGTH:]
    if not seal.startswith(_MARK) or len(seal) < LENGTH:
        return False if _WORD in seal else None
    return hashlib.sha256(memoryview(data)[:-LENGTH]).hexdigest().encode() == seal[len(_MARK) : -1]


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
            f"no such file: {name}, but {parts!r} holds an unfinished run: its command with --resume (resume=True) goes on,"
            " with --merge --partial writes what there is"
        )
    if error.errno == errno.ELOOP:
        return f"{name} is a symbolic link" if os.path.islink(path) else f"{name} is a loop of links"
    if error.errno == errno.ENXIO:
        return f"{name} is not a regular file"
    if error.errno == errno.EISDIR:
        return f"{name} is a directory, not a file"
    return f"{name} cannot be read: {(error.strerror or str(error)).lower()}"
