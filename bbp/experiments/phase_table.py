"""The table that closes `bbp phase`: a few rows for each p, the tricritical points, and thresholds at finite N."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bbp.experiments import models
from bbp.experiments.phase_file import Finite, Phase

Array = NDArray[np.float64]
ROWS = 6  # rows of the table for each p


def table(phase: Phase) -> str:
    """A few rows for each p, spread over a, and the tricritical point of each."""
    curves, lines = phase.curves, []
    network = " ".join(
        f"{name}={models.short(value)}" for name, value in models.special(phase.config).items()
    )
    head = f"{'a':>9}  {'alpha_BBP':>12}  {'kind':<13}  {'jump':>8}  {'alpha_0 (overlap)':>17}"
    if not network:
        head += f"  {'(continuation)':>14}"
    chosen = np.unique(np.linspace(0, curves.a.size - 1, min(ROWS, curves.a.size)).round().astype(int))
    for row, p in enumerate(curves.p):
        more = network or tricritical_words(phase.a_c[row], phase.alpha_c[row])
        lines += [f"p = {p:g}, p* = {phase.p_star}: {more}", head]
        for column in chosen:
            cells = [
                f"{curves.a[column]:9.4g}",
                _or_dash(curves.alpha_bbp[row, column], 12, ".10g"),
                f"{curves.kind[row, column]:<13}",
                _or_dash(curves.jump[row, column], 8, ".5f"),
                _or_dash(curves.alpha_0_overlap[row, column], 17),
                "" if network else _or_dash(curves.alpha_0_continuation[row, column], 14),
            ]
            lines.append("  ".join(cells).rstrip())
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


def _or_dash(value: float, width: int, digits: str = ".6f") -> str:
    return f"{'-' if math.isnan(value) else f'{value:{digits}}':>{width}}"
