"""The state of one descent between its steps, and what `sims.dynamics.steps` and `sims.dynamics.flow` both do with it."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from sims.dynamics.arrays import counted
from sims.dynamics.problem import Problem
from sims.dynamics.sphere import Array, retract, tangent


class Code(IntEnum):
    """How a descent ended. STALLED: no step lowered the loss by enough; NOT_FINITE: loss or gradient is not."""

    CONVERGED = 0
    STEP_LIMIT = 1
    STALLED = 2
    NOT_FINITE = 3


RUNNING = -1


class Numbers(NamedTuple):
    """The rules of a descent as arrays: arguments of the compiled program, so that other rules need no other program.

    lengths  (R,) steps from each record to the next, 0 before the first
    warm     of the flow: products that renew the largest curvature before a step; the others as in sims.dynamics.rules.Rules
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
    time           sum of the steps; taken: their number; left: how many until the next record; code: RUNNING or Code
    used           (p, M) sum of all forces so far, each with the factors by which the spheres have shrunk it: the student is
                   c times the start, less X' of it (`theory.path.used`); (p, 0) where it is not kept
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


def begin(problem: Problem, student: Array, keeping: bool = False) -> State:
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
    xp, samples = state.student.__array_namespace__(), problem.loss.kept.sum()
    small = state.slope <= state.student.shape[-1] * rules.tolerance**2
    nothing = (rules.loss_floor > 0) & (state.loss <= rules.loss_floor * samples.astype(state.loss.dtype))
    finite = xp.isfinite(state.loss) & xp.isfinite(state.slope)
    code = xp.where(small | nothing, int(Code.CONVERGED), RUNNING)
    code = xp.where(finite, code, int(Code.NOT_FINITE))
    return xp.where(state.code == RUNNING, code, state.code).astype(np.int32)
