"""From options to an exit code: what every program that runs an experiment does with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bbp.console import program
from bbp.console.program import log
from bbp.engine import cache, estimate
from bbp.engine import run as engine
from bbp.engine.experiment import Experiment
from bbp.engine.schedule import Division
from theory.checks import ParameterError

ELSEWHERE = 8  # processes that a scheduler or an executor is taken to have, where units are cut
HINTS = ("batch", "threads")  # options of execution that are for what computes
EXCLUDE = (
    *(("processes", "workers"), ("processes", "scheduler")),
    *(("task", "merge"), ("workers", "scheduler"), ("task", "workers"), ("task", "scheduler")),
    *(("task", "force"), ("merge", "force"), ("task", "retry_failed")),
)


def carry_out(
    experiment: Experiment, settings: Mapping[str, Any], then: Callable[[Any], None] | None = None
) -> int:
    """Run the experiment as the checked options say, and show it; 0 done, 1 if samples failed.

    settings   `out` may be None, where a program need not write a file: nothing is kept then
    then       what else is done with what the file holds
    """
    if settings["dry_run"]:
        how = estimate.side_by_side(experiment, execution(settings), settings["processes"])
        engine.keep_programs(how)
        program.show(estimate.describe(experiment, how))
        return program.OK
    found, said = obtain(experiment, settings)
    if found is not None:
        program.show(experiment.table(found))
    if said:
        log.info("%s", said)
    if found is None:
        return program.OK
    if then is not None:
        then(found)
    return program.FAILED if tell_failures(experiment, found, kept=bool(said)) else program.OK


def obtain(experiment: Experiment, settings: Mapping[str, Any]) -> tuple[Any, str]:
    """What the experiment gives, from its file or by running it, and a line on that; None of a task, which leaves parts.

    settings   the checked options; `out` None keeps nothing, `executor` runs the units
    """
    how = execution(settings)
    if settings["out"] is None:
        threads = experiment.alone()
        if not threads:
            how = estimate.side_by_side(experiment, how, settings["processes"])
        elif settings["processes"] is not None:
            threads = threads | {"threads": settings["processes"]}
        if threads:
            how = replace(how, division=Division(4 * threads["threads"], threads))
        return engine.in_memory(experiment, how), ""
    how = estimate.side_by_side(experiment, how, settings["processes"])
    if how.task:
        experiment.check_task()
    estimate.check_memory(experiment, how)
    before = engine.existing(experiment, how)
    if before is not None:
        return before, f"{how.out} was already finished: nothing to compute"
    found = engine.run(experiment, how)
    if found is not None:
        return found, f"wrote {how.out}"
    number = f"{how.division.index} of {how.division.count}"
    then = "when all are, the same command with --merge instead of --task writes the file"
    return None, f"task {number} is done; {then}"


def tell_failures(experiment: Experiment, found: Any, *, kept: bool) -> int:
    """How many samples failed, after an error message if any did; `kept`: in a file, where they can be tried again."""
    reasons = experiment.held(found).reasons
    if reasons:
        again = " (--retry-failed tries again)" if kept else ""
        log.error(
            "%d %s failed, the first because: %s%s", len(reasons), experiment.unit_of, reasons[0], again
        )
    return len(reasons)


def execution(settings: Mapping[str, Any]) -> engine.Execution:
    """How to run, from the checked options; ParameterError on two that exclude each other."""
    for one, two in EXCLUDE:
        if settings[one] not in (None, False) and settings[two] not in (None, False):
            raise ParameterError(f"--{one} and --{two} exclude each other".replace("_", "-"))
    if settings["partial"] and not settings["merge"]:
        raise ParameterError("--partial is for --merge")
    if settings["wait"] is not None and settings["scheduler"] is None:
        raise ParameterError("--wait is for workers of a --scheduler")
    index, count = settings["task"] or (1, 1)
    hints = {name: settings[name] for name in HINTS if settings.get(name) is not None}
    workers = settings["workers"]
    elsewhere = settings["scheduler"] is not None or settings.get("executor") is not None
    parallel = workers or (ELSEWHERE if elsewhere else 1)
    if (workers is not None or (settings["processes"] or 1) > 1) and "threads" in settings:
        hints.setdefault("threads", 1)  # the processes share the cores already
    return engine.Execution(
        out=settings["out"] or Path(),
        division=Division(settings["block"], hints, parallel, index, count),
        workers=workers,
        scheduler=settings["scheduler"],
        executor=settings.get("executor"),
        patience=engine.PATIENCE if settings["wait"] is None else settings["wait"],
        locking=settings["locking"],
        cache=None if settings["merge"] else cache.directory(settings["cache"]),
        task=settings["task"] is not None,
        merge=settings["merge"],
        partial=settings["partial"],
        resume=settings["resume"],
        retry_failed=settings["retry_failed"],
        force=settings["force"],
    )
