"""The loss that is descended: its value, gradient and Riemannian Hessian product, in units of its own slope.

Functions of the outputs y and yhat are evaluated in float64 whatever the data are: a loss of a = 1e46 is no number of float32,
and (M,) numbers cost nothing beside the data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
    return tangent(student, gradient_at(data, data @ student.T, _whole(y, a), functions))


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
    return product_at(student, vector, data, lam, _whole(y, a), functions)


def _whole(y: Array, a: float | Array) -> Loss:
    one = jnp.ones((), jnp.float64)
    return Loss(jnp.asarray(y, jnp.float64), jnp.ones(y.shape, jnp.float64), jnp.asarray(a, jnp.float64), one)


def value_at(lam: Array, loss: Loss, functions: Functions) -> Array:
    """The loss, in its unit, of preactivations lam (M, p)."""
    value = functions.loss[0](loss.y, outputs_of(functions, lam), loss.a, jnp)
    return (jnp.sum(loss.kept * value) / loss.unit).astype(lam.dtype)


def gradient_at(data: Array, lam: Array, loss: Loss, functions: Functions) -> Array:
    """Its gradient (p, N) in the surrounding space, in the same unit."""
    pull = functions.loss[1](loss.y, outputs_of(functions, lam), loss.a, jnp) / loss.unit
    along = functions.activation[1](lam, jnp) / lam.shape[-1]
    return (pull.astype(lam.dtype)[:, None] * along).T @ data


def product_at(
    student: Array, vector: Array, data: Array, lam: Array, loss: Loss, functions: Functions
) -> Array:
    """The Riemannian Hessian (see `sims.descent.sphere`), in the same unit, times a tangent vector (p, N)."""
    parts = weight_parts(functions, loss.a, lam.astype(jnp.float64), loss.y)
    d, c, g = (part.astype(lam.dtype) for part in (parts[0] / loss.unit, parts[1] / loss.unit, parts[2]))
    moved = data @ vector.T
    weight = d * moved + g * (c * jnp.sum(g * moved, axis=-1))[:, None]
    curvature = row_products(student, gradient_at(data, lam, loss, functions))
    return tangent(student, weight.T @ data - curvature[:, None] * vector)


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
