"""Gradient flow, dw_k/dt = -g_k on the product of spheres, integrated by a stabilised Runge-Kutta method.

Descents are stiff: the largest curvatures are hundreds to thousands of times those that decide where a path ends, and steps of
1 / L, which follow them all, crawl. Runge-Kutta-Chebyshev methods spend s gradients on one step of second order whose interval
of stability grows as s^2: steps of 0.65 s^2 / L, so that s gradients go s / 1.5 times as far as s steps of 1 / L, and no linear
system is solved. The method and its error estimate are those of B. P. Sommeijer, L. F. Shampine and J. G. Verwer, "RKC: an
explicit solver for parabolic PDEs", J. Comput. Appl. Math. 88 (1997) 315. A step is taken if its estimated error is at most
`accuracy` (root mean square of a weight, whose size is 1) and the loss does not rise.

The vector field is that of f(w) = loss(sqrt(N) w_k / |w_k|) in the surrounding space, which keeps every |w_k|: stages leave the
spheres by their error alone, and each step ends on them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sims.descent.objective import Loss, drop_of, gradient_at, projected_gradient, pushed, value_at
from sims.descent.sphere import retract, tangent
from sims.descent.state import Code, Numbers, State, power_iterated, refreshed, verdict
from sims.hessian import Functions

STAGES = 200  # most of one step
MARGIN = 1.15  # what the estimate of L, from below, is multiplied by
SHARE = 0.3  # largest estimated error of a step as a part of the step
WARM = 2  # products that renew it before a step
SHORTEST = 2.0**-40  # step, in units of 1 / L, at which a descent has stalled
DAMPING = 2 / 13


def renewed(state: State, data: Array, loss: Loss, rules: Numbers, functions: Functions) -> State:
    """What is done at a record: everything afresh from the weights."""
    return refreshed(state, data, loss, rules, functions)


def step(
    state: State,
    data: Array,
    loss: Loss,
    rules: Numbers,
    functions: Functions,
    nodes: tuple[int, int],
) -> State:
    """One step of the flow, or a shorter one to try next. `taken` counts gradients and products with the Hessian, but for those
    that find its largest eigenvalue from nothing."""
    iterations = jnp.where(state.largest > 0, WARM, rules.power_iterations)
    state = power_iterated(state, iterations, data, loss, functions)
    bound = MARGIN * jnp.where(state.largest > 0, state.largest, 1.0)
    most = _stages(state.student.dtype, rules.accuracy)
    first = jnp.where(jnp.isfinite(state.step), state.step, 1 / bound)
    size = jnp.minimum(first, 0.65 * (most**2 - 1) / bound)
    stages = jnp.clip(jnp.ceil(jnp.sqrt(1 + 1.54 * size * bound)), 2, most).astype(jnp.int32)

    def slope_at(point: Array) -> Array:
        return _field(point, data, loss, functions)

    student = retract(chebyshev_step(slope_at, state.student, -state.gradient, size, stages))
    lam = pushed(data, student)
    gradient = projected_gradient(student, data, lam, loss, functions)
    error = 0.8 * (state.student - student) - 0.4 * size * (state.gradient + gradient)
    allowed = jnp.minimum(rules.accuracy, SHARE * _size(state.student - student))
    relative = _size(error) / allowed
    falls = drop_of(state.lam, lam - state.lam, loss, functions, nodes) <= _noise(state.lam, loss, functions)
    factor = jnp.clip(0.8 * jnp.maximum(relative, 1e-9) ** (-1 / 3), 0.1, 5.0)
    factor = jnp.where(jnp.isfinite(relative), factor, 0.1)
    taken = falls & (relative <= 1)
    spent = stages + WARM
    state = state._replace(taken=state.taken + spent, left=state.left - spent)
    moved = state._replace(
        student=student,
        lam=lam,
        loss=value_at(lam, loss, functions),
        gradient=gradient,
        slope=jnp.sum(gradient**2),
        step=size * factor,
        time=state.time + size,
    )
    # Refused although the error is small, or no number at all: the estimate of L may be too low, and is made anew.
    doubted = ~taken & ~(relative > 1)
    shorter = size * jnp.where(falls, factor, jnp.minimum(factor, 0.5))
    ended = jnp.where(shorter * bound < SHORTEST, int(Code.STALLED), state.code)
    kept = state._replace(
        step=shorter, largest=jnp.where(doubted, 0, state.largest), code=ended.astype(jnp.int32)
    )
    state = jax.tree.map(lambda new, old: jnp.where(taken, new, old), moved, kept)
    return state._replace(code=verdict(state, loss, rules))


def chebyshev_step(slope, start: Array, first: Array, size: Array, stages: Array) -> Array:
    """One step of second order in `stages` (at least 2) of dw/dt = slope(w) from `start`, where the slope is `first`."""
    s = stages.astype(jnp.float64)
    w0 = 1 + DAMPING / s**2
    root = jnp.sqrt(w0**2 - 1)
    arc = s * jnp.log(w0 + root)
    w1 = jnp.sinh(arc) * root**2 / (jnp.cosh(arc) * s * root - w0 * jnp.sinh(arc))  # T_s' / T_s'' at w0
    h, kind = size.astype(jnp.float64), start.dtype
    b = 1 / (2 * w0) ** 2
    one, zero = jnp.ones(()), jnp.zeros(())
    # of the last two stages: the points, T, T', T'' and b
    state = (
        start + (h * w1 * b).astype(kind) * first, start,
        (w0, one), (one, zero), (zero, zero), (b, b),
    )  # fmt: skip

    def stage(_: Array, state):
        last, before, t, dt, d2t, (b1, b2) = state
        new_t = 2 * w0 * t[0] - t[1]
        new_dt = 2 * w0 * dt[0] - dt[1] + 2 * t[0]
        new_d2t = 2 * w0 * d2t[0] - d2t[1] + 4 * dt[0]
        new_b = new_d2t / new_dt**2
        mu, nu = 2 * w0 * new_b / b1, -new_b / b2
        pace = h * mu * w1 / w0
        rest = slope(last) - (1 - t[0] * b1).astype(kind) * first
        new = (
            mu.astype(kind) * last + nu.astype(kind) * before
            + (1 - mu - nu).astype(kind) * start + pace.astype(kind) * rest
        )  # fmt: skip
        return new, last, (new_t, t[0]), (new_dt, dt[0]), (new_d2t, d2t[0]), (new_b, b1)

    return jax.lax.fori_loop(2, stages + 1, stage, state)[0]


def _field(point: Array, data: Array, loss: Loss, functions: Functions) -> Array:
    """-grad f at a point (p, N) near the spheres."""
    n = point.shape[-1]
    length = jnp.linalg.norm(point, axis=-1, keepdims=True) / n**0.5
    student = point / length
    gradient = gradient_at(data, pushed(data, student), loss, functions)
    return -tangent(student, gradient) / length


def _size(change: Array) -> Array:
    """Root mean square of a weight's change."""
    return jnp.sqrt(jnp.mean(change**2))


def _stages(dtype: np.dtype, accuracy: Array) -> Array:
    """The most stages of a step: roundings grow with their square, and shall stay a tenth of the accuracy."""
    return jnp.clip(jnp.floor(jnp.sqrt(accuracy / (10 * jnp.finfo(dtype).eps))), 2, STAGES)


def _noise(lam: Array, loss: Loss, functions: Functions) -> Array:
    """What the change of the loss may be by rounding alone."""
    yhat = jnp.mean(functions.activation[0](lam, jnp), axis=-1).astype(jnp.float64)
    pull = functions.loss[1](loss.y, yhat, loss.a, jnp) / loss.unit
    return (16 * jnp.finfo(lam.dtype).eps * jnp.sum(loss.kept * jnp.abs(pull))).astype(lam.dtype)
