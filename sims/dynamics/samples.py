"""Samples of gradient descent: draw, start, descend, and measure the overlaps with the teacher along the path.

The draws are those of sims.instance, so a sample is a function of (seed, N, alpha, sample index), and the same
for every start, width of the student (its first rows), batch and number of threads. Descents of a batch run in
one compiled program; the starts and the Hessians along the path are computed on the host. On a CPU batches are
single samples, shared out to threads: two cores then work on two samples, whose data stay in their caches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sims.backend import pinned
from sims.checks import finite_p, indices, of_type, real_dtype, samples_of
from sims.dynamics import hessians as landscape
from sims.dynamics import starts
from sims.dynamics.flow import End, Rules
from sims.dynamics.run import descend_batch
from sims.instance import draw, outputs, padded
from sims.krylov import krylov_bytes
from sims.machine import allotted, planned_bytes
from theory.answers import Printed
from theory.checks import ParameterError, count
from theory.model.network import Network

Array = NDArray[np.float64]

MARGIN = 4  # eigenpairs beyond the p p_star that the memory for a Hessian is reckoned with


@dataclass(frozen=True, repr=False)
class DescentResult(Printed):
    """S descents at one (N, alpha) with R records and T Hessians along the path (T = 0: none wanted).

    overlap_matrix  (S, R, p, p_star)  w_k . w*_l / N
    loss, gradient, time, steps  (S, R)  as in sims.dynamics.run.Path
    eigenvalues, overlaps  (S, T, 2, k)  lowest eigenpairs of the two Hessians (landscape.FRAMES) and their q2
    predicted       by name (landscape.NAMES) (S, T): what theory says of the plain Hessians; NaN unless asked for
    code            (S,)  sims.dynamics.flow.End
    reason          (S,)  "" or why the sample failed; its numbers are then NaN, or those of its last good point
    recorded_steps  (R,)  step numbers of the records; hessian_records (T,) the records at which the Hessians were taken
    """

    overlap_matrix: Array
    loss: Array
    gradient: Array
    time: Array
    steps: NDArray[np.int64]
    eigenvalues: Array
    overlaps: Array
    predicted: dict[str, Array]
    code: NDArray[np.int8]
    reason: NDArray[np.object_]
    recorded_steps: NDArray[np.int64]
    hessian_records: NDArray[np.int64]

    @property
    def m2(self) -> Array:
        """Largest squared magnetisation (S, R): max_kl (w_k . w*_l / N)^2."""
        return np.max(self.overlap_matrix**2, axis=(-2, -1))

    @property
    def projection(self) -> Array:
        """Largest share of a student row in the teacher's span (S, R): max_k sum_l (w_k . w*_l / N)^2.

        Equal to m2 for p_star = 1. For p_star > 1 the loss knows the teacher up to a rotation of its rows, and this is the
        measure that such a rotation leaves alone: 1 when the row lies in the span.
        """
        return np.max(np.sum(self.overlap_matrix**2, axis=-1), axis=-1)


def bytes_needed(
    model: Network,
    n: int,
    alpha: float,
    *,
    batch: int,
    records: int,
    dtype: str = "float64",
    hessians: bool = True,
    dense: bool | None = None,
    theory: bool = False,
) -> int:
    """Bytes that a batch of descents takes: data, kept students (with theory sums of forces), and one Hessian at a time.

    Parameters
    ----------
    model : Network
        Of finite p.
    n, alpha : int, float
        N, and M / N.
    batch, records : int
        Descents at once, and points of the path that are kept.
    dtype : str
        "float64" or "float32".
    hessians, dense, theory : bool
        Whether Hessians along the path are solved; as matrices (None: up to order DENSE_ORDER); whether theory is asked.

    Returns
    -------
    int

    Raises
    ------
    theory.checks.ParameterError
    """
    p, item = finite_p(model), real_dtype(dtype).itemsize
    n, batch, records = count("n", n), count("batch", batch), count("records", records)
    rows = padded(samples_of(alpha, n))
    descents = item * batch * (2 * rows * n + 6 * rows * p + (records + 8) * p * (n + theory * rows))
    if not hessians:
        return descents
    if p * n <= landscape.DENSE_ORDER if dense is None else dense:
        return descents + 8 * (4 * (p * n) ** 2 + 2 * rows * n)
    pairs = min(int(model.degeneracy) + MARGIN, p * n)
    return descents + krylov_bytes(model, n, alpha, eigenpairs=pairs, dtype=dtype)


def hessian_moments(recorded: int, wanted: int) -> NDArray[np.int64]:
    """Which of `recorded` records get a Hessian: `wanted` of them, evenly spread, start and end among them.

    Parameters
    ----------
    recorded, wanted : int
        Numbers of records, and of Hessians.

    Returns
    -------
    array of int
        Indices of records, rising; fewer than `wanted` where there are fewer records.
    """
    return np.unique(np.rint(np.linspace(0, recorded - 1, min(wanted, recorded))).astype(np.int64))


@pinned
def sample_descents(
    model: Network,
    n: int,
    alpha: float,
    samples: Sequence[int],
    seed: int = 0,
    *,
    start: str | starts.Start = "random",
    rules: Rules | None = None,
    eigenpairs: int = 0,
    hessians: int = 8,
    theory: bool = False,
    dense: bool | None = None,
    dtype: str = "float64",
    batch: int | None = None,
    workers: int | None = None,
) -> DescentResult:
    """Descents of the samples with the given indices at (N, alpha).

    start       a name in `sims.dynamics.starts.STARTS`, "overlap:M" for the overlap M with the teacher, or a function
                (instance, data (M, N), y (M,)) -> student (p, N), which may want the sample's number as sample=
    eigenpairs  lowest eigenpairs kept of each Hessian along the path, at `hessians` of the records; 0 computes none
    theory      whether theory is asked about each of those Hessians (`sims.dynamics.hessians`)
    dense       whether Hessians are formed as matrices; None: up to an order p N of `sims.dynamics.hessians.DENSE_ORDER`, and
                known by their products beyond
    batch       samples drawn and descended together; None takes 1 on a CPU and as many as memory allows elsewhere
    workers     threads, each with one batch at a time; None takes one a core on a CPU and 1 elsewhere
    Raises ParameterError for unfit arguments and where a batch would take more memory than may be planned for
    (`sims.machine.planned_bytes`); fewer workers than asked for are used where only they fit.
    """
    rules = Rules() if rules is None else rules
    of_type("rules", rules, Rules)
    starts.start_of(start)
    if start == "spectral" and (reason := starts.spectral_refusal(model)):
        raise ParameterError(reason)
    memory = sys.maxsize if (free := planned_bytes()) is None else free
    n, eigenpairs = count("n", n), count("eigenpairs", eigenpairs, 0)
    moments = hessian_moments(len(rules.recorded_steps), count("hessians", hessians, 2))
    moments = moments if eigenpairs else moments[:0]
    numbers = indices("samples", samples)
    if not numbers:
        raise ParameterError("samples must name at least one sample, got none")
    options: dict[str, Any] = {
        "records": len(rules.recorded_steps),
        "dtype": dtype,
        "dense": dense,
        "theory": theory,
    }

    def need(size: int) -> int:
        return bytes_needed(model, n, alpha, batch=size, hessians=eigenpairs > 0, **options)

    batch = _batch_size(need, len(numbers), batch, memory)
    if workers is None:
        workers = allotted() if jax.default_backend() == "cpu" else 1
    workers = max(1, min(count("workers", workers), memory // need(batch)))

    def part(first: int) -> dict[str, NDArray]:
        chosen = numbers[first : first + batch]
        return _batch(model, n, alpha, chosen, seed, start, rules, moments, eigenpairs, theory, dense, dtype)

    firsts = range(0, len(numbers), batch)
    # the first batch alone: it compiles what the others then find compiled
    parts = [part(0)]
    with ThreadPoolExecutor(workers) as pool:
        # In the order of the samples, whichever thread ends first.
        parts += pool.map(part, firsts[1:])
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    predicted = {name: joined.pop(name) for name in landscape.NAMES}
    return DescentResult(
        **joined,
        predicted=predicted,
        recorded_steps=np.asarray(rules.recorded_steps),
        hessian_records=moments,
    )


def _batch_size(need: Callable[[int], int], samples: int, batch: int | None, memory: int) -> int:
    """The size of a batch, fitting in `memory` bytes; ParameterError with the numbers if it does not."""
    one, each = need(1), need(2) - need(1)
    most = 1 + (memory - one) // each if one <= memory else 0
    if batch is None:
        batch = 1 if jax.default_backend() == "cpu" else max(1, int(min(most, samples)))
    batch = min(count("batch", batch), samples)
    if batch > most:
        advice = (
            f"a batch of {most} fits"
            if most
            else f"one sample takes {one / 2**30:.3g} GiB: a smaller N or alpha fits"
        )
        raise ParameterError(
            f"descents need {need(batch) / 2**30:.3g} GiB for a batch of {batch}, the limit is"
            f" {memory / 2**30:.3g} GiB; {advice}"
        )
    return batch


@pinned
def _batch(
    model, n, alpha, indices, seed, start, rules, moments, eigenpairs, theory, dense, dtype
) -> dict[str, NDArray]:
    """The arrays of DescentResult, but the shared ones, for one batch."""
    draws = [draw(model, n, alpha, seed=seed, sample=s, dtype=dtype) for s in indices]
    m = draws[0].m
    teachers = np.stack([np.asarray(d.teacher, dtype=np.float64) for d in draws])
    xp = np if jax.default_backend() == "cpu" else jnp  # data stay on their device
    data = xp.stack([xp.asarray(d.data) for d in draws])
    y = np.zeros(data.shape[:2])
    y[:, :m] = [outputs(d) for d in draws]
    students, reasons = _starts(draws, data, y, m, starts.start_of(start), indices)
    path = descend_batch(model, data, y, students.astype(data.dtype), rules, samples=m, keeping=theory)
    kept, used = (np.asarray(x, dtype=np.float64) for x in (path.student, path.used))
    code = np.asarray(path.code)
    values = np.full((len(indices), len(moments), len(landscape.FRAMES), eigenpairs), np.nan)
    known = values.copy()
    predicted = {name: np.full(values.shape[:2], np.nan) for name in landscape.NAMES}
    for s in range(len(indices) if len(moments) else 0):
        if code[s] != End.NOT_FINITE:
            values[s], known[s] = landscape.lowest_along(
                draws[s], kept[s, moments], eigenpairs, y=y[s, :m], dense=dense
            )
            if not np.all(np.isfinite(values[s])):
                reasons[s] = "eigenpairs along the path failed their checks"
            if theory:
                along = landscape.predicted_along(
                    draws[s],
                    kept[s],
                    used[s],
                    moments.tolist(),
                    y[s, :m],
                    starts.used_by(start, draws[s], y[s, :m]),
                )
                for name, row in along.items():
                    predicted[name][s] = row
    failures = {End.STALLED: "no step lowered the loss", End.NOT_FINITE: "loss or gradient not finite"}
    return {
        "overlap_matrix": np.einsum("srkn,sln->srkl", kept, teachers) / n,
        "loss": np.asarray(path.loss, dtype=np.float64),
        "gradient": np.asarray(path.gradient, dtype=np.float64),
        "time": np.asarray(path.time, dtype=np.float64),
        "steps": np.asarray(path.steps, dtype=np.int64),
        "eigenvalues": values,
        "overlaps": known,
        **predicted,
        "code": code.astype(np.int8),
        "reason": np.array(
            [r or failures.get(c, "") for r, c in zip(reasons, code, strict=True)], dtype=object
        ),
    }


def _starts(draws, data, y, m, begin, indices) -> tuple[Array, list[str]]:
    """The starting students (S, p, N), and a reason where one could not be had (its student is then NaN)."""
    students, reasons = [], []
    for s, instance in enumerate(draws):
        rows, label = np.asarray(data[s, :m], dtype=np.float64), np.asarray(y[s, :m], dtype=np.float64)
        try:
            given = begin(instance, rows, label, **starts.named(begin, indices[s]))
            student, reason = np.asarray(given, dtype=np.float64), ""
        except (ParameterError, np.linalg.LinAlgError) as error:
            student, reason = np.full(instance.student.shape, np.nan), f"no start: {error}"
        students.append(student)
        reasons.append(reason)
    return np.stack(students), reasons
