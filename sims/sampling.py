"""Samples of the Hessian at one point (model, N, alpha): lowest eigenvalues, overlaps, how each solve ended.

Results depend on (model, seed, N, alpha, sample, dtype, solver) alone, not on which samples are asked for together.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from sims import checks, instance, machine, solvers
from sims.backend import pinned
from sims.dense.all_overlaps import side_by_side
from sims.dense.eigen import Code, Eigenpairs
from sims.host_draws import draw_on_host
from sims.instance import Instance
from sims.krylov.sample import preferred_solver
from sims.machine import exhausted, require_fit
from sims.observables import Observable
from sims.resolution import require_resolved
from sims.signal import student_shares_together
from sims.solvers import Solver
from theory.answers import Printed
from theory.checks import ParameterError, choice, count
from theory.model.network import Network

DONE, FAILED = 1, 2  # 0 is for samples not run
MARGIN = 4  # eigenpairs beyond the p p_star that carry the teacher


@dataclass(frozen=True, repr=False)
class PointResult(Printed):
    """Samples at one point, S of them with k eigenpairs each, lowest first, in units of the Hessian.

    samples           (S,) indices
    eigenvalues       (S, k), NaN where a solve gave nothing
    overlaps          (S, k) squared overlaps q2 with the signal space, the share of the teacher
    student_shares    (S, k) squared overlaps with the student's own space (`sims.signal.student_shares`)
    residuals         (S, k) ||H v - lambda v||
    max_overlap_rank  (S,) 0-based rank, in the whole spectrum, of the eigenvector of largest q2; -1 where the
                      pairs computed do not settle it
    status            (S,) 1 done, 2 failed
    codes             (S,) `sims.dense.eigen.Code` of the solve
    reasons           S strings, empty where done
    solver            the solver used
    measured          observables that were asked for, by name, (S,) or (S, k); NaN where a solve gave nothing
    """

    samples: NDArray[np.int64]
    eigenvalues: NDArray[np.float64]
    overlaps: NDArray[np.float64]
    residuals: NDArray[np.float64]
    max_overlap_rank: NDArray[np.int64]
    status: NDArray[np.int8]
    codes: NDArray[np.int8]
    reasons: tuple[str, ...]
    solver: str
    student_shares: NDArray[np.float64]
    measured: dict[str, NDArray[np.float64]] = field(default_factory=dict)


SOLVERS: Mapping[str, Solver] = MappingProxyType(
    {
        module.name: importlib.import_module(f"sims.solvers.{module.name}").SOLVER
        for module in pkgutil.iter_modules(solvers.__path__)
    }
)


@pinned
def sample_point(
    model: Network,
    n: int,
    alpha: float,
    samples: Sequence[int],
    seed: int,
    *,
    eigenpairs: int | None = None,
    dtype: Any = "float64",
    solver: str = "auto",
    batch: int | None = None,
    observables: Sequence[Observable] = (),
) -> PointResult:
    """Draw and solve the given samples at (N, alpha). One whose solve fails is recorded (status 2, reason); the others go on.

    Parameters
    ----------
    model : Network
        Of finite p.
    n, alpha : int, float
        Input dimension N, and M / N.
    samples : sequence of int
        Indices, each a draw of its own with the key of (seed, N, alpha, index).
    seed : int
        Of all draws.
    eigenpairs : int
        k, at most p N; default p p_star + 4, or p N if that is less.
    dtype : str
        "float64", or "float32" (eigenvalues then carry errors of about 1e-5; refused where a is so small that they would be
        wrong, `sims.resolution`).
    solver : str
        "auto", or a name of `SOLVERS`.
    batch : int
        Draws held at once, default 1; changes memory and time, no result.
    observables : sequence of Observable
        What else is measured on the eigenpairs of each sample (`sims.observables`).

    Returns
    -------
    PointResult
        Arrays over the S samples and their k eigenpairs.

    Raises
    ------
    theory.checks.ParameterError
        On an unfit argument, M = 0, p_star > N, p = inf, and on what would not fit in memory.

    >>> from theory.model import Network
    >>> found = sample_point(Network(2, 1, 1.0), 12, 2.5, range(2), seed=1)
    >>> found.eigenvalues.shape, found.status.tolist()
    ((2, 6), [1, 1])
    """
    n = count("n", n)
    for one in observables if isinstance(observables, list | tuple) else [observables]:
        checks.of_type("observables", one, Observable)
    k, name, size = _request(model, n, alpha, eigenpairs, dtype, solver, batch)
    indices = checks.indices("samples", samples)
    need = _bytes_of(model, alpha, k, dtype, name, size)
    require_fit(need, n, instance.finite_p(model), dense=SOLVERS[name].dense)
    if not indices:
        instance.draw_key(seed, n, alpha, 0)  # an unfit seed is refused even for no samples
    records = []
    drawn = _draws(model, n, alpha, seed, indices, dtype, name)
    size = max(size, _together(model, n, name, dtype))
    while some := list(islice(drawn, size)):
        records += _solve(some, k, name, observables)
    return _collected(indices, records, k, name, observables)


@pinned
def lowest(drawn: Instance, k: int, *, solver: str = "auto") -> Eigenpairs:
    """The k lowest eigenpairs of the Hessian of one draw, with eigenvectors.

    Parameters
    ----------
    drawn : Instance
        Of `sims.draw`. Without data it is solved matrix-free.
    k : int
        At most p N.
    solver : str
        "auto" as in `sample_point`, or a name of `SOLVERS`.

    Returns
    -------
    Eigenpairs
        values (k,) in units of the Hessian; vectors (pN, k), block-major; signal.q2 (k,), squared overlaps with the teacher.

    Raises
    ------
    theory.checks.ParameterError
        On an unfit argument, or a dense solver and no data.

    >>> from theory.model import Network
    >>> found = lowest(instance.draw(Network(p=2), 12, 2.5), 3)
    >>> found.values.shape, found.vectors.shape, found.signal.q2.shape
    ((3,), (24, 3), (3,))
    """
    checks.of_type("drawn", drawn, Instance)
    alpha, dtype = drawn.m / drawn.n, drawn.student.dtype
    k, name, _ = _request(drawn.model, drawn.n, alpha, k, dtype, solver, None)
    if SOLVERS[name].rows and drawn.data is None:
        if solver != "auto":
            raise ParameterError(f"the draw must hold its data for the {name} solver: draw(..., data=True)")
        name = "krylov"
    return SOLVERS[name].solve([drawn], k)[0]


@pinned
def bytes_needed(
    model: Network,
    n: int,
    alpha: float,
    *,
    eigenpairs: int | None = None,
    dtype: Any = "float64",
    solver: str = "auto",
    batch: int | None = None,
) -> int:
    """Peak bytes of `sample_point` with these arguments. Raises ParameterError on unfit ones."""
    n = count("n", n)
    k, name, size = _request(model, n, alpha, eigenpairs, dtype, solver, batch)
    return _bytes_of(model, alpha, k, dtype, name, size)(n)


class _Record(NamedTuple):
    """What is kept of a sample: (k,) each, its rank, and how its solve ended."""

    values: NDArray
    residuals: NDArray
    overlaps: NDArray
    shares: NDArray
    rank: int
    code: Code
    reason: str
    measured: tuple[NDArray, ...]


def _request(
    model: Network,
    n: int,
    alpha: float,
    eigenpairs: int | None,
    dtype: Any,
    solver: str,
    batch: int | None,
) -> tuple[int, str, int]:
    order = instance.finite_p(model) * n
    k = min(int(model.degeneracy) + MARGIN, order) if eigenpairs is None else count("eigenpairs", eigenpairs)
    if k > order:
        raise ParameterError(f"eigenpairs must be at most p N = {order}, got {k}")
    choice("solver", solver, ["auto", *SOLVERS])
    require_resolved(model, n, alpha, dtype)
    name = preferred_solver(model, n, alpha, k, dtype) if solver == "auto" else solver
    return k, name, 1 if batch is None else count("batch", batch)


def _bytes_of(model: Network, alpha: float, k: int, dtype: Any, name: str, size: int) -> Callable[[int], int]:
    """Bytes, as a function of N, of the samples held at once: `size`, or those that a device solves together."""

    def need(n: int) -> int:
        held = size if jax.default_backend() == "cpu" else max(size, _together(model, n, name, dtype))
        return held * SOLVERS[name].bytes(model, n, alpha, eigenpairs=k, dtype=dtype)

    return need


def _together(model: Network, n: int, name: str, dtype: Any) -> int:
    """How many samples are solved together."""
    order = instance.finite_p(model) * n
    if not SOLVERS[name].dense:
        return 1
    if _dense_on_host(name):
        return side_by_side(order)
    return machine.solved_together(order, instance.real_dtype(dtype).itemsize)


def _dense_on_host(name: str) -> bool:
    return SOLVERS[name].dense and jax.default_backend() == "cpu"


def _draws(
    model: Network, n: int, alpha: float, seed: int, indices: list[int], dtype: Any, name: str
) -> Iterator[Instance]:
    if _dense_on_host(name):
        return draw_on_host(model, n, alpha, indices, seed=seed, dtype=dtype)
    rows = SOLVERS[name].rows
    return (instance.draw(model, n, alpha, seed=seed, sample=i, dtype=dtype, data=rows) for i in indices)


def _solve(drawn: list[Instance], k: int, name: str, observables: Sequence[Observable] = ()) -> list[_Record]:
    """Records of these samples, solved together; one that fails costs the others nothing but another try."""
    try:
        solved = SOLVERS[name].solve(drawn, k)
    except (RuntimeError, MemoryError, np.linalg.LinAlgError) as error:  # those of JAX are RuntimeErrors
        if len(drawn) > 1:
            return [record for one in drawn for record in _solve([one], k, name, observables)]
        first, blank = (str(error).splitlines() or [""])[0], np.full(k, np.nan)
        one = drawn[0]
        need = _bytes_of(one.model, one.m / one.n, k, one.student.dtype, name, 1)
        reason = exhausted(error, need, one.n) or f"{type(error).__name__}: {first}"
        none = tuple(blank if one.of_pairs else blank[0] for one in observables)
        return [_Record(blank, blank, blank, blank, -1, Code.FAILED, reason, none)]
    return _records(drawn, solved, k, observables)


def _records(
    drawn: list[Instance], solved: Sequence[Eigenpairs], k: int, observables: Sequence[Observable]
) -> list[_Record]:
    vectors = [pairs.vectors for pairs in solved]
    shares = student_shares_together(vectors, [np.asarray(one.student) for one in drawn])
    blank = np.full(k, np.nan)
    return [
        _Record(
            pairs.values,
            pairs.residuals,
            blank if pairs.signal is None else pairs.signal.q2,
            own,
            -1 if pairs.signal is None else pairs.signal.rank,
            pairs.code,
            "" if pairs.code is Code.CONVERGED else _reason(pairs),
            tuple(
                each.of(pairs.values, pairs.vectors, np.asarray(one.teacher), np.asarray(one.student))
                for each in observables
            ),
        )
        for one, pairs, own in zip(drawn, solved, shares, strict=True)
    ]


def _reason(pairs: Eigenpairs) -> str:
    details = [f"largest residual {np.max(pairs.residuals):.2g}"]
    details += [f"{name} {value}" for name, value in pairs.stats.items()]
    return f"{pairs.code.name.lower().replace('_', ' ')}: {', '.join(details)}"


def _collected(
    indices: list[int], records: list[_Record], k: int, name: str, observables: Sequence[Observable]
) -> PointResult:
    fields: Iterable[Sequence] = zip(*records, strict=True) if records else [()] * len(_Record._fields)
    values, residuals, overlaps, shares, ranks, ended, reasons, measured = fields

    def table(rows: Sequence[NDArray]) -> NDArray[np.float64]:
        return np.array(rows, np.float64).reshape(-1, k)

    codes = np.array(ended, np.int8)
    return PointResult(
        samples=np.array(indices, np.int64),
        eigenvalues=table(values),
        overlaps=table(overlaps),
        residuals=table(residuals),
        max_overlap_rank=np.array(ranks, np.int64),
        status=np.where(codes == Code.CONVERGED, DONE, FAILED).astype(np.int8),
        codes=codes,
        reasons=tuple(reasons),
        solver=name,
        student_shares=table(shares),
        measured={
            one.name: np.array([row[i] for row in measured], np.float64).reshape(
                (-1, k) if one.of_pairs else -1
            )
            for i, one in enumerate(observables)
        },
    )
