"""The engine: what is there already, what is left, who computes it, and the file at the end.

An experiment (`bbp.experiments.base.Experiment`) says which points there are, how many samples each wants, what decides the
numbers at a point as plain data (its record), and how columns become a file. The engine cuts what is left into units of work,
a block of samples of one point each, has them computed, anywhere and always to the same numbers, and keeps what they gave, as
parts on disk (`bbp.engine.parts`) until the file is written. So a run goes on after whatever stopped it, tasks of a job array
share it, and several processes or machines do (`bbp.engine.executors`).

Which samples are still to run, and how they are cut, is a function of the experiment and of the samples alone: nothing depends
on the order, size or place of units, so a run that stops points early or adds points as it goes gives the same numbers on one
machine or many. Units are made as they are asked for: a plan of 10^9 samples is small.

Imports neither xarray nor h5py: processes that only compute need not wait for them.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bbp.console import messages, process
from bbp.console.messages import FileError, RunError, log
from bbp.engine.parts import Parts, canonical, differences
from bbp.files import disk
from bbp.files.variables import DONE, FAILED
from theory.checks import ParameterError

if TYPE_CHECKING:
    from bbp.experiments.base import Experiment
    from bbp.experiments.columns import Columns, Computation

Point = tuple[Any, ...]  # of str, int and float: hashable, and the same after a trip through JSON
Runs = Iterable[tuple[int, int]]  # (start, stop) of runs of consecutive samples


@dataclass(frozen=True)
class Unit:
    """Samples first .. first + count - 1 of a point, with all that is needed to compute them anywhere.

    record  everything that decides the numbers, as plain data: what the part on disk states, and is checked by
    hints   how to compute, changes no number: `batch`, `threads`
    """

    computation: Computation
    point: Point
    record: Mapping[str, Any]
    first: int
    count: int
    hints: Mapping[str, Any] = field(default_factory=dict)

    @property
    def samples(self) -> range:
        """The indices of its samples."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class Result:
    """What a unit gave: columns by name, each (count, ...) as its `Computation` declares. The rest is provenance.

    made   versions of the packages that computed it, and "stream", the name of the random stream
    """

    point: Point
    first: int
    count: int
    columns: Columns
    seconds: float = 0.0
    host: str = ""
    device: str = ""
    made: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> NDArray[np.int8]:
        """How each sample ended."""
        return self.columns["status"]

    @property
    def reason(self) -> NDArray[Any]:
        """Why each sample failed, or empty."""
        return self.columns["reason"]


def run_unit(unit: Unit) -> Result:
    """Compute one unit, in the process that calls. A sample that fails costs itself."""
    process.keep_memory()
    start = time.perf_counter()
    columns = unit.computation.columns(unit.record, unit.samples, unit.hints)
    seconds = time.perf_counter() - start
    where = socket.gethostname(), unit.computation.device(), unit.computation.made()
    return Result(unit.point, unit.first, unit.count, columns, seconds, *where)


def failure(unit: Unit, reason: str) -> Result:
    """The result of a unit that could not be run at all."""
    columns = unit.computation.failed(unit.record, unit.count, reason)
    return Result(unit.point, unit.first, unit.count, columns)


# What runs units and gives their results; after a signal it gives what it has computed already, and ends as process.check does.
Work = Callable[[Iterable[Unit]], Iterator[Result]]


def here(units: Iterable[Unit]) -> Iterator[Result]:
    """Run units in this process, until a signal comes."""
    for unit in units:
        # Between units: a signal cuts none in half.
        process.check()
        yield run_unit(unit)


class Results:
    """Everything computed so far, by point and sample; a sample computed twice counts once, as done if it ever was.

    units   where and when it was computed, in the order of arrival: results without their columns
    """

    def __init__(self) -> None:
        self.units: list[Result] = []
        self._tables: dict[Point, list[Columns]] = {}  # joined when they are asked for

    def add(self, result: Result, *, failed: bool = True) -> None:
        """Take in what a unit gave; without samples that `failed`, they count as not run and are tried again."""
        table = {"sample": np.arange(result.first, result.first + result.count)} | result.columns
        if not failed:
            table = {name: values[result.status == DONE] for name, values in table.items()}
        self._tables.setdefault(result.point, []).append(table)
        self.units.append(replace(result, columns={}))

    def at(self, point: Point, number: int) -> Columns:
        """Columns, and `sample`, of those of the first `number` samples of a point that were run, in rising order."""
        tables = self._tables.get(point)
        if tables is None:
            return {"sample": np.zeros(0, np.int64), "status": np.zeros(0, np.int8)}
        if len(tables) > 1:
            tables[:] = [_joined(tables)]
        stop = int(np.searchsorted(tables[0]["sample"], number))
        return {name: values[:stop] for name, values in tables[0].items()}

    def done(self, point: Point, number: int, name: str) -> NDArray[Any]:
        """Column `name` of the first `number` samples of a point that did not fail, in order of sample."""
        table = self.at(point, number)
        return table[name][table["status"] == DONE]

    def lacking(self, point: Point, number: int) -> list[tuple[int, int]]:
        """(start, stop) of the runs of the first `number` samples of a point that were not run."""
        ends = np.concatenate([[-1], self.at(point, number)["sample"], [number]])
        return [(int(ends[i]) + 1, int(ends[i + 1])) for i in np.flatnonzero(np.diff(ends) > 1)]

    @property
    def samples(self) -> int:
        """How many samples were run."""
        return len(self._statuses())

    @property
    def failed(self) -> int:
        """How many samples failed."""
        return int((self._statuses() == FAILED).sum())

    def _statuses(self) -> NDArray[np.int8]:
        # Of copies: after a signal another thread asks, while this one may add a unit.
        held = [_joined(list(tables), "sample", "status") for tables in list(self._tables.values())]
        return np.concatenate([np.zeros(0, np.int8), *(table["status"] for table in held)])


def _joined(tables: Sequence[Columns], *names: str) -> Columns:
    """Tables of samples as one, in order of sample: of those that are one sample the first that is done, or the last."""
    shared = names or [name for name in tables[0] if all(name in table for table in tables)]
    found = {name: np.concatenate([table[name] for table in tables]) for name in shared}
    failed, arrival = found["status"] != DONE, np.arange(len(found["sample"]))
    order = np.lexsort((np.where(failed, -arrival, arrival), failed, found["sample"]))
    _, first = np.unique(found["sample"][order], return_index=True)
    return {name: values[order[first]] for name, values in found.items()}


@dataclass
class Run:
    """An experiment, and how it is run, by the names of the options: none of them changes a number in the file.

    out       the file to write; None keeps nothing on disk
    work      what runs the units: this process, unless bbp.engine.executors has them run elsewhere
    parallel  how many it runs at once
    hints     passed on to what computes: `batch`, `threads`
    task      (index, count): run every count-th piece of the work, from the index-th (from 1) on, and leave the file to a later
              merge
    results   what has been computed so far
    """

    experiment: Experiment
    out: Path | None = None
    work: AbstractContextManager[Work] = field(default_factory=lambda: nullcontext(here))
    parallel: int = 1
    hints: Mapping[str, Any] = field(default_factory=dict)
    block: int | None = None
    task: tuple[int, int] | None = None
    locking: bool | str | None = None
    merge: bool = False
    partial: bool = False
    resume: bool = False
    retry_failed: bool = False
    force: bool = False
    results: Results = field(default_factory=Results)

    @property
    def parts(self) -> Parts:
        """Where finished units lie until the file is written; a run in memory has none."""
        assert self.out is not None
        return Parts(self.out)

    @property
    def left(self) -> int:
        """Samples that can be run now: none when every one (of this task's share) is there.

        Ask again after they have run: points may want more samples, and refinement adds points.
        """
        return sum(stop - start for _, _, runs in self._pieces() for start, stop in runs)

    def pending(self) -> Iterator[tuple[Point, int, Runs]]:
        """Each point, how many samples a unit has there, and (start, stop) of its runs of samples that can be run now.

        Units are cut finer than they are worth where there would be too few for all who compute.
        """
        finer = self.parallel > 1 and self.block is None
        fair = max(1, -(-self.left // (4 * self.parallel))) if finer else self.experiment.samples
        for point, size, runs in self._pieces():
            yield point, min(size, fair), runs

    def units(self) -> Iterator[Unit]:
        """What is pending, in units of work."""
        for point, size, runs in self.pending():
            for start, stop in runs:
                for first in range(start, stop, size):
                    yield self.experiment.unit(point, first, min(size, stop - first), self.hints)

    def _pieces(self) -> Iterator[tuple[Point, int, Runs]]:
        position, most = 0, self.experiment.samples
        for point in self.experiment.points(self.results):
            size = max(1, min(self.experiment.block(point) if self.block is None else self.block, most))
            # A point that may stop early is judged as a whole, so all of it is one task's.
            piece = most if self.experiment.whole else size
            runs = self.results.lacking(point, self.experiment.wanted(self.results, point))
            yield point, size, runs if self.task is None else self._share(runs, piece, position)
            position += -(-most // piece)

    def _share(self, runs: Runs, piece: int, position: int) -> Runs:
        """What of these runs is in pieces of this task; the first piece of the point is the one at `position` of all."""
        assert self.task is not None
        index, count = self.task
        for start, stop in runs:
            own = start // piece
            own += (index - 1 - position - own) % count
            for first in range(own * piece, stop, count * piece):
                yield max(first, start), min(first + piece, stop)

    def in_memory(self) -> Any:
        """Run, and leave nothing on disk; what the file would hold.

        A run that is interrupted is kept until another is: the same experiment then goes on from there.
        """
        records = canonical([self.experiment.name, self.experiment.records])
        self.results = _interrupted.pop(records, self.results)
        _interrupted.clear()
        try:
            self._run_all()
        except KeyboardInterrupt:
            if not self.results.units:
                raise
            _interrupted[records] = self.results
            kept = f"{self.results.samples} {self.experiment.unit_of} are kept in memory"
            raise process.stopped(f"{kept}: the same call goes on from there") from None
        return self.experiment.assemble(self.results)

    def to_file(self) -> Any:
        """Run, and write the file; what is in it, or None from a task, which leaves only its parts.

        A finished file of the same configuration is returned as it is. Raises FileError if the output is taken, of another
        configuration, or cannot be written; RunError if the disk fills up; Interrupted on Ctrl-C. Whatever stops it, the
        output file is either the old one or the complete new one, and finished units are kept.
        """
        disk.prepare_directory(self.parts.out.parent)
        with self.parts.held(self.task):
            # Under the lock: nobody writes the file between this look and what follows from it.
            finished = self.existing()
            if finished is not None:
                return finished
            self._begin()
            try:
                if not self.merge:
                    self._run_all()
                return None if self.task else self._finish()
            except KeyboardInterrupt:
                raise process.stopped(self._kept()) from None
            except OSError as error:
                raise RunError(f"{messages.in_words(error)}; {self._kept()}") from None
            except RunError as error:
                kept = self._kept()
                raise error if self.merge else RunError(f"{error}; {kept}") from None
            except ParameterError:
                self._kept()
                raise

    def existing(self) -> Any:
        """What a finished file of this configuration holds; None if there is work to do; FileError if the name is taken."""
        out, experiment = self.parts.out, self.experiment
        if not out.exists() or self.force:
            return None
        try:
            found, records = experiment.load(out, self.locking)
        except FileError as error:
            raise FileError(f"{error} (--force replaces it)") from None
        difference = differences(records, experiment.records, experiment.defaults)
        if difference:
            raise FileError(
                f"{str(out)!r} holds another {experiment.name}: {difference} (--force replaces it)"
            )
        finished = found.attrs.get("finished", 1)
        if finished and not (self.retry_failed and experiment.reasons(found)):
            return found
        if not self.parts.exist():
            state = f"is {'finished, but' if finished else 'unfinished, and'} its parts are gone"
            raise FileError(f"{str(out)!r} {state} (--force starts afresh)")
        return None

    def clear(self, found: Any) -> None:
        """Remove the parts of a finished file that holds `found`, which a run killed just after writing it has left."""
        if self.task is None and self.parts.exist() and not self.experiment.reasons(found):
            # Those of another run, or of one that is running, stay; and so do all where nothing can be removed.
            with suppress(FileError, OSError), self.parts.held():
                self.parts.begin(self.experiment)
                self.parts.discard()

    def _begin(self) -> None:
        """Take in what earlier runs have left, after checking that it may be used."""
        parts, continues = self.parts, self.resume or self.retry_failed or self.task is not None or self.merge
        if not self.task:
            # Not by a task: what looks left over may be what another one is writing.
            disk.sweep_leftovers(parts.out)
            parts.tidy()
        if self.force and not continues:
            parts.discard()
        found = parts.exist()
        if self.merge and not found:
            raise FileError(f"nothing to merge: there is no {str(parts.path)!r}")
        parts.begin(self.experiment)
        for part in parts.load(self.experiment, set_aside=not self.task):
            self.results.add(Result(**part), failed=not self.retry_failed)
        if found and self.results.units and not continues:
            raise FileError(
                f"{str(self.out)!r} has an unfinished run ({self.results.samples} {self.experiment.unit_of} in"
                f" {str(parts.path)!r}): --resume goes on with it, --force starts afresh"
            )

    def _run_all(self) -> None:
        """Run all that is pending, round by round, saving each unit as it comes."""
        unit_of, results = self.experiment.unit_of, self.results
        kept = nullcontext() if self.out is None else process.keeping(self._kept)
        # Work is worth a wait once it runs, not while workers start.
        with self.work as work, kept:
            left, done = self.left, results.samples
            with messages.Progress(done + left, unit=unit_of, done=done) as progress:
                while left:
                    for result in work(self.units()):
                        if self.out is not None:
                            # On disk before it counts as done.
                            self.parts.save(result, self.experiment)
                        results.add(result)
                        last = result.first + result.count - 1
                        name = f"{self.experiment.words(result.point)}, {unit_of} {result.first} to {last}"
                        log.debug("%s: %.3f s on %s (%s)", name, result.seconds, result.host, result.device)
                        progress.count(result.count, name)
                    process.check()
                    left = self.left
                    progress.grow(left)

    def _finish(self) -> Any:
        """Write the file; the parts have served then, unless a failed sample may want another try."""
        left = self.left
        if left and not self.partial:
            first = self.experiment.words(next(iter(self.units())).point)
            raise RunError(
                f"{left} {self.experiment.unit_of} are missing, the first at {first}:"
                " run the missing tasks, or merge with --partial"
            )
        found = self.experiment.assemble(self.results)
        # The file is on disk before its parts go.
        self.experiment.save(self.parts.out, found)
        if not left and not self.results.failed:
            self.parts.discard()
        return found

    def _kept(self) -> str:
        """What a stopped run has left behind, and how to go on."""
        if not self.results.units and not self.task:
            self.parts.discard()
            return "no unit was finished, nothing is kept"
        kept = f"{self.results.samples} {self.experiment.unit_of} are kept in {str(self.parts.path)!r}"
        how_to = "the same command" if self.task else "the same command with --resume"
        return f"{kept}: {how_to} goes on from there"


_interrupted: dict[str, Results] = {}  # of runs in memory, by what they are
