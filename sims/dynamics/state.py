"""One descent: its rules, its state between steps, and what both dynamics of `sims.dynamics.flow` do with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from sims.dynamics.problem import Array, Problem, counted, retract, tangent
from theory.checks import ParameterError, choice, count, one, positive, shown


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
    warm     of the flow: products that renew the largest curvature before a step; the others as in sims.dynamics.state.Rules
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
    code = xp.where(small | nothing, int(End.CONVERGED), RUNNING)
    code = xp.where(finite, code, int(End.NOT_FINITE))
    return xp.where(state.code == RUNNING, code, state.code).astype(np.int32)


_MOST = {"steps": 2**31 - 1, "records": 10**6, "power_iterations": 2**31 - 1}  # steps are counted in int32
NAMES = ("flow", "steps")
WARM = 2  # products that renew the largest curvature before a step of the flow


@dataclass(frozen=True)
class Rules:
    """The rules of a descent.

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
        choice("dynamics", self.dynamics, NAMES)
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

    def numbers(self, dtype: np.dtype, asarray: Any = np.asarray) -> Numbers:
        """As arrays of a namespace, by its `asarray`, for descents in `dtype`."""
        lengths = np.diff(self.recorded_steps, prepend=0).astype(np.int32)
        reals = (self.tolerance_for(dtype), self.loss_floor, self.share, self.armijo, self.accuracy)
        counts = (asarray(np.int32(x)) for x in (self.power_iterations, WARM))
        return Numbers(asarray(lengths), *counts, *(asarray(np.asarray(real, dtype)) for real in reals))
