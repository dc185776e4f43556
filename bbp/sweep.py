"""Sample the Hessian over alpha beside the theory, into one HDF5 file.

Draws teachers, students and data at each (n, alpha), finds the lowest eigenpairs of the Hessian and their squared
overlaps q2 with the teacher, and stores them with the theory at N = infinity. The file is written whole or not at all;
the same command finds a finished file and shows it; an unfinished run goes on with --resume.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bbp.analysis import summary
from bbp.console import grids, program
from bbp.console.program import log
from bbp.engine import estimate
from bbp.engine import run as engine
from bbp.experiments import sweep as config
from bbp.experiments.schedule import Division
from bbp.files import outputs
from bbp.files.hdf5 import Locking
from theory.checks import ParameterError, shown

EXAMPLE = """  bbp sweep --alpha-grid                         a first look: 11 alphas around alpha_BBP, under a minute
  bbp sweep --alpha-grid 0.5:2:16 --p 2 --a 0.3 --n 400,800 --samples 32 --out results/p2.h5
  bbp sweep --config sweep.toml --workers 4 --resume
  bbp sweep --config sweep.toml --task 3/10      one of ten tasks of a job array; then the same with --merge"""
FLAGS = ("task", "merge", "partial", "resume", "retry_failed", "force", "dry_run")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options. Values stay text here: `config` and this module check them as they check a TOML file's."""
    parser.add_argument("--config", metavar="FILE.toml", help="options by name; the command line wins")
    what = parser.add_argument_group("what to compute (lists make a product)")
    _option(
        what,
        "--alpha-grid",
        f"alpha = M/N: {grids.GRAMMAR}; no value, or no option: 11 points around the model's alpha_BBP",
        metavar="GRID",
        nargs="?",
        const=config.AUTO,
    )
    _option(what, "--p", "student widths, such as 1,2,4 (1)")
    _option(what, "--p-star", "teacher widths (1)")
    _option(what, "--a", "normalisations of the loss, such as 0.5,1 (1.0)")
    _option(what, "--a-grid", "the same, as a grid", metavar="GRID")
    _option(what, "--n", "input dimensions N, such as 200,400 (400)")
    _option(what, "--samples", "samples a point (16); at most so many with --target-error")
    _option(
        what, "--seed", "of the sweep (0); a sample depends on seed, n, alpha and its number, nothing else"
    )
    _option(
        what,
        "--eigenpairs",
        "how many of the lowest eigenpairs to keep (default and least: p p* + 4)",
        metavar="K",
    )
    _option(what, "--dtype", "float64 or float32 (float64)")
    _option(what, "--solver", f"{', '.join(config.SOLVERS)} (auto)")
    _option(
        what,
        "--target-error",
        "stop sampling a point when the standard errors of its lowest eigenvalue and its q2 are both at most E",
        metavar="E",
    )
    _option(
        what,
        "--refine",
        "rounds of refinement: halve the step of alpha where q2 changes most (0)",
        metavar="R",
    )
    how = parser.add_argument_group("how to compute it (changes no number)")
    _option(how, "--out", "the file to write (results/sweep.h5)", metavar="FILE.h5")
    _option(how, "--block", "samples a unit of work (as many as take some seconds)")
    _option(how, "--batch", "samples diagonalised together (chosen by memory)")
    _option(
        how, "--workers", "processes of a local dask cluster; one GPU each where there are GPUs", metavar="N"
    )
    _option(how, "--scheduler", "address of a dask scheduler, such as tcp://host:8786", metavar="ADDRESS")
    _option(how, "--task", "run part I of N (from 1), as a task of a job array", metavar="I/N")
    _option(how, "--locking", "file locks of HDF5 when reading: true, false, best-effort (HDF5's choice)")
    _option(how, "--cache", "keep compiled programs here for the next run or task (nowhere)", metavar="DIR")
    for flag, text in {
        "--merge": "write the file from what tasks have left",
        "--partial": "with --merge: even if samples are missing",
        "--resume": "go on with an unfinished run, or start one",
        "--retry-failed": "run failed samples again",
        "--force": "replace an existing file, discard an unfinished run",
        "--dry-run": "print units, memory and an estimate of time, compute nothing",
    }.items():
        how.add_argument(flag, action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    """Carry out the command; 0 done, 1 if samples failed."""
    options = _options(args)
    wanted, how = config.build(options), execution(options)
    if args.dry_run:
        program.show(estimate.describe(wanted, how))
        return program.OK
    estimate.check_memory(wanted, how)
    before = engine.existing(wanted, how)
    sweeps = before or engine.sweep(wanted, how)
    if sweeps is None:
        number = f"{how.division.index} of {how.division.count}"
        log.info(
            "task %s is done; when all are, the same command with --merge instead of --task writes the file",
            number,
        )
        return program.OK
    program.show("\n\n".join(summary.table(sweep) for sweep in sweeps))
    if before:
        log.info("%s was already finished: nothing to compute", how.out)
    else:
        log.info("wrote %s", how.out)
    return program.FAILED if engine.report_failures(sweeps) else program.OK


def execution(options: Mapping[str, Any]) -> engine.Execution:
    """How to run, from options by name; ParameterError on a bad one or on two that exclude each other."""
    given = (
        config.EXECUTION
        | dict.fromkeys(FLAGS)
        | {k: v for k, v in options.items() if k not in config.DEFAULTS}
    )
    _exclude(given, ("task", "merge"), ("workers", "scheduler"), ("task", "workers"), ("task", "scheduler"))
    _exclude(given, ("task", "force"), ("merge", "force"), ("task", "retry_failed"))
    if given["partial"] and not given["merge"]:
        raise ParameterError("--partial is for --merge")
    if given["task"] and options.get("refine") not in (None, 0, "0"):
        raise ParameterError("--refine looks at the whole sweep: run it without --task")
    index, count = _task(given["task"]) if given["task"] is not None else (1, 1)
    workers = _count(given, "workers")
    return engine.Execution(
        out=outputs.destination(given["out"]),
        division=Division(_count(given, "block"), _count(given, "batch"), workers or 1, index, count),
        workers=workers,
        scheduler=_text(given, "scheduler"),
        locking=_locking(given["locking"]),
        cache=_directory(given, "cache"),
        task=given["task"] is not None,
        **{name: bool(given[name]) for name in ("merge", "partial", "resume", "retry_failed", "force")},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command `bbp sweep`."""
    return program.program("sweep", add_arguments, run, argv, summary=__doc__ or "", example=EXAMPLE)


def _option(group: Any, flag: str, text: str, **more: Any) -> None:
    group.add_argument(flag, help=text, default=argparse.SUPPRESS, **more)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Options of the configuration file, overridden by those of the command line."""
    typed = {k: v for k, v in vars(args).items() if k not in ("config", "quiet", "verbose", "dry_run")}
    stored = config.read_toml(args.config) if args.config is not None else {}
    for name, other in (("a", "a_grid"), ("a_grid", "a"), ("workers", "scheduler"), ("scheduler", "workers")):
        if name in typed:
            stored.pop(other, None)
    return stored | typed


def _exclude(given: Mapping[str, Any], *pairs: tuple[str, str]) -> None:
    for one, two in pairs:
        if given[one] not in (None, False) and given[two] not in (None, False):
            raise ParameterError(f"--{one} and --{two} exclude each other".replace("_", "-"))


def _task(text: Any) -> tuple[int, int]:
    parts = str(text).split("/")
    if len(parts) == 2 and all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        index, number = int(parts[0]), int(parts[1])
        if 1 <= index <= number:
            return index, number
    raise ParameterError(f"task must be I/N with 1 <= I <= N, got {shown(text)}")


def _count(given: Mapping[str, Any], name: str) -> int | None:
    return None if given[name] is None else grids.integer(name, given[name])


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given[name]
    if value is not None and (not isinstance(value, str) or not value):
        raise ParameterError(f"{name} must be text, got {shown(value)}")
    return value


def _directory(given: Mapping[str, Any], name: str) -> str | None:
    value = _text(given, name)
    if value is None:
        return None
    if "\0" in value or (outputs.home(value).exists() and not outputs.home(value).is_dir()):
        raise ParameterError(f"{name} must be the name of a directory, got {shown(value)}")
    return str(outputs.home(value))


def _locking(value: Any) -> Locking:
    choices: dict[Any, Locking] = {"true": True, "false": False, "best-effort": "best-effort"}
    if value is None or isinstance(value, bool):
        return value
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(f"locking must be true, false or best-effort, got {shown(value)}")
    return choices[value]


if __name__ == "__main__":
    sys.exit(main())
