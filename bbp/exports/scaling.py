"""Tables of a comparison's fits: crossings of phi, laws of the edge's shift, alpha_0 of samples.

A number that the samples do not determine is left out here as in the printed table, and a verdict says why: the rules are
those of bbp.analysis.finite_size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bbp.analysis import comparison_file
from bbp.analysis.bootstrap import NOTHING, Estimate
from bbp.analysis.comparison import Comparison
from bbp.analysis.finite_size import LAWS
from bbp.exports.columns import Column, Table


def scaling_tables(path: str | Path) -> dict[str, Table]:
    """The tables of the comparison file at `path` by name: "crossings", "shifts", "alpha_zero"."""
    found = comparison_file.load(path)
    made: Mapping[str, Callable[[Comparison], list[Column]]] = {
        "crossings": _crossings,
        "shifts": _shifts,
        "alpha_zero": _zeros,
    }
    return {name: Table(name, tuple(columns(found))) for name, columns in made.items()}


def _crossings(c: Comparison) -> list[Column]:
    found, reach = c.crossings, float(np.ptp(c.alpha))
    doubts = [each.doubt(reach) for each in found]
    return [
        Column("crossing_n_small", _whole(each.sizes[0] for each in found), about="the smaller size"),
        Column("crossing_n_large", _whole(each.sizes[1] for each in found), about="the larger size"),
        _estimates("crossing_alpha", [e.alpha for e in found], doubts, "where phi crosses"),
        _verdicts("crossing_verdict", [e.alpha for e in found], doubts),
        Column(
            "crossing_found",
            np.array([each.found for each in found]),
            about="share of bootstrap fits that cross",
        ),
    ]


def _shifts(c: Comparison) -> list[Column]:
    fits = [fit for _, _, fit in c.shifts]
    free = [Estimate(fit.exponent, fit.exponent_error, math.nan, math.nan) for fit in fits]
    exponents = [each if not each.doubt else NOTHING for each in free]
    columns = [
        Column("shift_alpha", np.array([alpha for alpha, _, _ in c.shifts]), about="M/N"),
        Column("shift_kind", _words(kind for _, kind, _ in c.shifts), about="kind of the edge"),
        Column("shift_preferred", _words(f.preferred for f in fits), about="law of the smaller chi-square"),
        Column("shift_decisive", _whole(f.decisive for f in fits), about="1 where that is decisive"),
        Column("shift_degrees", _whole(f.degrees for f in fits), about="degrees of freedom of each fit"),
    ]
    for law in LAWS:
        chi2 = np.array([fit.chi2[law] for fit in fits])
        columns.append(Column(f"shift_chi2_{law}", chi2, about="chi-square of the fit"))
    columns.append(
        Column(
            "shift_exponent",
            np.array([each.value for each in exponents]),
            np.array([each.error for each in exponents]),
            "exponent of the free fit; left out where its error exceeds it",
        )
    )
    for law in LAWS:
        value, error = (np.array([getattr(f, part)[law] for f in fits]) for part in ("coefficient", "error"))
        columns.append(Column(f"shift_coefficient_{law}", value, error, "coefficient of the fitted law"))
    return columns


def _zeros(c: Comparison) -> list[Column]:
    found = list(c.alpha_zero_sampled.values())
    doubts = [each.doubt for each in found]
    return [
        Column("alpha_zero_n", _whole(c.alpha_zero_sampled), about="input dimension N"),
        _estimates("alpha_zero_sampled", found, doubts, "alpha_0 of samples"),
        _verdicts("alpha_zero_verdict", found, doubts),
    ]


def _estimates(name: str, found: Sequence[Estimate], doubts: Sequence[str], about: str) -> Column:
    """A column of estimates with errors and intervals, NaN where there is a doubt."""
    shown = [NOTHING if doubt else each for each, doubt in zip(found, doubts, strict=True)]
    value, error, low, high = (
        np.array([getattr(each, part) for each in shown]) for part in ("value", "error", "low", "high")
    )
    return Column(name, value, error, about, (low, high))


def _verdicts(name: str, found: Sequence[Estimate], doubts: Sequence[str]) -> Column:
    words = (
        f"not determined: {doubt}" if doubt else "determined" if math.isfinite(each.value) else "none"
        for each, doubt in zip(found, doubts, strict=True)
    )
    return Column(name, _words(words), about="whether the samples determine it, and why not")


def _whole(values: Any) -> Any:
    return np.array(list(values), dtype=np.int64)


def _words(values: Any) -> Any:
    return np.array(list(values), dtype=object)
