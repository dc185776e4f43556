"""Labels of a draw at every number m of samples at once, so that what a draw shows moves smoothly with alpha = m/N.

The p + p_star preactivations of a label are independent normal variables: a direction, uniform on the sphere, times the
root of r ~ chi^2_{p + p_star}; and in which order m labels are told is of no matter. Told from the largest r down they have

    r_j = the value that r exceeds with probability G_j / G_{m+1},      G_j = e_1 + ... + e_j,

with e_i independent exponentials: G_j / G_{m+1} are the order statistics of m independent uniform variables. With the same
e_i and the same directions at every m, one label more lengthens each of the others a little and adds one at the far end,
where r, and with it the weight F, is near 0. Labels told in the order of their arrival, where a larger sample adds
independent ones, have the same law at each m, but their path along alpha is as rough as a random walk: a mean of 64 has
kinks that are seen in a figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv, gammaincinv, gammaln

from theory.finite import random_numbers

Array = NDArray[np.float64]

_LEAST = 2.0**-40
_LARGEST = 1 - _LEAST  # a level nearer 1 is r = 0


def coupled_labels(width: int, m: int, chosen: range, seed: int) -> tuple[Array, Array]:
    """Directions (q, m, width) of m labels of the draws `chosen`, and G (q, m + 1): see the top of the module.

    width   p + p_star
    """
    directions = np.stack([random_numbers.directions(seed, number, m, width) for number in chosen])
    return directions, np.stack([random_numbers.arrivals(seed, number, m + 1) for number in chosen])


def lengths(width: int, arrivals: Array, total: Array | float) -> Array:
    """Root of r (q, m, 1) of the labels that arrive at G (q, m) of `total` (q, 1), G_{m+1} in a sample of m; to 10 digits.

    >>> lengths(2, np.array([[0.5]]), 1.0).round(4)  # r = 2 log 2
    array([[[1.1774]]])
    """
    depth = -np.log(np.minimum(arrivals / total, _LARGEST))
    return np.asarray(np.exp(_log_length(width)(np.log(depth))[..., None]))


@dataclass(frozen=True)
class _Cubic:
    """A smooth function by cubics between points at equal distances, from its values and slopes there (Hermite).

    SciPy's splines would serve too, but importing them takes 0.2 s.
    """

    first: float
    step: float
    coefficients: Array  # (4, points - 1), of the share of the way from one point to the next

    @classmethod
    def through(cls, x: Array, values: Array, slopes: Array) -> _Cubic:
        step = float(x[1] - x[0])
        rise, (start, end) = np.diff(values), (step * slopes[:-1], step * slopes[1:])
        return cls(
            float(x[0]),
            step,
            np.array([values[:-1], start, 3 * rise - 2 * start - end, start + end - 2 * rise]),
        )

    def __call__(self, x: Array) -> Array:
        way = (x - self.first) / self.step
        left = np.clip(way.astype(np.int64), 0, self.coefficients.shape[1] - 1)
        way -= left
        constant, linear, square, cube = (row[left] for row in self.coefficients)
        return np.asarray(constant + way * (linear + way * (square + way * cube)))


@lru_cache(maxsize=8)
def _log_length(width: int) -> _Cubic:
    """log of the root of r over x = log of the depth y = -log P(r' > r), linear at both ends.

    Its slope is y P(r' > r) / (2 r f(r)), f the density of r: with z = r / 2, s = width / 2, r f = z^s exp(-z) / Gamma(s).
    """
    x = np.linspace(np.log(_LEAST), np.log(700.0), 1000)
    depth, half = np.exp(x), width / 2
    far = depth > 0.7
    z = np.where(far, gammainccinv(half, np.exp(-depth)), gammaincinv(half, -np.expm1(-depth)))
    slopes = np.exp(x + z - depth - half * np.log(z) + gammaln(half)) / 2
    return _Cubic.through(x, np.log(2 * z) / 2, slopes)
