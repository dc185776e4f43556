"""Nodes and probabilities of the one-dimensional laws that labels follow: chi-square with breaks.

A law is a pair (nodes, probabilities), each (n,), such that E[h] = sum(probabilities * h(nodes)). The chi-square
rule is double exponential on every piece between the breaks, so functions that jump, kink or diverge (integrably) at
a break, at 0 or at infinity keep full accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from theory.checks import ParameterError, count, numpy_defaults, positive, shown

Array = NDArray[np.float64]

_STEP = (
    1 / 16
)  # of the trapezoid rule in the transformed variable: 1e-14 for integrands analytic off the ends
_WIDEST = 1e8  # k beyond which the logarithm of the density has lost half of its digits
_REACH = 3.6  # tanh-sinh weights fall below 1e-36 of their peak beyond it


@numpy_defaults
def chi_square_law(k: int, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
    """Law of y ~ chi^2_k / k: nodes (n,) and probabilities (n,), double exponential between the `breaks`.

    Written in r = sqrt(k y), whose density r^(k-1) exp(-r^2/2) / (2^(k/2-1) Gamma(k/2)) is smooth for every k.
    Its relative accuracy is 1e-15 k. Raises ParameterError unless 1 <= k <= 1e8, or when a break is not positive.
    """
    if (k := count("k", k)) > _WIDEST:
        raise ParameterError(f"k must be at most {_WIDEST:g}, got {shown(k)}")
    ends = np.atleast_1d(positive("breaks", breaks))
    mode = np.sqrt(
        max(k - 1, 1)
    )  # r is within a few units of it, whatever k: knots there keep a wide law resolved
    inner = [mode] if k < 30 else [mode - 4, mode, mode + 4]
    knots = np.unique([0.0, *inner, *np.sqrt(k * ends)])
    pieces = [_tanh_sinh(lo, hi) for lo, hi in pairwise(knots)] + [_half_line(knots[-1], k)]
    r, step = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    with np.errstate(divide="ignore"):
        log_density = (k - 1) * np.log(r) - r**2 / 2 - (k / 2 - 1) * np.log(2) - gammaln(k / 2)
    probability = step * np.exp(log_density)
    keep = probability > 0
    return r[keep] ** 2 / k, probability[keep]


def _tanh_sinh(lo: float, hi: float) -> tuple[Array, Array]:
    t = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
    u = np.pi / 2 * np.sinh(t)
    fraction = 1 / (1 + np.exp(-2 * u))  # distance from `lo`; small values keep their relative accuracy
    weight = (hi - lo) * _STEP * np.pi / 4 * np.cosh(t) / np.cosh(u) ** 2
    return lo + (hi - lo) * fraction, weight


def _half_line(lo: float, k: int) -> tuple[Array, Array]:
    """[lo, inf) by r = lo + exp(t - exp(-t)), made for integrands that decay like a Gaussian."""
    t = np.arange(-3.6, np.log(40 + np.sqrt(2 * k)), _STEP)
    r = np.exp(t - np.exp(-t))
    return lo + r, _STEP * r * (1 + np.exp(-t))
