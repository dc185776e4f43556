"""What theory says of the Hessian at the students of a descent, from less and less knowledge of the data.

    annealed   the overlaps of the students with the teacher and with one another, and nothing else: N = infinity theory of
               students drawn at those overlaps, independent of the data (`theory.model.network`)
    quenched   the students' own preactivations too: the weight of every sample is known, and the part of the data outside the
               span of teacher and students is taken for Gaussian (`theory.finite.quenched`; quadratic committees only)

Both take the data for independent of the students, as they are at the start and not after a descent: what they get wrong is
what that dependence does. The quenched theory leaves out only that the data outside the span are tied to the students by the
descent, the annealed one also that the labels the student gives are fitted.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sims.instance import Instance, Model
from sims.pinned import pinned
from theory.checks import NotConverged, ParameterError
from theory.finite.quenched import quenched
from theory.general.spectrum import spectrum
from theory.model.network import Network, network

Array = NDArray[np.float64]
ROUTES = ("annealed", "quenched")
PARTS = ("edge", "outlier", "overlap")
NAMES = tuple(f"{route}_{part}" for route in ROUTES for part in PARTS)


@pinned
def predicted_along(instance: Instance, students: Array) -> dict[str, Array]:
    """Left edge, lowest outlier and its squared overlap with the signal space by both routes, at students (T, p, N) of an
    instance drawn with its data: each of NAMES an array (T,), NaN where there is none. Units of the plain Hessian.
    """
    data = np.asarray(instance.data, np.float64)[: instance.m]
    teacher, n = np.asarray(instance.teacher, np.float64), instance.n
    u = data @ teacher.T
    found = np.full((len(students), len(ROUTES), len(PARTS)), np.nan)
    for t, student in enumerate(students):
        if t and np.array_equal(student, students[t - 1]):  # a descent that has ended repeats itself
            found[t] = found[t - 1]
            continue
        rows = np.concatenate([teacher, student])
        gram = rows @ rows.T / n
        found[t, 0] = annealed_at(instance.model, gram, instance.m / n)
        found[t, 1] = quenched_at(instance.model, data @ student.T, u, gram, n)
    flat = found.reshape(len(students), -1)
    return {name: flat[:, i] for i, name in enumerate(NAMES)}


def annealed_at(model: Model, gram: Array, alpha: float) -> tuple[float, float, float]:
    """Edge, lowest outlier and overlap of students drawn at the overlaps `gram` (r, r) over N, teacher rows first."""
    try:
        found = spectrum(at_overlaps(model, gram), alpha)
    except (NotConverged, ParameterError):
        return np.nan, np.nan, np.nan
    if not len(found.outliers):
        return float(found.edge), np.nan, np.nan
    return float(found.edge), float(found.outliers[0]), float(found.overlaps[0] * found.teacher_share[0])


def at_overlaps(model: Model, gram: Array) -> Network:
    """The model with its students at the overlaps `gram` (r, r) over N, teacher rows first. Raises ParameterError.

    >>> at_overlaps(Network(1, 1, 0.5), np.array([[1.0, 0.3], [0.3, 1.0]])).overlap
    ((0.3,),)
    """
    wide, p_star = network(model), model.p_star
    r, q = gram[p_star:, :p_star], gram[p_star:, p_star:].copy()
    np.fill_diagonal(q, 1.0)
    return replace(wide, overlap=_tuples(r), gram=_tuples((q + q.T) / 2))


def quenched_at(model: Model, lam: Array, u: Array, gram: Array, n: int) -> tuple[float, float, float]:
    """Edge, lowest outlier and overlap of the labels lam (M, p), u (M, p_star) of one student; NaN for other models than
    quadratic committees."""
    committee = replace(model, overlap=0.0, gram=None)
    if not committee.is_committee:
        return np.nan, np.nan, np.nan
    try:
        found = quenched(committee, lam, u, n, gram)
    except (NotConverged, ParameterError):
        return np.nan, np.nan, np.nan
    return found.edge, float(found.outliers[0]), float(found.overlaps[0])


def _tuples(matrix: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(x) for x in row) for row in matrix)
