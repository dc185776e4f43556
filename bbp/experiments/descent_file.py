"""Descents as a Dataset: gradient descents, their overlaps with the teacher, and the Hessians along the way.

    n, alpha, sample, start      coordinates; start is "random", "hessian", "spectral", "overlap:M", or the name of one's own
                                 (config has the hash of its source)
    step, hessian_step           steps at which the path, and the Hessians along it, were recorded (a sample that has
                                 converged before repeats its end)
    student_row, teacher_row, frame, eigenpair   the other dimensions; frame is "plain" or "riemannian"
    overlap_matrix               (n, start, alpha, sample, step, student_row, teacher_row) w_k . w*_l / N
    m2, projection               (n, start, alpha, sample, step) max_kl m_kl^2 and max_k sum_l m_kl^2
    loss, gradient               the same shape: loss, and |Riemannian gradient| / sqrt(N)
    time, steps_taken            the same shape: time of gradient flow, and steps
    eigenvalues, overlaps        (n, start, alpha, sample, hessian_step, frame, eigenpair) lowest pairs and q2
    quenched_*                   (n, start, alpha, sample, hessian_step) edge, outlier, overlap
    conditioned_*                the same shape: edge, lowest, lowest_error, overlap, overlap_error: what theory says of the
                                 plain Hessian, with --theory (sims.descent.hessians); NaN where there is none or it was
                                 not asked. Files of before have annealed_* in place of the latter: students at these overlaps,
                                 independent of the data
    status, code, reason         (n, start, alpha, sample): 0 not run, 1 done, 2 failed; how it ended
                                 (sims.dynamics.state.End); why it failed
    attributes                   p, p_star, a, alpha_bbp, kind, seed, dtype, device, threshold, versions (JSON), commit,
                                 created, seconds, finished, config (JSON)

In the file (`bbp.files.dataset`) conditioned_edge is /conditioned/edge and config is /config.

`table` closes `bbp descent`: recovery against alpha, what became of the rest, and where recovery begins.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from bbp.analysis.estimates import matched, with_interval
from bbp.analysis.recovery import THRESHOLD, recovery
from bbp.engine.tasks import REASON, STATUS, Field
from bbp.experiments import models

FORMAT = "bbp-descent"
OUTER = ("n", "start", "alpha")  # the axes of the points
_PATH = ("sample", "step")
_HESSIANS = ("sample", "hessian_step", "frame", "eigenpair")
# What each sample gives.
COLUMNS = (
    Field("overlap_matrix", (*_PATH, "student_row", "teacher_row")),
    *(Field(name, _PATH) for name in ("m2", "projection", "loss", "gradient", "time")),
    Field("steps_taken", _PATH, "i8", -1),
    Field("eigenvalues", _HESSIANS),
    Field("overlaps", _HESSIANS),
    *(
        Field(f"{route}_{part}", ("sample", "hessian_step"))
        for route, parts in {
            "quenched": ("edge", "outlier", "overlap"),
            "conditioned": ("edge", "lowest", "lowest_error", "overlap", "overlap_error"),
        }.items()
        for part in parts
    ),
    STATUS,
    Field("code", ("sample",), "i1", -1),
    REASON,
)


def table(found: xr.Dataset, threshold: float = THRESHOLD) -> str:
    """Recovery against alpha for each N and start, and where it begins."""
    lines = [
        f"{models.words(models.of(found))}: {models.threshold_words(found.alpha_bbp, found.kind)}",
        f"recovered: final overlap above {threshold:g}; elsewhere: ended below; moving: below, out of steps;",
        "means with bootstrap errors, shares with 95 % intervals",
    ]
    for n in found.n.values.tolist():
        for start in found.start.values.tolist():
            lines += ["", *_rows(found, n, start, recovery(found, n, start, threshold))]
    return "\n".join(lines)


def _rows(found: xr.Dataset, n: int, start: str, seen: xr.Dataset) -> list[str]:
    lines = [
        f"N = {n}, start {start}",
        f"{'alpha':>9}  {'m2 at start':>16}  {'m2 at end':>16}  {'recovered':>20}  {'elsewhere':>9}  {'moving':>6}",
    ]
    for i, alpha in enumerate(seen.alpha.values):
        at = {name: float(values) for name, values in seen.isel(alpha=i).data_vars.items()}
        share = with_interval(at["success"], at["success_low"], at["success_high"])
        lines.append(
            f"{alpha:9.4g}  {at['initial']:7.4f} ± {at['initial_error']:6.4f}  {at['final']:7.4f} ± {at['final_error']:6.4f}"
            f"  {share:>20}  {at['elsewhere']:9.2f}  {at['moving']:6.2f}"
        )
    lines += _half(found, seen)
    onset = f"{float(seen.onset):.4g}" if np.isfinite(seen.onset) else "-"
    lines.append(f"the final m2 stays above that of random students from alpha = {onset} on")
    return lines


def _half(found: xr.Dataset, seen: xr.Dataset) -> list[str]:
    """Where half of the samples recover; between where and where if some still move, which may yet."""
    share, moving, alpha = seen.success.values, seen.moving.values, seen.alpha.values
    late = _place(float(seen.midpoint), float(seen.midpoint_error), alpha, share)
    if not np.any(moving > 0):
        return [f"half of the samples recover {late}"]
    middle, error = float(seen.midpoint_if_moving_recover), float(seen.midpoint_if_moving_recover_error)
    early = _place(middle, error, alpha, share + moving)
    steps = found.step.values[-1]
    return [
        f"half of the samples recover {early} if all do that still moved after {steps} steps,",
        f"{late} if none does: --steps gives them more",
    ]


def _place(middle: float, error: float, alpha: np.ndarray, share: np.ndarray) -> str:
    if not np.isfinite(middle):
        below = np.isfinite(share[0]) and share[0] > 0.5
        return f"below alpha = {alpha[0]:g}" if below else f"not up to alpha = {alpha[-1]:g}"
    if not np.isfinite(error):
        return f"near alpha = {middle:.3g} (too near an end of the grid for an error)"
    return "at alpha = " + " ± ".join(matched(middle, error))
