"""Phase diagram: alpha_BBP, its kind, the overlap jump, both alpha_0 and a_c over widths p and normalisations a."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp import store
from bbp.console import grids, program
from bbp.console.errors import FileError
from bbp.experiments import phase_file
from bbp.experiments.phase_file import Finite, Map, Phase
from bbp.files import atomic, outputs, provenance
from theory.alpha_zero import alpha_zero_map
from theory.checks import NotConverged, ParameterError
from theory.finite_n.threshold import alpha_bbp_finite
from theory.model import Committee
from theory.transition import critical_normalisation, critical_width, threshold_map

Array = NDArray[np.float64]

P, A_GRID = "1,2,4,inf", "0.01:3:60:log"
CUTS, WIDTHS = "0.5,1", "1,2,3,4,5,6,8,10,12,16,20,24,32,48,64,inf"
LEAST_N, MOST_N = 100, 10**12  # what alpha_bbp_finite takes
ROWS = 6  # rows of the closing table for each p

SUMMARY = (
    "Transitions alpha_BBP, their kind and overlap jump, alpha_0 and a_c over widths p and normalisations a."
)
EXAMPLE = """\
  bbp phase --p 1,2,4,inf --p-star 1 --a-grid 0.01:3:60:log --out phase.h5
  bbp phase --p 1,2 --at-a 0.5,1.5 --n 1e3,1e4,1e6 --out finite.h5
  bbp plot phase.h5 --out phase.pdf"""


def thresholds(p: Sequence[float], p_star: int, a: Sequence[float]) -> Map:
    """alpha_BBP, kind, jump and both alpha_0 on the product of widths p and normalisations a."""
    widths, normalisations = np.array(p, dtype=np.float64), np.array(a, dtype=np.float64)
    models = widths[:, None], p_star, normalisations
    found = threshold_map(*models)
    return Map(
        p=widths,
        a=normalisations,
        alpha_bbp=found.alpha,
        discontinuous=found.discontinuous,
        jump=found.overlap,
        alpha_0_overlap=alpha_zero_map(*models, method="overlap"),
        alpha_0_continuation=alpha_zero_map(*models, method="continuation"),
    )


def tricritical(p: Sequence[float], p_star: int) -> tuple[Array, Array]:
    """(a_c, alpha_BBP at a_c) for each width p; for p = inf their limits, 0 and p_star/2."""
    widths = np.array(p, dtype=np.float64)
    a_c = critical_normalisation(widths, p_star)
    alpha_c = np.full(a_c.shape, p_star / 2)
    finite = np.isfinite(widths)
    alpha_c[finite] = threshold_map(widths[finite], p_star, a_c[finite]).alpha
    return a_c, alpha_c


def finite_thresholds(
    p: Sequence[float], p_star: int, a: Sequence[float], n: Sequence[int], *, draws: int, seed: int
) -> Finite:
    """The transition at finite N from quenched draws of labels, for every n, finite p and a; NaN where none is found.

    A failed point (no threshold found, or a model too large for memory) is told in a warning, and the others go on.
    """
    alpha, error = np.full((2, len(n), len(p), len(a)), math.nan)
    points = [
        (row, column) for row, width in enumerate(p) for column in range(len(a)) if math.isfinite(width)
    ]
    with program.Progress(len(n) * len(points), unit="thresholds at finite N") as progress:
        for index, size in enumerate(n):
            for row, column in points:
                model = Committee(p[row], p_star, a[column])
                try:
                    found = alpha_bbp_finite(model, size, draws=draws, seed=seed)
                    alpha[index, row, column], error[index, row, column] = found.alpha, found.error
                except (NotConverged, ParameterError, MemoryError, ArithmeticError) as failure:
                    program.log.warning("N = %d, %s: %s", size, store.describe(model), failure)
                progress.advance(note=f"N = {size:.3g}")
    return Finite(np.array(n, dtype=np.int64), np.array(a, dtype=np.float64), alpha, error)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `bbp phase`."""
    add = parser.add_argument
    add(
        "--p",
        default=P,
        metavar="LIST",
        help="student widths, a comma list; inf allowed (default %(default)s)",
    )
    add("--p-star", default=1, metavar="INT", help="teacher width (default %(default)s)")
    add(
        "--a-grid",
        default=A_GRID,
        metavar="GRID",
        help=f"normalisations: {grids.GRAMMAR} (default %(default)s)",
    )
    add(
        "--at-a",
        default=CUTS,
        metavar="GRID",
        help="normalisations of the cuts against p (default %(default)s)",
    )
    add("--widths", default=WIDTHS, metavar="LIST", help="student widths of the cuts (default 1 to 64, inf)")
    add(
        "--n",
        metavar="LIST",
        help="input dimensions, such as 1e3,1e6: thresholds at finite N for every p at --at-a",
    )
    add("--draws", default=100, metavar="INT", help="draws of labels for each of those (default %(default)s)")
    add("--seed", default=0, metavar="INT", help="seed of those draws (default %(default)s)")
    add("--out", default="results/phase.h5", metavar="FILE", help="HDF5 file to write (default %(default)s)")
    add("--force", action="store_true", help="replace the file if it exists")


def run(args: argparse.Namespace) -> int:
    """Compute the phase diagram, write it, and print its table."""
    config = configuration(args)
    path = outputs.destination(args.out)
    phase = None if args.force else finished(path, config)
    if phase is None:
        atomic.prepare_directory(path.parent)
        phase = diagram(config)
        phase_file.save(path, phase)
        program.log.info("wrote %s", path)
    else:
        program.log.info("%s is already finished: this is what it holds", path)
    program.show(table(phase))
    return program.OK


def configuration(args: argparse.Namespace) -> dict[str, Any]:
    """What decides the numbers, checked (ParameterError), as plain data."""
    n = [] if args.n is None else sorted(grids.integers("n", args.n, LEAST_N))
    if n and n[-1] > MOST_N:
        raise ParameterError(f"n must be at most {MOST_N:.0e}, got {n[-1]:.3g}")
    return {
        "p": widths_record("p", args.p),
        "p_star": grids.integer("p_star", args.p_star),
        "a_grid": list(grids.numbers("a", args.a_grid)),
        "at_a": list(grids.numbers("at_a", args.at_a)),
        "widths": widths_record("widths", args.widths),
        "n": n,
        "draws": grids.integer("draws", args.draws, 2),
        "seed": grids.seed(args.seed),
    }


def widths_record(name: str, value: str) -> list[int | str]:
    """Widths in rising order as JSON knows them: integers, and "inf" in words."""
    return ["inf" if math.isinf(width) else int(width) for width in sorted(grids.widths(name, value))]


def finished(path: Path, config: dict[str, Any]) -> Phase | None:
    """The phase diagram at `path` if it answers this configuration, None if nothing is there; else FileError."""
    if not path.exists():
        return None
    phase = phase_file.load(path)
    for name in config:
        if phase.config.get(name) != config[name]:
            raise FileError(f"{str(path)!r} has another {name}: use --force to replace it, or another --out")
    return phase


def diagram(config: dict[str, Any]) -> Phase:
    """The phase diagram of a checked configuration."""
    p, p_star = [float(width) for width in config["p"]], config["p_star"]
    a_c, alpha_c = tricritical(p, p_star)
    finite = None
    if config["n"]:
        draws, seed = config["draws"], config["seed"]
        finite = finite_thresholds(p, p_star, config["at_a"], config["n"], draws=draws, seed=seed)
    return Phase(
        p_star=p_star,
        curves=thresholds(p, p_star, config["a_grid"]),
        a_c=a_c,
        alpha_c=alpha_c,
        p_c=np.array([_critical_width(a, p_star) for a in config["a_grid"]], dtype=np.int64),
        widths=thresholds([float(width) for width in config["widths"]], p_star, config["at_a"]),
        finite=finite,
        config=config,
        attributes=provenance.record(),
    )


def _critical_width(a: float, p_star: int) -> int:
    """critical_width, or 0 where it is beyond what that function counts to."""
    try:
        return int(critical_width(a, p_star))
    except ParameterError:
        return 0


def table(phase: Phase) -> str:
    """A few rows for each p, spread over a, and the tricritical point of each."""
    head = f"{'a':>9}  {'alpha_BBP':>12}  {'kind':<13}  {'jump':>8}  {'alpha_0 (overlap)':>17}  {'(continuation)':>14}"
    curves, lines = phase.curves, []
    chosen = np.unique(np.linspace(0, curves.a.size - 1, min(ROWS, curves.a.size)).round().astype(int))
    for row, p in enumerate(curves.p):
        lines += [
            f"p = {p:g}, p* = {phase.p_star}: {tricritical_words(phase.a_c[row], phase.alpha_c[row])}",
            head,
        ]
        for column in chosen:
            cells = [
                f"{curves.a[column]:9.4g}",
                f"{curves.alpha_bbp[row, column]:12.10g}",
                f"{curves.kind[row, column]:<13}",
                f"{curves.jump[row, column]:8.5f}",
                _or_dash(curves.alpha_0_overlap[row, column], 17),
                _or_dash(curves.alpha_0_continuation[row, column], 14),
            ]
            lines.append("  ".join(cells))
        lines.append("")
    if phase.finite is not None:
        lines += finite_table(phase.finite, curves.p)
        if np.isinf(curves.p).any():
            lines += ["p = inf has no threshold at finite N: its labels have no finite-p fluctuation", ""]
    lines.append(f"shown: {chosen.size} of {curves.a.size} a for each p; the file holds all")
    return "\n".join(lines)


def finite_table(finite: Finite, p: Array) -> list[str]:
    """Lines of the thresholds at finite N, one for each N, p and a."""
    lines = [f"{'N':>12}  {'p':>4}  {'a':>9}  {'alpha_BBP(N)':>12}  {'error':>9}"]
    for index, row, column in zip(*np.nonzero(np.isfinite(finite.alpha)), strict=True):
        values = finite.alpha[index, row, column], finite.error[index, row, column]
        where = f"{finite.n[index]:12d}  {p[row]:4g}  {finite.a[column]:9.4g}"
        lines.append(f"{where}  {values[0]:12.6f}  {values[1]:9.6f}")
    return [*lines, ""]


def tricritical_words(a_c: float, alpha_c: float) -> str:
    """Where the kind changes, in words."""
    if a_c == 0:
        return "discontinuous at every a"
    if not math.isfinite(a_c):
        return "continuous at every a"
    return f"continuous below a_c = {a_c:.9g}, discontinuous above; alpha_BBP(a_c) = {alpha_c:.9g}"


def _or_dash(value: float, width: int) -> str:
    return f"{'-' if math.isnan(value) else f'{value:.6f}':>{width}}"


def main(argv: Sequence[str] | None = None) -> int:
    """The program `bbp phase`."""
    return program.program("phase", add_arguments, run, argv, summary=SUMMARY, example=EXAMPLE)


if __name__ == "__main__":
    sys.exit(main())
