"""The lowest eigenpair at finite n, given what is known: a small random matrix of known directions and lowest levels.

Theory at large n places outliers and an edge. At finite n levels of the bulk lie beside an outlier and share its overlap, the
edge fluctuates, and couplings between known directions repel the lowest level (by 0.01 to 0.1 where a path has left many).
All of it is in the matrix of the known directions, k p of them, and the lowest levels mu_i of the bulk:

    det [ z - Xi_0(z) - W      -b  ]
        [     -b'            z - mu]  = 0,        E b b' = C = dXi/dg / (p n')        (derived in `theory.finite.quenched`)

* mu_i = edge + y_i / kappa, y those of the GOE at the edge (`theory.finite.bulk`), b Gaussian and independent.
* Xi_0 = Xi less C sum_i 1/(z - mean mu_i): what the levels give in the mean counts once. It is taken on its tangent at the
  outlier, or 1.5/kappa below the edge where that is lower, so that zeros are eigenvalues.
* W = (S^{1/2} G S^{1/2}) / n'^{1/2}, G of the GOE (variance 1, 2 on the diagonal), what the other levels scatter: the second
  term of the variance of an outlier, as in `theory.finite.block`. S_ij = <t_i t_j', X>, X = (1 - L)^{-1} sigma /
  <sigma, (1 - L)^{-1} sigma>^{1/2}, sigma = slope of the outlier's direction: exact for the variance of that direction and its
  couplings to others at p = 1, and up to the sectors that sigma does not see at p > 1. What the kept levels scatter by
  themselves is taken off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from theory.finite.bulk import airy_levels
from theory.general.dyson import DysonEdge
from theory.general.state import newton_step
from theory.path.projected import ProjectedSpikes, ProjectedState

Array = NDArray[np.floating[Any]]

LEVELS = 6  # of the bulk; y of the last is about 9
DRAWS = 200
_CLEAR = 1.5  # distance of the tangent from the edge, in 1/kappa, at the least
_SEED = 20261


@dataclass(frozen=True)
class LowestPairs:
    """Lowest pairs (DRAWS,) of the small matrix: eigenvalues in units of the equation, components (DRAWS, k p) of their vectors
    on the known directions."""

    values: Array
    components: Array


def lowest_pairs(
    block: ProjectedSpikes, edge: DysonEdge, at: ProjectedState, start: float | None, kappa: float
) -> LowestPairs:
    """Draws of the lowest pair; `at` the state at the edge, `start` the lowest outlier or None, units of the equation."""
    clear = edge.value - _CLEAR / kappa
    z = clear if start is None else min(start, clear)
    state = block.dyson.state_at(z)
    assert isinstance(state, ProjectedState)
    rise = float(at.coordinates(at.inverse_q) @ at.coordinates(edge.null)) / at.each
    coupled = block.gram(at, edge.null) / rise
    slope_z = newton_step(state, state.z_slope(z), z)
    assert slope_z is not None
    xi, falling = block.xi(state), block.gram(state, state.matrix(slope_z))  # Xi, -Xi'
    levels = edge.value + airy_levels(DRAWS, min(LEVELS, _levels(block))) / kappa
    gaps = z - levels.mean(axis=0)
    coupled = _within(coupled, falling / np.sum(1 / gaps**2))
    rest, metric = xi - coupled * np.sum(1 / gaps), np.eye(len(xi)) + falling - coupled * np.sum(1 / gaps**2)
    noise = _noise(block, state, z, xi, coupled, float(np.sum(1 / gaps**2)))
    return _drawn(rest + z * (metric - np.eye(len(xi))), metric, coupled, noise, levels)


def _levels(block: ProjectedSpikes) -> int:
    """Levels of the bulk."""
    return max(1, round(block.dyson.p / float(block.dyson.c[0])))


def _noise(
    block: ProjectedSpikes, state: ProjectedState, z: float, xi: Array, coupled: Array, kept: float
) -> Array:
    """N = S^{1/2} n'^{-1/2} (k p, k p), with what the kept levels scatter taken off: W = N G N."""
    x = np.linalg.eigh(xi)[1][:, :1]
    sigma = block.slope(state, x.T.reshape(1, -1, block.dyson.p))
    answer = newton_step(state, sigma, z)
    assert answer is not None
    square = float(sigma @ answer)
    if square <= 0:
        return np.zeros_like(xi)
    own = (x.T @ coupled @ x).item() ** 2 * kept / state.each
    scatter = block.gram(state, state.matrix(answer)) * np.sqrt(
        max(1 - own / square, 0) / square * state.each
    )
    return _root(scatter)


def _within(matrix: Array, bound: Array) -> Array:
    """The matrix, cut down where it exceeds the bound: couplings of a direction that one extreme sample carries grow next
    to the edge as those of no other, and must not give more of -Xi' than there is."""
    root = _root(bound) + 1e-12 * np.trace(bound) * np.eye(len(bound))
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ matrix @ inverse)
    half = root @ vectors
    return (half * np.clip(values, 0, 1)) @ half.T


def _drawn(matrix: Array, metric: Array, coupled: Array, noise: Array, levels: Array) -> LowestPairs:
    """Lowest pairs of [[matrix + W, b], [b', mu]] in the metric diag(metric, 1)."""
    rng, (draws, kept), d = np.random.default_rng(_SEED), levels.shape, len(matrix)
    lower = np.linalg.cholesky(metric)
    into = solve_triangular(lower, np.eye(d), lower=True)
    raw = rng.standard_normal((draws, d, d))
    small = np.zeros((draws, d + kept, d + kept))
    turned, couplings = into @ noise, into @ _root(coupled)
    goe = (raw + raw.transpose(0, 2, 1)) / np.sqrt(2)
    small[:, :d, :d] = into @ matrix @ into.T + turned @ goe @ turned.T
    small[:, :d, d:] = couplings @ rng.standard_normal((draws, d, kept))
    small[:, d:, :d] = small[:, :d, d:].transpose(0, 2, 1)
    small[:, range(d, d + kept), range(d, d + kept)] = levels
    values, vectors = np.linalg.eigh(small)
    return LowestPairs(values[:, 0], vectors[:, :d, 0] @ into)


def _root(matrix: Array) -> Array:
    """The root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
