"""Running a sweep: what is there already, what is left, who computes it, and the file at the end."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bbp import store
from bbp.console import program, signals
from bbp.console.errors import FileError, RunError
from bbp.console.program import log
from bbp.engine.lock import Lock, lock_path, remove_task_locks
from bbp.engine.parts import Parts
from bbp.engine.tasks import Result, Results, Unit, compute, keep_compiled
from bbp.experiments import assemble, schedule
from bbp.experiments import sweep as config
from bbp.experiments.schedule import Division
from bbp.files import atomic
from bbp.files.hdf5 import Locking
from bbp.store import Sweep
from theory.checks import ParameterError

Executor = Callable[[Sequence[Unit]], Iterable[Result]]


@dataclass(frozen=True)
class Execution:
    """How to run a sweep. None of it changes a number in the file.

    out           the file to write
    division      how the work is cut into units and shared between tasks
    workers       processes of a local dask cluster, or None
    scheduler     address of a dask scheduler, or None
    locking       h5py's switch for reading an existing file
    cache         directory in which JAX keeps compiled programs, or None
    task          run this task's share only, and leave the file to a later merge
    merge         only assemble what tasks have left; partial: even if some of it is missing
    resume        go on from the parts of an unfinished run; retry_failed: and run failed samples again
    force         replace an existing file, and discard parts unless resuming
    """

    out: Path
    division: Division = field(default_factory=Division)
    workers: int | None = None
    scheduler: str | None = None
    locking: Locking = None
    cache: str | None = None
    task: bool = False
    merge: bool = False
    partial: bool = False
    resume: bool = False
    retry_failed: bool = False
    force: bool = False

    @property
    def continues(self) -> bool:
        """Whether parts that are there may be added to."""
        return self.resume or self.retry_failed or self.task or self.merge


def sweep(wanted: config.Config, how: Execution) -> list[Sweep] | None:
    """Run a sweep and write its file; the sweeps in it, or None from a task, which leaves only its parts.

    A finished file of the same configuration is returned as it is. Raises FileError if the output is taken, of another
    configuration, or cannot be written; RunError if the disk fills up; Interrupted on Ctrl-C. Whatever stops it, the
    output file is either the old one or the complete new one, and finished units are kept.
    """
    finished = existing(wanted, how)
    if finished is not None:
        return finished
    atomic.prepare_directory(how.out.parent)
    with _locks(how):
        # Another run may have finished while this one waited for nothing but its own start.
        finished = existing(wanted, how)
        if finished is not None:
            return finished
        parts = Parts(how.out)
        results = _begin(wanted, how, parts)
        try:
            if not how.merge:
                with signals.keeping(lambda: _kept(how, parts, results)), executor(how) as run:
                    _work(wanted, how, parts, results, run)
            return None if how.task else _finish(wanted, how, parts, results)
        except KeyboardInterrupt:
            raise signals.stopped(_kept(how, parts, results)) from None
        except OSError as error:
            raise RunError(f"{program.describe(error)}; {_kept(how, parts, results)}") from None
        except RunError as error:
            kept = _kept(how, parts, results)
            raise error if how.merge else RunError(f"{error}; {kept}") from None
        except ParameterError:
            _kept(how, parts, results)
            raise


def existing(wanted: config.Config, how: Execution) -> list[Sweep] | None:
    """The sweeps of a finished file of this configuration; None if there is work to do; FileError if it is taken."""
    if how.out.is_dir():
        raise FileError(f"{str(how.out)!r} is a directory, not a file")
    if how.out.is_symlink() and not how.out.exists():
        raise FileError(f"{str(how.out)!r} is a link to nothing")
    if not how.out.exists() or how.force:
        return None
    try:
        found = store.load_all(how.out, locking=how.locking)
    except FileError as error:
        raise FileError(f"{error} (--force replaces it)") from None
    difference = config.differences([sweep.config for sweep in found], wanted.records())
    if difference:
        raise FileError(f"{str(how.out)!r} holds another sweep: {difference} (--force replaces it)")
    finished = all(sweep.finished for sweep in found)
    if finished and not how.retry_failed:
        return found
    if not Parts(how.out).exist():
        state = "is finished, but its parts are gone" if finished else "is unfinished, and its parts are gone"
        raise FileError(f"{str(how.out)!r} {state} (--force starts afresh)")
    return None


@contextmanager
def executor(how: Execution) -> Iterator[Executor]:
    """What runs units: this process, or a dask cluster. ParameterError without dask, RunError if it cannot be reached."""
    if how.workers is None and how.scheduler is None:
        if how.cache is not None:
            keep_compiled(how.cache)
        yield lambda units: map(compute, units)
        return
    try:
        cluster = importlib.import_module("bbp.engine.cluster")
    except ModuleNotFoundError as error:
        raise ParameterError(
            f"--workers and --scheduler need {error.name}: pip install 'hessian-bbp[cluster]'"
        ) from None
    with cluster.pool(how.workers, how.scheduler, how.cache) as run:
        yield run


def _begin(wanted: config.Config, how: Execution, parts: Parts) -> Results:
    """What earlier runs have left, after checking that it may be used."""
    if not how.task:
        atomic.sweep_leftovers(how.out.parent, how.out.name)
        parts.tidy()
    if how.force and not how.continues:
        parts.discard()
    if how.merge and not parts.exist():
        raise FileError(f"nothing to merge: there is no {str(parts.path)!r}")
    found = parts.exist()
    parts.begin(wanted.records())
    results = Results(parts.load(set_aside=not how.task))
    if found and results.units and not how.continues:
        raise FileError(
            f"{str(how.out)!r} has an unfinished run ({results.samples} samples in {str(parts.path)!r}):"
            " --resume goes on with it, --force starts afresh"
        )
    if how.retry_failed:
        results.forget_failures()
    return results


def _work(wanted: config.Config, how: Execution, parts: Parts, results: Results, run: Executor) -> None:
    """Run all that is pending, round by round, saving each unit as it comes."""
    units = schedule.pending(wanted, results, how.division)
    total = results.samples + sum(unit.count for unit in units)
    with program.Progress(total, unit="samples", done=results.samples) as progress:
        while units:
            for result in run(units):
                parts.save(result)
                results.add(result)
                log.debug("%s: %.3f s on %s (%s)", _name(result), result.seconds, result.host, result.device)
                progress.advance(result.count, _name(result))
            units = schedule.pending(wanted, results, how.division)
            progress.grow(sum(unit.count for unit in units))


def _name(result: Result) -> str:
    last = result.first + result.count - 1
    return f"N={result.point.n} alpha={result.point.alpha:g} samples {result.first} to {last}"


def _finish(wanted: config.Config, how: Execution, parts: Parts, results: Results) -> list[Sweep]:
    """Write the file; the parts have served then, unless a failed sample may want another try."""
    missing = schedule.pending(wanted, results, Division())
    if missing and not how.partial:
        first = missing[0]
        number = sum(unit.count for unit in missing)
        raise RunError(
            f"{number} samples are missing, the first at n = {first.point.n}, alpha = {first.point.alpha:g}:"
            " run the missing tasks, or merge with --partial"
        )
    sweeps = assemble.sweeps(wanted, results)
    store.save(how.out, sweeps)
    if not missing and not results.failed:
        parts.discard()
        # Locks of tasks that were killed; no task runs now, for this run holds the whole output.
        remove_task_locks(how.out)
    return sweeps


def _kept(how: Execution, parts: Parts, results: Results) -> str:
    """What a stopped run has left behind, and how to go on."""
    if not results.units and not how.task:
        parts.discard()
        return "no unit was finished, nothing is kept"
    kept = f"{results.samples} samples are kept in {str(parts.path)!r}"
    how_to = "the same command" if how.task else "the same command with --resume"
    return f"{kept}: {how_to} goes on from there"


@contextmanager
def _locks(how: Execution) -> Iterator[None]:
    """The whole output for one run; for a task its own number, beside other tasks."""
    whole = lock_path(how.out)
    if not how.task:
        with Lock(whole, str(how.out)):
            yield
        return
    number = f"{how.division.index}-of-{how.division.count}"
    with (
        Lock(whole, str(how.out), shared=True),
        Lock(lock_path(how.out, number), f"task {number} of {how.out}"),
    ):
        yield


def report_failures(sweeps: Sequence[Sweep]) -> int:
    """Log how many samples failed, and why the first did; their number."""
    reasons = [reason for sweep in sweeps for reason in sweep.reason[sweep.status == store.FAILED]]
    if reasons:
        log.error(
            "%d samples failed, the first because: %s (--retry-failed tries again)", len(reasons), reasons[0]
        )
    return len(reasons)
