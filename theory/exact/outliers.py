"""Teacher outliers left of the bulk: eigenvalue, and squared overlap with the signal space.

Source: arXiv 2510.18435; in the variables of theory.exact.bulk the outlier sits at alpha U(t) = 1, and

    q2 = 1 / (1 - alpha S'(g)/z'(g)) = (1 - alpha W) / (1 - alpha W + alpha V).

Near a continuous threshold 1 - alpha W is a small difference of numbers of order one. There t and the two
averages are computed once more in extended precision (80 bits where the platform has them), so that q2 keeps
its relative accuracy.

Student directions of the Hessian: none of them leaves the bulk on the left (proof: docs/theory.md, "Student directions").

The p^2 directions e_k (x) w_m split under O(p); an eigenvalue outside the bulk would sit at z(g) = alpha T(g)
(arXiv 2510.18435), with

    antisymmetric (rotations of W)  T = E[yhat phi_1]
    singlet (W itself)              T = E[yhat phi_2]
    traceless symmetric             T = E[yhat phi_1] + 2 E[yhat (phi_2 - phi_1)]/(p + 2).

There would be one exactly when alpha t (K - T) > 1 at the edge, and t (K - T) <= 0 for every model and every t in (0, 1].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theory.answers import Spectrum
from theory.checks import numpy_defaults, one, ratio
from theory.exact.averages import (
    Kernel,
    Widths,
    average,
    kernel_k,
    kernel_u,
    kernel_u_slope,
    kernel_v,
    kernel_w,
    kernel_w_slope,
    kernel_yhat_phi,
)
from theory.exact.bulk import (
    at_edge,
    at_outlier,
    edge_root,
    edges,
    outlier_root,
    problems,
    shift,
    split,
    unit,
)
from theory.model.network import Network

Array = Any

_SMALL = 0.03  # below this 1 - alpha W is polished in extended precision
_CLOSE = 0.03  # edge and outlier this close in r = (1-t)/t, relative to 1 + r: the gap is integrated
_GAUSS = 12  # nodes, on a short interval


@numpy_defaults
def outlier_resolvent(model: Network, alpha: float) -> float:
    """Resolvent trace g at the teacher outlier at one alpha, NaN where there is none. Models and refusals are those of
    `edge_gap`.

    >>> round(outlier_resolvent(Network(1, 1, 1.0), 3.0), 6)
    -0.289455"""
    models, alphas, _ = problems(model, one("alpha", ratio("alpha", alpha)))
    r = outlier_root(models, alphas, edge_root(models, alphas))
    return float(-split(r)[0][0] / unit(model))


@numpy_defaults
def exact_spectrum(model: Network, alpha: ArrayLike) -> Spectrum:
    """Edge, outlier and overlap at every alpha, any shape. Models and refusals are those of `edge_gap`.

    >>> exact_spectrum(Network(1, 1, 1.0), [1.0, 2.0, 3.0]).overlap.round(4)
    array([   nan, 0.1495, 0.2838])"""
    models, alphas, shape = problems(model, alpha)
    edge, r_edge = (v.ravel() for v in edges(model, alpha))
    r = outlier_root(models, alphas, r_edge)
    found = np.isfinite(r)
    value, overlap = np.full((2, r.size), np.nan)
    value[found] = unit(model) * shift(models.take(found), alphas[found], *split(r[found]), at_outlier)
    overlap[found] = squared_overlap(models.take(found), alphas[found], r[found])
    kind = np.where(r_edge > 0, "sharp", "smooth")
    none, full, reason = np.where(found, 0.0, np.nan), np.where(found, 1.0, np.nan), np.full(r.size, "")
    columns = [alphas, edge, 0 * edge, kind, value, none, overlap, none, full, none, reason]
    return Spectrum(*(v.reshape(shape) for v in columns))


@numpy_defaults
def edge_gap(model: Network, alpha: ArrayLike) -> Array:
    """Distance from the outlier up to the edge.

    Near a continuous threshold the gap closes quadratically and the difference of the two numbers has no digits left:
    it is integrated instead, dz/dt = (1 - alpha W)/t^2 from outlier to edge, in extended precision.

    Parameters
    ----------
    model : Network
        A quadratic committee, with any noise before the teacher's square.
    alpha : float or array
        M/N.

    Returns
    -------
    float or array
        Of the shape of alpha, in units of the Hessian, of (p/2) H for p = inf; NaN where there is no outlier.

    Raises
    ------
    ParameterError
        On any other model, and unless alpha is positive and finite.

    >>> edge_gap(Network(1, 1, 1.0), [1.0, 3.0]).round(6)
    array([    nan, 0.14213])
    """
    models, alphas, shape = problems(model, alpha)
    r_edge = edge_root(models, alphas)
    r = outlier_root(models, alphas, r_edge)
    gap = np.full(r.size, np.nan)
    found = np.isfinite(r)
    near = found & (r - r_edge < _CLOSE * (1 + r))
    far = np.flatnonzero(found & ~near)
    chosen, at = models.take(far), alphas[far]
    gap[far] = shift(chosen, at, *split(r_edge[far]), at_edge)
    gap[far] -= shift(chosen, at, *split(r[far]), at_outlier)
    near = np.flatnonzero(near)
    gap[near] = _integrated_gap(models.take(near), alphas[near], r_edge[near], r[near])
    return (unit(model) * gap).reshape(shape)[()]


def squared_overlap(models: Widths, alpha: Array, r: Array) -> Array:
    """q2 at the outlier r = (1-t)/t; models, alpha and r 1-D of one length."""
    w, v = average([kernel_w, kernel_v], models, *split(r))
    rest = np.maximum(1 - alpha * w, 0)
    near = np.flatnonzero(rest < _SMALL)
    if near.size:
        alpha_near = alpha[near].astype(np.longdouble)
        r_near = _polished(models.take(near), alpha_near, r[near], kernel_u, kernel_u_slope)
        (w_near,) = average([kernel_w], models.take(near), *split(r_near))
        rest[near] = np.maximum(1 - alpha_near * w_near, 0).astype(np.float64)
    return rest / (rest + alpha * v)


def _polished(models: Widths, alpha: Array, r: Array, kernel: Kernel, slope: Kernel) -> Array:
    """r in extended precision: one Newton step on alpha * average = 1 from the double-precision root."""
    r = r.astype(np.longdouble)
    t, rest = split(r)
    value, rate = average([kernel, slope], models, t, rest)
    # dt/dr = -t^2; one step doubles the 15 digits there are.
    return r + (value - 1 / alpha) / (rate * t**2)


def _integrated_gap(models: Widths, alpha: Array, r_edge: Array, r: Array) -> Array:
    """Integral of |dz/dr| = 1 - alpha W between the close r of edge and outlier, by Gauss-Legendre."""
    alpha = alpha.astype(np.longdouble)
    sharp = r_edge > 0
    top = r_edge.astype(np.longdouble)
    top[sharp] = _polished(models.take(sharp), alpha[sharp], r_edge[sharp], kernel_w, kernel_w_slope)
    bottom = _polished(models, alpha, r, kernel_u, kernel_u_slope)
    total = np.zeros(r.size, dtype=np.longdouble)
    for node, weight in zip(*np.polynomial.legendre.leggauss(_GAUSS), strict=True):
        # dz/dr = -(1 - alpha W)
        t, rest = split(top + (bottom - top) * (1 - node) / 2)
        (w,) = average([kernel_w], models, t, rest)
        total += weight / 2 * (1 - alpha * w)
    return (total * (bottom - top)).astype(np.float64)


@numpy_defaults
def student_margins(model: Network, alpha: float) -> dict[str, float]:
    """alpha t (K - T) at the edge for each kind of student direction: an outlier would need it above 1, it is never positive.


    Parameters
    ----------
    model : Network
        A quadratic committee, with any noise before the teacher's square.
    alpha : float
        M/N.

    Returns
    -------
    dict of float
        By kind: "antisymmetric" (p(p-1)/2 directions), "singlet" (1), "traceless symmetric" (p(p+1)/2 - 1); of p = 1 the
        singlet alone.

    Raises
    ------
    ParameterError
        On any other model, and unless alpha is one positive number.

    >>> list(student_margins(Network(2, 1, 1.0), 1.5))
    ['antisymmetric', 'singlet', 'traceless symmetric']
    """
    models, alphas, _ = problems(model, one("alpha", ratio("alpha", alpha)))
    t, rest = split(edge_root(models, alphas))
    (k,) = average([kernel_k], models, t, rest)
    (first,), (second,) = (average([kernel_yhat_phi], models, t, rest, branches=(c,)) for c in (1, 3))
    mixed = first if math.isinf(model.p) else first + 2 * (second - first) / (model.p + 2)
    kinds = {"antisymmetric": first, "singlet": second, "traceless symmetric": mixed}
    margins = {kind: float(np.squeeze(alphas * t * (k - mean))) for kind, mean in kinds.items()}
    return margins if model.p > 1 else {"singlet": margins["singlet"]}
