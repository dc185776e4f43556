"""Ctrl-C, SIGTERM and SIGHUP: a flag that work looks at between its pieces, and a way out that tears nothing down.

Raising from a handler while XLA compiles, and leaving the interpreter then, is a segmentation fault; an exception raised
in a garbage-collection callback is lost. So a handler only notes the signal. Work calls `check` between its pieces
(`Progress.advance` does), which raises there, where nothing runs. A process that is one of our programs (`own`) has a
thread besides, told of signals by the C handler itself (signal.set_wakeup_fd), whatever the main thread is in: it
gives the piece in hand `GRACE` seconds, removes locks and half-written files, and ends the process by os._exit.
Whatever files there are then are as after a SIGKILL, which resumed runs are proof against.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# SIGHUP: the terminal or the connection has gone. nohup ignores it, and so do we then.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
WORDS = dict(zip(SIGNALS, ("interrupted", "terminated", "hung up"), strict=False))
GRACE = (
    5.0  # seconds for the piece in hand once its loss would cost something; a unit is made to take about 4
)
NOTICE = 1.0  # seconds after which the wait is told
FLUSH = 2.0  # seconds that a blocked stdout or stderr may hold up the end


class Interrupted(KeyboardInterrupt):
    """A signal, with a one-line hint on how to go on. Exit code 128 + number: 130 after Ctrl-C, 143 SIGTERM, 129 SIGHUP."""

    number: int = signal.SIGINT

    @property
    def word(self) -> str:
        """What happened."""
        return WORDS[signal.Signals(self.number)]


class _State:
    """What this process knows of its end. One instance: signals belong to the process."""

    def __init__(self) -> None:
        self.owned = False
        self.received = 0
        self.name = "bbp"
        self.kept: list[Callable[[], str]] = []
        self.cleanups: list[Callable[[], None]] = []
        self.farewell = ""
        self.lock = threading.Lock()
        self.leaver: threading.Thread | None = None


_state = _State()


def own() -> None:
    """Make this process answer signals as a program: from the first import on, and until it ends. Once, main thread."""
    if _state.owned or threading.current_thread() is not threading.main_thread():
        return
    _state.owned = True
    read, write = os.pipe()
    os.set_blocking(write, False)
    threading.Thread(target=_watch, args=(read,), daemon=True, name="signals").start()
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in _heeded():
        signal.signal(number, _note)


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
        raise stopped()


def stopping() -> bool:
    """Whether `check` would raise: time to bring in what has been computed, and to begin nothing more."""
    return bool(_state.received) and threading.current_thread() is threading.main_thread()


def received() -> bool:
    """Whether a signal has come."""
    return bool(_state.received)


def stopped(text: str = "") -> Interrupted:
    """The exception of the signal that came."""
    raised = Interrupted(text) if text else Interrupted()
    raised.number = _state.received or signal.SIGINT
    return raised


@contextmanager
def keeping(text: Callable[[], str]) -> Iterator[None]:
    """In this block a piece of work may be worth `GRACE` seconds; `text()` says what is kept if it does not end."""
    _state.kept.append(text)
    try:
        yield
    finally:
        _state.kept.remove(text)


@contextmanager
def cleaned(action: Callable[[], None]) -> Iterator[None]:
    """In this block, leaving at once calls `action()` first: it removes what should not stay (a lock, half a file)."""
    _state.cleanups.append(action)
    try:
        yield
    finally:
        _state.cleanups.remove(action)


@contextmanager
def farewell(text: str) -> Iterator[None]:
    """In this block a signal is the ordinary end, and a program says `text` then, not that it was in error."""
    _state.farewell = text
    try:
        yield
    finally:
        _state.farewell = ""


@contextmanager
def deaf() -> Iterator[None]:
    """Block SIGINT in what this block starts, threads and their processes: Ctrl-C at a terminal is for the program alone."""
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end(code: int) -> int:
    """The way out of a program: after a signal at once, tearing nothing down; else the exit code, for sys.exit."""
    if _state.owned and _state.received:
        claim()
        _leave(code, "")
    return code


def claim() -> None:
    """Before last words after a signal: return in the thread that is to say them; in the main thread else wait for the end."""
    if _state.owned and _state.received and not _claimed():
        threading.Event().wait()


def _claimed() -> bool:
    """Whether this thread is the first that wants to end the process."""
    with _state.lock:
        _state.leaver = _state.leaver or threading.current_thread()
        return _state.leaver is threading.current_thread()


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
        _heed(os.read(pipe, 1))
    if _state.kept and not select.select([pipe], [], [], NOTICE)[0]:
        _say(f"{_word()}: ends in {GRACE:g} s at most, with the piece in hand; again to end at once")
        select.select([pipe], [], [], GRACE - NOTICE)
    if _claimed():
        said = _state.farewell or "; ".join(filter(None, [f"error: {_word()}", _kept()]))
        _leave(128 + _state.received, said)


def _heed(data: bytes) -> None:
    if data and data[0] in SIGNALS:
        _state.received = _state.received or data[0]


def _word() -> str:
    return WORDS[signal.Signals(_state.received)]


def _kept() -> str:
    try:
        return _state.kept[-1]() if _state.kept else ""
    except Exception:  # the main thread may be changing what is counted: the end matters more
        return ""


def _leave(code: int, text: str) -> None:
    """Clean up, say `text`, end the process; a blocked stream or file system holds it up for `FLUSH` seconds only."""
    last = threading.Thread(target=_last_words, args=(text,), daemon=True)
    last.start()
    last.join(FLUSH)
    os._exit(code)


def _last_words(text: str) -> None:
    for action in reversed(_state.cleanups):
        try:
            action()
        except OSError:
            pass
    if text:
        _say(text)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"{_state.name}: {text}\n")
    except (OSError, ValueError, AttributeError):  # its reader has gone, or there never was one
        pass
