"""What a program says while it works: messages, and how far it has come."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from bbp.console import signals, streams
from bbp.console.streams import plain

SPARSE_SECONDS = 30.0

log = logging.getLogger("bbp")


@contextmanager
def messages(prog: str, *, quiet: bool = False, verbose: bool = False) -> Iterator[None]:
    """Send the logger "bbp" to stderr, each message after the program's name, for the length of the block."""
    handler = _Stderr()
    handler.setFormatter(logging.Formatter(f"{prog}: %(message)s"))
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]


class Progress:
    """A bar on a terminal and in a notebook; elsewhere a plain line at most every `SPARSE_SECONDS`; nothing when quiet.

    Use as a context manager; `advance(n, note)` after each piece of work, which also stops the work if a signal has come
    (`signals.check`); `grow(n)` when more work appears.
    """

    def __init__(self, total: int, *, unit: str, done: int = 0):
        self.total, self.done, self.unit = total, done, unit
        self._start = self._last = time.monotonic()
        self._first = done
        self._shown = log.isEnabledFor(logging.INFO)
        self._bar = None
        if self._shown and (sys.stderr.isatty() or _in_a_notebook()):
            self._bar = tqdm(total=total, initial=done, unit=unit, file=STDERR, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        signals.check()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def grow(self, n: int) -> None:
        """Expect `n` more pieces of work."""
        self.total += n
        if self._bar is not None:
            self._bar.total = self.total
            self._bar.refresh()

    def advance(self, n: int = 1, note: str = "") -> None:
        """`n` pieces are done and kept; raises Interrupted if a signal has come."""
        self.count(n, note)
        signals.check()

    def count(self, n: int = 1, note: str = "") -> None:
        """`n` pieces are done; more of them may be there already, so that a signal has to wait."""
        self.done += n
        if self._bar is not None:
            self._bar.set_postfix_str(plain(note), refresh=False)
            self._bar.update(n)
        elif self._shown and time.monotonic() - self._last >= SPARSE_SECONDS:
            self._last = time.monotonic()
            log.info(self._line(note))

    def _line(self, note: str) -> str:
        rate = (time.monotonic() - self._start) / max(self.done - self._first, 1)
        left = duration(rate * (self.total - self.done))
        return f"{self.done}/{self.total} {self.unit}, about {left} left{', ' + note if note else ''}"


def _in_a_notebook() -> bool:
    """Whether this is a kernel of Jupyter's, whose stderr is no terminal but shows a bar as one does."""
    kernel = sys.modules.get("ipykernel.zmqshell")
    return kernel is not None and kernel.ZMQInteractiveShell.initialized()


def duration(seconds: float) -> str:
    """Seconds in words: "0.4 s", "12 s", "3 min 20 s", "5 h 10 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


class Forgiving:
    """sys.stderr, whatever that is now, for messages that must not end the work because their reader has gone."""

    def write(self, text: str) -> int:
        """Write `text`; where that fails, stderr is nowhere from then on."""
        try:
            sys.stderr.write(text)
        except (OSError, ValueError):
            streams.abandon("stderr")
        return len(text)

    def flush(self) -> None:
        """Flush, or give up on stderr as `write` does."""
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            streams.abandon("stderr")

    def __getattr__(self, name: str) -> object:
        return getattr(sys.stderr, name)


STDERR = Forgiving()  # one, by which tqdm knows that bar and messages share a stream


class _Stderr(logging.StreamHandler):
    """Writes to whatever sys.stderr is now, through tqdm so that a bar is not torn."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(plain(self.format(record)), file=STDERR)
