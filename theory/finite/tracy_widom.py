"""The Tracy-Widom law of real symmetric matrices (beta = 1), a Fredholm determinant.

Source: Ferrari and Spohn, J. Phys. A 38 (2005) L557: F1(s) = det(I - B) on L^2(0, inf) with kernel
B(x, y) = Ai(x + y + s). Bornemann, Math. Comp. 79 (2010) 871: with Gauss-Legendre nodes the determinant of
the finite matrix converges exponentially, and its derivative comes with it:

    F1'(s) / F1(s) = -tr[(I - B)^{-1} dB/ds],       dB/ds = Ai'(x + y + s).

The discretised kernel is symmetric, so its eigenvalues give F1 and 1 - F1 alike to full relative accuracy on
the right. On the left F1 itself has an absolute accuracy of about 1e-15. Agrees with the values of Painleve
II in Bornemann, Markov Process. Related Fields 16 (2010) 803 (tests). A value takes a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import airy

from theory.checks import ParameterError, finite, numpy_defaults

Array = NDArray[np.float64]

MEAN = -1.2065335745820
VARIANCE = 1.607781034581

_AIRY_END = 15.0  # Ai beyond it is below 1e-17
_LEFT, _RIGHT = -20.0, 105.0  # F1 is 0 and 1 beyond, to 1e-310


def tracy_widom_scale(order: float, curvature: float) -> float:
    """kappa = order^{2/3} (2/|z''|)^{1/3}: about a sharp edge the lowest of `order` = p n eigenvalues is edge - TW1/kappa.

    z'' = d^2 z / d g^2 at the edge, g the resolvent trace per eigenvalue; kappa is in inverse units of the eigenvalues.
    Derived in theory.finite.edge.

    >>> round(tracy_widom_scale(1000, 2.0), 10)
    100.0
    """
    return float(float(order) ** (2 / 3) * (2 / abs(curvature)) ** (1 / 3))


@numpy_defaults
def tracy_widom_cdf(s: ArrayLike) -> Any:
    """P(TW1 <= s) of a number or an array, absolute accuracy 2e-14. Raises ParameterError unless s is finite.

    >>> round(float(tracy_widom_cdf(-1.0)), 6)
    0.58379
    """
    return np.exp(_over(s, _log_cdf))


@numpy_defaults
def tracy_widom_sf(s: ArrayLike) -> Any:
    """P(TW1 > s), to a relative 1e-12 on the right; s as in `tracy_widom_cdf`.

    >>> round(float(tracy_widom_sf(-1.0)), 6)
    0.41621
    """
    return abs(np.expm1(_over(s, _log_cdf)))


@numpy_defaults
def tracy_widom_pdf(s: ArrayLike) -> Any:
    """Density of TW1, absolute accuracy 1e-13; s as in `tracy_widom_cdf`.

    >>> round(float(tracy_widom_pdf(-1.0)), 6)
    0.304099
    """
    return _over(s, _pdf)


@numpy_defaults
def tracy_widom_quantile(probability: ArrayLike) -> Any:
    """s with P(TW1 <= s) = probability, a number or an array. Raises ParameterError unless it is from 1e-12 to 1 - 1e-12.

    >>> round(tracy_widom_quantile(0.5), 4)
    -1.2686
    """
    from scipy.optimize import brentq

    values = np.asarray(finite("probability", probability))
    outside = values[(values < 1e-12) | (values > 1 - 1e-12)]
    if outside.size:
        raise ParameterError(f"probability must lie in [1e-12, 1 - 1e-12], got {outside.flat[0]}")
    roots = [brentq(lambda s, q=q: tracy_widom_cdf(s) - q, -10, 14, xtol=1e-12) for q in values.ravel()]
    return roots[0] if values.ndim == 0 else np.reshape(roots, values.shape)


def _over(s: ArrayLike, of: Callable[[float], float]) -> Any:
    """Of each s between the ends, in the shape of s."""
    values = np.asarray(finite("s", s), dtype=np.float64)
    found = [of(v) for v in np.clip(values, _LEFT, _RIGHT).ravel()]
    return found[0] if values.ndim == 0 else np.reshape(found, values.shape)


def _nodes(s: float) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and square roots of weights on (0, L), past which the Airy function is negligible."""
    x, w = _legendre(int(np.clip(36 - 3 * s, 36, 72)))  # enough for 1e-14 (tests)
    half = max(_AIRY_END - s, 8.0) / 2  # on the far right Ai falls like exp(-sqrt(s) x) only
    return half * (1 + x), np.sqrt(half * w)


@lru_cache(maxsize=64)
def _legendre(nodes: int) -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(nodes)


def _kernel(s: float) -> tuple[Array, Array]:
    x, root = _nodes(s)
    rows, cols = np.triu_indices(len(x))
    values = np.array(airy(x[rows] + x[cols] + s)[:2]) * (root[rows] * root[cols])
    kernels = np.empty((2, len(x), len(x)))
    kernels[:, rows, cols] = kernels[:, cols, rows] = values
    return kernels[0], kernels[1]


def _log_cdf(s: float) -> float:
    eigenvalues = np.linalg.eigvalsh(_kernel(s)[0])
    # On the far left the largest eigenvalues round to 1.
    return float(np.sum(np.log1p(-np.minimum(eigenvalues, 1 - 1e-16))))


def _pdf(s: float) -> float:
    kernel, slope = _kernel(s)
    eigenvalues, vectors = np.linalg.eigh(kernel)
    gaps = 1 - eigenvalues
    # d(eigenvalue)/ds, first-order perturbation theory
    rates = np.einsum("ij,ij->j", vectors, slope @ vectors)
    # The product without one factor, for each: no division by a gap that rounding has closed on the far left.
    others = np.array([np.prod(np.delete(gaps, i)) for i in range(len(gaps))])
    return max(float(-rates @ others), 0.0)
