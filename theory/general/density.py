"""Bulk density of the Hessian of a network where G is a multiple of the identity.

With q = -1/g, K = E f q / (q + f) and K2 = E A^2 = dK/dg, in the upper half plane of z,

    g = int s/(z - s alpha K(g)) dnu(s),   rho(lam) = -Im int 1/(lam - s alpha K) dnu / pi,   Im g < 0.

Newton follows g from large Im z down to the real axis, anew for each lam: about 0.3 s a place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import ParameterError, finite, one, ratio
from theory.general.laws import NodeLaw, floor_of, isotropic, node_law
from theory.general.network import Network, network
from theory.model import Committee

Array = NDArray[Any]

_STEPS = 0.08, 0.057
_STEADY = 1e-6  # change between the two steps, relative to 1 + rho, up to which a value is given
_HEIGHTS = np.append(np.geomspace(1e2, 1e-7, 80), 0.0)  # Im z in units of a typical weight


def density(model: Committee | Network, alpha: float, lam: ArrayLike) -> Array:
    """Bulk density rho(lam), shape of lam, per unit of the Hessian ((p/2) H for p = inf), without the atom at 0 of mass
    max(0, 1 - alpha).

    Where refining the nodes moves rho by more than 1e-6 (1 + rho), or Newton fails, the value is NaN.
    Raises ParameterError for a model that is none, an alpha that is not positive, lam not finite, weights without a lower
    bound, and where G is a matrix.

    >>> density(Network(a=2.0, activation="tanh"), 6.0, [0.725]).round(3)
    array([0.371])
    """
    model, alpha = network(model), one("alpha", ratio("alpha", alpha))
    values = np.asarray(finite("lam", lam), float)
    if not isotropic(model):
        raise ParameterError(
            "density needs a G that is a multiple of the identity; this network has a matrix G"
        )
    if not np.isfinite(floor_of(model).value):
        raise ParameterError("density needs weights that are bounded below")
    inputs = model.inputs() or (np.ones(1), np.ones(1))
    rough, fine = (
        np.array([_at(node_law(model, h), inputs, alpha, v) for v in values.ravel()]) for h in _STEPS
    )
    steady = np.abs(fine - rough) <= _STEADY * (1 + np.abs(fine))
    return np.where(steady, fine, np.nan).reshape(values.shape)


def _at(law: NodeLaw, inputs: tuple[Array, Array], alpha: float, lam: float) -> float:
    """rho at one lam, NaN where no root with Im g <= 0 is reached."""
    s, w = inputs
    g: Any = 0
    k: Any = 0
    for height in _HEIGHTS * law.scale:
        z = complex(lam, height)
        g = g or w @ s / z
        for _ in range(40):
            a = law.f / (1 - g * law.f)
            k = alpha * (law.coefficients @ a)
            h = s / (z - s * k)
            move = (g - w @ h) / (1 - (w @ h**2) * alpha * (law.coefficients @ a**2))
            g -= move
            if abs(move) <= 1e-13 * abs(g):
                break
        else:
            return np.nan
        if not g.imag <= 1e-12 * abs(g):
            return np.nan
    return float(-(w @ (1 / (lam - s * k))).imag / np.pi)
