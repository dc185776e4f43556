"""What is measured on eigenvectors of the Hessian: squared overlaps with the signal space, and the gap.

The signal space is the span over student rows k and teacher rows l of e_k (x) w*_l / sqrt(N): p p_star
dimensions. The squared overlap q2 of a unit vector is the squared norm of its projection there. Over a
complete set of eigenvectors the q2 add up to p p_star.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from sims.pinned import HIGHEST, pinned


@pinned
@jax.jit
def overlaps(vectors: ArrayLike, teacher: ArrayLike) -> jax.Array:
    """Squared overlaps q2 (k,) with the signal space of unit vectors (p N, k).

    teacher (p_star, N): orthogonal rows of norm sqrt(N).

    >>> teacher = np.array([[3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    >>> overlaps(np.eye(9)[:, :2], teacher).tolist()
    [1.0, 0.0]
    """
    vectors, teacher = jnp.asarray(vectors), jnp.asarray(teacher)
    n = teacher.shape[1]
    blocks = vectors.reshape(-1, n, vectors.shape[-1])
    amplitude = jnp.einsum("ln,knj->klj", teacher, blocks, precision=HIGHEST) / math.sqrt(n)
    return jnp.sum(amplitude**2, axis=(0, 1))


def student_shares(vectors: ArrayLike, student: ArrayLike) -> NDArray[np.float64]:
    """Squared overlaps (k,) of unit vectors (p N, k) with the student's space, the span of e_k (x) w_j: p^2 dimensions.

    student (p, N), rows of any Gram matrix. Where student and teacher overlap so do their spaces, and the two shares may add up
    to more than the share of the space that they span together.
    """
    rows, columns = np.asarray(student, np.float64), np.asarray(vectors, np.float64)
    p, n = rows.shape
    gram = rows @ rows.T
    values, mixing = np.linalg.eigh(gram) if p > 1 else (gram[0], np.ones((1, 1)))
    kept = values > n * np.finfo(np.float64).eps * values[-1]  # students may coincide
    basis = (mixing[:, kept] / np.sqrt(values[kept])).T @ rows
    return np.sum((basis @ columns.reshape(p, n, -1)) ** 2, axis=(0, 1))


def signal_vectors(teacher: ArrayLike, p: int) -> NDArray:
    """Orthonormal basis (p N, p p_star) of the signal space on the host, column-major.

    Column k p_star + l is e_k (x) w*_l / sqrt(N).

    >>> signal_vectors(np.array([[2.0, 0.0, 0.0, 0.0]]), 2).T.tolist()
    [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]
    """
    teacher = np.asarray(teacher)
    p_star, n = teacher.shape
    basis = np.zeros((p * n, p * p_star), teacher.dtype, order="F")
    for k in range(p):
        basis[k * n : (k + 1) * n, k * p_star : (k + 1) * p_star] = teacher.T / math.sqrt(n)
    return basis


def gap(values: ArrayLike, degeneracy: int) -> float:
    """Distance from the p p_star lowest eigenvalues to the next one up; NaN if that one is absent.

    >>> gap([-3.0, -1.0, 0.0], 1)
    2.0
    """
    values = np.asarray(values)
    return float(values[degeneracy] - values[degeneracy - 1]) if len(values) > degeneracy else math.nan
