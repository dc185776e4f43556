"""The table that closes `bbp descent`: recovery against alpha, and where it begins."""

from __future__ import annotations

import numpy as np

from bbp.analysis.recovery import THRESHOLD, Recovery, recovery
from bbp.experiments.descent_file import DescentData
from sims.descent.path import Code


def table(found: DescentData, threshold: float = THRESHOLD) -> str:
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


def _rows(found: DescentData, n: int, start: str, seen: Recovery) -> list[str]:
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
