"""One run on one output: a lock file with its owner's pid and host, released by the kernel when the owner dies.

The lock is flock(2), so a killed run leaves a file but no lock, and the next run takes it over. Where the file system
has no flock, the file itself is the lock (created exclusively), stale when its owner ran on this host and is gone.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from bbp.console.errors import FileError

try:
    import fcntl
except ImportError:  # not a POSIX system: the lock file alone has to do
    fcntl = None  # type: ignore[assignment]

_NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


class Lock:
    """Context manager holding `path`; shared holders exclude only exclusive ones. FileError if it is taken.

    what    how messages name the thing locked, for instance "results/sweep.h5"
    """

    def __init__(self, path: Path, what: str, *, shared: bool = False):
        self.path, self.what, self.shared = path, what, shared
        self._handle: int | None = None

    def __enter__(self) -> Lock:
        while self._handle is None:
            self._handle = self._try()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            # Unlinked while still held: whoever opened the old file finds it gone from its name and tries again.
            if not self.shared:
                self.path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None

    def _try(self) -> int | None:
        """A handle that holds the lock; None to try again."""
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            works = _flock(handle, shared=self.shared)
            if works and _same(handle, self.path):
                return self._signed(handle)
        except BlockingIOError:
            os.close(handle)
            raise self._taken() from None
        os.close(handle)
        return None if works else self._exclusively()

    def _exclusively(self) -> int | None:
        """The lock by exclusive creation of the file, where flock does not work; shared holders then hold nothing."""
        if self.shared:
            return os.open(os.devnull, os.O_RDONLY)
        owner = self._owner()
        if owner and not _gone(owner):
            raise self._taken()
        self.path.unlink(missing_ok=True)
        try:
            return self._signed(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            return None

    def _signed(self, handle: int) -> int:
        """The handle, after writing into the file who holds it."""
        owner = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        if self.shared:
            return handle
        try:
            os.truncate(handle, 0)
            os.pwrite(handle, json.dumps(owner).encode(), 0)
        except OSError:
            self.path.unlink(missing_ok=True)
            os.close(handle)
            raise
        return handle

    def _owner(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _taken(self) -> FileError:
        owner = self._owner()
        who = f"process {owner.get('pid')} on {owner.get('host')}" if owner else "other tasks"
        since = f" since {owner['since']}" if "since" in owner else ""
        return FileError(
            f"{self.what!r} is being written by {who}{since}; if that run is dead, remove {str(self.path)!r}"
        )


def _flock(handle: int, *, shared: bool) -> bool:
    """Take the lock without waiting (BlockingIOError if held); False where there is no flock."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_FLOCK:
            return False
        raise
    return True


def _same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _gone(owner: dict[str, Any]) -> bool:
    if owner.get("host") != socket.gethostname():
        return False
    try:
        os.kill(int(owner["pid"]), 0)
    except (ProcessLookupError, KeyError, ValueError):
        return True
    except PermissionError:
        pass
    return False
