"""Descents by `Rules`: their state, and the two dynamics, gradient flow and gradient descent in steps with a line search.

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

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from sims.dynamics.problem import Array, Problem, counted, either, repeated, retract, row_products, tangent
from theory.checks import ParameterError, choice, count, one, positive, shown

STAGES = 200  # most of one step
MARGIN = 1.15  # what the estimate of L, from below, is multiplied by
SHARE = 0.3  # largest estimated error of a step as a part of the step
SHORTEST = 2.0**-40  # step, in units of 1 / L, at which a descent has stalled
DAMPING = 2 / 13
HALVINGS = 50  # of a step, in its line search
RENEWED = 64  # gradients between two estimates of the largest curvature by the flow on the host
_MOST = {"steps": 2**31 - 1, "records": 10**6, "power_iterations": 2**31 - 1}  # steps are counted in int32
WARM = 2  # products that renew the largest curvature before a step of the flow


class End(IntEnum):
    """How a descent ended. STALLED: no step lowered the loss by enough; NOT_FINITE: loss or gradient is not."""

    CONVERGED = 0
    STEP_LIMIT = 1
    STALLED = 2
    NOT_FINITE = 3


RUNNING = -1


class Numbers(NamedTuple):
    """The rules of a descent as arrays: arguments of the compiled program, so that other rules need no other program.

    lengths  (R,) steps from each record to the next, 0 before the first
    warm     of the flow: products that renew the largest curvature before a step; the others as in `Rules`
    """

    lengths: Array
    power_iterations: Array
    warm: Array
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
    time           sum of the steps; taken: their number; left: how many until the next record; code: RUNNING or End
    used           (p, M) sum of all forces so far, each with the factors by which the spheres have shrunk it: the student is
                   c times the start, less X' of it (`theory.path.conditioned`); (p, 0) where it is not kept
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
    used: Array


@dataclass(frozen=True)
class Rules:
    """The rules of a descent, and a method too (`sims.dynamics.methods`): the steps of `run.descend_batch`, on the host.

    There the largest curvature of the flow is renewed after every 64 gradients and where a step is refused: each product would
    span one more direction of deferred data.

    dynamics          "flow" or "steps" (`sims.dynamics.flow`)
    steps             largest number of steps; of the flow: of gradients, and products with the Hessian, which cost the same
    records           about how many points of the path are kept, log-spaced in steps, start and end among them
    tolerance         converged when |g| / sqrt(N) is at most this (g the Riemannian gradient) in units of the loss's slope
                      (`loss_unit`, 1 for the committee of a < 1); None takes 1e-6 in float64 and 3e-5 in float32, whose
                      rounding ends descents at about 1e-5 (N = 100 to 1,000)
    loss_floor        ended as converged, too, where the loss per sample is at most this, in the same units; 0: only at the
                      tolerance. The loss is never negative, and may approach 0 along nearly flat directions
    accuracy          of the flow: largest estimated error of one step, root mean square of a weight (whose size is 1)
    share             of steps: the largest as a share of 1 / L, in (0, 1]: small shares follow gradient flow more closely
    armijo            of steps: part of the linear prediction s |g|^2 by which the loss must fall, in (0, 1/2]
    power_iterations  matrix-vector products by which L is found anew

    Raises ParameterError.
    """

    dynamics: str = "flow"
    steps: int = 3000
    records: int = 40
    tolerance: float | None = None
    loss_floor: float = 0.0
    accuracy: float = 1e-3
    share: float = 1.0
    armijo: float = 0.25
    power_iterations: int = 20

    def __post_init__(self) -> None:
        choice("dynamics", self.dynamics, DYNAMICS)
        for name, least in (("steps", 1), ("records", 2), ("power_iterations", 1)):
            whole = count(name, getattr(self, name), least)
            if whole > _MOST[name]:
                raise ParameterError(f"{name} must be at most {_MOST[name]}, got {shown(whole)}")
            object.__setattr__(self, name, whole)
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", one("tolerance", positive("tolerance", self.tolerance)))
        if not 0 <= one("loss_floor", self.loss_floor) < math.inf:
            raise ParameterError(f"loss_floor must be 0 or more and finite, got {self.loss_floor!r}")
        for name, most in (("share", 1.0), ("armijo", 0.5), ("accuracy", 0.1)):
            value = one(name, positive(name, getattr(self, name)))
            if value > most:
                raise ParameterError(f"{name} must be at most {most}, got {value!r}")
            object.__setattr__(self, name, value)

    @property
    def recorded_steps(self) -> tuple[int, ...]:
        """The step numbers kept: 0, then log-spaced whole numbers up to `steps`."""
        spaced = np.rint(np.geomspace(1, self.steps, self.records - 1)).astype(int)
        return (0, *(int(s) for s in np.unique(np.append(spaced, self.steps))))

    def tolerance_for(self, dtype: np.dtype) -> float:
        """The tolerance, with the default that suits `dtype`."""
        default = 1e-6 if np.dtype(dtype).itemsize >= 8 else 3e-5
        return default if self.tolerance is None else self.tolerance

    def numbers(self, dtype: np.dtype) -> Numbers:
        """As arrays, for descents in `dtype`."""
        lengths = np.diff(self.recorded_steps, prepend=0).astype(np.int32)
        reals = (self.tolerance_for(dtype), self.loss_floor, self.share, self.armijo, self.accuracy)
        counts = (np.asarray(np.int32(x)) for x in (self.power_iterations, WARM))
        return Numbers(lengths, *counts, *(np.asarray(real, dtype) for real in reals))

    def begin(self, problem: Problem, student: Array) -> State:
        """The state at the start (p, N), its curvature known."""
        return self._renewed(problem, started(problem, np.asarray(student, problem.data.dtype)))

    def step(self, problem: Problem, state: State, rng: np.random.Generator) -> State:
        """One step, or a shorter one to try next."""
        numbers, due = self.numbers(problem.data.dtype), state.left <= 0
        if self.dynamics == "steps":
            state = self._renewed(problem, state) if due else state
        elif due:
            state = state._replace(left=np.int32(RENEWED))
        else:
            numbers = numbers._replace(warm=np.int32(0))
        return DYNAMICS[self.dynamics][1](problem, state, numbers)

    def _renewed(self, problem: Problem, state: State) -> State:
        numbers = self.numbers(problem.data.dtype)
        return DYNAMICS[self.dynamics][0](problem, state, numbers)._replace(left=np.int32(RENEWED))


def started(problem: Problem, student: Array, keeping: bool = False) -> State:
    """The start; the first record, of no steps, fills in the rest. keeping: whether `used` is kept."""
    xp = student.__array_namespace__()
    zero, whole = xp.zeros((), problem.data.dtype), xp.zeros((), np.int32)
    student = retract(student)
    lam = problem.preactivations(student)
    # The first direction of the power iteration is fixed, not drawn: nothing outside sims.instance draws
    # numbers. The gradient lies in the span of the data, so it meets the top eigenvector.
    top = tangent(student, problem.gradient(lam))
    used = lam.T[:, : len(lam) if keeping else 0] * 0
    return State(
        student, lam, zero, top, zero, zero + np.inf, zero, top, zero, whole, whole, whole + RUNNING, used
    )


def refreshed(problem: Problem, state: State, rules: Numbers) -> State:
    """Preactivations, loss and gradient afresh from the weights (rounding must not build up), and whether it has ended."""
    lam = problem.preactivations(state.student)
    gradient = problem.projected_gradient(state.student, lam)
    fresh = state._replace(lam=lam, loss=problem.value(lam), gradient=gradient, slope=(gradient**2).sum())
    return fresh._replace(code=verdict(problem, fresh, rules))


def power_iterated(problem: Problem, state: State, iterations: Array) -> State:
    """The state with a better estimate of the Riemannian Hessian's largest eigenvalue; from below, by so many products.

    Zeros (a start at a critical point of a flat loss) say nothing: `largest` is then 0 and the vector stays.
    """
    xp = state.student.__array_namespace__()
    curvature = problem.curvature(state.lam, state.student.shape[-1])

    def iterate(_: Array, vector: Array) -> Array:
        unit = vector / xp.maximum(xp.linalg.norm(vector), np.finfo(vector.dtype).tiny)
        return problem.product(state.student, unit, state.lam, curvature)

    top = counted(0, iterations, iterate, tangent(state.student, state.top))
    largest = xp.linalg.norm(top)
    return state._replace(largest=largest, top=xp.where(largest > 0, top, state.top))


def verdict(problem: Problem, state: State, rules: Numbers) -> Array:
    """The state's code: kept if it has ended, else not finite, converged, or running."""
    xp, samples = state.student.__array_namespace__(), problem.kept.sum()
    small = state.slope <= state.student.shape[-1] * rules.tolerance**2
    nothing = (rules.loss_floor > 0) & (state.loss <= rules.loss_floor * samples.astype(state.loss.dtype))
    finite = xp.isfinite(state.loss) & xp.isfinite(state.slope)
    code = xp.where(small | nothing, int(End.CONVERGED), RUNNING)
    code = xp.where(finite, code, int(End.NOT_FINITE))
    return xp.where(state.code == RUNNING, code, state.code).astype(np.int32)


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


# What is done at a record, everything afresh from the weights, and one step.
DYNAMICS: dict[str, tuple[Callable[[Problem, State, Numbers], State], ...]] = {
    "flow": (refreshed, flow_step),
    "steps": (steps_renewed, line_step),
}
