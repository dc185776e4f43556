"""The loss that is descended: its value, gradient and Riemannian Hessian product, in units of its own slope.

Functions of the outputs y and yhat are evaluated in float64 whatever the data are: a loss of a = 1e46 is no number of float32,
and (M,) numbers cost nothing beside the data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sims.dense.eigen import power_of_two
from sims.descent.sphere import row_products, tangent
from sims.hessian import Functions, functions_of, weight_parts
from sims.pinned import pinned
from theory.model import Committee

QUADRATIC = functions_of(Committee())
_GAUSS = np.polynomial.legendre.leggauss(4)


class Loss(NamedTuple):
    """The loss of one sample as numbers: outputs y (M,) and which rows count (M,), both zero for rows that pad, parameter a and
    unit, in float64."""

    y: Array
    kept: Array
    a: Array
    unit: Array


def loss_unit(functions: Functions, a: float) -> float:
    """What the loss is descended in units of: the power of two at or above its slope |l'| at label 1 and output 2.

    >>> loss_unit(QUADRATIC, 0.5), loss_unit(QUADRATIC, 7.0)
    (1.0, 0.125)
    """
    slope = abs(float(functions.loss[1](np.float64(1.0), np.float64(2.0), float(a), np)))
    unit = power_of_two(slope)
    return unit if unit >= slope else 2 * unit


def outputs_of(functions: Functions, lam: Array) -> Array:
    """yhat (M,) in float64 of preactivations lam (M, p)."""
    return jnp.mean(functions.activation[0](lam, jnp), axis=-1).astype(jnp.float64)


@pinned
def gradient_of(
    data: Array, lam: Array, y: Array, a: float | Array, functions: Functions = QUADRATIC
) -> Array:
    """Gradient (p, N) of the loss in the surrounding space; data (M, N), lam (M, p), y (M,)."""
    return gradient_at(data, lam, _whole(y, a), functions)


@pinned
def riemannian_gradient(
    student: Array, data: Array, y: Array, a: float | Array, functions: Functions = QUADRATIC
) -> Array:
    """Gradient (p, N) of the loss on the product of spheres at student (p, N)."""
    return tangent(student, gradient_at(data, pushed(data, student), _whole(y, a), functions))


@pinned
def hessian_product(
    student: Array,
    vector: Array,
    data: Array,
    lam: Array,
    y: Array,
    a: float | Array,
    functions: Functions = QUADRATIC,
) -> Array:
    """Riemannian Hessian times a tangent vector (p, N), without forming the matrix (see sims.descent.sphere)."""
    whole = _whole(y, a)
    curvature = row_products(student, gradient_at(data, lam, whole, functions))
    return product_at(student, vector, data, lam, whole, functions, curvature)


def _whole(y: Array, a: float | Array) -> Loss:
    one = jnp.ones((), jnp.float64)
    return Loss(jnp.asarray(y, jnp.float64), jnp.ones(y.shape, jnp.float64), jnp.asarray(a, jnp.float64), one)


def _by_rows(data: Array, p: int) -> bool:
    """Whether products with p vectors are taken one by one. On a CPU XLA's float64 product of a large matrix and two vectors
    takes twice as long as two products with one: 3.5 ms against 1.5 ms both ways for 1,792 x 1,000 (in float32 0.4 ms)."""
    return data.dtype == jnp.float64 and 1 < p <= 4 and jax.default_backend() == "cpu"


def pushed(data: Array, vectors: Array) -> Array:
    """Products (M, p) of the rows of data (M, N) with vectors (p, N)."""
    if _by_rows(data, vectors.shape[0]):
        return jnp.stack([data @ vector for vector in vectors], axis=1)
    return data @ vectors.T


def pulled(data: Array, columns: Array) -> Array:
    """Sums (p, N) of the rows of data (M, N) with coefficients columns (M, p)."""
    if _by_rows(data, columns.shape[1]):
        return jnp.stack([column @ data for column in columns.T])
    return columns.T @ data


def value_at(lam: Array, loss: Loss, functions: Functions) -> Array:
    """The loss, in its unit, of preactivations lam (M, p)."""
    value = functions.loss[0](loss.y, outputs_of(functions, lam), loss.a, jnp)
    return (jnp.sum(loss.kept * value) / loss.unit).astype(lam.dtype)


def gradient_at(data: Array, lam: Array, loss: Loss, functions: Functions) -> Array:
    """Its gradient (p, N) in the surrounding space, in the same unit."""
    pull = functions.loss[1](loss.y, outputs_of(functions, lam), loss.a, jnp) / loss.unit
    along = functions.activation[1](lam, jnp) / lam.shape[-1]
    return pulled(data, pull.astype(lam.dtype)[:, None] * along)


def projected_gradient(student: Array, data: Array, lam: Array, loss: Loss, functions: Functions) -> Array:
    """The part (p, N) of `gradient_at` that is tangent at student (p, N).

    Projected twice: the first leaves a normal part of a rounding error of the whole gradient, which near a critical point is no
    longer small beside the tangent part, and the whole gradient does not vanish there. In a loop: else XLA may compute the
    first projection once for each use, with other roundings, and the second takes away what is not there.
    """
    whole = gradient_at(data, lam, loss, functions)
    return jax.lax.fori_loop(0, 2, lambda _, vector: tangent(student, vector), whole)


def product_at(
    student: Array,
    vector: Array,
    data: Array,
    lam: Array,
    loss: Loss,
    functions: Functions,
    curvature: Array,
) -> Array:
    """The Riemannian Hessian (see `sims.descent.sphere`), in the same unit, times a tangent vector (p, N).

    curvature  (p,) w_k . gradient_k / N of the whole gradient, `gradient_at`
    """
    parts = weight_parts(functions, loss.a, lam.astype(jnp.float64), loss.y)
    d, c, g = (part.astype(lam.dtype) for part in (parts[0] / loss.unit, parts[1] / loss.unit, parts[2]))
    moved = pushed(data, vector)
    weight = d * moved + g * (c * jnp.sum(g * moved, axis=-1))[:, None]
    return tangent(student, pulled(data, weight) - curvature[:, None] * vector)


def drop_of(start: Array, change: Array, loss: Loss, functions: Functions, nodes: tuple[int, int]) -> Array:
    """The change of the loss from preactivations `start` (M, p) to `start + change`, to rounding of itself (`change_of`)."""
    s, (_, pull, _) = functions.activation[1], functions.loss
    moved = jnp.mean(change_of(lambda lam: s(lam, jnp), start, change, nodes[0]), axis=-1).astype(jnp.float64)
    yhat = outputs_of(functions, start)
    drop = change_of(lambda output: pull(loss.y, output, loss.a, jnp) / loss.unit, yhat, moved, nodes[1])
    return jnp.sum(loss.kept * drop).astype(change.dtype)


def change_of(slope: Callable[[Any], Any], start: Array, step: Array, nodes: int) -> Array:
    """f(start + step) - f(start) = step times the mean of the slope f' on the way, without subtracting nearly equal numbers: by
    the midpoint, which is exact for polynomials of second degree, or Gauss's rule of four nodes."""
    if nodes == 1:
        return step * slope(start + step / 2)
    return step * sum(w / 2 * slope(start + (1 + x) / 2 * step) for x, w in zip(*_GAUSS, strict=True))


def _nodes(value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> int:
    """1 where the midpoint rule gives differences of `value` exactly, else 4."""
    start, step = np.array([0.3, 1.7, 2.9]), np.array([0.9, -1.1, 0.4])
    exact = value(start + step) - value(start)
    return 1 if np.allclose(step * slope(start + step / 2), exact, rtol=1e-12, atol=0) else 4


def nodes_of(functions: Functions, a: float) -> tuple[int, int]:
    """The nodes that differences of the activation and of the loss need."""
    s, first, _ = functions.activation
    value, pull, _ = functions.loss
    b = min(max(a, 1e-3), 1e3)  # where the probes' differences keep their digits
    return (
        _nodes(lambda x: s(x, np), lambda x: first(x, np)),
        _nodes(lambda x: value(np.ones(3), x, b, np), lambda x: pull(np.ones(3), x, b, np)),
    )
