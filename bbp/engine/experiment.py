"""What a program hands to the engine: points, what is computed at them, and the file they make.

A subclass of `Experiment` says which points there are, how many samples each wants, what decides the numbers at a point as
plain data (`given`), and how columns become a file. The engine does the rest, once: units of work, parts on disk, resume,
tasks and merge, worker processes, locks, estimates, existing files (bbp.engine.run, .parts, .executors).

Which samples are still to run, cut into units (`Pending`), is a function of the experiment and of the samples alone: nothing
depends on the order, size or place of units, so a run that stops points early or adds points as it goes gives the same
numbers on one machine or many. Units are made as they are asked for: a plan of 10^9 samples is small.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bbp.console.options import Option, checked
from bbp.engine.tasks import Kind, Point, Result, Results, Unit
from bbp.files import dataset, variables
from bbp.files.product import split

LARGEST_BLOCK = 256
PATIENCE = 600.0  # seconds that workers of a scheduler are waited for
UNIT_SECONDS = 4.0  # what a crash may cost; long against the few milliseconds that storing a unit takes


class Experiment(ABC):
    """Points, computation and file of one program's run.

    name      in messages and in the plan of an unfinished run: "sweep"
    form      of its file: "bbp-sweep"
    unit_of   what a sample is called: "samples"
    options   the table that the settings are of
    settings  the checked options that decide the numbers, by name
    whole     a point may stop early, and is judged as a whole: all of it is one task's
    """

    name: str
    form: str
    unit_of: str = "samples"
    options: Sequence[Option]
    settings: dict[str, Any]
    whole: bool = False

    @property
    def samples(self) -> int:
        """Samples a point, at most."""
        return self.settings["samples"]

    def records(self) -> list[dict[str, Any]]:
        """What two runs must agree on, as plain data, one record a model."""
        return [self.settings]

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Defaults by name: files and parts from before an option existed do not name it, and were made with its default."""
        return checked(self.options, {}, decides=True)

    @abstractmethod
    def points(self, results: Results) -> Iterable[Point]:
        """Every point known so far, in a fixed order."""

    @abstractmethod
    def kind(self, point: Point) -> Kind:
        """What is computed at this point."""

    @abstractmethod
    def given(self, point: Point) -> dict[str, Any]:
        """All that decides the numbers at this point, as plain data; ValueError or TypeError for none of this run."""

    def block(self, point: Point) -> int:
        """Samples a unit where the user does not say: some seconds of work, which is what a crash may cost."""
        return self.samples

    @abstractmethod
    def assemble(self, results: Results) -> Any:
        """What the file is to hold, of all that has been run."""

    def over(
        self, results: Results, points: Sequence[Point], axes: Mapping[str, Any], outer: Sequence[str]
    ) -> xr.Dataset:
        """Columns of these points, which run over the axes `outer`; what was not run is missing, of status 0.

        axes   coordinates by name: `outer` and those of the columns
        """
        sizes, fields = {name: len(values) for name, values in axes.items()}, self.kind(points[0]).columns
        found = {field.name: field.empty(sizes, outer) for field in fields}
        for index, point in zip(np.ndindex(*(sizes[name] for name in outer)), points, strict=True):
            if results.any(point):
                number = self.wanted(results, point)
                for name, values in results.gather(point, number, fields, sizes).items():
                    found[name][index][:number] = values
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

    def save(self, path: Path, found: Any) -> None:
        """Write the file."""
        dataset.write(path, found)

    def load(self, path: Path, locking: dataset.Locking) -> Any:
        """What the file holds; FileError."""
        return dataset.open(path, self.form, locking=locking)

    @abstractmethod
    def table(self, found: Any) -> str:
        """The closing table."""

    def describe(self, point: Point) -> str:
        """The point in a few words."""
        return self.group(point)

    @abstractmethod
    def cost(self, point: Point) -> float:
        """Work of one sample at this point, in any unit: estimates of time scale with it."""

    def seconds(self, point: Point) -> float | None:
        """About the seconds of a sample here on one core; None if it keeps several cores busy by itself, or nobody knows."""
        return None

    def closing(self) -> float:
        """About the seconds that putting the file together takes, beside reading and writing."""
        return 0.0

    def group(self, point: Point) -> str:
        """The row of the dry run's table that the point belongs to."""
        return self.name

    def bytes(self, point: Point, hints: Mapping[str, Any]) -> int:
        """Bytes that one unit at this point takes; 0 where it hardly matters."""
        return 0

    def alone(self) -> dict[str, Any]:
        """Hints for a run in this process of which nothing is kept: `threads`, where units can use several."""
        return {}

    def probe(self, point: Point) -> Point:
        """A point like this one, small enough to be timed."""
        return point

    def wanted(self, results: Results, point: Point) -> int:
        """How many samples the point asks for, as far as those it has can tell."""
        return self.samples

    def check_memory(self, hints: Mapping[str, Any], processes: int) -> None:
        """ParameterError, with the bytes needed and what would fit, if the largest unit does not fit here."""
        return

    def check_task(self) -> None:
        """ParameterError if this run cannot be shared between tasks."""
        return

    def notes(self) -> list[str]:
        """Lines to add to the dry run."""
        return []

    def unit(self, point: Point, first: int, count: int, hints: Mapping[str, Any] | None = None) -> Unit:
        """The unit of these samples of this point."""
        return Unit(self.kind(point), point, self.given(point), first, count, hints or {})

    def complete(self, results: Results, point: Point) -> bool:
        """Whether every sample that the point asks for has been run."""
        return results.has(point, self.wanted(results, point))


@dataclass(frozen=True)
class Execution:
    """How to run an experiment. None of it changes a number in the file.

    out           the file to write
    block         samples a unit; None: as many as take about UNIT_SECONDS
    hints         passed on to what computes: `batch`, `threads`
    parallel      units that run at once: cut finer where there would be too few
    task          (index, count): run every count-th piece of the work, from the index-th (from 1) on, and leave the file to a
                  later merge
    processes     processes side by side on this machine; 1: this one
    workers       the same, each with a GPU of its own where there are GPUs; or None
    scheduler     address of a dask scheduler, or None
    executor      a `concurrent.futures.Executor` to run units, or None
    patience      seconds without any worker of the scheduler after which the run ends
    locking       h5py's switch for reading an existing file
    cache         directory in which JAX keeps compiled programs, or None
    merge         only assemble what tasks have left; partial: even if some of it is missing
    resume        go on from the parts of an unfinished run; retry_failed: and run failed samples again
    force         replace an existing file, and discard parts unless resuming
    """

    out: Path = Path()
    block: int | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)
    parallel: int = 1
    task: tuple[int, int] | None = None
    processes: int = 1
    workers: int | None = None
    scheduler: str | None = None
    executor: Executor | None = None
    patience: float = PATIENCE
    locking: dataset.Locking = None
    cache: str | None = None
    merge: bool = False
    partial: bool = False
    resume: bool = False
    retry_failed: bool = False
    force: bool = False

    @property
    def continues(self) -> bool:
        """Whether parts that are there may be added to."""
        return self.resume or self.retry_failed or self.task is not None or self.merge


class Pending:
    """The units that can run now, in order: `samples` counts theirs, iterating makes them; none when every sample (of this
    task's share) is there.

    Ask again after they have run: points may want more samples, and refinement adds points.
    """

    def __init__(self, experiment: Experiment, results: Results, how: Execution):
        self._experiment, self._results, self._how = experiment, results, how
        self._index, self._count = how.task or (1, 1)
        self.samples = sum(stop - start for _, _, spans in self._points() for start, stop in spans)

    def __iter__(self) -> Iterator[Unit]:
        for point, size, spans in self.points():
            for start, stop in spans:
                for first in range(start, stop, size):
                    yield self._experiment.unit(point, first, min(size, stop - first), self._how.hints)

    def points(self) -> Iterator[tuple[Point, int, Iterable[tuple[int, int]]]]:
        """Each point, how many samples a unit has there, and (start, stop) of its runs of samples that are to run."""
        fair = max(1, -(-self.samples // (4 * self._how.parallel)))
        finer = self._how.parallel > 1 and self._how.block is None
        for point, size, spans in self._points():
            yield point, min(size, fair) if finer else size, spans

    def _points(self) -> Iterator[tuple[Point, int, Iterable[tuple[int, int]]]]:
        position, most = 0, self._experiment.samples
        for point in self._experiment.points(self._results):
            wanted = self._experiment.block(point) if self._how.block is None else self._how.block
            size = max(1, min(wanted, most))
            # A point that may stop early is judged as a whole, so all of it is one task's.
            piece = most if self._experiment.whole else size
            yield point, size, self._missing(point, piece, position)
            position += -(-most // piece)

    def _missing(self, point: Point, piece: int, position: int) -> Iterable[tuple[int, int]]:
        number = self._experiment.wanted(self._results, point)
        if self._results.any(point):
            samples = self._results.missing(point, number)
            return runs(samples[(position + samples // piece) % self._count == self._index - 1])
        if self._count == 1:
            return [(0, number)] if number else []
        own = (self._index - 1 - position) % self._count
        starts = range(own * piece, number, self._count * piece)
        return ((start, min(start + piece, number)) for start in starts)


def runs(samples: Any) -> Iterator[tuple[int, int]]:
    """(start, stop) of the runs of consecutive numbers in a rising sequence."""
    if len(samples) == 0:
        return
    breaks = np.flatnonzero(np.diff(samples) > 1)
    starts, stops = [0, *(breaks + 1)], [*breaks, len(samples) - 1]
    for start, stop in zip(starts, stops, strict=True):
        yield int(samples[start]), int(samples[stop]) + 1


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


def differences(
    there: list[dict[str, Any]], here: list[dict[str, Any]], defaults: Mapping[str, Any] | None = None
) -> str:
    """In words, how two lists of records differ: "samples 16 there, 32 here; ..."; empty if they agree.

    defaults   what a record means by not having a name
    """
    if len(there) != len(here):
        return f"{len(there)} model(s) there, {len(here)} here"
    found: dict[str, None] = {}
    for both in zip(there, here, strict=True):
        for name in dict.fromkeys([*both[1], *both[0]]):
            old, new = (record.get(name, (defaults or {}).get(name)) for record in both)
            if canonical(old) != canonical(new):
                found[f"{name} {short(old)} there, {short(new)} here"] = None
    return "; ".join(list(found)[:4]) + ("; ..." if len(found) > 4 else "")


def canonical(value: Any) -> str:
    """Plain data as text that is equal where the data are."""
    return json.dumps(value, sort_keys=True)


def short(value: Any) -> str:
    """A value in a few words: lists by their ends."""
    if not isinstance(value, list):
        return str(value)
    words = [f"{item:g}" if isinstance(item, int | float) else str(item) for item in value[:3] + value[-1:]]
    return (
        ",".join(words[: len(value)]) if len(value) <= 3 else f"{words[0]}..{words[-1]} ({len(value)} points)"
    )
