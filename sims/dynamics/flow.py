"""The two dynamics of a descent by `Rules`: gradient flow, and gradient descent in steps with a line search.

Gradient flow, dw_k/dt = -g_k on the product of spheres, is integrated by a stabilised Runge-Kutta method.

Descents are stiff: the largest curvatures are hundreds to thousands of times those that decide where a path ends, and steps of
1 / L, which follow them all, crawl. Runge-Kutta-Chebyshev methods spend s gradients on one step of second order whose interval
of stability grows as s^2: steps of 0.65 s^2 / L, so that s gradients go s / 1.5 times as far as s steps of 1 / L, and no linear
system is solved. The method and its error estimate are those of B. P. Sommeijer, L. F. Shampine and J. G. Verwer, "RKC: an
explicit solver for parabolic PDEs", J. Comput. Appl. Math. 88 (1997) 315. A step is taken if its estimated error is at most
`accuracy` (root mean square of a weight, whose size is 1) and the loss does not rise.

The vector field is that of f(w) = loss(sqrt(N) w_k / |w_k|) in the surrounding space, which keeps every |w_k|: stages leave the
spheres by their error alone, and each step ends on them.

Steps: their size s is min(share / L, twice the last step), L a power-iteration estimate of the Riemannian Hessian's
largest eigenvalue that is renewed at every record, and it is then halved until the loss falls by at least
`armijo` s |g|^2 (Armijo's test), so that the loss is monotone by test and not by hope. Steps never exceed
1 / L, which keeps the path near that of gradient flow, and the sum of the steps is the flow's time. One step costs
two products with the data: the trial preactivations of every s are sqrt(N) (lam - s X g) / |w - s g|, so
halving s costs none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sims.dynamics.problem import Array, Problem, counted, either, repeated, retract, row_products, tangent
from sims.dynamics.state import NAMES, End, Numbers, State, power_iterated, refreshed, verdict

STAGES = 200  # most of one step
MARGIN = 1.15  # what the estimate of L, from below, is multiplied by
SHARE = 0.3  # largest estimated error of a step as a part of the step
SHORTEST = 2.0**-40  # step, in units of 1 / L, at which a descent has stalled
DAMPING = 2 / 13
HALVINGS = 50  # of a step, in its line search


def flow_step(problem: Problem, state: State, rules: Numbers) -> State:
    """One step of the flow, or a shorter one to try next. `taken` counts gradients and products with the Hessian, but for those
    that find its largest eigenvalue from nothing."""
    xp, kind = state.student.__array_namespace__(), state.student.dtype
    iterations = xp.where(state.largest > 0, rules.warm, rules.power_iterations)
    state = power_iterated(problem, state, iterations)
    bound = (MARGIN * xp.where(state.largest > 0, state.largest, 1.0)).astype(kind)
    most = _stages(kind, rules.accuracy)
    first = xp.where(xp.isfinite(state.step), state.step, 1 / bound)
    # Longer steps would want more stages than are allowed to be stable.
    size = xp.minimum(first, 0.65 * (most**2 - 1) / bound).astype(kind)
    # The fewest whose interval of stability, 0.65 (s^2 - 1), holds size times L: 1.54 is 1 / 0.65.
    stages = xp.clip(xp.ceil(xp.sqrt(1 + 1.54 * size * bound)), 2, most).astype(np.int32)

    def slope_at(point: Array) -> Array:
        return _field(problem, point, state.student.shape[-1])

    student, used = _split(
        chebyshev_step(slope_at, _joined(state.student, state.used), _first(problem, state), size, stages),
        state.student.shape[-1],
    )
    lam = problem.preactivations(student)
    gradient = problem.projected_gradient(student, lam)
    # The estimate of Sommeijer, Shampine and Verwer, of third order in the step; slopes are minus gradients.
    error = 0.8 * (state.student - student) - 0.4 * size * (state.gradient + gradient)
    allowed = xp.minimum(rules.accuracy, SHARE * _size(state.student - student))
    relative = _size(error) / allowed
    falls = problem.drop(state.lam, lam - state.lam) <= problem.noise(state.lam)
    # An error of third order: the step that would just meet `allowed`, less a margin.
    factor = xp.clip(0.8 * xp.maximum(relative, 1e-9) ** (-1 / 3), 0.1, 5.0)
    factor = xp.where(xp.isfinite(relative), factor, 0.1).astype(kind)
    taken = falls & (relative <= 1)
    spent = stages + rules.warm
    state = state._replace(taken=state.taken + spent, left=state.left - spent)
    moved = state._replace(
        student=student,
        lam=lam,
        loss=problem.value(lam),
        gradient=gradient,
        slope=(gradient**2).sum(),
        step=size * factor,
        time=state.time + size,
        used=used,
    )
    # Refused although the error is small, or no number at all: the estimate of L may be too low, and is made anew.
    doubted = ~taken & ~(relative > 1)
    shorter = size * xp.where(falls, factor, xp.minimum(factor, 0.5)).astype(kind)
    ended = xp.where(shorter * bound < SHORTEST, int(End.STALLED), state.code).astype(np.int32)
    kept = state._replace(step=shorter, largest=xp.where(doubted, 0, state.largest).astype(kind), code=ended)
    state = either(taken, moved, kept)
    return state._replace(code=verdict(problem, state, rules))


def chebyshev_step(slope, start: Array, first: Array, size: Array, stages: Array) -> Array:
    """One step of second order in `stages` (at least 2) of dw/dt = slope(w) from `start`, where the slope is `first`."""
    xp, s = start.__array_namespace__(), stages.astype(np.float64)
    w0 = 1 + DAMPING / s**2
    root = xp.sqrt(w0**2 - 1)
    arc = s * xp.log(w0 + root)
    w1 = xp.sinh(arc) * root**2 / (xp.cosh(arc) * s * root - w0 * xp.sinh(arc))  # T_s' / T_s'' at w0
    h, kind = size.astype(np.float64), start.dtype
    # b_0 = b_1 = b_2 = T_2'' / T_2'^2 at w0.
    b = 1 / (2 * w0) ** 2
    one, zero = xp.ones((), np.float64), xp.zeros((), np.float64)
    # of the last two stages: the points, T, T', T'' and b
    state = (
        start + (h * w1 * b).astype(kind) * first, start,
        (w0, one), (one, zero), (zero, zero), (b, b),
    )  # fmt: skip

    def stage(_: Array, state):
        last, before, t, dt, d2t, (b1, b2) = state
        # T, T' and T'' at w0 by the three-term recurrence.
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

    return counted(2, stages + 1, stage, state)[0]


def _field(problem: Problem, point: Array, n: int) -> Array:
    """-grad f at a point (p, N) near the spheres; behind it, where the sum of forces is kept, how that goes on."""
    rows, used = point[..., :n], point[..., n:]
    length = point.__array_namespace__().linalg.norm(rows, axis=-1, keepdims=True) / n**0.5
    student = rows / length
    forces = problem.forces(problem.preactivations(student))
    gradient = problem.data.pull(forces)
    # w' = -X' f / length + shrinking w, for every part of w = c w_0 - X' used
    shrinking = row_products(student, gradient)[..., None] / length**2
    return _joined(
        -tangent(student, gradient) / length, forces.T / length + shrinking * used if used.size else used
    )


def _first(problem: Problem, state: State) -> Array:
    """The field at the state, its gradient known."""
    if not state.used.size:
        return -state.gradient
    curvature = problem.curvature(state.lam, state.student.shape[-1])
    return _joined(-state.gradient, problem.forces(state.lam).T + curvature[:, None] * state.used)


def _joined(rows: Array, used: Array) -> Array:
    """Rows (p, N), and behind them the sum of forces (p, M) where it is kept."""
    return rows.__array_namespace__().concatenate([rows, used], axis=-1) if used.size else rows


def _split(point: Array, n: int) -> tuple[Array, Array]:
    """The student on its spheres, and the sum of forces that goes with it."""
    rows, used = point[..., :n], point[..., n:]
    if used.size:
        used = used * (n**0.5 / point.__array_namespace__().linalg.norm(rows, axis=-1, keepdims=True))
    return retract(rows), used


def _size(change: Array) -> Array:
    """Root mean square of a weight's change."""
    return (change**2).mean() ** 0.5


def _stages(dtype: np.dtype, accuracy: Array) -> Array:
    """The most stages of a step: roundings grow with their square, and shall stay a tenth of the accuracy."""
    xp = accuracy.__array_namespace__()
    return xp.clip(xp.floor(xp.sqrt(accuracy / (10 * np.finfo(dtype).eps))), 2, STAGES)


def steps_renewed(problem: Problem, state: State, rules: Numbers) -> State:
    """What is done at a record: everything afresh from the weights, and the bound of the steps."""
    return power_iterated(problem, refreshed(problem, state, rules), rules.power_iterations)


def line_step(problem: Problem, state: State, rules: Numbers) -> State:
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
    # Twice the last step, for a step once halved must be able to grow again.
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
    stalled = state._replace(code=xp.asarray(int(End.STALLED), np.int32))
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


class Dynamics(NamedTuple):
    """What is done at a record, everything afresh from the weights, and one step."""

    renewed: Callable[[Problem, State, Numbers], State]
    step: Callable[[Problem, State, Numbers], State]


DYNAMICS = dict(zip(NAMES, (Dynamics(refreshed, flow_step), Dynamics(steps_renewed, line_step)), strict=True))
