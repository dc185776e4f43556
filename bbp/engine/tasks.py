"""Units of work: a block of samples of one (model, n, alpha), computed anywhere, always to the same numbers."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from bbp.store import DONE, FAILED
from sims import sampling
from theory.model import Committee

ARRAYS = ("eigenvalues", "overlaps", "residuals", "max_overlap_rank", "status", "reason")
# Our programs are many and small: JAX by itself keeps only those that took a second to compile.
CACHE = {"jax_persistent_cache_min_compile_time_secs": 0, "jax_persistent_cache_min_entry_size_bytes": -1}


class Point(NamedTuple):
    """Where samples are drawn: the index of the model, the input dimension, and alpha."""

    model: int
    n: int
    alpha: float


@dataclass(frozen=True)
class Unit:
    """Samples first .. first + count - 1 of a point, with all that is needed to compute them."""

    point: Point
    first: int
    count: int
    model: Committee
    seed: int
    eigenpairs: int
    dtype: str = "float64"
    solver: str = "auto"
    batch: int | None = None

    @property
    def samples(self) -> range:
        """Numbers of its samples."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class Result:
    """What a unit gave. Shapes: eigenvalues, overlaps, residuals (count, eigenpairs); the rest (count,).

    status is 1 done or 2 failed, reason says why it failed; seconds, host and device are provenance.
    """

    point: Point
    first: int
    count: int
    eigenvalues: NDArray[np.float64]
    overlaps: NDArray[np.float64]
    residuals: NDArray[np.float64]
    max_overlap_rank: NDArray[np.int64]
    status: NDArray[np.int8]
    reason: NDArray[np.str_]
    seconds: float
    host: str
    device: str


class Results:
    """Everything computed so far, by point and sample; a sample computed twice counts once."""

    def __init__(self, results: Iterable[Result] = ()):
        self.units: list[Result] = []
        self._rows: dict[Point, dict[int, tuple[Result, int]]] = {}
        for result in results:
            self.add(result)

    def add(self, result: Result) -> None:
        """Take in one result; a sample that was done stays."""
        self.units.append(result)
        rows = self._rows.setdefault(result.point, {})
        for row, sample in enumerate(range(result.first, result.first + result.count)):
            held = rows.get(sample)
            if held is None or held[0].status[held[1]] != DONE:
                rows[sample] = result, row

    def done(self, point: Point) -> dict[int, tuple[Result, int]]:
        """For each sample of `point` that was run: the result it is in, and its row there."""
        return self._rows.get(point, {})

    def first(self, point: Point, count: int, name: str) -> NDArray[Any]:
        """Column `name` of the first `count` samples of `point` that did not fail, in order of sample."""
        rows = self.done(point)
        good = [rows[i] for i in range(count) if i in rows and rows[i][0].status[rows[i][1]] == DONE]
        return np.array([getattr(result, name)[row] for result, row in good])

    def forget_failures(self) -> None:
        """Take failed samples for not run, so that they are tried again."""
        for point, rows in self._rows.items():
            self._rows[point] = {
                i: (unit, row) for i, (unit, row) in rows.items() if unit.status[row] == DONE
            }

    @property
    def samples(self) -> int:
        """How many samples were run."""
        return sum(len(rows) for rows in self._rows.values())

    @property
    def failed(self) -> int:
        """How many samples failed."""
        return sum(
            int(result.status[row] == FAILED) for rows in self._rows.values() for result, row in rows.values()
        )


def blocks(missing: Sequence[int], size: int) -> Iterator[tuple[int, int]]:
    """(first, count) of runs of consecutive samples in the rising sequence `missing`, each at most `size` long."""
    first = 0
    for index in range(1, len(missing) + 1):
        ends = index == len(missing) or missing[index] != missing[index - 1] + 1
        if ends or index - first == size:
            yield missing[first], index - first
            first = index


def compute(unit: Unit) -> Result:
    """Run one unit. An exception costs the samples it comes from, with the reason, and never the rest of the unit."""
    start = time.perf_counter()
    columns = _columns(unit)
    return Result(
        point=unit.point,
        first=unit.first,
        count=unit.count,
        **columns,
        seconds=time.perf_counter() - start,
        host=socket.gethostname(),
        device=device(),
    )


def failure(unit: Unit, reason: str) -> Result:
    """The result of a unit that could not be run at all."""
    columns = _failed(unit, reason)
    return Result(unit.point, unit.first, unit.count, **columns, seconds=0.0, host="", device="")


def keep_compiled(directory: str) -> None:
    """Let JAX keep every program it compiles in `directory`, and find there those of earlier processes."""
    for name, value in CACHE.items():
        jax.config.update(name, value)
    jax.config.update("jax_compilation_cache_dir", directory)


def device() -> str:
    """The device that JAX computes on, for instance "cpu" or "gpu: NVIDIA H100"."""
    found = jax.devices()[0]
    return found.platform if found.device_kind == found.platform else f"{found.platform}: {found.device_kind}"


def _columns(unit: Unit) -> dict[str, NDArray[Any]]:
    try:
        return _sampled(unit)
    except Exception as error:
        if unit.count == 1:
            return _failed(unit, f"{type(error).__name__}: {' '.join(str(error).split())}")
    parts = [_columns(_single(unit, sample)) for sample in unit.samples]
    return {name: np.concatenate([part[name] for part in parts]) for name in ARRAYS}


def _sampled(unit: Unit) -> dict[str, NDArray[Any]]:
    found = sampling.sample_point(
        unit.model,
        unit.point.n,
        unit.point.alpha,
        list(unit.samples),
        unit.seed,
        eigenpairs=unit.eigenpairs,
        dtype=unit.dtype,
        solver=unit.solver,
        batch=unit.batch,
    )
    return {
        "eigenvalues": np.asarray(found.eigenvalues, dtype=np.float64),
        "overlaps": np.asarray(found.overlaps, dtype=np.float64),
        "residuals": np.asarray(found.residuals, dtype=np.float64),
        "max_overlap_rank": np.asarray(found.max_overlap_rank, dtype=np.int64),
        "status": np.asarray(found.status, dtype=np.int8),
        "reason": np.array(found.reasons, dtype=np.str_),
    }


def _failed(unit: Unit, reason: str) -> dict[str, NDArray[Any]]:
    nothing = np.full((unit.count, unit.eigenpairs), np.nan)
    return {
        "eigenvalues": nothing,
        "overlaps": nothing.copy(),
        "residuals": nothing.copy(),
        "max_overlap_rank": np.full(unit.count, -1),
        "status": np.full(unit.count, FAILED, dtype=np.int8),
        "reason": np.full(unit.count, reason),
    }


def _single(unit: Unit, sample: int) -> Unit:
    return Unit(
        unit.point, sample, 1, unit.model, unit.seed, unit.eigenpairs, unit.dtype, unit.solver, unit.batch
    )
