"""Edge, outliers and overlaps for any weight F(lam, u, noise): other activations, other losses, label noise.

H = sum_mu F^mu (x) x^mu x^mu^T with symmetric p x p weights that are any function of the preactivations lam (p,),
u (p_star,) and of noise, all independent N(0, 1) at N = inf. Derived as in arXiv 2510.18435, without its symmetries:

    G^{-1} = z - alpha E[F (I - G F)^{-1}]        spikes v = (u, lam):  det(z - alpha E[v v^T (x) F (I - G F)^{-1}]) = 0

Teacher and student directions enter on one footing: even activations decouple them, others have mixed outliers.
The average is taken over points of low discrepancy (scrambled Sobol points, Owen 1997); the error is that of the spread
over independent scramblings, widened by Student's t so that twice the error covers 95 %. A smooth edge is decided by the
infimum of the weight, which n points approach only like 1 / log n: it is found by search over all scales of the arguments
(`theory.general.infimum`), and an edge that points alone call sharp is one only if every weight allows
it. For p > 1 a smooth edge needs G = g I, which a given infimum asserts, or the answer is "unresolved". The committee and
other networks, spectral methods and one-dimensional laws have faster and exact routes in `theory.general.spectrum`,
`theory.general.spectral_methods`, `theory.general.isotropic.given_law`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from theory.answers import Found, scattered, without_edge
from theory.checks import NotConverged, ParameterError, count, finite, function, one, positive
from theory.general.cubature import Cubature
from theory.general.infimum import plane_infimum, searched_infimum, smallest_eigenvalues
from theory.general.isotropic import Block
from theory.general.nodes import UNBOUNDED
from theory.general.points import PointProblem
from theory.general.quadrature import SOBOL_DIMENSIONS, normals, sobol
from theory.general.support import Extreme, Support

Array = NDArray[np.float64]
Weight = Callable[[Array, Array, Array], Array]

_LEVELS = 30  # log2 of the points of one scrambling that SciPy can draw
_DIVERGES = 4  # dimensions up to which E (q_min + f)^-2 diverges where the infimum is taken at a finite place
_INSIDE = 1e3  # arguments from here on count as at infinity
_ROUNDING = 1e-9  # relative distance by which a point may lie below the infimum that was found
_SPLIT = 10.0  # neighbours this many errors apart may be one outlier, split
_CARRIED = 0.2  # share of one point in the condition for the edge beyond which the points do not resolve it


def general_spectrum(
    weight: Weight,
    alpha: float,
    p: int = 1,
    p_star: int = 1,
    *,
    noise: int = 0,
    infimum: float | None = None,
    points: int = 2**14,
    scramblings: int = 8,
    seed: int = 0,
) -> Found:
    """Left edge and outliers of H, one by one, for a weight of one's own.

    Parameters
    ----------
    weight : function
        weight(lam (n, p), u (n, p_star), noise (n, noise)) -> (n, p, p), for p = 1 also (n,): vectorised over n points.
    alpha : float
        M/N.
    p, p_star, noise : int
        Numbers of students, teachers and noises, all independent N(0, 1).
    infimum : float
        Lower bound of the weight's eigenvalues that it approaches; None: it is looked for. For p > 1 a given one asserts that
        G is a multiple of I, which a weight symmetric under permutations and signs of lam ensures.
    points : int
        Nodes of one scrambling, rounded up to a power of 2.
    scramblings : int
        Independent repetitions, at least 2: their spread is the error.
    seed : int
        Of the scramblings.

    Returns
    -------
    Found
        In the units of the weight.

    Raises
    ------
    ParameterError
        On bad arguments, and weights of wrong arguments or shape, not symmetric or not finite.
    NotConverged
        Where the spectrum has no left edge below its atom at 0.

    >>> found = general_spectrum(lambda lam, u, xi: (3 * lam[:, 0] ** 2 - u[:, 0] ** 2) / (0.5 + u[:, 0] ** 2), 2.0)
    >>> found.kind, found.edge < 0, len(found.outliers)
    ('sharp', True, 1)
    """
    function("weight", weight)
    alpha, seed = one("alpha", positive("alpha", alpha)), count("seed", seed, 0)
    infimum = None if infimum is None else one("infimum", finite("infimum", infimum))
    p, p_star, noise = count("p", p), count("p_star", p_star), count("noise", noise, minimum=0)
    level = max(int(np.ceil(np.log2(count("points", points, minimum=16)))), 4)
    scramblings = count("scramblings", scramblings, minimum=2)
    if p + p_star + noise > SOBOL_DIMENSIONS or level > _LEVELS:
        raise ParameterError(
            f"points must be at most 2^{_LEVELS} in at most {SOBOL_DIMENSIONS} dimensions p + p_star + noise, "
            f"got {points} in {p + p_star + noise}"
        )
    _takes_three(weight, p, p_star, noise)
    _weights(weight, *(np.random.default_rng(seed).standard_normal((5, k)) for k in (p, p_star, noise)))
    if infimum is not None:
        bottom = Extreme(infimum, np.full((1, p, p), infimum) * np.eye(p), True)
    else:
        bottom = (_remembered if isinstance(weight, Hashable) else _bottom)(weight, p, p_star, noise)
    if not np.isfinite(bottom.value):
        return without_edge("points", UNBOUNDED)

    def other(shift: Array) -> Extreme:
        return _bottom(weight, p, p_star, noise, shift)

    given = infimum is not None
    law = Support(other, bottom, given or p == 1)
    runs = []
    for repeat in range(scramblings):
        uniform = sobol(p + p_star + noise, np.random.default_rng([seed, repeat]), level)
        lam, u, xi = np.split(normals(uniform), [p, p + p_star], axis=1)
        block = Block(np.arange(p_star + p) < p_star, np.diag((np.arange(p_star + p) >= p_star) * 1.0))
        f = _weights(weight, lam, u, xi)
        rule = Cubature(f, np.full(len(f), 1 / len(f)), ((np.concatenate([u, lam], axis=1), block),))
        runs.append(_solved(rule, law, alpha, given))
    found = scattered(runs)
    groups = _groups(found.outliers, found.outliers_error)
    errors = _with_splitting(found.outliers, found.outliers_error, groups)
    of_overlaps = _with_splitting(found.overlaps, found.overlaps_error, groups)
    rows = zip(found.pulled, errors.tolist(), of_overlaps.tolist(), strict=True)
    return replace(found, pulled=tuple(replace(o, error=e, overlap_error=q) for o, e, q in rows))


def _groups(places: Array, errors: Array) -> list[slice]:
    """Runs of neighbours that points may have split: equal outliers of the law."""
    if not len(places):
        return []
    apart = np.diff(places) > _SPLIT * (errors[1:] + errors[:-1])
    ends = [0, *(np.flatnonzero(apart) + 1).tolist(), len(places)]
    return [slice(low, high) for low, high in pairwise(ends)]


def _with_splitting(mean: Array, error: Array, groups: list[slice]) -> Array:
    """Errors that include how far points, which are not symmetric, have split equal outliers."""
    wider = error.copy()
    for group in groups:
        wider[group] = np.hypot(error[group], mean[group] - mean[group].mean())
    return wider


def _takes_three(weight: Weight, p: int, p_star: int, noise: int) -> None:
    """Raise ParameterError where a weight cannot be called with the three arrays."""
    try:
        inspect.signature(weight).bind(np.zeros((1, p)), np.zeros((1, p_star)), np.zeros((1, noise)))
    except TypeError as error:
        raise ParameterError(f"weight must take three arguments (lam, u, noise): {error}") from None
    except ValueError:  # a function without a signature shows when it is called
        return


def _bottom(weight: Weight, p: int, p_star: int, noise: int, shift: Array | None = None) -> Extreme:
    """The infimum of the smallest eigenvalue of F + shift by search over the plane, or in more dimensions."""

    def weights(v: Array) -> Array:
        lam, u, xi = np.split(v, [p, p + p_star], axis=1)
        with np.errstate(all="ignore"):
            return np.asarray(weight(lam, u, xi), dtype=np.float64).reshape(len(v), p, p)

    def smallest(v: Array) -> Array:
        f = weights(v) + (0.0 if shift is None else shift)
        return np.where(np.any(np.isneginf(f), axis=(1, 2)), -np.inf, smallest_eigenvalues(f))

    if p == p_star == 1 and not noise:

        def plane(x: Array, y: Array) -> Array:
            x, y = np.broadcast_arrays(x, y)
            return smallest(np.stack([x.ravel(), y.ravel()], axis=1)).reshape(x.shape)

        found = plane_infimum(plane, (-np.inf, np.inf))
        return Extreme(found.value, np.full((1, 1, 1), found.value), found.place != "inside")
    d = p + p_star + noise
    deep = searched_infimum(
        lambda x, y: smallest(np.concatenate([x, y[:, None]], axis=1)),
        d - 1,
        (-np.inf, np.inf),
        lambda x: np.zeros(len(x)),
    )
    place = np.append(deep.x, deep.y)
    inside = bool(np.all(np.abs(place) < _INSIDE))
    return Extreme(deep.value, weights(place[None, :]), not inside or d > _DIVERGES)


_remembered = lru_cache(maxsize=32)(_bottom)  # a curve over alpha asks for the infimum again and again


def _weights(weight: Weight, lam: Array, u: Array, xi: Array) -> Array:
    """Weights (n, p, p), checked for shape and finite entries."""
    n, p = lam.shape
    f = np.asarray(finite("weight", weight(lam, u, xi)))
    if p == 1 and f.shape == (n,):
        f = f[:, None, None]
    if f.shape != (n, p, p):
        raise ParameterError(f"weight must return shape ({n}, {p}, {p}), got {f.shape}")
    return f


def _solved(rule: Cubature, law: Support, alpha: float, given: bool) -> Found:
    """The answers of one rule: an edge that hangs on few of its points is unresolved."""
    problem = PointProblem(None, rule, law)
    lowest_point = float(problem.unit.values.min())
    if lowest_point < law.bottom.value - _ROUNDING * abs(law.bottom.value):
        if given:
            raise ParameterError(
                f"infimum must bound the weight's eigenvalues, got {law.bottom.value} above {lowest_point:.9g}"
            )
        problem.law = replace(law, bottom=law.bottom._replace(value=lowest_point))
    dyson, edge = problem.edge(alpha)
    if edge.state is None:
        raise NotConverged("no left edge: the weights have no negative eigenvalue and are too few", 0.0)
    # rho is a sum over points: one that brings much of it is no average.
    if edge.kind == "sharp" and (dyson.c * np.sum(edge.state.b**2, axis=0)).max() > _CARRIED:
        edge = replace(edge, kind="unresolved")
    return problem.solved(dyson, edge)
