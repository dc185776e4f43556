"""The spectral measure of the signal directions: how squared overlaps are spread over the spectrum, below the threshold too.

Derived here. With t = -2g/p and in units of (p/2) H, the resolvent between two copies of a signal direction e_k (x)
w*_l / sqrt(N) is

    s(z) = 1 / (z - alpha S(t(z))),        S(t) = E[y f / (1 + t f)],

t(z) the solution of the bulk's equation (theory.density.resolvent). Its density rho_s = -(1/pi) Im s(lambda + i0)
beside that of the bulk, rho: the squared overlaps of the eigenvectors in an interval add up to p p_star times the
integral of rho_s over it, so that an eigenvector at lambda inside the bulk has mean overlap (p_star / N) rho_s / rho.
Outside the bulk s has a pole exactly where the teacher's outlier is, with residue q2: one measure holds both.

S is the average of theory.density.weight_law under the law of y biased by y, again a chi-square mean, of p_star + 2 squares.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theory.checks import finite, one, ratio
from theory.density.density import bulk_resolvent
from theory.density.weight_law import signal_law
from theory.model import Committee


def overlap_density(model: Committee, alpha: float, lam: ArrayLike) -> Any:
    """rho_s at energies lam inside the bulk: density of squared overlap with one signal direction, as N -> inf; 0 outside.

    lam: any shape; returns the same shape, in units of 1/H (1/((p/2) H) for p = inf). Its integral over the bulk is 1
    without an outlier and 1 - q2 with one; for alpha < 1 a part sits on the atom. Raises ParameterError as `density` does.

    >>> overlap_density(Committee(1, 1, 1.0), 1.5, [-5.0, 0.5]).round(6)
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
