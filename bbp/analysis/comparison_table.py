"""The table of a comparison: samples beside both theories, crossings, alpha_0."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Mapping

import numpy as np
import xarray as xr

from bbp.analysis import given
from bbp.analysis.bootstrap import Estimate
from bbp.analysis.comparison import crossings, has_theory_n, zeros
from bbp.analysis.finite_size import Crossing
from bbp.analysis.summary import own_names
from bbp.experiments import models
from bbp.exports.digits import decimals, with_interval
from bbp.files import dataset
from theory.finite.validity import UNKNOWN, doubts

WIDTHS = {
    "alpha": 6,
    "runs": 4,
    "lowest": 10,
    "theory_N": 10,
    "edge": 7,
    "outlier": 7,
    "q2": 10,
    "q2_N": 10,
    "q2inf": 5,
    "phi": 19,
    "phi_N": 5,
}
COLUMNS = 104  # of a line, where no terminal says: longer ones go on in the next, wider rows in a block below
NARROWEST = 40
HEADS = {"q2_N": "theory_N"}  # where the head of a column is not its name
AT_N = ("theory_N", "q2_N", "phi_N")  # columns of finite-N theory
ONLY = "finite-N theory, here left out, is for the quadratic committee only"


def _line(cells: Mapping[str, str]) -> str:
    return " ".join(f"{cell:>{_wide(name)}}" for name, cell in cells.items())


def _wide(name: str) -> int:
    return WIDTHS.get(name, max(10, len(name)))


def table(comparison: xr.Dataset, columns: int | None = None) -> str:
    """The whole table of one model as text; numbers are mean ± bootstrap error over samples.

    columns   of a line; where not given as many as the terminal has
    """
    columns = max(columns or shutil.get_terminal_size((COLUMNS, 24)).columns, NARROWEST)
    at_n = has_theory_n(comparison)
    theory = "theory at this N and at N = infinity" if at_n else "theory at N = infinity"
    phi = f", phi_N that of theory at this N{_at_most(comparison)}" if at_n else ""
    lines = [
        f"{models.words(models.of(comparison))}: {models.threshold_words(comparison.alpha_bbp, comparison.kind)}, N = infinity",
        f"lowest eigenvalue, q2 of the p p* lowest eigenvectors: samples, {theory};",
        f"phi: share of runs in which these hold the largest q2, with its 95 % interval{phi}",
        "1.234(5) is 1.234 ± 0.005",
    ]
    if "theory_n_verdict" in comparison:
        lines.append("theory for these rows stands below, with its verdict")
    elif not models.of(comparison).is_committee:
        lines.append(ONLY)
    elif at_n and (said := doubts(models.of(comparison), comparison.alpha.values, comparison.n.values)):
        lines.append(f"{UNKNOWN}: {said}")
    shown = [name for name in WIDTHS if at_n or name not in AT_N] + own_names(comparison)
    head = {name: HEADS.get(name, name) for name in shown}
    for i, n in enumerate(comparison.n.values):
        rows = [
            _row(comparison, i, j)
            for j in range(comparison.sizes["alpha"])
            if comparison.samples.values[i, j]
        ]
        lines += ["", f"N = {n}"]
        for names in _blocks(shown, columns):
            lines += [_line({name: cells[name] for name in names}) for cells in (head, *rows)]
    if "theory_n_verdict" in comparison:
        lines += given.table(comparison)
    lines += [*_crossings(comparison), *_zeros(comparison)]
    return "\n".join(
        line if len(line) <= columns else textwrap.fill(line, columns, subsequent_indent="    ")
        for line in lines
    )


def _at_most(c: xr.Dataset) -> str:
    """How uncertain a share of so many draws can be, in words; nothing where their number is not known."""
    draws = dataset.config(c).get("draws")
    return f" (of {draws} draws: ± {0.5 / math.sqrt(draws):.2f} at most)" if draws else ""


def _blocks(names: list[str], columns: int) -> list[list[str]]:
    """The columns in blocks no wider than that, each of which begins with alpha."""
    blocks = [names[:1]]
    for name in names[1:]:
        if sum(_wide(one) + 1 for one in (*blocks[-1], name)) - 1 > columns:
            blocks.append(names[:1])
        blocks[-1].append(name)
    return blocks


def _row(c: xr.Dataset, i: int, j: int) -> dict[str, str]:
    at = {
        str(name): values.values[i, j]
        for name, values in c.data_vars.items()
        if values.dims == ("n", "alpha")
    }
    at |= {str(name): values.values[j] for name, values in c.variables.items() if values.dims == ("alpha",)}
    cells = {
        "alpha": f"{at['alpha']:.4g}",
        "runs": f"{at['samples']:d}",
        "lowest": _plain(at["lowest"], at["lowest_error"]),
        "edge": _number(at["theory_edge"], 4),
        "outlier": _number(at["theory_outlier"], 4),
        "q2": _plain(at["overlap"], at["overlap_error"]),
        "q2inf": _number(at["theory_overlap"], 3),
        "phi": _share(*(at[f"phi_group{part}"] for part in ("", "_low", "_high"))),
    }
    if has_theory_n(c):
        cells["theory_N"] = _plain(at["theory_n_lowest"], at["theory_n_lowest_error"])
        cells["q2_N"] = _plain(at["theory_n_overlap"], at["theory_n_overlap_error"])
        cells["phi_N"] = _number(at["theory_n_phi_group"], 2)
    return cells | {name: _plain(at[name], at[f"{name}_error"]) for name in own_names(c)}


def _crossings(c: xr.Dataset) -> list[str]:
    lines = []
    for crossing in crossings(c):
        where = _where(crossing, float(np.ptp(c.alpha.values)))
        lines.append(f"  N = {crossing.sizes[0]} and {crossing.sizes[1]}: alpha = {where}")
    return ["", f"crossings of phi (alpha_BBP = {c.alpha_bbp:.5g}):", *lines] if lines else []


def _where(crossing: Crossing, reach: float) -> str:
    """The crossing in words; "not determined", and why, where fits or interval say too little of the range."""
    if doubt := crossing.doubt(reach):
        return f"not determined ({doubt})"
    if not math.isfinite(crossing.found):
        return _estimate(crossing.alpha)
    return f"{_estimate(crossing.alpha)}, {crossing.found:.0%} of bootstrap fits cross"


def _zeros(c: xr.Dataset) -> list[str]:
    lines = [f"  samples, N = {n}: {_estimate(zero)}" for n, zero in zeros(c).items()]
    if not models.of(c).is_committee:  # both estimates of theory are the committee's
        return ["", "alpha_0:", *lines] if lines else []
    both = {method: c.attrs[f"alpha_zero_{method}"] for method in ("overlap", "continuation")}
    theory = ", ".join(f"{method} {_number(value, 5, 'no root')}" for method, value in both.items())
    return ["", f"alpha_0: {theory}", *lines]


def _estimate(e: Estimate) -> str:
    if not math.isfinite(e.value):
        return "none"
    if not math.isfinite(e.error):
        return f"{e.value:.4f} (too few samples for an error)"
    if e.doubt:
        return f"not determined ({e.doubt})"
    if not math.isfinite(e.low):
        return f"{e.value:.4f} ± {e.error:.4f} (too few samples for an interval)"
    return f"{e.value:.4f} ± {e.error:.4f} [{e.low:.4f}, {e.high:.4f}]"


def _share(value: float, low: float, high: float) -> str:
    """0.83 [.64, .93]: a share with its interval."""
    number, space, interval = with_interval(value, low, high).partition(" ")
    return number + space + interval.replace("0.", ".")


def _plain(value: float, error: float) -> str:
    """1.234(5), the error in units of the last digits; the value alone without an error."""
    if not math.isfinite(value):
        return "-"
    if not (math.isfinite(error) and error > 0):
        return f"{value:.4f}"
    if error > abs(value) and error > 1:
        return "not determ."
    places = max(decimals(error) or 0, 0)
    return f"{value:.{places}f}({round(error * 10**places):d})"


def _number(value: float, digits: int, missing: str = "-") -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else missing
