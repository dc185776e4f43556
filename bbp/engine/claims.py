"""Locks made of files alone, for file systems without flock: who holds one is written in it, and is asked whether it lives.

    NAME                  the exclusive holder
    NAME.shared-TOKEN     a shared holder
    NAME.claim-HASH       who removes the exclusive lock of that content, whose holder is gone: one of many that try

An exclusive holder creates its file, then looks for shared ones; a shared one creates its file, then looks for the
exclusive one: of two at once at least one sees the other. Every file is created whole, under its name, by one process.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbp.console.errors import FileError
from bbp.files import atomic
from bbp.files.regular import read_regular

LONGEST = 4096  # bytes of a lock file
EMPTY_SECONDS = 10.0  # for which an empty one may be in the making, where there are no hard links
_HEAD = b'{"bbp": "lock"'


@dataclass
class Claim:
    """A lock held by the file at `path`, of this content."""

    path: Path
    content: bytes

    def release(self) -> None:
        """Remove the file, if it is still this one."""
        if _content(self.path) == self.content:
            self.path.unlink(missing_ok=True)


def claim(path: Path, what: str, *, shared: bool = False) -> Claim | None:
    """The lock at `path`, or None to try again; FileError if another holds it."""
    if shared:
        return _claim_shared(path, what)
    content = signature("file")
    try:
        atomic.create(path, content)
    except FileExistsError:
        _judge(path, what)
        return None
    held = Claim(path, content)
    for other in _shared(path):
        owner = read(other)
        if owner is None:
            continue
        if gone(owner):
            other.unlink(missing_ok=True)
            continue
        held.release()
        raise taken(what, other, owner)
    return held


def signature(by: str) -> bytes:
    """The content of a lock file of this process; `by`: "flock" or "file"."""
    owner = {
        "bbp": "lock",
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "space": _space(),
        "started": _started(os.getpid()),
        "by": by,
        "token": uuid.uuid4().hex,
    }
    return json.dumps(owner).encode()


def is_ours(content: bytes) -> bool:
    """Whether `content` is that of a lock file of this program, perhaps cut short."""
    return content.startswith(_HEAD) or (len(content) < len(_HEAD) and _HEAD.startswith(content))


def read(path: Path) -> dict[str, Any] | None:
    """The owner in the lock file at `path`, {} if it is cut short; None if there is none of ours."""
    content = _content(path)
    if content is None or not is_ours(content):
        return None
    try:
        return json.loads(content)
    except ValueError:
        return {}


def gone(owner: dict[str, Any]) -> bool:
    """Whether the owner ran on this system, in this space of process numbers, and does not run any more."""
    if not owner:
        return True
    if owner.get("host") != socket.gethostname() or owner.get("space") != _space():
        return False
    try:
        pid = int(owner["pid"])
        os.kill(pid, 0)
    except (ProcessLookupError, KeyError, ValueError, TypeError, OverflowError):
        return True
    except PermissionError:
        pass
    return _started(pid) != owner.get("started")


def name(owner: dict[str, Any]) -> str:
    """The owner in words."""
    return f"process {owner.get('pid')} on {owner.get('host')} since {owner.get('since')}"


def taken(what: str, path: Path, owner: dict[str, Any]) -> FileError:
    """The refusal: nobody but the user can tell whether a process of another host lives."""
    return FileError(f"{what!r} is being written by {name(owner)}; if that run is dead, remove {str(path)!r}")


def foreign(path: Path) -> FileError:
    """The refusal of a file with the name of a lock that is not ours."""
    return FileError(
        f"{str(path)!r} is not a lock of bbp, though it has the name of one: move it, or write elsewhere"
    )


def _claim_shared(path: Path, what: str) -> Claim:
    held = Claim(path.with_name(f"{path.name}.shared-{uuid.uuid4().hex[:12]}"), signature("file"))
    atomic.create(held.path, held.content)
    owner = read(path)
    if owner is None and os.path.lexists(path) and read(path) is None and os.path.lexists(path):
        held.release()
        raise foreign(path)
    if owner and not gone(owner):
        held.release()
        raise taken(what, path, owner)
    return held


def _judge(path: Path, what: str) -> None:
    """After finding a file at `path`: FileError if its owner may live, or if it is not ours; else it is removed."""
    content = _content(path)
    if content is None:
        if os.path.lexists(path):
            raise foreign(path)
        return
    if not is_ours(content):
        raise foreign(path)
    owner = read(path) or {}
    if (owner and not gone(owner)) or (not content and _young(path)):
        raise taken(what, path, owner or {"pid": "unknown", "host": "unknown", "since": "just now"})
    _remove(path, content, what)


def _remove(path: Path, content: bytes, what: str) -> None:
    """Remove the lock of this content, whose owner is gone. Whoever creates the claim on it may, and looks again first."""
    mine = signature("file")
    ticket = path.with_name(f"{path.name}.claim-{hashlib.sha256(content).hexdigest()[:12]}")
    try:
        atomic.create(ticket, mine)
    except FileExistsError:
        owner = read(ticket)
        if owner and gone(owner):
            raise taken(what, ticket, owner) from None
        time.sleep(0.01)
        return
    try:
        if _content(path) == content:
            path.unlink(missing_ok=True)
    finally:
        Claim(ticket, mine).release()


def _shared(path: Path) -> list[Path]:
    pattern = re.compile(rf"{re.escape(path.name)}\.shared-[0-9a-f]{{12}}")
    return [other for other in list(path.parent.iterdir()) if pattern.fullmatch(other.name)]


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path, LONGEST, follow=False)
    except FileError:
        return None


def _young(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime < EMPTY_SECONDS
    except OSError:
        return True


def _space() -> str:
    """What a process number is a number in: this boot of this system, and the container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process began, in the kernel's ticks: a process number may have been given to another since."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
