"""Finite N at the left edge, in closed form: Tracy-Widom scale, fluctuation of the quenched edge, and the 1/log N law.

Sharp edge. Two independent sources move the lowest bulk eigenvalue. The preactivations of the draw, its quenched disorder, move
the edge itself, by O(N^{-1/2}). About that edge the eigenvalue fluctuates by O(N^{-2/3}), as -TW1 / kappa.

* kappa. Near a sharp edge z = z_e - |z''| (g - g_e)^2 / 2, so the density per dimension is sqrt(2 x / |z''|)
  / pi at a distance x inside, and pN times its integral counts (2 / 3 pi) (kappa x)^{3/2} eigenvalues with

      kappa = (pN)^{2/3} (2 / |z''|)^{1/3};

  in the Airy process the count to depth s is (2 / 3 pi) s^{3/2}: kappa x is the variable of Tracy and Widom.
  The law's soft end points outwards, hence lambda_min = edge - TW1 / kappa. (The tests recover Johnstone's
  scale of a white Wishart matrix and N^{2/3} for a unit semicircle.)
* Disorder. The edge is the maximum over g of z(g), so to first order it moves by the change of z at fixed g =
  g_e. With z = 1/g + (1/N) sum_mu k_mu, k = ((p-1)/p) phi_1 + (1/p) phi_2, and M = alpha N fixed,

      Var(edge) = (alpha / N) Var[k(g_e)].

  For p > 1 the edge is that of a matrix equation, G = g I + O(N^{-1/2}). To first order it moves by <E, dZ> / <E, I> with E
  the null vector of the linearised equation; at N = inf the law of the weights is invariant under rotations of the p
  blocks, so E = I and the trace form above is exact. The traceless part enters at O(1/N).

Smooth edge, where there is no Tracy-Widom law. At N = inf t = -2 g / p grows from 0 along the branch and stops at 1, where 1 -
g f vanishes for y = inf. M samples end it later, at the smallest of the M poles t = (a + y) / (y - c yhat) (c = 3 for p = 1,
else 1), which is 1 + delta with

    P(smallest > 1 + delta) = exp(-M P(delta)),       P(delta) = P( delta y > a + c (1 + delta) yhat );

delta = a p_star / (2 log M) to leading order. Up to there z(t) continues as a principal value: poles on
either side of t that are O(1/log M) apart leave errors of O(log M / N). Only the smallest one has a term of its
own, a repulsion:

    edge(N) = max over t < 1 + delta of   z_pv(t) - r / (N (1 + delta - t)),       r = 1 for p = 1, else (p-1)/p,

that is, z_pv(1 + delta) - 2 (r z' / N)^(1/2), and the mean over draws is one over delta (`typical_edge`). At a sharp edge the
maximum is at t < 1 and nothing changes. So a smooth edge moves to the right by z'(1) delta = O(1 / log N),
and the outlier condition is met on the continued branch: alpha_BBP(N) leaves alpha_BBP only as slowly. Where
the continued branch has a sharp edge of its own, at a t not far above 1, alpha_BBP(N) stays there, at the
alpha_0 of `alpha_zero`'s continuation, until log N is of the order of a p_star / (2 (t - 1)).
Derived here; compared with quenched draws in the tests. Below N of about 1e6 the threshold it gives is low
(figures at `alpha_bbp_typical`); the edge is better. For p > 1, where the trace of the matrix equation is used, errors are
larger than for p = 1.

Overlap exactly at a sharp threshold as N grows: q2 ~ C N^{-1/3}. Derived here from theory.finite.small_matrix, units of (p/2)
H. At alpha_BBP the signal block vanishes at the edge: z_e = alpha S(t_e). Next to the edge eigenvalues are z_e + l y, y of the
Airy process, with l = (pN)^{-2/3} (|z''|/2)^{1/3}, and couple to each signal direction with mean square b^2 = -alpha S'(t_e) /
(pN). So the sum over eigenvalues is of order b^2 / l ~ N^{-1/3}, while z - z_e is of order N^{-2/3} and preactivations and
noise move the block by N^{-1/2}: both drop out, and what is left at leading order,

    sum_i g_i g_i^T / (y - y_i), less its mean, singular      g_i (d,) standard normal, d = p p_star,

has no parameter but d: the spiked GOE at its critical spike. An eigenvector there has q2 = l^2 / (b^2 sum (g . x)^2 /
(y - y_i)^2), x its unit direction among the d. Averaged over draws and over the d lowest,

    q2 = c_d (pN)^{-1/3} (|z''(t_e)| / 2)^{2/3} / |alpha S'(t_e)|.

c_d is that of a GOE of order n with d rows shifted to the critical spike, where both factors are 1: the limit of n^{1/3}
E[q2], measured at n = 100 and 300, between which it moves by less than its error. Corrections fall slowly, like N^{-1/6}
(preactivations against couplings). At a smooth edge, where the threshold is discontinuous, there is no such law.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincc

from theory.answers import Prediction
from theory.checks import NotConverged, ParameterError, count, finite, numpy_defaults, one, positive, ratio
from theory.exact import finite_committee
from theory.exact.averages import Widths, average, continued, kernel_k, kernel_u, kernel_v
from theory.exact.bulk import edge_resolvent, unit, z_of_g
from theory.finite.tracy_widom import MEAN, VARIANCE, tracy_widom_scale
from theory.general.quadrature import chi_square_law
from theory.general.spectrum import solve, threshold
from theory.model.network import Network

Array = NDArray[np.floating[Any]]

_QUANTILES = 24  # equally likely values of delta, whose mean is that over draws
_GRID = 200  # nodes of each stretch of the tabulated walk
_NEAREST = 1e-3  # t at which the tabulated walk starts
_FARTHEST = 6.0  # t beyond which no walk is followed


@numpy_defaults
def finite_edge(model: Network, alpha: float, n: int) -> Prediction:
    """Mean and scatter of the lowest bulk eigenvalue in dimension n at alpha = M/n; formulas in the module docstring.

    Left out: O(1/n) in the mean at sharp edges, O(n^{-1/2}) at smooth ones. Where an outlier exists it is the lowest
    eigenvalue instead (theory.finite.quenched).

    Parameters
    ----------
    model : Network
        A quadratic committee of finite p.
    alpha : float
        M/N.
    n : int
        Input dimension N.

    Returns
    -------
    Prediction
        `edge` is that of N = inf, `edge_error` the scatter of the quenched edge over draws of preactivations, to O(N^{-1/2}),
        `scale` that of Tracy and Widom's law about it. Where the edge is smooth `lowest` is the mean of the quenched edge
        (`typical_edge`) and `lowest_error` the scatter of that alone.

    Raises
    ------
    ParameterError
        On bad arguments or p = inf.

    >>> found = finite_edge(Network(1, 1, 0.5), 0.8, 400)
    >>> found.kind, round(found.lowest, 4), round(found.lowest_error, 4)
    ('sharp', -2.0758, 0.1327)
    """
    model, n, alpha = finite_committee(model), count("n", n), one("alpha", ratio("alpha", alpha))
    edge = solve(model, alpha).bulk
    # M = alpha n independent terms, each over n
    edge_std = math.sqrt(alpha / n * kernel_variance(model, edge_resolvent(model, alpha)))
    if edge.kind == "smooth":
        mean, std, scale = typical_edge(model, alpha, n), edge_std, math.nan
    else:
        curvature = z_of_g(model, alpha, edge_resolvent(model, alpha), derivative=2)
        scale = tracy_widom_scale(float(model.p) * n, curvature)
        # Preactivations and the Gaussian rest of the inputs are independent: variances add.
        mean, std = edge.value - MEAN / scale, math.hypot(edge_std, math.sqrt(VARIANCE) / scale)
    return Prediction(edge.value, scale, lowest=mean, lowest_error=std, kind=edge.kind, edge_error=edge_std)


@numpy_defaults
def kernel_variance(model: Network, g: float) -> float:
    """Var of k(g) = ((p-1)/p) phi_1 + (1/p) phi_2 over the preactivations of one sample, in units of the Hessian squared.

    Raises ParameterError unless -p/2 <= g < 0, and for p = inf.

    >>> round(kernel_variance(Network(1, 1, 0.5), -0.3), 6)
    3.288035
    """
    p, g = int(finite_committee(model).p), one("g", finite("g", g))
    if not -p / 2 <= g < 0:
        raise ParameterError(f"g must lie in [{-p / 2}, 0), got {g!r}")
    yhat, y, probability = output_law(p, model.p_star)
    # In units of (p/2) H, where phi = f / (1 + t f) has no p but in t.
    t, low, high = -2 * g / p, (yhat - y) / (model.a + y), (3 * yhat - y) / (model.a + y)
    k = ((p - 1) * low / (1 + t * low) + high / (1 + t * high)) / p
    mean = np.sum(probability * k)
    return float((2 / p) ** 2 * np.sum(probability * (k - mean) ** 2))


def output_law(p: int, p_star: int) -> tuple[Array, Array, Array]:
    """The law of the outputs of student and teacher on one sample: nodes yhat, y (n,) and probabilities (n,)."""
    (yhat, one), (y, two) = chi_square_law(p), chi_square_law(p_star)
    pairs = [v.ravel() for v in np.meshgrid(yhat, y, indexing="ij")]
    return pairs[0], pairs[1], np.outer(one, two).ravel()


AMPLITUDES = (0.80, 1.02, 1.18, 1.30, 1.41, 1.50, 1.59, 1.67)  # c_d, d = 1 ... 8, each to 0.01


def critical_amplitude(model: Network) -> float:
    """C of q2 ~ C N^{-1/3}, the mean over draws and over the p p_star lowest vectors at alpha_BBP.

    Parameters
    ----------
    model : Network
        A quadratic committee of finite p, its transition continuous, p p_star at most 8.

    Returns
    -------
    float

    Raises
    ------
    ParameterError
        On any other model.

    >>> round(critical_amplitude(Network(1, 1, 0.5)), 2)
    0.51
    """
    model = finite_committee(model)
    p, d, found = int(model.p), int(model.degeneracy), threshold(model)
    if found.kind != "continuous":
        raise ParameterError(
            f"the transition must be continuous for a law at a sharp edge, got a {found.kind} one"
        )
    if d > len(AMPLITUDES):
        raise ParameterError(f"p p_star must be at most {len(AMPLITUDES)}, got {d}")
    g = edge_resolvent(model, found.alpha)
    curvature = abs(float(z_of_g(model, found.alpha, g, derivative=2)))
    # In g and H as written: z''^(2/3) / S' has the same value in both units. S' = E[y phi^2] = V / g^2.
    t = np.array([-2 * g / p])
    slope = (
        found.alpha * average([kernel_v], Widths.of([p], model.p_star, model.a), t, 1 - t)[0].item() / g**2
    )
    # N^(1/3) (pN)^(-1/3) leaves p^(-1/3).
    return float(AMPLITUDES[d - 1] * (curvature / 2) ** (2 / 3) / slope / p ** (1 / 3))


@numpy_defaults
def typical_edge(model: Network, alpha: float, n: int) -> float:
    """Mean over draws of the quenched left edge in dimension n, sharp or smooth, by the formula above.

    Tends to `theory.edge` as n grows: like 1/log n where that is smooth.

    Parameters
    ----------
    model : Network
        A quadratic committee of finite p.
    alpha : float
        M/N.
    n : int
        Input dimension N, at least 2.

    Returns
    -------
    float
        In units of the Hessian.

    Raises
    ------
    ParameterError
        On bad arguments or p = inf.

    >>> round(float(typical_edge(Network(1, 1, 1.0), 0.8, 400)), 4)
    -1.9753
    """
    alpha, n = one("alpha", ratio("alpha", alpha)), count("n", n, 2)
    return float(np.mean(_walk(finite_committee(model)).ends(alpha, n)[0]))


@numpy_defaults
def alpha_bbp_typical(model: Network, n: ArrayLike) -> Any:
    """BBP threshold in dimension n (a number or an array) by the formula above: where the typical mean margin is 0.

    The counterpart of `theory.finite.threshold` for large n, without draws and a limit on n (1e200 is as good as 1e8). It
    is asymptotic, and low where n is not large: for p = 1, a = 2 it gives 0.83, 1.09, 1.17 at n = 1e3, 1e4, 1e5, where draws
    give 1.09, 1.13, 1.20, and agrees from 1e6 on; for p = 2, a = 1.5 it is 0.09 low at 1e4 and 0.02 at 1e6.

    Parameters
    ----------
    model : Network
        A quadratic committee of finite p.
    n : int, or an array
        Input dimension N, at least 10.

    Returns
    -------
    float, or an array of the shape of n

    Raises
    ------
    ParameterError
        On bad arguments or p = inf.
    NotConverged
        Where there is none between 0.1 and 4 times the threshold at N = infinity.

    >>> round(alpha_bbp_typical(Network(2, 1, 1.0), 400), 4)
    0.8355
    """
    from scipy.optimize import brentq

    finite_committee(model)
    if np.ndim(n):
        values = np.asarray(n)
        return np.reshape([alpha_bbp_typical(model, v) for v in values.ravel()], values.shape)
    size, walk = count("n", n, 10), _walk(model)
    centre = threshold(model).alpha

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
        # The branch whose weights come nearest -1: f_1, which p = 1 lacks.
        self.c = 3 if self.p == 1 else 1
        # Dense on both sides of t = 1, where the walk of a smooth edge ends at N = infinity.
        below = np.append(
            np.geomspace(_NEAREST, 0.5, _GRID, endpoint=False), 1 - np.geomspace(0.5, 1e-4, _GRID)
        )
        above = 1 + np.geomspace(1e-4, _FARTHEST - 1, _GRID)
        rows = []
        # Beyond t = 1 poles lie on the axis: principal values.
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
        # Monotone between nodes, as a distribution function has to be.
        self.inverse = PchipInterpolator(log_p[seen], np.log(delta[seen]))
        self.reach = float(log_p[-1])

    def ends(self, alpha: float, n: int) -> tuple[Array, Array]:
        """Edge and margin of equally likely smallest poles (quantiles,), units of the Hessian."""
        delta = self.deltas(round(alpha * n))
        # r / N: the pole belongs to f_1, p - 1 of p directions, or to f_2 alone at p = 1.
        share = (1.0 if self.p == 1 else (self.p - 1) / self.p) / n
        t = self._maximum(alpha, share, delta)
        push = share / (1 + delta - t)
        k, u = self.table(t)
        # Along the line y(yhat) of the pole exp(-p_star y / 2) makes yhat a gamma variable.
        yhat = self.p / (self.p + self.model.p_star * self.c * (1 + delta) / delta)  # its mean at that pole
        y = (self.model.a + self.c * (1 + delta) * yhat) / delta
        edge = -1 / t + alpha * k - push
        # z - alpha S with K - S = U / t; in S the pole's own term carries its y.
        return unit(self.model) * edge, unit(self.model) * ((alpha * u - 1) / t + (y - 1) * push)

    def deltas(self, m: int) -> Array:
        """Quantiles of the smallest pole, less 1, of m data points; the end of the table where it is beyond."""
        # exp(-m P(delta)) = (i + 1/2) / _QUANTILES, solved for log P
        log_level = np.log(-np.log((np.arange(_QUANTILES) + 0.5) / _QUANTILES)) - math.log(max(m, 1))
        return np.exp(self.inverse(np.minimum(log_level, self.reach)))

    def _maximum(self, alpha: float, share: float, delta: Array) -> Array:
        """The first t (quantiles,) from 0 up at which dz/dt, the pole's repulsion included, vanishes."""
        # Logarithmic in the distance to the pole: the maximum lies O(N^(-1/2)) below it.
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
        # Next to the pole its repulsion wins, whatever rounding says.
        falls[:, -1] = True
        first = np.argmax(falls, axis=1)
        if np.any(first == 0):
            raise NotConverged("no edge on the tabulated walk", _NEAREST)
        rows = np.arange(len(delta))
        low, high = t[rows, first - 1], t[rows, first]
        # Bisection, not Newton: it stays at the first maximum though the continued z' may vanish again.
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
    """P(delta y > a + c (1 + delta) yhat): the probability that one sample has its pole below t = 1 + delta.

    Raises ParameterError unless delta is positive, and for p = inf.

    >>> round(float(pole_probability(Network(1, 1, 1.0), 0.5)), 6)
    0.045054
    """
    p, delta = int(finite_committee(model).p), positive("delta", delta)
    yhat, probability = chi_square_law(p)
    c = 3 if p == 1 else 1
    delta = np.asarray(delta, dtype=np.float64)[..., None]
    needed = (model.a + c * (1 + delta) * yhat) / delta
    return gammaincc(model.p_star / 2, model.p_star / 2 * needed) @ probability
