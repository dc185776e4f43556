"""Geometry of the student's space: the product of p spheres of radius sqrt(N), one per row of the student.

A point is a student (..., p, N) whose rows have squared norm N. Its tangent space is the set of (..., p, N)
whose row k is orthogonal to w_k; the metric is that of the surrounding space. Everything here is derived from
those two lines.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.checks import reals

Array = Any  # NumPy's, or JAX's


def retract(point: Array) -> Array:
    """The point (..., p, N) with each row scaled to norm sqrt(N). A row of zeros has no image and gives NaN."""
    point = reals("point", point)
    n, xp = point.shape[-1], point.__array_namespace__()
    return point * (n**0.5 / xp.linalg.norm(point, axis=-1, keepdims=True))


def tangent(student: Array, vector: Array) -> Array:
    """Orthogonal projection of `vector` (..., p, N) on the tangent space at `student` (..., p, N)."""
    student, vector = reals("student", student), reals("vector", vector)
    return vector - student * row_products(student, vector)[..., None]


def row_products(student: Array, vector: Array) -> Array:
    """w_k . v_k / N (..., p): the component of each row of `vector` along the student's row."""
    student, vector = reals("student", student), reals("vector", vector)
    return (student * vector).sum(axis=-1) / student.shape[-1]


def riemannian_hessian(student: NDArray, gradient: NDArray, hessian: NDArray, lift: float = 0.0) -> NDArray:
    """Second derivative along geodesics, as a matrix (pN, pN) on the host, block-major (k N + i).

    student  (p, N) rows of norm sqrt(N); gradient (p, N) and hessian (pN, pN) of the loss in the surrounding space
    lift     eigenvalue given to the p normal directions, which the tangent space does not contain. The matrix is
             P (H - diag(w_k . gradient_k / N)) P + lift (1 - P), P the projection on the tangent space; put
             `lift` above the spectrum to keep those directions away from its lower end.

    Derivation: along the great circle w_k(t) with speed v_k, the loss has second derivative v.H v + gradient .
    w''(0), and w_k''(0) = -w_k |v_k|^2 / N.
    """
    student = reals("student", student, None, None)
    p, n = student.shape
    gradient, hessian = reals("gradient", gradient, p, n), reals("hessian", hessian, p * n, p * n)
    normal = np.zeros((p * n, p), hessian.dtype)
    for k in range(p):
        normal[k * n : (k + 1) * n, k] = student[k] / np.linalg.norm(student[k])
    curvature = np.repeat(np.sum(student * gradient, axis=1) / n, n)
    shifted = hessian - np.diag(curvature)
    crossed = shifted @ normal
    # P S P + lift Q, Q = 1 - P, written so that the result is symmetric to the last bit
    half = normal @ (crossed.T - (normal.T @ crossed) @ normal.T / 2)
    return shifted - (half + half.T) + lift * (normal @ normal.T)
