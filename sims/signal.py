"""What is measured on eigenpairs of the Hessian: squared overlaps with the signal space, functions of one's own.

The signal space is the span over student rows k and teacher rows l of e_k (x) w*_l / sqrt(N): p p_star
dimensions. The squared overlap q2 of a unit vector is the squared norm of its projection there. Over a
complete set of eigenvectors the q2 add up to p p_star.

An observable of one's own is a function that takes, by their names, any of (`Observable` itself gives it all of them)

    values   (k,) lowest eigenvalues, rising, in units of the Hessian
    vectors  (p N, k) their unit eigenvectors, block-major: row l N + i is coordinate i of student l
    teacher  (p_star, N) and student (p, N): rows of norm sqrt(N)

as NumPy arrays, and gives one number, or k of them. It may be written with NumPy or JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from sims.backend import HIGHEST, pinned
from sims.checks import reals
from sims.solvers import Eigenpairs
from theory.checks import ParameterError, count, shown

MOST = 2**22  # entries of the vectors that an observable is tried on


@pinned
def overlaps(vectors: ArrayLike, teacher: ArrayLike) -> jax.Array:
    """Squared overlaps q2 (k,) with the signal space of unit vectors (p N, k).

    teacher (p_star, N): orthogonal rows of norm sqrt(N). Raises ParameterError on arrays that do not fit.

    >>> teacher = np.array([[3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    >>> overlaps(np.eye(9)[:, :2], teacher).tolist()
    [1.0, 0.0]
    """
    columns, rows = reals("vectors", vectors, None, None), reals("teacher", teacher, None, None)
    n = rows.shape[1]
    if not n or len(columns) % n:
        raise ParameterError(f"vectors must have shape (p N, k) with N = {n} of teacher, got {columns.shape}")
    return _overlaps(columns, rows)


@jax.jit
def _overlaps(vectors: jax.Array, teacher: jax.Array) -> jax.Array:
    n = teacher.shape[1]
    blocks = vectors.reshape(-1, n, vectors.shape[-1])
    amplitude = jnp.einsum("ln,knj->klj", teacher, blocks, precision=HIGHEST) / math.sqrt(n)
    return jnp.sum(amplitude**2, axis=(0, 1))


def student_shares(vectors: Sequence[NDArray], students: Sequence[NDArray]) -> NDArray[np.float64]:
    """Squared overlaps (samples, k) of unit vectors with the student's own space, the span of e_k (x) w_j: p^2 dimensions.

    vectors (p N, k) and students (p, N), rows of any Gram matrix, of samples of one shape. Where student and teacher overlap so
    do their spaces, and the two shares may add up to more than the share of the space that they span together.
    """
    rows = np.array(students, np.float64)
    b, p, n = rows.shape
    columns = np.array([np.asarray(own).T for own in vectors], np.float64).reshape(b, -1, p, n)
    gram = rows @ np.swapaxes(rows, 1, 2)
    values, mixing = np.linalg.eigh(gram) if p > 1 else (gram[:, 0], np.ones((b, 1, 1)))
    kept = values > n * np.finfo(np.float64).eps * values[:, -1:]  # students may coincide
    scale = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1)), 0)
    # Rows of any Gram matrix made orthonormal by its eigenvectors, directions that coincide left out.
    basis = np.swapaxes(mixing * scale[:, None], 1, 2) @ rows
    # (b, k, p, n) by (b, 1, n, p): rows of the vectors are contiguous
    return np.sum((columns @ np.swapaxes(basis, 1, 2)[:, None]) ** 2, axis=(2, 3))


def signal_vectors(teacher: ArrayLike, p: int) -> NDArray:
    """Orthonormal basis (p N, p p_star) of the signal space on the host, column-major.

    Column k p_star + l is e_k (x) w*_l / sqrt(N). Raises ParameterError.

    >>> signal_vectors(np.array([[2.0, 0.0, 0.0, 0.0]]), 2).T.tolist()
    [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]
    """
    rows, p = np.asarray(reals("teacher", teacher, None, None)), count("p", p)
    p_star, n = rows.shape
    basis = np.zeros((p * n, p * p_star), rows.dtype, order="F")
    for k in range(p):
        basis[k * n : (k + 1) * n, k * p_star : (k + 1) * p_star] = rows.T / math.sqrt(n)
    return basis


@dataclass(frozen=True)
class Observable:
    """A function with what it gives.

    name      of the variable that keeps it
    value     called with values=, vectors=, teacher=, student=; one that wants some of them alone is wrapped
    of_pairs  whether it gives a number for each eigenpair, rather than one for the sample
    """

    name: str
    value: Callable[..., Any]
    of_pairs: bool

    def of(self, pairs: Eigenpairs, teacher: NDArray, student: NDArray) -> NDArray[np.float64]:
        """Its numbers of one sample, () or (k,), NaN where the solve gave nothing; ParameterError where it fails or gives
        others."""
        if not np.all(np.isfinite(pairs.values)):
            return np.full(len(pairs.values) if self.of_pairs else (), np.nan)
        found = _called(
            self.name,
            self.value,
            values=pairs.values,
            vectors=pairs.vectors,
            teacher=teacher,
            student=student,
        )
        if (found.ndim == 1) != self.of_pairs:
            raise ParameterError(
                f"observable {self.name} must always give as many numbers, got shape {found.shape}"
            )
        return found


@pinned
def tried(name: str, value: Callable[..., Any], p: int, p_star: int, n: int, k: int) -> Observable:
    """The observable that this function is, by calling it with arrays of the shapes of a sample; ParameterError if none.

    Parameters
    ----------
    name : str
        Of the variable that keeps it.
    value : function
        Called with values=, vectors=, teacher=, student= (see the top of the module).
    p, p_star, n, k : int
        Widths, N and number of eigenpairs of the samples that it is for; tried at a smaller N where arrays would be large.

    Returns
    -------
    Observable

    Raises
    ------
    theory.checks.ParameterError
    """
    n = max(p_star, -(-k // p), min(n, MOST // (p * k)))
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.standard_normal((p * n, k)))[0]
    rows = rng.standard_normal((p + p_star, n))
    rows *= np.sqrt(n) / np.linalg.norm(rows, axis=1, keepdims=True)
    values = np.linspace(-1.0, -0.5, k)
    found = _called(name, value, values=values, vectors=vectors, teacher=rows[p:], student=rows[:p])
    return Observable(name, value, found.ndim == 1)


def _called(name: str, value: Callable[..., Any], **arrays: NDArray) -> NDArray[np.float64]:
    """What the function gives of these arrays, () or (k,)."""
    try:
        given = value(**arrays)
        found = np.asarray(given)
    except ParameterError:
        raise
    except Exception as error:
        raise ParameterError(
            f"observable {name} fails: {type(error).__name__}: {shown(str(error))}"
        ) from None
    if found.dtype.kind not in "biuf":
        raise ParameterError(f"observable {name} must give real numbers, got {shown(given)}")
    k = len(arrays["values"])
    if found.shape not in ((), (k,)):
        raise ParameterError(
            f"observable {name} must give a number, or one for each of {k} eigenpairs, got shape {found.shape}"
        )
    return found.astype(np.float64)
