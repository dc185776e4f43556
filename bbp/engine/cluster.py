"""Units on many processes or machines, by dask.distributed (the optional extra `cluster`).

Workers only compute; the process that asked stores what they send. A worker that dies costs the units it held, which
dask gives to others; a unit that takes several workers down with it is recorded as failed. A scheduler that is lost, or
workers that are gone for good, are no failed samples: the run stops with what is kept.

Whoever reaches a port of dask can run code there. Local workers, their nannies and their HTTP servers listen on the
loopback only; for a scheduler elsewhere dask has TLS (docs/cluster.md).
"""

from __future__ import annotations

import logging
import multiprocessing.util
import os
import queue
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from dask.distributed import Client, Future, KilledWorker, Nanny, Scheduler, SpecCluster

from bbp.console import signals
from bbp.console.errors import RunError
from bbp.console.progress import log
from bbp.engine import cache as kept_programs
from bbp.engine.devices import gpus
from bbp.engine.tasks import Result, Unit, compute, failure
from sims.cores import ONE_CORE
from theory.checks import ParameterError

try:
    import resource
except ImportError:  # not a POSIX system: no such limit
    resource = None  # type: ignore[assignment]

CONNECT_SECONDS = 30
LOOPBACK = "127.0.0.1"
LOOK_SECONDS = 1.0  # between looks at the workers while no result comes
ALONE_SECONDS = {"local": 60.0, "elsewhere": 600.0}  # without any worker, after which a run ends
FILES, FILES_A_WORKER = 100, 20  # descriptors that this process needs


@contextmanager
def pool(
    workers: int | None, scheduler: str | None, cache: str | None = None
) -> Iterator[Callable[[Sequence[Unit]], Iterator[Result]]]:
    """A function that runs units on `workers` local processes, or on the cluster of the scheduler at this address.

    cache   directory in which local workers keep compiled programs

    RunError if the scheduler cannot be reached or the workers not be started, and, from the function, if they are lost.
    """
    _hush()
    if scheduler is not None:
        with _connect(scheduler) as client:
            yield lambda units: run(client, units, patience=ALONE_SECONDS["elsewhere"])
        return
    with _started(workers or 1, cache) as cluster, Client(cluster) as client:
        yield lambda units: run(client, units, patience=ALONE_SECONDS["local"])


def run(
    client: Client, units: Sequence[Unit], *, patience: float = ALONE_SECONDS["local"]
) -> Iterator[Result]:
    """Results of `units` in the order in which they finish; RunError if scheduler or workers are gone for good.

    patience   seconds without any worker after which they are
    """
    arrived: queue.SimpleQueue[Future] = queue.SimpleQueue()
    futures = {client.submit(compute, unit, pure=False): unit for unit in units}
    for future in futures:
        future.add_done_callback(arrived.put)
    watch = _Watch(client, patience)
    try:
        while futures:
            try:
                future = arrived.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                signals.check()
                watch.look()
                continue
            # After a signal no more than what has arrived by then.
            more = arrived.qsize() if signals.stopping() else None
            yield _result(future, futures.pop(future))
            future.release()
            for _ in range(more or 0):
                future = arrived.get()
                yield _result(future, futures.pop(future))
            if more is not None:
                signals.check()
    finally:
        if client.status == "running":
            with suppress(Exception):  # the scheduler may go at this very moment
                client.cancel(list(futures))


class _Watch:
    """How many workers there are, told when it changes; RunError when there are none for too long."""

    def __init__(self, client: Client, patience: float):
        self.client, self.patience = client, patience
        self.workers, self.since = -1, time.monotonic()

    def look(self) -> None:
        """Ask the scheduler; RunError if it does not answer, or has had no worker for `patience` seconds."""
        try:
            ask: Any = self.client.scheduler
            workers = len(self.client.sync(ask.ncores, callback_timeout=CONNECT_SECONDS))
        except Exception as error:
            raise RunError(f"the dask scheduler is lost ({type(error).__name__})") from None
        if workers != self.workers and self.workers >= 0 and workers:
            log.info("%d workers", workers)
        if workers == 0 and self.workers != 0:
            self.since = time.monotonic()
            log.warning("there is no worker: the run ends if none comes within %.0f s", self.patience)
        self.workers = workers
        if workers == 0 and time.monotonic() - self.since > self.patience:
            raise RunError(f"there was no worker for {self.patience:.0f} s")


@contextmanager
def _started(workers: int, cache: str | None) -> Iterator[SpecCluster]:
    """The running local cluster; RunError, in a line, if it cannot be started."""
    _need_files(workers)
    # Started here: it would unblock SIGINT in the thread that starts it.
    resource_tracker.ensure_running()
    with (
        signals.cleaned(_release_semaphores),
        tempfile.TemporaryDirectory(prefix="bbp-dask-", ignore_cleanup_errors=True) as scratch,
        signals.cleaned(lambda: shutil.rmtree(scratch, ignore_errors=True)),
    ):
        try:
            with signals.deaf():
                cluster = local(workers, cache, scratch)
        except (ParameterError, KeyboardInterrupt):
            raise
        except Exception as error:
            words = " ".join(str(error).split()) or type(error).__name__
            raise RunError(f"cannot start {workers} workers: {words}") from None
        with cluster:
            try:
                yield cluster
            except BaseException:
                _kill(cluster)
                raise


def _kill(cluster: SpecCluster) -> None:
    """End the worker processes at once: what they compute is not wanted any more, and closing would wait for it."""
    for nanny in cluster.workers.values():
        with suppress(OSError, AttributeError, TypeError):  # one that is just ending, or just starting
            os.kill(nanny.pid, signal.SIGKILL)


def _release_semaphores() -> None:
    """What multiprocessing does at an exit, for one by os._exit: else its tracker outlives it, to complain of semaphores.

    Processes that are just starting go first: they would miss the semaphores, in tracebacks.
    """
    with suppress(OSError):
        for listed in Path("/proc/self/task").glob("*/children"):
            for pid in listed.read_text().split():
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(int(pid), signal.SIGKILL)
    multiprocessing.util._run_finalizers()  # type: ignore[attr-defined]


def _hush() -> None:
    """Silence loggers that tell in tracebacks what is told here in a line; their children have levels of their own."""
    for name in ("distributed", "tornado", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [logging.NullHandler()], False


def _need_files(workers: int) -> None:
    """Raise the limit on open files as far as `workers` processes need and the system lets us; RunError where it does not."""
    if resource is None:
        return
    need = FILES + FILES_A_WORKER * workers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= need:
        return
    if hard != resource.RLIM_INFINITY and hard < need:
        raise RunError(f"{workers} workers need about {need} open files, the limit is {hard} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))


def local(workers: int, cache: str | None = None, scratch: str | None = None) -> SpecCluster:
    """Processes on this machine, one thread each; with GPUs, one GPU each (ParameterError for more workers)."""
    devices = gpus()
    if devices and workers > len(devices):
        raise ParameterError(
            f"workers must be at most {len(devices)}, one for each GPU, got {workers}"
            " (JAX_PLATFORMS=cpu leaves the GPUs alone)"
        )
    kept = kept_programs.environment(cache)
    near: dict[str, Any] = {"host": LOOPBACK, "dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
    return SpecCluster(
        scheduler={"cls": Scheduler, "options": near | {"port": 0}},
        workers={
            index: {
                "cls": Nanny,
                "options": near
                | {
                    "nthreads": 1,
                    "memory_limit": 0,
                    "local_directory": scratch,
                    "silence_logs": logging.CRITICAL,
                    "env": ONE_CORE | kept | ({"CUDA_VISIBLE_DEVICES": devices[index]} if devices else {}),
                },
            }
            for index in range(workers)
        },
        silence_logs=logging.CRITICAL,
    )


def _connect(address: str) -> Client:
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except ValueError as error:
        raise ParameterError(
            f"scheduler must be an address like tcp://host:8786, got {address!r}: {error}"
        ) from None
    except (OSError, TimeoutError) as error:
        raise RunError(f"cannot reach a dask scheduler at {address!r}: {error}") from None
    log.info("scheduler %s has %d workers", address, len(client.scheduler_info()["workers"]))
    return client


def _result(future: Future, unit: Unit) -> Result:
    """What a future has brought. `compute` raises nothing, so only a unit that kills workers has failed of itself."""
    try:
        return future.result(timeout=CONNECT_SECONDS)
    except KilledWorker as error:
        return failure(unit, f"each of the {error.allowed_failures + 1} workers that tried it died")
    except Exception as error:
        if future.status in ("cancelled", "lost") or isinstance(error, OSError | TimeoutError):
            raise RunError("the dask scheduler is lost") from None
        words = " ".join(str(error).split())
        raise RunError(f"workers cannot run a unit: {type(error).__name__}: {words}") from None
