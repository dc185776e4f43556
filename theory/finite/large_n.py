"""Preactivations of a very large sample: extreme data points drawn one by one, and others that stand for all the rest.

At N = 1e8 the edge and outliers of a draw depend on a single data point only if it comes close to ending the branch of
t = -2 g / p. One with preactivations (lam, u) has its pole at t = (a + y) / (y - c yhat), with c = 3 for p = 1 and 1 otherwise.
The approximation, for the first M = alpha N data points of a draw:

* Extreme data points, those with a pole below 1 + delta_cut (about EXTREMES of them at alpha_BBP), are drawn exactly. Their
  number is Poisson (binomial with EXTREMES << M). yhat comes by rejection from an exponentially tilted gamma law, y from the
  tail of its chi-square law, and the direction of lam is uniform.
* The sum over all others is Gaussian, with M times the mean and the covariance of one data point. REST data points are drawn
  from that law. With s = sqrt(REST / M) each of them has the weight s M / REST, and nodes of the mean have 1 - s of the weight.
  So every sum has the mean and the variance it has over all data points: that of Phi, of y Phi, and of v v^T (x) Phi for the
  projections v on any direction. The nodes have no projections of their own, only their mean, v v^T -> y I on the teacher and I
  on all else: Gauss-Legendre in yhat and y.

The draws of one seed are the same along alpha up to 2 alpha_BBP, and from octave to octave beyond.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammainccinv, gammaln

from theory.exact import committee_preactivations
from theory.finite.edge import pole_probability
from theory.general.spectrum import threshold
from theory.model.network import Network

Array = NDArray[np.float64]

EXTREMES, REST = 500, 1000  # extreme data points at alpha_BBP, and those that stand for all others
STORED = 4 * (EXTREMES + REST)  # data points of a draw in memory, at the most
WIDEST = 8  # p beyond which the law draws every data point at any N
_NODES = 36  # Gauss-Legendre nodes in yhat and in y
_REACH = 9.0  # of the chi laws beyond their mean: exp(-40)


class SplitLaw:
    """The law of one data point's preactivations, split at the pole 1 + delta: of `samples`, `extremes` are expected below it.

    rest            how many data points stand for the fluctuation of all others
    nodes (3, k)    yhat, y and probability of those that are not extreme;  mass  their whole probability
    """

    def __init__(self, model: Network, samples: float, extremes: int, rest: int):
        from scipy.optimize import brentq

        self.model, self.samples, self.rest = model, samples, rest
        self.p = int(model.p)
        self.c = 3 if self.p == 1 else 1
        # Few enough for the tail beyond the cut to be a tail.
        rate = min(extremes / samples, 0.1)

        def excess(v: float) -> float:
            # In logarithms of both: P falls like exp(-p_star a / (2 delta)).
            return np.log(pole_probability(model, np.exp(v)) + 1e-300) - np.log(rate)

        scale = np.log(model.a)  # delta is of order a / log(samples)
        self.delta = float(np.exp(brentq(excess, min(scale, 0.0) - 9, max(scale, 0.0) + 20)))
        yhat, one = _chi_square(self.p, np.array([np.inf]))
        y, two = _chi_square(model.p_star, self.cut(yhat[0]))
        share = (one[0][:, None] * two).ravel()
        # Less than rounding of the whole probability, 1.
        self.nodes = np.array([np.repeat(yhat[0], _NODES), y.ravel(), share])[:, share > 1e-18]
        self.mass = float(self.nodes[2].sum())

    def cut(self, yhat: Array) -> Array:
        """The y above which a data point counts as extreme."""
        return (self.model.a + self.c * (1 + self.delta) * yhat) / self.delta

    def extreme(self, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """lam (k, p), y (k,) and arrival in (0, 1) of the extreme ones among the data points of one sample."""
        # Poisson in place of binomial: extremes are rare among the samples.
        number = rng.poisson(self.samples * pole_probability(self.model, self.delta))
        half, start = self.model.p_star / 2, float(self.cut(np.zeros(1))[0])
        tail = gammaincc(half, half * start)
        # log P(y > start + x) falls at least at this rate: the hazard of a chi-square law is monotone, with
        # limit p_star / 2.
        density = np.exp(half * np.log(half) + (half - 1) * np.log(start) - half * start - gammaln(half))
        hazard = min(half, float(density / tail))
        slope = self.c * (1 + self.delta) / self.delta
        yhat = np.empty(0)
        while len(yhat) < number:
            # Rejection: with the tail bounded by exp(-hazard x) the ratio is at most 1.
            trial = rng.gamma(self.p / 2, 1 / (self.p / 2 + hazard * slope), size=number + 100)
            ratio = gammaincc(half, half * (start + slope * trial)) / tail * np.exp(hazard * slope * trial)
            yhat = np.append(yhat, trial[rng.random(len(trial)) < ratio])
        yhat = yhat[:number]
        y = gammainccinv(half, gammaincc(half, half * self.cut(yhat)) * (1 - rng.random(number))) / half
        # The weight depends on |lam| alone: its direction is free.
        direction = rng.standard_normal((number, self.p))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return np.sqrt(self.p * yhat)[:, None] * direction, y, rng.random(number)

    def others(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """lam (k, p) and y (k,) of `rest` data points that are not extreme."""
        lam, u = committee_preactivations(self.model, 2 * self.rest, rng)
        y = np.mean(u**2, axis=1)
        # Twice as many are drawn as are wanted: most are not extreme.
        keep = np.flatnonzero(y <= self.cut(np.mean(lam**2, axis=1)))[: self.rest]
        return lam[keep], y[keep]

    def draw(self, rng: np.random.Generator, m: int) -> tuple[Array, Array]:
        """Preactivations (k, p + p_star) of the data points drawn for one draw of m, and how many each stands for."""
        lam, y, arrival = self.extreme(rng)
        here, (rest_lam, rest_y) = arrival * self.samples <= m, self.others(rng)
        kept = min(self.rest, round(m * self.mass))
        lam, y = np.concatenate([lam, rest_lam[:kept]]), np.concatenate([y, rest_y[:kept]])
        # s M / REST with s = (REST / M)^(1/2), M here the samples that are not extreme
        weight = np.full(len(y), math.sqrt(kept * m * self.mass) / kept)
        weight[: len(here)] = 1
        direction = rng.standard_normal((len(y), self.model.p_star))
        u = direction * np.sqrt(self.model.p_star * y / np.sum(direction**2, axis=1))[:, None]
        chosen = np.append(np.flatnonzero(here), np.arange(len(here), len(y)))
        return np.hstack([lam, u])[chosen], weight[chosen]


def representatives(
    model: Network, m: int, n: int, chosen: range, seed: int
) -> tuple[Array, Array, Array, float]:
    """The few data points that stand for the m of the draws `chosen` in dimension n.

    Preactivations (q, k, p + p_star) of orthogonal students and teacher; how many data points each stands for (q, k); nodes (3,
    k') with yhat, y and weight of the mean of the others, k' = 0 where there are none; how many are not extreme in the mean.
    """
    octave = max(1, math.ceil(math.log2(m / (threshold(model).alpha * n))))
    tail, p = _tail(model, n, octave), int(model.p)
    draws = [tail.draw(np.random.default_rng([seed, number, 4, octave]), m) for number in chosen]
    most = max(len(weight) for _, weight in draws)
    normals, weights = np.ones((len(draws), most, p + model.p_star)), np.zeros((len(draws), most))
    normals[..., p:] = 0  # places left empty: a weight F above 0 that counts for nothing
    for i, (own, weight) in enumerate(draws):
        normals[i, : len(own)], weights[i, : len(own)] = own, weight
    nodes = np.array(tail.nodes)
    # the 1 - s of the mean
    nodes[2] *= (1 - math.sqrt(min(tail.rest / (m * tail.mass), 1.0))) * m
    return normals, weights, nodes if nodes[2].any() else nodes[:, :0], m * tail.mass


@lru_cache(maxsize=16)
def _tail(model: Network, n: int, octave: int) -> SplitLaw:
    return SplitLaw(model, threshold(model).alpha * n * 2.0**octave, EXTREMES * 2**octave, REST)


def _chi_square(k: int, ends: Array) -> tuple[Array, Array]:
    """Law of y ~ chi^2_k / k on (0, ends): nodes and probabilities (len(ends), nodes), clustered near 0."""
    x, w = np.polynomial.legendre.leggauss(_NODES)
    end = np.minimum(np.sqrt(k * ends), np.sqrt(k) + _REACH)[:, None]
    # r = (k y)^(1/2) has a smooth density; its nodes go like x^2, to be dense near 0 where the weight varies most.
    x = (1 + x) / 2
    r = end * x**2
    log_density = (k - 1) * np.log(r) - r**2 / 2 - (k / 2 - 1) * np.log(2) - gammaln(k / 2)
    # dr = 2 end x dx, and w is for an interval of length 2
    return r**2 / k, end * w * x * np.exp(log_density)
