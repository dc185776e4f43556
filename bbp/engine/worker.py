"""A process that computes the units it is sent and sends back what they gave: the other end of bbp.engine.pool.

It leaves signals to the program: Ctrl-C is blocked from its start on, SIGTERM and SIGHUP, which batch systems and terminals
send to all processes of a job, are ignored, so that none costs the unit in hand. It ends when the program does, however that
ends: the kernel kills it with its parent, and where the kernel does not, the end of the pipe is noticed.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection

from bbp.engine.tasks import compute

PR_SET_PDEATHSIG = 1  # prctl(2)
READY = None  # the first thing that a worker says


def serve(parent: int) -> None:
    """Compute units from stdin, to stdout, until there are no more. Anything that is printed meanwhile goes to stderr.

    parent   the process id of the program that started this one
    """
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    _die_with(parent)
    asked, answers = Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False)
    os.dup2(2, 1)
    units: queue.SimpleQueue = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked, units), daemon=True).start()
    answers.send(READY)
    while True:
        unit = units.get()
        answers.send(unit if isinstance(unit, str) else compute(unit))


def _listen(asked: Connection, units: queue.SimpleQueue) -> None:
    """Pass on the units asked for, or why one cannot be read; at the end of the pipe there is nobody left to compute for."""
    while True:
        try:
            data = asked.recv_bytes()
        except (EOFError, OSError):
            os._exit(0)
        try:
            units.put(pickle.loads(data))
        except Exception as error:
            units.put(f"{type(error).__name__}: {' '.join(str(error).split())}")


def _die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, where it can (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it has ended already
            os._exit(1)
