"""Running an experiment: what is there already, what is left, who computes it, and the file at the end."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from bbp.console import messages, process, program
from bbp.console.messages import FileError, RunError, log
from bbp.engine import cache, executors
from bbp.engine.experiment import Execution, Experiment, Pending, canonical, differences, each_model, reasons
from bbp.engine.parts import LOCK, OWNER, Parts
from bbp.engine.tasks import Result, Results, Unit
from bbp.files import dataset, disk
from theory.checks import ParameterError

# What runs units and gives their results; after a signal it gives what it has computed already, and ends as process.check does.
Work = Callable[[Iterable[Unit]], Iterator[Result]]
MOMENT = 0.5  # seconds for which a lock may be held by others who only look


def run(experiment: Experiment, how: Execution) -> Any:
    """Run an experiment and write its file; what is in it, or None from a task, which leaves only its parts.

    A finished file of the same configuration is returned as it is. Raises FileError if the output is taken, of another
    configuration, or cannot be written; RunError if the disk fills up; Interrupted on Ctrl-C. Whatever stops it, the
    output file is either the old one or the complete new one, and finished units are kept.
    """
    disk.prepare_directory(how.out.parent)
    parts = Parts(how.out)
    with _locked(how, parts):
        # Under the lock: nobody writes the file between this look and what follows from it.
        finished = existing(experiment, how)
        if finished is not None:
            return finished
        results = _begin(experiment, how, parts)
        try:
            if not how.merge:
                # Work is worth a wait once it runs, not while workers start.
                with working(how) as work, process.keeping(lambda: _kept(experiment, how, parts, results)):
                    _run_all(experiment, how, results, work, parts)
            return None if how.task else _finish(experiment, how, parts, results)
        except KeyboardInterrupt:
            raise process.stopped(_kept(experiment, how, parts, results)) from None
        except OSError as error:
            kept = _kept(experiment, how, parts, results)
            raise RunError(f"{program.describe(error)}; {kept}") from None
        except RunError as error:
            kept = _kept(experiment, how, parts, results)
            raise error if how.merge else RunError(f"{error}; {kept}") from None
        except ParameterError:
            _kept(experiment, how, parts, results)
            raise


def in_memory(experiment: Experiment, how: Execution | None = None) -> Any:
    """Run an experiment and leave nothing on disk; what its file would hold.

    One that is interrupted is kept until another is: the same experiment then goes on from there.
    """
    how = how or Execution()
    records = canonical([experiment.name, experiment.records()])
    results = _interrupted.pop(records, Results())
    _interrupted.clear()
    try:
        with working(how) as work:
            _run_all(experiment, how, results, work)
    except KeyboardInterrupt:
        if not results.units:
            raise
        _interrupted[records] = results
        kept = f"{results.samples} {experiment.unit_of} are kept in memory"
        raise process.stopped(f"{kept}: the same call goes on from there") from None
    return experiment.assemble(results)


_interrupted: dict[str, Results] = {}


def existing(experiment: Experiment, how: Execution) -> Any:
    """What a finished file of this configuration holds; None if there is work to do; FileError if the name is taken."""
    if how.out.is_dir():
        raise FileError(f"{str(how.out)!r} is a directory, not a file")
    if how.out.is_symlink() and not how.out.exists():
        raise FileError(f"{str(how.out)!r} is a link to nothing")
    if not how.out.exists() or how.force:
        return None
    try:
        found = experiment.load(how.out, how.locking)
    except FileError as error:
        raise FileError(f"{error} (--force replaces it)") from None
    each = each_model(found)
    # Names of the files that were compared are stored too: their contents count.
    records = [{k: v for k, v in dataset.config(one).items() if k != "files"} for one in each]
    finished = all(one.attrs.get("finished", 1) for one in each)
    difference = differences(records, experiment.records(), experiment.defaults)
    if difference:
        raise FileError(
            f"{str(how.out)!r} holds another {experiment.name}: {difference} (--force replaces it)"
        )
    if finished and not (how.retry_failed and reasons(found)):
        return found
    if not Parts(how.out).exist():
        state = f"is {'finished, but' if finished else 'unfinished, and'} its parts are gone"
        raise FileError(f"{str(how.out)!r} {state} (--force starts afresh)")
    return None


@contextmanager
def working(how: Execution) -> Iterator[Work]:
    """What runs units: this process, several, a dask cluster, a given executor. ParameterError without dask, RunError without
    processes."""
    if how.executor is not None:
        given = how.executor
        yield lambda units: executors.results(given, units)
    elif how.scheduler is not None:
        with executors.dask(how.scheduler, how.patience) as (cluster, watch):
            yield lambda units: executors.results(cluster, units, watch)
    elif how.workers is not None or how.processes > 1:
        gpus = executors.gpus() if how.workers is not None else []
        if gpus and how.workers and how.workers > len(gpus):
            raise ParameterError(
                f"workers must be at most {len(gpus)}, one for each GPU, got {how.workers} (or JAX_PLATFORMS=cpu)"
            )
        with (
            executors.Processes(
                how.workers or how.processes, cache.environment(how.cache), gpus
            ) as processes,
        ):
            yield lambda units: executors.results(processes, units)
    else:
        keep_programs(how)
        yield executors.here


def keep_programs(how: Execution) -> None:
    """Let JAX keep compiled programs, if this process has imported it; before the first is compiled, for JAX asks once."""
    jax = sys.modules.get("jax")
    if how.cache is not None and jax is not None:
        for name, value in (cache.SETTINGS | {"jax_compilation_cache_dir": how.cache}).items():
            jax.config.update(name, value)


def _begin(experiment: Experiment, how: Execution, parts: Parts) -> Results:
    """What earlier runs have left, after checking that it may be used."""
    if not how.task:
        # Not by a task: what looks left over may be what another one is writing.
        disk.sweep_leftovers(how.out)
        parts.tidy()
    if how.force and not how.continues:
        parts.discard()
    if how.merge and not parts.exist():
        raise FileError(f"nothing to merge: there is no {str(parts.path)!r}")
    found = parts.exist()
    parts.begin(experiment)
    results = Results(parts.load(experiment, set_aside=not how.task))
    if found and results.units and not how.continues:
        raise FileError(
            f"{str(how.out)!r} has an unfinished run ({results.samples} {experiment.unit_of} in {str(parts.path)!r}):"
            " --resume goes on with it, --force starts afresh"
        )
    if how.retry_failed:
        results.forget_failures()
    return results


def _run_all(
    experiment: Experiment, how: Execution, results: Results, work: Work, parts: Parts | None = None
) -> None:
    """Run all that is pending, round by round, saving each unit as it comes."""
    plan = Pending(experiment, results, how)
    total = results.samples + plan.samples
    with messages.Progress(total, unit=experiment.unit_of, done=results.samples) as progress:
        while plan.samples:
            for result in work(plan):
                if parts is not None:
                    # On disk before it counts as done.
                    parts.save(result, experiment)
                results.add(result)
                last = result.first + result.count - 1
                name = f"{experiment.describe(result.point)}, {experiment.unit_of} {result.first} to {last}"
                log.debug("%s: %.3f s on %s (%s)", name, result.seconds, result.host, result.device)
                progress.count(result.count, name)
            process.check()
            plan = Pending(experiment, results, how)
            progress.grow(plan.samples)


def _finish(experiment: Experiment, how: Execution, parts: Parts, results: Results) -> Any:
    """Write the file; the parts have served then, unless a failed sample may want another try."""
    missing = Pending(experiment, results, Execution())
    if missing.samples and not how.partial:
        point = next(iter(missing)).point
        raise RunError(
            f"{missing.samples} {experiment.unit_of} are missing, the first at {experiment.describe(point)}:"
            " run the missing tasks, or merge with --partial"
        )
    found = experiment.assemble(results)
    # The file is on disk before its parts go.
    experiment.save(how.out, found)
    if not missing.samples and not results.failed:
        parts.discard()
    return found


def _kept(experiment: Experiment, how: Execution, parts: Parts, results: Results) -> str:
    """What a stopped run has left behind, and how to go on."""
    if not results.units and not how.task:
        parts.discard()
        return "no unit was finished, nothing is kept"
    kept = f"{results.samples} {experiment.unit_of} are kept in {str(parts.path)!r}"
    how_to = "the same command" if how.task else "the same command with --resume"
    return f"{kept}: {how_to} goes on from there"


@contextmanager
def _locked(how: Execution, parts: Parts) -> Iterator[None]:
    """The whole output for one run; for a task its own number, beside other tasks. FileError if another has it.

    Locks lie among the parts. A task holds its own and looks whether the run's is free; a run holds its own and looks whether
    those of tasks are: of two at once at least one sees the other.
    """
    whole, mine, what = parts.path / LOCK, parts.path / LOCK, str(how.out)
    if how.task:
        number = f"{how.task[0]}-of-{how.task[1]}"
        mine, what = parts.path / f"{number}.lock", f"task {number} of {how.out}"
    with _lock(mine, what):
        if how.task:
            with _lock(whole, str(how.out)):
                pass
        else:
            for other in parts.path.glob("*-of-*.lock"):
                with _lock(other, str(how.out)):
                    pass
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            (parts.path / OWNER).write_text(f"process {os.getpid()} on {socket.gethostname()} since {since}")
        try:
            yield
        finally:
            parts.leave()


@contextmanager
def _lock(path: Path, what: str) -> Iterator[None]:
    if path.parent.exists() and not path.parent.is_dir():
        raise FileError(f"{str(path.parent)!r} is not a directory, which the parts of {what!r} need")
    lock = FileLock(path, timeout=MOMENT)
    try:
        # Its last holder may remove the lock, and its directory, at any moment: it counts if it is there once it is ours.
        while not (lock.is_locked and path.exists()):
            lock.release(force=True)
            with suppress(FileNotFoundError, FileExistsError):
                path.parent.mkdir(parents=True, exist_ok=True)
                lock.acquire()
    except Timeout:
        owner = "another process"
        if path.name == LOCK:
            with suppress(OSError):
                owner = (path.parent / OWNER).read_text()[:200]
        raise FileError(f"{what!r} is being written by {owner}: wait for it, or stop it") from None
    try:
        yield
    finally:
        lock.release()
