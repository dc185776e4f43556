"""Before an experiment runs: how much work it is, how much memory it takes, about how long."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

from bbp.console import program
from bbp.engine import schedule
from bbp.engine.executors import gpus
from bbp.engine.experiment import Experiment
from bbp.engine.run import Execution
from bbp.engine.tasks import Point, Results, compute
from sims.cores import allotted
from sims.limits import free_bytes
from theory.checks import ParameterError

START = 1.7  # seconds until processes have started and imported what they need
PROCESS_BYTES = 290 * 2**20  # of Python, JAX, SciPy and what they compile, before the first sample
MOST_PROBES, PROBE_SECONDS = 16, 0.05  # samples timed together for an estimate, and about how long they take


def check_memory(experiment: Experiment, how: Execution) -> None:
    """ParameterError, with the bytes needed and what would fit, if the largest units do not fit in memory here.

    Workers elsewhere, or with a GPU each, check for themselves.
    """
    if how.scheduler is None and (how.workers is None or not gpus()):
        experiment.check_memory(how.division.hints, how.workers or how.processes)


def side_by_side(experiment: Experiment, how: Execution, wanted: int | None) -> Execution:
    """`how` with as many processes as `wanted`; None: as many as there are cores, where that ends sooner and fits in memory.

    It does where samples gain nothing from BLAS threads (`Experiment.seconds`) and the work outlasts the start.
    """
    if how.workers is not None or how.scheduler is not None or how.merge:
        return how
    if wanted is None:
        processes = _worthwhile(experiment, how)
    elif wanted > 1 and gpus():
        raise ParameterError(
            "processes share no GPU: --workers gives each its own (or set JAX_PLATFORMS=cpu)"
        )
    else:
        processes = wanted
    if processes == 1:
        return how
    return replace(how, processes=processes, division=replace(how.division, parallel=processes))


def _worthwhile(experiment: Experiment, how: Execution) -> int:
    """Processes that end the work soonest: the cores, or fewer if the samples or the memory do not go round, or 1."""
    processes = allotted()
    if processes == 1 or gpus():
        return 1
    total, samples = 0.0, 0
    for point, _, number in schedule.pending(experiment, Results(), how.division).counts():
        seconds = experiment.seconds(point)
        if seconds is None:
            return 1
        total, samples = total + number * seconds, samples + number
    free = free_bytes()
    processes = max(1, min(processes, samples, processes if free is None else int(free / PROCESS_BYTES)))
    while processes > 1 and not _fits(experiment, how, processes):
        processes -= 1
    return processes if processes > 1 and total > total / processes + START else 1


def _fits(experiment: Experiment, how: Execution, processes: int) -> bool:
    try:
        experiment.check_memory(how.division.hints, processes)
    except ParameterError:
        return False
    return True


def describe(experiment: Experiment, how: Execution) -> str:
    """The text of --dry-run: units, memory, and an estimate of time from one sample timed here."""
    rows: dict[str, list[Any]] = {}
    work, first = 0.0, None
    for point, units, samples in schedule.pending(experiment, Results(), how.division).counts():
        row = rows.setdefault(experiment.group(point), [0, 0, 0, point])
        row[0], row[1], row[2], row[3] = row[0] + 1, row[1] + units, row[2] + samples, point
        work += samples * experiment.cost(point)
        first = point if first is None and samples else first
    width = max(map(len, rows), default=0)
    unit = experiment.unit_of
    lines = [f"{'':{width}} {'points':>7} {unit:>12} {'units':>8} {'memory':>10}"]
    for name, (points, units, samples, last) in rows.items():
        memory = size(PROCESS_BYTES + experiment.bytes(last, how.division.hints))
        lines.append(f"{name:{width}} {points:7d} {samples:12d} {units:8d} {memory:>10}")
    total = [sum(row[i] for row in rows.values()) for i in (1, 2)]
    lines.append(f"{total[0]} units, {total[1]} {unit}, file {str(how.out)!r}; memory is that of a process")
    processes = how.division.parallel
    share = f" in {processes} processes" if processes > 1 else ""
    scale, compiling = (0.0, 0.0) if first is None else _seconds(experiment, first)
    compiling *= len(rows)  # every group has shapes of its own, which each process compiles
    starting = START if processes > 1 else 0.0
    closing = 0.0 if how.task else experiment.closing()
    seconds = scale * work / processes + compiling + starting + closing
    compiled = f", {program.duration(compiling)} of them compiling," if compiling > seconds / 4 else ","
    lines.append(
        f"about {program.duration(seconds)}{share}{compiled} scaled from samples timed on this machine"
    )
    lines += experiment.notes()
    try:
        check_memory(experiment, how)
    except ParameterError as error:
        lines.append(f"would be refused on this machine as it is now: {error}")
    return "\n".join(lines)


def size(number: float) -> str:
    """Bytes in words: "1.5 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return ""


def _seconds(experiment: Experiment, point: Point) -> tuple[float, float]:
    """Seconds for a unit of `Experiment.cost`, and of compiling: samples are timed thrice, the first time they compile.

    Of small ones several, which share calls as those of a run do.
    """
    small = experiment.probe(point)
    cost = experiment.cost(small)
    number = max(1, min(MOST_PROBES, experiment.samples, int(PROBE_SECONDS / cost)))
    probe = experiment.unit(small, 0, number)
    times = [time.perf_counter()]
    for _ in range(3):
        compute(probe)
        times.append(time.perf_counter())
    first, *again = (later - earlier for earlier, later in pairwise(times))
    return min(again) / (number * cost), max(first - min(again), 0.0)
