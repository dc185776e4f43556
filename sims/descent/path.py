"""Gradient descent of the loss on the product of spheres |w_k|^2 = N, many samples at once, by one of two dynamics:

    flow    dw_k/dt = -g_k, integrated to a stated error
    steps   w_k  <-  sqrt(N) (w_k - s g_k) / |w_k - s g_k|, with s at most 1 / L (`sims.dynamics.flow`)

with g the gradient's tangent part (Riemannian gradient) and L the largest curvature. Both follow gradient flow and are
recorded in its time; a gradient costs two products with the data. Where descents end is a statement about the flow: `flow`
reaches it with far fewer gradients, `steps` says what plain gradient descent does.

The model is that of theory.model (arXiv 2510.18435, section 2), or any network of theory.model.network. The loss is descended
in units of its own slope (`sims.dynamics.problem`), so that tolerances mean the same for every a. Rows of zeros may pad the
data, so that one compiled program serves every alpha of a grid.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sims.backend import pinned
from sims.checks import reals
from sims.dynamics.flow import DYNAMICS
from sims.dynamics.problem import QUADRATIC, Loss, Matrix, Problem, loss_unit, nodes_of
from sims.dynamics.state import RUNNING, End, Numbers, Rules, State, begin
from sims.hessian import Functions
from theory.checks import ParameterError, count, positive

__all__ = ["End", "Path", "Rules", "descend"]


class Path(NamedTuple):
    """Descents of a batch of S samples at R records.

    student   (S, R, p, N)  the weights; a sample that has ended repeats its last point
    loss      (S, R)        computed afresh from the weights
    gradient  (S, R)        |g| / sqrt(N), g the Riemannian gradient
    time      (S, R)        sum of the steps so far: the time of gradient flow
    steps     (S, R)        steps so far, as counted in Rules; one of the flow may end beyond the number recorded at
    code      (S,)          End
    used      (S, R, p, M)  sums of the forces so far (`sims.dynamics.state.State`); M = 0 where they are not kept
    """

    student: Array
    loss: Array
    gradient: Array
    time: Array
    steps: Array
    code: Array
    used: Array


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
    keeping: bool = False,
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
    keeping    whether sums of the forces are kept
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
        rules.numbers(data.dtype, jnp.asarray),
        group,
        functions,
        nodes_of(functions, a),
        rules.dynamics,
        keeping,
    )
    return path._replace(
        loss=path.loss.astype(jnp.float64) * unit,
        gradient=path.gradient.astype(jnp.float64) * unit,
        time=path.time.astype(jnp.float64) / unit,
    )


@partial(jax.jit, static_argnums=(4, 5, 6, 7, 8))
def _descend(
    data: Array,
    loss: Loss,
    student: Array,
    rules: Numbers,
    group: int,
    functions: Functions,
    nodes: tuple[int, int],
    dynamics: str,
    keeping: bool,
) -> Path:
    def one(sample: tuple[Array, Loss, Array]) -> Path:
        path = _one(*sample, rules, functions, nodes, dynamics, keeping)
        # an array of no entries cannot be split in batches
        return path if keeping else path._replace(used=jnp.zeros(()))

    path = jax.lax.map(one, (data, loss, student), batch_size=None if group == 1 else group)
    if keeping:
        return path
    return path._replace(used=jnp.zeros((*path.student.shape[:3], 0), path.student.dtype))


def _one(
    data: Array,
    loss: Loss,
    student: Array,
    rules: Numbers,
    functions: Functions,
    nodes: tuple[int, int],
    dynamics: str,
    keeping: bool,
) -> Path:
    """The descent of one sample: a scan over records, in each a while loop over steps."""
    chosen, problem = DYNAMICS[dynamics], Problem(Matrix(data), loss, functions, nodes)

    def record(state: State, length: Array) -> tuple[State, tuple[Array, ...]]:
        state = jax.lax.while_loop(
            lambda s: (s.left > 0) & (s.code == RUNNING),
            lambda s: chosen.step(problem, s, rules),
            state._replace(left=state.left + length),
        )
        state = chosen.renewed(problem, state, rules)
        norm = jnp.sqrt(state.slope / student.shape[-1])
        return state, (state.student, state.loss, norm, state.time, state.taken, state.used)

    state, kept = jax.lax.scan(record, begin(problem, student, keeping), rules.lengths)
    ended = jnp.where(state.code == RUNNING, int(End.STEP_LIMIT), state.code)
    students, losses, norm, time, taken, used = kept
    return Path(students, losses, norm, time, taken, ended, used)
