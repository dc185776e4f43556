"""SIGTERM, a batch system's notice, as an exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from bbp.console.errors import Terminated


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM stops what runs inside as Ctrl-C does, by raising Terminated; in the main thread, elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
