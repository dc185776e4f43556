"""Gradient descent of the loss on the product of spheres |w_k|^2 = N, many samples at once, by one of two dynamics:

    flow    dw_k/dt = -g_k, integrated to a stated error (`sims.descent.flow`)
    steps   w_k  <-  sqrt(N) (w_k - s g_k) / |w_k - s g_k|, with s at most 1 / L (`sims.descent.steps`)

with g the gradient's tangent part (Riemannian gradient) and L the largest curvature. Both follow gradient flow and are
recorded in its time; a gradient costs two products with the data. Where descents end is a statement about the flow: `flow`
reaches it with far fewer gradients, `steps` says what plain gradient descent does.

The model is that of theory.model (arXiv 2510.18435, section 2), or any network of theory.model.network. The loss is descended
in units of its own slope (`sims.descent.objective`), so that tolerances mean the same for every a. Rows of zeros may pad the
data, so that one compiled program serves every alpha of a grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sims.checks import reals
from sims.descent import flow, steps
from sims.descent.objective import QUADRATIC, Loss, loss_unit, nodes_of
from sims.descent.state import RUNNING, Code, Numbers, State, begin
from sims.hessian import Functions
from sims.pinned import pinned
from theory.checks import ParameterError, choice, count, one, positive

__all__ = ["DYNAMICS", "Code", "Path", "Rules", "descend"]

DYNAMICS = {"flow": flow, "steps": steps}


@dataclass(frozen=True)
class Rules:
    """The rules of a descent.

    dynamics          "flow" or "steps": see the module
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
            object.__setattr__(self, name, count(name, getattr(self, name), least))
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


class Path(NamedTuple):
    """Descents of a batch of S samples at R records.

    student   (S, R, p, N)  the weights; a sample that has ended repeats its last point
    loss      (S, R)        computed afresh from the weights
    gradient  (S, R)        |g| / sqrt(N), g the Riemannian gradient
    time      (S, R)        sum of the steps so far: the time of gradient flow
    steps     (S, R)        steps so far, as counted in Rules; one of the flow may end beyond the number recorded at
    code      (S,)          Code of the end
    """

    student: Array
    loss: Array
    gradient: Array
    time: Array
    steps: Array
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
    data, student = (jnp.asarray(reals(name, x)) for name, x in (("data", data), ("student", student)))
    y = reals("y", y)
    if data.ndim != 3:
        raise ParameterError(f"data must have shape (S, M, N), got {data.shape}")
    number, m, n = data.shape
    if y.shape != (number, m) or student.ndim != 3 or (student.shape[0], student.shape[2]) != (number, n):
        raise ParameterError(
            f"data (S, M, N), y (S, M) and student (S, p, N) must fit, got {data.shape}, {y.shape}, {student.shape}"
        )
    if group is None:
        group = 1 if jax.default_backend() == "cpu" else number
    group = min(count("group", group), max(number, 1))
    unit = loss_unit(functions, a)
    kept = np.arange(m) < (m if samples is None else count("samples", samples))
    # made by NumPy: of JAX each operation would be compiled for each shape
    rows, each = np.broadcast_to(kept, y.shape), (np.full(number, value) for value in (a, unit))
    loss = Loss(jnp.asarray(y, jnp.float64), *(jnp.asarray(np.asarray(x, np.float64)) for x in (rows, *each)))
    path = _descend(
        data,
        loss,
        student,
        _numbers(rules, data.dtype),
        group,
        functions,
        nodes_of(functions, a),
        rules.dynamics,
    )
    return path._replace(
        loss=path.loss.astype(jnp.float64) * unit,
        gradient=path.gradient.astype(jnp.float64) * unit,
        time=path.time.astype(jnp.float64) / unit,
    )


def _numbers(rules: Rules, dtype: np.dtype) -> Numbers:
    lengths = np.diff(rules.recorded_steps, prepend=0).astype(np.int32)
    reals = (rules.tolerance_for(dtype), rules.loss_floor, rules.share, rules.armijo, rules.accuracy)
    return Numbers(
        jnp.asarray(lengths), jnp.int32(rules.power_iterations), *(jnp.asarray(real, dtype) for real in reals)
    )


@partial(jax.jit, static_argnums=(4, 5, 6, 7))
def _descend(
    data: Array,
    loss: Loss,
    student: Array,
    rules: Numbers,
    group: int,
    functions: Functions,
    nodes: tuple[int, int],
    dynamics: str,
) -> Path:
    def one(sample: tuple[Array, Loss, Array]) -> Path:
        return _one(*sample, rules, functions, nodes, dynamics)

    return jax.lax.map(one, (data, loss, student), batch_size=None if group == 1 else group)


def _one(
    data: Array,
    loss: Loss,
    student: Array,
    rules: Numbers,
    functions: Functions,
    nodes: tuple[int, int],
    dynamics: str,
) -> Path:
    """The descent of one sample: a scan over records, in each a while loop over steps."""
    chosen = DYNAMICS[dynamics]

    def record(state: State, length: Array) -> tuple[State, tuple[Array, ...]]:
        state = jax.lax.while_loop(
            lambda s: (s.left > 0) & (s.code == RUNNING),
            lambda s: chosen.step(s, data, loss, rules, functions, nodes),
            state._replace(left=state.left + length),
        )
        state = chosen.renewed(state, data, loss, rules, functions)
        norm = jnp.sqrt(state.slope / student.shape[-1])
        return state, (state.student, state.loss, norm, state.time, state.taken)

    state, kept = jax.lax.scan(record, begin(data, loss, student, functions), rules.lengths)
    ended = jnp.where(state.code == RUNNING, int(Code.STEP_LIMIT), state.code)
    students, losses, norm, time, taken = kept
    return Path(students, losses, norm, time, taken, ended)
