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
from dataclasses import replace
from typing import Any

from sims.backend import pinned
from sims.checks import finite_p, of_type, samples_of
from sims.instance import Instance, draw
from sims.krylov import krylov_bytes
from sims.krylov.solver import Settings, lowest_of_sets
from sims.machine import require_fit
from sims.operator import HessianOperator, hessian_operator
from sims.sampling import require_resolved
from sims.solvers import Eigenpairs, Overlaps
from sims.solvers.krylov import mean_overlaps
from theory.checks import ParameterError, count, flag, positive, shown
from theory.model.network import Network

Point = tuple[Network, float]
MANY = 4  # points from which a product of all their vectors takes longer than reading the data


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
    settings = Settings() if settings is None else of_type("settings", settings, Settings)
    if settings.block is None and len(points) >= MANY:
        settings = replace(settings, block=max(eigenpairs, int(model.degeneracy) + 2))
    options = {"eigenpairs": eigenpairs, "dtype": dtype, "stored": stored, "settings": settings}
    require_fit(
        lambda at: krylov_bytes(model, at, largest, sets=len(points), **options),
        n,
        finite_p(model),
        dense=False,
    )
    for each, alpha in points:
        require_resolved(each, n, alpha, dtype)
    drawn, operator = shared(points, n, seed=seed, sample=sample, dtype=dtype, stored=stored)
    found = lowest_of_sets(operator, eigenpairs, degeneracy=int(model.degeneracy), settings=settings)
    return [replace(pairs, signal=Overlaps(mean_overlaps(pairs, drawn.teacher), -1)) for pairs in found]


@pinned
def shared(
    points: Sequence[Point],
    n: int,
    *,
    seed: int = 0,
    sample: int = 0,
    dtype: Any = "float64",
    stored: bool = True,
    size: int | None = None,
) -> tuple[Instance, HessianOperator]:
    """The draw with key (seed, N, sample), of as many rows as the largest alpha wants, and the Hessians of all points on it.

    size as in `sims.rows.rows_of`. Raises ParameterError.
    """
    model, largest = _checked(points)
    drawn = draw(model, n, largest, seed=seed, sample=sample, dtype=dtype, data=False, shared=True)
    pairs = [(model, samples_of(alpha, n)) for model, alpha in points]
    return drawn, hessian_operator(drawn, stored=flag("stored", stored), size=size, points=pairs)


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
