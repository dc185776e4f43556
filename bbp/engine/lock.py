"""One run on one output: a lock file with its owner, released by the kernel when the owner dies.

The lock is flock(2), so a killed run leaves a file but no lock, and the next run takes it over. Where the file system has
no flock, files created exclusively are the lock (`bbp.engine.claims`). A file that is not a lock of this program, whatever
its name, is refused, never written and never removed; a link is not followed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import TracebackType
from typing import Any

from bbp.console import signals
from bbp.console.errors import FileError
from bbp.engine import claims
from bbp.files import atomic
from bbp.files.regular import open_regular

try:
    import fcntl
except ImportError:  # not a POSIX system: the lock file alone has to do
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".bbp.lock"


def lock_path(out: Path, task: str = "") -> Path:
    """Where the lock of the output `out` lies, or of its task "3-of-10"."""
    return out.with_name(f"{out.name}{'.' * bool(task)}{task}{SUFFIX}")


def remove_task_locks(out: Path) -> None:
    """Remove the locks that killed tasks of `out` have left. Only while no task runs: under the lock of the whole output."""
    pattern = re.compile(rf"{re.escape(out.name)}\.[0-9]+-of-[0-9]+{re.escape(SUFFIX)}")
    for path in list(out.parent.iterdir()):
        if pattern.fullmatch(path.name) and claims.read(path) is not None:
            path.unlink(missing_ok=True)


class Lock:
    """Context manager holding `path`; shared holders exclude only exclusive ones. FileError if it is taken.

    what    how messages name the thing locked, for instance "results/sweep.h5"
    """

    def __init__(self, path: Path, what: str, *, shared: bool = False):
        self.path, self.what, self.shared = path, what, shared
        self._handle: int | None = None
        self._claim: claims.Claim | None = None
        self._left: Any = None

    def __enter__(self) -> Lock:
        while self._handle is None and self._claim is None:
            self._try()
        self._left = signals.cleaned(self._release)
        self._left.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._left is not None:
            self._left.__exit__(kind, error, trace)
            self._left = None
        self._release()

    def _release(self) -> None:
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.release()
        handle, self._handle = self._handle, None
        if handle is not None:
            # Unlinked while still held: whoever opened the old file finds it gone from its name and tries again.
            if not self.shared:
                self.path.unlink(missing_ok=True)
            os.close(handle)

    def _try(self) -> None:
        """Take the lock, or leave it to another try; FileError if it is held."""
        if not _has_flock(self.path):
            self._claim = claims.claim(self.path, self.what, shared=self.shared)
            return
        handle = self._opened()
        try:
            _flock(handle, shared=self.shared)
            if not _same(handle, self.path):
                return  # its last holder removed the file between our opening and locking it
            self._refuse_claim()
            if not self.shared:
                os.ftruncate(handle, 0)
                os.pwrite(handle, claims.signature("flock"), 0)
            self._handle, handle = handle, -1
        except BlockingIOError:
            raise self._taken(handle) from None
        except OSError:
            self.path.unlink(missing_ok=True)  # the disk is full: ours is empty
            raise
        finally:
            if handle >= 0:
                os.close(handle)

    def _opened(self) -> int:
        """The lock file, opened; FileError if it is a link, no regular file, or not a lock of this program."""
        try:
            handle = open_regular(self.path, os.O_RDWR | os.O_CREAT, follow=False)
        except FileError as error:
            raise FileError(f"{self.what!r} cannot be locked: {error}") from None
        held = os.pread(handle, claims.LONGEST, 0)
        if held and not claims.is_ours(held):
            os.close(handle)
            raise claims.foreign(self.path)
        return handle

    def _refuse_claim(self) -> None:
        """FileError if a process for which the file system had no flock holds the file."""
        owner = claims.read(self.path)
        if owner and owner.get("by") == "file" and not claims.gone(owner):
            raise claims.taken(self.what, self.path, owner)

    def _taken(self, handle: int) -> FileError:
        """Who holds the lock: the signature is that of the last exclusive holder, who may be gone while tasks share it."""
        if not self.shared and _shared_by_others(handle):
            return FileError(f"{self.what!r} is being written by other tasks: wait for them, or stop them")
        owner = claims.read(self.path) or {}
        if not owner or claims.gone(owner):
            return FileError(f"{self.what!r} is being written by another process that has just begun")
        return FileError(f"{self.what!r} is being written by {claims.name(owner)}: wait for it, or stop it")


def _has_flock(path: Path) -> bool:
    """Whether the file system of `path` has flock(2), tried on a file of our own; whatever the system calls its lack."""
    trial = atomic.temporary(path)
    handle = os.open(trial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):
        return False
    finally:
        trial.unlink(missing_ok=True)
        os.close(handle)
    return True


def _flock(handle: int, *, shared: bool) -> None:
    """Take the lock without waiting; BlockingIOError if it is held."""
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except PermissionError:
        raise BlockingIOError from None


def _shared_by_others(handle: int) -> bool:
    try:
        _flock(handle, shared=True)
    except OSError:
        return False
    return True


def _same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
