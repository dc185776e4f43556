"""Samples of the Hessian at one point (model, N, alpha): lowest eigenvalues, overlaps, how each solve ended.

Results depend on (model, seed, N, alpha, sample, dtype, solver) alone, not on which samples are asked for together.

Many Hessians on one draw of teacher, student and data (`sample_grid`): a larger alpha has more rows of the same data, another a
has other weights. The vectors of all points stand side by side, and each step of the solver passes over the data once for all
of them. Samples at different points of the grid are then correlated: differences along the grid come out with much less noise
than from independent draws, and errors at different points must not be averaged as if they were independent. Across samples
everything is independent as always.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from sims import checks, instance, machine, solvers
from sims.backend import pinned
from sims.instance import Instance, draw_on_host
from sims.krylov import Settings, krylov_bytes
from sims.krylov.solver import lowest_of_sets
from sims.operator import hessian_operator
from sims.signal import Observable, student_shares
from sims.solvers import Code, Eigenpairs, Overlaps, Solver, nothing
from sims.solvers.dense import dense_bytes
from sims.solvers.krylov import mean_overlaps
from sims.tridiagonal import side_by_side
from theory.answers import Printed
from theory.checks import ParameterError, choice, count, flag, positive, shown
from theory.model.network import Network

OF_PAIRS = "eigenvalues", "residuals", "overlaps", "student_shares"  # numbers of every eigenpair
MARGIN = 4  # eigenpairs beyond the p p_star that carry the teacher
DENSE = 4000  # orders p N up to which dense solves take seconds on a CPU, and give every rank
MANY = 4  # points of a grid from which a product of all their vectors takes longer than reading the data
Point = tuple[Network, float]


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
    codes             (S,) `sims.solvers.Code` of the solve
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


SOLVERS: dict[str, Solver] = {
    module.name: importlib.import_module(f"sims.solvers.{module.name}").SOLVER
    for module in pkgutil.iter_modules(solvers.__path__)
}


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
        wrong).
    solver : str
        "auto", or a name of `SOLVERS`.
    batch : int
        Draws held at once, default 1; changes memory and time, no result.
    observables : sequence of Observable
        What else is measured on the eigenpairs of each sample (`sims.signal`).

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
    asked = _Request(model, n, alpha, eigenpairs, dtype, solver, batch, observables)
    indices = checks.indices("samples", samples)
    machine.require_fit(asked.bytes, asked.n, checks.finite_p(model), dense=asked.way.dense)
    if not indices:
        instance.point_words(seed, n, alpha)  # an unfit seed is refused even for no samples
    records: list[dict[str, Any]] = []
    drawn, size = asked.draws(seed, indices), max(asked.batch, asked.together(asked.n))
    while some := list(islice(drawn, size)):
        records += asked.solved(some)
    return asked.collected(indices, records)


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
    asked = _Request(drawn.model, drawn.n, alpha, k, dtype, solver)
    if asked.way.rows and drawn.data is None:
        if solver != "auto":
            raise ParameterError(f"the draw must hold its data for the {solver} solver: draw(..., data=True)")
        asked = replace(asked, solver="krylov")
    return asked.way.solve([drawn], asked.eigenpairs)[0]


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
    """Peak bytes of `sample_point` with these arguments.

    Parameters
    ----------
    model, n, alpha, eigenpairs, dtype, solver, batch
        As in `sample_point`.

    Returns
    -------
    int
        Of the device that solves.

    Raises
    ------
    theory.checks.ParameterError
    """
    asked = _Request(model, n, alpha, eigenpairs, dtype, solver, batch)
    return asked.bytes(asked.n)


def preferred_solver(model: Network, n: int, alpha: float, k: int, dtype: Any = "float64") -> str:
    """ "dense" while the order p N is small enough in time and memory, else "krylov".

    Parameters
    ----------
    model : Network
        Of finite p.
    n, alpha : int, float
        N, and M / N.
    k : int
        Eigenpairs wanted.
    dtype : str
        "float64" or "float32".

    Returns
    -------
    str
        A name of `SOLVERS`.

    Raises
    ------
    theory.checks.ParameterError
    """
    p, n = checks.finite_p(model), count("n", n)
    if jax.default_backend() == "cpu":
        fast = p * n <= DENSE
    else:
        m, item = checks.samples_of(alpha, n), checks.real_dtype(dtype).itemsize
        fast = p * n <= machine.WIDEST["gpu"] and machine.prefers_dense(m, n, p, item)
    need = dense_bytes(model, n, alpha, eigenpairs=k, dtype=dtype) if fast else 0
    return "dense" if fast and machine.fits(need) else "krylov"


@dataclass(frozen=True)
class _Request:
    """What is sampled and how: arguments of `sample_point`, checked, their defaults filled in."""

    model: Network
    n: int
    alpha: float
    eigenpairs: Any
    dtype: Any
    solver: str
    batch: Any = None
    observables: Sequence[Observable] = ()

    def __post_init__(self) -> None:
        keep, model = partial(object.__setattr__, self), self.model
        order = checks.finite_p(model) * count("n", self.n)
        keep("n", count("n", self.n))
        default = min(int(model.degeneracy) + MARGIN, order)
        keep("eigenpairs", default if self.eigenpairs is None else count("eigenpairs", self.eigenpairs))
        if self.eigenpairs > order:
            raise ParameterError(f"eigenpairs must be at most p N = {order}, got {self.eigenpairs}")
        choice("solver", self.solver, ["auto", *SOLVERS])
        checks.require_resolved(model, self.n, self.alpha, self.dtype)
        if self.solver == "auto":
            keep("solver", preferred_solver(model, self.n, self.alpha, self.eigenpairs, self.dtype))
        keep("batch", 1 if self.batch is None else count("batch", self.batch))
        for one in self.observables if isinstance(self.observables, list | tuple) else [self.observables]:
            checks.of_type("observables", one, Observable)

    @property
    def way(self) -> Solver:
        """The solver of this name."""
        return SOLVERS[self.solver]

    def together(self, n: int) -> int:
        """How many samples are solved together."""
        order = checks.finite_p(self.model) * n
        if not self.way.dense:
            return 1
        if jax.default_backend() == "cpu":
            return side_by_side(order)
        return machine.solved_together(order, checks.real_dtype(self.dtype).itemsize)

    def bytes(self, n: int) -> int:
        """Of the samples held at once: `batch`, or those that a device solves together."""
        held = self.batch if jax.default_backend() == "cpu" else max(self.batch, self.together(n))
        return held * self.way.bytes(self.model, n, self.alpha, eigenpairs=self.eigenpairs, dtype=self.dtype)

    def draws(self, seed: int, samples: list[int]) -> Iterator[Instance]:
        """Of these samples, as the solver wants them."""
        point, how = (self.model, self.n, self.alpha), {"seed": seed, "dtype": self.dtype}
        if self.way.dense and jax.default_backend() == "cpu":
            return draw_on_host(*point, samples, **how)
        return (instance.draw(*point, sample=i, data=self.way.rows, **how) for i in samples)

    def solved(self, drawn: list[Instance]) -> list[dict[str, Any]]:
        """Columns of `PointResult` of these draws, solved together; one that fails costs the others nothing but another try."""
        try:
            found = self.way.solve(drawn, self.eigenpairs)
        except (RuntimeError, MemoryError, np.linalg.LinAlgError) as error:  # those of JAX are RuntimeErrors
            if len(drawn) > 1:
                return [record for one in drawn for record in self.solved([one])]
            first = (str(error).splitlines() or [""])[0]
            told = machine.exhausted(error, replace(self, batch=1).bytes, self.n)
            found = [
                nothing(
                    drawn[0].student, self.eigenpairs, Code.FAILED, told or f"{type(error).__name__}: {first}"
                )
            ]
        shares = student_shares(
            [pairs.vectors for pairs in found], [np.asarray(one.student) for one in drawn]
        )
        return [self._record(*each) for each in zip(drawn, found, shares, strict=True)]

    def _record(self, drawn: Instance, pairs: Eigenpairs, shares: NDArray) -> dict[str, Any]:
        signal, stats, reason = pairs.signal, pairs.stats, ""
        if pairs.code is Code.FAILED:
            reason = stats["failure"]
        elif pairs.code is not Code.CONVERGED:
            details = [
                f"largest residual {np.max(pairs.residuals):.2g}",
                *(f"{name} {stats[name]}" for name in stats),
            ]
            reason = f"{pairs.code.name.lower().replace('_', ' ')}: {', '.join(details)}"
        # NaN, not absent: the columns of a run have one shape whatever failed.
        blank = np.full(self.eigenpairs, np.nan)
        rows = np.asarray(drawn.teacher), np.asarray(drawn.student)
        return {
            "eigenvalues": pairs.values,
            "residuals": pairs.residuals,
            "overlaps": blank if signal is None else signal.q2,
            "student_shares": shares,
            "max_overlap_rank": -1 if signal is None else signal.rank,
            "codes": pairs.code,
            "reasons": reason,
            "measured": {one.name: one.of(pairs, *rows) for one in self.observables},
        }

    def collected(self, samples: list[int], records: list[dict[str, Any]]) -> PointResult:
        """The records of these samples as one result."""

        def column(values: list[Any], dtype: Any = np.float64, of_pairs: bool = False) -> NDArray:
            return np.array(values, dtype).reshape(-1, *[self.eigenpairs] * of_pairs)

        columns = {
            name: [record[name] for record in records] for name in (*OF_PAIRS, "max_overlap_rank", "codes")
        }
        codes = column(columns["codes"], np.int8)
        return PointResult(
            **{name: column(columns[name], of_pairs=True) for name in OF_PAIRS},
            samples=column(samples, np.int64),
            max_overlap_rank=column(columns["max_overlap_rank"], np.int64),
            status=np.where(codes == Code.CONVERGED, 1, 2).astype(np.int8),
            codes=codes,
            reasons=tuple(record["reasons"] for record in records),
            solver=self.solver,
            measured={
                one.name: column([record["measured"][one.name] for record in records], of_pairs=one.of_pairs)
                for one in self.observables
            },
        )


@pinned
def sample_grid(
    points: Sequence[Point],
    n: int,
    *,
    eigenpairs: int,
    seed: int = 0,
    sample: int = 0,
    dtype: Any = "float64",
    stored: bool = True,
    settings: Settings | None = None,
) -> list[Eigenpairs]:
    """Lowest eigenpairs and overlaps at every point (model, alpha) for one shared draw.

    Parameters
    ----------
    points : sequence of (Network, float)
        Models of one p and p_star, and alpha.
    n, eigenpairs : int
        Input dimension N, and k.
    seed, sample, dtype
        Of the draw, as in `sims.draw`.
    stored : bool
        False: rows are drawn again at each pass.
    settings : Settings
        Where they leave the block open, grids of MANY points take the smallest: their products are bound by arithmetic.

    Returns
    -------
    list of Eigenpairs
        One a point, in units of the Hessian; signal.q2 (k,) are squared overlaps with the teacher, signal.rank -1.

    Raises
    ------
    theory.checks.ParameterError
        On unfit arguments and on what would not fit in memory.

    >>> model = Network(2, 1, 1.0)
    >>> found = sample_grid([(model, 2.0), (model, 2.5)], 12, eigenpairs=4)
    >>> [pairs.code.name for pairs in found], found[0].signal.q2.shape
    (['CONVERGED', 'CONVERGED'], (4,))
    """
    model, largest = _checked(points)
    n, eigenpairs = count("n", n), count("eigenpairs", eigenpairs)
    settings = Settings() if settings is None else checks.of_type("settings", settings, Settings)
    if settings.block is None and len(points) >= MANY:
        settings = replace(settings, block=max(eigenpairs, int(model.degeneracy) + 2))
    options = {"eigenpairs": eigenpairs, "dtype": dtype, "stored": stored, "settings": settings}
    machine.require_fit(
        lambda at: krylov_bytes(model, at, largest, sets=len(points), **options),
        n,
        checks.finite_p(model),
        dense=False,
    )
    for each, alpha in points:
        checks.require_resolved(each, n, alpha, dtype)
    drawn = instance.draw(model, n, largest, seed=seed, sample=sample, dtype=dtype, data=False, shared=True)
    pairs = [(each, checks.samples_of(alpha, n)) for each, alpha in points]
    operator = hessian_operator(drawn, stored=flag("stored", stored), points=pairs)
    found = lowest_of_sets(operator, eigenpairs, degeneracy=int(model.degeneracy), settings=settings)
    return [replace(each, signal=Overlaps(mean_overlaps(each, drawn.teacher), -1)) for each in found]


def _checked(points: Sequence[Point]) -> Point:
    """The point of largest alpha; ParameterError unless all are points of one p and p_star."""
    try:
        points = [(model, positive("alpha", alpha)) for model, alpha in points]
    except ParameterError:
        raise
    except (TypeError, ValueError):
        raise ParameterError(f"points must be pairs (model, alpha), got {shown(points)}") from None
    if not points:
        raise ParameterError("points must not be empty")
    if not all(isinstance(model, Network) for model, _ in points):
        raise ParameterError(f"points must be pairs (model, alpha), got {shown(points)}")
    widths = {(model.p, model.p_star) for model, _ in points}
    if len(widths) > 1:
        raise ParameterError(f"points of a shared draw must have one p and p_star, got {sorted(widths)}")
    return max(points, key=lambda point: point[1])
