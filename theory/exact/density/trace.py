"""The bulk as a curve: the resolvent on the real line without solving for the energy, in units of (p/2) H.

With w = -1/t = u + iv the Dyson equation (theory.exact.density.density) reads lambda = w + alpha E[ f w/(w -
f) ], whose imaginary
part

    v ( 1 - alpha E[ f^2 / ((f - u)^2 + v^2) ] ) = 0

has, as the average falls with v, one solution v > 0 at each u inside the support and none outside it; lambda rises with u
along the curve (P. Biane, Indiana Univ. Math. J. 46, 705, 1997, has the same for the free convolution with a semicircle). So
a whole density costs one real unknown for each point and no path from far above the axis: lambda follows from u.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.exact.density.resolvent import NEAR_AXIS
from theory.exact.density.weight_law import WeightLaw

Real = NDArray[np.float64]
Complex = NDArray[np.complex128]

STEPS = 60  # of Newton's method, which cannot leave the interval below the solution
SETTLED = 1e-12  # relative change of v^2 that ends it
CLOSE = 0.03  # Im t below this times Re t: the share in its accurate form, where the weight has no density


def trace(law: WeightLaw, alpha: float, u: Real) -> tuple[Real, Complex]:
    """Energies lambda (n,) and t (n,) there, from u = Re(-1/t) (n,), u != 0; increasing u give increasing energies.

    Where v turns out below NEAR_AXIS |u| the point stands at Re t = -1/u instead, and its imaginary part has
    relative accuracy as in theory.exact.density.resolvent. Im t = 0 where u is outside the support.
    """
    v = NEAR_AXIS * np.abs(u)
    inside = _share(law, alpha, u, v)[0] >= 1
    t = np.empty(u.size, dtype=np.complex128)
    t[inside] = -1 / (u[inside] + 1j * _height(law, alpha, u[inside], v[inside]))
    t[~inside] = _near(law, alpha, -1 / u[~inside])
    return (-1 / t + alpha * law.transform(t)[0]).real, t


def _share(law: WeightLaw, alpha: float, u: Real, v: Real) -> tuple[Real, Real]:
    """alpha E[f^2/((f - u)^2 + v^2)] and its derivative by v^2."""
    w: Any = u + 1j * v
    t: Any = -1 / w
    value, slope = law.transform(t)
    share = -alpha * value.imag / v
    # Off the support of f and close to the axis, Im K is nearly 0 and not divided by v: a law of few digits would show.
    gap = (
        (t.real > (-law.model.a if math.isinf(law.model.p) else 0.0))
        & (t.real < 1)
        & (t.imag < CLOSE * np.abs(t.real))
    )
    share[gap] = -alpha * law.slope(t.real[gap], t[gap]).real / np.abs(w[gap]) ** 2
    return share, -(alpha * (slope / w**2).real + share) / (2 * v**2)


def _height(law: WeightLaw, alpha: float, u: Real, v: Real) -> Real:
    """v (n,) where the share is 1, from v where it is larger. Newton's method for 1/share as a function of v^2, which is
    concave and rising (the share being a Stieltjes function of v^2): from below it rises to the solution without passing it.
    A law of few digits may bend the share close to the axis: what leaves the bracket halves it, in the logarithm."""
    lower, upper = (
        v**2,
        np.full(u.size, alpha * abs(np.sum(law.mass / law.pole**2))),
    )  # the share is below alpha E f^2/v^2
    square, todo = lower.copy(), np.flatnonzero(lower < upper)
    for _ in range(STEPS):
        at = square[todo]
        share, slope = _share(law, alpha, u[todo], np.sqrt(at))
        low = share >= 1
        lower[todo[low]], upper[todo[~low]] = at[low], at[~low]
        with np.errstate(divide="ignore"):
            new = at + share * (1 - share) / slope
        lost = ~((new >= lower[todo]) & (new <= upper[todo]))
        new[lost] = np.sqrt(lower[todo[lost]] * upper[todo[lost]])
        square[todo] = new
        todo = todo[np.abs(new - at) > SETTLED * new]
        if not todo.size:
            break
    return np.sqrt(square)


def _near(law: WeightLaw, alpha: float, x: Real) -> Complex:
    """t (n,) close to the real axis, at its real parts x: y (1/|t|^2 + alpha Re slope(x, t)) = alpha pi jump(x)."""
    source = alpha * math.pi * law.jump(x)
    y = np.zeros(x.size)
    for _ in range(4):  # y^2 < NEAR_AXIS^2 x^2 is all that changes from one to the next
        t = x + 1j * y
        y = np.maximum(source / (1 / np.abs(t) ** 2 + alpha * law.slope(x, t).real), 0.0)
    return x + 1j * y
