"""Long work beside the page: one process for each kind of work, one job at a time, progress as it goes, cancel at any time.

The work is a generator of messages in a process (bbp.engine.executors), which is asked for one after another: a job that
is cancelled is not asked for more. A process that does not answer then (it is inside LAPACK) is killed, and replaced.
"""

from __future__ import annotations

import importlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass, field
from typing import Any

from bbp.console.errors import RunError
from bbp.engine.executors import Processes
from theory.checks import NotConverged, ParameterError

Message = dict[str, Any]
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
        self._process: Processes | None = None

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
                except (BrokenExecutor, RunError):
                    self._kill()
                    job.hear(
                        {"kind": "failed", "text": "the process that did this work has ended; try once more"}
                    )
                    job.leave()
            with self._lock:
                if self._jobs.get(job.owner) is job:
                    del self._jobs[job.owner]

    def _run(self, job: Job) -> None:
        if self._process is None:
            self._process = Processes(1, one_core=False)
        answer: Future[Message | None] = self._process.submit(begin, *self._target, job.request)
        stopped: float | None = None
        while True:
            try:
                message = answer.result(timeout=POLL)
            except TimeoutError:
                if job.cancelled.is_set():
                    stopped = stopped or time.monotonic()
                    if time.monotonic() - stopped > self._patience:
                        self._kill()
                        break
                continue
            if message is None:
                break
            job.hear(message)
            answer = self._process.submit(proceed, not job.cancelled.is_set())
        job.leave()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.shutdown()


_work: Iterator[Message] = iter(())  # in the process: what it is asked about


def begin(module: str, function: str, request: Message) -> Message | None:
    """In the process: take up a job; its first message, None if it has none."""
    global _work
    if os.nice(0) < NICE:  # the page itself goes first
        os.nice(NICE - os.nice(0))
    _work = _guarded(getattr(importlib.import_module(module), function), request)
    return proceed(True)


def proceed(wanted: bool) -> Message | None:
    """In the process: the next message of the job, None at its end, or where it is not wanted any more."""
    global _work
    if wanted:
        return next(_work, None)
    _work = iter(())
    return None


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
