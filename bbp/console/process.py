"""This process as a program: the streams it finds, its end at Ctrl-C, SIGTERM and SIGHUP, and the memory that it keeps.

Raising from a handler while XLA compiles, and leaving the interpreter then, is a segmentation fault; an exception raised
in a garbage-collection callback is lost. So a handler only notes the signal. Work calls `check` between its pieces
(`Progress.advance` does), which raises there, where nothing runs. A process that is one of our programs (`begin`) has a
thread besides, told of signals by the C handler itself (signal.set_wakeup_fd), whatever the main thread is in: it gives the
piece in hand `GRACE` seconds and ends the process by os._exit, which tears nothing down. Whatever files there are then are as
after a SIGKILL, which resumed runs are proof against.

Imports the standard library alone: `begin` comes before a program's seconds of imports.
"""

from __future__ import annotations

import functools
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

# SIGHUP: the terminal or the connection has gone. nohup ignores it, and so do we then.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
WORDS = dict(zip(SIGNALS, ("interrupted", "terminated", "hung up"), strict=False))
GRACE = (
    5.0  # seconds for the piece in hand once its loss would cost something; a unit is made to take about 4
)
NOTICE = 1.0  # seconds after which the wait is told


class Interrupted(KeyboardInterrupt):
    """A signal, with a one-line hint on how to go on. Exit code 128 + number: 130 after Ctrl-C, 143 SIGTERM, 129 SIGHUP."""

    number: int = signal.SIGINT

    @property
    def word(self) -> str:
        """What happened."""
        return WORDS[signal.Signals(self.number)]


class _State:
    """What this process knows of its end. One instance: signals belong to the process."""

    owned = False
    received = 0
    leaving = False  # the main thread has heard of the signal, and will say so itself
    name = "bbp"
    farewell = ""


_state = _State()
_kept: list[Callable[[], str]] = []
_last_words = threading.RLock()  # of the one thread that says them


def is_program() -> bool:
    """Whether bbp is imported by `bbp ...` or `python -m bbp...`, and not by a process that one of these has spawned.

    sys.argv[0] is "-m" only while Python looks for the module that -m names.
    """
    words, name = sys.orig_argv, (getattr(sys, "argv", None) or [""])[0]
    module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    by_name = os.path.basename(name) == "bbp" and name in words
    return by_name or (name == "-m" and module.partition(".")[0] == "bbp")


def begin() -> None:
    """Streams fit for use, and signals answered as a program does, from here until the process ends. Once, main thread."""
    prepare()
    # A notebook's backend, inherited, breaks the import of matplotlib; no window is ever opened here.
    os.environ["MPLBACKEND"] = "agg"
    if _state.owned or threading.current_thread() is not threading.main_thread():
        return
    _state.owned = True
    read, write = os.pipe()
    os.set_blocking(write, False)
    threading.Thread(target=_watch, args=(read,), daemon=True, name="signals").start()
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in _heeded():
        signal.signal(number, _note)


def prepare() -> None:
    """Make the standard streams fit for use; calling it again changes nothing.

    A closed one is opened on nothing, lest the next file opened take its number and its text. Characters that an encoding
    lacks are spelled out: a table must not end a program whose file has landed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # os.open takes the lowest number that is free
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def abandon(name: str) -> None:
    """Point "stdout" or "stderr", whose reader has gone, at nothing, so that its last flush, at the exit, is silent."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, getattr(sys, name).fileno())
    except (OSError, ValueError, AttributeError):  # no file behind it
        setattr(sys, name, os.fdopen(os.dup(nowhere), "w"))
    finally:
        os.close(nowhere)


@contextmanager
def heeded(name: str) -> Iterator[None]:
    """Signals stop the work in this block at its next `check`; a second one at once. In other threads nothing changes.

    name   the program, for messages
    """
    _state.name = name
    if _state.owned or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _note) for number in _heeded()}
    _state.received = 0
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _state.received = 0


def check() -> None:
    """Raise Interrupted if a signal came since. Call it, in the main thread, where stopping loses nothing."""
    if stopping():
        _state.leaving = True
        raise stopped()


def stopping() -> bool:
    """Whether `check` would raise: time to bring in what has been computed, and to begin nothing more."""
    return bool(_state.received) and threading.current_thread() is threading.main_thread()


def stopped(text: str = "") -> Interrupted:
    """The exception of the signal that came."""
    raised = Interrupted(text) if text else Interrupted()
    raised.number = _state.received or signal.SIGINT
    return raised


@contextmanager
def keeping(text: Callable[[], str]) -> Iterator[None]:
    """In this block a piece of work may be worth `GRACE` seconds; `text()` says what is kept if it does not end."""
    _kept.append(text)
    try:
        yield
    finally:
        _kept.remove(text)


@contextmanager
def farewell(text: str) -> Iterator[None]:
    """In this block a signal is the ordinary end, and a program says `text` then, not that it was in error."""
    _state.farewell = text
    try:
        yield
    finally:
        _state.farewell = ""


def claim() -> None:
    """Before last words after a signal: return in the first thread that has some; the other waits for the end."""
    if _state.owned and _state.received:
        _last_words.acquire()


def end(code: int) -> int:
    """The way out of a program: after a signal at once, tearing nothing down; else the exit code, for sys.exit."""
    if _state.owned and _state.received:
        claim()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)
    return code


def _heeded() -> list[signal.Signals]:
    """The signals that are not ignored: a shell ignores SIGINT for what it runs in the background."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def _note(number: int, frame: FrameType | None) -> None:
    if _state.received and not _state.owned:
        raise stopped()
    _state.received = _state.received or number


def _watch(pipe: int) -> None:
    """Wait for a signal; then for the piece in hand to end, for a second signal, or for the time to be over."""
    while not _state.received:
        number = os.read(pipe, 1)[0]
        if number in SIGNALS:
            _state.received = _state.received or number
    if (_kept or _state.leaving) and not select.select([pipe], [], [], NOTICE)[0]:
        word = WORDS[signal.Signals(_state.received)]
        _say(f"{word}: ends in {GRACE:g} s at most, with the piece in hand; again to end at once")
        select.select([pipe], [], [], GRACE - NOTICE)
    claim()
    said = _state.farewell or f"error: {WORDS[signal.Signals(_state.received)]}"
    with suppress(Exception):  # the main thread may be changing what is counted: the end matters more
        if _kept and not _state.farewell:
            said = f"{said}; {_kept[-1]()}"
    _say(said)
    os._exit(128 + _state.received)


def _say(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # its reader has gone, or there never was one
        sys.stderr.write(f"{_state.name}: {text}\n")
        sys.stderr.flush()


# Parameters of mallopt(3), and bytes: the most at the top of the heap that stays, and the least of an array that is mapped
# (the most that malloc takes).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _MAPPED_BYTES = 2**28, 2**25


@functools.cache
def keep_memory() -> bool:
    """Let this process keep what units of work free (glibc's malloc); once. Whether there was anything to be set.

    By default malloc gives memory at the top of its heap back to the system, and maps every array above a size of its own:
    each sample then touches fresh pages, which the kernel fills with zeros first. dask makes its workers return all at once,
    and lost a third of their speed at N = 200. What is kept is what units have needed, at most `_KEPT_BYTES` beyond what is in
    use.

    >>> keep_memory() in (True, False)
    True
    """
    import ctypes  # late: not waited for by what computes nothing

    setting = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    wanted = {_MMAP_THRESHOLD: _MAPPED_BYTES, _TRIM_THRESHOLD: _KEPT_BYTES}
    return setting is not None and all([setting(name, value) for name, value in wanted.items()])
