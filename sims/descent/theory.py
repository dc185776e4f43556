"""What theory says of the Hessian at the students of a descent, from less and less that is taken for free.

    quenched     the students' preactivations are known, and with them the weight of every sample; the data outside the span of
                 teacher and students are taken for Gaussian and independent (`theory.finite.quenched`; quadratic committees)
    conditioned  the forces that the descent has used are known too: the data are Gaussian but orthogonal to them
                 (`theory.path.conditioned`; any network, inputs without covariance)

The descent keeps the sum of all its forces (`sims.dynamics.state`), and its students at some moments, from which theirs follow.
A start from eigenvectors has used data as well: H v = lambda v says v = X' (F X v) / lambda, forces like the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sims.backend import pinned
from sims.descent import hessians as landscape
from sims.descent import starts
from sims.instance import Instance, outputs
from theory.checks import NotConverged, ParameterError
from theory.finite.quenched import quenched
from theory.model.network import Network
from theory.path import closure, conditioned, force

Array = NDArray[np.float64]
PARTS = {
    "quenched": ("edge", "outlier", "overlap"),
    "conditioned": ("edge", "lowest", "lowest_error", "overlap", "overlap_error"),
}
RECORDS = 64  # of those before a moment, whose forces are conditioned on
NAMES = tuple(f"{route}_{part}" for route, parts in PARTS.items() for part in parts)


class Before(NamedTuple):
    """What a start has used of the data: forces (M, b), and further vectors (c, N) that it was made of."""

    forces: Array
    vectors: Array


@pinned
def predicted_along(
    instance: Instance,
    students: Array,
    totals: Array,
    moments: Sequence[int],
    y: Array | None = None,
    start: str | object = "random",
) -> dict[str, Array]:
    """What theory says of the plain Hessian at some `moments` (T,) of a descent of an instance drawn with its data.

    students (R, p, N) at all records; totals (R, p, M) the sums of the forces used until then (`sims.descent.path.Path.used`)
    y (M,) outputs of the teacher with noise; start as in `sims.descent.samples.sample_descents`

    Returns each of NAMES as an array (T,), in units of the Hessian, NaN where there is no such theory: quenched outliers that
    do not exist, other models, a spectrum without a left edge, a start that may have used the data in any way.
    """
    model = instance.model
    data = np.asarray(instance.data, np.float64)[: instance.m]
    teacher, y = np.asarray(instance.teacher, np.float64), outputs(instance) if y is None else y
    moved = [0, *(r for r in range(1, len(students)) if not np.array_equal(students[r], students[r - 1]))]
    before = used_by(start, instance, y)
    rows: dict[int, tuple[float, ...]] = {}
    for at in {max(r for r in moved if r <= moment) for moment in moments}:
        earlier = [r for r in moved if r < at]
        spread = np.unique(np.rint(np.linspace(0, max(len(earlier) - 1, 0), RECORDS)).astype(int))
        kept = [force(model, data @ students[earlier[i]].T, y) for i in spread if earlier]
        kept += [totals[at].T[: instance.m]] if at else []
        rows[at] = quenched_at(model, data, teacher, students[at])
        if before is None:
            rows[at] += (np.nan,) * len(PARTS["conditioned"])
            continue
        others = np.concatenate([students[0], before.vectors])
        rows[at] += conditioned_at(model, data, teacher, students[at], [*kept, before.forces], others, y)
    found = [rows[max(r for r in moved if r <= moment)] for moment in moments]
    return dict(zip(NAMES, np.array(found).reshape(-1, len(NAMES)).T, strict=True))


def quenched_at(model: Network, data: Array, teacher: Array, student: Array) -> tuple[float, float, float]:
    """Edge, lowest outlier and overlap of the labels of one student (p, N); NaN for other models than quadratic committees."""
    plain, rows, n = replace(model, overlap=0.0, gram=None), np.concatenate([teacher, student]), data.shape[1]
    if not plain.is_committee:
        return np.nan, np.nan, np.nan
    try:
        found = quenched(plain, data @ student.T, data @ teacher.T, n, rows @ rows.T / n)
    except (NotConverged, ParameterError):
        return np.nan, np.nan, np.nan
    return found.edge, float(found.outliers[0]), float(found.overlaps[0])


def conditioned_at(
    model: Network, data: Array, teacher: Array, student: Array, forces: list[Array], others: Array, y: Array
) -> tuple[float, ...]:
    """Edge, lowest eigenvalue and its overlap, these with errors, given forces and other vectors used; NaN where not known."""
    try:
        found = conditioned(model, closure(data, teacher, student, forces, others), y)
    except (NotConverged, ParameterError):
        return (np.nan,) * len(PARTS["conditioned"])
    return found.edge, found.lowest, found.lowest_error, found.overlap, found.overlap_error


def used_by(start: object, instance: Instance, y: Array) -> Before | None:
    """What a start has used of the data; None where that is not known, as of a function."""
    drawn, data = (
        np.asarray(instance.student, np.float64),
        np.asarray(instance.data, np.float64)[: instance.m],
    )
    if start == "spectral":
        directions = starts.spectral_directions(data, y, instance.model.p_star)
        return Before(starts.OPTIMAL(y)[:, None] * (data @ directions.T), np.concatenate([drawn, directions]))
    if start == "hessian":
        wanted = min(drawn.size, len(drawn) * instance.model.p_star)
        vectors = landscape.lowest_plain(instance, drawn, y, wanted).vectors.T.reshape(-1, *drawn.shape)
        weights = instance.model.weights(data @ drawn.T, y)
        used = [np.einsum("mij,mj->mi", weights, data @ vector.T) for vector in vectors]
        return Before(np.concatenate(used, axis=1), np.concatenate([drawn, *vectors]))
    return Before(np.empty((len(data), 0)), drawn[:0]) if isinstance(start, str) else None
