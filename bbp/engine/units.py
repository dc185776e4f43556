"""Units of work: a block of samples of one point, computed anywhere, always to the same numbers; and what they gave.

Imports neither xarray nor h5py: processes that only compute need not wait for them.
"""

from __future__ import annotations

import ctypes
import functools
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.console.messages import no_device
from bbp.files import variables
from bbp.files.variables import DONE, FAILED, NOT_RUN

Point = tuple[Any, ...]  # of str, int and float: hashable, and the same after a trip through JSON
Columns = dict[str, NDArray[Any]]
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

    def check(self, values: NDArray[Any], sizes: Mapping[str, int]) -> None:
        """ValueError unless `values` is of the declared type, and its axes are as long as `sizes` says."""
        kind, wanted = "O" if values.dtype.kind == "U" else values.dtype.kind, np.dtype(self.dtype)
        if kind != wanted.kind or (kind != "O" and values.dtype.itemsize != wanted.itemsize):
            raise ValueError(f"{self.name} is of type {values.dtype}, not {self.dtype}")
        shape = tuple(sizes[dim] for dim in self.dims)
        if values.shape != shape:
            raise ValueError(f"{self.name} has shape {values.shape}, not {shape}")


# How a sample ended, in the columns of every experiment.
STATUS = Field("status", ("sample",), "i1", NOT_RUN)
REASON = Field("reason", ("sample",), TEXT, "")


@dataclass(frozen=True)
class Kind:
    """What is computed at points of one kind; sent to other processes, so its functions are those of modules.

    compute   (given, samples, **hints) -> columns by name, each (len(samples), ...); an exception fails these samples
    fields    the columns: dims ("sample", ...), each with its type and fill; `status` and `reason` are added
    sizes     given -> lengths of the axes after "sample", if there are any
    drawn     whether sims draws what `compute` gives: results then state JAX's device and the random stream, where they ran
    """

    compute: Callable[..., Columns]
    fields: tuple[Field, ...]
    sizes: Callable[[Mapping[str, Any]], dict[str, int]] | None = None
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
    hints: Mapping[str, Any] = field(default_factory=dict)

    @property
    def samples(self) -> range:
        """The indices of its samples."""
        return range(self.first, self.first + self.count)

    @property
    def sizes(self) -> dict[str, int]:
        """Lengths of the axes of its columns."""
        return (self.kind.sizes(self.given) if self.kind.sizes else {}) | {"sample": self.count}


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


def compute(unit: Unit) -> Result:
    """Run one unit. An exception costs the samples it comes from, with the reason, and never the rest of the unit."""
    keep_memory()
    start = time.perf_counter()
    columns = _columns(unit)
    seconds = time.perf_counter() - start
    place = device() if unit.kind.drawn else "cpu"
    return Result(
        unit.point, unit.first, unit.count, columns, seconds, socket.gethostname(), place, made(unit)
    )


def failure(unit: Unit, reason: str) -> Result:
    """The result of a unit that could not be run at all."""
    return Result(unit.point, unit.first, unit.count, _failed(unit, reason), 0.0, "", "")


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


def _columns(unit: Unit) -> Columns:
    try:
        return _declared(unit, unit.kind.compute(unit.given, unit.samples, **unit.hints))
    except Exception as error:
        if unit.count == 1:
            return _failed(
                unit, no_device(error) or f"{type(error).__name__}: {' '.join(str(error).split())}"
            )
    parts = [_columns(replace(unit, first=sample, count=1)) for sample in unit.samples]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _declared(unit: Unit, columns: Columns) -> Columns:
    """Columns of the declared types; a status that `compute` does not give is DONE, and a reason makes it FAILED."""
    reason = np.asarray(columns.get("reason", np.full(unit.count, "")), dtype=object)
    status = columns.get("status", np.where(reason == "", DONE, FAILED))
    columns = {**columns, "reason": reason, "status": status}
    names = [each.name for each in unit.kind.columns]
    if lacking := [name for name in names if name not in columns]:
        raise ValueError(f"declared, but not computed: {', '.join(lacking)}")
    if unknown := [name for name in columns if name not in names]:
        raise ValueError(f"computed, but not declared: {', '.join(unknown)}")
    return {each.name: np.asarray(columns[each.name]).astype(each.dtype) for each in unit.kind.columns}


def _failed(unit: Unit, reason: str) -> Columns:
    columns = {each.name: each.empty(unit.sizes) for each in unit.kind.columns}
    return columns | {
        "status": np.full(unit.count, FAILED, np.int8),
        "reason": np.full(unit.count, reason, TEXT),
    }


# Parameters of mallopt(3), and bytes: the most at the top of the heap that stays, and the least of an array that is mapped
# (the most that malloc takes).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT, _MAPPED = 2**28, 2**25


@functools.cache
def keep_memory() -> bool:
    """Let this process keep what units of work free (glibc's malloc); once. Whether there was anything to be set.

    By default malloc gives memory at the top of its heap back to the system, and maps every array above a size of its own:
    each sample then touches fresh pages, which the kernel fills with zeros first. dask makes its workers return all at once,
    and lost a third of their speed at N = 200. What is kept is what units have needed, at most `_KEPT` beyond what is in use.

    >>> keep_memory() in (True, False)
    True
    """
    setting = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return setting is not None and all([setting(_MMAP_THRESHOLD, _MAPPED), setting(_TRIM_THRESHOLD, _KEPT)])


class Results:
    """Everything computed so far, by point and sample; a sample computed twice counts once, as done if it ever was.

    units   where and when it was computed, in the order of arrival: results without their columns
    """

    def __init__(self) -> None:
        self.units: list[Result] = []
        # Over samples: status, and row of the columns. These hold what was run alone: samples of a task lie far apart.
        self._samples: dict[Point, tuple[NDArray[np.int8], NDArray[np.int64]]] = {}
        self._columns: dict[Point, list[tuple[int, Columns]]] = {}  # with their first row

    def add(self, result: Result) -> None:
        """Take in what a unit gave; samples that are done keep what they have."""
        status, rows = self._samples.get(result.point, (np.zeros(0, np.int8), np.zeros(0, np.int64)))
        if (lacking := result.first + result.count - len(status)) > 0:
            more = max(lacking, len(status))
            status, rows = (
                np.append(status, np.zeros(more, np.int8)),
                np.append(rows, np.zeros(more, np.int64)),
            )
        held = self._columns.setdefault(result.point, [])
        start = held[-1][0] + len(held[-1][1]["status"]) if held else 0
        held.append((start, dict(result.columns)))
        self._samples[result.point] = status, rows
        new = np.flatnonzero(status[result.first : result.first + result.count] != DONE)
        status[result.first + new], rows[result.first + new] = result.status[new], start + new
        self.units.append(replace(result, columns={}))

    def any(self, point: Point) -> bool:
        """Whether some sample of this point was run."""
        return point in self._samples

    def missing(self, point: Point, number: int) -> NDArray[np.int64]:
        """Which of the first `number` samples of this point were not run, in rising order."""
        return np.flatnonzero(self._status(point, number) == NOT_RUN)

    def has(self, point: Point, number: int) -> bool:
        """Whether the first `number` samples of this point were run."""
        return number == 0 or (self.any(point) and not len(self.missing(point, number)))

    def fill(self, point: Point, number: int, columns: Columns) -> None:
        """Write the first `number` samples of a point into these columns, as far as they were run."""
        there = np.flatnonzero(self._status(point, number) != NOT_RUN)
        for name, values in columns.items() if len(there) else ():
            values[there] = self._of(point, name, there)

    def first(self, point: Point, number: int, name: str) -> NDArray[Any]:
        """Column `name` of the first `number` samples of `point` that did not fail, in order of sample."""
        done = np.flatnonzero(self._status(point, number) == DONE)
        return self._of(point, name, done) if len(done) else np.zeros(0)

    def forget_failures(self) -> None:
        """Take failed samples for not run, so that they are tried again."""
        for status, _ in self._samples.values():
            status[status == FAILED] = NOT_RUN

    @property
    def samples(self) -> int:
        """How many samples were run."""
        return self._count(DONE, FAILED)

    @property
    def failed(self) -> int:
        """How many samples failed."""
        return self._count(FAILED)

    def _count(self, *codes: int) -> int:
        # A list at once: after a signal another thread asks, while this one may add a point.
        return sum(int(np.isin(status, codes).sum()) for status, _ in list(self._samples.values()))

    def _status(self, point: Point, number: int) -> NDArray[np.int8]:
        """That of the first `number` samples."""
        known = self._samples[point][0][:number] if self.any(point) else np.zeros(0, np.int8)
        return np.append(known, np.full(number - len(known), NOT_RUN, np.int8))

    def _of(self, point: Point, name: str, samples: NDArray[np.int64]) -> NDArray[Any]:
        """Column `name` of these samples of a point, which were run."""
        held = self._columns[point]
        if len(held) > 1:  # asked for often, and joined once
            shared = [key for key in held[0][1] if all(key in columns for _, columns in held)]
            held[:] = [(0, {key: np.concatenate([columns[key] for _, columns in held]) for key in shared})]
        return held[0][1][name][self._samples[point][1][samples]]
