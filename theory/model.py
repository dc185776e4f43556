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

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import ParameterError, positive, width

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Committee:
    """Widths and normalisation of the teacher-student pair; validated, immutable, hashable.

    p       student width: an integer of at least 1, or math.inf (then all numbers are those of (p/2) H)
    p_star  teacher width: an integer of at least 1
    a       normalisation of the loss, positive and finite, in units of y

    Raises ParameterError (a ValueError) on anything else.
    """

    p: int | float = 1
    p_star: int = 1
    a: float = 1.0

    def __post_init__(self) -> None:
        p_star = width("p_star", self.p_star)
        if math.isinf(p_star):
            raise ParameterError("p_star must be an integer of at least 1, got inf")
        a = positive("a", self.a)
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
        """Preactivations of m samples as N -> inf: lam (m, p) and u (m, p_star), independent N(0, 1)."""
        return rng.standard_normal((m, self._finite_p())), rng.standard_normal((m, self.p_star))

    def weights(self, lam: ArrayLike, u: ArrayLike) -> Array:
        """Hessian weights F (..., p, p) of preactivations lam (..., p), u (..., p_star).

        F = (2/p) [ (2/p) lam lam^T + (yhat - y) I ] / (a + y)
        """
        p = self._finite_p()
        lam, u = np.asarray(lam, dtype=np.float64), np.asarray(u, dtype=np.float64)
        y, yhat = np.mean(u**2, axis=-1), np.mean(lam**2, axis=-1)
        outer = (2 / p) * lam[..., :, None] * lam[..., None, :]
        return (2 / p) * (outer + (yhat - y)[..., None, None] * np.eye(p)) / (self.a + y)[..., None, None]

    def _finite_p(self) -> int:
        if math.isinf(self.p):
            raise ParameterError("p must be finite to draw labels or weights, got inf")
        return int(self.p)
