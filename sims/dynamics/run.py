"""Trajectories: of one sample by any method, over a matrix or deferred data, on the host; of a batch by `Rules`, compiled.

Batches follow one of two dynamics,

    flow    dw_k/dt = -g_k, integrated to a stated error
    steps   w_k  <-  sqrt(N) (w_k - s g_k) / |w_k - s g_k|, with s at most 1 / L

with g the gradient's tangent part (Riemannian gradient) and L the largest curvature (`sims.dynamics.flow`). Both follow
gradient flow and are recorded in its time; a gradient costs two products with the data. Where descents end is a statement about
the flow: `flow` reaches it with far fewer gradients, `steps` says what plain gradient descent does.

The loss is descended in units of its own slope (`sims.dynamics.problem`), so that tolerances mean the same for every a. Rows of
zeros may pad the data, so that one compiled program serves every alpha of a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sims.backend import pinned
from sims.checks import real_dtype, reals
from sims.dynamics.flow import DYNAMICS, RUNNING, End, Numbers, Rules, State, started
from sims.dynamics.methods import Method
from sims.dynamics.problem import Array, Matrix, Problem, Spread, loss_unit, nodes_of, problem_of
from sims.hessian import form
from sims.instance import draw, outputs
from sims.machine import planned_bytes
from theory.checks import ParameterError, choice, count
from theory.model.network import Network, network
from theory.path import Data
from theory.path.deferred import Deferred

DATA = ("matrix", "deferred")


class Track(NamedTuple):
    """One trajectory at R records.

    time, loss, gradient  (R,)  of the flow; sum over samples; |g| / sqrt(N) of the Riemannian gradient
    steps      (R,)             steps so far, of the flow: gradients
    overlap_matrix  (R, p, p_star)  w_k . w*_l / N
    code       End (`sims.dynamics.flow`), RUNNING (-1) where steps or time ran out
    student    (p, N) at the end, and state, problem and teacher, from which one may go on
    """

    time: Array
    loss: Array
    gradient: Array
    steps: Array
    overlap_matrix: Array
    code: int
    student: Array
    state: Any
    problem: Problem
    teacher: Array


def trajectory(
    problem: Problem, method: Method, student: Array, rng: np.random.Generator, state: Any = None
) -> Iterator[Any]:
    """The states of a method one by one, the start first, until it ends by itself; `state` goes on from there.

    Parameters
    ----------
    problem : Problem
    method : Method
        See `sims.dynamics.methods`.
    student : array (p, N)
        The start.
    rng : numpy.random.Generator
        Draws what the method draws: masks, noise.
    state : state of the method
        Where to go on, of an earlier trajectory.

    Returns
    -------
    iterator of states
        What is common to all: student (p, N), lam (M, p), time, taken, code.
    """
    state = method.begin(problem, student) if state is None else state
    yield state
    while state.code == RUNNING:
        state = method.step(problem, state, rng)
        yield state


@pinned
def drawn(
    model: Network,
    n: int,
    alpha: float,
    *,
    data: str = "matrix",
    seed: int = 0,
    sample: int = 0,
    dtype: str = "float32",
    directions: int = 1000,
    memory: int | None = None,
) -> tuple[Problem, Array, Array]:
    """Problem, teacher (p_star, N) and student (p, N) of one sample.

    Parameters
    ----------
    model : Network
        Of finite p.
    n, alpha : int, float
        N, and M / N.
    data : str
        "matrix": the sample of sims.instance; "deferred": its teacher and student, data drawn as they are asked for.
    seed, sample, dtype
        Of the draw, as in `sims.draw`.
    directions : int
        Most of either side of deferred data.
    memory : int
        Bytes that these may take (`theory.path.deferred`); None: what may be planned for here.

    Returns
    -------
    problem, teacher, student : Problem, arrays (p_star, N) and (p, N)
        Rows of norm sqrt(N), in float64.

    Raises
    ------
    theory.checks.ParameterError
        On an unfit argument, or where memory does not hold the directions.
    """
    choice("data", data, DATA)
    instance = draw(model, n, alpha, seed=seed, sample=sample, dtype=dtype, data=data == "matrix")
    teacher, student = np.asarray(instance.teacher, np.float64), np.asarray(instance.student, np.float64)
    if instance.data is not None:
        x = np.asarray(instance.data)[: instance.m]
        return problem_of(model, Matrix(x), outputs(instance)), teacher, student
    m, roots = instance.m, instance.roots
    rng = np.random.default_rng(instance.words)
    memory = planned_bytes() if memory is None else memory
    known: Data = Deferred(m, n, rng, directions=directions, dtype=real_dtype(dtype), memory=memory)
    if roots is not None:
        known = Spread(known, roots.astype(known.dtype))
    u = known.push(teacher.astype(known.dtype)).astype(np.float64)
    return problem_of(model, known, outputs(instance, u)), teacher, student


def descend(
    model: Network,
    n: int,
    alpha: float,
    method: Method | None = None,
    *,
    steps: int = 1000,
    time: float = np.inf,
    records: int = 40,
    data: str = "matrix",
    seed: int = 0,
    sample: int = 0,
    dtype: str = "float32",
    directions: int = 1000,
    memory: int | None = None,
    start: Callable[[Array, Array], Array] | None = None,
    until: Callable[[Any], bool] | None = None,
) -> Track:
    """One trajectory of a method from a random start, over a matrix or over data drawn as they are asked for.

    Parameters
    ----------
    model : Network of finite p.
    n, alpha : input dimension N, and M / N.
    method : see `sims.dynamics.methods`; None: gradient flow.
    steps, time : the trajectory ends where either is reached, or the method ends by itself.
    records : about how many records are kept, log-spaced in steps, start and end among them.
    data, seed, sample, dtype, directions, memory : of the draw (`drawn`).
    start : function (student (p, N), teacher (p_star, N)) -> student; None: the drawn student.
    until : function of the state that ends the trajectory where it is true.

    Returns
    -------
    Track

    Raises
    ------
    ParameterError
        where an argument is unfit or memory does not hold the directions
    NotConverged
        where the trajectory spans more directions than were asked for

    >>> from theory.model import Network
    >>> track = descend(Network(a=0.5), 50, 3.0, data="deferred", steps=20, records=4)
    >>> track.overlap_matrix.shape, bool(track.loss[-1] < track.loss[0])
    ((5, 1, 1), True)
    """
    problem, teacher, student = drawn(
        model,
        n,
        alpha,
        data=data,
        seed=seed,
        sample=sample,
        dtype=dtype,
        directions=directions,
        memory=memory,
    )
    student = student if start is None else start(student, teacher)
    steps, method = count("steps", steps), Rules() if method is None else method
    marks = set(np.rint(np.geomspace(1, steps, count("records", records, 2))).astype(int).tolist())
    rng = np.random.default_rng([count("seed", seed, 0), count("sample", sample, 0), 1])  # of masks and noise
    rows = []
    for i, state in enumerate(trajectory(problem, method, student, rng)):
        ended = (
            i == steps or state.time >= time or state.code != RUNNING or (until is not None and until(state))
        )
        if i == 0 or i in marks or ended:
            rows.append(_record(problem, state, teacher))
        if ended:
            break
    columns = (np.array(column) for column in zip(*rows, strict=True))
    return Track._make((*columns, int(state.code), np.array(state.student), state, problem, teacher))


def _record(problem: Problem, state: Any, teacher: Array) -> tuple[Any, ...]:
    """A row of a Track, in the loss's own units."""
    unit, student = float(problem.unit), np.asarray(state.student, np.float64)
    lam = np.asarray(state.lam, np.float64)
    norm = getattr(state, "slope", np.nan)
    overlap = student @ teacher.T / student.shape[1]
    gradient = np.sqrt(float(norm) / student.shape[1]) * unit
    return float(state.time) / unit, float(problem.value(lam)) * unit, gradient, int(state.taken), overlap


class Path(NamedTuple):
    """Descents of a batch of S samples at R records.

    student   (S, R, p, N)  the weights; a sample that has ended repeats its last point
    loss      (S, R)        computed afresh from the weights
    gradient  (S, R)        |g| / sqrt(N), g the Riemannian gradient
    time      (S, R)        sum of the steps so far: the time of gradient flow
    steps     (S, R)        steps so far, as counted in Rules; one of the flow may end beyond the number recorded at
    code      (S,)          End
    used      (S, R, p, M)  sums of the forces so far (`sims.dynamics.flow.State`); M = 0 where they are not kept
    """

    student: Array
    loss: Array
    gradient: Array
    time: Array
    steps: Array
    code: Array
    used: Array


@pinned
def descend_batch(
    model: Network,
    data: Array,
    y: Array,
    student: Array,
    rules: Rules | None = None,
    *,
    group: int | None = None,
    samples: int | None = None,
    keeping: bool = False,
) -> Path:
    """Gradient descent of a batch of samples from the given students.

    model    of which the functions and a count: noise is in the labels
    data     (S, M, N), rows of zeros allowed; y (S, M) their labels
    student  (S, p, N) starts; rows are scaled to norm sqrt(N)
    group    samples run side by side (vmapped), the groups one after another in one compiled loop. None takes
             1 on a CPU, where one sample's data stays in the cache (all side by side was 2 times slower at N = 100,
             M = 400) and a sample that has converged costs nothing more, and all of them elsewhere.

    samples    rows that count, M of them; the others pad. None: all
    keeping    whether sums of the forces are kept
    Returns a Path, with loss, gradient and time in float64. A sample that fails (STALLED, NOT_FINITE) keeps its last good
    point and does not disturb the others.
    Raises ParameterError if the shapes do not fit.
    """
    rules = Rules() if rules is None else rules
    data, y, student = reals("data", data), reals("y", y), reals("student", student)
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
    a, unit = network(model).a, loss_unit(model, model.a)
    kept = np.arange(m) < (m if samples is None else count("samples", samples))
    # By NumPy, here and below: of JAX each operation would be compiled for each shape.
    rows, each = np.broadcast_to(kept, y.shape), (np.full(number, value) for value in (a, unit))
    loss = tuple(np.asarray(x, np.float64) for x in (y, rows, *each))
    path = _descend(
        data,
        loss,
        student,
        rules.numbers(data.dtype),
        group,
        form(model),
        nodes_of(model, a),
        rules.dynamics,
        keeping,
    )
    return path._replace(
        loss=np.asarray(path.loss, np.float64) * unit,
        gradient=np.asarray(path.gradient, np.float64) * unit,
        time=np.asarray(path.time, np.float64) / unit,
    )


@partial(jax.jit, static_argnums=(4, 5, 6, 7, 8))
def _descend(
    data: Array,
    loss: tuple[Array, ...],
    student: Array,
    rules: Numbers,
    group: int,
    model: Network,
    nodes: tuple[int, int],
    dynamics: str,
    keeping: bool,
) -> Path:
    """Descents of a batch; loss: y, kept, a and unit of each sample."""
    renewed, step = DYNAMICS[dynamics]

    def one(sample: tuple[Array, tuple[Array, ...], Array]) -> Path:
        """That of one sample: a scan over records, in each a while loop over steps."""
        x, (y, kept, a, unit), start = sample
        problem = Problem(Matrix(x), y, kept, a, unit, model, nodes)

        def record(state: State, length: Array) -> tuple[State, tuple[Array, ...]]:
            state = jax.lax.while_loop(
                lambda s: (s.left > 0) & (s.code == RUNNING),
                lambda s: step(problem, s, rules),
                state._replace(left=state.left + length),
            )
            state = renewed(problem, state, rules)
            norm = jnp.sqrt(state.slope / start.shape[-1])
            return state, (state.student, state.loss, norm, state.time, state.taken, state.used)

        state, records = jax.lax.scan(record, started(problem, start, keeping), rules.lengths)
        ended = jnp.where(state.code == RUNNING, int(End.STEP_LIMIT), state.code)
        students, losses, norms, times, taken, used = records
        # an array of no entries cannot be split in batches
        return Path(students, losses, norms, times, taken, ended, used if keeping else jnp.zeros(()))

    path = jax.lax.map(one, (data, loss, student), batch_size=None if group == 1 else group)
    if keeping:
        return path
    return path._replace(used=jnp.zeros((*path.student.shape[:3], 0), path.student.dtype))
