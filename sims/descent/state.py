"""The state of one descent between its steps, and what both dynamics (`sims.descent.steps`, `sims.descent.flow`) do with it."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from sims.descent.objective import Loss, gradient_at, product_at, projected_gradient, pushed, value_at
from sims.descent.sphere import retract, row_products, tangent
from sims.hessian import Functions


class Code(IntEnum):
    """How a descent ended. STALLED: no step lowered the loss by enough; NOT_FINITE: loss or gradient is not."""

    CONVERGED = 0
    STEP_LIMIT = 1
    STALLED = 2
    NOT_FINITE = 3


RUNNING = -1


class Numbers(NamedTuple):
    """The rules of a descent as arrays: arguments of the compiled program, so that other rules need no other program.

    lengths  (R,) steps from each record to the next, 0 before the first; the others as in sims.descent.path.Rules
    """

    lengths: Array
    power_iterations: Array
    tolerance: Array
    loss_floor: Array
    share: Array
    armijo: Array
    accuracy: Array


class State(NamedTuple):
    """One descent, in units of its loss.

    student (p, N), lam (M, p) its preactivations, loss; gradient (p, N) tangent, at the last refreshing; slope |g|^2
    step           size of the last step (`steps`) or of the next (`flow`); inf before the first
    largest, top   estimate of the Riemannian Hessian's largest eigenvalue, and its vector (p, N)
    time           sum of the steps; taken: their number; left: how many until the next record; code: RUNNING or Code
    """

    student: Array
    lam: Array
    loss: Array
    gradient: Array
    slope: Array
    step: Array
    largest: Array
    top: Array
    time: Array
    taken: Array
    left: Array
    code: Array


def begin(data: Array, loss: Loss, student: Array, functions: Functions) -> State:
    """The start; the first record, of no steps, fills in the rest."""
    zero = jnp.zeros((), data.dtype)
    whole = jnp.zeros((), jnp.int32)
    student = retract(student)
    lam = pushed(data, student)
    # The first direction of the power iteration is fixed, not drawn: nothing outside sims.instance draws
    # numbers. The gradient lies in the span of the data, so it meets the top eigenvector.
    top = tangent(student, gradient_at(data, lam, loss, functions))
    return State(
        student, lam, zero, top, zero, zero + jnp.inf, zero, top, zero, whole, whole, whole + RUNNING
    )


def refreshed(state: State, data: Array, loss: Loss, rules: Numbers, functions: Functions) -> State:
    """Preactivations, loss and gradient afresh from the weights (rounding must not build up), and whether it has ended."""
    lam = pushed(data, state.student)
    gradient = projected_gradient(state.student, data, lam, loss, functions)
    fresh = state._replace(
        lam=lam, loss=value_at(lam, loss, functions), gradient=gradient, slope=jnp.sum(gradient**2)
    )
    return fresh._replace(code=verdict(fresh, loss, rules))


def power_iterated(state: State, iterations: Array, data: Array, loss: Loss, functions: Functions) -> State:
    """The state with a better estimate of the Riemannian Hessian's largest eigenvalue; from below, by so many products.

    Zeros (a start at a critical point of a flat loss) say nothing: `largest` is then 0 and the vector stays.
    """
    curvature = row_products(state.student, gradient_at(data, state.lam, loss, functions))

    def iterate(_: Array, vector: Array) -> Array:
        unit = vector / jnp.maximum(jnp.linalg.norm(vector), jnp.finfo(vector.dtype).tiny)
        return product_at(state.student, unit, data, state.lam, loss, functions, curvature)

    top = jax.lax.fori_loop(0, iterations, iterate, tangent(state.student, state.top))
    largest = jnp.linalg.norm(top)
    return state._replace(largest=largest, top=jnp.where(largest > 0, top, state.top))


def verdict(state: State, loss: Loss, rules: Numbers) -> Array:
    """The state's code: kept if it has ended, else not finite, converged, or running."""
    small = state.slope <= state.student.shape[-1] * rules.tolerance**2
    nothing = (rules.loss_floor > 0) & (
        state.loss <= rules.loss_floor * jnp.sum(loss.kept).astype(state.loss.dtype)
    )
    bad = ~(jnp.isfinite(state.loss) & jnp.isfinite(state.slope))
    code = jnp.where(bad, int(Code.NOT_FINITE), jnp.where(small | nothing, int(Code.CONVERGED), RUNNING))
    return jnp.where(state.code == RUNNING, code, state.code).astype(jnp.int32)
