"""Trajectories of any method over a matrix or over deferred data, from draws of sims.instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from sims.backend import pinned
from sims.dynamics.methods import Method, Ruled
from sims.dynamics.problem import Array, Loss, Matrix, Problem, loss_unit, nodes_of
from sims.dynamics.state import RUNNING
from sims.hessian import functions_of
from sims.instance import draw, outputs, real_dtype
from sims.machine import planned_bytes
from theory.checks import choice, count
from theory.model.network import Network
from theory.path import Data
from theory.path.deferred import Deferred

DATA = ("matrix", "deferred")


class Spread(NamedTuple):
    """Data X diag(roots): inputs of covariance diag(roots^2), from data of independent entries."""

    data: Data
    roots: Array

    @property
    def dtype(self) -> np.dtype:
        """Of the products."""
        return self.data.dtype

    def push(self, vectors: Array) -> Array:
        """X diag(roots) v: (M, b)."""
        return self.data.push(vectors * self.roots)

    def pull(self, forces: Array) -> Array:
        """diag(roots) X' f: (b, N)."""
        return self.data.pull(forces) * self.roots


class Track(NamedTuple):
    """One trajectory at R records.

    time, loss, gradient  (R,)  of the flow; sum over samples; |g| / sqrt(N) of the Riemannian gradient
    steps      (R,)             steps so far, of the flow: gradients
    overlap_matrix  (R, p, p_star)  w_k . w*_l / N
    code       End (`sims.dynamics.state`), RUNNING (-1) where steps or time ran out
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


def problem_of(model: Network, data: Data, y: Array) -> Problem:
    """The problem of a model, data known by products, and outputs y (M,) with their noise."""
    functions, y = functions_of(model), np.asarray(y, np.float64)
    loss = Loss(y, np.ones_like(y), np.float64(model.a), np.float64(loss_unit(functions, model.a)))
    return Problem(data, loss, functions, nodes_of(functions, model.a))


def trajectory(
    problem: Problem, method: Method, student: Array, rng: np.random.Generator, state: Any = None
) -> Iterator[Any]:
    """The states of a method one by one, the start first, until it ends by itself; `state` goes on from there."""
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

    data        "matrix": the sample of sims.instance; "deferred": its teacher and student, data drawn as they are asked for
    directions  most of either side of deferred data; memory as in `theory.path.deferred`, None: what may be planned for here
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
    steps, method = count("steps", steps), Ruled() if method is None else method
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
    time_, loss, gradient, taken, overlap = (np.array(column) for column in zip(*rows, strict=True))
    return Track(
        time_,
        loss,
        gradient,
        taken,
        overlap,
        int(state.code),
        np.array(state.student),
        state,
        problem,
        teacher,
    )


def _record(problem: Problem, state: Any, teacher: Array) -> tuple[Any, ...]:
    """A row of a Track, in the loss's own units."""
    unit, student = float(problem.loss.unit), np.asarray(state.student, np.float64)
    lam = np.asarray(state.lam, np.float64)
    norm = getattr(state, "slope", np.nan)
    overlap = student @ teacher.T / student.shape[1]
    gradient = np.sqrt(float(norm) / student.shape[1]) * unit
    return float(state.time) / unit, float(problem.value(lam)) * unit, gradient, int(state.taken), overlap
