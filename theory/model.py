"""The model: a quadratic committee student learning a quadratic committee teacher, at random initialisation.

Source: Annesi, Bocchi, Cammarota, arXiv 2510.18435. Student rows w_k (k = 1..p) and teacher rows w*_l
(l = 1..p_star, orthogonal) lie on the sphere of radius sqrt(N); inputs are x ~ N(0, I_N / N). The
preactivations lam_k = w_k.x and u_l = w*_l.x are then independent N(0, 1) as N -> inf, and

    y = mean_l u_l^2      yhat = mean_k lam_k^2      loss = (1/2) sum_mu (y - yhat)^2 / (a + y).

The Hessian in the student weights has blocks H_{qq'} = sum_mu F^mu_{qq'} x^mu x^mu^T, with F (p, p) below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import (
    TEACHERS,
    ParameterError,
    broadcast,
    count,
    finite,
    generator,
    normalisation,
    shown,
    width,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Committee:
    """Widths and normalisation of the teacher-student pair; validated, immutable, hashable.

    p       student width: an integer from 1 to 1e300, or math.inf (then all numbers are those of (p/2) H)
    p_star  teacher width: an integer from 1 to 1e40
    a       normalisation of the loss, from 1e-100 to 1e60, in units of y

    Raises ParameterError (a ValueError) on anything else.

    >>> model = Committee(p=2, p_star=1, a=0.5)
    >>> model.degeneracy
    2
    >>> lam, u = model.draw_labels(5, np.random.default_rng(0))
    >>> model.weights(lam, u).shape
    (5, 2, 2)
    """

    p: int | float = 1
    p_star: int = 1
    a: float = 1.0

    def __post_init__(self) -> None:
        p_star = width("p_star", self.p_star)
        if math.isinf(p_star):
            raise ParameterError("p_star must be an integer of at least 1, got inf")
        if p_star > TEACHERS:
            raise ParameterError(f"p_star must be at most {TEACHERS:g}, got {shown(self.p_star)}")
        a = normalisation("a", self.a)
        if np.ndim(a):
            raise ParameterError(f"a must be one number in a Committee, got an array of shape {np.shape(a)}")
        object.__setattr__(self, "p", width("p", self.p))
        object.__setattr__(self, "p_star", p_star)
        object.__setattr__(self, "a", a)

    @property
    def degeneracy(self) -> int | float:
        """Number of eigenvalues that carry the teacher: p p_star."""
        return self.p * self.p_star

    def draw_labels(self, m: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Preactivations of m samples as N -> inf: lam (m, p) and u (m, p_star), independent N(0, 1).

        Raises ParameterError unless m is a count, rng a numpy.random.Generator and p finite.
        """
        m, rng = count("m", m, 0), generator("rng", rng)
        return rng.standard_normal((m, self._finite_p())), rng.standard_normal((m, self.p_star))

    def weights(self, lam: ArrayLike, u: ArrayLike) -> Array:
        """Hessian weights F (..., p, p) of preactivations lam (..., p), u (..., p_star), broadcast in their leading shapes.

        F = (2/p) [ (2/p) lam lam^T + (yhat - y) I ] / (a + y)

        Raises ParameterError on other shapes, entries that are not finite, or p = inf.
        """
        p = self._finite_p()
        lam, u = np.asarray(finite("lam", lam)), np.asarray(finite("u", u))
        for name, array, size in (("lam", lam, p), ("u", u, self.p_star)):
            if array.ndim < 1 or array.shape[-1] != size:
                raise ParameterError(f"{name} must have shape (..., {size}), got {array.shape}")
        broadcast(lam=lam[..., 0], u=u[..., 0])
        return self.weights_at(lam, np.mean(u**2, axis=-1))

    def weights_at(self, lam: Array, y: Array) -> Array:
        """Hessian weights (..., p, p) of preactivations lam (..., p) and teacher outputs y (...), unchecked."""
        p, yhat = int(self.p), np.mean(lam**2, axis=-1)
        outer = (2 / p) * lam[..., :, None] * lam[..., None, :]
        return (2 / p) * (outer + (yhat - y)[..., None, None] * np.eye(p)) / (self.a + y)[..., None, None]

    def _finite_p(self) -> int:
        if math.isinf(self.p):
            raise ParameterError("p must be finite to draw labels or weights, got inf")
        return int(self.p)


class Quadratic(Protocol):
    """What the exact theory asks of a model besides a Committee: see `quadratic`."""

    @property
    def p(self) -> int | float:
        """Width of the student."""

    @property
    def p_star(self) -> int:
        """Width of the teacher."""

    @property
    def a(self) -> float:
        """Normalisation of the loss."""

    @property
    def degeneracy(self) -> int | float:
        """Number of eigenvalues that carry the teacher."""


def committee(model: object) -> Committee:
    """`model` itself; ParameterError unless it is a Committee."""
    if not isinstance(model, Committee):
        raise ParameterError(f"model must be a Committee, got {shown(model)}")
    return model


def quadratic(model: Any) -> tuple[Any, float]:
    """`model` and the variance of its noise: a Committee (0), or a quadratic Network without covariance and overlap.

    Raises ParameterError on anything else.
    """
    if isinstance(model, Committee):
        return model, 0.0
    if getattr(model, "is_quadratic", False):
        if model.covariance is not None:
            raise ParameterError("covariance must be None here, got one; see theory.general.spectrum")
        return model, model.noise
    if hasattr(model, "is_quadratic"):
        raise ParameterError(
            "model must be a quadratic committee here, got another network; see theory.general.spectrum"
        )
    return committee(model), 0.0


def finite_committee(model: object) -> Committee:
    """`model` itself; ParameterError unless it is a Committee of finite p."""
    if math.isinf(committee(model).p):
        raise ParameterError("p must be finite at finite N, got inf")
    return committee(model)
