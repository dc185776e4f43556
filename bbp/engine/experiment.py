"""What a program hands to the engine: points, what is computed at them, and the file they make.

A subclass of `Experiment` says which points there are, how many samples each wants, what decides the numbers at a point as
plain data (`given`), and how columns become a file. The engine does the rest, once: units of work, parts on disk, resume,
tasks and merge, worker processes, locks, estimates, existing files (bbp.engine.run, .parts, .executors).

Which samples are still to run, cut into units (`pending`), is a function of the experiment and of the samples alone: nothing
depends on the order, size or place of units, so a run that stops points early or adds points as it goes gives the same
numbers on one machine or many. Units are made as they are asked for: a plan of 10^9 samples is small.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bbp.console.options import Option, checked
from bbp.engine.tasks import Kind, Point, Result, Results, Unit
from bbp.files import dataset
from bbp.files.product import split

LARGEST_BLOCK = 256
UNIT_SECONDS = 4.0  # what a crash may cost; long against the few milliseconds that storing a unit takes


@dataclass(frozen=True)
class Held:
    """What the engine asks of a file: the records it answers, whether all of it was run, why samples failed."""

    records: list[dict[str, Any]]
    finished: bool
    reasons: list[str]


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
        """What records and parts of before an option existed mean by its absence: its default."""
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

    def save(self, path: Path, found: Any) -> None:
        """Write the file."""
        dataset.write(path, found)

    def load(self, path: Path, locking: dataset.Locking) -> Any:
        """What the file holds; FileError."""
        return dataset.open(path, self.form, locking=locking)

    def held(self, found: Any) -> Held:
        """What the engine asks of it: records, and reasons of failures in order."""
        each = split(found) if isinstance(found, xr.Dataset) else found
        whys = [
            one[name].values
            for one in each
            for name in one
            if name == "reason" or str(name).endswith("_reason")
        ]
        reasons = [text for why in whys if why.dtype == object for text in why.ravel() if text]
        finished = all(one.attrs.get("finished", 1) for one in each)
        return Held([dataset.config(one) for one in each], finished, reasons)

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
class Division:
    """How the work is cut. None of it changes a number.

    block       samples a unit; None: as many as take about UNIT_SECONDS
    hints       passed on to what computes: `batch`, `threads`
    parallel    units that run at once: cut finer where there would be too few
    index, count  this is task `index` of `count` (from 1): every count-th piece is its share
    """

    block: int | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)
    parallel: int = 1
    index: int = 1
    count: int = 1

    def size(self, experiment: Experiment, point: Point) -> int:
        """Samples a unit at this point."""
        wanted = experiment.block(point) if self.block is None else self.block
        return max(1, min(wanted, experiment.samples))


class Pending:
    """The units that can run now, in order; `samples` counts them, iterating makes them."""

    def __init__(self, experiment: Experiment, results: Results, division: Division):
        self._experiment, self._results, self._division = experiment, results, division
        self.samples = sum(stop - start for _, spans in self._spans() for start, stop in spans)

    def __iter__(self) -> Iterator[Unit]:
        for point, start, stop in self.blocks():
            yield self._experiment.unit(point, start, stop - start, self._division.hints)

    def blocks(self) -> Iterator[tuple[Point, int, int]]:
        """Each unit's point, first sample and the one after its last."""
        fair = -(-self.samples // (4 * self._division.parallel))
        for point, spans in self._spans():
            size = self._size(point, fair)
            for start, stop in spans:
                for first in range(start, stop, size):
                    yield point, first, min(first + size, stop)

    def counts(self) -> Iterator[tuple[Point, int, int]]:
        """Of each point: how many units and samples are to run."""
        fair = -(-self.samples // (4 * self._division.parallel))
        for point, spans in self._spans():
            size, units, samples = self._size(point, fair), 0, 0
            for start, stop in spans:
                units += -(-(stop - start) // size)
                samples += stop - start
            yield point, units, samples

    def _size(self, point: Point, fair: int) -> int:
        size = self._division.size(self._experiment, point)
        finer = self._division.parallel > 1 and self._division.block is None
        return max(1, min(size, fair)) if finer else size

    def _spans(self) -> Iterator[tuple[Point, Iterable[tuple[int, int]]]]:
        """Each point with (start, stop) of its runs of missing samples that are this task's."""
        position = 0
        for point in self._experiment.points(self._results):
            # A point that may stop early is judged as a whole, so all of it is one task's.
            most = self._experiment.samples
            piece = most if self._experiment.whole else self._division.size(self._experiment, point)
            yield point, self._missing(point, piece, position)
            position += -(-most // piece)

    def _missing(self, point: Point, piece: int, position: int) -> Iterable[tuple[int, int]]:
        number, division = self._experiment.wanted(self._results, point), self._division
        if not self._results.any(point):
            if division.count == 1:
                return [(0, number)] if number else []
            own = (division.index - 1 - position) % division.count
            return (
                (start, min(start + piece, number))
                for start in range(own * piece, number, division.count * piece)
            )
        samples = self._results.missing(point, number)
        samples = samples[(position + samples // piece) % division.count == division.index - 1]
        return runs(samples)


def runs(samples: Any) -> Iterator[tuple[int, int]]:
    """(start, stop) of the runs of consecutive numbers in a rising sequence."""
    if len(samples) == 0:
        return
    breaks = np.flatnonzero(np.diff(samples) > 1)
    starts, stops = [0, *(breaks + 1)], [*breaks, len(samples) - 1]
    for start, stop in zip(starts, stops, strict=True):
        yield int(samples[start]), int(samples[stop]) + 1


def devices(units: Iterable[Result]) -> str:
    """The devices that computed, in words."""
    return ", ".join(sorted({unit.device for unit in units if unit.device})) or "none"


def pending(experiment: Experiment, results: Results, division: Division) -> Pending:
    """Units that can run now; none when every sample (of this task's share) is there.

    Call again after they have run: points may ask for more samples, and refinement adds points.
    """
    return Pending(experiment, results, division)


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
