"""The typical draw at finite N, without drawing: edge and BBP threshold with the walk of t = -2 g / p ended by one label.

At a smooth edge the N = inf walk of t stops at 1, where 1 - g f vanishes for y = inf. M samples end it later,
at the smallest of the M poles t = (a + y) / (y - c yhat) (c = 3 for p = 1, else 1), which is 1 + delta with

    P(smallest > 1 + delta) = exp(-M P(delta)),       P(delta) = P( delta y > a + c (1 + delta) yhat );

delta = a p_star / (2 log M) to leading order. Up to there z(t) continues as a principal value: poles on
either side of t that are O(1/log M) apart leave errors of O(log M / N). Only the smallest one has to be seen
by itself. It repels,

    edge(N) = max over t < 1 + delta of   z_pv(t) - r / (N (1 + delta - t)),       r = 1 for p = 1, else (p-1)/p,

that is, z_pv(1 + delta) - 2 (r z' / N)^(1/2), and the mean over draws is one over delta. At a sharp edge the
maximum is at t < 1 and nothing changes. So a smooth edge moves to the right by z'(1) delta = O(1 / log N),
and the outlier condition is met on the continued branch: alpha_BBP(N) leaves alpha_BBP only as slowly. Where
the continued branch has a sharp edge of its own, at a t not far above 1, alpha_BBP(N) stays there, at the
alpha_0 of theory.exact.transition's continuation, until log N is of the order of a p_star / (2 (t - 1)).

Derived here; compared with quenched draws in the tests at N = 1e8. Below N of about 1e6 the threshold it gives is low
(figures at `alpha_bbp_typical`); the edge is better. For p > 1, where the trace of the matrix equation is used, errors are
larger than for p = 1 (theory.finite.extreme_labels).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincc

from theory.checks import NotConverged, count, numpy_defaults, one, positive, ratio
from theory.exact.averages import Widths, average, continued, kernel_k, kernel_u
from theory.exact.bulk import unit
from theory.exact.committee import chi_square_law, finite_committee
from theory.exact.transition import bbp_threshold
from theory.model.network import Network

Array = NDArray[np.floating[Any]]

_QUANTILES = 24  # of the smallest pole
_GRID = 200
_NEAREST = 1e-3  # t at which the tabulated walk starts
_FARTHEST = 6.0  # t beyond which no walk is followed


@numpy_defaults
def typical_edge(model: Network, alpha: float, n: int) -> float:
    """Mean over draws of labels of the quenched left edge in dimension n, either kind of edge, by the formula above.

    Tends to bulk_edge(model, alpha).value: like 1/log n where that is smooth. Units of the Hessian. Raises
    ParameterError on bad arguments or p = inf.

    >>> round(float(typical_edge(Network(1, 1, 1.0), 0.8, 400)), 4)
    -1.9753
    """
    alpha, n = one("alpha", ratio("alpha", alpha)), count("n", n, 2)
    return float(np.mean(_walk(finite_committee(model)).ends(alpha, n)[0]))


@numpy_defaults
def alpha_bbp_typical(model: Network, n: ArrayLike) -> Any:
    """BBP threshold in dimension n (a number or an array) by the formula above: where the typical mean margin is 0.

    The counterpart of alpha_bbp_finite for large n, without draws and without a limit on n (1e200 is as good as 1e8). It
    is asymptotic, and low where n is not large: for p = 1, a = 2 it gives 0.83, 1.09, 1.17 at n = 1e3, 1e4, 1e5, where draws
    give 1.09, 1.13, 1.20, and agrees from 1e6 on; for p = 2, a = 1.5 it is 0.09 low at 1e4 and 0.02 at 1e6. Raises
    ParameterError on bad arguments or p = inf, NotConverged where there is none between 0.1 and 4 times the N
    = inf threshold.

    >>> round(alpha_bbp_typical(Network(2, 1, 1.0), 400), 4)
    0.8355
    """
    from scipy.optimize import brentq

    finite_committee(model)
    if np.ndim(n):
        values = np.asarray(n)
        return np.reshape([alpha_bbp_typical(model, v) for v in values.ravel()], values.shape)
    size, walk = count("n", n, 10), _walk(model)
    centre = bbp_threshold(model).alpha

    def margin(alpha: float) -> float:
        return float(np.mean(walk.ends(alpha, size)[1]))

    low, high = 0.1 * centre, 4 * centre
    if not margin(low) < 0 < margin(high):
        raise NotConverged(f"no typical threshold found for n = {size}", centre)
    return float(brentq(margin, low, high, xtol=1e-8 * centre))


class _Walk:
    """z and margin along the walk of one model, tabulated once for every alpha and n."""

    def __init__(self, model: Network):
        from scipy.interpolate import CubicSpline, PchipInterpolator

        self.model, self.p = model, int(model.p)
        self.c = 3 if self.p == 1 else 1
        below = np.append(
            np.geomspace(_NEAREST, 0.5, _GRID, endpoint=False), 1 - np.geomspace(0.5, 1e-4, _GRID)
        )
        above = 1 + np.geomspace(1e-4, _FARTHEST - 1, _GRID)
        rows = []
        for route, t in ((average, below), (continued, above)):
            models = Widths.of(model.p, model.p_star, model.a).broadcast(t.shape)
            rows.append(route([kernel_k, kernel_u], models, t, 1 - t))
        self.table = CubicSpline(np.append(below, above), np.hstack(rows), axis=1)
        self.slope = self.table.derivative()
        # log P(delta) from the far side of anything an n can reach; below it a draw has no such pole.
        delta = np.geomspace(model.a / 3000, _FARTHEST - 1, 2 * _GRID)
        with np.errstate(divide="ignore"):
            log_p = np.log(pole_probability(model, delta))
        seen = np.isfinite(log_p)
        self.inverse = PchipInterpolator(log_p[seen], np.log(delta[seen]))
        self.reach = float(log_p[-1])

    def ends(self, alpha: float, n: int) -> tuple[Array, Array]:
        """Edge and margin of equally likely smallest poles (quantiles,), units of the Hessian."""
        delta = self.deltas(round(alpha * n))
        share = (1.0 if self.p == 1 else (self.p - 1) / self.p) / n
        t = self._maximum(alpha, share, delta)
        push = share / (1 + delta - t)
        k, u = self.table(t)
        yhat = self.p / (self.p + self.model.p_star * self.c * (1 + delta) / delta)  # its mean at that pole
        y = (self.model.a + self.c * (1 + delta) * yhat) / delta
        edge = -1 / t + alpha * k - push
        return unit(self.model) * edge, unit(self.model) * ((alpha * u - 1) / t + (y - 1) * push)

    def deltas(self, m: int) -> Array:
        """Quantiles of the smallest pole, less 1, of m labels; the end of the table where it is beyond."""
        log_level = np.log(-np.log((np.arange(_QUANTILES) + 0.5) / _QUANTILES)) - math.log(max(m, 1))
        return np.exp(self.inverse(np.minimum(log_level, self.reach)))

    def _maximum(self, alpha: float, share: float, delta: Array) -> Array:
        """The first t (quantiles,) from 0 up at which dz/dt, the pole's repulsion included, vanishes."""
        near = np.geomspace(_NEAREST, 0.5, 50)
        far = np.geomspace(1, 1e-15, 300)[1:]
        t = np.concatenate(
            [
                np.broadcast_to(near, (len(delta), len(near))),
                1 + delta[:, None] - (delta[:, None] + 0.5) * far,
            ],
            1,
        )
        falls = self._rise(alpha, share, delta[:, None], t) <= 0
        falls[:, -1] = True
        first = np.argmax(falls, axis=1)
        if np.any(first == 0):
            raise NotConverged("no edge on the tabulated walk", _NEAREST)
        rows = np.arange(len(delta))
        low, high = t[rows, first - 1], t[rows, first]
        for _ in range(60):
            middle = (low + high) / 2
            up = self._rise(alpha, share, delta, middle) > 0
            low, high = np.where(up, middle, low), np.where(up, high, middle)
        return low

    def _rise(self, alpha: float, share: float, delta: Array, t: Array) -> Array:
        """dz/dt of the continued walk with one pole at 1 + delta."""
        with np.errstate(divide="ignore"):
            return 1 / t**2 + alpha * self.slope(t)[0] - share / (1 + delta - t) ** 2


@lru_cache(maxsize=64)
def _walk(model: Network) -> _Walk:
    return _Walk(model)


@numpy_defaults
def pole_probability(model: Network, delta: ArrayLike) -> Any:
    """P(delta y > a + c (1 + delta) yhat): the probability that one label has its pole below 1 + delta, any
    shape. Raises ParameterError unless delta is positive, and for p = inf.

    >>> round(float(pole_probability(Network(1, 1, 1.0), 0.5)), 6)
    0.045054
    """
    p, delta = int(finite_committee(model).p), positive("delta", delta)
    yhat, probability = chi_square_law(p)
    c = 3 if p == 1 else 1
    delta = np.asarray(delta, dtype=np.float64)[..., None]
    needed = (model.a + c * (1 + delta) * yhat) / delta
    return gammaincc(model.p_star / 2, model.p_star / 2 * needed) @ probability
