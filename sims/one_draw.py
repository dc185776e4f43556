"""Many Hessians from one draw of teacher, student and data: a grid in alpha, in a, or in both.

A larger alpha has more rows of the same data, another a has other weights. The vectors of all points stand side by
side, and each step of the solver passes over the data once for all of them.

What it means: samples at different points of the grid are correlated, since they share teacher, student and
rows. Differences along the grid (slopes, crossings, differences from point to point) come out with much less noise than
from independent draws; errors at different points are not independent and must not be averaged as if they were.
Across samples everything is independent as always.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from sims.backend import pinned
from sims.checks import of_type
from sims.dense.eigen import Code
from sims.instance import data_key, draw, finite_p, samples_of
from sims.krylov.memory import krylov_bytes
from sims.krylov.sample import mean_overlaps
from sims.krylov.solver import Settings, lowest_of_sets
from sims.machine import require_fit
from sims.operator.operator import HessianOperator, weighted
from sims.operator.rows import Rows, cut_rows, stored_rows, streamed_rows
from sims.resolution import require_resolved
from theory.answers import Printed
from theory.checks import ParameterError, count, flag, positive, shown
from theory.model.network import Network

Point = tuple[Network, float]
MANY = 4  # points from which a product of all their vectors takes longer than reading the data


@dataclass(frozen=True)
class SharedDraw:
    """One draw of teacher (p_star, N), student (p, N) and as many rows of data as the largest alpha wants, with its key."""

    student: jax.Array
    teacher: jax.Array
    rows: Rows
    key: jax.Array

    @pinned
    def operator(self, points: Sequence[Point]) -> HessianOperator:
        """The Hessians of the points (model, alpha), one set each."""
        n = self.rows.n
        pairs = [(model, samples_of(alpha, n)) for model, alpha in points]
        return weighted(self.rows, self.student, self.teacher, pairs, key=self.key)


@dataclass(frozen=True, repr=False)
class GridResult(Printed):
    """Lowest eigenpairs of every point (P of them), k each, lowest first, in units of the Hessian.

    eigenvalues, overlaps, residuals  (P, k)
    codes                             (P,) `sims.dense.eigen.Code`
    stats                             P dictionaries
    """

    eigenvalues: NDArray[np.float64]
    overlaps: NDArray[np.float64]
    residuals: NDArray[np.float64]
    codes: NDArray[np.int8]
    stats: tuple[dict[str, Any], ...]


@pinned
def shared_draw(
    points: Sequence[Point],
    n: int,
    *,
    seed: int = 0,
    sample: int = 0,
    dtype: Any = "float64",
    stored: bool = True,
    size: int | None = None,
) -> SharedDraw:
    """The draw with key (seed, N, sample) that serves all points: same p and p_star, any alpha and a.

    stored = False: rows are drawn again at each pass. size: rows in a block. Raises ParameterError.
    """
    model, largest = _checked(points)
    instance = draw(model, n, largest, seed=seed, sample=sample, dtype=dtype, data=False, shared=True)
    if model.inputs is not None:
        rows = cut_rows(instance, size=size)
        return SharedDraw(instance.student, instance.teacher, rows, instance.key)
    make = stored_rows if flag("stored", stored) else streamed_rows
    rows = make(data_key(instance.key), instance.m, instance.n, instance.student.dtype, size=size)
    return SharedDraw(instance.student, instance.teacher, rows.of(model), instance.key)


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
) -> GridResult:
    """Lowest eigenpairs and overlaps at every point (model, alpha) for one shared draw.

    Where settings leave the block open, grids of MANY points take the smallest: their products are bound by arithmetic.

    Raises ParameterError on unfit arguments and on what would not fit in memory.

    >>> model = Network(2, 1, 1.0)
    >>> found = sample_grid([(model, 2.0), (model, 2.5)], 12, eigenpairs=4)
    >>> found.eigenvalues.shape, converged(found)
    ((2, 4), True)
    """
    model, largest = _checked(points)
    n, eigenpairs = count("n", n), count("eigenpairs", eigenpairs)
    settings = Settings() if settings is None else of_type("settings", settings, Settings)
    if settings.block is None and len(points) >= MANY:
        smallest = max(eigenpairs, int(model.degeneracy) + 2)
        settings = replace(settings, block=smallest)
    require_fit(
        lambda at: krylov_bytes(
            model,
            at,
            largest,
            eigenpairs=eigenpairs,
            dtype=dtype,
            stored=stored,
            settings=settings,
            sets=len(points),
        ),
        n,
        finite_p(model),
        dense=False,
    )
    for each, alpha in points:
        require_resolved(each, n, alpha, dtype)
    shared = shared_draw(points, n, seed=seed, sample=sample, dtype=dtype, stored=stored)
    found = lowest_of_sets(
        shared.operator(points), eigenpairs, degeneracy=int(model.degeneracy), settings=settings
    )
    return GridResult(
        eigenvalues=np.array([pairs.values for pairs in found]),
        overlaps=np.array([mean_overlaps(pairs, shared.teacher) for pairs in found]),
        residuals=np.array([pairs.residuals for pairs in found]),
        codes=np.array([pairs.code for pairs in found], np.int8),
        stats=tuple(pairs.stats for pairs in found),
    )


def converged(result: GridResult) -> bool:
    """Whether every point of a grid came out."""
    return bool(np.all(result.codes == Code.CONVERGED))


def _checked(points: Sequence[Point]) -> tuple[Network, float]:
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
