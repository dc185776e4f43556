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

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.special import gammainccinv, gammaincinv

Array = NDArray[np.float64]

_LEAST = 2.0**-40
_LARGEST = 1 - _LEAST  # a level nearer 1 is r = 0


def coupled_labels(width: int, m: int, chosen: range, seed: int) -> tuple[Array, Array]:
    """Directions (q, m, width) of m labels of the draws `chosen`, and G (q, m + 1): see the top of the module.

    width   p + p_star
    """
    directions, arrivals = np.empty((len(chosen), m, width)), np.empty((len(chosen), m + 1))
    for row, number in enumerate(chosen):
        arrivals[row] = np.cumsum(np.random.default_rng([seed, number, 0]).standard_exponential(m + 1))
        directions[row] = np.random.default_rng([seed, number, 3]).standard_normal((m, width))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    return directions, arrivals


def lengths(width: int, arrivals: Array, total: Array | float) -> Array:
    """Root of r (q, m, 1) of the labels that arrive at G (q, m) of `total` (q, 1), G_{m+1} in a sample of m; to 8 digits.

    >>> lengths(2, np.array([[0.5]]), 1.0).round(4)  # r = 2 log 2
    array([[[1.1774]]])
    """
    depth = -np.log(np.minimum(arrivals / total, _LARGEST))
    return np.asarray(np.exp(_log_length(width)(np.log(depth))[..., None]))


@lru_cache(maxsize=8)
def _log_length(width: int) -> CubicSpline:
    """log of the root of r over log of -log P(r' > r): linear at both ends."""
    x = np.linspace(np.log(_LEAST), np.log(700.0), 500)
    depth = np.exp(x)
    far = depth > 0.7
    r = np.where(far, gammainccinv(width / 2, np.exp(-depth)), gammaincinv(width / 2, -np.expm1(-depth)))
    return CubicSpline(x, np.log(2 * r) / 2)
