"""The BBP transition: where the teacher outlier leaves the bulk, and how.

Source: arXiv 2510.18435. In the variables of theory.walk the transition is discontinuous when W(1) <= U(1),
then alpha = 1/U(1) = (p_star/2) / E[((p-1)/p)/(yhat + a) + (1/p)/(3 yhat + a)]; else continuous, alpha =
1/U(t) = 1/W(t) at the t in (0, 1) where U = W. For p = inf it is always discontinuous, alpha = p_star (1 +
a)/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theory.averages import Widths, average, edge, signal, teacher
from theory.checks import positive, widths
from theory.model import Committee
from theory.walk import at_end, split, threshold_root

Array = Any


@dataclass(frozen=True)
class Threshold:
    """The BBP transition of one model.

    alpha    the transition, alpha = M/N
    kind     "continuous" (the edge there is sharp, the overlap grows from 0) or "discontinuous" (smooth, it
             jumps) overlap  the jump of the squared overlap q2: 0.0 when continuous
    """

    alpha: float
    kind: str
    overlap: float


@dataclass(frozen=True)
class ThresholdMap:
    """The BBP transition of many models: arrays of the broadcast shape of p, p_star and a.

    alpha          the transition, alpha = M/N
    discontinuous  True where the overlap jumps
    overlap        the jump of the squared overlap q2: 0 where continuous
    """

    alpha: Array
    discontinuous: Array
    overlap: Array


def bbp_threshold(model: Committee) -> Threshold:
    """alpha_BBP of a model, whether the transition is continuous or discontinuous, and the jump of the
    overlap."""
    alpha, discontinuous, overlap = _transition(Widths.of([model.p], model.p_star, model.a))
    return Threshold(
        float(alpha[0]), "discontinuous" if discontinuous[0] else "continuous", float(overlap[0])
    )


def threshold_map(p: ArrayLike, p_star: ArrayLike = 1, a: ArrayLike = 1.0) -> ThresholdMap:
    """alpha_BBP, its kind and the overlap jump for arrays of p, p_star and a that broadcast against one
    another.

    p (inf allowed) and p_star are widths, a is positive. Raises ParameterError on any entry that is not.
    """
    models = Widths.of(widths("p", p), widths("p_star", p_star, infinite=False), positive("a", a))
    flat = Widths(*(np.ravel(v) for v in (models.two_over_p, models.two_over_p_star, models.a)))
    return ThresholdMap(*(v.reshape(models.shape) for v in _transition(flat)))


def _transition(models: Widths) -> tuple[Array, Array, Array]:
    r = threshold_root(models)
    (u,) = average([teacher], models, *split(r))
    jumps = np.flatnonzero(r == 0)
    overlap = np.zeros(models.shape)
    overlap[jumps] = _jump(models.take(jumps))
    return 1 / u, r == 0, overlap


def _jump(models: Widths) -> Array:
    """q2 at t = 1: (U - W)/(U - W + V)."""
    u, w, v = at_end(models, teacher, edge, signal)
    return (u - w) / (u - w + v)
