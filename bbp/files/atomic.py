"""Files that land whole or not at all: temporary file beside the target, fsync, rename, fsync of the
directory.
"""

from __future__ import annotations

import glob
import os
import shutil
import uuid
from pathlib import Path

from bbp.console.errors import FileError

SUFFIX = ".tmp"


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step: a reader, or a crash at any moment, sees the old file or the
    new one.

    OSError (disk full, read-only, ...) leaves what was there and no temporary file behind.
    """
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex[:12]}{SUFFIX}"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


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
    """Remove temporary files that killed runs left in `directory` (of the target `name`, or of any)."""
    for path in directory.glob(f".{glob.escape(name)}*{SUFFIX}"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def prepare_directory(directory: Path) -> None:
    """Create `directory` and try a write in it; FileError with the reason if that cannot be done."""
    probe = directory / f".probe.{uuid.uuid4().hex[:12]}{SUFFIX}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        reason = "not a directory" if isinstance(error, FileExistsError) else error.strerror
        raise FileError(f"cannot write in directory {str(directory)!r}: {reason}") from None
