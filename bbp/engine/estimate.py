"""Before a sweep runs: how much work it is, how much memory it takes, about how long."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bbp.console import program
from bbp.engine.devices import gpus
from bbp.engine.run import Execution
from bbp.engine.tasks import Point, Results, Unit, compute
from bbp.experiments import schedule
from bbp.experiments.sweep import Config
from bbp.store import describe as describe_model
from sims import sampling
from theory.checks import ParameterError

PROBE = 400  # size p n of the matrix whose time is scaled up


def check_memory(config: Config, how: Execution) -> None:
    """ParameterError, with the bytes needed and what would fit, if the largest points do not fit in memory here.

    Workers elsewhere, or with a GPU each, check for themselves.
    """
    if how.scheduler is not None or (how.workers is not None and gpus()):
        return
    for index, model in enumerate(config.models):
        sampling.sample_point(
            model,
            config.n[-1],
            config.alphas[index][-1],
            [],
            config.seed,
            eigenpairs=config.eigenpairs[index],
            dtype=config.dtype,
            solver=config.solver,
            batch=(how.division.batch or 1) * (how.workers or 1),
        )


def describe(config: Config, how: Execution) -> str:
    """The text of --dry-run: units, memory, and an estimate of time from one sample timed here."""
    units = schedule.pending(config, Results(), how.division)
    seconds = _seconds(config, units)
    lines = [f"{'model':24} {'N':>7} {'alphas':>7} {'samples':>8} {'units':>7} {'memory':>10}"]
    for index, model in enumerate(config.models):
        for n in config.n:
            number = sum(unit.point.model == index and unit.point.n == n for unit in units)
            lines.append(
                f"{describe_model(model):24} {n:7d} {len(config.alphas[index]):7d} {config.samples:8d}"
                f" {number:7d} {size(_bytes(config, index, n, how.division.batch)):>10}"
            )
    total = sum(unit.count for unit in units)
    lines.append(f"{len(units)} units, {total} samples, file {str(how.out)!r}")
    processes = how.division.parallel
    share = f" in {processes} processes" if processes > 1 else ""
    lines.append(
        f"about {program.duration(seconds / processes)}{share}, scaled from one sample timed on this machine"
    )
    if config.target_error is not None or config.refine:
        lines.append(
            "this is the first round: --target-error and --refine ask for more as they see the samples"
        )
    try:
        check_memory(config, how)
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


def _bytes(config: Config, index: int, n: int, batch: int | None) -> int:
    """Bytes that sampling takes at the largest alpha."""
    return sampling.bytes_needed(
        config.models[index],
        n,
        config.alphas[index][-1],
        eigenpairs=config.eigenpairs[index],
        dtype=config.dtype,
        solver=config.solver,
        batch=batch,
    )


def _seconds(config: Config, units: Sequence[Unit]) -> float:
    """Seconds that `units` take one after another: one sample is timed, and scaled as the cube of p n."""
    if not units:
        return 0.0
    first = units[0]
    p, pairs = int(first.model.p), config.eigenpairs[first.point.model]
    least = max(first.model.p_star, -(-pairs // p) + 1, min(16, 2 * PROBE // p))
    small = Point(first.point.model, max(min(first.point.n, PROBE // p), least), first.point.alpha)
    probe = schedule.unit(config, small, 0, 1)
    compute(probe)  # compiles
    start = time.perf_counter()
    compute(probe)
    one = time.perf_counter() - start
    cubes = [unit.count * float(unit.model.p * unit.point.n) ** 3 for unit in units]
    return one * sum(cubes) / float(probe.model.p * small.n) ** 3
