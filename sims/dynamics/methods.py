"""Methods of first order, one interface: what a method makes of its state by products with the data.

    Rules           gradient flow, integrated to a stated error, or steps of at most 1 / L with a line search
                    (`sims.dynamics.flow`)
    Descent         w_k <- w_k + v_k,  v_k <- inertia v_k - step g_k + sqrt(2 step temperature) noise, back on the spheres:
                    gradient descent, momentum (inertia), stochastic gradients (share: a fresh mask of the samples each step),
                    Langevin dynamics (temperature)
    MessagePassing  AMP for a student of one row, with its Onsager terms
    PowerIteration  w <- (X' T X + shift) w, rows orthonormal: the spectral method

A method is an object with `begin` and `step`; states are NamedTuples of arrays with `student`, `lam`, `time`, `taken` and
`code`, so that they can be kept and gone on from: `Moving`, or the `State` of a descent by rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from sims.dynamics.flow import RUNNING, End
from sims.dynamics.problem import Array, Problem, retract, tangent
from theory.checks import ParameterError, one, positive


class Method(Protocol):
    """One method of first order."""

    def begin(self, problem: Problem, student: Array) -> Any:
        """The state at the start (p, N)."""

    def step(self, problem: Problem, state: Any, rng: np.random.Generator) -> Any:
        """The state one step on; rng draws masks and noise."""


class Moving(NamedTuple):
    """State of a method: student (p, N), lam (M, p) its preactivations, time, number of steps taken, code: RUNNING or End; and
    what the method keeps besides, an array."""

    student: Array
    lam: Array
    time: Array
    taken: Array
    code: Array
    kept: Array

    @classmethod
    def at(cls, problem: Problem, student: Array, kept: Any = 0.0) -> Moving:
        """The start."""
        lam = problem.preactivations(student)
        return cls(student, lam, np.zeros((), np.float64), np.int32(0), np.int32(RUNNING), np.asarray(kept))

    def on(self, student: Array, lam: Array, time: float, kept: Any = 0.0) -> Moving:
        """One step on, ended where it is no number any more."""
        sound = np.all(np.isfinite(lam)) and np.all(np.isfinite(student))
        code = self.code if sound else np.int32(End.NOT_FINITE)
        return Moving(student, lam, self.time + time, np.int32(self.taken + 1), code, np.asarray(kept))


@dataclass(frozen=True)
class Descent:
    """Steps of one length: gradient descent, with momentum, masks of the samples, noise.

    Parameters
    ----------
    step_size : length, in inverse units of the loss (`loss_unit`); stable below 2 (1 + inertia) / L.
    inertia : share of the velocity that is kept, in [0, 1); time goes on by step / (1 - inertia).
    share : part of the samples in the mask of a step, in (0, 1]; their gradient is divided by it.
    temperature : of the noise, in units of the loss.

    Raises
    ------
    ParameterError

    >>> Descent(0.05, inertia=0.9).pace
    0.5
    """

    step_size: float
    inertia: float = 0.0
    share: float = 1.0
    temperature: float = 0.0

    def __post_init__(self) -> None:
        positive("step_size", self.step_size)
        if not 0 <= one("inertia", self.inertia) < 1:
            raise ParameterError(f"inertia must be at least 0 and below 1, got {self.inertia!r}")
        if not 0 < one("share", self.share) <= 1:
            raise ParameterError(f"share must be above 0 and at most 1, got {self.share!r}")
        if not 0 <= one("temperature", self.temperature) < math.inf:
            raise ParameterError(f"temperature must be 0 or more and finite, got {self.temperature!r}")

    @property
    def pace(self) -> float:
        """Time of the flow that one step takes, once the velocity has settled."""
        return round(self.step_size / (1 - self.inertia), 12)

    def begin(self, problem: Problem, student: Array) -> Moving:
        """At rest."""
        student = retract(np.asarray(student, problem.data.dtype))
        return Moving.at(problem, student, 0 * student)

    def step(self, problem: Problem, state: Moving, rng: np.random.Generator) -> Moving:
        """One step; the state keeps the velocity (p, N)."""
        forces, student, velocity = problem.forces(state.lam), state.student, state.kept
        kind = student.dtype.type
        if self.share < 1:
            forces = (
                forces * ((rng.random(len(forces)) < self.share) / kind(self.share)).astype(kind)[:, None]
            )
        velocity = kind(self.inertia) * velocity - kind(self.step_size) * tangent(
            student, problem.data.pull(forces)
        )
        if self.temperature:
            size = kind(math.sqrt(2 * self.step_size * self.temperature))
            velocity = velocity + size * tangent(
                student, rng.standard_normal(student.shape, dtype=student.dtype)
            )
        student = retract(student + velocity)
        # The velocity that is kept must be tangent where the next step starts.
        return state.on(student, problem.preactivations(student), self.pace, tangent(student, velocity))


def quadratic_output(omega: Array, y: Array, variance: float) -> tuple[Array, Array]:
    """The channel y = u^2 (p_star = 1, no noise): g = (E[u] - omega) / V and g' in omega, of u ~ N(omega, V) given y.

    E[u | y] = sqrt(y) tanh(omega sqrt(y) / V), from the two roots u = +-sqrt(y): J. Barbier et al., arXiv 1708.03395.
    """
    root = np.sqrt(y)
    mean = root * np.tanh(omega * root / variance)
    return (mean - omega) / variance, ((y - mean**2) / variance - 1) / variance


@dataclass(frozen=True)
class MessagePassing:
    """Approximate message passing for one row of normal weights: the Bayes-optimal AMP of a teacher's channel.

    output  g(omega (M,), y (M,), variance) -> g, g'; by default that of a quadratic teacher of one row without noise

    S. Rangan, arXiv 1010.5141, algorithm 1 with scalar variances; one step is one unit of time.
    """

    output: Callable[[Array, Array, float], tuple[Array, Array]] = quadratic_output

    def begin(self, problem: Problem, student: Array) -> Moving:
        """From a student (1, N), taken for the posterior mean at the overlap q = |w|^2 / N of its squared length."""
        student = np.asarray(student, problem.data.dtype)
        if len(student) != 1:
            raise ParameterError(f"message passing has students of one row, got {len(student)}")
        q = float(np.sum(student.astype(np.float64) ** 2)) / student.shape[1]
        if not 0 <= q < 1:
            raise ParameterError(
                f"the start of message passing must be shorter than sqrt(N), got |w|^2 / N = {q:.3g}"
            )
        return Moving.at(problem, student, 1 - q)

    def step(self, problem: Problem, state: Moving, rng: np.random.Generator) -> Moving:
        """One step: with omega = X w - V g_before, precision = -alpha mean g', w <- (precision w + X' g) / (1 + precision).

        The student (1, N) is the posterior mean, lam (M, 1) is omega; the state keeps V, the variance of a weight.
        """
        variance, kind = float(state.kept), state.student.dtype.type
        omega = state.lam[:, 0].astype(np.float64)
        force, slope = self.output(omega, problem.y, variance)
        precision = -float(np.sum(slope)) / state.student.shape[1]
        pulled = problem.data.pull(force.astype(kind)[:, None])
        student = (kind(precision) * state.student + pulled) / kind(1 + precision)
        variance = 1 / (1 + precision)
        # Onsager's term takes off what a row's own force has put into its field.
        lam = problem.preactivations(student) - kind(variance) * force.astype(kind)[:, None]
        return state.on(student, lam, 1, variance)


@dataclass(frozen=True)
class PowerIteration:
    """Projected power iteration with X' diag(T(y)) X + shift: rows go to its top eigenvectors, of norm sqrt(N).

    preprocessing  T (M,) -> (M,), of outputs y; shift makes the wanted end the one of largest modulus
    """

    preprocessing: Callable[[Array], Array]
    shift: float = 0.0

    def begin(self, problem: Problem, student: Array) -> Moving:
        """Rows made orthogonal."""
        return Moving.at(problem, _rows_apart(np.asarray(student, problem.data.dtype)))

    def step(self, problem: Problem, state: Moving, rng: np.random.Generator) -> Moving:
        """One product and its orthogonalisation."""
        kind = state.student.dtype.type
        weights = np.asarray(self.preprocessing(problem.y)).astype(kind)
        moved = problem.data.pull(weights[:, None] * state.lam) + kind(self.shift) * state.student
        student = _rows_apart(moved)
        return state.on(student, problem.preactivations(student), 1)


def _rows_apart(rows: Array) -> Array:
    """An orthogonal basis (p, N) of the span of rows, each of norm sqrt(N)."""
    return np.ascontiguousarray(np.linalg.qr(rows.T)[0].T) * np.sqrt(rows.shape[1]).astype(rows.dtype)
