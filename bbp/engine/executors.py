"""Where units run that do not in this process: processes of this machine, a dask cluster, or a user's executor.

These are a `concurrent.futures.Executor`; `results` is what is done with any. They only compute: the process that
asked stores what comes back. A worker that dies costs the unit it held, which another tries again; a unit that takes TRIES
workers down with it is recorded as failed, and so is one that only workers of another version or random stream have computed.
Whatever else goes wrong outside of units (no workers, a lost scheduler) is no failed sample: the run stops, with what is kept.

Whoever reaches a port of dask can run code there: dask has TLS for that (docs/cluster.md).
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import queue
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

from bbp.console import messages, process
from bbp.console.messages import RunError, log
from bbp.engine import run
from bbp.engine.run import Result, Unit, Work, failure
from theory.checks import ParameterError, shown

PATIENCE = 600.0  # seconds that workers of a scheduler are waited for
LOOK_SECONDS = 1.0  # between looks at signals and workers while no result comes
TRIES = 4  # workers that a unit may take down before it counts as failed: as many as dask allows
WINDOW = 4096  # units that an executor of unknown size holds at once
CONNECT_SECONDS = 30.0  # for a scheduler to answer
# Children take no json.py or theory.py from the current directory, and keep compiled programs, which loky takes for a leak.
_CHILD = {"PYTHONSAFEPATH": "1", "LOKY_MAX_MEMORY_LEAK_SIZE": "1e18"}
_PR_SET_PDEATHSIG = 1  # prctl(2)


@contextmanager
def processes(number: int, compiled: str | None = None, *, gpu_each: bool = False) -> Iterator[Work]:
    """So many processes of this machine, which run units.

    compiled   directory in which JAX keeps compiled programs (bbp.console.messages)
    gpu_each   each has a GPU of its own where there are GPUs; ParameterError with fewer of them
    """
    cards = messages.gpus() if gpu_each else []
    if cards and number > len(cards):
        raise ParameterError(
            f"workers must be at most {len(cards)}, one for each GPU, got {number} (or JAX_PLATFORMS=cpu)"
        )
    with Processes(number, messages.keeping_environment(compiled), cards) as own:
        yield functools.partial(results, own)


def usable(executor: Any) -> Executor:
    """`executor`, or that of a dask Client; ParameterError if it is none, or forks: JAX has threads, and its forks may hang.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> isinstance(usable(ThreadPoolExecutor(1)), Executor)
    True
    """
    if not isinstance(executor, type) and callable(getattr(executor, "get_executor", None)):
        executor = executor.get_executor(pure=False)
    if not isinstance(executor, Executor):
        made = ", not the class: ThreadPoolExecutor(4)" if isinstance(executor, type) else ""
        raise ParameterError(f"executor must be a concurrent.futures.Executor{made}, got {shown(executor)}")
    from concurrent.futures import ProcessPoolExecutor  # late, with all of multiprocessing: --help needs none

    context = getattr(executor, "_mp_context", None)
    if isinstance(executor, ProcessPoolExecutor) and context and context.get_start_method() == "fork":
        raise ParameterError(
            "executor must not fork, JAX has threads: ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))"
        )
    return executor


def results(
    executor: Executor, units: Iterable[Unit], *, watch: Callable[[bool], None] = lambda came: None
) -> Iterator[Result]:
    """Results of `units` in the order in which they finish.

    watch   called with whether something has just come, at least every LOOK_SECONDS; RunError from it ends the run

    After a signal what has been computed is brought in, units in hand have `process.GRACE` seconds, and then it is raised.
    """
    rest, held = iter(units), {}
    arrived: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
    window = getattr(executor, "window", WINDOW)

    def give(unit: Unit, tries: int = 0) -> None:
        try:
            future = executor.submit(run.run_unit, unit)
        except RunError:
            raise
        except RuntimeError as error:
            raise RunError(f"the executor takes no units: {_words(error)}") from None
        held[future] = unit, tries
        future.add_done_callback(arrived.put)

    def fill() -> None:
        if not process.stopping():
            for unit in islice(rest, window - len(held)):
                give(unit)

    end: float | None = None  # of the wait for units in hand, once a signal has come
    try:
        fill()
        while held and (end is None or time.monotonic() < end):
            if process.stopping() and end is None:
                end = time.monotonic() + process.GRACE
                for future in list(held):
                    future.cancel()
            try:
                future = arrived.get(timeout=LOOK_SECONDS if end is None else 0.1)
            except queue.Empty:
                watch(False)
                continue
            watch(True)
            unit, tries = held.pop(future)
            result = _outcome(future, unit, tries + 1)
            if result is None and not process.stopping():
                give(unit, tries + 1)
            fill()  # before the result is stored: nobody waits for the disk
            if result is not None:
                yield result
        process.check()
    finally:
        for future in held:
            future.cancel()


def _outcome(future: Future[Result], unit: Unit, tries: int) -> Result | None:
    """What a future has brought after so many tries of its unit; None to try again. RunError for what is no sample's fault."""
    last = tries >= TRIES
    try:
        result = future.result(timeout=0)
    except CancelledError:
        if process.stopping():
            return None
        raise RunError("units were cancelled: the scheduler, or the executor, is lost") from None
    except BrokenExecutor as error:
        if type(error).__name__ != "TerminatedWorkerError":
            raise RunError(f"processes cannot run a unit: {_words(error.__cause__ or error)}") from None
        if not process.stopping():
            code = re.search(r"\{(.*)\}", str(error))
            log.warning("a process died%s: another takes its place", f" ({code[1]})" if code else "")
        return failure(unit, f"each of the {TRIES} processes that tried it died") if last else None
    except Exception as error:
        if type(error).__name__ == "KilledWorker":  # dask's, after as many tries
            return failure(unit, f"each of the workers that tried it died: {_words(error)}")
        raise RunError(f"workers cannot run a unit: {type(error).__name__}: {_words(error)}") from None
    if not isinstance(result, Result):
        raise RunError(f"the executor gives {type(result).__name__} where a unit's result is due")
    if (result.point, result.first, result.count) != (unit.point, unit.first, unit.count):
        # Its samples are there already, and those of this unit would be asked for without end.
        raise RunError("the executor gives the result of another unit than it was asked for")
    foreign = _foreign(result, unit)
    if not foreign:
        return result
    log.warning("a result is refused: %s", foreign)
    return (
        failure(unit, f"refused from each of the {TRIES} workers that tried it: {foreign}") if last else None
    )


def _foreign(result: Result, unit: Unit) -> str:
    """What makes a result one of another program than this: its version or its random stream; nothing where both are ours."""
    ours, theirs = unit.computation.made(), getattr(result, "made", {})
    apart = [
        f"{name} {theirs.get(name, 'unknown')} there, {ours[name]} here"
        for name in ("bbp", "stream")
        if name in ours and theirs.get(name) != ours[name]
    ]
    return f"{result.host} has {', '.join(apart)}" if apart else ""


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[-400:] or type(error).__name__


class Processes(Executor):
    """Processes of this machine, one core each and one unit at a time. One that dies is replaced; the others go on.

    Each is a loky executor of its own: one that is broken breaks no other. They are fresh interpreters (never a fork: JAX has
    threads) with this one's sys.path, and end with this process, whatever ends it.
    """

    def __init__(
        self,
        number: int,
        environment: Mapping[str, str] | None = None,
        gpus: Iterable[str] = (),
        *,
        one_core: bool = True,
    ):
        """Start `number` processes with more variables in their `environment`; `gpus` gives each one of these."""
        from sims.machine import ONE_CORE  # late: it brings JAX

        common = (ONE_CORE if one_core else {}) | _CHILD | dict(environment or {})
        own = [{"CUDA_VISIBLE_DEVICES": name} for name in gpus] or [{}] * number
        self.window = number
        self._each = [_Process(common | each) for each in own[:number]]

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Give the call to the process that holds least; RunError if one cannot be started."""
        least = min(self._each, key=lambda each: sum(not future.done() for future in each.held))
        return least.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """End the processes at once, whatever they hold."""
        for each in self._each:
            each.executor.shutdown(wait=True, kill_workers=True)


class _Process:
    """A process that is replaced by another when it dies, and the calls that it holds."""

    def __init__(self, environment: Mapping[str, str]):
        self.environment = dict(environment)
        self.start()

    def start(self) -> None:
        """Start it."""
        from loky import ProcessPoolExecutor  # late: most runs need none

        try:
            with _starting():
                self.executor = ProcessPoolExecutor(
                    1, env=self.environment, initializer=_begin, initargs=(os.getpid(),)
                )
                self.ready = self.executor.submit(os.getpid)
        except OSError as error:
            raise RunError(f"cannot start a process: {error.strerror}") from None
        self.held: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Give it a call, after a start where it has died."""
        try:
            future = self.executor.submit(fn, *args, **kwargs)
        except BrokenExecutor:
            if why := self.ready.exception():
                raise RunError(f"a process ended before it was ready: {_words(why)}") from None
            self.executor.shutdown(wait=True, kill_workers=True)
            self.start()
            future = self.executor.submit(fn, *args, **kwargs)
        self.held = [*(held for held in self.held if not held.done()), future]
        return future


@contextmanager
def _starting() -> Iterator[None]:
    """What starts in this block takes no module of the current directory, and hears no Ctrl-C, which is for the program."""
    # loky has a helper process, which inherits these; it removes what a program that leaves at once leaves, in silence.
    warnings = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker"]))
    more = _CHILD | {"PYTHONWARNINGS": warnings}
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    masked = hasattr(signal, "pthread_sigmask")  # not on Windows
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masked else set()
    try:
        yield
    finally:
        if masked:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _begin(parent: int) -> None:
    """In a process that starts: signals and stdout are for the program, and it ends with its parent."""
    messages.heed_jax(tell=False)
    os.dup2(2, 1)
    for number in process.SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it has ended already
            os._exit(1)


@contextmanager
def dask(address: str, patience: float) -> Iterator[Work]:
    """The workers of the dask scheduler at this address, which run units.

    patience   seconds without any worker after which the run ends

    ParameterError without dask, or for no address; RunError if the scheduler does not answer.
    """
    try:
        from dask.distributed import Client
    except ModuleNotFoundError as error:
        raise ParameterError(f"--scheduler needs {error.name}: pip install 'hessian-bbp[cluster]'") from None
    for name in ("distributed", "tornado", "asyncio"):  # they tell in tracebacks what is told here in a line
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [logging.NullHandler()], False
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except ValueError as error:
        raise ParameterError(
            f"scheduler must be an address like tcp://host:8786, got {address!r}: {_words(error)}"
        ) from None
    except Exception as error:
        raise RunError(f"cannot reach a dask scheduler at {address!r}: {_words(error)}") from None
    log.info("scheduler %s has %d workers", address, len(client.scheduler_info()["workers"]))
    try:
        cluster = client.get_executor(pure=False)
        yield functools.partial(results, cluster, watch=watched(client, patience))
    finally:
        with suppress(Exception):  # the scheduler may have gone
            client.close(timeout=LOOK_SECONDS)


def watched(client: Any, patience: float) -> Callable[[bool], None]:
    """What asks a scheduler for its workers while no result comes; RunError from it if the scheduler is lost, or none works
    for `patience` seconds."""
    since: float | None = None  # when there was none

    def watch(came: bool) -> None:
        nonlocal since
        workers = [] if came else _workers(client)
        if came or any(worker.get("status") != "paused" for worker in workers):
            since = None
            return
        words = "there is no worker"
        if workers:  # dask pauses those that have filled four fifths of their memory
            limit = max(worker.get("memory_limit") or 0 for worker in workers) / 1e6
            words = f"every worker is paused for want of memory (limit {limit:.0f} MB: --memory-limit of dask worker)"
        if since is None:
            since = time.monotonic()
            log.warning("%s: the run ends if that lasts %.0f s", words, patience)
        elif time.monotonic() - since > patience:
            raise RunError(f"{words}, for {patience:.0f} s")

    return watch


def _workers(client: Any) -> list[dict[str, Any]]:
    try:
        ask = client.scheduler.identity
        return list(client.sync(ask, callback_timeout=CONNECT_SECONDS)["workers"].values())
    except Exception as error:
        raise RunError(f"the dask scheduler is lost ({type(error).__name__})") from None
