"""Units side by side on the cores of this machine: one process a core, one thread a process, nothing beyond Python.

Small matrices waste cores on BLAS threads; samples are independent. Workers are fresh interpreters (never a fork: JAX
has threads), with the number of BLAS threads in their environment before NumPy is imported. They only compute; this process
hands out units and stores what comes back. A worker that dies costs the unit it held, which another tries again; a unit
that takes `TRIES` workers down with it is recorded as failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait

from bbp.console import signals
from bbp.console.errors import RunError
from bbp.console.progress import log
from bbp.engine import cache as kept_programs
from bbp.engine.tasks import Result, failure
from bbp.engine.unit import Unit
from sims.cores import ONE_CORE

LOOK_SECONDS = 0.2  # between looks at signals while no result comes
TRIES = 4  # workers that a unit may take down before it counts as failed: as many as dask allows
START = "import sys; sys.path[:] = sys.argv[2:]; from bbp.engine.worker import serve; serve(int(sys.argv[1]))"


@contextmanager
def pool(processes: int, cache: str | None = None) -> Iterator[Callable[[Iterable[Unit]], Iterator[Result]]]:
    """A function that runs units on `processes` local processes; they end with the block.

    cache   directory in which they keep compiled programs

    RunError if they do not start, and, from the function, if none can be replaced.
    """
    workers: list[WorkerProcess] = []

    def end() -> None:
        for worker in workers:
            worker.kill()

    with signals.cleaned(end):
        try:
            environment = {**os.environ, **ONE_CORE, **kept_programs.environment(cache)}
            for _ in range(processes):
                workers.append(WorkerProcess(environment))
            yield lambda units: run(workers, environment, iter(units))
        finally:
            end()
            for worker in workers:
                worker.close()


class WorkerProcess:
    """A process, the pipes to it, and the unit it holds."""

    def __init__(self, environment: dict[str, str]):
        with signals.deaf():
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-c", START, str(os.getpid()), *sys.path],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environment,
                )
            except OSError as error:
                raise RunError(f"cannot start a process: {error.strerror}") from None
        assert self.process.stdin is not None and self.process.stdout is not None
        self.asks = Connection(os.dup(self.process.stdin.fileno()), readable=False)
        self.answers = Connection(os.dup(self.process.stdout.fileno()), writable=False)
        self.process.stdin.close()
        self.process.stdout.close()
        self.ready = False
        self.unit: Unit | None = None
        self.tries = 0

    def give(self, unit: Unit, tries: int) -> None:
        """Hand it a unit that has been tried so often."""
        self.unit, self.tries = unit, tries
        with suppress(OSError):  # it has just died: seen where its answer is awaited
            self.asks.send(unit)

    def kill(self) -> None:
        """End it at once: what it computes is not wanted any more."""
        with suppress(OSError):
            self.process.kill()

    def close(self) -> None:
        """Let go of a process that ends."""
        self.asks.close()
        self.answers.close()
        self.process.wait()


def run(workers: list[WorkerProcess], environment: dict[str, str], units: Iterator[Unit]) -> Iterator[Result]:
    """Results of `units` in the order in which they finish; `workers` that die are replaced in the list.

    After a signal the units in hand have `signals.GRACE` seconds; then it is raised (`signals.check`).
    """
    again: list[tuple[Unit, int]] = []

    def supply(worker: WorkerProcess) -> None:
        unit, tries = again.pop() if again else (next(units, None), 0)
        if unit is not None:
            worker.give(unit, tries)

    end: float | None = None  # of the wait for the units in hand, once a signal has come
    while True:
        if signals.stopping():
            end = end or time.monotonic() + signals.GRACE
            if time.monotonic() > end or all(worker.unit is None for worker in workers):
                signals.check()
        else:
            for worker in workers:
                if worker.ready and worker.unit is None:
                    supply(worker)
        awaited = {
            worker.answers: worker for worker in workers if worker.unit is not None or not worker.ready
        }
        if end is None and not again and all(worker.unit is None for worker in workers):
            # Those that are still starting are needed only if there is more.
            unit = next(units, None)
            if unit is None:
                return
            again.append((unit, 0))
        for answers in wait(list(awaited), LOOK_SECONDS):
            worker = awaited[answers]  # type: ignore[index]
            try:
                result = worker.answers.recv()
            except (EOFError, OSError):
                if signals.stopping():  # what it held is lost; the others may have something to give yet
                    worker.unit, worker.ready = None, True
                    continue
                yield from _replaced(workers, worker, environment, again)
                continue
            if not worker.ready:
                worker.ready = True
                continue
            if isinstance(result, str):
                raise RunError(f"processes cannot run a unit: {result}")
            worker.unit = None
            if not signals.stopping():
                supply(worker)  # before the result is stored: nobody waits for the disk
            yield result


def _replaced(
    workers: list[WorkerProcess],
    dead: WorkerProcess,
    environment: dict[str, str],
    again: list[tuple[Unit, int]],
) -> Iterator[Result]:
    """Put a new process in the place of a dead one; its unit goes to `again`, or has failed. RunError if it never started."""
    signals.check()
    dead.kill()
    dead.close()
    if not dead.ready:
        raise RunError(f"a process ended before it was ready (exit code {dead.process.returncode})")
    workers[workers.index(dead)] = WorkerProcess(environment)
    log.warning("a process died (exit code %d): another takes its place", dead.process.returncode)
    if dead.unit is None:
        return
    if dead.tries + 1 < TRIES:
        again.append((dead.unit, dead.tries + 1))
        return
    yield failure(dead.unit, f"each of the {TRIES} processes that tried it died")
