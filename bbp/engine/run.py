"""Running an experiment: what is there already, what is left, who computes it, and the file at the end.

A subclass of `Experiment` says which points there are, how many samples each wants, what decides the numbers at a point as
plain data (`given`), and how columns become a file. `Run` does the rest, once: units of work, parts on disk, resume, tasks and
merge, locks, existing files; `bbp.engine.executors` has the units computed.

Which samples are still to run, cut into units, is a function of the experiment and of the samples alone: nothing depends on the
order, size or place of units, so a run that stops points early or adds points as it goes gives the same numbers on one machine
or many. Units are made as they are asked for: a plan of 10^9 samples is small.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.console import messages, process
from bbp.console.messages import FileError, RunError, log
from bbp.engine.executors import Work, working
from bbp.engine.parts import Parts, canonical, differences
from bbp.engine.units import Kind, Point, Result, Results, Unit
from bbp.files import dataset, disk, variables
from bbp.files.product import split
from theory.checks import ParameterError

LARGEST_BLOCK = 256
UNIT_SECONDS = 4.0  # what a crash may cost; long against the few milliseconds that storing a unit takes


class Experiment(ABC):
    """Points, computation and file of one program's run.

    name      in messages and in the plan of an unfinished run: "sweep"
    form      of its file: "bbp-sweep"
    settings  the checked options that decide the numbers, by name
    defaults  of these options: files and parts from before an option existed do not name it, and were made with its default
    unit_of   what a sample is called: "samples"
    whole     a point may stop early, and is judged as a whole: all of it is one task's
    """

    name: str
    form: str
    settings: dict[str, Any]
    defaults: Mapping[str, Any]
    unit_of: str = "samples"
    whole: bool = False

    @property
    def samples(self) -> int:
        """Samples a point, at most."""
        return self.settings["samples"]

    def records(self) -> list[dict[str, Any]]:
        """What two runs must agree on, as plain data, one record a model."""
        return [self.settings]

    @abstractmethod
    def points(self, results: Results) -> Iterable[Point]:
        """Every point known so far, in a fixed order."""

    @abstractmethod
    def kind(self, point: Point) -> Kind:
        """What is computed at this point."""

    @abstractmethod
    def given(self, point: Point) -> dict[str, Any]:
        """All that decides the numbers at this point, as plain data; ValueError or TypeError for none of this run."""

    def wanted(self, results: Results, point: Point) -> int:
        """How many samples the point asks for, as far as those it has can tell."""
        return self.samples

    def block(self, point: Point) -> int:
        """Samples a unit where the user does not say: some seconds of work, which is what a crash may cost."""
        return self.samples

    @abstractmethod
    def assemble(self, results: Results) -> Any:
        """What the file is to hold, of all that has been run."""

    @abstractmethod
    def table(self, found: Any) -> str:
        """The closing table."""

    def save(self, path: Path, found: Any) -> None:
        """Write the file."""
        dataset.write(path, found)

    def load(self, path: Path, locking: dataset.Locking) -> Any:
        """What the file holds; FileError."""
        return dataset.open(path, self.form, locking=locking)

    def describe(self, point: Point) -> str:
        """The point in a few words."""
        return self.group(point)

    def group(self, point: Point) -> str:
        """The row of the dry run's table that the point belongs to."""
        return self.name

    @abstractmethod
    def cost(self, point: Point) -> float:
        """Work of one sample at this point, in any unit: estimates of time scale with it."""

    def seconds(self, point: Point) -> float | None:
        """About the seconds of a sample here on one core; None if it keeps several cores busy by itself, or nobody knows."""
        return None

    def closing(self) -> float:
        """About the seconds that putting the file together takes, beside reading and writing."""
        return 0.0

    def probe(self, point: Point) -> Point:
        """A point like this one, small enough to be timed."""
        return point

    def bytes(self, point: Point, hints: Mapping[str, Any]) -> int:
        """Bytes that one unit at this point takes; 0 where it hardly matters."""
        return 0

    def check_memory(self, hints: Mapping[str, Any], processes: int) -> None:
        """ParameterError, with the bytes needed and what would fit, if the largest unit does not fit here."""
        return

    def check_task(self) -> None:
        """ParameterError if this run cannot be shared between tasks."""
        return

    def alone(self) -> dict[str, Any]:
        """Hints for a run in this process of which nothing is kept: `threads`, where units can use several."""
        return {}

    def notes(self) -> list[str]:
        """Lines to add to the dry run."""
        return []

    def unit(self, point: Point, first: int, count: int, hints: Mapping[str, Any] | None = None) -> Unit:
        """The unit of these samples of this point."""
        return Unit(self.kind(point), point, self.given(point), first, count, hints or {})

    def complete(self, results: Results, point: Point) -> bool:
        """Whether every sample that the point asks for has been run."""
        return results.has(point, self.wanted(results, point))

    def over(
        self, results: Results, points: Sequence[Point], axes: Mapping[str, Any], outer: Sequence[str]
    ) -> xr.Dataset:
        """Columns of these points, which run over the axes `outer`; what was not run is missing, of status 0.

        axes   coordinates by name: `outer` and those of the columns
        """
        sizes, fields = {name: len(values) for name, values in axes.items()}, self.kind(points[0]).columns
        found = {field.name: field.empty(sizes, outer) for field in fields}
        for index, point in zip(np.ndindex(*(sizes[name] for name in outer)), points, strict=True):
            columns = {name: values[index] for name, values in found.items()}
            results.fill(point, self.wanted(results, point), columns)
        words = {field.name: {"long_name": field.words} if field.words else {} for field in fields}
        return xr.Dataset(
            {f.name: ((*outer, *f.dims), found[f.name], words[f.name]) for f in fields}, dict(axes)
        )

    def origin(self, results: Results, points: Iterable[Point], record: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes: what the file of these points is, whether it is complete, its configuration, and what made it."""
        own = set(points)
        made = [unit.made for unit in results.units if unit.point in own and unit.made]
        finished = int(all(self.complete(results, point) for point in own))
        config = {"format": self.form, "finished": finished, "config": json.dumps(record)}
        return config | variables.provenance(made)


def each_model(found: Any) -> list[xr.Dataset]:
    """The results, one a model, of what `Experiment.assemble` gives."""
    return split(found) if isinstance(found, xr.Dataset) else found


def reasons(found: Any) -> list[str]:
    """Why samples of a result failed, in order."""
    whys = [
        one[name].values
        for one in each_model(found)
        for name in one
        if name == "reason" or str(name).endswith("_reason")
    ]
    return [text for why in whys if why.dtype == object for text in why.ravel() if text]


def devices(units: Iterable[Result]) -> str:
    """The devices that computed, in words."""
    return ", ".join(sorted({unit.device for unit in units if unit.device})) or "none"


@dataclass
class Run:
    """An experiment, and how it is run, by the names of the options: none of them changes a number in the file.

    out       the file to write; None keeps nothing on disk
    work      what runs the units (bbp.engine.executors.working)
    parallel  how many it runs at once
    hints     passed on to what computes: `batch`, `threads`
    task      (index, count): run every count-th piece of the work, from the index-th (from 1) on, and leave the file to a later
              merge
    results   what has been computed so far
    """

    experiment: Experiment
    out: Path | None = None
    work: AbstractContextManager[Work] = field(default_factory=working)
    parallel: int = 1
    hints: Mapping[str, Any] = field(default_factory=dict)
    block: int | None = None
    task: tuple[int, int] | None = None
    locking: dataset.Locking = None
    merge: bool = False
    partial: bool = False
    resume: bool = False
    retry_failed: bool = False
    force: bool = False
    results: Results = field(default_factory=Results)

    @property
    def parts(self) -> Parts:
        """Where finished units lie until the file is written."""
        return Parts(self.out or Path())

    @property
    def missing(self) -> int:
        """Samples that can be run now: none when every one (of this task's share) is there.

        Ask again after they have run: points may want more samples, and refinement adds points.
        """
        return sum(stop - start for _, _, spans in self._pieces() for start, stop in spans)

    def pending(self) -> Iterator[tuple[Point, int, Iterable[tuple[int, int]]]]:
        """Each point, how many samples a unit has there, and (start, stop) of its runs of samples that can be run now.

        Units are cut finer than they are worth where there would be too few for all who compute.
        """
        finer = self.parallel > 1 and self.block is None
        fair = max(1, -(-self.missing // (4 * self.parallel))) if finer else self.experiment.samples
        for point, size, spans in self._pieces():
            yield point, min(size, fair), spans

    def units(self) -> Iterator[Unit]:
        """What is pending, in units of work."""
        for point, size, spans in self.pending():
            for start, stop in spans:
                for first in range(start, stop, size):
                    yield self.experiment.unit(point, first, min(size, stop - first), self.hints)

    def _pieces(self) -> Iterator[tuple[Point, int, Iterable[tuple[int, int]]]]:
        position, most = 0, self.experiment.samples
        for point in self.experiment.points(self.results):
            size = max(1, min(self.experiment.block(point) if self.block is None else self.block, most))
            # A point that may stop early is judged as a whole, so all of it is one task's.
            piece = most if self.experiment.whole else size
            yield point, size, self._spans(point, piece, position)
            position += -(-most // piece)

    def _spans(self, point: Point, piece: int, position: int) -> Iterable[tuple[int, int]]:
        """(start, stop) of the samples that a point lacks, of this task's pieces; the first of the point is at `position`."""
        index, count = self.task or (1, 1)
        number = self.experiment.wanted(self.results, point)
        if self.results.any(point):
            samples = self.results.missing(point, number)
            return _consecutive(samples[(position + samples // piece) % count == index - 1])
        if count == 1:
            return [(0, number)] if number else []
        own = (index - 1 - position) % count
        starts = range(own * piece, number, count * piece)
        return ((start, min(start + piece, number)) for start in starts)

    def in_memory(self) -> Any:
        """Run, and leave nothing on disk; what the file would hold.

        A run that is interrupted is kept until another is: the same experiment then goes on from there.
        """
        records = canonical([self.experiment.name, self.experiment.records()])
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
        out = self.parts.out
        if not out.exists() or self.force:
            return None
        try:
            found = self.experiment.load(out, self.locking)
        except FileError as error:
            raise FileError(f"{error} (--force replaces it)") from None
        each = each_model(found)
        # Names of the files that were compared are stored too: their contents count.
        records = [{k: v for k, v in dataset.config(one).items() if k != "files"} for one in each]
        finished = all(one.attrs.get("finished", 1) for one in each)
        difference = differences(records, self.experiment.records(), self.experiment.defaults)
        if difference:
            raise FileError(
                f"{str(out)!r} holds another {self.experiment.name}: {difference} (--force replaces it)"
            )
        if finished and not (self.retry_failed and reasons(found)):
            return found
        if not self.parts.exist():
            state = f"is {'finished, but' if finished else 'unfinished, and'} its parts are gone"
            raise FileError(f"{str(out)!r} {state} (--force starts afresh)")
        return None

    def clear(self, found: Any) -> None:
        """Remove the parts of a finished file that holds `found`, which a run killed just after writing it has left."""
        if self.task is None and self.parts.exist() and not reasons(found):
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
        for result in parts.load(self.experiment, set_aside=not self.task):
            self.results.add(result)
        if found and self.results.units and not continues:
            raise FileError(
                f"{str(self.out)!r} has an unfinished run ({self.results.samples} {self.experiment.unit_of} in"
                f" {str(parts.path)!r}): --resume goes on with it, --force starts afresh"
            )
        if self.retry_failed:
            self.results.forget_failures()

    def _run_all(self) -> None:
        """Run all that is pending, round by round, saving each unit as it comes."""
        unit_of, results = self.experiment.unit_of, self.results
        kept = nullcontext() if self.out is None else process.keeping(self._kept)
        # Work is worth a wait once it runs, not while workers start.
        with self.work as work, kept:
            missing = self.missing
            with messages.Progress(results.samples + missing, unit=unit_of, done=results.samples) as progress:
                while missing:
                    for result in work(self.units()):
                        if self.out is not None:
                            # On disk before it counts as done.
                            self.parts.save(result, self.experiment)
                        results.add(result)
                        last = result.first + result.count - 1
                        name = f"{self.experiment.describe(result.point)}, {unit_of} {result.first} to {last}"
                        log.debug("%s: %.3f s on %s (%s)", name, result.seconds, result.host, result.device)
                        progress.count(result.count, name)
                    process.check()
                    missing = self.missing
                    progress.grow(missing)

    def _finish(self) -> Any:
        """Write the file; the parts have served then, unless a failed sample may want another try."""
        missing = self.missing
        if missing and not self.partial:
            first = next(iter(self.units())).point
            raise RunError(
                f"{missing} {self.experiment.unit_of} are missing, the first at {self.experiment.describe(first)}:"
                " run the missing tasks, or merge with --partial"
            )
        found = self.experiment.assemble(self.results)
        # The file is on disk before its parts go.
        self.experiment.save(self.parts.out, found)
        if not missing and not self.results.failed:
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


def _consecutive(samples: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """(start, stop) of the runs of consecutive numbers in a rising sequence."""
    ends = [0, *(np.flatnonzero(np.diff(samples) > 1) + 1), len(samples)]
    for start, stop in pairwise(ends) if len(samples) else ():
        yield int(samples[start]), int(samples[stop - 1]) + 1
