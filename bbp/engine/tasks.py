"""Units of work: a block of samples of one point, computed anywhere, always to the same numbers; and what they gave."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.engine import allocation
from bbp.engine.unit import Columns, Point, Unit
from bbp.files.table import DONE, FAILED, TEXT, Field


@dataclass(frozen=True)
class Result:
    """What a unit gave: columns by name, each (count, ...) as its `Kind` declares; seconds, host, device are provenance."""

    point: Point
    first: int
    count: int
    columns: Columns
    seconds: float
    host: str
    device: str

    @property
    def status(self) -> NDArray[np.int8]:
        """How each sample ended."""
        return self.columns["status"]

    @property
    def reason(self) -> NDArray[Any]:
        """Why each sample failed, or empty."""
        return self.columns["reason"]


class Results:
    """Everything computed so far, by point and sample; a sample computed twice counts once."""

    def __init__(self, results: Iterable[Result] = ()):
        self.units: list[Result] = []
        self._owners: dict[Point, NDArray[np.int64]] = {}  # of each sample: the index of its unit, or -1
        for result in results:
            self.add(result)

    def add(self, result: Result) -> None:
        """Take in what a unit gave; samples that are done keep what they have."""
        owners = self._owners.get(result.point, np.zeros(0, dtype=np.int64))
        lacking = result.first + result.count - len(owners)
        if lacking > 0:
            owners = np.append(owners, np.full(max(lacking, len(owners)), -1))
        rows = owners[result.first : result.first + result.count]
        free = rows < 0
        for row in np.flatnonzero(~free):
            held = self.units[rows[row]]
            free[row] = held.status[result.first + row - held.first] != DONE
        rows[free] = len(self.units)
        self._owners[result.point] = owners
        self.units.append(result)

    def any(self, point: Point) -> bool:
        """Whether some sample of this point was run."""
        return point in self._owners

    def missing(self, point: Point, number: int) -> NDArray[np.int64]:
        """Which of the first `number` samples of this point were not run, in rising order."""
        return np.flatnonzero(self._padded(point, number) < 0)

    def has(self, point: Point, number: int) -> bool:
        """Whether the first `number` samples of this point were run."""
        return number == 0 or (self.any(point) and not np.any(self._padded(point, number) < 0))

    def gather(self, point: Point, number: int, fields: Sequence[Field], sizes: Mapping[str, int]) -> Columns:
        """The first `number` samples of a point, each column (number, ...), its fill where one was not run."""
        found = {field.name: field.empty({**sizes, "sample": number}) for field in fields}
        owners = self._padded(point, number)
        for index in np.unique(owners[owners >= 0]):
            unit = self.units[index]
            here = np.flatnonzero(owners == index)
            for field in fields:
                found[field.name][here] = unit.columns[field.name][here - unit.first]
        return found

    def first(self, point: Point, number: int, name: str) -> NDArray[Any]:
        """Column `name` of the first `number` samples of `point` that did not fail, in order of sample."""
        owners = self._padded(point, number)
        rows = [
            self.units[index].columns[name][sample - self.units[index].first]
            for sample, index in enumerate(owners)
            if index >= 0 and self.units[index].status[sample - self.units[index].first] == DONE
        ]
        return np.array(rows)

    def forget_failures(self) -> None:
        """Take failed samples for not run, so that they are tried again."""
        for index, unit in enumerate(self.units):
            rows = self._owners[unit.point][unit.first : unit.first + unit.count]
            rows[(rows == index) & (unit.status != DONE)] = -1

    @property
    def samples(self) -> int:
        """How many samples were run."""
        return sum(int(np.count_nonzero(owners >= 0)) for owners in self._owners.values())

    @property
    def failed(self) -> int:
        """How many samples failed."""
        total = 0
        for index, unit in enumerate(self.units):
            rows = self._owners[unit.point][unit.first : unit.first + unit.count]
            total += int(np.count_nonzero((rows == index) & (unit.status == FAILED)))
        return total

    def _padded(self, point: Point, number: int) -> NDArray[np.int64]:
        owners = self._owners.get(point, np.zeros(0, dtype=np.int64))[:number]
        return np.append(owners, np.full(number - len(owners), -1))


def compute(unit: Unit) -> Result:
    """Run one unit. An exception costs the samples it comes from, with the reason, and never the rest of the unit."""
    allocation.keep()
    start = time.perf_counter()
    columns = _columns(unit, unit.samples)
    seconds = time.perf_counter() - start
    device = unit.kind.device()
    return Result(unit.point, unit.first, unit.count, columns, seconds, socket.gethostname(), device)


def failure(unit: Unit, reason: str) -> Result:
    """The result of a unit that could not be run at all."""
    return Result(unit.point, unit.first, unit.count, _failed(unit, unit.count, reason), 0.0, "", "")


def _columns(unit: Unit, samples: range) -> Columns:
    try:
        return _declared(unit, len(samples), unit.kind.compute(unit.given, samples, **unit.hints))
    except Exception as error:
        if len(samples) == 1:
            return _failed(unit, 1, f"{type(error).__name__}: {' '.join(str(error).split())}")
    parts = [_columns(unit, range(sample, sample + 1)) for sample in samples]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _declared(unit: Unit, count: int, columns: Columns) -> Columns:
    """Columns of the declared types; a status that `compute` does not give is DONE, and a reason makes it FAILED."""
    reason = np.asarray(columns.get("reason", np.full(count, "")), dtype=object)
    status = columns.get("status", np.where(reason == "", DONE, FAILED))
    columns = {**columns, "reason": reason, "status": status}
    return {field.name: np.asarray(columns[field.name]).astype(field.dtype) for field in unit.kind.columns}


def _failed(unit: Unit, count: int, reason: str) -> Columns:
    sizes = {**unit.kind.sizes(unit.given), "sample": count}
    columns = {field.name: field.empty(sizes) for field in unit.kind.columns}
    return columns | {"status": np.full(count, FAILED, np.int8), "reason": np.full(count, reason, TEXT)}
