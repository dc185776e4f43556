"""Descents as a Dataset: gradient descents, their overlaps with the teacher, and the Hessians along the way.

    n, alpha, sample, start      coordinates; start is "random", "hessian", "spectral", "overlap:M"
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
                                 plain Hessian, with --theory (sims.descent.theory); NaN where there is none or it was
                                 not asked. Files of before have annealed_* in place of the latter: students at these overlaps,
                                 independent of the data
    status, code, reason         (n, start, alpha, sample): 0 not run, 1 done, 2 failed; how it ended
                                 (sims.descent.path.Code); why it failed
    attributes                   p, p_star, a, alpha_bbp, kind, seed, dtype, device, threshold, versions (JSON), commit,
                                 created, seconds, finished, config (JSON)

In the file (`bbp.files.dataset`) conditioned_edge is /conditioned/edge and config is /config.
"""

from __future__ import annotations

from bbp.files import table
from bbp.files.table import Field

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
        Field(f"{route}_{part}", ("sample", "hessian_step"), optional=True)
        for route, parts in {
            "quenched": ("edge", "outlier", "overlap"),
            "conditioned": ("edge", "lowest", "lowest_error", "overlap", "overlap_error"),
        }.items()
        for part in parts
    ),
    table.STATUS,
    Field("code", ("sample",), "i1", -1),
    table.REASON,
)
