"""Units of work: a block of samples of one point, computed anywhere, always to the same numbers; and what they gave."""

from __future__ import annotations

import ctypes
import functools
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.console.messages import no_device
from bbp.files import variables
from bbp.files.variables import DONE, FAILED, NOT_RUN

Point = tuple[Any, ...]  # of str, int and float: hashable, and the same after a trip through JSON
Columns = dict[str, NDArray[Any]]

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt(3)
KEPT = 2**28  # bytes at the top of the heap
MAPPED = 2**25  # arrays from this size on are mapped: the most that malloc takes


TEXT = "O"  # the dtype of text, as h5py gives it


@dataclass(frozen=True)
class Field:
    """A column of what a unit of work gives, declared once: its axes, type, and what stands for a sample that was not run.

    dims   names of its axes, outermost first
    dtype  "f8", "i8", "i1" or TEXT
    fill   what stands where nothing was computed
    words  what it is, where bbp.files.variables does not say it
    """

    name: str
    dims: tuple[str, ...]
    dtype: str = "f8"
    fill: Any = np.nan
    words: str = ""

    def empty(self, sizes: Mapping[str, int], outer: Sequence[str] = ()) -> NDArray[Any]:
        """An array of `fill` over its axes, with those of `outer` before them; lengths by name in `sizes`."""
        return np.full([sizes[dim] for dim in (*outer, *self.dims)], self.fill, dtype=self.dtype)

    def check(self, values: NDArray[Any], shape: Sequence[int]) -> None:
        """ValueError unless `values` is of the declared type and of this shape."""
        kind = "O" if values.dtype.kind in "OU" else values.dtype.kind
        wanted = np.dtype(self.dtype)
        if kind != wanted.kind or (kind != "O" and values.dtype.itemsize != wanted.itemsize):
            raise ValueError(f"{self.name} is of type {values.dtype}, not {self.dtype}")
        if values.shape != tuple(shape):
            raise ValueError(f"{self.name} has shape {values.shape}, not {tuple(shape)}")


# How a sample ended, in the columns of every experiment.
STATUS = Field("status", ("sample",), "i1", NOT_RUN)
REASON = Field("reason", ("sample",), TEXT, "")


def no_axes(given: Mapping[str, Any]) -> dict[str, int]:
    """Lengths of no axis beyond "sample"."""
    return {}


@dataclass(frozen=True)
class Kind:
    """What is computed at points of one kind; sent to other processes, so its functions are those of modules.

    compute   (given, samples, **hints) -> columns by name, each (len(samples), ...); an exception fails these samples
    fields    the columns: dims ("sample", ...), each with its type and fill; `status` and `reason` are added
    sizes     given -> lengths of the axes after "sample"
    drawn     whether sims draws what `compute` gives: results then state JAX's device and the random stream, where they ran
    """

    compute: Callable[..., Columns]
    fields: tuple[Field, ...]
    sizes: Callable[[Mapping[str, Any]], dict[str, int]] = no_axes
    drawn: bool = False

    @property
    def columns(self) -> tuple[Field, ...]:
        """All columns, with how each sample ended."""
        own = {each.name for each in self.fields}
        return (*self.fields, *(each for each in (STATUS, REASON) if each.name not in own))


@dataclass(frozen=True)
class Unit:
    """Samples first .. first + count - 1 of a point, with all that is needed to compute them anywhere.

    given   everything that decides the numbers, as plain data: what the part on disk states, and is checked by
    hints   how to compute, changes no number: `batch`, `threads`
    """

    kind: Kind
    point: Point
    given: Mapping[str, Any]
    first: int
    count: int
    hints: Mapping[str, Any]

    @property
    def samples(self) -> range:
        """The indices of its samples."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class Result:
    """What a unit gave: columns by name, each (count, ...) as its `Kind` declares. The rest is provenance.

    made   versions of the packages that computed it, and "stream", the name of the random stream
    """

    point: Point
    first: int
    count: int
    columns: Columns
    seconds: float
    host: str
    device: str
    made: Mapping[str, str] = field(default_factory=dict)

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
            for each in fields:
                found[each.name][here] = unit.columns[each.name][here - unit.first]
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
    keep_memory()
    start = time.perf_counter()
    columns = _columns(unit, unit.samples)
    seconds = time.perf_counter() - start
    return Result(
        unit.point,
        unit.first,
        unit.count,
        columns,
        seconds,
        socket.gethostname(),
        device() if unit.kind.drawn else "cpu",
        made(unit),
    )


def failure(unit: Unit, reason: str) -> Result:
    """The result of a unit that could not be run at all."""
    return Result(unit.point, unit.first, unit.count, _failed(unit, unit.count, reason), 0.0, "", "")


def made(unit: Unit) -> dict[str, str]:
    """What a result of this unit computed in this process is `made` of."""
    if not unit.kind.drawn:
        return _versions()
    from sims.instance import STREAM  # late: what draws nothing does without JAX

    return _versions() | {"stream": STREAM}


def device() -> str:
    """The device that JAX computes on, for instance "cpu" or "gpu: NVIDIA H100"."""
    import jax  # late, likewise

    found = jax.devices()[0]
    return found.platform if found.device_kind == found.platform else f"{found.platform}: {found.device_kind}"


_versions = functools.cache(variables.versions)


def _columns(unit: Unit, samples: range) -> Columns:
    try:
        return _declared(unit, len(samples), unit.kind.compute(unit.given, samples, **unit.hints))
    except Exception as error:
        if len(samples) == 1:
            said = no_device(error) or f"{type(error).__name__}: {' '.join(str(error).split())}"
            return _failed(unit, 1, said)
    parts = [_columns(unit, range(sample, sample + 1)) for sample in samples]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _declared(unit: Unit, count: int, columns: Columns) -> Columns:
    """Columns of the declared types; a status that `compute` does not give is DONE, and a reason makes it FAILED."""
    reason = np.asarray(columns.get("reason", np.full(count, "")), dtype=object)
    status = columns.get("status", np.where(reason == "", DONE, FAILED))
    columns = {**columns, "reason": reason, "status": status}
    return {each.name: np.asarray(columns[each.name]).astype(each.dtype) for each in unit.kind.columns}


def _failed(unit: Unit, count: int, reason: str) -> Columns:
    sizes = {**unit.kind.sizes(unit.given), "sample": count}
    columns = {each.name: each.empty(sizes) for each in unit.kind.columns}
    return columns | {"status": np.full(count, FAILED, np.int8), "reason": np.full(count, reason, TEXT)}


@functools.cache
def keep_memory() -> bool:
    """Let this process keep what units of work free (glibc's malloc); once. Whether there was anything to be set.

    By default malloc gives memory at the top of its heap back to the system, and maps every array above a size of its own:
    each sample then touches fresh pages, which the kernel fills with zeros first. dask makes its workers return all at once,
    and lost a third of their speed at N = 200. What is kept is what units have needed, at most `KEPT` beyond what is in use.

    >>> keep_memory() in (True, False)
    True
    """
    setting = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return setting is not None and all([setting(MMAP_THRESHOLD, MAPPED), setting(TRIM_THRESHOLD, KEPT)])
