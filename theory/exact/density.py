"""The bulk spectrum of the Hessian: resolvent, density on the real line, moments; and how the signal is spread over it.

Everything follows from the scalar Dyson equation (arXiv 2510.18435; resummation of the self-energy)

    1/g = z - alpha E[ ((p-1)/p) phi_1 + (1/p) phi_2 ],    phi_i = f_i/(1 - g f_i),    g = (1/pN) E Tr (z - H)^{-1},

which gives z explicitly as a function of g. With t = -2g/p, and in the units of (p/2) H, it reads

    Z(t) = -1/t + alpha K(t) = z

(theory.exact.weight_law: K; theory.exact.resolvent: solving it). The density is the imaginary part of t on the real line.

Signal directions (derived here): the resolvent between two copies of a signal direction e_k (x) w*_l / sqrt(N) is

    s(z) = 1 / (z - alpha S(t(z))),        S(t) = E[y f / (1 + t f)],

in units of (p/2) H. Its density rho_s = -(1/pi) Im s(lambda + i0) beside that of the bulk, rho: the squared overlaps of the
eigenvectors in an interval add up to p p_star times the integral of rho_s over it, so that an eigenvector at lambda inside the
bulk has mean overlap (p_star / N) rho_s / rho. Outside the bulk s has a pole exactly where the teacher's outlier is, with
residue q2: one measure holds both. S is the average of theory.exact.weight_law under the law of y biased by y, again a
chi-square mean, of p_star + 2 squares.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import (
    ParameterError,
    broadcast,
    count,
    finite,
    numpy_defaults,
    one,
    ratio,
    shown,
    upper_half_plane,
)
from theory.exact import committee, finite_committee
from theory.exact.bulk import edges
from theory.exact.resolvent import look, solve, solve_many
from theory.exact.weight_law import (
    DIGITS,
    WeightLaw,
    compound_moment,
    deep_law,
    excess_density,
    half_width,
    signal_law,
    student_law,
    teacher_law,
    weight_law,
    weight_moments,
)
from theory.model.network import Network

Real = NDArray[np.float64]
Complex = NDArray[np.complex128]

FEWEST = 8  # digits that may be asked for
SMALLEST, LARGEST = 1e-100, 1e100  # |z| beyond these: the leading law, as squares of t must not overflow
CRITICAL = 1e-100  # |z| below this follow the power law of alpha = 1
# |z| below these times 1 - alpha and its square: t is that of the atom and its first correction
BESIDE = 1e-15, 1e-9
# |z| and |alpha - 1| below these: t feels weights so small that other laws have no nodes there
DEEP, NEAR_ONE = 1e-22, 1e-11
HIGHEST, LOST = 256, 1e-6  # moment, and the share of it that rounding may be
WIDEST = 1e8  # the nodes of the law of f are as many as the square root of p or p_star
_FINE = 801  # nodes of the integrals of overlaps
MANY = 16  # energies of one alpha from which they start from a look at its bulk
ONE = 1e-13  # |alpha - 1| below this is rounding
ROUNDING = 8 * np.finfo(float).eps  # energies closer than this, relatively, to an edge cannot be told from it


@numpy_defaults
def stieltjes(model: Network, alpha: ArrayLike, z: ArrayLike) -> Any:
    """Resolvent g(z) = (1/pN) E Tr (z - H)^{-1} as N -> inf, for Im z > 0.

    Real and imaginary part are each accurate relatively, however close z is to the real axis.

    Parameters
    ----------
    model : Network
        A quadratic committee without options.
    alpha : float or array
        M/N.
    z : complex or array
        Im z > 0 and 1e-300 <= |z| <= 1e300; alpha and z broadcast.

    Returns
    -------
    complex or array
        In units of 1/H, for p = inf that of (p/2) H.

    Raises
    ------
    ParameterError
        On unfit arguments.

    >>> complex(np.round(stieltjes(Network(1, 1, 1.0), 1.5, 0.5 + 0.1j), 6))
    (0.303683-0.608968j)
    """
    law, scale = _law(model), half_width(model)
    alphas, points = broadcast(alpha=_ratio(alpha), z=upper_half_plane("z", z))
    shape, alphas, points = points.shape, alphas.ravel(), points.ravel() * (scale + 0j)
    far, origin = np.abs(points) > LARGEST, _beside_atom(alphas, points)
    inner = ~(far | origin)
    t = -np.where(origin, 1 - alphas, 1.0) / points
    for i in np.flatnonzero(origin):
        # Beside the atom t = -(1 - alpha)/z, and Im t is that of the density at 0.
        rest = math.pi * _limit_at_zero(law, float(alphas[i]), abs(points[i]))
        t[i] += 1j * rest if math.isfinite(rest) else 0.0
    moved, factor = _off_critical(alphas[inner], points[inner])
    t[inner] = factor * _solve(law, alphas[inner], moved)
    g = (-scale * t).reshape(shape)
    return complex(g) if g.ndim == 0 else g


def committee_density(model: Network, alpha: ArrayLike, lam: ArrayLike, digits: int = DIGITS) -> Any:
    """`theory.density` of a quadratic committee without options.

    Exactly 0 outside the support. Inside it the accuracy is relative down to about 1e-290, limited only by the rounding of lam
    itself (1e-16 |lam| times the slope of log rho, or of sqrt at a sharp edge). At lam = 0 the limit beside the atom for alpha
    < 1 (inf where p = p_star = 1); inf for alpha = 1. Many lam at one alpha are fastest.
    """
    alphas, lams = broadcast(alpha=_ratio(alpha), lam=finite("lam", lam))
    t, scale = bulk_resolvent(model, alphas.ravel(), lams.ravel(), digits)
    rho = (scale * t.imag / math.pi).reshape(lams.shape)
    return float(rho) if rho.ndim == 0 else rho


@numpy_defaults
def bulk_resolvent(model: Network, alpha: Any, lam: Real, digits: int = DIGITS) -> tuple[Complex, float]:
    """t = -(2/p) g at real eigenvalues lam (n,) inside the support, 0 outside it; and the factor p/2 from H to its units.

    model is a quadratic committee without options, alpha a number or (n,). At lam = 0 beside the atom only the imaginary part
    is meant.
    """
    law, scale = _law(model, digits), half_width(model)
    alphas = np.broadcast_to(np.asarray(alpha, dtype=np.float64), lam.shape)
    energy = np.clip(lam, -LARGEST, LARGEST) * scale
    left, right, start = _edges(law, alphas)
    # Closer to an edge than rounding an energy is outside: t is real there.
    blur = ROUNDING * np.abs(energy)
    origin = _beside_atom(alphas, energy)
    # The density has no bound where alpha is 1.
    pole = (alphas == 1) & (energy == 0)
    inside = (energy - blur > left) & (energy + blur < right) & ~origin & ~pole
    t = np.where(pole, complex(-math.inf, math.inf), 0.0)
    for i in np.flatnonzero(origin):
        t[i] = complex(0.0, math.pi * _limit_at_zero(law, float(alphas[i]), abs(energy[i])))
    moved, factor = _off_critical(alphas[inside], energy[inside])
    t[inside] = factor * _solve_real(law, alphas[inside], moved, start[inside])
    return t, scale


def looked_at(model: Network, alpha: float, digits: int = DIGITS) -> tuple[Real, Real]:
    """Eigenvalues (n,) from the left edge on, in geometric progression from there and from 0, and the density there."""
    law, (edge, r) = _law(model, digits), edges(model, alpha)
    lam, t = look(law, alpha, -float(1 + r))
    # The edge itself, to the digits of the averages on the real axis
    return np.append(edge, lam[1:]), half_width(model) * t.imag / math.pi


@numpy_defaults
def moment(model: Network, alpha: ArrayLike, k: int) -> Any:
    """k-th moment of the spectrum, int lambda^k d(mu) = lim (1/pN) E Tr H^k, the atom included; k >= 0.

    The spectrum is a free compound Poisson law: its free cumulants are c_n = alpha E[(1/p) Tr F^n], and
    the moments follow by counting non-crossing partitions, m_n = sum_s c_s [x^{n-s}] (sum_i m_i x^i)^s.

    Parameters
    ----------
    model : Network
        A quadratic committee without options.
    alpha : float or array
        M/N.
    k : int
        From 0 to 256.

    Returns
    -------
    float or array
        Of the shape of alpha, in units of H^k, for p = inf of ((p/2) H)^k.

    Raises
    ------
    ParameterError
        On unfit arguments, and where the moment overflows or loses its digits.

    >>> round(float(moment(Network(1, 1, 1.0), 1.5, 1)), 6)
    4.868155
    """
    scale, alpha = half_width(_narrow(model)), np.asarray(ratio("alpha", alpha))
    k = count("k", k, 0)
    if k > HIGHEST:
        raise ParameterError(f"k must be at most {HIGHEST}, got {shown(k)}")
    with np.errstate(all="ignore"):
        cumulants = weight_moments(model, k)
        # of absolute values beside, whose rounding bounds that of the sums
        found, size = (
            compound_moment(alpha.ravel(), c).reshape(alpha.shape) for c in (cumulants, np.abs(cumulants))
        )
        value = found / scale**k
    if not np.all(np.isfinite(value)):
        raise ParameterError(f"k = {k} is too high a moment for this model: it overflows")
    if np.any(k * np.finfo(float).eps * size > LOST * np.abs(found)):
        raise ParameterError(
            f"k = {k} is too high a moment for this model: terms of both signs leave no digits"
        )
    return float(value) if value.ndim == 0 else value


# ---- units, arguments --------------------------------------------------------------------------------------


def _law(model: Network, digits: int = DIGITS) -> WeightLaw:
    """The law of the weights of a committee that is not too wide, with so many digits."""
    if count("digits", digits, FEWEST) > DIGITS:
        raise ParameterError(f"digits must be at most {DIGITS}, got {digits}")
    return weight_law(_narrow(model), digits)


def _narrow(model: Network) -> Network:
    for name, size in (("p", committee(model).p), ("p_star", model.p_star)):
        if WIDEST < size < math.inf:
            raise ParameterError(f"{name} must be at most {WIDEST:g} for the density, got {shown(size)}")
    return model


def _ratio(alpha: ArrayLike) -> Any:
    """alpha, checked; one that is 1 but for rounding is 1, as the law next to 0 is another on either side of it."""
    alpha = ratio("alpha", alpha)
    return np.where(np.abs(np.asarray(alpha) - 1) < ONE, 1.0, alpha)


# ---- the real line -----------------------------------------------------------------------------------------


def _solve_real(law: WeightLaw, alpha: Real, energy: Real, start: Real) -> Complex:
    """t at energies (n,) inside the support, whose left edges are at u = `start`: alpha by alpha where several energies share
    one, the others together."""
    t = np.empty(energy.shape, dtype=np.complex128)
    values, group, members = np.unique(alpha, return_inverse=True, return_counts=True)
    several = (members[group] >= MANY) & ~_is_deep(alpha, energy)
    t[~several] = _solve(law, alpha[~several], energy[~several].astype(np.complex128))
    for index in np.flatnonzero(members >= MANY):
        mine, value = np.flatnonzero((group == index) & several), float(values[index])
        distinct, back = np.unique(energy[mine], return_inverse=True)
        t[mine] = solve_many(law, value, distinct, float(start[mine[0]]))[back]
    return t


def _solve(law: WeightLaw, alpha: Real, z: Complex) -> Complex:
    """t at z (n,), by the law that has the nodes for it."""
    t, deep = np.empty(z.shape, dtype=np.complex128), _is_deep(alpha, z)
    t[~deep] = solve(law, alpha[~deep], z[~deep])
    if np.any(deep):
        t[deep] = solve(deep_law(law.model), alpha[deep], z[deep])
    return t


def _is_deep(alpha: Real, z: Any) -> Any:
    return (np.abs(z) < DEEP) & (np.abs(alpha - 1) < NEAR_ONE)


def _off_critical(alpha: Real, z: Any) -> tuple[Any, Real]:
    """At alpha = 1, where t ~ z^(-1/2): z moved out to |z| = CRITICAL, and the factor that takes t back; 1 elsewhere."""
    size = np.abs(z)
    critical = (alpha == 1) & (size < CRITICAL)
    with np.errstate(divide="ignore"):
        ratio = CRITICAL / size[critical]
    factor = np.ones(z.shape)
    factor[critical] = np.sqrt(ratio)
    moved: Any = z.copy()
    moved[critical] = np.where(
        size[critical] > 0, z[critical] * np.where(np.isinf(ratio), 1, ratio), CRITICAL
    )
    return moved, factor


def _edges(law: WeightLaw, alpha: Real) -> tuple[Real, Real, Real]:
    """Left and right end of the support at each alpha (n,), in units of (p/2) H, the right one inf unless p = inf; and
    u = Re(-1/t) at the left one."""
    values, back = np.unique(alpha, return_inverse=True)
    left, r = edges(law.model, values)
    right = np.full(values.shape, math.inf)
    if math.isinf(law.model.p):
        right[:] = [_right_edge(law, float(value)) for value in values]
    return half_width(law.model) * left[back], right[back], -(1 + r[back])


def _right_edge(law: WeightLaw, alpha: float) -> float:
    """Right edge for p = inf, where f < 1/a: Z where the real branch from t = 0- ends, at dZ/dt = 0 or at t = -a.

    t^2 Z'(t) = 1 - alpha E[(t f/(1 + t f))^2] falls steadily along the branch, so bisection in t cannot miss.
    """
    limit = -law.model.a

    def rises(t: float) -> bool:
        if t == limit and law.model.p_star <= 4:
            return False  # y^(p_star/2 - 1)/y^2 is not integrable at y = 0
        return 1 + alpha * t**2 * law.transform(np.array([t], dtype=np.complex128))[1].real[0] >= 0

    # Bisection to the last bit: the midpoint is then one of the ends.
    t, beyond = (limit, limit) if rises(limit) else (0.0, limit)
    while (middle := 0.5 * (t + beyond)) not in (t, beyond):
        t, beyond = (middle, beyond) if rises(middle) else (t, middle)
    return -1 / t + alpha * float(law.transform(np.array([t], dtype=np.complex128))[0].real[0])


def _beside_atom(alpha: Real, z: Any) -> Any:
    """Where, for alpha < 1, z is so close to the atom at 0 that t is -(1 - alpha)/z and its first correction."""
    gap = np.maximum(1 - alpha, 0)
    return (alpha < 1) & (np.abs(z) < np.maximum(SMALLEST, np.minimum(BESIDE[0] * gap, BESIDE[1] * gap**2)))


def _limit_at_zero(law: WeightLaw, alpha: float, distance: float) -> float:
    """Density this close to 0 for alpha < 1: alpha q(f)/(1 - alpha) at f = lambda/(1 - alpha), q the density of f."""
    model = law.model
    if model.p + model.p_star <= 2 and distance == 0:
        return math.inf
    near = max(distance / (1 - alpha), 1e-150)
    if math.isinf(model.p):
        (teacher,) = teacher_law(model)
        weight = (1 + model.a) * float(np.exp(teacher.log_density(np.array([1.0])))[0])
    else:
        weight = float(
            excess_density(student_law(model), teacher_law(model), model.a, np.array([near]), law.rule)[0]
        )
    return alpha * weight / (1 - alpha)


# ---- signal directions ----


@numpy_defaults
def overlap_density(model: Network, alpha: float, lam: ArrayLike) -> Any:
    """rho_s at energies lam inside the bulk: density of squared overlap with one signal direction, as N -> inf; 0 outside.

    Its integral over the bulk is 1 without an outlier and 1 - q2 with one; for alpha < 1 a part sits on the atom.

    Parameters
    ----------
    model : Network
        A quadratic committee without options.
    alpha : float
        M/N.
    lam : float or array
        Eigenvalues.

    Returns
    -------
    float or array
        Of the shape of lam, in units of 1/H, for p = inf of 1/((p/2) H).

    Raises
    ------
    ParameterError
        As `theory.density`.

    >>> overlap_density(Network(1, 1, 1.0), 1.5, [-5.0, 0.5]).round(6)
    array([0.      , 0.165504])
    """
    energy = np.asarray(finite("lam", lam), dtype=np.float64)
    alpha = one("alpha", ratio("alpha", alpha))
    t, scale = bulk_resolvent(model, alpha, energy.ravel())
    inside = t.imag > 0
    rho = np.zeros(energy.size)
    # rho_s = -Im s / pi, s = 1 / (z - alpha S)
    block = scale * energy.ravel()[inside] - alpha * signal_law(model).transform(t[inside])[0]
    rho[inside] = -scale / math.pi * (1 / block).imag
    return float(rho[0]) if energy.ndim == 0 else rho.reshape(energy.shape)


@numpy_defaults
def level_overlap(model: Network, alpha: float, n: int, k: ArrayLike) -> Any:
    """Mean squared overlap of the k-th lowest eigenvalue of the bulk in dimension n, k = 1, 2, ..., if eigenvalues stood still:

        q2_k = p p_star (integral of rho_s between the (k - 1)/(p n) and the k/(p n) quantile of rho).

    Above the threshold k counts from the edge on, the p p_star outliers apart. Eigenvalues near the edge fluctuate and share
    what each has alone here: found and predicted for k = 1, 2, 3 at p = 1, a = 0.5, alpha = 1.1, N = 200: 0.071(4), 0.039(3),
    0.024(2) and 0.092, 0.030, 0.022. theory.finite.law draws them.

    Parameters
    ----------
    model : Network
        A quadratic committee of finite p.
    alpha : float
        M/N.
    n : int
        Input dimension N.
    k : int or array
        From 1 on.

    Returns
    -------
    float or array
        Of the shape of k.

    Raises
    ------
    ParameterError
        As `theory.density`, on p = inf, and where the bulk below 0 does not have k eigenvalues.

    >>> level_overlap(Network(1, 1, 0.5), 1.1, 200, [1, 2, 3]).round(3)
    array([0.092, 0.03 , 0.022])
    """
    model, n = finite_committee(model), count("n", n)
    wanted = np.asarray(k)
    if wanted.dtype.kind not in "iu" or np.any(wanted < 1):
        raise ParameterError(f"k must be a positive integer, or an array of them, got {k!r}")
    edge, order = float(edges(model, one("alpha", ratio("alpha", alpha)))[0]), int(model.p) * n
    s, width = np.linspace(0, 1, _FINE), 1e-3 * abs(edge)
    while True:
        # rho ~ (lambda - edge)^(1/2): even steps in the root
        x = np.minimum(edge + width * s**2, 1e-9 * edge)  # short of the atom at 0
        jacobian = 2 * width * s
        levels = order * _running(committee_density(model, alpha, x[1:]) * jacobian[1:])
        if levels[-1] >= wanted.max():
            break
        if width >= abs(edge):
            raise ParameterError(
                f"k must be at most {int(levels[-1])}, the levels below 0, got {int(wanted.max())}"
            )
        width = min(2 * width, abs(edge))
    shares = _running(overlap_density(model, alpha, x[1:]) * jacobian[1:])
    # rho_s as a function of the count, between one quantile and the next
    above, below = (np.interp(v, levels, shares) for v in (wanted, wanted - 1))
    found = model.degeneracy * (above - below)
    return float(found) if wanted.ndim == 0 else found


def _running(values: Any) -> Any:
    """Running integral of values on the _FINE even nodes of [0, 1] but the first, where they are 0, by trapezoids."""
    values = np.concatenate([[0.0], values])
    steps = (values[1:] + values[:-1]) / (2 * (_FINE - 1))
    return np.concatenate([[0.0], np.cumsum(steps)])
