"""Gradient descent in steps of at most 1 / L, with a line search.

The step s is min(share / L, twice the last step), L a power-iteration estimate of the Riemannian Hessian's
largest eigenvalue that is renewed at every record, and it is then halved until the loss falls by at least
`armijo` s |g|^2 (Armijo's test), so that the loss is monotone by test and not by hope. Steps never exceed
1 / L, which keeps the path near that of gradient flow, and the sum of the steps is the flow's time. One step costs
two products with the data: the trial preactivations of every s are sqrt(N) (lam - s X g) / |w - s g|, so
halving s costs none.
"""

from __future__ import annotations

import numpy as np

from sims.dynamics.problem import Problem, either, repeated
from sims.dynamics.sphere import Array, retract
from sims.dynamics.state import Code, Numbers, State, power_iterated, refreshed, verdict

HALVINGS = 50


def renewed(problem: Problem, state: State, rules: Numbers) -> State:
    """What is done at a record: everything afresh from the weights, and the bound of the steps."""
    return power_iterated(problem, refreshed(problem, state, rules), rules.power_iterations)


def step(problem: Problem, state: State, rules: Numbers) -> State:
    """One step with its line search. The loss never rises: a step that fails Armijo's test is not taken."""
    n, xp = state.student.shape[-1], state.student.__array_namespace__()
    gradient = problem.projected_gradient(state.student, state.lam)
    slope = (gradient**2).sum()
    along = problem.data.push(gradient)
    squares = (gradient**2).sum(axis=-1)

    def trial(size: Array) -> tuple[Array, Array]:
        # |w - s g|^2 = N + s^2 |g|^2, as g is tangent: the rows shrink by `scale` = 1 + `less`. Changes of lam
        # and loss are formed without subtracting nearly equal numbers, so that Armijo's test still means
        # something close to a critical point.
        ratio = size**2 * squares / n
        less = -ratio / (xp.sqrt(1 + ratio) * (1 + xp.sqrt(1 + ratio)))
        change = state.lam * less - size * along * (1 + less)
        return change, problem.drop(state.lam, change)

    def rejected(carry: tuple[Array, Array, Array, Array]) -> Array:
        halved, size, _, drop = carry
        return (halved < HALVINGS) & ~(drop <= -rules.armijo * size * slope)

    def halve(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        halved, size, _, _ = carry
        return (halved + 1, size / 2, *trial(size / 2))

    bound = xp.where(state.largest > 0, rules.share / state.largest, 1.0)
    first = xp.minimum(bound, 2 * state.step).astype(slope.dtype)
    start = (xp.zeros((), np.int32), first, *trial(first))
    _, size, change, drop = repeated(rejected, halve, start)
    moved = state._replace(
        student=retract(state.student - size * gradient),
        lam=state.lam + change,
        loss=state.loss + drop,
        slope=slope,
        step=size,
        time=state.time + size,
        taken=state.taken + 1,
        left=state.left - 1,
        used=_used(problem, state, size, squares),
    )
    taken = drop <= -rules.armijo * size * slope
    stalled = state._replace(code=xp.asarray(int(Code.STALLED), np.int32))
    state = either(taken, moved, stalled)
    return state._replace(code=verdict(problem, state, rules))


def _used(problem: Problem, state: State, size: Array, squares: Array) -> Array:
    """The sum of forces after a step w - s g, g = X' f - curvature w, back on the spheres; squares (p,) of |g|^2."""
    if not state.used.size:
        return state.used
    n = state.student.shape[-1]
    moved = (
        state.used * (1 + size * problem.curvature(state.lam, n))[:, None]
        + size * problem.forces(state.lam).T
    )
    return moved / ((1 + size**2 * squares / n) ** 0.5)[:, None]
