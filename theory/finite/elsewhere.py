"""Whether a vector that the small matrix leaves out holds a larger overlap with the signal than those it tells of.

There are many of them: at p = 1, a = 2, alpha = 0.85, N = 100 some 70, each with a mean of 0.01 or less, and one in 25 samples
has one above 0.1 among them; below alpha = 1 the vectors of eigenvalue 0, of which any basis is as good as another, are most.
Their means at N = infinity are known, (p_star / N) rho_s / rho at an energy (theory.exact.density.signal)
and what is left of the
signal's mass for those at 0. About its mean the overlap of one vector follows Porter and Thomas: a chi-square law of p p_star
squares, independent of the others'. So the number of them above x is Poisson, of mean

    n(x) = sum over the levels left out of P(chi^2_d > d x / mean),      d = p p_star.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from theory.exact.bulk import bulk_edge
from theory.exact.density.density import atom, bulk_resolvent
from theory.exact.density.weight_law import signal_law
from theory.exact.outliers import outlier
from theory.model.network import Network

Array = NDArray[np.float64]

_NEAR, _FAR = 48, 24  # nodes next to the left edge, and from there on
_REACH = 1e3  # of the edge's own energy


def none_above(model: Network, alpha: float, n: int, told: Array, x: Array) -> Array:
    """Probability (q,) that no vector but the `told` (q,) lowest has an overlap above x (q,) with the signal.

    >>> model = Network(1, 1, 2.0)
    >>> none_above(model, 0.85, 100, np.array([24.0, 24.0]), np.array([0.05, 0.2])).round(2)
    array([0.43, 1.  ])
    """
    d, order = int(model.degeneracy), int(model.p) * n
    levels, shares = signal_measure(model, alpha)
    below = np.maximum(levels[1:] * order - np.maximum(levels[:-1] * order, told[:, None]), 0)
    mean = np.diff(shares) / np.maximum(np.diff(levels), 1e-300) * d / order
    over = gammaincc(d / 2, d / 2 * np.maximum(x, 0)[:, None] / np.maximum(mean, 1e-300))
    return np.asarray(np.exp(-np.sum(below * over, axis=1)))


@lru_cache(maxsize=256)
def signal_measure(model: Network, alpha: float) -> tuple[Array, Array]:
    """Shares (k,) of all levels, and of the signal's mass in the bulk, below nodes of energy: both end at what there is.

    Those at 0, below alpha = 1, come last: whatever their place, it is not asked for.
    """
    edge, zeros = bulk_edge(model, alpha).value, float(atom(model, alpha))
    reach = abs(edge) + 1e-3
    if zeros > 0 and edge < 0:  # the levels on either side of 0
        low = edge * np.linspace(1, 0, _NEAR + 1)[1:-1] ** 2
        x = np.concatenate([edge + reach * np.linspace(0, 0.3, 12)[1:] ** 2, low])
        x = np.concatenate([np.unique(x), reach * np.geomspace(1e-3, _REACH, _FAR)])
    else:
        near = edge + reach * np.linspace(0, 1, _NEAR)[1:] ** 2
        x = np.concatenate([near, edge + reach * np.geomspace(1.1, _REACH, _FAR)])
    t, scale = bulk_resolvent(model, alpha, x)
    inside = t.imag > 0
    signal = np.zeros(len(x))
    signal[inside] = -(1 / (scale * x[inside] - alpha * signal_law(model).transform(t[inside])[0])).imag
    steps = np.diff(x, prepend=edge) * scale / math.pi

    def running(density: Array) -> Array:
        return np.concatenate(
            [[0.0], np.cumsum(steps * (density + np.concatenate([[0.0], density[:-1]])) / 2)]
        )

    levels, shares, found = running(np.where(inside, t.imag, 0)), running(signal), outlier(model, alpha)
    mass = 1 - (found.overlap if found else 0.0)
    levels *= min(1.0, (1 - zeros) / levels[-1])  # what trapezoids have too much
    shares *= min(1.0, mass / shares[-1])
    if zeros:
        return np.append(levels, levels[-1] + zeros), np.append(shares, mass)
    return levels, shares
