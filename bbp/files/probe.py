"""Reading a file that carries no seal in a child process first: there a hang is ended and a crash costs nothing.

One child serves all files of this process, one after another, and ends with it. A file is known by the hash of its bytes,
so the child reads what the parent will, and a file read twice is probed once.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bbp.console.errors import FileError

SECONDS, BYTES_A_SECOND = 20.0, 2e7  # within which a sound file is read, and what a large one has more
START_SECONDS = 60.0  # for Python and h5py on a busy machine
_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from bbp.files import hdf5, probe; probe.serve(hdf5.examine)"

_sound: set[str] = set()
_children: list[subprocess.Popen[bytes]] = []


@atexit.register
def _end_all() -> None:
    """With this process: a child that is left to the interpreter's end is a ResourceWarning."""
    for child in list(_children):
        _end(child)


def failure(path: str | Path, data: bytes) -> str:
    """ "damaged: ..." if the HDF5 file at `path`, whose bytes are `data`, cannot be read to its end in time; else empty."""
    key = hashlib.sha256(data).hexdigest()
    if key in _sound:
        return ""
    child = _child()
    limit = SECONDS + len(data) / BYTES_A_SECOND
    answer = _ask(child, json.dumps([os.path.abspath(path), key]), limit)
    if answer is None:
        ended = child.poll()
        _end(child)
        return f"damaged: reading it {'does not end' if ended is None else 'crashes HDF5'}"
    if not answer:
        _sound.add(key)
    return answer


def describe(error: BaseException) -> str:
    """What an error of reading says of the file: "truncated: ..." or "damaged: ...", in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{'truncated' if 'truncated' in text else 'damaged'}: {text}"


def serve(examine: Callable[[bytes], None]) -> None:
    """The child: a line [path, hash] in, a line out with what is wrong with that file, "" if nothing."""
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        path, key = json.loads(line)
        print(json.dumps(_examined(examine, path, key)), flush=True)


def _examined(examine: Callable[[bytes], None], path: str, key: str) -> str:
    try:
        data = Path(path).read_bytes()
        if hashlib.sha256(data).hexdigest() != key:
            return "damaged: it changes while it is read"
        examine(data)
    except FileError as error:
        return f"damaged: {error}"
    except Exception as error:
        return describe(error)
    return ""


def _child() -> subprocess.Popen[bytes]:
    """The running child, or a new one that is ready."""
    for child in list(_children):
        if child.poll() is None:
            return child
        _end(child)
    # In a group of its own: Ctrl-C is for the parent, whose end ends it.
    child = subprocess.Popen(
        [sys.executable, "-c", _CODE, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    _children.append(child)
    if _line(child, START_SECONDS) is None:
        _end(child)
        raise FileError("cannot be read: no process can be started to read it first")
    return child


def _ask(child: subprocess.Popen[bytes], question: str, limit: float) -> str | None:
    """The child's answer; None if it gives none within `limit` seconds."""
    assert child.stdin is not None
    try:
        child.stdin.write(question.encode() + b"\n")
        child.stdin.flush()
    except BrokenPipeError:
        return None
    return _line(child, limit)


def _line(child: subprocess.Popen[bytes], limit: float) -> str | None:
    assert child.stdout is not None
    until, text = time.monotonic() + limit, b""
    while not text.endswith(b"\n"):
        if not select.select([child.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
            return None
        piece = os.read(child.stdout.fileno(), 2**16)
        if not piece:
            child.wait()
            return None
        text += piece
    return json.loads(text)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.communicate()
    if child in _children:
        _children.remove(child)
