"""Gradient descent on the product of spheres against alpha, and the Hessian along it, into one HDF5 file.

Descents start from random students, from the outlier eigenvectors of the Hessian there, and from the classical
spectral method; the overlaps with the teacher, the loss and the lowest eigenpairs of the Hessian are recorded
on the way. The file is written whole or not at all; the same command finds a finished file and shows it, and points
finished before a run was stopped are kept for `--resume`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from bbp.analysis.recovery import THRESHOLD, Recovery, recovery
from bbp.console import grids, program, signals
from bbp.console.errors import FileError
from bbp.engine.descent_parts import DescentParts
from bbp.engine.lock import Lock, lock_path
from bbp.experiments import descent_file, sweep
from bbp.experiments.descent_file import DONE, FAILED, Descended
from bbp.files import atomic, outputs, provenance
from sims.descent.hessians import FRAMES
from sims.descent.path import Code, Descent
from sims.descent.samples import MEMORY, STARTS, Descents, bytes_needed, hessian_moments, sample_descents
from sims.instance import STREAM, samples_of
from theory.checks import ParameterError, choice, shown
from theory.model import Committee
from theory.transition import bbp_threshold

AUTO = "auto"
EXAMPLE = """  bbp descent                                              a first look at p = 2: about a minute
  bbp descent --p 1 --alpha-grid 0.5:6:12 --n 200 --samples 40 --start random --out results/p1.h5
  bbp plot results/descent.h5 --out descent.pdf"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bbp descent`."""
    add = parser.add_argument
    add(
        "--alpha-grid",
        metavar="GRID",
        default=AUTO,
        help=f"alpha = M/N: {grids.GRAMMAR} (default: 8 points from 0.5 to 4 alpha_BBP)",
    )
    add("--p", default="2", help="student width (default %(default)s)")
    add("--p-star", default="1", help="teacher width (default %(default)s)")
    add("--a", default="1.0", help="normalisation of the loss (default %(default)s)")
    add("--n", default="100", help="input dimensions N, such as 100,200 (default %(default)s)")
    add("--samples", default="16", help="samples a point (default %(default)s)")
    add("--seed", default="0", help="seed of all draws (default %(default)s)")
    add(
        "--start",
        default=",".join(STARTS),
        help="where descents start: random, hessian (its outlier eigenvectors at the random student), spectral (the optimal"
        " spectral method) (default %(default)s)",
    )
    add("--steps", default="1000", help="largest number of steps (default %(default)s)")
    add("--records", default="40", help="points of the path kept, log-spaced in steps (default %(default)s)")
    add("--hessians", default="8", help="points of the path with a Hessian (default %(default)s)")
    add("--eigenpairs", help="lowest eigenpairs kept of each Hessian; 0 for none (default p p* + 2)")
    add("--dtype", default="float64", help="float64 or float32 (default %(default)s)")
    add("--batch", help="samples descended together (default: 1 on a CPU, elsewhere as many as fit in 8 GiB)")
    add("--workers", help="threads, one batch each (default: one a core on a CPU, else 1)")
    add(
        "--threshold",
        default=str(THRESHOLD),
        help="a sample has recovered when the largest share of a student row in the teacher's span (m2 for p* = 1) ends above"
        " this (default %(default)s)",
    )
    add(
        "--out", default="results/descent.h5", metavar="FILE", help="HDF5 file to write (default %(default)s)"
    )
    add("--resume", action="store_true", help="go on from the finished points of a run that was stopped")
    add("--force", action="store_true", help="replace the file if it exists, discard an unfinished run")


def configuration(args: argparse.Namespace) -> dict[str, Any]:
    """What decides the numbers, checked (ParameterError), as plain data."""
    widths = grids.widths("p", args.p)
    if len(widths) != 1 or widths[0] == float("inf"):
        raise ParameterError(f"p must be one finite width, got {shown(args.p)}")
    model = Committee(widths[0], grids.integer("p_star", args.p_star), grids.number("a", args.a))
    rules = Descent(
        steps=grids.integer("steps", args.steps), records=grids.integer("records", args.records, 2)
    )
    pairs = (
        model.degeneracy + 2 if args.eigenpairs is None else grids.integer("eigenpairs", args.eigenpairs, 0)
    )
    found = {
        "p": int(model.p),
        "p_star": model.p_star,
        "a": model.a,
        "alpha_grid": list(_alphas(args.alpha_grid, model)),
        "n": sorted(grids.integers("n", args.n)),
        "samples": grids.integer("samples", args.samples),
        "seed": grids.seed(args.seed),
        "prng": STREAM,
        "start": _starts(args.start),
        "steps": rules.steps,
        "records": rules.records,
        "hessians": grids.integer("hessians", args.hessians, 2),
        "eigenpairs": int(pairs),
        "dtype": choice("dtype", args.dtype, sweep.DTYPES),
    }
    _check_sizes(model, found)
    return found


def run(args: argparse.Namespace) -> int:
    """Compute the descents, write them, and print their table."""
    wanted = configuration(args)
    threshold = grids.number("threshold", args.threshold)
    if threshold >= 1:
        raise ParameterError(f"threshold must be below 1, got {threshold!r}")
    path = outputs.destination(args.out)
    found = None if args.force else finished(path, wanted)
    if found is None:
        batch, workers = _count("batch", args.batch), _count("workers", args.workers)
        atomic.prepare_directory(path.parent)
        with Lock(lock_path(path), str(path)):
            parts = DescentParts(path)
            if args.force and not args.resume:
                parts.parts.discard()
            if parts.parts.exist() and not args.resume:
                raise FileError(
                    f"{str(path)!r} has an unfinished run: --resume goes on with it, --force starts afresh"
                )
            found = descents(wanted, threshold, batch=batch, workers=workers, parts=parts)
            descent_file.save(path, found)
            parts.parts.discard()
        program.log.info("wrote %s", path)
    else:
        program.log.info("%s was already finished: this is what it holds", path)
    program.show(table(found, threshold))
    failed = int(np.sum(found.status == FAILED))
    if failed:
        first = found.reason[found.status == FAILED][0]
        program.log.warning("%d of %d descents failed; the first: %s", failed, found.status.size, first)
    return program.FAILED if failed else program.OK


def finished(path: Path, wanted: dict[str, Any]) -> Descended | None:
    """The descents at `path` if they answer this configuration, None if nothing is there; else FileError."""
    if not path.exists():
        return None
    found = descent_file.load(path)
    apart = sweep.differences([found.config], [wanted])
    if apart:
        raise FileError(
            f"{str(path)!r} holds another run ({apart}): use --force to replace it, or another --out"
        )
    return found


def descents(
    wanted: dict[str, Any],
    threshold: float = THRESHOLD,
    *,
    batch: int | None = None,
    workers: int | None = None,
    parts: DescentParts | None = None,
) -> Descended:
    """The descents of a checked configuration; finished points are read from `parts` and added to them."""
    model = Committee(wanted["p"], wanted["p_star"], wanted["a"])
    rules = Descent(steps=wanted["steps"], records=wanted["records"])
    points = [
        (n, start, alpha) for n in wanted["n"] for start in wanted["start"] for alpha in wanted["alpha_grid"]
    ]
    began = time.monotonic()
    done = {} if parts is None else parts.begin(wanted)
    try:
        with (
            signals.keeping(lambda: _kept(parts, len(done), len(points))),
            program.Progress(len(points), unit="points", done=len(done)) as progress,
        ):
            for number, (n, start, alpha) in enumerate(points):
                if number in done:
                    continue
                done[number] = sample_descents(
                    model,
                    n,
                    alpha,
                    range(wanted["samples"]),
                    wanted["seed"],
                    start=start,
                    rules=rules,
                    eigenpairs=wanted["eigenpairs"],
                    hessians=wanted["hessians"],
                    dtype=wanted["dtype"],
                    batch=batch,
                    workers=workers,
                )
                if parts is not None:
                    parts.save(number, done[number])
                progress.advance(1, f"N = {n}, {start}, alpha = {alpha:g}")
    except KeyboardInterrupt:
        raise signals.stopped(_kept(parts, len(done), len(points))) from None
    edge = bbp_threshold(model)
    about = {
        "alpha_bbp": edge.alpha,
        "kind": edge.kind,
        "seed": wanted["seed"],
        "prng": STREAM,
        "dtype": wanted["dtype"],
        "device": jax.default_backend(),
        "threshold": threshold,
        "seconds": time.monotonic() - began,
    }
    ordered = [done[number] for number in range(len(points))]
    return _assembled(model, wanted, ordered, rules, about | provenance.record())


def _kept(parts: DescentParts | None, done: int, total: int) -> str:
    """What a stopped run has left behind, and how to go on."""
    if parts is None:
        return ""
    if not done:
        parts.parts.discard()
        return "no point was finished, nothing is kept"
    kept = f"{done} of {total} points are kept in {str(parts.parts.path)!r}"
    return f"{kept}: the same command with --resume goes on from there"


def table(found: Descended, threshold: float = THRESHOLD) -> str:
    """Recovery against alpha for each N and start, and where it begins."""
    model, edge = found.model, found.attributes
    lines = [
        f"p = {model.p}, p* = {model.p_star}, a = {model.a:g}: alpha_BBP = {found.alpha_bbp:.6g} ({edge['kind']})",
        f"recovered: final overlap above {threshold:g}; errors are those of the bootstrap over samples",
    ]
    for n in found.dims["n"].tolist():
        for start in found.dims["start"].tolist():
            lines += ["", *_rows(found, n, start, recovery(found, n, start, threshold))]
    return "\n".join(lines)


def _rows(found: Descended, n: int, start: str, seen: Recovery) -> list[str]:
    where = found.dims["n"].tolist().index(n), found.dims["start"].tolist().index(start)
    lines = [
        f"N = {n}, start {start}",
        f"{'alpha':>9}  {'m2 at start':>16}  {'m2 at end':>16}  {'recovered':>14}  {'converged':>9}",
    ]
    for i, alpha in enumerate(seen.alpha):
        done = np.mean(found.code[where][i] == Code.CONVERGED)
        first, last, share = seen.initial[i], seen.final[i], seen.success[i]
        lines.append(
            f"{alpha:9.4g}  {first.value:7.4f} ± {first.error:6.4f}  {last.value:7.4f} ± {last.error:6.4f}"
            f"  {share.value:6.3f} ± {share.error:5.3f}  {done:9.2f}"
        )
    middle = seen.midpoint
    lines.append(
        f"half of the samples recover at alpha = {_or_none(middle.value)} ± {_or_none(middle.error)}"
    )
    lines.append(f"the final m2 stays above that of random students from alpha = {_or_none(seen.onset)} on")
    return lines


def _or_none(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "-"


def _alphas(value: Any, model: Committee) -> tuple[float, ...]:
    if value == AUTO:
        centre = bbp_threshold(model).alpha
        return tuple(float(f"{centre * factor:.4g}") for factor in np.linspace(0.5, 4, 8))
    return grids.numbers("alpha", value)


def _count(name: str, value: str | None) -> int | None:
    return None if value is None else grids.integer(name, value)


def _starts(value: str) -> list[str]:
    names = value.split(",")
    for name in names:
        if name not in STARTS:
            raise ParameterError(
                f"start must be among {', '.join(STARTS)}, got {name!r}{program.nearest(name, list(STARTS))}"
            )
    if len(set(names)) < len(names):
        raise ParameterError(f"start names one start twice, got {shown(value)}")
    return names


def _check_sizes(model: Committee, found: dict[str, Any]) -> None:
    """Every point must exist, have the eigenpairs asked for, and fit one sample in memory."""
    for n in found["n"]:
        for alpha in (found["alpha_grid"][0], found["alpha_grid"][-1]):
            samples_of(alpha, n)
        if model.p_star > n:
            raise ParameterError(f"p_star must be at most n, got p_star = {model.p_star}, n = {n}")
        if found["eigenpairs"] > model.p * (n - 1):
            raise ParameterError(
                f"eigenpairs must be at most p (n - 1) = {model.p * (n - 1)}, got {found['eigenpairs']} at n = {n}"
            )
        need = bytes_needed(
            model,
            n,
            found["alpha_grid"][-1],
            batch=1,
            records=found["records"],
            dtype=found["dtype"],
            hessians=found["eigenpairs"] > 0,
        )
        if need > MEMORY:
            raise ParameterError(
                f"one descent at n = {n} needs {need / 2**30:.3g} GiB, the limit is {MEMORY / 2**30:.3g} GiB"
            )


def _assembled(
    model: Committee,
    wanted: dict[str, Any],
    parts: list[Descents],
    rules: Descent,
    attributes: dict[str, Any],
) -> Descended:
    lead = (len(wanted["n"]), len(wanted["start"]), len(wanted["alpha_grid"]))

    def gathered(name: str) -> NDArray[Any]:
        values = np.stack([getattr(part, name) for part in parts])
        return values.reshape(*lead, *values.shape[1:])

    code, reason = gathered("code"), gathered("reason")
    steps = np.asarray(rules.recorded_steps)
    moments = (
        hessian_moments(len(steps), wanted["hessians"]) if wanted["eigenpairs"] else np.zeros(0, np.int64)
    )
    dims = {
        "n": np.array(wanted["n"]),
        "start": np.array(wanted["start"], dtype=object),
        "alpha": np.array(wanted["alpha_grid"]),
        "sample": np.arange(wanted["samples"]),
        "step": steps,
        "student_row": np.arange(int(model.p)),
        "teacher_row": np.arange(model.p_star),
        "hessian_step": steps[moments],
        "frame": np.array(FRAMES, dtype=object),
        "eigenpair": np.arange(wanted["eigenpairs"]),
    }
    return Descended(
        model=model,
        dims=dims,
        overlap_matrix=gathered("overlap_matrix"),
        m2=gathered("m2"),
        projection=gathered("projection"),
        loss=gathered("loss"),
        gradient=gathered("gradient"),
        time=gathered("time"),
        steps_taken=gathered("steps"),
        eigenvalues=gathered("eigenvalues"),
        overlaps=gathered("overlaps"),
        status=np.where(reason == "", DONE, FAILED).astype(np.int8),
        code=code,
        reason=reason,
        config=wanted,
        attributes=attributes,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command `bbp descent`."""
    return program.program("descent", add_arguments, run, argv, summary=__doc__ or "", example=EXAMPLE)


if __name__ == "__main__":
    sys.exit(main())
