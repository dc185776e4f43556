"""Gradient descent of the loss on the product of spheres |w_k|^2 = N, many samples at once.

    w_k  <-  sqrt(N) (w_k - s g_k) / |w_k - s g_k|,      g = the gradient's tangent part (Riemannian gradient)

The step s is min(share / L, twice the last step), L a power-iteration estimate of the Riemannian Hessian's
largest eigenvalue that is renewed at every record, and it is then halved until the loss falls by at least
`armijo` s |g|^2 (Armijo's test), so that the loss is monotone by test and not by hope. Steps never exceed
1 / L, which keeps the path near that of gradient flow, and the sum of the steps is the flow's time. One step costs
two products with the data: the trial preactivations of every s are sqrt(N) (lam - s X g) / |w - s g|, so
halving s costs none.

The model is that of theory.model (arXiv 2510.18435, section 2), or any network of theory.general.network. The loss is descended
in units of its own slope (`sims.descent.objective`), so that tolerances mean the same for every a. Rows of zeros may pad the
data, so that one compiled program serves every alpha of a grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sims.descent.objective import (
    QUADRATIC,
    Loss,
    change_of,
    gradient_at,
    loss_unit,
    nodes_of,
    outputs_of,
    product_at,
    value_at,
)
from sims.descent.sphere import retract, tangent
from sims.hessian import Functions
from sims.pinned import pinned
from theory.checks import ParameterError, count, one, positive

HALVINGS = 50


class Code(IntEnum):
    """How a descent ended. STALLED: no step lowered the loss by enough; NOT_FINITE: loss or gradient is not."""

    CONVERGED = 0
    STEP_LIMIT = 1
    STALLED = 2
    NOT_FINITE = 3


_RUNNING = -1


@dataclass(frozen=True)
class Rules:
    """The rules of a descent.

    steps             largest number of steps
    records           about how many points of the path are kept, log-spaced in steps, start and end among them
    tolerance         converged when |g| / sqrt(N) is at most this (g the Riemannian gradient) in units of the loss's slope
                      (`loss_unit`, 1 for the committee of a < 1); None takes 1e-6 in float64 and 1e-3 in float32
    share             largest step as a share of 1 / L, in (0, 1]: small shares follow gradient flow more closely
    armijo            part of the linear prediction s |g|^2 by which the loss must fall, in (0, 1/2]
    power_iterations  matrix-vector products per renewal of the step's bound

    Raises ParameterError.
    """

    steps: int = 3000
    records: int = 40
    tolerance: float | None = None
    share: float = 1.0
    armijo: float = 0.25
    power_iterations: int = 20

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("records", 2), ("power_iterations", 1)):
            object.__setattr__(self, name, count(name, getattr(self, name), least))
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", one("tolerance", positive("tolerance", self.tolerance)))
        for name, most in (("share", 1.0), ("armijo", 0.5)):
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
        default = 1e-6 if np.dtype(dtype).itemsize >= 8 else 1e-3
        return default if self.tolerance is None else self.tolerance


class Path(NamedTuple):
    """Descents of a batch of S samples at R records.

    student   (S, R, p, N)  the weights; a sample that has ended repeats its last point
    loss      (S, R)        computed afresh from the weights
    gradient  (S, R)        |g| / sqrt(N), g the Riemannian gradient
    time      (S, R)        sum of the steps so far: the time of gradient flow
    steps     (S, R)        steps taken so far
    code      (S,)          Code of the end
    """

    student: Array
    loss: Array
    gradient: Array
    time: Array
    steps: Array
    code: Array


class _State(NamedTuple):
    student: Array
    lam: Array
    loss: Array
    slope: Array
    step: Array
    bound: Array
    top: Array
    time: Array
    taken: Array
    left: Array
    code: Array


@pinned
def descend(
    data: Array,
    y: Array,
    student: Array,
    a: float,
    rules: Rules | None = None,
    *,
    group: int | None = None,
    functions: Functions = QUADRATIC,
    samples: int | None = None,
) -> Path:
    """Gradient descent of a batch of samples from the given students.

    data     (S, M, N), rows of zeros allowed; y (S, M) their labels
    student  (S, p, N) starts; rows are scaled to norm sqrt(N)
    a        parameter of the loss
    group    samples run side by side (vmapped), the groups one after another in one compiled loop. None takes
             1 on a CPU, where one sample's data stays in the cache (all side by side was 2 times slower at N = 100,
             M = 400) and a sample that has converged costs nothing more, and all of them elsewhere.

    functions  of the model (`sims.hessian.functions_of`); by default those of the committee
    samples    rows that count, M of them; the others pad. None: all
    Returns a Path, with loss, gradient and time in float64. A sample that fails (STALLED, NOT_FINITE) keeps its last good
    point and does not disturb the others.
    Raises ParameterError if the shapes do not fit or a is not positive.
    """
    rules = Rules() if rules is None else rules
    positive("a", a)
    number, m, n = data.shape
    if y.shape != (number, m) or student.ndim != 3 or (student.shape[0], student.shape[2]) != (number, n):
        raise ParameterError(
            f"data (S, M, N), y (S, M) and student (S, p, N) must fit, got {data.shape}, {y.shape}, {student.shape}"
        )
    if group is None:
        group = 1 if jax.default_backend() == "cpu" else number
    group = min(count("group", group), max(number, 1))
    unit = loss_unit(functions, a)
    kept = jnp.arange(m) < (m if samples is None else count("samples", samples))
    loss = Loss(
        jnp.asarray(y, jnp.float64),
        jnp.broadcast_to(kept, y.shape).astype(jnp.float64),
        *(jnp.full(number, value, jnp.float64) for value in (a, unit)),
    )
    path = _descend(
        data, loss, student, _numbers(rules, data.dtype), group, functions, nodes_of(functions, a)
    )
    return path._replace(
        loss=path.loss.astype(jnp.float64) * unit,
        gradient=path.gradient.astype(jnp.float64) * unit,
        time=path.time.astype(jnp.float64) / unit,
    )


class _Numbers(NamedTuple):
    """The rules as arrays: arguments of the compiled program, so that other rules need no other program."""

    lengths: Array
    power_iterations: Array
    floor: Array
    share: Array
    armijo: Array


def _numbers(rules: Rules, dtype: np.dtype) -> _Numbers:
    lengths = np.diff(rules.recorded_steps, prepend=0).astype(np.int32)
    reals = (rules.tolerance_for(dtype), rules.share, rules.armijo)
    return _Numbers(
        jnp.asarray(lengths), jnp.int32(rules.power_iterations), *(jnp.asarray(real, dtype) for real in reals)
    )


@partial(jax.jit, static_argnums=(4, 5, 6))
def _descend(
    data: Array,
    loss: Loss,
    student: Array,
    rules: _Numbers,
    group: int,
    functions: Functions,
    nodes: tuple[int, int],
) -> Path:
    def one(sample: tuple[Array, Loss, Array]) -> Path:
        return _one(*sample, rules, functions, nodes)

    return jax.lax.map(one, (data, loss, student), batch_size=None if group == 1 else group)


def _one(
    data: Array, loss: Loss, student: Array, rules: _Numbers, functions: Functions, nodes: tuple[int, int]
) -> Path:
    """The descent of one sample: a scan over records, in each a while loop over steps."""

    def record(state: _State, length: Array) -> tuple[_State, tuple[Array, ...]]:
        state = jax.lax.while_loop(
            lambda s: (s.left > 0) & (s.code == _RUNNING),
            lambda s: _step(s, data, loss, rules, functions, nodes),
            state._replace(left=length),
        )
        state = _renew(state, data, loss, rules, functions)
        norm = jnp.sqrt(state.slope / student.shape[-1])
        return state, (state.student, state.loss, norm, state.time, state.taken)

    state, kept = jax.lax.scan(record, _begin(data, loss, student, functions), rules.lengths)
    ended = jnp.where(state.code == _RUNNING, int(Code.STEP_LIMIT), state.code)
    students, losses, norm, time, taken = kept
    return Path(students, losses, norm, time, taken, ended)


def _begin(data: Array, loss: Loss, student: Array, functions: Functions) -> _State:
    """The start; the first record, of no steps, fills in the rest."""
    zero = jnp.zeros((), data.dtype)
    whole = jnp.zeros((), jnp.int32)
    student = retract(student)
    # The first direction of the power iteration is fixed, not drawn: nothing outside sims.instance draws
    # numbers. The gradient lies in the span of the data, so it meets the top eigenvector.
    top = tangent(student, gradient_at(data, data @ student.T, loss, functions))
    return _State(
        student, data @ student.T, zero, zero, zero + jnp.inf, zero, top, zero, whole, whole, whole + _RUNNING
    )


def _renew(state: _State, data: Array, loss: Loss, rules: _Numbers, functions: Functions) -> _State:
    """Preactivations, loss and slope afresh from the weights (rounding must not build up), and the step's bound."""
    lam = data @ state.student.T

    def iterate(_: Array, vector: Array) -> Array:
        unit = vector / jnp.maximum(jnp.linalg.norm(vector), jnp.finfo(vector.dtype).tiny)
        return product_at(state.student, unit, data, lam, loss, functions)

    top = jax.lax.fori_loop(0, rules.power_iterations, iterate, tangent(state.student, state.top))
    largest = jnp.linalg.norm(top)
    gradient = tangent(state.student, gradient_at(data, lam, loss, functions))
    fresh = state._replace(
        lam=lam,
        loss=value_at(lam, loss, functions),
        slope=jnp.sum(gradient**2),
        # Zeros (a start at a critical point) say nothing about L; no step is taken there either.
        bound=jnp.where(largest > 0, rules.share / largest, 1.0),
        top=jnp.where(largest > 0, top, state.top),
    )
    return fresh._replace(code=_verdict(fresh, rules.floor))


def _verdict(state: _State, floor: Array) -> Array:
    """The state's code: kept if it has ended, else not finite, converged, or running."""
    small = state.slope <= state.student.shape[-1] * floor**2
    bad = ~(jnp.isfinite(state.loss) & jnp.isfinite(state.slope))
    code = jnp.where(bad, int(Code.NOT_FINITE), jnp.where(small, int(Code.CONVERGED), _RUNNING))
    return jnp.where(state.code == _RUNNING, code, state.code).astype(jnp.int32)


def _step(
    state: _State,
    data: Array,
    loss: Loss,
    rules: _Numbers,
    functions: Functions,
    nodes: tuple[int, int],
) -> _State:
    """One step with its line search. The loss never rises: a step that fails Armijo's test is not taken."""
    n = state.student.shape[-1]
    # Projected twice: the first leaves a normal part of a rounding error of the whole gradient, which near a
    # critical point is no longer small beside the tangent part, and the whole gradient does not vanish there. In a
    # loop: else XLA may compute the first projection once for each use, with other roundings, and the second takes
    # away what is not there.
    whole = gradient_at(data, state.lam, loss, functions)
    gradient = jax.lax.fori_loop(0, 2, lambda _, vector: tangent(state.student, vector), whole)
    slope = jnp.sum(gradient**2)
    pushed = data @ gradient.T
    squares = jnp.sum(gradient**2, axis=-1)
    yhat = outputs_of(functions, state.lam)

    def slope_at(lam: Array) -> Array:
        return functions.activation[1](lam, jnp)

    def pull_at(output: Array) -> Array:
        return functions.loss[1](loss.y, output, loss.a, jnp) / loss.unit

    def trial(step: Array) -> tuple[Array, Array]:
        # |w - s g|^2 = N + s^2 |g|^2, as g is tangent: the rows shrink by `scale` = 1 + `less`. Changes of lam
        # and loss are formed without subtracting nearly equal numbers, so that Armijo's test still means
        # something close to a critical point.
        ratio = step**2 * squares / n
        less = -ratio / (jnp.sqrt(1 + ratio) * (1 + jnp.sqrt(1 + ratio)))
        change = state.lam * less - step * pushed * (1 + less)
        moved = jnp.mean(change_of(slope_at, state.lam, change, nodes[0]), axis=-1).astype(jnp.float64)
        return change, jnp.sum(loss.kept * change_of(pull_at, yhat, moved, nodes[1])).astype(change.dtype)

    def rejected(carry: tuple[Array, Array, Array, Array]) -> Array:
        halved, step, _, drop = carry
        return (halved < HALVINGS) & ~(drop <= -rules.armijo * step * slope)

    def halve(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        halved, step, _, _ = carry
        return (halved + 1, step / 2, *trial(step / 2))

    first = jnp.minimum(state.bound, 2 * state.step)
    _, step, change, drop = jax.lax.while_loop(
        rejected, halve, (jnp.zeros((), jnp.int32), first, *trial(first))
    )
    moved = state._replace(
        student=retract(state.student - step * gradient),
        lam=state.lam + change,
        loss=state.loss + drop,
        slope=slope,
        step=step,
        time=state.time + step,
        taken=state.taken + 1,
        left=state.left - 1,
    )
    taken = drop <= -rules.armijo * step * slope
    stalled = state._replace(code=jnp.asarray(int(Code.STALLED), jnp.int32))
    state = jax.tree.map(lambda new, old: jnp.where(taken, new, old), moved, stalled)
    return state._replace(code=_verdict(state, rules.floor))
