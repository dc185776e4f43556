"""Gradient descent in steps of at most 1 / L, with a line search.

The step s is min(share / L, twice the last step), L a power-iteration estimate of the Riemannian Hessian's
largest eigenvalue that is renewed at every record, and it is then halved until the loss falls by at least
`armijo` s |g|^2 (Armijo's test), so that the loss is monotone by test and not by hope. Steps never exceed
1 / L, which keeps the path near that of gradient flow, and the sum of the steps is the flow's time. One step costs
two products with the data: the trial preactivations of every s are sqrt(N) (lam - s X g) / |w - s g|, so
halving s costs none.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from sims.descent.objective import Loss, drop_of, projected_gradient, pushed
from sims.descent.sphere import retract
from sims.descent.state import Code, Numbers, State, power_iterated, refreshed, verdict
from sims.hessian import Functions

HALVINGS = 50


def renewed(state: State, data: Array, loss: Loss, rules: Numbers, functions: Functions) -> State:
    """What is done at a record: everything afresh from the weights, and the bound of the steps."""
    fresh = refreshed(state, data, loss, rules, functions)
    return power_iterated(fresh, rules.power_iterations, data, loss, functions)


def step(
    state: State,
    data: Array,
    loss: Loss,
    rules: Numbers,
    functions: Functions,
    nodes: tuple[int, int],
) -> State:
    """One step with its line search. The loss never rises: a step that fails Armijo's test is not taken."""
    n = state.student.shape[-1]
    gradient = projected_gradient(state.student, data, state.lam, loss, functions)
    slope = jnp.sum(gradient**2)
    along = pushed(data, gradient)
    squares = jnp.sum(gradient**2, axis=-1)

    def trial(size: Array) -> tuple[Array, Array]:
        # |w - s g|^2 = N + s^2 |g|^2, as g is tangent: the rows shrink by `scale` = 1 + `less`. Changes of lam
        # and loss are formed without subtracting nearly equal numbers, so that Armijo's test still means
        # something close to a critical point.
        ratio = size**2 * squares / n
        less = -ratio / (jnp.sqrt(1 + ratio) * (1 + jnp.sqrt(1 + ratio)))
        change = state.lam * less - size * along * (1 + less)
        return change, drop_of(state.lam, change, loss, functions, nodes)

    def rejected(carry: tuple[Array, Array, Array, Array]) -> Array:
        halved, size, _, drop = carry
        return (halved < HALVINGS) & ~(drop <= -rules.armijo * size * slope)

    def halve(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        halved, size, _, _ = carry
        return (halved + 1, size / 2, *trial(size / 2))

    bound = jnp.where(state.largest > 0, rules.share / state.largest, 1.0)
    first = jnp.minimum(bound, 2 * state.step)
    _, size, change, drop = jax.lax.while_loop(
        rejected, halve, (jnp.zeros((), jnp.int32), first, *trial(first))
    )
    moved = state._replace(
        student=retract(state.student - size * gradient),
        lam=state.lam + change,
        loss=state.loss + drop,
        slope=slope,
        step=size,
        time=state.time + size,
        taken=state.taken + 1,
        left=state.left - 1,
    )
    taken = drop <= -rules.armijo * size * slope
    stalled = state._replace(code=jnp.asarray(int(Code.STALLED), jnp.int32))
    state = jax.tree.map(lambda new, old: jnp.where(taken, new, old), moved, stalled)
    return state._replace(code=verdict(state, loss, rules))
