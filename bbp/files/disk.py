"""Files on disk: what may be written, bytes that land whole or not at all, with a checksum, and reading them.

What is written goes to a temporary file beside the target, fsync, rename, fsync of the directory. The checksum lies behind the
last byte (`sealed`), and is verified before anything else looks at the file. HDF5 writes the length of its part of a file into
the file's head and takes no notice of what follows, so a sealed file opens in every program that reads HDF5. A program that
changes the file overwrites or drops the seal, or leaves one that no longer fits.

A symbolic link is written through: the file it points to is replaced, and what belongs to a run lies beside that.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bbp.console.messages import FileError
from theory.checks import ParameterError, shown


def destination(value: Any, name: str = "out") -> Path:
    """The file to write for an option `name` of this value: "~" filled in, links followed. ParameterError, FileError."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ParameterError(f"{name} must be the name of a file, got {shown(value)}")
    path = home(str(value))
    try:
        if path.is_symlink():
            if not path.exists():
                raise FileError(f"{str(path)!r} is a link to nothing")
            path = path.resolve()
        if not path.name or path.is_dir():
            raise FileError(f"{str(path)!r} is a directory, not a file")
        if os.path.lexists(path) and not path.is_file():
            raise FileError(f"{str(path)!r} is not a regular file")
    except OSError as error:  # a name too long, a directory on the way that is closed or is a file
        reason = (error.strerror or str(error)).lower()
        raise FileError(f"{str(path)!r} cannot be written: {reason}") from None
    return path


def home(value: str) -> Path:
    """The path of this text, "~" and "~user" at its beginning filled in: a configuration file has no shell to do it."""
    try:
        return Path(value).expanduser()
    except RuntimeError:  # no such user
        return Path(value)


def require_free(path: Path, *, force: bool) -> None:
    """FileError if there is a file at `path` and it is not to be replaced."""
    if path.exists() and not force:
        raise FileError(f"{str(path)!r} exists (--force replaces it)")


def require_once(sources: Iterable[Any]) -> None:
    """ParameterError where a file is named twice among files and results, also by another path or link."""
    seen: set[str] = set()
    for path in (str(one) for one in sources if isinstance(one, str | Path)):
        if (real := os.path.realpath(path)) in seen:
            raise ParameterError(f"{path!r} is given twice")
        seen.add(real)


def require_apart(outputs: Mapping[str, Path], inputs: Iterable[str | Path] = ()) -> None:
    """FileError if two of `outputs` (by the name of their option) are one file, or one is among `inputs`, under any name."""
    seen: list[tuple[str, Path]] = []
    for name, path in outputs.items():
        for other, taken in seen:
            if _same(path, taken):
                raise FileError(f"{other} and {name} are one file, {str(path)!r}")
        seen.append((name, path))
        if any(_same(path, Path(given)) for given in inputs):
            raise FileError(f"{str(path)!r} is what is read here: it would be replaced")


def _same(one: Path, two: Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(two):
        return True
    with suppress(OSError):
        return os.path.samefile(one, two)
    return False


def prepare_directory(directory: Path) -> None:
    """Create `directory` and try a write in it; FileError with the reason if that fails."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        reason = "not a directory" if isinstance(error, FileExistsError) else error.strerror
        raise FileError(f"cannot write in directory {str(directory)!r}: {reason}") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step: a reader, or a crash at any moment, sees the old file or the new one.

    OSError (disk full, read-only, ...) leaves what was there and no temporary file behind.
    """
    # short, however long the name of `path`
    name = path.parent / f".bbp-{_mark(path)}-{uuid.uuid4().hex[:12]}.tmp"
    try:
        with open(name, "xb") as file:
            file.write(data)
            file.flush()
            # Before the rename: else a crash could leave the new name with none of the new bytes.
            os.fsync(file.fileno())
        os.replace(name, path)
    finally:
        name.unlink(missing_ok=True)
    # And after it: the new name is safe once its directory is on the disk.
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        with suppress(
            OSError
        ):  # some network file systems refuse it; the rename is atomic there all the same
            os.fsync(handle)
    finally:
        os.close(handle)


def sweep_leftovers(path: Path) -> None:
    """Remove what killed writers of `path` left half written; only where no other process writes it."""
    for left in path.parent.glob(f".bbp-{_mark(path)}-*.tmp"):
        left.unlink(missing_ok=True)


def _mark(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path.name)).hexdigest()[:8]


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


def require_file(path: str | Path) -> None:
    """FileError, one line, unless there is a regular file at `path`: a FIFO or a device would hold a reader up."""
    name = repr(str(path))
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise FileError(f"{name} cannot be read: {(error.strerror or str(error)).lower()}") from None
        parts = f"{path}.parts"
        unfinished = (
            f", but {parts!r} holds an unfinished run: its command with --resume (resume=True) goes on,"
            " with --merge --partial writes what there is"
        )
        raise FileError(f"no such file: {name}{unfinished if os.path.isdir(parts) else ''}") from None
    if not stat.S_ISREG(mode):
        raise FileError(f"{name} is {'a directory, not a' if stat.S_ISDIR(mode) else 'not a regular'} file")


def read_bytes(path: str | Path, most: int | None = None) -> bytes:
    """The bytes of the regular file at `path`; FileError, one line, if it is none, has more than `most` or cannot be read."""
    require_file(path)
    try:
        if most is not None and (size := os.path.getsize(path)) > most:
            raise FileError(f"{str(path)!r} has {size} bytes, more than the {most} that are read")
        return Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{str(path)!r} cannot be read: {(error.strerror or str(error)).lower()}") from None
