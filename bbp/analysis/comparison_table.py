"""The table of a comparison: samples beside both theories, crossings, laws of the edge's shift, alpha_0."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bbp.analysis.bootstrap import Estimate
from bbp.analysis.comparison import Comparison
from bbp.exports.text import decimals
from bbp.store import describe

_WIDTHS = (7, 5, 12, 11, 8, 8, 10, 10, 6, 9, 5)
_NAMES = ("alpha", "runs", "lowest", "theory_N", "edge", "outlier", "q2", "theory_N", "q2inf", "phi", "phi_N")


def _line(cells: Sequence[str]) -> str:
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))


def table(comparison: Comparison) -> str:
    """The whole table of one model as text; numbers are mean ± bootstrap error over samples."""
    lines = [
        f"{describe(comparison.model)}: alpha_BBP = {comparison.alpha_bbp:.6g} ({comparison.kind}), N = infinity",
        "lowest eigenvalue and q2 of the p p* lowest eigenvectors: samples, theory at this N, theory at N = infinity;",
        "phi: share of runs in which these hold the largest q2, and that of theory at this N; 1.234(5) is 1.234 ± 0.005",
    ]
    for i, n in enumerate(comparison.n):
        lines += ["", f"N = {n}", _line(_NAMES)]
        lines += [_row(comparison, i, j) for j in range(len(comparison.alpha)) if comparison.samples[i, j]]
    return "\n".join([*lines, *_crossings(comparison), *_shifts(comparison), *_zeros(comparison)])


def _row(c: Comparison, i: int, j: int) -> str:
    q = c.quenched
    return _line(
        (
            f"{c.alpha[j]:.5g}",
            f"{c.samples[i, j]:d}",
            _measured(c, "lowest", i, j),
            _plain(q.lowest[i, j], q.lowest_error[i, j]) if q else "-",
            _number(c.edge[j], 4),
            _number(c.outlier[j], 4),
            _measured(c, "overlap", i, j),
            _plain(q.overlap[i, j], q.overlap_error[i, j]) if q else "-",
            _number(c.overlap[j], 3),
            _measured(c, "phi_group", i, j),
            _number(q.present[i, j], 2) if q else "-",
        )
    )


def _crossings(c: Comparison) -> list[str]:
    lines = []
    for crossing in c.crossings:
        share = f", {crossing.found:.0%} of bootstrap fits cross" if math.isfinite(crossing.found) else ""
        where = _estimate(crossing.alpha) + share
        lines.append(f"  N = {crossing.sizes[0]} and {crossing.sizes[1]}: alpha = {where}")
    return ["", f"crossings of phi (alpha_BBP = {c.alpha_bbp:.5g}):", *lines] if lines else []


def _shifts(c: Comparison) -> list[str]:
    lines = []
    for alpha, kind, fit in c.shifts:
        verdict = f"{fit.preferred} law preferred{', decisively' if fit.decisive else ', not decisively'}"
        chi2 = ", ".join(f"chi2({law}) = {value:.3g}" for law, value in fit.chi2.items())
        free = (
            ""
            if math.isnan(fit.exponent)
            else f", free exponent {fit.exponent:.3f} ± {fit.exponent_error:.3f}"
        )
        lines.append(f"  alpha = {alpha:.5g} ({kind} edge): {verdict}; {chi2} on {fit.degrees} degrees{free}")
    head = "shift of the lowest eigenvalue from the edge below alpha_BBP, N^(-2/3) (power) against 1/log N (logarithm):"
    return ["", head, *lines] if lines else []


def _zeros(c: Comparison) -> list[str]:
    theory = ", ".join(f"{method} {_number(value, 5, 'no root')}" for method, value in c.alpha_zero.items())
    lines = [f"  samples, N = {n}: {_estimate(zero)}" for n, zero in c.alpha_zero_sampled.items()]
    return ["", f"alpha_0: {theory}", *lines]


def _measured(c: Comparison, name: str, i: int, j: int) -> str:
    return _plain(c.measured[name]["value"][i, j], c.measured[name]["error"][i, j])


def _estimate(e: Estimate) -> str:
    if not math.isfinite(e.value):
        return "none"
    if not math.isfinite(e.error):
        return f"{e.value:.4f} (too few samples for an error)"
    if e.error > abs(e.value):
        return "not determined (its error is larger than itself)"
    if not math.isfinite(e.low):
        return f"{e.value:.4f} ± {e.error:.4f} (too few samples for an interval)"
    return f"{e.value:.4f} ± {e.error:.4f} [{e.low:.4f}, {e.high:.4f}]"


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
