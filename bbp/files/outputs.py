"""Where results go: one policy for every program, applied before any work.

A symbolic link is written through: the file it points to is replaced, and what belongs to a run lies beside that. A link to
nothing, a directory, a device or a FIFO, and a name too long for what lies beside it are refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bbp.console.errors import FileError
from theory.checks import ParameterError, shown

BESIDE = 40  # bytes that names of what lies beside a file have more: FILE.h5.123-of-456.bbp.lock.shared-...
LONGEST = 255  # bytes of a name, where the system does not say


def destination(value: Any, name: str = "out") -> Path:
    """The file that an option `name` with this value means: "~" filled in, links followed. ParameterError, FileError."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ParameterError(f"{name} must be the name of a file, got {shown(value)}")
    path = home(str(value))
    longest = _longest(path.parent) - BESIDE
    length = len(os.fsencode(path.name))
    if length > longest:
        raise ParameterError(f"{name} must have a name of at most {longest} bytes, got one of {length}")
    try:
        return _usable(path)
    except OSError as error:  # a path too long, a directory on the way that is closed or is a file
        reason = (error.strerror or str(error)).lower()
        raise FileError(f"{str(path)!r} cannot be written: {reason}") from None


def _usable(path: Path) -> Path:
    """The file to write for `path`; FileError where there is something else than a file."""
    if not path.name:
        raise FileError(f"{str(path)!r} is a directory, not a file")
    if path.is_symlink():
        if not path.exists():
            raise FileError(f"{str(path)!r} is a link to nothing")
        path = path.resolve()
    if path.is_dir():
        raise FileError(f"{str(path)!r} is a directory, not a file")
    if os.path.lexists(path) and not path.is_file():
        raise FileError(f"{str(path)!r} is not a regular file")
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
        if (real := os.path.realpath(path)) in seen:  # which no loop of links stops
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
    try:
        return os.path.samefile(one, two)
    except OSError:
        return False


def _longest(directory: Path) -> int:
    try:
        return os.pathconf(directory, "PC_NAME_MAX")
    except (OSError, ValueError, AttributeError):
        return LONGEST
