"""The quadratic committee, the Network of which the exact theory holds: who is one, its weights, labels and their laws.

Source: Annesi, Bocchi, Cammarota, arXiv 2510.18435. Student rows w_k (k = 1..p) and teacher rows w*_l
(l = 1..p_star, orthogonal) lie on the sphere of radius sqrt(N); inputs are x ~ N(0, I_N / N). The
preactivations lam_k = w_k.x and u_l = w*_l.x are then independent N(0, 1) as N -> inf, and

    y = mean_l u_l^2      yhat = mean_k lam_k^2      loss = (1/2) sum_mu (y - yhat)^2 / (a + y).

The Hessian in the student weights has blocks H_{qq'} = sum_mu F^mu_{qq'} x^mu x^mu^T, with F (p, p) below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from theory.checks import ParameterError, count, numpy_defaults, positive, shown
from theory.model.network import Network, network

Array = NDArray[np.float64]

_STEP = 1 / 16  # of the trapezoid in the transformed variable: 1e-14 for integrands analytic off the ends
_WIDEST = 1e8  # k beyond which the logarithm of the density has lost half of its digits
_REACH = 3.6  # of the transformed variable: weights beyond fall below 1e-36 of their peak


def quadratic(model: Network) -> Network:
    """`model` itself, of which the averages of `theory.exact.averages` are known: quadratic, with any noise before the square.

    Raises ParameterError for one with a covariance, and for any other network.
    """
    if not network(model).is_quadratic:
        raise ParameterError("model must be a quadratic committee here, got another network; see theory.edge")
    if model.covariance is not None:
        raise ParameterError("covariance must be None here, got one; see theory.edge")
    return model


def committee(model: Network) -> Network:
    """`model` itself; ParameterError unless it is the quadratic committee without options."""
    if not network(model).is_committee:
        raise ParameterError("model must be a quadratic committee without options here, got another network")
    return model


def finite_committee(model: Network) -> Network:
    """`model` itself; ParameterError unless it is the quadratic committee without options, of finite p.

    Parameters
    ----------
    model : Network

    Returns
    -------
    Network

    Raises
    ------
    ParameterError
        On any other.
    """
    if math.isinf(committee(model).p):
        raise ParameterError("p must be finite at finite N, got inf")
    return model


def committee_weights(a: float, lam: Array, y: Array) -> Array:
    """Weights F = (2/p) [ (2/p) lam lam^T + (yhat - y) I ] / (a + y) of the Hessian.

    Parameters
    ----------
    a : float
        Normalisation of the loss.
    lam, y : arrays (..., p) and (...)
        Preactivations of the student, outputs of the teacher; unchecked.

    Returns
    -------
    array (..., p, p)

    >>> committee_weights(1.0, np.array([1.0, 1.0]), np.array(1.0)).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    p, yhat = lam.shape[-1], np.mean(lam**2, axis=-1)
    outer = (2 / p) * lam[..., :, None] * lam[..., None, :]
    return (2 / p) * (outer + (yhat - y)[..., None, None] * np.eye(p)) / (a + y)[..., None, None]


def committee_labels(model: Network, m: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Preactivations of samples as N -> inf.

    What `Network.draw_labels` gives, in another order of the draws: that of the finite-N theory kept in files.

    Parameters
    ----------
    model : Network
        Of finite p; unchecked.
    m : int
        How many samples.
    rng : numpy.random.Generator

    Returns
    -------
    tuple of arrays (m, p) and (m, p_star)
        lam and u: all of the students' are drawn first.
    """
    return rng.standard_normal((m, int(model.p))), rng.standard_normal((m, model.p_star))


@numpy_defaults
def chi_square_law(k: int, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
    """Law of y ~ chi^2_k / k by nodes, double exponential between the `breaks`.

    Written in r = sqrt(k y), whose density r^(k-1) exp(-r^2/2) / (2^(k/2-1) Gamma(k/2)) is smooth for every k.
    Its relative accuracy is 1e-15 k.

    Parameters
    ----------
    k : int
        From 1 to 1e8.
    breaks : sequence of float
        Positive places at which the integrand is not smooth.

    Returns
    -------
    tuple of arrays (n,)
        Nodes and probabilities.

    Raises
    ------
    ParameterError
        On another k, or a break that is not positive.
    """
    if (k := count("k", k)) > _WIDEST:
        raise ParameterError(f"k must be at most {_WIDEST:g}, got {shown(k)}")
    ends = np.atleast_1d(positive("breaks", breaks))
    # r is within a few units of its mode, whatever k: knots there keep a wide law resolved.
    mode = np.sqrt(max(k - 1, 1))
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
