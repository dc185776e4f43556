"""What the first-order part of the loss at initialisation knows of the teacher: the overlap of its gradient.

The gradient of student k is sum_mu c_k x with c_k = l' s'(lam_k) (over p): Gaussian noise of covariance alpha E[c_k^2] Sigma
around alpha E[c_k v] of the directions v = (u, own directions of the students). On the sphere its squared overlap with the
teacher directions that are left there is, with s = E[c_k v], L_k the student in those directions, Pi the projector on what is
left of the teacher's and m_2 the mean square of the covariance's eigenvalues (derived here),

    alpha |Pi s|^2 / ( E[c_k^2] + alpha (m_2 |s|^2 - (L_k.s)^2) ).

Where E[c_k u] is not 0 (an odd part of the teacher: E[u | y] is not 0) this is positive at EVERY alpha: the first-order part
carries the signal already, and nothing has to wait for the Hessian. It is no answer about the Hessian: no model has an outlier
at every alpha, since as alpha -> 0 the edge tends to the infimum of the weights and Xi to 0 (`theory.general.points`), so
alpha_BBP exists or not apart from it: tanh, a = 2, p = 1 has 2.5090. Even teachers have 0 at m = 0.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import numpy_defaults, ratio
from theory.general.quadrature import normals, product, sobol
from theory.model.network import Network, network

Array = NDArray[Any]

_STEP, _REACH = 0.25, 8.5  # of the trapezoid in up to three dimensions
_LEVEL, _SCRAMBLINGS = 13, 8  # Sobol points in more: three to four digits
_CARRIES = 1e-10  # squared overlap at alpha = 1 from which rounding is no excuse


@numpy_defaults
def gradient_overlap(model: Network, alpha: ArrayLike) -> Array:
    """Squared overlap of the spherical gradient at initialisation with the teacher, mean over the students.

    Parameters
    ----------
    model : Network
    alpha : float or array
        M/N.

    Returns
    -------
    array
        Of the shape of alpha: ten digits in up to three dimensions, three to four by Sobol points beyond.

    Raises
    ------
    ParameterError
        On a bad model or alpha.

    >>> gradient_overlap(Network(activation="tanh", a=2.0), [0.1, 1.0]).round(4)
    array([0.046 , 0.3256])
    """
    model, alpha = network(model), np.asarray(ratio("alpha", alpha))[..., None]
    signal, rest, size = _moments(model)
    total = size + alpha * rest
    share = np.divide(
        alpha * signal, total, out=np.zeros(total.shape), where=total > 0
    )  # no gradient: no overlap
    return np.asarray(np.mean(share, axis=-1))


def carried_by_gradient(model: Network) -> bool:
    """Whether the first-order part carries the teacher, at any alpha."""
    return bool(gradient_overlap(model, 1.0) > (_CARRIES if _dimensions(network(model)) <= 3 else 1e-4))


def _dimensions(model: Network) -> int:
    p = 1 if math.isinf(model.p) else int(model.p)
    return p + model.p_star * (2 if model.noise else 1) + bool(model.output_noise)


@lru_cache(maxsize=64)
def _moments(model: Network) -> tuple[Array, Array, Array]:
    """|Pi s|^2, m_2 |s|^2 - (L.s)^2 and E[c^2] of every student, (p,)."""
    wide = math.isinf(model.p)
    mixing = np.eye(1, model.p_star + 1, model.p_star) if wide else model.mixing()
    population = model.levels()
    spread = 1.0 if population is None else float(population[1] @ population[0] ** 2)
    s, size = np.zeros((len(mixing), mixing.shape[1])), np.zeros(len(mixing))
    for points, probability in _normals(_dimensions(model)):
        v = points[:, : mixing.shape[1]]
        s_part, size_part = _sums(model, v, points[:, mixing.shape[1] :], mixing, probability)
        s, size = s + s_part, size + size_part
    along = mixing / np.linalg.norm(mixing, axis=1, keepdims=True)
    inner = np.sum(along * s, axis=1)
    seen = []
    for row, own in zip(s, along, strict=True):
        # The teacher's directions less their parts along the student: those on the tangent space of the sphere.
        left = np.eye(len(row))[:, : model.p_star] - np.outer(own, own[: model.p_star])
        vectors, values, _ = np.linalg.svd(left, full_matrices=False)
        seen.append(np.sum((vectors[:, values > 1e-9].T @ row) ** 2))
    return np.array(seen), spread * np.sum(s**2, axis=1) - inner**2, size


def _sums(model: Network, v: Array, hidden: Array, mixing: Array, probability: Array) -> tuple[Array, Array]:
    """E[c v] (p, k) and E[c^2] (p,) over points."""
    noisy = model.p_star if model.noise else 0
    zeta, xi = hidden[:, :noisy], hidden[:, noisy] if model.output_noise else None
    y = model.outputs(v[:, : model.p_star], zeta if noisy else None, xi)
    lam = v @ mixing.T
    if math.isinf(model.p):
        ((x, weight),) = _normals(1)
        yhat = np.full(len(v), weight @ model.student.value(x[:, 0], np))
    else:
        yhat = model.student_outputs(lam)
    c = model.rule.first(y, yhat, model.a, np)[:, None] * model.slopes(lam)
    return (c * probability[:, None]).T @ v, probability @ c**2


def _normals(dimensions: int) -> list[tuple[Array, Array]]:
    """Points (n, d) of independent normals and their probabilities (n,), in parts."""
    if dimensions <= 3:
        line = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
        weight = np.exp(-(line**2) / 2)
        return [product([(line, weight / weight.sum())] * dimensions)]
    parts = []
    for repeat in range(_SCRAMBLINGS):
        points = normals(sobol(dimensions, np.random.default_rng([1, repeat]), _LEVEL))
        parts.append((points, np.full(len(points), 1 / len(points) / _SCRAMBLINGS)))
    return parts
