"""The Hessian along a path of descent: its lowest eigenpairs and what they know of the teacher.

Two Hessians are followed: the plain one (second derivative in the weights, the matrix of sims.hessian) and the
Riemannian one (along geodesics of the product of spheres), which is the curvature that the descent feels. Far
from critical points they differ by a shift of each block and by p directions. Companion paper: Bonnaire,
Biroli, Cammarota, arXiv 2403.02418.

What theory says of the plain Hessian at the students of a descent, from less and less that is taken for free:

    quenched     the students' preactivations are known, and with them the weight of every sample; the data outside the span of
                 teacher and students are taken for Gaussian and independent (`theory.finite.quenched`; quadratic committees)
    conditioned  the forces that the descent has used are known too: the data are Gaussian but orthogonal to them
                 (`theory.path.conditioned`; any network, inputs without covariance)

The descent keeps the sum of all its forces (`sims.dynamics.flow`), and its students at some moments, from which theirs follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sims.backend import on_device, pinned
from sims.dynamics.problem import riemannian_hessian
from sims.hessian import dense_blas
from sims.instance import Instance, outputs, preactivations
from sims.krylov.solver import lowest_krylov
from sims.operator import HessianOperator, hessian_operator
from sims.rows import Rows, rows_of, single
from sims.signal import overlaps
from sims.solvers import Code, Eigenpairs
from sims.solvers.dense import lowest_dense
from sims.solvers.krylov import SETTINGS
from theory.checks import NotConverged, ParameterError
from theory.finite.quenched import quenched
from theory.model.network import Network, network
from theory.path import closure, conditioned, force

Array = NDArray[np.float64]
FRAMES = ("plain", "riemannian")
DENSE_ORDER = 1000  # order p N up to which matrices are formed: on two cores as fast as their products there
PARTS = {
    "quenched": ("edge", "outlier", "overlap"),
    "conditioned": ("edge", "lowest", "lowest_error", "overlap", "overlap_error"),
}
RECORDS = 64  # of those before a moment, whose forces are conditioned on
NAMES = tuple(f"{route}_{part}" for route, parts in PARTS.items() for part in parts)


def hessians(
    model: Network, data: Array, teacher: Array, student: Array, y: Array | None = None
) -> tuple[Array, Array]:
    """The plain and the Riemannian Hessian (pN, pN) at student (p, N); data (M, N), teacher (p_star, N).

    y  (M,) outputs of the teacher with noise; by default those without

    The Riemannian one has its p normal directions at an eigenvalue above its spectrum (its Frobenius norm).
    """
    lam = data @ student.T
    y = network(model).outputs(data @ teacher.T) if y is None else y
    plain = dense_blas(data, np.asarray(model.weights(lam, y)))
    return plain, riemannian_hessian(student, force(model, lam, y).T @ data, plain)


@dataclass(frozen=True, kw_only=True)
class RiemannianOperator(HessianOperator):
    """The Riemannian Hessian, of one set: P (H - curvature) P + lift (1 - P), with H the plain one of the same rows and weights
    and P the projection on the tangent space (`sims.dynamics.problem`).

    normals    (N, p, 1) unit student rows
    curvature  (1, p, 1) w_k . gradient_k / N, and lift, in units of the plain operator
    """

    normals: jax.Array
    curvature: jax.Array
    lift: float

    @pinned
    def columns(self, columns: jax.Array) -> jax.Array:
        """H V in `units` for V as a matrix (N, p k)."""
        tangential, along = _split(columns, self.normals)
        product = super().columns(tangential)
        return _joined(product, tangential, along, self.normals, self.curvature, self.lift)

    @pinned
    def lowered(self) -> Self | None:
        """The same in float32; None where rows are not stored."""
        lowered = super().lowered()
        if lowered is None:
            return None
        normals, curvature = single((self.normals, self.curvature))
        return replace(lowered, normals=normals, curvature=curvature)


@jax.jit
def _split(columns: jax.Array, normals: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The tangent part of columns (N, p k), and their components (1, p, k) along the normals."""
    v = columns.reshape(*normals.shape[:2], -1)
    along = jnp.sum(normals * v, axis=0, keepdims=True)
    return (v - normals * along).reshape(columns.shape), along


@jax.jit
def _joined(
    product: jax.Array,
    tangential: jax.Array,
    along: jax.Array,
    normals: jax.Array,
    curvature: jax.Array,
    lift: float,
) -> jax.Array:
    shape = (*normals.shape[:2], -1)
    shifted = product.reshape(shape) - curvature * tangential.reshape(shape)
    inside = shifted - normals * jnp.sum(normals * shifted, axis=0, keepdims=True)
    return (inside + jnp.asarray(lift, product.dtype) * normals * along).reshape(product.shape)


@pinned
def operators(
    instance: Instance, student: Array, y: Array, rows: Rows
) -> tuple[HessianOperator, RiemannianOperator]:
    """The plain and the Riemannian Hessian of an instance at another student (p, N), matrix-free.

    y (M,) outputs of the teacher with noise; rows those of the instance (`sims.rows.rows_of`).
    """
    there, p = replace(instance, student=on_device(student, rows.dtype)), len(student)
    plain, (lam, _) = hessian_operator(there, rows=rows), preactivations(there)
    # w . X' f = (X w) . f
    curvature = np.sum(lam * force(instance.model, lam, y), axis=0) / (instance.n * plain.units[0])
    # weights are below 2 units, and eigenvalues below those of X'X times that
    widest = 1.0 if instance.roots is None else float(np.max(instance.roots)) ** 2
    bound = 4 * widest * (1 + math.sqrt(instance.m / instance.n)) ** 2 + float(np.max(np.abs(curvature)))
    normals = student / np.linalg.norm(student, axis=1, keepdims=True)
    own = {"normals": normals.T[:, :, None], "curvature": curvature.reshape(1, p, 1)}
    arrays = {name: on_device(value, rows.dtype) for name, value in own.items()}
    return plain, RiemannianOperator(plain.rows, plain.parts, p, plain.units, **arrays, lift=bound)


@pinned
def lowest_along(
    instance: Instance, students: Array, eigenpairs: int, *, y: Array | None = None, dense: bool | None = None
) -> tuple[Array, Array]:
    """Lowest eigenvalues of both Hessians of an instance, drawn with its data, at each of the students (T, p, N), and squared
    overlaps with the signal space: (T, 2, k) each, frames in order of FRAMES; NaN where a solve did not pass its checks.

    y      (M,) outputs of the teacher with noise, where they are known already
    dense  whether matrices are formed; None: up to an order p N of DENSE_ORDER

    Raises ParameterError if more eigenpairs are wanted than the tangent space has dimensions, p (N - 1).
    """
    points, p, n = students.shape
    if eigenpairs > p * (n - 1):
        raise ParameterError(f"eigenpairs must be at most p (N - 1) = {p * (n - 1)}, got {eigenpairs}")
    y, rows = outputs(instance) if y is None else y, _rows_unless(dense, instance)
    values = np.full((points, len(FRAMES), eigenpairs), np.nan)
    known = values.copy()
    for t, student in enumerate(students):
        for frame, pairs in enumerate(_pairs(instance, student, y, eigenpairs, rows)):
            if pairs.code is Code.CONVERGED:
                values[t, frame] = pairs.values
                known[t, frame] = overlaps(pairs.vectors, instance.teacher)
    return values, known


@pinned
def lowest_plain(instance: Instance, student: Array, y: Array, k: int) -> Eigenpairs:
    """The k lowest eigenpairs of the plain Hessian of an instance, drawn with its data, at student (p, N); y (M,) as in
    `lowest_along`."""
    return next(_pairs(instance, student, y, k, _rows_unless(None, instance)))


def _rows_unless(dense: bool | None, instance: Instance) -> Rows | None:
    """The rows of an instance whose Hessians are known by products; None where matrices are formed."""
    dense = instance.student.size <= DENSE_ORDER if dense is None else dense
    return None if dense else rows_of(instance)


def _pairs(instance: Instance, student: Array, y: Array, k: int, rows: Rows | None) -> Iterator[Eigenpairs]:
    """The k lowest pairs of the plain and of the Riemannian Hessian at student."""
    if rows is None:
        data, teacher = (np.asarray(x, np.float64) for x in (instance.data, instance.teacher))
        for matrix in hessians(instance.model, data[: instance.m], teacher, student, y):
            yield lowest_dense(matrix, k, overwrite=True)
    else:
        settings, degeneracy = SETTINGS[str(rows.dtype)], int(instance.model.degeneracy)
        for operator in operators(instance, student, y, rows):
            yield lowest_krylov(operator, k, degeneracy=degeneracy, settings=settings)


@pinned
def predicted_along(
    instance: Instance,
    students: Array,
    totals: Array,
    moments: Sequence[int],
    y: Array,
    before: tuple[Array, Array] | None,
) -> dict[str, Array]:
    """What theory says of the plain Hessian at some `moments` (T,) of a descent of an instance drawn with its data.

    students (R, p, N) at all records; totals (R, p, M) the sums of the forces used until then (`sims.dynamics.run.Path.used`)
    y (M,) outputs of the teacher with noise; before: what the start has used (`sims.dynamics.starts.used_by`)

    Returns each of NAMES as an array (T,), in units of the Hessian, NaN where there is no such theory: quenched outliers that
    do not exist, other models, a spectrum without a left edge, a start that may have used the data in any way.
    """
    model = instance.model
    data = np.asarray(instance.data, np.float64)[: instance.m]
    teacher = np.asarray(instance.teacher, np.float64)
    # A sample that has ended repeats its last point, whose forces count once.
    moved = [0, *(r for r in range(1, len(students)) if not np.array_equal(students[r], students[r - 1]))]
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
        forces, vectors = before
        others = np.concatenate([students[0], vectors])
        rows[at] += conditioned_at(model, data, teacher, students[at], [*kept, forces], others, y)
    found = [rows[max(r for r in moved if r <= moment)] for moment in moments]
    return dict(zip(NAMES, np.array(found).reshape(-1, len(NAMES)).T, strict=True))


def quenched_at(model: Network, data: Array, teacher: Array, student: Array) -> tuple[float, float, float]:
    """Edge, lowest outlier and overlap given the preactivations of one student (p, N); NaN but for quadratic committees."""
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
