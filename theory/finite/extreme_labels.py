"""Labels of a very large sample: extreme ones drawn one by one, the rest by their mean and its Gaussian fluctuation.

At N = 1e8 the edge and outliers of a draw depend on single labels only through those that come close to
ending the walk of t = -2 g / p: label (lam, u) has its pole at t = (a + y) / (y - c yhat), with c = 3 for p =
1 and 1 otherwise. The approximation, for the first M = alpha N labels of a draw:

* Extreme labels, those with a pole below 1 + delta_cut (about K of them), are drawn exactly: their number is
  Poisson (binomial with K << M), yhat comes by rejection from a tilted gamma law, y from the tail of its
  chi-square law, the direction of lam is uniform. Each carries the coefficient 1/N.
* The sum over all others is Gaussian with the mean alpha E[...] and the covariance (alpha/N) Cov[...] of one
  label. With m labels drawn from that law (m = all of them where M <= m) and s = sqrt(m / M) it is written

      (1 - s) alpha E[...] + (s alpha / m) sum over the m labels,

  which has exactly these two moments for every function of a label at once and is again a sum with positive
  coefficients, so the equations of theory.general.dyson need no change. E[...] is a quadrature: Gauss-Legendre in
  yhat and y, and for p > 1 a cubature of degree 5 for the direction of lam (axes and diagonals of the cube:
  Stroud, Approximate Calculation of Multiple Integrals, 1971, U_n 5-4), which suffices because the block
  resolvent is close to g I.

The fluctuation has to be kept for p > 1. Its traceless part moves edge and margin by O(1/N) in the end, but
the linearised equation has a small gap there (0.09 at p = 2, a = 0.3 near its threshold), below which the
shift is O(N^{-1/2}): at N = 1e5 it still is the largest one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammainccinv, gammaln

from theory.checks import ParameterError
from theory.exact.committee import committee_labels, finite_committee
from theory.finite.typical import pole_probability
from theory.model.network import Network

Array = NDArray[np.floating[Any]]

_NODES = 36  # Gauss-Legendre nodes in yhat and in y
_REACH = 9.0  # of the chi laws beyond their mean: exp(-40)
WIDEST = 8  # the cubature has 2^(p-1) + p directions


@dataclass(frozen=True)
class Labels:
    """Labels with weights: lam (m, p), teacher outputs y (m,), and for each a share (m,)."""

    lam: Array
    y: Array
    share: Array


@dataclass(frozen=True)
class TailDraw:
    """One draw: extreme labels with their arrival in (0, 1) as `share`, and labels of the rest, all of one share."""

    extreme: Labels
    rest: Labels


class LabelTail:
    """The law of one label split at the pole 1 + delta, with `extremes` of `samples` labels expected below it.

    rest  how many labels stand for the fluctuation of all others. Raises ParameterError for p > 8.
    """

    def __init__(self, model: Network, samples: float, extremes: int, rest: int):
        from scipy.optimize import brentq

        if finite_committee(model).p > WIDEST:
            raise ParameterError(f"p must be at most {WIDEST} for extreme labels only, got {model.p}")
        self.model, self.samples, self.rest = model, samples, rest
        self.p = int(model.p)
        self.c = 3 if self.p == 1 else 1
        rate = min(extremes / samples, 0.1)

        def excess(v: float) -> float:
            return np.log(pole_probability(model, np.exp(v)) + 1e-300) - np.log(rate)

        scale = np.log(model.a)  # delta is of order a / log(samples)
        self.delta = float(np.exp(brentq(excess, min(scale, 0.0) - 9, max(scale, 0.0) + 20)))
        self.mean = self._quadrature()

    def cut(self, yhat: Array) -> Array:
        """The y above which a label counts as extreme."""
        return (self.model.a + self.c * (1 + self.delta) * yhat) / self.delta

    def _quadrature(self) -> Labels:
        """Nodes of the law of a label that is not extreme; shares add up to its probability."""
        yhat, one = _chi_square(self.p, np.array([np.inf]))
        y, two = _chi_square(self.model.p_star, self.cut(yhat[0]))
        directions, weights = _directions(self.p)
        radius = np.repeat(np.sqrt(self.p * yhat[0]), _NODES)
        lam = (radius[:, None, None] * directions).reshape(-1, self.p)
        pairs = (one[0][:, None] * two).ravel()
        share = (pairs[:, None] * weights).ravel()
        seen = pairs > 1e-18
        self.nodes = np.array([radius**2 / self.p, y.ravel(), pairs])[:, seen]  # yhat, y and their shares
        keep = share > 1e-18
        return Labels(lam[keep], np.repeat(y.ravel(), len(weights))[keep], share[keep])

    def draw(self, rng: np.random.Generator) -> TailDraw:
        """Labels of one sample of `samples` labels."""
        return TailDraw(self._extreme(rng), self._rest(rng))

    def _rest(self, rng: np.random.Generator) -> Labels:
        lam, u = committee_labels(self.model, 2 * self.rest, rng)
        y = np.mean(u**2, axis=1)
        keep = np.flatnonzero(y <= self.cut(np.mean(lam**2, axis=1)))[: self.rest]
        return Labels(lam[keep], y[keep], np.ones(len(keep)))

    def _extreme(self, rng: np.random.Generator) -> Labels:
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
            trial = rng.gamma(self.p / 2, 1 / (self.p / 2 + hazard * slope), size=number + 100)
            ratio = gammaincc(half, half * (start + slope * trial)) / tail * np.exp(hazard * slope * trial)
            yhat = np.append(yhat, trial[rng.random(len(trial)) < ratio])
        yhat = yhat[:number]
        y = gammainccinv(half, gammaincc(half, half * self.cut(yhat)) * (1 - rng.random(number))) / half
        direction = rng.standard_normal((number, self.p))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return Labels(np.sqrt(self.p * yhat)[:, None] * direction, y, rng.random(number))

    def sample(self, draw: TailDraw, alpha: float, n: float) -> Labels:
        """The first alpha n labels of a draw, with coefficients for theory.general.dyson as `share`."""
        m = alpha * n
        kept = min(len(draw.rest.y), max(round(m * self.mean.share.sum()), 1))
        s = np.sqrt(min(kept / m, 1.0)) if kept == len(draw.rest.y) else 1.0
        here = draw.extreme.share * self.samples <= m
        parts = [
            Labels(draw.extreme.lam[here], draw.extreme.y[here], np.full(int(np.sum(here)), 1 / n)),
            Labels(
                draw.rest.lam[:kept],
                draw.rest.y[:kept],
                np.full(kept, s * alpha * self.mean.share.sum() / kept),
            ),
            Labels(self.mean.lam, self.mean.y, (1 - s) * alpha * self.mean.share),
        ]
        if s == 1:
            parts.pop()
        return Labels(*(np.concatenate([getattr(v, name) for v in parts]) for name in ("lam", "y", "share")))


def _chi_square(k: int, ends: Array) -> tuple[Array, Array]:
    """Law of y ~ chi^2_k / k on (0, ends): nodes and probabilities (len(ends), nodes), clustered near 0."""
    x, w = np.polynomial.legendre.leggauss(_NODES)
    end = np.minimum(np.sqrt(k * ends), np.sqrt(k) + _REACH)[:, None]
    x = (1 + x) / 2
    r = end * x**2
    log_density = (k - 1) * np.log(r) - r**2 / 2 - (k / 2 - 1) * np.log(2) - gammaln(k / 2)
    return r**2 / k, end * w * x * np.exp(log_density)


def _directions(p: int) -> tuple[Array, Array]:
    """Unit vectors (lines, p) and weights that average even polynomials of degree 4 over the sphere exactly."""
    if p == 1:
        return np.ones((1, 1)), np.ones(1)
    corners = np.array([(1, *signs) for signs in product((1, -1), repeat=p - 1)]) / np.sqrt(p)
    weights = np.append(np.full(p, 2 / (p * (p + 2))), np.full(len(corners), p / (p + 2) / len(corners)))
    return np.concatenate([np.eye(p), corners]), weights
