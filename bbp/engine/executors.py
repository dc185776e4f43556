"""Where units run: in this process, in processes of this machine, on a dask cluster, or wherever a given executor runs them.

All but the first are a `concurrent.futures.Executor`; `results` is what is done with any. They only compute: the process that
asked stores what comes back. A worker that dies costs the unit it held, which another tries again; a unit that takes TRIES
workers down with it is recorded as failed, and so is one that only workers of another version or random stream have computed.
Whatever else goes wrong outside of units (no workers, a lost scheduler) is no failed sample: the run stops, with what is kept.

Whoever reaches a port of dask can run code there: dask has TLS for that (docs/cluster.md).
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from bbp.console import messages, process
from bbp.console.messages import RunError, log
from bbp.engine.tasks import Result, Unit, compute, failure, made
from sims.machine import ONE_CORE
from theory.checks import ParameterError, shown

LOOK_SECONDS = 1.0  # between looks at signals and workers while no result comes
TRIES = 4  # workers that a unit may take down before it counts as failed: as many as dask allows
WINDOW = 4096  # units that an executor of unknown size holds at once
CONNECT_SECONDS = 30.0  # for a scheduler to answer
PAUSED_SECONDS = 60.0  # with every worker paused, after which a run ends
RESTARTS = 4  # of each worker, while no result comes, after which it does
# Children take no json.py or theory.py from the current directory, and keep compiled programs, which loky takes for a leak.
_CHILD = {"PYTHONSAFEPATH": "1", "LOKY_MAX_MEMORY_LEAK_SIZE": "1e18"}
_PR_SET_PDEATHSIG = 1  # prctl(2)
_GPU = re.compile(r"[0-9]+|(GPU|MIG)-[0-9a-fA-F/-]+")


def here(units: Iterable[Unit]) -> Iterator[Result]:
    """Run units in this process, until a signal comes."""
    for unit in units:
        process.check()
        yield compute(unit)


def given(executor: Any) -> Executor:
    """`executor`, or that of a dask Client; ParameterError if it is none, or forks: JAX has threads, and its forks may hang.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> isinstance(given(ThreadPoolExecutor(1)), Executor)
    True
    """
    if not isinstance(executor, type) and callable(getattr(executor, "get_executor", None)):
        executor = executor.get_executor(pure=False)
    if not isinstance(executor, Executor):
        made = ", not the class: ThreadPoolExecutor(4)" if isinstance(executor, type) else ""
        raise ParameterError(f"executor must be a concurrent.futures.Executor{made}, got {shown(executor)}")
    context = getattr(executor, "_mp_context", None)
    if isinstance(executor, ProcessPoolExecutor) and context and context.get_start_method() == "fork":
        raise ParameterError(
            "executor must not fork, JAX has threads: ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))"
        )
    return executor


def results(
    executor: Executor, units: Iterable[Unit], watch: Callable[[bool], None] = lambda busy: None
) -> Iterator[Result]:
    """Results of `units` in the order in which they finish.

    watch   called with whether something has just come, at least every LOOK_SECONDS; RunError from it ends the run

    After a signal what has been computed is brought in, units in hand have `process.GRACE` seconds, and then it is raised.
    """
    rest, held = iter(units), {}
    arrived: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
    window = getattr(executor, "window", WINDOW)

    def give(unit: Unit | None, tries: int = 0) -> bool:
        if unit is None:
            return False
        try:
            future = executor.submit(compute, unit)
        except (BrokenExecutor, RuntimeError) as error:
            raise (
                error
                if isinstance(error, RunError)
                else RunError(f"the executor takes no units: {_words(error)}")
            ) from None
        held[future] = unit, tries
        future.add_done_callback(arrived.put)
        return True

    def fill() -> None:
        while len(held) < window and not process.stopping() and give(next(rest, None)):
            pass

    end: float | None = None  # of the wait for units in hand, once a signal has come
    try:
        fill()
        while held:
            if process.stopping() and end is None:
                end = time.monotonic() + process.GRACE
                for future in list(held):
                    future.cancel()
            if end is not None and time.monotonic() > end:
                break
            try:
                future = arrived.get(timeout=LOOK_SECONDS if end is None else 0.1)
            except queue.Empty:
                watch(False)
                continue
            unit, tries = held.pop(future)
            watch(True)
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
    foreign = _foreign(result, unit)
    if not foreign:
        return result
    log.warning("a result is refused: %s", foreign)
    return (
        failure(unit, f"refused from each of the {TRIES} workers that tried it: {foreign}") if last else None
    )


def _foreign(result: Result, unit: Unit) -> str:
    """What makes a result one of another program than this: its version or its random stream; nothing where both are ours."""
    ours, theirs = made(unit), getattr(result, "made", {})
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
    threads) with this one's sys.path, talk through pipes of their own, not stdout, and end with this process, whatever ends it.
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
        common = (ONE_CORE if one_core else {}) | _CHILD | dict(environment or {})
        devices = [{"CUDA_VISIBLE_DEVICES": name} for name in gpus] or [{}] * number
        self.window = number
        self._lanes = [_Lane(common | device) for device in devices[:number]]

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Give the call to the process that holds least; RunError if one cannot be started."""
        return min(self._lanes, key=lambda lane: sum(not future.done() for future in lane.futures)).submit(
            fn, *args, **kwargs
        )

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """End the processes at once, whatever they hold."""
        for lane in self._lanes:
            lane.end()


class _Lane:
    """A process that can be replaced, and what it has been given."""

    def __init__(self, environment: Mapping[str, str]):
        self.environment = dict(environment)
        self.begin()

    def begin(self) -> None:
        """Start a process."""
        loky = importlib.import_module("loky")
        # loky has a helper process, which inherits these; it removes what a program that leaves at once leaves, in silence.
        warnings = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker"]))
        more = _CHILD | {"PYTHONWARNINGS": warnings}
        before = {name: os.environ.get(name) for name in more}
        os.environ.update(more)
        try:
            with _deaf(), _stdout_on_stderr():
                self.executor = loky.ProcessPoolExecutor(
                    1, env=self.environment, initializer=_begin, initargs=(os.getpid(),)
                )
                self.ready = self.executor.submit(os.getpid)
        except OSError as error:
            raise RunError(f"cannot start a process: {error.strerror}") from None
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Give a call to the process, or to another in its place where it has died."""
        try:
            future = self.executor.submit(fn, *args, **kwargs)
        except BrokenExecutor:
            if self.ready.exception() is not None:
                raise RunError(
                    f"a process ended before it was ready: {_words(self.ready.exception())}"
                ) from None
            self.end()
            self.begin()
            future = self.executor.submit(fn, *args, **kwargs)
        self.futures = [*(held for held in self.futures if not held.done()), future]
        return future

    def end(self) -> None:
        """Kill the process."""
        self.executor.shutdown(wait=True, kill_workers=True)


@contextmanager
def _deaf() -> Iterator[None]:
    """Block SIGINT in what this block starts: Ctrl-C at a terminal is for the program alone."""
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _stdout_on_stderr() -> Iterator[None]:
    """What children of this block print goes to stderr, from their first line on: stdout is for results."""
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them is closed
        yield
        return
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _begin(parent: int) -> None:
    """In a process that starts: signals and messages are for the program, and it ends with its parent."""
    messages.heed_jax(tell=False)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it has ended already
            os._exit(1)


@contextmanager
def dask(address: str, patience: float) -> Iterator[tuple[Executor, Callable[[bool], None]]]:
    """The executor of the dask scheduler at this address, and what watches its workers (see `results`).

    patience   seconds without any worker after which the run ends

    ParameterError without dask, or for no address; RunError if the scheduler does not answer.
    """
    try:
        distributed = importlib.import_module("dask.distributed")
    except ModuleNotFoundError as error:
        raise ParameterError(f"--scheduler needs {error.name}: pip install 'hessian-bbp[cluster]'") from None
    for name in ("distributed", "tornado", "asyncio"):  # they tell in tracebacks what is told here in a line
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [logging.NullHandler()], False
    client = _connect(distributed.Client, address)
    try:
        yield client.get_executor(pure=False), _Watch(client, patience)
    finally:
        with suppress(Exception):  # the scheduler may have gone
            client.close(timeout=LOOK_SECONDS)


def _connect(make: Callable[..., Any], address: str) -> Any:
    """A client; in a thread, for a scheduler may accept and say nothing, which no time limit of dask's ends."""
    found: list[Any] = []

    def connect() -> None:
        try:
            found.append(make(address, timeout=CONNECT_SECONDS))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    until = time.monotonic() + CONNECT_SECONDS + 1
    while thread.is_alive() and time.monotonic() < until:
        thread.join(0.1)
        process.check()
    if not found:
        raise RunError(f"cannot reach a dask scheduler at {address!r}: it does not answer as one does")
    client = found[0]
    if isinstance(client, ValueError):
        raise ParameterError(
            f"scheduler must be an address like tcp://host:8786, got {address!r}: {_words(client)}"
        )
    if isinstance(client, BaseException):
        raise RunError(f"cannot reach a dask scheduler at {address!r}: {_words(client)}")
    log.info("scheduler %s has %d workers", address, len(client.scheduler_info()["workers"]))
    return client


class _Watch:
    """How the workers of a scheduler are, told when it changes; RunError when nothing is to be expected of them any more."""

    def __init__(self, client: Any, patience: float):
        self.client, self.patience = client, patience
        self.count = -1
        self.seen: set[str] = set()
        self.since: dict[str, float] = {}  # of each trouble
        self.told: set[str] = set()

    def __call__(self, came: bool) -> None:
        """Ask the scheduler if no result `came`."""
        if came:
            self.since.clear()
            self.seen.clear()
            return
        try:
            workers = self.client.sync(self.client.scheduler.identity, callback_timeout=CONNECT_SECONDS)[
                "workers"
            ]
        except Exception as error:
            raise RunError(f"the dask scheduler is lost ({type(error).__name__})") from None
        if len(workers) > max(self.count, 0) and self.count >= 0:
            log.info("%d workers", len(workers))
        self.count = max(self.count, len(workers))
        paused = [worker for worker in workers.values() if worker.get("status") == "paused"]
        limits = {worker["memory_limit"] for worker in workers.values() if worker.get("memory_limit")}
        limit = ", ".join(f"{number / 1e6:.0f} MB" for number in sorted(limits))
        self._trouble("there is no worker", not workers, self.patience)
        short = f"every worker is paused for want of memory (limit {limit}: --memory-limit of dask worker)"
        self._trouble(short, bool(workers) and len(paused) == len(workers), PAUSED_SECONDS)
        self.seen |= set(workers)
        if len(self.seen) > (RESTARTS + 1) * max(len(workers), 1):
            why = f" (limit of memory {limit}: --memory-limit of dask worker)" if limit else ""
            raise RunError(f"workers end and start again, and no result comes{why}")

    def _trouble(self, words: str, present: bool, patience: float) -> None:
        """Tell of a trouble when it begins; RunError when it has lasted for `patience` seconds."""
        if not present:
            self.since.pop(words, None)
        elif words not in self.since:
            self.since[words] = time.monotonic()
            if words not in self.told:
                log.warning("%s: the run ends if that lasts %.0f s", words, patience)
            self.told.add(words)
        elif time.monotonic() - self.since[words] > patience:
            raise RunError(f"{words}, for {patience:.0f} s")


def device() -> str:
    """The device that JAX computes on, for instance "cpu" or "gpu: NVIDIA H100"."""
    found = importlib.import_module("jax").devices()[0]
    return found.platform if found.device_kind == found.platform else f"{found.platform}: {found.device_kind}"


def gpus() -> list[str]:
    """Names (for CUDA_VISIBLE_DEVICES) of the GPUs this process may use, found without touching them: JAX would claim one.

    CUDA counts the names of that variable up to the first that is none ("NoDevFiles", "-1", nothing), and where there is
    no driver there is no GPU, whatever it says.
    """
    if os.environ.get("JAX_PLATFORMS", "").startswith("cpu") or not messages.driver():
        return []
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        names = [name.strip() for name in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
        return list(takewhile(_GPU.fullmatch, names))
    return [str(index) for index, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]
