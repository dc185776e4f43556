"""Nodes of the labels of one student and one teacher at overlap m: an analytic integrand on a product trapezoid.

lambda and v are independent N(0, 1), u = m lambda + sqrt(1 - m^2) v; noise before the teacher's activation, or on y
itself, is one
axis more. The trapezoid converges like exp(-2 pi d / h), d the distance of the nearest pole to the real plane.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theory.model import Network

Array = NDArray[np.float64]

_RADIUS = 9.0  # of the plane: beyond it a Gaussian has 1e-18
_NOISE = 2.5  # steps of the plane to one of the noise, whose axis is the third: the plane's is then doubled
_RARE = -45.0  # log probability of a node relative to the most probable: less is left out


@dataclass(frozen=True)
class Labels:
    """What enters the averages at every node, each an array (n,).

    lam, v     preactivation of the student, and of the teacher's part outside it
    weight     F, the second derivative of a sample's loss in lambda
    force      l', the first
    loss       l
    sideways   l' (u - m lambda), what pulls the student towards the teacher
    log_prior  logarithm of the probability of the node before any conditioning
    overlap    m
    step       h, of lambda and v
    """

    lam: Array
    v: Array
    weight: Array
    force: Array
    loss: Array
    sideways: Array
    log_prior: Array
    overlap: float
    step: float

    @property
    def u(self) -> Array:
        """Preactivation of the teacher."""
        return self.overlap * self.lam + math.sqrt(1 - self.overlap**2) * self.v


def labels(model: Network, overlap: float, h: float) -> Labels:
    """The nodes of a model of p = p_star = 1 at step h."""
    noisy = bool(model.noise or model.output_noise)
    t, log_t = _axis(_RADIUS, 2 * h if noisy else h)
    lam, v = (x.ravel() for x in np.meshgrid(t, t, indexing="ij"))
    log_prior = np.add.outer(log_t, log_t).ravel()
    kept = log_prior > log_prior.max() + _RARE
    lam, v, log_prior = lam[kept], v[kept], log_prior[kept]
    zeta = xi = None
    if noisy:
        s, log_s = _axis(_RADIUS, 2 * _NOISE * h)
        lam, v = np.repeat(lam, len(s)), np.repeat(v, len(s))
        more = np.tile(s, len(log_prior))
        log_prior = np.add.outer(log_prior, log_s).ravel()
        kept = log_prior > log_prior.max() + _RARE
        lam, v, more, log_prior = lam[kept], v[kept], more[kept], log_prior[kept]
        zeta, xi = (more[:, None], None) if model.noise else (None, more)
    u = overlap * lam + math.sqrt(1 - overlap**2) * v
    y = model.outputs(u[:, None], zeta, xi)
    yhat, slope = model.student_outputs(lam[:, None]), model.slopes(lam[:, None])[:, 0]
    force = model.rule.first(y, yhat, model.a, np) * slope
    weight = sample_weight(model, lam, y)
    return Labels(
        lam, v, weight, force, model.rule.value(y, yhat, model.a, np), force * (u - overlap * lam), log_prior, overlap,
        2 * h if noisy else h,
    )  # fmt: skip


def sample_weight(model: Network, lam: Array, y: Array) -> Array:
    """F of one student, arrays of one shape."""
    diagonal, coefficient, gradient = model.weight_parts(np.asarray(lam)[..., None], y)
    return diagonal[..., 0] + coefficient * gradient[..., 0] ** 2


def _axis(radius: float, h: float) -> tuple[Array, Array]:
    """Nodes of N(0, 1) and the logarithms of their probabilities, which sum to 1."""
    t = h * np.arange(-math.floor(radius / h), math.floor(radius / h) + 1, dtype=np.float64)
    square = np.asarray(-(t**2) / 2, dtype=np.float64)
    return np.asarray(t, dtype=np.float64), square - math.log(np.exp(square).sum())
