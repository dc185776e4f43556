"""The quadratic committee to ten digits: averages, bulk, outliers, threshold, alpha_0 and density; here who is one, its weights
and preactivations.

Source: Annesi, Bocchi, Cammarota, arXiv 2510.18435. Student rows w_k (k = 1..p) and teacher rows w*_l
(l = 1..p_star, orthogonal) lie on the sphere of radius sqrt(N); inputs are x ~ N(0, I_N / N). The
preactivations lam_k = w_k.x and u_l = w*_l.x are then independent N(0, 1) as N -> inf, and

    y = mean_l u_l^2      yhat = mean_k lam_k^2      loss = (1/2) sum_mu (y - yhat)^2 / (a + y).

The Hessian in the student weights has blocks H_{qq'} = sum_mu F^mu_{qq'} x^mu x^mu^T, with F (p, p) below.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from theory.checks import ParameterError
from theory.model.network import Network, network

Array = NDArray[np.float64]


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
    """`model` itself; ParameterError unless it is the quadratic committee without options, of finite p."""
    if math.isinf(committee(model).p):
        raise ParameterError("p must be finite at finite N, got inf")
    return model


def committee_weights(a: float, lam: Array, y: Array) -> Array:
    """Weights F = (2/p) [ (2/p) lam lam^T + (yhat - y) I ] / (a + y), (..., p, p), of lam (..., p) and y (...), unchecked.

    >>> committee_weights(1.0, np.array([1.0, 1.0]), np.array(1.0)).tolist()
    [[0.5, 0.5], [0.5, 0.5]]"""
    p, yhat = lam.shape[-1], np.mean(lam**2, axis=-1)
    outer = (2 / p) * lam[..., :, None] * lam[..., None, :]
    return (2 / p) * (outer + (yhat - y)[..., None, None] * np.eye(p)) / (a + y)[..., None, None]


def committee_preactivations(model: Network, m: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Preactivations lam (m, p) and u (m, p_star) of samples as N -> inf, those of all students drawn first.

    `Network.draw_labels` has another order of the draws: this is that of the finite-N theory kept in files."""
    return rng.standard_normal((m, int(model.p))), rng.standard_normal((m, model.p_star))
