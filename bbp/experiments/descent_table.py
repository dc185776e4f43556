"""The table that closes `bbp descent`: recovery against alpha, and where it begins."""

from __future__ import annotations

import numpy as np

from bbp.analysis.recovery import THRESHOLD, Recovery, recovery
from bbp.experiments import models
from bbp.experiments.descent_file import DescentData
from bbp.exports.digits import with_interval
from sims.descent.path import Code


def table(found: DescentData, threshold: float = THRESHOLD) -> str:
    """Recovery against alpha for each N and start, and where it begins."""
    model, edge = found.model, found.attributes
    lines = [
        f"{models.words(model)}: {models.threshold_words(found.alpha_bbp, edge['kind'])}",
        f"recovered: final overlap above {threshold:g}; means with bootstrap errors, shares with 95 % intervals",
    ]
    for n in found.dims["n"].tolist():
        for start in found.dims["start"].tolist():
            lines += ["", *_rows(found, n, start, recovery(found, n, start, threshold))]
    return "\n".join([*lines, *_unfinished(found)])


def _unfinished(found: DescentData) -> list[str]:
    """A line where descents ran out of steps before they converged: what they ended at is not where they go."""
    ended, limit = found.code[found.code >= 0], np.sum(found.code == Code.STEP_LIMIT)
    if not limit:
        return []
    steps = f"{found.dims['step'][-1]} steps"
    return ["", f"{limit} of {ended.size} descents had not converged after {steps}: --steps gives them more"]


def _rows(found: DescentData, n: int, start: str, seen: Recovery) -> list[str]:
    where = found.dims["n"].tolist().index(n), found.dims["start"].tolist().index(start)
    lines = [
        f"N = {n}, start {start}",
        f"{'alpha':>9}  {'m2 at start':>16}  {'m2 at end':>16}  {'recovered':>17}  {'converged':>9}",
    ]
    for i, alpha in enumerate(seen.alpha):
        done = np.mean(found.code[where][i] == Code.CONVERGED)
        first, last, share = seen.initial[i], seen.final[i], seen.success[i]
        lines.append(
            f"{alpha:9.4g}  {first.value:7.4f} ± {first.error:6.4f}  {last.value:7.4f} ± {last.error:6.4f}"
            f"  {with_interval(share.value, share.low, share.high):>17}  {done:9.2f}"
        )
    middle = seen.midpoint
    lines.append(
        f"half of the samples recover at alpha = {_or_none(middle.value)} ± {_or_none(middle.error)}"
    )
    lines.append(f"the final m2 stays above that of random students from alpha = {_or_none(seen.onset)} on")
    return lines


def _or_none(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "-"
