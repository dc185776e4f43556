"""What a method of first order has used of its data: the few directions in which they are known.

A method that touches X (M, N) through products X v and X' f alone leaves the rest of X Gaussian (E. Bolthausen's conditioning;
`theory.path.deferred` uses it forwards). With R the vectors and L the forces that it has used,

    X = L L' X + (1 - L L') X R R' / N + P X~ Q,     P, Q the projections on the complements of L and R, X~ fresh.

Every vector and every force would be thousands of directions after a long path, and each costs an error of order 1/N. A smooth
path spans few. What is kept here is closed: R holds the teacher, the start, the point and X' l for every force l of L. Then
X' L lies in R, and beyond R the data are P X~ alone. Forces of unit norm that differ by less than `FORCES` count as one;
cutting R and L independently leaks (outliers moved by 0.1 to 0.35).

Not every force of a path is needed. The point is w_t = c w_0 - X' f, f the sum of all forces used with the factors by which
the sphere has shrunk them since: that one, and the forces at some twenty moments, for its dependence on the path, stand for
hundreds. Standard deviation of the lowest eigenvalue, predicted less found, over eight samples of p = 1, a = 1, alpha = 4,
n = 500, t = 1: 0.020 with all 200 forces, 0.020 with the sum and 32 moments, 0.026 with 16, 0.040 with 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import ParameterError, finite
from theory.model import Network
from theory.model.activations import shifted, weighed

Array = NDArray[np.float64]

FORCES = 1e-7  # singular values of the forces, relative to the largest, that are kept
ROWS = 1e-10  # the same for the vectors
MOMENTS = 24  # forces of a path that stand for all, beside their sum


class Data(Protocol):
    """Data X (M, N) known by products, as `theory.path.deferred.Deferred`; arrays of NumPy, or of JAX in `sims.dynamics`."""

    @property
    def dtype(self) -> np.dtype:
        """Of the products."""

    def push(self, vectors: Any) -> Any:
        """X v of b vectors (b, N): (M, b)."""

    def pull(self, forces: Any) -> Any:
        """X' f of b forces (M, b): (b, N)."""


@dataclass(frozen=True)
class Used:
    """Data of dimension n as far as they are known.

    images (M, k)       X on an orthonormal basis of the vectors R, in the norm |w|^2 = n
    teacher (k, p_star), students (k, p)  components of teacher rows and student rows on it
    forces (M, r)       orthonormal combinations of samples, X' of which lies in the span of R
    """

    images: Array
    teacher: Array
    students: Array
    forces: Array
    n: int

    @property
    def u(self) -> Array:
        """Preactivations (M, p_star) of the teacher."""
        return self.images @ self.teacher

    @property
    def lam(self) -> Array:
        """Preactivations (M, p) of the students."""
        return self.images @ self.students


def closure(
    data: ArrayLike | Data,
    teacher: ArrayLike,
    students: ArrayLike,
    forces: NDArray[Any] | Sequence[ArrayLike] = (),
    others: ArrayLike | None = None,
) -> Used:
    """What the data are known to be at `students` after a method has used `forces`.

    Parameters
    ----------
    data : the matrix X (M, N), or an object with its products (`Data`).
    teacher, students : rows (p_star, N) and (p, N) of norm sqrt(N).
    forces : columns (M, b), or a sequence of them: every f whose X' f the method has used, or enough of them (see the module).
    others : further vectors (b, N) known to the method: the start, vectors of noise. Any norm.

    Returns
    -------
    Used

    Raises
    ------
    ParameterError
        where shapes do not fit or numbers are not finite.

    >>> rng = np.random.default_rng(0)
    >>> x, w = rng.standard_normal((30, 10)) / 10**0.5, 10**0.5 * np.eye(10)
    >>> used = closure(x, w[:1], w[1:2], [np.ones((30, 1))])
    >>> used.images.shape, used.forces.shape, bool(np.allclose(used.lam, x @ w[1:2].T))
    ((30, 3), (30, 1), True)
    """
    rows = [_rows("teacher", teacher), _rows("students", students)]
    if others is not None:
        rows.append(_rows("others", others))
    n = rows[0].shape[1]
    if any(each.shape[1] != n for each in rows):
        raise ParameterError("teacher, students and others must have rows of one length")
    push, pull = _products(data)
    kept = orthonormal_forces(forces)
    vectors = [_normalised(each) for each in rows]
    samples = getattr(data, "m", None) or len(np.asarray(data))
    if kept.size and len(kept) != samples:
        raise ParameterError(f"forces must have {samples} rows, one a sample, got {len(kept)}")
    if kept.size:
        # X'l joins R for every l of L, so that X'L lies in span R: cutting one of them alone leaks.
        vectors.append(_normalised(np.asarray(pull(kept), dtype=np.float64)))
    u, values, _ = np.linalg.svd(np.concatenate(vectors).T, full_matrices=False)
    # Norm sqrt(n), as that of teacher and students: images are preactivations of variance 1.
    basis = u[:, values > ROWS * values[0]].T * np.sqrt(n)
    images = np.asarray(push(basis), dtype=np.float64)
    if not kept.size:
        kept = np.empty((len(images), 0))
    return Used(images, basis @ rows[0].T / n, basis @ rows[1].T / n, kept, n)


def force(model: Network, lam: Array, y: Array) -> Array:
    """l' c s'(lam + b), the derivatives of the loss in preactivations: what a gradient multiplies X' with.

    Parameters
    ----------
    model : Network
    lam, y : arrays (M, p) and (M,)
        Preactivations of the student, outputs of the teacher.

    Returns
    -------
    array (M, p)
    """
    first = model.rule.first(y, model.student_outputs(lam), model.a, np)
    slopes = model.student.first(shifted(lam, model.bias, np), np)
    return np.asarray(weighed(first[:, None] * slopes, model.readout, np))


def moments(number: int) -> list[int]:
    """Which of so many forces, in order of time, stand for all beside their sum: MOMENTS of them, log-spaced.

    >>> moments(3), len(moments(1000)) <= MOMENTS
    ([0, 1, 2], True)
    """
    spaced = np.geomspace(1, max(number, 1), MOMENTS)
    return (np.unique(np.rint(spaced).astype(int)) - 1).tolist() if number else []


def orthonormal_forces(forces: NDArray[Any] | Sequence[ArrayLike]) -> Array:
    """Orthonormal columns (M, r) that span forces (M, b), or a sequence of such, each of unit norm, up to `FORCES`."""
    parts = [
        np.asarray(part, dtype=np.float64)
        for part in ([forces] if isinstance(forces, np.ndarray) else forces)
    ]
    if not parts:
        return np.empty((0, 0))
    columns = np.concatenate(
        [np.asarray(finite("forces", part)).reshape(len(part), -1) for part in parts], axis=1
    )
    # Of unit norm: forces late in a descent are small, and count as much.
    u, values, _ = np.linalg.svd(_normalised(columns.T).T, full_matrices=False)
    return np.ascontiguousarray(u[:, values > FORCES * values[0]]) if values.size and values[0] else u[:, :0]


def _normalised(rows: Array) -> Array:
    """Rows of unit norm; rows of zeros stay."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(float).tiny)


def _rows(name: str, given: ArrayLike) -> Array:
    rows = np.asarray(finite(name, given), dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise ParameterError(f"{name} must have shape (rows, N), got {rows.shape}")
    return rows


def _products(data: Any) -> tuple[Any, Any]:
    """Functions push and pull of data."""
    if hasattr(data, "push"):
        return data.push, data.pull
    x = np.asarray(data)
    return lambda vectors: x @ vectors.T, lambda forces: forces.T @ x
