"""The options of the programs that run experiments, each declared once. Imports nothing heavy: --help is quick.

A row serves command line, TOML file, help, check and record (bbp.console.options). An option that decides the numbers is
in the experiment's settings under its name, and in the record of its file, as soon as it stands here.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bbp.console.options import (
    GRAMMAR,
    Option,
    Read,
    choice,
    data_file,
    directory,
    integer,
    integers,
    number,
    numbers,
    path,
    seed,
    text,
    truth,
    widths,
)  # fmt: skip
from bbp.experiments import models, own
from bbp.files import variables
from theory.checks import ParameterError, normalisation, shown

AUTO = "auto"
# The modules of sims/solvers by name, none of them imported: --help does not wait for JAX.
SOLVERS = (AUTO, *sorted(path.stem for path in Path(__file__).parents[2].glob("sims/solvers/[a-z]*.py")))
STARTS = ("random", "hessian", "spectral")
DYNAMICS = ("flow", "steps")
MOST_SAMPLES = 10**6  # at a point
MOST_DRAWS = 10**6
MOST_PROCESSES = 10**4
MOST_REFINED = 1000
MOST_FLOW_ALPHA = 100  # steps of flows are the shorter the larger alpha is
MOST_COUNTED = 1e4  # alpha: the law of minima is narrower than theory's nodes long before
LEAST_N, MOST_N = 100, 10**12  # what theory.finite.threshold takes


def alphas(name: str, value: Any) -> Any:
    """AUTO, or a grid of alpha."""
    return AUTO if value is True or value == AUTO else list(numbers("alpha", value))


def rising(read: Read, most: float = math.inf) -> Read:
    """A reader of what `read` gives, several numbers, in rising order and up to `most`."""

    def bounded(name: str, value: Any) -> list[Any]:
        found = sorted(read(name, value))
        if found[-1] > most:
            raise ParameterError(f"{name} must be at most {most:g}, got {found[-1]:g}")
        return found

    return bounded


def finite_widths(name: str, value: Any) -> list[int]:
    """Student widths that can be sampled, in the order given."""
    found = widths(name, value)
    if float("inf") in found:
        raise ParameterError(f"{name} must be finite to sample, got inf (bbp phase knows p = inf)")
    return [int(width) for width in found]


def finite_width(name: str, value: Any) -> int:
    """One student width that can be sampled."""
    found, *more = finite_widths(name, value)
    if more:
        raise ParameterError(f"{name} must be one finite width, got {shown(value)}")
    return found


def any_widths(name: str, value: Any) -> list[int | str]:
    """Widths in rising order as JSON knows them: integers, and "inf" in words."""
    return ["inf" if width == float("inf") else int(width) for width in sorted(widths(name, value))]


def starts(name: str, value: Any) -> Any:
    """Where descents start: different names of STARTS, overlap:M of one number M, those of one's own, or AUTO."""
    if isinstance(value, str) and value == AUTO:
        return AUTO
    if isinstance(value, list) and value and not any(isinstance(one, str) or callable(one) for one in value):
        value = own.read(name, value)  # students in numbers
    given = value.split(",") if type(value) is str else value if isinstance(value, list) else [value]
    names = [start if _is_overlap(start) else own.read(name, start) or start for start in given]
    if not names:
        raise ParameterError(f"{name} must be one start at least, got {shown(value)}")
    for start in names:
        if isinstance(start, own.Text):
            continue
        if _is_overlap(start):
            if not abs(number(f"{name} overlap:M", start.removeprefix("overlap:"))) <= 1:
                raise ParameterError(f"{name} overlap:M must lie between -1 and 1, got {shown(start)}")
        else:
            choice(*STARTS, "overlap:M")(name, start)
    if len(set(names)) < len(names):
        raise ParameterError(f"{name} names one start twice, got {shown(value)}")
    return names


def observables(name: str, value: Any) -> list[str] | None:
    """Observables of one's own, of different names: functions, or FILE.py:NAME with commas between them."""
    each = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    found: dict[str, str] = {}
    for one in each:
        named = own.read(name, one)
        if not isinstance(named, own.Text):
            raise ParameterError(f"{name} must be a function or FILE.py:NAME, got {shown(one)}")
        short = named.short
        if short == "<lambda>":
            raise ParameterError(f"{name} must be a function with a name (def NAME): a lambda has none")
        if not short.isidentifier() or variables.words_of(short) or short.startswith(variables.PREFIXES):
            raise ParameterError(
                f"{name} must have a name of its own: {shown(short)} is that of a variable of files, as are all that begin"
                f" with {', '.join(variables.PREFIXES)}"
            )
        if short in found:
            raise ParameterError(f"{name} must be functions of different names, got {short!r} twice")
        found[short] = named
    return list(found.values()) or None


def _is_overlap(start: Any) -> bool:
    return isinstance(start, str) and start.startswith("overlap:")


def normalisations(name: str, value: Any) -> list[float]:
    """A grid of values of a that a model may have."""
    name = "a" if name == "a_grid" else name
    return [normalisation(name, a) for a in numbers(name, value)]


def some_draws(name: str, value: Any) -> int:
    """A number of draws: none, or enough for an error."""
    found = integer(0, MOST_DRAWS)(name, value)
    if found == 1:
        raise ParameterError(f"{name} must be 0 or an integer of at least 2, got {shown(value)}")
    return found


def task(name: str, value: Any) -> tuple[int, int]:
    """Part I of N, from 1."""
    parts = str(value).split("/")
    if len(parts) == 2 and all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        index, number = int(parts[0]), int(parts[1])
        if 1 <= index <= number:
            return index, number
    raise ParameterError(f"{name} must be I/N with 1 <= I <= N, got {shown(value)}")


def locking(name: str, value: Any) -> bool | str:
    """h5py's switch."""
    if isinstance(value, bool):
        return value
    found = choice("true", "false", "best-effort")(name, value)
    return found if found == "best-effort" else found == "true"


def processes(name: str, value: Any) -> int | None:
    """How many; None for AUTO."""
    return None if value == AUTO else integer(1, MOST_PROCESSES)(name, value)


def seconds(name: str, value: Any) -> float:
    """A length of time; inf allowed."""
    return math.inf if value in ("inf", math.inf) else number(name, value)


def cache(name: str, value: Any) -> str:
    """A directory, or "none"."""
    return value if value == "none" else directory(name, value)


def fraction(name: str, value: Any) -> float:
    """A number between 0 and 1."""
    found = number(name, value)
    if found >= 1:
        raise ParameterError(f"{name} must be below 1, got {found!r}")
    return found


def execution(out: str | Option, *more: Option) -> tuple[Option, ...]:
    """How to run any experiment: the same options in every program, `more` of its own among them.

    out   where the file goes if nothing is said, or the option that says where
    """
    if isinstance(out, str):
        out = Option("out", out, data_file, "the file to write", metavar="FILE.h5")
    rows = (
        out,
        Option("block", None, integer(1, MOST_SAMPLES), "samples a unit of work (as many as take some seconds)"),
        *more,
        Option(
            "processes", AUTO, processes,
            "processes on this machine, one core each (auto: the cores allotted, where that ends sooner)", metavar="N",
        ),
        Option(
            "workers", None, integer(1, MOST_PROCESSES),
            "processes on this machine, each with a GPU of its own where there are GPUs", metavar="N",
        ),
        Option("scheduler", None, text, "address of a dask scheduler, such as tcp://host:8786", metavar="ADDRESS"),
        Option(
            "wait", None, seconds, "how long workers of the scheduler are waited for; inf: for ever (600)",
            metavar="SECONDS",
        ),
        Option("task", None, task, "run part I of N (from 1), as a task of a job array", metavar="I/N"),
        Option("locking", None, locking, "file locks of HDF5 when reading: true, false, best-effort (HDF5's choice)"),
        Option(
            "cache", None, cache,
            "keep compiled programs here; none: nowhere (BBP_CACHE, or hessian-bbp in the user's cache directory)",
            metavar="DIR",
        ),
        *(
            Option(name, False, truth, words, flag=True)
            for name, words in {
                "merge": "write the file from what tasks have left",
                "partial": "with --merge: even if samples are missing",
                "resume": "go on with an unfinished run, or start one",
                "retry_failed": "run failed samples again",
                "force": "replace an existing file, discard an unfinished run",
                "dry_run": "print units, memory and an estimate of time, compute nothing",
            }.items()
        ),
    )  # fmt: skip
    return tuple(replace(row, decides=False) for row in rows)


BATCH = Option("batch", None, integer(1, MOST_SAMPLES), "samples held together (chosen by memory)")
SAMPLES = integer(1, MOST_SAMPLES)
SWEEP = (
    Option(
        "alpha_grid", AUTO, alphas,
        f"alpha = M/N: {GRAMMAR}; no value, or auto: 11 points around the model's alpha_BBP",
        metavar="GRID", empty=AUTO,
    ),
    Option("p", 1, finite_widths, "student widths, such as 1,2,4"),
    Option("p_star", 1, lambda name, value: list(integers(name, value)), "teacher widths"),
    Option("a", 1.0, rising(numbers), "normalisations of the loss, such as 0.5,1"),
    Option("a_grid", None, rising(numbers), "the same, as a grid", metavar="GRID", alias="a"),
    *models.MODEL,
    Option("n", 400, rising(integers), "input dimensions N, such as 200,400"),
    Option("samples", 16, SAMPLES, "samples a point; at most so many with --target-error"),
    Option("seed", 0, seed, "of the sweep; a sample depends on seed, n, alpha, dtype and its number, nothing else"),
    Option(
        "eigenpairs", None, integer(), "how many of the lowest eigenpairs to keep (default and least: p p* + 4)",
        metavar="K",
    ),
    Option("dtype", "float64", choice("float64", "float32"), "float64 or float32"),
    Option("solver", AUTO, choice(*SOLVERS), ", ".join(SOLVERS)),
    Option(
        "target_error", None, number,
        "stop sampling a point when the standard errors of its lowest eigenvalue and its q2 are both at most E",
        metavar="E",
    ),
    Option(
        "refine", 0, integer(0, MOST_REFINED), "rounds of refinement: halve the step of alpha where q2 changes most",
        metavar="R",
    ),
    Option(
        "observable", None, observables,
        f"numbers kept of each sample, or of each of its eigenpairs, beside the overlaps: {models.OWN}, functions of some of"
        " values, vectors, teacher, student (docs/tutorials/own_network.md), with commas between them",
        metavar="NAME",
    ),
    *execution("results/sweep.h5", BATCH),
)  # fmt: skip
DESCENT = (
    Option(
        "alpha_grid", AUTO, alphas, f"alpha = M/N: {GRAMMAR}; auto: 8 points from 0.5 to 4 alpha_BBP",
        metavar="GRID", empty=AUTO,
    ),
    Option("p", 2, finite_width, "student width"),
    Option("p_star", 1, integer(), "teacher width"),
    Option("a", 1.0, number, "normalisation of the loss"),
    *models.MODEL,
    Option("n", 100, rising(integers), "input dimensions N, such as 100,200"),
    Option("samples", 16, SAMPLES, "samples a point"),
    Option("seed", 0, seed, "seed of all draws"),
    Option(
        "start", AUTO, starts,
        "where descents start: random (the drawn student, at --overlap), hessian (the lowest eigenvectors there), spectral"
        " (the optimal spectral method; for y = mean u^2 without noise or covariance), overlap:M (rows at the overlap M with"
        " the teacher's, else as drawn); auto: the first three, as far as they hold for the model; "
        f"{models.OWN} (students (p, N) or (samples, p, N), or a function of some of teacher, student, data, y, sample)",
    ),
    Option(
        "dynamics", "flow", choice(*DYNAMICS),
        "flow: gradient flow, integrated to a stated error; steps: gradient descent in steps of at most 1 / L (L the largest"
        " curvature)",
    ),
    Option("steps", 3000, integer(), "largest number of steps; of the flow, of gradients"),
    Option(
        "loss_floor", 0.0, models.variance,
        "stop a descent, too, where the loss per sample is at most this; 0: only where its gradient is 1e-6", metavar="E",
    ),
    Option("records", 40, integer(2), "points of the path kept, log-spaced in steps"),
    Option("hessians", 8, integer(2, MOST_SAMPLES), "points of the path with a Hessian"),
    Option("eigenpairs", None, integer(0), "lowest eigenpairs kept of each Hessian; 0 for none (default p p* + 2)"),
    Option(
        "theory", False, truth,
        "keep what theory says of each of those Hessians: given the labels, and given also the forces that the descent has used"
        " (a second each)", flag=True,
    ),
    Option("dtype", "float64", choice("float64", "float32"), "float64 or float32"),
    *execution(
        "results/descent.h5",
        BATCH,
        Option("threads", None, integer(1, MOST_PROCESSES), "threads, one batch each (one a core on a CPU, else 1)"),
        Option(
            "threshold", 0.5, fraction,
            "a sample has recovered when the largest share of a student row in the teacher's span (m2 for p* = 1) ends"
            " above this",
        ),
    ),
)  # fmt: skip
PHASE = (
    Option("p", "1,2,4,inf", any_widths, "student widths, a comma list; inf allowed", metavar="LIST"),
    Option("p_star", 1, integer(), "teacher width"),
    Option("a_grid", "0.01:3:60:log", normalisations, f"normalisations: {GRAMMAR}", metavar="GRID"),
    *models.MODEL,
    Option("at_a", "0.5,1", normalisations, "normalisations of the cuts against p", metavar="GRID"),
    Option(
        "widths", "1,2,3,4,5,6,8,10,12,16,20,24,32,48,64,inf", any_widths, "student widths of the cuts",
        metavar="LIST",
    ),
    Option(
        "n", None, rising(partial(integers, minimum=LEAST_N), MOST_N),
        "input dimensions, such as 1e3,1e6: thresholds at finite N for every p at --at-a",
        metavar="LIST",
    ),
    Option("draws", 100, integer(2, MOST_DRAWS), "draws of labels for each of those"),
    Option(
        "time", None, rising(numbers, MOST_FLOW_ALPHA),
        "alphas, such as 1.5:5:8: the time at which gradient flow loses the outlier, for every finite p at --at-a (seconds"
        " each)", metavar="GRID",
    ),
    Option(
        "minima", None, rising(numbers, MOST_COUNTED),
        "alphas, such as 2:6:9: how many minima the loss has at every --at-a, and from which alpha on they are unstable towards"
        " the teacher (p = p* = 1; some seconds each)", metavar="GRID",
    ),
    Option("seed", 0, seed, "seed of those draws, and of the flows"),
    *execution("results/phase.h5"),
)  # fmt: skip
COMPARE = (
    Option("draws", 64, some_draws, "draws of labels for the finite-N theory; 0 leaves it out"),
    Option("repeats", 1000, integer(100, MOST_DRAWS), "bootstrap repeats, at least 100"),
    Option("seed", 0, seed, "of the bootstrap and of the labels"),
    *execution(
        Option(
            "save", None, data_file, "file of the numbers to write (one model only); draws are kept beside it and can resume",
            metavar="FILE.h5",
        ),
        Option("out", None, path, "figure to draw: .png, .pdf, .svg, .eps or .pgf", metavar="FIG"),
        Option("width", "double", choice("single", "double"), "columns of print"),
        *(
            Option(
                name, None, models.READERS[name],
                f"where the {name.replace('_', ' ')} of one's own lies, for finer curves of the figure, if not where FILE.h5"
                " says", metavar="FILE" if name == "inputs" else "FILE.py:NAME",
            )
            for name in own.KINDS
        ),
    ),
)  # fmt: skip
