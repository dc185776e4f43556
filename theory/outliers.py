"""Teacher outliers left of the bulk: eigenvalue, and squared overlap with the signal space.

Source: arXiv 2510.18435; in the variables of theory.walk the outlier sits at alpha U(t) = 1, and

    q2 = 1 / (1 - alpha S'(g)/z'(g)) = (1 - alpha W) / (1 - alpha W + alpha V).

Near a continuous threshold 1 - alpha W is a small difference of numbers of order one. There t and the two
averages are computed once more in extended precision (80 bits where the platform has them), so that q2 keeps
its relative accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theory.averages import Widths, average, edge, signal, teacher, teacher_slope
from theory.bulk import problems, shift, unit
from theory.model import Committee
from theory.walk import edge_root, outlier_root, split

Array = Any

_SMALL = 0.03  # below this 1 - alpha W is polished in extended precision


@dataclass(frozen=True)
class Outlier:
    """The teacher outlier of one alpha.

    value       eigenvalue, in units of the Hessian ((p/2) H for p = inf)
    overlap     squared overlap q2 of each of its eigenvectors with the span of e_k (x) w*_l / sqrt(N)
    degeneracy  number of such eigenvalues, p p_star
    g           resolvent trace at the outlier
    """

    value: float
    overlap: float
    degeneracy: int | float
    g: float


@dataclass(frozen=True)
class TeacherBranch:
    """Edge, teacher outlier and overlap along alpha: arrays of the shape of alpha, NaN where there is no
    outlier.

    edge, outlier   in units of the Hessian ((p/2) H for p = inf)
    overlap         squared overlap q2
    sharp           True where the edge is sharp, False where it is smooth
    """

    edge: Array
    outlier: Array
    overlap: Array
    sharp: Array


def teacher_branch(model: Committee, alpha: ArrayLike) -> TeacherBranch:
    """Edge, outlier and overlap at every alpha (any shape). Raises ParameterError unless alpha is positive
    and finite."""
    models, alphas, shape = problems(model, alpha)
    r_edge = edge_root(models, alphas)
    r = outlier_root(models, alphas, r_edge)
    found = np.isfinite(r)
    outlier, overlap = np.full((2, r.size), np.nan)
    outlier[found] = unit(model) * shift(models.take(found), alphas[found], *split(r[found]))
    overlap[found] = squared_overlap(models.take(found), alphas[found], r[found])
    edge_value = unit(model) * shift(models, alphas, *split(r_edge))
    return TeacherBranch(*(v.reshape(shape) for v in (edge_value, outlier, overlap, r_edge > 0)))


def outlier(model: Committee, alpha: float) -> Outlier | None:
    """The teacher outlier at one alpha, or None when all of the spectrum belongs to the bulk.

    Raises ParameterError unless alpha is positive and finite. For arrays of alpha see teacher_branch.
    """
    models, alphas, _ = problems(model, alpha)
    r = outlier_root(models, alphas, edge_root(models, alphas))
    if not np.isfinite(r[0]):
        return None
    t, rest = split(r)
    value = unit(model) * shift(models, alphas, t, rest)
    overlap = squared_overlap(models, alphas, r)
    return Outlier(float(value[0]), float(overlap[0]), model.degeneracy, float(-t[0] / unit(model)))


def squared_overlap(models: Widths, alpha: Array, r: Array) -> Array:
    """q2 at the outlier r = (1-t)/t; models, alpha and r 1-D of one length."""
    w, v = average([edge, signal], models, *split(r))
    rest = 1 - alpha * w
    near = np.flatnonzero(rest < _SMALL)
    if near.size:
        rest[near] = _stability(models.take(near), alpha[near], r[near])
    return rest / (rest + alpha * v)


def _stability(models: Widths, alpha: Array, r: Array) -> Array:
    """1 - alpha W at the outlier near r: one Newton step and the average in extended precision."""
    r, alpha = r.astype(np.longdouble), alpha.astype(np.longdouble)
    t, rest = split(r)
    u, slope = average([teacher, teacher_slope], models, t, rest)
    r = r - (u - 1 / alpha) / (-slope * t**2)
    (w,) = average([edge], models, *split(r))
    return (1 - alpha * w).astype(np.float64)
