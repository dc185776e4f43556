"""The spectral measure of the signal directions: how squared overlaps are spread over the spectrum, below the threshold too.

Derived here. With t = -2g/p and in units of (p/2) H, the resolvent between two copies of a signal direction e_k (x)
w*_l / sqrt(N) is

    s(z) = 1 / (z - alpha S(t(z))),        S(t) = E[y f / (1 + t f)],

t(z) the solution of the bulk's equation (theory.exact.density.resolvent). Its density rho_s = -(1/pi) Im s(lambda + i0)
beside that of the bulk, rho: the squared overlaps of the eigenvectors in an interval add up to p p_star times the
integral of rho_s over it, so that an eigenvector at lambda inside the bulk has mean overlap (p_star / N) rho_s / rho.
Outside the bulk s has a pole exactly where the teacher's outlier is, with residue q2: one measure holds both.

S is the average of theory.exact.density.weight_law under the law of y biased by y, again a chi-square mean,
of p_star + 2 squares.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theory.checks import ParameterError, count, finite, numpy_defaults, one, ratio
from theory.exact.bulk import bulk_edge
from theory.exact.committee import finite_committee
from theory.exact.density.density import bulk_resolvent, density
from theory.exact.density.weight_law import signal_law
from theory.model.network import Network

_FINE = 801  # nodes of the integrals


@numpy_defaults
def overlap_density(model: Network, alpha: float, lam: ArrayLike) -> Any:
    """rho_s at energies lam inside the bulk: density of squared overlap with one signal direction, as N -> inf; 0 outside.

    lam: any shape; returns the same shape, in units of 1/H (1/((p/2) H) for p = inf). Its integral over the bulk is 1
    without an outlier and 1 - q2 with one; for alpha < 1 a part sits on the atom. Raises ParameterError as `density` does.

    >>> overlap_density(Network(1, 1, 1.0), 1.5, [-5.0, 0.5]).round(6)
    array([0.      , 0.165504])
    """
    energy = np.asarray(finite("lam", lam), dtype=np.float64)
    alpha = one("alpha", ratio("alpha", alpha))
    t, scale = bulk_resolvent(model, alpha, energy.ravel())
    inside = t.imag > 0
    rho = np.zeros(energy.size)
    block = scale * energy.ravel()[inside] - alpha * signal_law(model).transform(t[inside])[0]
    rho[inside] = -scale / math.pi * (1 / block).imag
    return float(rho[0]) if energy.ndim == 0 else rho.reshape(energy.shape)


@numpy_defaults
def level_overlap(model: Network, alpha: float, n: int, k: ArrayLike) -> Any:
    """Mean squared overlap of the k-th lowest level of the bulk in dimension n, k = 1, 2, ... (any shape), were levels still:

        q2_k = p p_star (integral of rho_s between the (k - 1)/(p n) and the k/(p n) quantile of rho).

    Above the threshold k counts from the edge on, the p p_star outliers apart. Levels near the edge fluctuate and share what is
    here theirs alone: found and predicted for k = 1, 2, 3 at p = 1, a = 0.5, alpha = 1.1, N = 200: 0.071(4), 0.039(3), 0.024(2)
    and 0.092, 0.030, 0.022. theory.finite.law draws them. Raises ParameterError as `overlap_density` does, on p = inf,
    and where the bulk below 0 does not hold k levels.

    >>> level_overlap(Network(1, 1, 0.5), 1.1, 200, [1, 2, 3]).round(3)
    array([0.092, 0.03 , 0.022])
    """
    model, n = finite_committee(model), count("n", n)
    wanted = np.asarray(k)
    if wanted.dtype.kind not in "iu" or np.any(wanted < 1):
        raise ParameterError(f"k must be a positive integer, or an array of them, got {k!r}")
    edge, order = bulk_edge(model, one("alpha", ratio("alpha", alpha))).value, int(model.p) * n
    s, width = np.linspace(0, 1, _FINE), 1e-3 * abs(edge)
    while True:
        x = np.minimum(edge + width * s**2, 1e-9 * edge)  # short of the atom at 0
        jacobian = 2 * width * s
        levels = order * _running(density(model, alpha, x[1:]) * jacobian[1:])
        if levels[-1] >= wanted.max():
            break
        if width >= abs(edge):
            raise ParameterError(
                f"k must be at most {int(levels[-1])}, the levels below 0, got {int(wanted.max())}"
            )
        width = min(2 * width, abs(edge))
    shares = _running(overlap_density(model, alpha, x[1:]) * jacobian[1:])
    above, below = (np.interp(v, levels, shares) for v in (wanted, wanted - 1))
    found = model.degeneracy * (above - below)
    return float(found) if wanted.ndim == 0 else found


def _running(values: Any) -> Any:
    """Running integral of values on the _FINE even nodes of [0, 1] but the first, where they are 0, by trapezoids."""
    values = np.concatenate([[0.0], values])
    steps = (values[1:] + values[:-1]) / (2 * (_FINE - 1))
    return np.concatenate([[0.0], np.cumsum(steps)])
