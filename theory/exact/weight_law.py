"""The law of the Hessian's weight f and its transform K(t) at complex t: the one average the density needs.

Notation (derived here; units of (p/2) H). With w the label factor of the weight, w = yhat with probability
(p-1)/p and w = 3 yhat with probability 1/p, the weight is f = (w - y)/(a + y); with t = -(resolvent) in the
upper half plane the Dyson equation reads

    z = Z(t) = -1/t + alpha K(t),        K(t) = E[ f / (1 + t f) ].

f has a density on (-1, inf). The pole f = -1/t lies in the upper half plane, so the integral over f may be
moved into the lower one, where the density continues analytically on f > 0 and on f < 0 separately.
Trapezoid nodes there turn K into a plain sum over poles, good for every t of the closed upper half plane,
the real axis from above included:

    K(t) = sum_j mass_j / (t - pole_j),      pole_j = -1/f_j  in the lower half plane.

On f > 0 the variable is v = f; on f < 0 it is v = -f/(1 + f) = (y - w)/(a + w), with the pole at 1 + 1/v. Both sides need
the same function, the density at v of (A - B)/(a + B) on A > B, for independent positive A and B:

    D(v) = int_0^inf db h_B(b) (a + b) h_A(b + v (a + b)).

Nodes are uniform in log v, hence blind to scale: neither a -> 0 nor t -> inf (lambda -> 0 when alpha < 1)
costs accuracy. The imaginary part of K on the real axis itself, exponentially small at a smooth edge, is D
again, at real v: Im K(x + i0) = -pi D(-1/x)/x^2 for x < 0, -pi D(1/(x-1))/(x-1)^2 for x > 1, and 0 between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from theory.model.network import Network

Real = NDArray[np.float64]
Complex = NDArray[np.complex128]

TILT = math.pi / 4  # how far the contour is turned away from the real axis, in the mapped logarithm
DIGITS = 15  # all that double precision has
ROWS = 64  # rows of a matrix of nodes worked on at a time, so that it stays in cache


@dataclass(frozen=True)
class Rule:
    """How finely the law is cut into nodes: the logarithms of all errors are proportional to `digits`, the digits kept."""

    digits: int = DIGITS
    depth: int = 0  # decades of small f beyond those of the digits

    @property
    def step(self) -> float:
        """Trapezoid step in the mapped logarithm: with TILT 0.11 leaves about 1e-15."""
        return 0.11 * DIGITS / self.digits

    @property
    def decay(self) -> float:
        """Exponents beyond this are dropped; 40 leaves out 4e-18."""
        return 40.0 * self.digits / DIGITS

    @property
    def smallest(self) -> float:
        """Probability left out below the first node."""
        return 10.0 ** -(self.digits + 2 + self.depth)

    @property
    def far(self) -> float:
        """Poles this many times further out than t are summed as a cubic-order series; 4e3 leaves less than 1e-17."""
        return 4e3 ** (self.digits / DIGITS)


@dataclass(frozen=True)
class Chi:
    """A scaled chi-square variable: mean `scale`, `dof` degrees of freedom, carrying probability `share`."""

    share: float
    dof: float
    scale: float

    def log_density(self, x: Real | Complex) -> Real | Complex:
        """Logarithm of share times the density at x, real or complex; a few eps times sqrt(dof) in the bulk."""
        half = self.dof / 2
        ratio = x / self.scale
        log = _log(ratio)
        return half * (log - (ratio - 1)) - log + (_stirling(half) + math.log(self.share / self.scale))

    def largest(self, decay: float) -> float:
        """A point beyond which less than exp(-decay) of the probability lies."""
        return self.scale * (1 + 2 * math.sqrt(2 * decay / self.dof) + 2 * decay / self.dof)


def _log(x):
    """Logarithm of real or complex x, also relatively accurate near 1: half the degrees of freedom multiply it."""
    delta = x - 1
    near = np.abs(delta) < 0.5
    if not np.iscomplexobj(x):
        return np.where(near, np.log1p(np.where(near, delta, 0)), np.log(x))
    real, imag = np.where(near, delta.real, 0), delta.imag
    out = np.empty_like(x)
    out.real = np.where(near, 0.5 * np.log1p(2 * real + real**2 + imag**2), np.log(np.abs(x)))
    out.imag = np.arctan2(x.imag, x.real)
    return out


def _stirling(half: float) -> float:
    """log( half^half exp(-half) / Gamma(half) ) without cancellation at large half."""
    if half < 30:
        return half * math.log(half) - half - float(gammaln(half))
    # Stirling: half log half - half - log Gamma, a difference of large numbers, is what is left of it.
    series = 1 / (12 * half) - 1 / (360 * half**3) + 1 / (1260 * half**5)
    return 0.5 * math.log(half / (2 * math.pi)) - series


def half_width(model: Network) -> float:
    """p/2, the factor from the Hessian to the units of f; 1 for p = inf, where public numbers are in those units already."""
    return 1.0 if math.isinf(model.p) else model.p / 2


def teacher_law(model: Network) -> tuple[Chi, ...]:
    """Law of y, one term of weight 1."""
    return (Chi(1.0, model.p_star, 1.0),)


def student_law(model: Network) -> tuple[Chi, ...]:
    """Law of c yhat over both branches: c = 1 with weight (p-1)/p and c = 3 with weight 1/p."""
    p = model.p
    along = Chi(1 / p, p, 3.0)
    return (along,) if p == 1 else (Chi((p - 1) / p, p, 1.0), along)


# ---- the density D(v) --------------------------------------------------------------------------------------


def graded(low: float, high: float, start: float, ratio: float, step: float, tilt: float = 0.0):
    """Trapezoid nodes and weights for int_low^high dv: uniform in log v up to about `start`, `ratio` finer above.

    The map log v = s - (1 - ratio) log(1 + e^(s - log start)) is analytic; `tilt` shifts s by -i tilt, which
    turns v by -tilt below start and by -ratio tilt above.
    """
    origin = math.log(start)
    first = math.log(low) - origin
    last = math.log(high / start) / ratio if high > start else math.log(high / start)
    s = np.arange(math.floor(first / step), math.ceil(max(last, first + 1) / step) + 1) * step - 1j * tilt
    # log(1 + e^s) without overflow on either side
    soft = np.where(s.real > 0, s, 0) + np.log1p(np.exp(-np.where(s.real > 0, s, -s)))
    log_v = origin + s - (1 - ratio) * soft
    slope = 1 - (1 - ratio) / (1 + np.exp(-s))
    v = np.exp(log_v)
    weight = step * slope * v
    return (v, weight) if tilt else (v.real, weight.real)


def fineness(dof: float) -> float:
    """Relative width of a chi-square of `dof`, in units of one broad enough for the coarse step."""
    return min(1.0, math.acos(10 ** (-1 / max(dof, 2))) / TILT)


def excess_density(upper: tuple[Chi, ...], lower: tuple[Chi, ...], a: float, v, rule: Rule):
    """Density D at v (n,) of (A - B)/(a + B) on A > B, A from `upper`, B from `lower`; v > 0 or |arg v| < pi/2.

    Relative accuracy about 1e-13 (with all digits) also where exponentially small (real v); underflows to 0 below about 1e-300.
    """
    out = np.empty(v.shape, dtype=v.dtype)
    order = np.argsort(np.abs(v))
    with np.errstate(under="ignore", divide="ignore"):
        for first in range(0, v.size, ROWS):
            rows = order[first : first + ROWS]
            b, measure = _lower_measure(
                upper, lower, a, np.abs(v[rows[[0, -1]]]), rule, not np.iscomplexobj(v)
            )
            # A = b + v (a + b)
            at = b + v[rows, None] * (a + b)
            out[rows] = sum(np.exp(law.log_density(at) + measure).sum(axis=1) for law in upper)
    return out


def _lower_measure(
    upper: tuple[Chi, ...], lower: tuple[Chi, ...], a: float, ends: Real, rule: Rule, tails: bool
) -> tuple[Real, Real]:
    """Nodes b and log of h_B(b) (a + b) db fit for |v| between ends (2,), nodes without weight left out. tails: fit for
    tails of D too, however small it is there."""
    smallest = max(float(ends[0]), 1e-200)
    ratio = min(fineness(upper[0].dof), fineness(lower[0].dof))
    # Probability b^(dof/2) below it
    low = math.exp(-2 * rule.decay / lower[0].dof)
    if upper[0].dof < 2:
        low *= min(1.0, a * smallest)  # the density of A, singular at 0, feels b ~ a v
    start = 0.2 * (min(1.0, a) if upper[0].dof > 2 else 1.0)
    if tails:
        # h_A at b + v (a + b) far out tilts the law of b by exp(-(dof/2) (1 + v) b / scale): it shrinks to small b. There its
        # density, (x exp(1 - x))^(dof/2) of its largest, falls by exp(-decay) down to x = exp(-1 - 2 decay/dof).
        rate = max(law.dof / law.scale for law in upper) * max(law.scale / law.dof for law in lower)
        shrunk = 1 / (1 + rate * (1 + float(ends[1])))
        low, start = low * shrunk / math.e, start * shrunk
    b, weight = graded(low, max(law.largest(rule.decay) for law in lower), start, ratio, 2 * rule.step)
    measure = np.log(weight * (a + b)) + np.log(sum(np.exp(law.log_density(b)) for law in lower))
    near, far = b + ends[:, None] * (a + b)
    at_ends = np.maximum.reduce([law.log_density(np.stack([near, far])) for law in upper]) + measure
    best = np.maximum.reduce([law.log_density(np.clip(law.scale, near, far)) for law in upper]) + measure
    kept = best > np.min(np.max(at_ends, axis=1)) - rule.decay - 10  # 10: growth of h_A off the real axis
    return b[kept], measure[kept]


# ---- the transform K(t) ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WeightLaw:
    """The law of f for one model as masses on poles in the lower half plane; see the module's docstring.

    pole, mass (n,)     complex, ordered by |pole|
    distance (n,)       |pole|
    beyond (3, n + 1)   -sum of mass/pole^(k+1) over the poles from each one on: powers of t that stand for far poles
    rule                how finely the law is cut
    """

    model: Network
    pole: Complex
    mass: Complex
    distance: Real
    beyond: Complex
    rule: Rule

    def transform(self, t: Complex) -> tuple[Complex, Complex]:
        """K(t) and K'(t), at t (n,) in the closed upper half plane."""
        out = np.empty((2, t.size), dtype=np.complex128)
        for rows, last, (c0, c1, c2) in self._blocks(t):
            at, mass = t[rows], self.mass[:last]
            inverse = np.reciprocal(at[:, None] - self.pole[:last])
            out[0, rows] = _times(inverse, mass) + (c0 + at * (c1 + at * c2))
            out[1, rows] = (c1 + 2 * at * c2) - _times(inverse * inverse, mass)
        return out[0], out[1]

    def remainder(self, t: Complex) -> tuple[Complex, Complex]:
        """R(t) = 1 - t K(t) = E[1/(1 + t f)] and R'(t) without cancellation at large t (n,): there R ~ 1/t."""
        out = np.empty((2, t.size), dtype=np.complex128)
        weighted = self.mass * self.pole
        for first in range(0, t.size, ROWS):
            rows = slice(first, first + ROWS)
            inverse = np.reciprocal(t[rows, None] - self.pole)
            out[0, rows], out[1, rows] = -_times(inverse, weighted), _times(inverse * inverse, weighted)
        return out[0], out[1]

    def slope(self, x: Real, t: Complex) -> Complex:
        """(K(t) - K(x + i0)) / (t - x) without cancellation: real x (n,), t (n,) in the closed upper half plane."""
        out = np.empty(t.size, dtype=np.complex128)
        for rows, last, (_, c1, c2) in self._blocks(t):
            # 1/(t - pole) - 1/(x - pole) over t - x is -1/((x - pole)(t - pole)).
            product = (x[rows, None] - self.pole[:last]) * (t[rows, None] - self.pole[:last])
            out[rows] = (c1 + (x[rows] + t[rows]) * c2) - _times(np.reciprocal(product), self.mass[:last])
        return out

    def jump(self, x: Real) -> Real:
        """-Im K(x + i0) / pi at real x (n,), with relative accuracy however small; exactly 0 on [0, 1]."""
        a, out = self.model.a, np.zeros(x.size)
        left, right = x > 1, x < 0
        if math.isinf(self.model.p):
            right = x < -a
            both = left | right
            # f = -1/x at p = inf, solved for y
            y = (x[both] + a) / (x[both] - 1)
            density = sum(np.exp(law.log_density(y)) for law in teacher_law(self.model))
            out[both] = density * (1 + a) / (x[both] - 1) ** 2
            return out
        student, teacher = student_law(self.model), teacher_law(self.model)
        out[right] = excess_density(student, teacher, a, -1 / x[right], self.rule) / x[right] ** 2
        out[left] = excess_density(teacher, student, a, 1 / (x[left] - 1), self.rule) / (x[left] - 1) ** 2
        return out

    def _blocks(self, t: Complex) -> Iterator[tuple[slice, int, Complex]]:
        """Rows of t that fit the cache, the number of poles close enough to count singly, the rest as a series in t."""
        for first in range(0, t.size, ROWS):
            rows = slice(first, first + ROWS)
            last = int(
                np.searchsorted(self.distance, self.rule.far * max(1.0, float(np.max(np.abs(t[rows])))))
            )
            yield rows, last, self.beyond[:, last]


def _times(matrix: Complex, vector: Complex) -> Complex:
    """matrix @ vector without BLAS, whose threads cost more than they bring on blocks this small."""
    return np.einsum("ij,j->i", matrix, vector)


@lru_cache(maxsize=64)
def weight_law(model: Network, digits: int = DIGITS) -> WeightLaw:
    """The law of f for a quadratic committee without options, computed once for so many digits."""
    return _law(model, teacher_law(model), Rule(digits))


@lru_cache(maxsize=16)
def deep_law(model: Network) -> WeightLaw:
    """The same with nodes of f down to 1e-60, for alpha = 1 next to lambda = 0, where t goes to infinity."""
    return _law(model, teacher_law(model), Rule(depth=45))


@lru_cache(maxsize=64)
def signal_law(model: Network) -> WeightLaw:
    """The law of f biased by y, whose transform is S(t) = E[y f / (1 + t f)]: y times its law is a law of p_star + 2 squares.
    Its `transform` alone is meant: `jump` is that of the law without bias."""
    return _law(model, (Chi(1.0, model.p_star + 2, 1 + 2 / model.p_star),), Rule())


def _law(model: Network, teacher: tuple[Chi, ...], rule: Rule) -> WeightLaw:
    pole, mass = (_infinite_width if math.isinf(model.p) else _finite_width)(model, teacher, rule)
    order = np.argsort(np.abs(pole))
    pole, mass = pole[order], mass[order]
    # mass/(t - pole) = -mass/pole (1 + t/pole + t^2/pole^2 + ...), beyond a pole far out
    terms = -mass / pole ** np.arange(1, 4)[:, None]
    beyond = np.concatenate([np.cumsum(terms[:, ::-1], axis=1)[:, ::-1], np.zeros((3, 1))], axis=1)
    return WeightLaw(model, pole, mass, np.abs(pole), beyond, rule)


def _finite_width(model: Network, teacher: tuple[Chi, ...], rule: Rule) -> tuple[Complex, Complex]:
    student = student_law(model)
    f, positive = _side(student, teacher, model.a, rule)
    u, negative = _side(teacher, student, model.a, rule)
    return np.concatenate([-1 / f, 1 + 1 / u.conj()]), np.concatenate([positive, negative.conj()])


def _side(
    upper: tuple[Chi, ...],
    lower: tuple[Chi, ...],
    a: float,
    rule: Rule,
    tilt: float = TILT,
    more: float = 0.0,
):
    """Nodes v, turned into the lower half plane by `tilt`, and probabilities D(v) dv on one side of f = 0.

    more: exponents kept beyond those of the rule, for moments.
    """
    high = max(law.largest(rule.decay + more) for law in upper) / a
    ratio = fineness(upper[0].dof)
    start = min(
        0.5 * ratio / (1 + a), high / 2
    )  # h_A at b + v (a + b) feels the turn of v once v (1 + a) is not small
    v, dv = graded(rule.smallest / (1 + a), high, start, ratio, rule.step, tilt)
    return v, excess_density(upper, lower, a, v, rule) * dv


def _infinite_width(model: Network, teacher: tuple[Chi, ...], rule: Rule) -> tuple[Complex, Complex]:
    """p = inf: yhat = 1, f = (1 - y)/(a + y); y turned into the upper half plane."""
    (law,) = teacher
    low = math.exp(-2 * rule.decay / law.dof)
    y, dy = graded(low, law.largest(rule.decay), 0.2, fineness(law.dof), rule.step, TILT)
    y, dy = y.conj(), dy.conj()
    return (model.a + y) / (y - 1), np.exp(law.log_density(y)) * dy


def weight_moments(model: Network, order: int) -> Real:
    """E[f^n] for n = 1..order (units of (p/2) H): (1/p) E Tr ((p/2) F)^n, from nodes on the real line."""
    a, rule, more = model.a, Rule(), 4.0 * order
    student, teacher = student_law(model), teacher_law(model)
    if math.isinf(model.p):
        (law,) = teacher
        low = math.exp(-2 * rule.decay / law.dof)
        y, dy = graded(low, law.largest(rule.decay + more), 0.2, fineness(law.dof), rule.step)
        f, mass = (1 - y) / (a + y), np.exp(law.log_density(y)) * dy
    else:
        v, positive = _side(student, teacher, a, rule, 0.0, more)
        u, negative = _side(teacher, student, a, rule, 0.0, more)
        f, mass = np.concatenate([v, -u / (1 + u)]), np.concatenate([positive, negative])
    return np.array([np.sum(mass * f**n) for n in range(1, order + 1)])


def compound_moment(alpha: Real, cumulants: Real) -> Real:
    """The last moment of the spectrum at alpha (n,), from E f^k, k = 1, 2, ...: a free compound Poisson law."""
    k = len(cumulants)
    moments = np.zeros((k + 1, alpha.size))
    powers = np.zeros((k + 1, k + 1, alpha.size))  # [x^j] (sum_i m_i x^i)^s at [s, j]
    moments[0], powers[:, 0] = 1.0, 1.0
    for n in range(1, k + 1):
        s = np.arange(1, n + 1)
        # Non-crossing partitions by the block that holds the first element, of size s
        moments[n] = alpha * np.einsum("s,sa->a", cumulants[:n], powers[s, n - s])
        # (sum)^s = (sum)^(s-1) + (sum - 1) (sum)^(s-1), for those s that higher moments ask for at this order
        grown = np.einsum("ia,sia->sa", moments[1 : n + 1], powers[: k - n + 1, n - 1 :: -1][:, :n])
        powers[1 : k - n + 2, n] = np.cumsum(grown, axis=0)
    return moments[k]
