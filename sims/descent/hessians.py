"""The Hessian along a path of descent: its lowest eigenpairs and what they know of the teacher.

Two Hessians are followed: the plain one (second derivative in the weights, the matrix of sims.hessian) and the
Riemannian one (along geodesics of the product of spheres), which is the curvature that the descent feels. Far
from critical points they differ by a shift of each block and by p directions. Companion paper: Bonnaire,
Biroli, Cammarota, arXiv 2403.02418.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sims.dense.eigen import Code, lowest_dense
from sims.descent.sphere import riemannian_hessian
from sims.hessian import dense_blas
from sims.instance import Model
from sims.pinned import pinned
from sims.signal import overlaps
from theory.checks import ParameterError

Array = NDArray[np.float64]
FRAMES = ("plain", "riemannian")


class Lowest(NamedTuple):
    """Lowest eigenpairs at T points: eigenvalues and squared overlaps with the signal space (T, 2, k), frames
    in order of FRAMES.

    NaN where a solve did not pass its checks (sims.dense.eigen.Code).
    """

    eigenvalues: Array
    overlaps: Array


@pinned
def hessians(model: Model, data: Array, teacher: Array, student: Array) -> tuple[Array, Array]:
    """The plain and the Riemannian Hessian (pN, pN) at student (p, N); data (M, N), teacher (p_star, N).

    The Riemannian one has its p normal directions at an eigenvalue above its spectrum (its Frobenius norm).
    """
    p = student.shape[0]
    lam, u = data @ student.T, data @ teacher.T
    y, yhat = np.mean(u**2, axis=1), np.mean(lam**2, axis=1)
    plain = dense_blas(data, model.weights(lam, u))
    gradient = (2 / p) * (((yhat - y) / (model.a + y))[:, None] * lam).T @ data
    tangential = riemannian_hessian(student, gradient, plain)
    return plain, riemannian_hessian(student, gradient, plain, lift=float(np.linalg.norm(tangential)))


@pinned
def lowest_along(model: Model, data: Array, teacher: Array, students: Array, eigenpairs: int) -> Lowest:
    """Lowest eigenpairs of both Hessians at each of the students (T, p, N); data (M, N), teacher (p_star, N).

    Raises ParameterError if more eigenpairs are wanted than the tangent space has dimensions, p (N - 1).
    """
    points, p, n = students.shape
    if eigenpairs > p * (n - 1):
        raise ParameterError(f"eigenpairs must be at most p (N - 1) = {p * (n - 1)}, got {eigenpairs}")
    values = np.empty((points, len(FRAMES), eigenpairs))
    known = np.empty_like(values)
    for t, student in enumerate(students):
        for frame, hessian in enumerate(hessians(model, data, teacher, student)):
            pairs = lowest_dense(hessian, eigenpairs, overwrite=True)
            good = pairs.code is Code.CONVERGED
            values[t, frame] = pairs.values if good else np.nan
            known[t, frame] = overlaps(pairs.vectors, teacher) if good else np.nan
    return Lowest(values, known)
