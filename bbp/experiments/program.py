"""From options to results: programs that run experiments, each a command and a function of Python at once, made of a table of
options and of what builds an experiment from them.

Before an experiment runs: how much work it is, how much memory it takes, about how long, and in how many processes it ends
soonest. Until every option is checked nothing heavy is imported: --help and wrong options are answered at once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bbp.console import messages, options, process, program
from bbp.console.messages import RunError, duration, log
from bbp.console.process import Interrupted
from theory import checks
from theory.checks import ParameterError

if TYPE_CHECKING:  # half a second, which --help need not wait for
    from bbp.engine.run import Point, Run
    from bbp.experiments.base import Experiment

SHELL_ONLY = ("out", "save", "width", "task", "merge", "dry_run")  # options that are for the shell
OF_TASKS = ("--task", "--merge", "--dry-run")  # which Python does not have
OF_A_FILE = ("resume", "force", "retry_failed")  # of a file, and of what a run has left beside it
NO_OBSERVABLES = {"observable": "observables are of sweeps (bbp sweep), and of what reads their files"}
ELSEWHERE = 8  # processes that a scheduler or an executor is taken to have, where units are cut
HINTS = ("batch", "threads")  # options of execution that are for what computes
PLACES = ("processes", "workers", "scheduler")  # options that say where units run
EXCLUDE = (
    *(("processes", "workers"), ("processes", "scheduler")),
    *(("task", "merge"), ("workers", "scheduler"), ("task", "workers"), ("task", "scheduler")),
    *(("task", "force"), ("merge", "force"), ("task", "retry_failed")),
)
START = 1.7  # seconds until processes have started and imported what they need
PROCESS_BYTES = 290 * 2**20  # of Python, JAX, SciPy and what they compile, before the first sample
MOST_PROBES, PROBE_SECONDS = 16, 0.05  # samples timed together for an estimate, and about how long they take


@dataclass(frozen=True)
class Program:
    """A program `bbp NAME` that runs what `build(options, asked)` of `bbp.experiments.NAME` makes of its options.

    options   the table
    rivals    pairs of options of which the one on the command line wins over the other in a TOML file
    summary, example   of --help
    elsewhere          options of other programs, and why they are not here
    """

    name: str
    options: Sequence[options.Option]
    summary: str
    example: str
    rivals: Sequence[tuple[str, str]] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The options, from their table."""
        options.add(parser, self.options)
        for name, why in self.elsewhere.items():
            if isinstance(parser, program.Parser):
                parser.elsewhere([f"--{name}"], why)

    def run(self, args: argparse.Namespace) -> int:
        """Carry out the command; 0 done, 1 if samples failed."""
        asked = options.asked(args, self.options, self.rivals)
        how = options.checked(self.options, asked)
        return carry_out(self._built(how, asked), how)

    def main(self, argv: Sequence[str] | None = None) -> int:
        """The command; its exit code."""
        return program.program(
            self.name, self.add_arguments, self.run, argv, summary=self.summary, example=self.example
        )

    def call(
        self,
        asked: Mapping[str, Any],
        *what: Any,
        out: Any = None,
        executor: Executor | None = None,
        progress: bool = True,
        **grids: Any,
    ) -> Any:
        """What the program would put into its file, from Python.

        asked      options by name, as the command line has them but with _ for -, of text or of numbers, lists, arrays
        what       more for `build`
        out        the file to write; None keeps nothing on disk
        executor   runs the units of work
        progress   False: no bar and no messages but errors
        grids      more options, of which None keeps the default

        ParameterError on a wrong option; FileError, RunError as the program; Interrupted, a KeyboardInterrupt, on Ctrl-C.
        """
        names = [option.name for option in self.options if option.name not in SHELL_ONLY]
        asked = {name: value for name, value in grids.items() if value is not None} | {**asked}
        progress, asked = checks.flag("progress", progress), {n: _plain(value) for n, value in asked.items()}
        for name in asked:
            if name in self.elsewhere:
                raise ParameterError(f"{self.name} has no option {name!r}: {self.elsewhere[name]}")
            if name not in names:
                # from Python the grid is an argument of its own
                named = ["alpha" if known == "alpha_grid" else known for known in names]
                raise ParameterError(f"{self.name} has no option {name!r}{options.nearest(name, named)}")
        how = options.checked(self.options, asked)
        how |= {"out": None if out is None else options.data_file("out", out), "executor": executor}
        for option in self.options:
            if out is None and option.name in OF_A_FILE and how[option.name]:
                raise ParameterError(
                    f"{option.name}=True needs out, the name of a file: without it nothing is kept on disk"
                )
        name = f"bbp.{self.name}"
        with process.heeded(name), messages.messages(name, quiet=not progress), self._in_python():
            experiment = self._built(how, asked, *what)
            return obtain(experiment, how, "retry_failed=True")[0]

    @contextlib.contextmanager
    def _in_python(self) -> Iterator[None]:
        """Messages of errors with options as Python writes them: resume=True for --resume."""
        flags = {option.written: f"{option.name}=True" for option in self.options if option.flag}
        words = {option.written: option.name for option in self.options} | flags
        words = {word: text for word, text in words.items() if word not in OF_TASKS} | {
            "--save": "out",
            "--out": "out",
            "the same command": "the same call",
        }
        listed = "|".join(sorted(words, key=len, reverse=True))
        parts = re.compile(
            rf"(?<!\w)'[^']*'|(?<![\w/-])({listed})(?![\w-])"
        )  # what is quoted, such as a file, stays
        try:
            yield
        except (ParameterError, RunError, Interrupted) as error:
            error.args = tuple(
                parts.sub(lambda found: words.get(found[0], found[0]), part)
                if isinstance(part, str)
                else part
                for part in error.args
            )
            raise

    def experiment(self, asked: Mapping[str, Any], *what: Any) -> Any:
        """The experiment of these options (text or typed values), defaults filled in; ParameterError on a bad one."""
        return self._built(options.checked(self.options, asked), asked, *what)

    def _built(self, how: Mapping[str, Any], asked: Mapping[str, Any], *what: Any) -> Any:
        # Only now JAX and SciPy are imported: --help and wrong options are answered at once.
        return importlib.import_module(f"bbp.experiments.{self.name}").build(how, asked, *what)


def _plain(value: Any) -> Any:
    """Arrays and numbers of NumPy, JAX and xarray as lists and numbers, types of numbers as their names."""
    with contextlib.suppress(TypeError):  # a Dataset has no one array
        if isinstance(value, np.dtype | type):
            return value if np.dtype(value) == object else np.dtype(value).name
        if hasattr(value, "__array__"):
            return np.asarray(value).tolist()
    return list(value) if isinstance(value, tuple | range) else value


def carry_out(
    experiment: Experiment, how: Mapping[str, Any], then: Callable[[Any], None] | None = None
) -> int:
    """Run the experiment as the checked options say, and show it; 0 done, 1 if samples failed.

    how    `out` may be None, where a program need not write a file: nothing is kept then
    then   what else is done with what the file holds
    """
    if how["dry_run"]:
        program.show(describe(planned(experiment, how), how))
        return program.OK
    found, failed = obtain(
        experiment, how, "--retry-failed", lambda found: program.show(experiment.table(found))
    )
    if found is not None and then is not None:
        then(found)
    return program.FAILED if failed else program.OK


def obtain(
    experiment: Experiment,
    how: Mapping[str, Any],
    again: str,
    show: Callable[[Any], None] = lambda found: None,
) -> tuple[Any, bool]:
    """What the experiment gives, from its file or by running it, None of a task, which leaves parts; whether samples failed.

    how     the checked options; `out` None keeps nothing, `executor` runs the units
    again   the option that tries failed samples of a file again, for messages
    show    called with what there is, before it is said where it lies
    """
    run, said = planned(experiment, how), ""
    if run.out is None:
        found = run.in_memory()
    elif why := refusal(run, how, run.parallel):
        raise ParameterError(why)
    elif (found := run.existing()) is not None:
        run.clear(found)
        said = f"{run.out} was already finished: nothing to compute"
    elif (found := run.to_file()) is not None:
        said = f"wrote {run.out}"
    else:
        then = "when all are, the same command with --merge instead of --task writes the file"
        log.info("task %d of %d is done; %s", *how["task"], then)
        return None, False
    show(found)
    if said:
        log.info("%s", said)
    if whys := experiment.reasons(found):
        more = f" ({again} tries again)" if said else ""
        log.error("%d %s failed, the first because: %s%s", len(whys), experiment.unit_of, whys[0], more)
    return found, bool(whys)


def require_together(how: Mapping[str, Any]) -> None:
    """ParameterError on options of how to run that exclude each other."""
    if how.get("executor") is not None:
        for name in PLACES:
            if how[name] is not None:
                raise ParameterError(f"executor and {name} exclude each other: units run on the executor")
    for one, two in EXCLUDE:
        if how[one] not in (None, False) and how[two] not in (None, False):
            raise ParameterError(f"--{one} and --{two} exclude each other".replace("_", "-"))
    if how["partial"] and not how["merge"]:
        raise ParameterError("--partial is for --merge")
    if how["wait"] is not None and how["scheduler"] is None:
        raise ParameterError("--wait is for workers of a --scheduler")


def planned(experiment: Experiment, how: Mapping[str, Any]) -> Run:
    """The run that the checked options ask for; ParameterError on two that exclude each other.

    Without `processes`, `workers` or a place elsewhere it takes as many processes as there are cores, where that ends sooner.
    """
    from bbp.engine import executors  # late: --help needs none
    from bbp.engine.run import Run
    from sims.machine import allotted  # late: it brings JAX

    require_together(how)
    run = Run(experiment, **{each.name: how[each.name] for each in fields(Run) if each.name in how})
    scheduler, workers, executor = how["scheduler"], how["workers"], how.get("executor")
    run.hints = {name: how[name] for name in HINTS if how.get(name) is not None}
    compiled = None if run.merge else messages.cache_directory(how["cache"])
    messages.keep_programs(compiled)  # samples are timed in this process, too, whatever runs them later
    if executor is not None:
        run.work = nullcontext(partial(executors.results, executors.usable(executor)))
        run.parallel = ELSEWHERE
    elif scheduler is not None:
        run.work = executors.dask(scheduler, executors.PATIENCE if how["wait"] is None else how["wait"])
        run.parallel = ELSEWHERE
    elif workers is None and run.out is None and experiment.in_threads:
        run.hints["threads"] = how["processes"] or allotted()
        run.block = 4 * run.hints["threads"]
    elif workers is not None or not run.merge:
        run.parallel = workers or side_by_side(run, how)
        if workers or run.parallel > 1:
            run.work = executors.processes(run.parallel, compiled, gpu_each=workers is not None)
            # they share the cores already
            run.hints = ({"threads": 1} if "threads" in how else {}) | run.hints
    return run


def side_by_side(run: Run, how: Mapping[str, Any]) -> int:
    """Processes of this machine: as many as are wanted, or as end the work soonest.

    That is the cores, or fewer if the samples or the memory do not go round, where samples gain nothing from BLAS threads
    (`Cost.seconds`) and the work outlasts the start; else 1.
    """
    wanted = how["processes"]
    if wanted is not None:
        if wanted > 1 and messages.gpus():
            raise ParameterError(
                "processes share no GPU: --workers gives each its own (or set JAX_PLATFORMS=cpu)"
            )
        return wanted
    from sims.machine import allotted, free_bytes  # late: it brings JAX

    processes = allotted()
    if processes == 1 or messages.gpus():
        return 1
    total, samples = 0.0, 0
    for point, _, runs in run.pending():
        number = sum(stop - start for start, stop in runs)
        seconds = run.experiment.cost(point, run.hints).seconds
        if seconds is None:
            return 1
        total, samples = total + number * seconds, samples + number
    free = free_bytes()
    processes = max(1, min(processes, samples, processes if free is None else int(free / PROCESS_BYTES)))
    while processes > 1 and refusal(run, how, processes):
        processes -= 1
    return processes if processes > 1 and total > total / processes + START else 1


def refusal(run: Run, how: Mapping[str, Any], processes: int) -> str:
    """Why the largest units do not fit in memory here, with the bytes needed and what would fit; empty where they do.

    Workers elsewhere, or with a GPU each, look for themselves.
    """
    if how["scheduler"] is not None or (how["workers"] is not None and messages.gpus()):
        return ""
    try:
        run.experiment.check_memory(run.hints, 1 if how.get("executor") is not None else processes)
    except ParameterError as error:
        return str(error)
    return ""


def describe(run: Run, how: Mapping[str, Any]) -> str:
    """The text of --dry-run: units, memory, and an estimate of time from one sample timed here."""
    from sims.machine import allotted  # late: it brings JAX

    experiment, processes = run.experiment, run.parallel
    rows: dict[str, list[Any]] = {}
    work, closing, first = 0.0, 0.0, None
    for point, size, runs in run.pending():
        lengths, cost = [stop - start for start, stop in runs], experiment.cost(point, run.hints)
        samples, units = sum(lengths), sum(-(-length // size) for length in lengths)
        row = rows.setdefault(cost.row, [0, 0, 0, 0])
        row[:] = row[0] + 1, row[1] + samples, row[2] + units, cost.bytes
        work, closing = work + samples * cost.work, closing + cost.closing
        first = point if first is None and samples else first
    width, unit = max(map(len, rows), default=0), experiment.unit_of
    lines = [f"{'':{width}} {'points':>7} {unit:>12} {'units':>8} {'memory':>10}"]
    for name, (points, samples, units, held) in rows.items():
        memory = (PROCESS_BYTES + held) / 2**30
        lines.append(f"{name:{width}} {points:7d} {samples:12d} {units:8d} {memory:6.2f} GiB")
    samples, units = (sum(row[i] for row in rows.values()) for i in (1, 2))
    lines.append(f"{units} units, {samples} {unit}, file {str(run.out)!r}; memory is that of a process")
    share = f" in {processes} processes" if processes > 1 else ""
    scale, compiling = (0.0, 0.0) if first is None else _seconds(experiment, first)
    compiling *= len(rows)  # each has shapes of its own, which every process compiles
    fixed = compiling + (0.0 if run.task else closing / allotted())
    seconds = scale * work / processes + fixed + (START if processes > 1 else 0.0)
    compiled = f", {duration(compiling)} of them compiling," if compiling > seconds / 4 else ","
    lines.append(f"about {duration(seconds)}{share}{compiled} scaled from samples timed on this machine")
    if processes > 1 and scale * work + fixed < seconds:
        alone = duration(scale * work + fixed)
        lines.append(f"in one process about {alone}: they cost more here than they gain")
    if experiment.note:
        lines.append(experiment.note)
    if refused := refusal(run, how, processes):
        lines.append(f"would be refused on this machine as it is now: {refused}")
    return "\n".join(lines)


def _seconds(experiment: Experiment, point: Point) -> tuple[float, float]:
    """Seconds for a unit of `Cost.work`, and of compiling: samples are timed thrice, the first time they compile.

    Of small ones several, which share calls as those of a run do.
    """
    from bbp.engine.run import run_unit  # late, likewise

    small = experiment.cost(point, {}).probe
    work = experiment.cost(small, {}).work
    number = max(1, min(MOST_PROBES, experiment.samples, int(PROBE_SECONDS / work)))
    probe = experiment.unit(small, 0, number)
    times = [time.perf_counter()]
    for _ in range(3):
        run_unit(probe)
        times.append(time.perf_counter())
    first, *again = (later - earlier for earlier, later in pairwise(times))
    return min(again) / (number * work), max(first - min(again), 0.0)
