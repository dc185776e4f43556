"""Before an experiment runs: how much work it is, how much memory it takes, about how long."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

from bbp.console import program
from bbp.engine import schedule
from bbp.engine.devices import gpus
from bbp.engine.experiment import Experiment
from bbp.engine.run import Execution
from bbp.engine.tasks import Results, compute
from bbp.engine.unit import Point
from sims.cores import allotted
from theory.checks import ParameterError

START_HERE = 1.5  # seconds until processes of bbp.engine.pool have started and imported what they need: measured 1.2 to 1.4
START = 4.0  # the same of workers: measured 3.6 to 3.9
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
    processes = min(processes, samples)
    while processes > 1 and not _fits(experiment, how, processes):
        processes -= 1
    return processes if processes > 1 and total > total / processes + START_HERE else 1


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
        memory = experiment.bytes(last, how.division.hints)
        lines.append(
            f"{name:{width}} {points:7d} {samples:12d} {units:8d} {size(memory) if memory else '-':>10}"
        )
    total = [sum(row[i] for row in rows.values()) for i in (1, 2)]
    lines.append(f"{total[0]} units, {total[1]} {unit}, file {str(how.out)!r}")
    processes = how.division.parallel
    share = f" in {processes} processes" if processes > 1 else ""
    scale, compiling = (0.0, 0.0) if first is None else _seconds(experiment, first)
    compiling *= len(rows)  # every group has shapes of its own, which each process compiles
    starting = START if how.workers is not None else START_HERE if processes > 1 else 0.0
    closing = 0.0 if how.task else experiment.closing()
    seconds = scale * work / processes + compiling + starting + closing
    compiled = f", {program.duration(compiling)} of them compiling," if compiling > seconds / 4 else ","
    lines.append(
        f"about {program.duration(seconds)}{share}{compiled} scaled from samples timed on this machine"
    )
    alone = scale * work + compiling + closing
    if how.workers is not None and processes > 1 and alone < seconds:
        lines.append(f"without --workers about {program.duration(alone)}: they cost more here than they gain")
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
