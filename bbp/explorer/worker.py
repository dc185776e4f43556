"""Long work beside the page: one process for each kind of work, one job at a time, progress as it goes, cancel at any time.

The parent sends a request and reads messages until ("end",). It may send STOP meanwhile: the child leaves its generator at
the next message. A child that does not answer (it is inside LAPACK) is killed, and another takes its place.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from theory.checks import NotConverged, ParameterError

Message = dict[str, Any]
STOP, END = "stop", "end"
POLL = 0.05  # seconds
NICE = 5


@dataclass
class Job:
    """One piece of work. `owner` has at most one job waiting or running in a worker; `tell` gets every message, in
    the worker's thread."""

    owner: object
    request: Message
    tell: Callable[[Message], None]
    cancelled: threading.Event = field(default_factory=threading.Event)
    answered: bool = False

    def hear(self, message: Message) -> None:
        """Pass a message on, unless the owner no longer waits for it."""
        if not self.answered and not self.cancelled.is_set():
            self.answered = message["kind"] != "progress"
            self.tell(message)

    def leave(self) -> None:
        """Tell the owner that the job was cancelled, unless it has its answer."""
        if self.cancelled.is_set() and not self.answered:
            self.answered = True
            self.tell({"kind": "cancelled"})


class Worker:
    """Runs jobs through the generator `function` of `module`, in a child process that starts with the first job.

    patience: seconds that a cancelled job may go on before its process is killed.
    """

    def __init__(self, module: str, function: str, patience: float):
        self._target, self._patience = (module, function), patience
        self._waiting: queue.Queue[Job | None] = queue.Queue()
        self._lock = threading.Lock()
        self._jobs: dict[object, Job] = {}
        self._thread: threading.Thread | None = None
        self._process: Any = None
        self._pipe: Connection | None = None

    def submit(self, job: Job) -> None:
        """Put a job in the queue; an earlier one of the same owner is cancelled."""
        with self._lock:
            before = self._jobs.get(job.owner)
            if before is not None:
                before.cancelled.set()
            self._jobs[job.owner] = job
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, daemon=True)
                self._thread.start()
        self._waiting.put(job)

    def cancel(self, owner: object) -> None:
        """Cancel what the owner has waiting or running; it is told {"kind": "cancelled"}."""
        with self._lock:
            job = self._jobs.get(owner)
        if job is not None:
            job.cancelled.set()

    def close(self) -> None:
        """Cancel everything and end the process."""
        with self._lock:
            for job in self._jobs.values():
                job.cancelled.set()
            thread = self._thread
        if thread is not None:
            self._waiting.put(None)
            thread.join(timeout=self._patience + 2)
        self._kill()

    def _serve(self) -> None:
        while (job := self._waiting.get()) is not None:
            job.leave()
            if not job.answered:
                try:
                    self._run(job)
                except (EOFError, OSError):
                    self._kill()
                    job.hear(
                        {"kind": "failed", "text": "the process that did this work has ended; try once more"}
                    )
                    job.leave()
            with self._lock:
                if self._jobs.get(job.owner) is job:
                    del self._jobs[job.owner]

    def _run(self, job: Job) -> None:
        pipe = self._started()
        pipe.send(job.request)
        stopped: float | None = None
        while True:
            if pipe.poll(POLL):
                message = pipe.recv()
                if message == END:
                    break
                job.hear(message)
            if job.cancelled.is_set() and stopped is None:
                stopped = time.monotonic()
                pipe.send(STOP)
            if stopped is not None and time.monotonic() - stopped > self._patience:
                self._kill()
                break
        job.leave()

    def _started(self) -> Connection:
        if self._process is None or not self._process.is_alive() or self._pipe is None:
            self._kill()
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=serve, args=(other, *self._target), daemon=True)
            self._process.start()
            other.close()
        return self._pipe

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join(timeout=2)
            self._process = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def serve(pipe: Connection, module: str, function: str) -> None:
    """The child: requests in, messages out, until the parent goes."""
    os.nice(NICE)  # the page itself goes first
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    work = getattr(importlib.import_module(module), function)
    while True:
        try:
            request = pipe.recv()
            if request == STOP:  # it came after the end of the job it was meant for
                continue
            for message in _guarded(work, request):
                pipe.send(message)
                if pipe.poll():
                    pipe.recv()
                    break
            pipe.send(END)
        except (EOFError, OSError):
            return


def _guarded(work: Callable[[Message], Any], request: Message) -> Any:
    """The messages of the work; what it raises becomes a last message in words."""
    try:
        yield from work(request)
    except (ParameterError, NotConverged) as error:
        yield {"kind": "failed", "text": str(error)}
    except MemoryError:
        yield {"kind": "failed", "text": "out of memory"}
    except Exception as error:
        yield {"kind": "failed", "text": f"unforeseen {type(error).__name__}: {' '.join(str(error).split())}"}
