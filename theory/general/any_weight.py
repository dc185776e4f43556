"""Edge, outliers and overlaps for any weight F(lam, u, noise): other activations, other losses, label noise.

H = sum_mu F^mu (x) x^mu x^mu^T with symmetric p x p weights that are any function of the preactivations lam (p,),
u (p_star,) and of noise, all independent N(0, 1) at N = inf. Derived as in arXiv 2510.18435, without its symmetries:

    G^{-1} = z - alpha E[F (I - G F)^{-1}]        spikes v = (u, lam):  det(z - alpha E[v v^T (x) F (I - G F)^{-1}]) = 0

Teacher and student directions enter on one footing: even activations decouple them, others have mixed outliers.
The average is taken over points of low discrepancy (scrambled Sobol points, Owen 1997); the error is that of the spread
over independent scramblings and of the change from a quarter of the points to all. A smooth edge is decided by the
infimum of the weight, which n points approach only like 1 / log n: there the infimum must be given, or the answer is
marked "unresolved". The committee, spectral methods and other one-dimensional laws have faster and exact routes in
`theory.bulk`, `theory.general.spectral_methods`, `theory.general.scalar_law`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from theory.checks import ParameterError, count, finite, function, one, positive
from theory.general.dyson import Dyson, DysonEdge
from theory.general.spikes import spikes

Array = NDArray[np.float64]
Weight = Callable[[Array, Array, Array], Array]
_Run = tuple[str, tuple[NDArray, ...]]

_LEVELS = 30  # log2 of the points of one scrambling that SciPy can draw
_CARRIED = 0.2  # share of one point in the condition for the edge beyond which the points do not resolve it


@dataclass(frozen=True)
class GeneralSpectrum:
    """Left edge and outliers of a general weight at one alpha, each with an error (`*_error`, one standard deviation).

    edge, edge_error          in units of the weights
    kind                      "sharp" | "smooth" | "unresolved": too few points, or an infimum of the weight not given
    outliers (r,)             eigenvalues left of the edge, lowest first; only those found in every scrambling
    overlaps (r,)             squared overlap with the whole spike space (teacher and student directions)
    teacher_share (r,)        share of that overlap that lies on teacher directions
    """

    edge: float
    edge_error: float
    kind: str
    outliers: Array
    outliers_error: Array
    overlaps: Array
    overlaps_error: Array
    teacher_share: Array
    teacher_share_error: Array


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
) -> GeneralSpectrum:
    """Left edge and outliers of H for weight(lam (n, p), u (n, p_star), noise (n, noise)) -> (n, p, p) or (n,).

    weight       vectorised over n points; (n,) only for p = 1
    infimum      lower bound of the weight's eigenvalues that it approaches: needed where the edge is smooth. There G is
                 taken as a multiple of I, which a weight symmetric under permutations and signs of lam ensures
    points       nodes of one scrambling, rounded up to a power of 2
    scramblings  independent repetitions, at least 2: their spread is the first part of the error
    Raises ParameterError on bad arguments and on weights of wrong shape, not symmetric or not finite; NotConverged
    where the spectrum has no left edge below its atom at 0.

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
    if p + p_star + noise > qmc.Sobol.MAXDIM or level > _LEVELS:
        raise ParameterError(
            f"points must be at most 2^{_LEVELS} in at most {qmc.Sobol.MAXDIM} dimensions p + p_star + noise, "
            f"got {points} in {p + p_star + noise}"
        )
    runs: list[_Run] = []
    coarse: list[_Run] = []
    for repeat in range(scramblings):
        uniform = qmc.Sobol(p + p_star + noise, rng=np.random.default_rng([seed, repeat])).random_base2(level)
        runs.append(_solve(weight, alpha, uniform, p, p_star, infimum))
        coarse.append(_solve(weight, alpha, uniform[: len(uniform) // 4], p, p_star, infimum))
    kinds = {kind for kind, _ in runs}
    shared = min(len(columns[1]) for _, columns in runs)
    columns = []
    for part in range(4):
        fine = _column(runs, part, shared)
        rough = _column(coarse, part, shared)
        spread = fine.std(axis=0, ddof=1) / np.sqrt(scramblings)
        drift = np.abs(np.nanmean(rough, axis=0) - fine.mean(axis=0))
        columns.append((fine.mean(axis=0), np.hypot(spread, np.where(np.isfinite(drift), drift, np.inf))))
    (edge, edge_error), *rest = columns
    kind = kinds.pop() if len(kinds) == 1 else "unresolved"
    return GeneralSpectrum(
        float(edge[0]), float(edge_error[0]), kind, *(array for pair in rest for array in pair)
    )


def activation_weight(
    value: Callable, first: Callable, second: Callable, a: float, noise: float = 0.0
) -> Weight:
    """Weight of networks y = mean_l s(u_l), yhat = mean_k s(lam_k) with the loss (y - yhat)^2 / (2 (a + y)).

    F = [ grad yhat grad yhat^T - (y - yhat) Hess yhat ] / (a + y);  `value`, `first`, `second` are s, s', s''.
    noise  standard deviation of Gaussian noise added to y (needs noise=1 in `general_spectrum`)
    Raises ParameterError on bad arguments; the weight raises it where a function does not keep the shape of its argument.

    >>> cube = activation_weight(lambda x: x**3, lambda x: 3 * x**2, lambda x: 6 * x, a=20.0)
    >>> cube(np.ones((4, 2)), np.ones((4, 1)), np.zeros((4, 0))).shape
    (4, 2, 2)
    """
    a, noise = one("a", positive("a", a)), one("noise", finite("noise", noise))
    if noise < 0:
        raise ParameterError(f"noise must be at least 0, got {noise}")
    for name, each in (("value", value), ("first", first), ("second", second)):
        function(name, each)

    def weight(lam: Array, u: Array, xi: Array) -> Array:
        if noise and not xi.shape[1]:
            raise ParameterError(
                "noise must be at least 1 in general_spectrum for a weight with label noise, got 0"
            )
        p = lam.shape[1]
        y = _applied("value", value, u).mean(axis=1) + (noise * xi[:, 0] if noise else 0.0)
        yhat, slope = _applied("value", value, lam).mean(axis=1), _applied("first", first, lam) / p
        f = slope[:, :, None] * slope[:, None, :]
        f[:, np.arange(p), np.arange(p)] -= (y - yhat)[:, None] * _applied("second", second, lam) / p
        return f / (a + y)[:, None, None]

    return weight


def _applied(name: str, function: Callable, at: Array) -> Array:
    values = np.asarray(finite(name, function(at)))
    if values.shape != at.shape:
        raise ParameterError(f"{name} must keep the shape {at.shape} of its argument, got {values.shape}")
    return values


def _solve(weight: Weight, alpha: float, uniform: Array, p: int, p_star: int, infimum: float | None) -> _Run:
    normals = ndtri(np.clip(uniform, 2.0**-40, 1 - 2.0**-40))
    lam, u, xi = np.split(normals, [p, p + p_star], axis=1)
    f = np.asarray(finite("weight", weight(lam, u, xi)))
    if p == 1 and f.shape == (len(lam),):
        f = f[:, None, None]
    if f.shape != (len(lam), p, p):
        raise ParameterError(f"weight must return shape ({len(lam)}, {p}, {p}), got {f.shape}")
    dyson = Dyson(f, alpha / len(f))
    if infimum is not None and dyson.values.min() < infimum:
        raise ParameterError(
            f"infimum must bound the weight's eigenvalues, got {infimum} above {dyson.values.min():.9g}"
        )
    edge, kind = _edge(dyson, infimum)
    found = spikes(dyson, edge, np.concatenate([u, lam], axis=1))
    share = np.sum(found.directions[:, :p_star] ** 2, axis=(1, 2))
    return kind, (np.array([edge.value]), found.values, found.overlaps, share)


def _edge(dyson: Dyson, infimum: float | None) -> tuple[DysonEdge, str]:
    """Edge and kind: at a given infimum the walk of G stops at I / infimum, if no sharp edge comes before."""
    if infimum is not None and infimum < 0:
        state = dyson.state(-infimum * np.eye(dyson.p))
        if state is not None and state.top()[0] <= 1:
            value = float(np.trace(state.z())) / dyson.p
            return DysonEdge(value, state.q, np.eye(dyson.p), np.nan, 0.0, 0), "smooth"
    edge = dyson.edge()
    state = dyson.state(edge.q)
    carried = np.zeros(1) if state is None else dyson.c * np.sum(state.b**2, axis=0)
    return edge, "unresolved" if carried.max() > _CARRIED else "sharp"


def _column(runs: list[_Run], part: int, shared: int) -> Array:
    """One quantity of every run, (runs, r), NaN where a run found fewer outliers."""
    width = 1 if part == 0 else shared
    return np.array([np.append(columns[part], np.full(width, np.nan))[:width] for _, columns in runs])
