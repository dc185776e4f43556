"""What a method of first order asks: the geometry of the student's space, products with the data, and the loss, its
gradient and its curvature made of them.

The student's space is the product of p spheres of radius sqrt(N), one per row. A point is a student (..., p, N) whose rows have
squared norm N. Its tangent space is the set of (..., p, N) whose row k is orthogonal to w_k; the metric is that of the
surrounding space. All geometry here is derived from those two lines.

The data are known by products (`theory.path.Data`): a `Matrix` of NumPy or JAX, or data that are drawn as they are asked for
(`theory.path.deferred`). The loss is in units of its own slope. Functions of the outputs y and yhat are evaluated in float64
whatever the data are: a loss of a = 1e46 is no number of float32, and (M,) numbers cost nothing beside the data. Everything is
written for the arrays it is given: NumPy's on the host, JAX's in a compiled program, and so are loops (`counted`, `repeated`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sims.backend import power_of_two
from sims.checks import reals
from sims.hessian import form
from theory.model import Network
from theory.model.activations import read, shifted
from theory.path import Data

Array = Any  # NumPy's, or JAX's
ONE_BY_ONE = 4  # vectors up to which products one by one are faster than a product of matrices of so few rows
_GAUSS = np.polynomial.legendre.leggauss(4)


def retract(point: Array) -> Array:
    """The point (..., p, N) with each row scaled to norm sqrt(N). A row of zeros has no image and gives NaN."""
    n, xp = point.shape[-1], point.__array_namespace__()
    return point * (n**0.5 / xp.linalg.norm(point, axis=-1, keepdims=True))


def tangent(student: Array, vector: Array) -> Array:
    """Orthogonal projection of `vector` (..., p, N) on the tangent space at `student` (..., p, N)."""
    return vector - student * row_products(student, vector)[..., None]


def row_products(student: Array, vector: Array) -> Array:
    """w_k . v_k / N (..., p): the component of each row of `vector` along the student's row."""
    return (student * vector).sum(axis=-1) / student.shape[-1]


def riemannian_hessian(
    student: NDArray, gradient: NDArray, hessian: NDArray, lift: float | None = None
) -> NDArray:
    """Second derivative along geodesics, as a matrix (pN, pN) on the host, block-major (k N + i).

    student  (p, N) rows of norm sqrt(N); gradient (p, N) and hessian (pN, pN) of the loss in the surrounding space
    lift     eigenvalue given to the p normal directions, which the tangent space does not contain. The matrix is
             P (H - diag(w_k . gradient_k / N)) P + lift (1 - P), P the projection on the tangent space; put
             `lift` above the spectrum to keep those directions away from its lower end. None: the Frobenius norm of the
             rest, which lies above

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
    tangential = shifted - (half + half.T)
    lift = float(np.linalg.norm(tangential)) if lift is None else lift
    return tangential + lift * (normal @ normal.T)


class Matrix(NamedTuple):
    """A matrix x (M, N), of NumPy or JAX, as data.

    >>> Matrix(np.eye(3)).push(np.ones((2, 3))).shape
    (3, 2)
    """

    x: Array

    @property
    def dtype(self) -> np.dtype:
        """Of the matrix."""
        return self.x.dtype

    def push(self, vectors: Array) -> Array:
        """X v of b vectors (b, N): (M, b)."""
        if self._by_rows(len(vectors)):
            return self.x.__array_namespace__().stack([self.x @ vector for vector in vectors], axis=1)
        return self.x @ vectors.T

    def pull(self, forces: Array) -> Array:
        """X' f of b forces (M, b): (b, N)."""
        if self._by_rows(forces.shape[1]):
            return self.x.__array_namespace__().stack([column @ self.x for column in forces.T])
        return forces.T @ self.x

    def _by_rows(self, b: int) -> bool:
        """On a CPU a product of a large matrix and two vectors takes twice as long as two products with one: by XLA in float64
        3.5 ms against 1.5 ms both ways for 1,792 x 1,000 (in float32 0.4 ms), by OpenBLAS in both dtypes."""
        if isinstance(self.x, np.ndarray):
            return 1 < b <= ONE_BY_ONE
        return self.dtype == jnp.float64 and 1 < b <= ONE_BY_ONE and jax.default_backend() == "cpu"


class Spread(NamedTuple):
    """Data X diag(roots): inputs of covariance diag(roots^2), from data of independent entries."""

    data: Data
    roots: Array

    @property
    def dtype(self) -> np.dtype:
        """Of the products."""
        return self.data.dtype

    def push(self, vectors: Array) -> Array:
        """X diag(roots) v: (M, b)."""
        return self.data.push(vectors * self.roots)

    def pull(self, forces: Array) -> Array:
        """diag(roots) X' f: (b, N)."""
        return self.data.pull(forces) * self.roots


def loss_unit(model: Network, a: float) -> float:
    """What the loss is descended in units of: the power of two at or above its slope |l'| at label 1 and output 2.

    >>> loss_unit(Network(), 0.5), loss_unit(Network(), 7.0)
    (1.0, 0.125)
    """
    slope = abs(float(model.rule.first(np.float64(1.0), np.float64(2.0), float(a), np)))
    unit = power_of_two(slope)
    return unit if unit >= slope else 2 * unit


class Problem(NamedTuple):
    """What is descended: data, outputs and loss of one sample, numbers in float64, and the form of the model.

    y, kept  (M,) outputs, and which rows count: both zero for rows that pad
    a, unit  parameter of the loss, and what the loss is in units of (`loss_unit`)
    nodes    points at which differences of the activation and of the loss are taken (`nodes_of`)
    """

    data: Data
    y: Array
    kept: Array
    a: Array
    unit: Array
    model: Network
    nodes: tuple[int, int] = (4, 4)

    def preactivations(self, student: Array) -> Array:
        """lam (M, p) of a student (p, N)."""
        return self.data.push(student)

    def outputs(self, lam: Array) -> Array:
        """yhat (M,) in float64 of preactivations lam (M, p)."""
        xp = lam.__array_namespace__()
        return self.model.student_outputs(lam, xp).astype(np.float64)

    def pulls(self, yhat: Array) -> Array:
        """l' (M,) at outputs yhat."""
        return self.model.rule.first(self.y, yhat, self.a, yhat.__array_namespace__()) / self.unit

    def value(self, lam: Array) -> Array:
        """The loss of preactivations lam (M, p)."""
        xp = lam.__array_namespace__()
        value = self.model.rule.value(self.y, self.outputs(lam), self.a, xp)
        return (xp.sum(self.kept * value) / self.unit).astype(lam.dtype)

    def forces(self, lam: Array) -> Array:
        """Its derivatives (M, p) in the preactivations."""
        slopes = self.model.slopes(lam, lam.__array_namespace__())
        return self.pulls(self.outputs(lam)).astype(lam.dtype)[:, None] * slopes

    def gradient(self, lam: Array) -> Array:
        """Its gradient (p, N) in the surrounding space."""
        return self.data.pull(self.forces(lam))

    def curvature(self, lam: Array, n: int) -> Array:
        """w_k . gradient_k / N (p,) of the gradient in the surrounding space. No product: w . X' f = (X w) . f."""
        return (lam * self.forces(lam)).sum(axis=0) / n

    def projected_gradient(self, student: Array, lam: Array) -> Array:
        """The part (p, N) of the gradient that is tangent at student (p, N).

        Projected twice: the first leaves a normal part of a rounding error of the whole gradient, which near a critical point
        is no longer small beside the tangent part, and the whole gradient does not vanish there. In a loop: else XLA may
        compute it once for each use, with other roundings, and the second takes away what is not there.
        """
        return counted(0, 2, lambda _, vector: tangent(student, vector), self.gradient(lam))

    def product(self, student: Array, vector: Array, lam: Array, curvature: Array) -> Array:
        """The Riemannian Hessian (see `riemannian_hessian`) times a tangent vector (p, N).

        curvature  (p,) w_k . gradient_k / N of the whole gradient
        """
        xp = lam.__array_namespace__()
        d, c, g = self.model.weight_parts(lam.astype(np.float64), self.y, self.a, xp)
        d, c, g = (part.astype(lam.dtype) for part in (d / self.unit, c / self.unit, g))
        moved = self.data.push(vector)
        weight = d * moved + g * (c * xp.sum(g * moved, axis=-1))[:, None]
        return tangent(student, self.data.pull(weight) - curvature[:, None] * vector)

    def drop(self, start: Array, change: Array) -> Array:
        """The change of the loss from preactivations `start` (M, p) to `start + change`, to rounding of itself."""
        xp, model = start.__array_namespace__(), self.model
        shift, slope = shifted(start, model.bias, xp), model.student.first
        moved = read(change_of(lambda x: slope(x, xp), shift, change, self.nodes[0]), model.readout, xp)
        drop = change_of(self.pulls, self.outputs(start), moved.astype(np.float64), self.nodes[1])
        return xp.sum(self.kept * drop).astype(change.dtype)

    def noise(self, lam: Array) -> Array:
        """What the change of the loss may be by rounding alone."""
        xp = lam.__array_namespace__()
        sizes = xp.sum(self.kept * xp.abs(self.pulls(self.outputs(lam))))
        return (16 * np.finfo(lam.dtype).eps * sizes).astype(lam.dtype)


def problem_of(model: Network, data: Data, y: Array) -> Problem:
    """The problem of a model, data known by products, and outputs y (M,) with their noise: every row counts."""
    a, unit, y = np.float64(model.a), np.float64(loss_unit(model, model.a)), y.astype(np.float64)
    return Problem(data, y, np.ones(y.shape), a, unit, form(model), nodes_of(model, model.a))


def change_of(slope: Callable[[Any], Any], start: Array, step: Array, nodes: int) -> Array:
    """f(start + step) - f(start) = step times the mean of the slope f' on the way, without subtracting nearly equal numbers: by
    the midpoint, which is exact for polynomials of second degree, or Gauss's rule of four nodes."""
    if nodes == 1:
        return step * slope(start + step / 2)
    means = (float(w) / 2 * slope(start + float(1 + x) / 2 * step) for x, w in zip(*_GAUSS, strict=True))
    return step * sum(means)


def _nodes(value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> int:
    """1 where the midpoint rule gives differences of `value` exactly, else 4."""
    start, step = np.array([0.3, 1.7, 2.9]), np.array([0.9, -1.1, 0.4])
    exact = value(start + step) - value(start)
    return 1 if np.allclose(step * slope(start + step / 2), exact, rtol=1e-12, atol=0) else 4


def nodes_of(model: Network, a: float) -> tuple[int, int]:
    """The nodes that differences of the activation and of the loss need."""
    student, rule = model.student, model.rule
    b = min(max(a, 1e-3), 1e3)  # where the probes' differences keep their digits
    return (
        _nodes(lambda x: student.value(x, np), lambda x: student.first(x, np)),
        _nodes(lambda x: rule.value(np.ones(3), x, b, np), lambda x: rule.first(np.ones(3), x, b, np)),
    )


def counted(lower: Any, upper: Any, body: Callable[[Any, Any], Any], start: Any) -> Any:
    """jax.lax.fori_loop, or the same by Python where the carried arrays are NumPy's."""
    if _compiled(start):
        return jax.lax.fori_loop(lower, upper, body, start)
    for i in range(int(lower), int(upper)):
        start = body(i, start)
    return start


def repeated(holds: Callable[[Any], Any], body: Callable[[Any], Any], start: Any) -> Any:
    """jax.lax.while_loop, or the same by Python where the carried arrays are NumPy's."""
    if _compiled(start):
        return jax.lax.while_loop(holds, body, start)
    while holds(start):
        start = body(start)
    return start


def either(condition: Any, new: Any, old: Any) -> Any:
    """Leaf by leaf, `new` where the condition holds and else `old`: trees of arrays of one shape."""
    if isinstance(condition, jax.Array):
        return jax.tree.map(lambda a, b: jax.numpy.where(condition, a, b), new, old)
    return new if condition else old


def _compiled(start: Any) -> bool:
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(start))
