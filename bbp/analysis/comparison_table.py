"""The table of a comparison: samples beside both theories, crossings, laws of the edge's shift, alpha_0."""

from __future__ import annotations

import math

from bbp.analysis.bootstrap import Estimate
from bbp.analysis.comparison import Comparison
from bbp.store import describe

_HEAD = (
    f"{'alpha':>8} {'samples':>7} {'lowest eigenvalue':>20} {'quenched':>18} {'edge':>9} {'outlier':>9} "
    f"{'q2':>16} {'quenched':>16} {'theory':>7} {'phi':>16} {'gap':>17}"
)


def table(comparison: Comparison) -> str:
    """The whole table of one model as text; numbers are mean ± bootstrap error over samples."""
    lines = [
        f"{describe(comparison.model)}: alpha_BBP = {comparison.alpha_bbp:.6g} ({comparison.kind}), N = infinity",
        "quenched: mean over draws of labels at this N; phi: the p p* lowest hold the largest overlap",
    ]
    for i, n in enumerate(comparison.n):
        lines += ["", f"N = {n}", _HEAD]
        lines += [_row(comparison, i, j) for j in range(len(comparison.alpha)) if comparison.samples[i, j]]
    return "\n".join([*lines, *_crossings(comparison), *_shifts(comparison), *_zeros(comparison)])


def _row(c: Comparison, i: int, j: int) -> str:
    q = c.quenched
    cells = [
        f"{c.alpha[j]:8.5g}",
        f"{c.samples[i, j]:7d}",
        f"{_measured(c, 'lowest', i, j):>20}",
        f"{_plain(q.lowest[i, j], q.lowest_error[i, j]) if q else '-':>18}",
        f"{_number(c.edge[j], 4):>9}",
        f"{_number(c.outlier[j], 4):>9}",
        f"{_measured(c, 'overlap', i, j):>16}",
        f"{_plain(q.overlap[i, j], q.overlap_error[i, j]) if q else '-':>16}",
        f"{_number(c.overlap[j], 4):>7}",
        f"{_measured(c, 'phi_group', i, j):>16}",
        f"{_measured(c, 'gap', i, j):>17}",
    ]
    return " ".join(cells)


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
    if not math.isfinite(value):
        return "-"
    return f"{value:.4f}" if not math.isfinite(error) else f"{value:.4f} ± {error:.4f}"


def _number(value: float, digits: int, missing: str = "-") -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else missing
