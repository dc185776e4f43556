"""From options to an exit code: what every program that runs an experiment does with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """Run the experiment as the checked options say; 0 done, 1 if samples failed.

    settings   `out` may be None, where a program need not write a file: nothing is kept then
    then       what else is done with what the file holds
    """
    if settings["out"] is None:
        return _show(
            experiment, engine.in_memory(experiment, _alone(experiment, settings["processes"])), then
        )
    how = estimate.side_by_side(experiment, execution(settings), settings["processes"])
    if how.task:
        experiment.check_task()
    if settings["dry_run"]:
        engine.keep_programs(how)
        program.show(estimate.describe(experiment, how))
        return program.OK
    estimate.check_memory(experiment, how)
    before = engine.existing(experiment, how)
    found = engine.run(experiment, how) if before is None else before
    if found is None:
        number = f"{how.division.index} of {how.division.count}"
        log.info(
            "task %s is done; when all are, the same command with --merge instead of --task writes the file",
            number,
        )
        return program.OK
    said = f"wrote {how.out}" if before is None else f"{how.out} was already finished: nothing to compute"
    return _show(experiment, found, then, said)


def _alone(experiment: Experiment, threads: int | None) -> Division:
    """Units of a run in this process alone, of so many threads; None: as many as the experiment takes."""
    hints = experiment.alone()
    if hints and threads is not None:
        hints = hints | {"threads": threads}
    return Division(4 * hints["threads"] if hints else None, hints)


def _show(
    experiment: Experiment, found: Any, then: Callable[[Any], None] | None, said: str | None = None
) -> int:
    program.show(experiment.table(found))
    if said:
        log.info("%s", said)
    if then is not None:
        then(found)
    reasons = experiment.held(found).reasons
    if reasons:
        again = " (--retry-failed tries again)" if said else ""
        log.error(
            "%d %s failed, the first because: %s%s", len(reasons), experiment.unit_of, reasons[0], again
        )
    return program.FAILED if reasons else program.OK


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
        out=settings["out"],
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
