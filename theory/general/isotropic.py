"""Edge, outliers and threshold where the resolvent is a multiple of the identity, G = g I, for inputs of any covariance.

Holds for p = 1, for p = inf, and for even activations at any p. Derived here. With q = -1/g > 0 and A = f q / (q + f) =
f / (1 - g f), a law of weights gives K(q) = E A and K2(q) = E A^2 (traces over p), and for each block of spike directions v
the matrices X = E[v v^T A], X2 = E[v v^T A^2]. With inputs of covariance eigenvalues s of law nu, kappa = alpha K,

    R(z) = (z - kappa Sigma)^{-1},   g = int s/(z - kappa s) dnu,   outliers: 1 = eigenvalue of alpha (X - K) h_2(z),

h_j = int s^j/(z - kappa s) dnu. Take zeta = z / alpha and M_1 = int s/(K s - zeta), M_2 = int s^2/(K s - zeta)^2 (dnu). Then

    the equation for g         alpha = q M_1(zeta)
    dz/dg = 0, a sharp edge    alpha = K2 M_2(zeta)
    outlier                    1 = eigenvalue of (K - X) int s^2/(K s - zeta) dnu.

So q parametrises the line of sharp edges: zeta is the one root of K2 M_2 = q M_1 (M_2/M_1 grows with zeta), alpha and z follow
without iteration. alpha grows along it from alpha_c at q_min = -infimum of f; below alpha_c the edge is smooth, at q_min.
For Sigma = I it is alpha = q^2 / K2, z = alpha K - q, and the outlier is 1 = eigenvalue of alpha (K - X) / q.

All is done in d = q - q_min, for where the infimum is taken at an improbable place K2 diverges as d -> 0 with a tiny factor:
d at the edge is then far below rounding of q. The edge is the maximum of z over d >= 0, and z is concave: so z at any d is a
bound from below, and at the first d of the line it is the edge as closely as anyone can tell. Such an edge is called smooth:
its square root shows at no N.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.answers import Outlier, Threshold, zero_of
from theory.checks import NotConverged, ParameterError, broadcast, finite, one

Array = NDArray[Any]

_EPS = 4 * np.finfo(float).eps
_FAR = 300.0  # logarithm at which every search for a bracket ends
_NEAREST = 1e-14  # d / q_min of the first point of the line where averages at q_min do not exist: rounding of weights
_NEXT = 1e-8  # d / q_min at which averages are still those at q_min
_NEAR_ZERO = 1e-3  # of an outlier, relative to the lowest of K s: there it is 0 to few digits
_MARGINAL = 1e-10  # relative distance of alpha from alpha_c that is rounding
_AHEAD = 4e-4  # in log q: what the difference below leaves is 1e-10, rounding 1e-11
_ONE_SIDED = np.array([-25, 48, -36, 16, -3]) / 12  # first derivative from five points ahead, of fourth order
_NEIGHBOURS = np.geomspace(1e-3, 1e3, 13)  # times a known d: where changes of sign are looked for
_BELOW = 1e-6  # relative distance by which rounding may put a node below the infimum,
_PART = 8192  # terms of a sum by BLAS in one thread
_ROUNDED = 1e-9  # and share of nodes where that may be more: a + y is then rounding itself
# the same, times the weights' scale
_GRID = np.concatenate([np.geomspace(1e-14, 1e-2, 25), np.geomspace(2e-2, 1e6, 60)])


@dataclass(frozen=True)
class Block:
    """Spike directions that mix: which of them are teacher directions (k,), the projector (k, k) on the span of the students,
    and how many equal blocks there are."""

    teacher: NDArray[np.bool_]
    student: Array
    multiplicity: int | float = 1

    def outlier(self, value: float, overlap: float, x: Array) -> Outlier:
        """The outlier of a unit vector x (k, ...)."""
        teacher, student = np.sum(x[self.teacher] ** 2), np.sum((self.student @ x) ** 2)
        return Outlier(value, overlap, float(teacher), float(student), self.multiplicity)


@dataclass(frozen=True)
class Averages:
    """K, K2, and X (k, k), X2 (k, k) of the block of an index, at one q."""

    k: float
    k2: float
    x: Callable[[int], Array]
    x2: Callable[[int], Array]


@dataclass(frozen=True)
class Law:
    """A law of weights.

    at      averages at q = q_min + d, d > 0, or d = 0 where averages exist there
    blocks  of spike directions
    q_min   -infimum of the weights, 0 where none is negative
    closed  whether averages at q_min itself may exist: the infimum is approached at infinity, or in many dimensions
    scale   a typical weight, q_min where that is not 0
    """

    at: Callable[[float], Averages]
    blocks: tuple[Block, ...]
    q_min: float
    closed: bool
    scale: float


def node_averages(f: Array, coefficients: Array, rows: Sequence[Array], q_min: float, scale: float) -> Any:
    """`Law.at` of weights f (n,) with coefficients of K (n,), and of X for each block (k (k + 1) / 2, n), upper triangle.

    f counts the nodes of all branches: K = coefficients @ A(f). For blocks k is 1 or 2. Raises NotConverged where a weight
    lies below the infimum."""
    above = f + q_min
    lowest, below = float(np.min(above)), above < -_BELOW * max(q_min, scale)
    if np.sum(coefficients[below]) > _ROUNDED:
        raise NotConverged(f"a weight lies {-lowest:.3g} below the infimum that was found", -q_min)
    f, coefficients, *rows = (_parts(v) for v in (f, coefficients, *rows))
    above = np.maximum(f + q_min, 0.0)

    def at(d: float) -> Averages:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # A = f q / (q + f) with q + f = (f - infimum) + d: no difference of large numbers at small d
            a = f * ((q_min + d) / (above + d))
            a2 = a * a
        return Averages(
            float(_sums(coefficients, a)),
            float(_sums(coefficients, a2)),
            lambda index: _unpacked(_sums(rows[index], a)),
            lambda index: _unpacked(_sums(rows[index], a2)),
        )

    return at


def _parts(values: Array) -> Array:
    """values (..., n) as (..., parts, _PART), with zeros at the end: BLAS takes several threads for longer sums, which wait for
    one another longer than they work."""
    ends = [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % _PART)]
    return np.pad(values, ends).reshape(*values.shape[:-1], -1, _PART)


def _sums(rows: Array, values: Array) -> Array:
    """rows @ values of two such arrays (..., parts, _PART) and (parts, _PART)."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.vecdot(rows, values).sum(axis=-1))


def _unpacked(packed: Array) -> Array:
    return packed.reshape(1, 1) if len(packed) == 1 else packed[[[0, 1], [1, 2]]]


def bracketed(function: Callable[[float], float], start: float, lowest: float = -_FAR) -> float | None:
    """Root of a function of a logarithm that grows from negative to positive; None where it does not change its sign."""
    from scipy.optimize import brentq

    low = high = start
    below = above = function(start)
    step = 1.0
    while below > 0 and low > lowest:
        high, above, low, step = low, below, max(low - step, lowest), 2 * step
        below = function(low)
    while above < 0 and high < _FAR:
        low, below, high, step = high, above, min(high + step, _FAR), 2 * step
        above = function(high)
    if below == 0 or above == 0:
        return low if below == 0 else high
    if not (below < 0 < above):
        return None
    return float(brentq(function, low, high, xtol=1e-15, rtol=_EPS))


class Isotropic:
    """The equations above for a law of weights and a law of covariance eigenvalues (s, w), None for the identity.

    near  d of the edge, for a law that is resolved there and beyond only: edges and thresholds are looked for about it
    """

    def __init__(self, law: Law, covariance: tuple[Array, Array] | None = None, near: float | None = None):
        self.law, self.near = law, near
        if covariance is not None:
            s, w = covariance
            covariance = s[s > 0], w[s > 0]
        self.covariance = covariance

    # --- the covariance: one equation in zeta -----------------------------------------------------------------

    def _means(self, k: float, zeta: float) -> tuple[float, float, float, float, float]:
        """M_1, M_2, int s^2/(K s - zeta), int s^3/(K s - zeta)^2, int s/(K s - zeta)^2."""
        with np.errstate(divide="ignore", invalid="ignore"):  # zeta at the lowest K s to rounding
            if self.covariance is None:
                first = float(1 / np.float64(k - zeta))
                return first, first**2, first, first**2, first**2
            s, w = self.covariance
            d = s / (k * s - zeta)
        square = d**2
        first, second, pull, third, last = (float(w @ v) for v in (d, square, s * d, s * square, square / s))
        return first, second, pull, third, last

    def _zeta(self, k: float, function: Callable[[float], float], distance: float) -> float:
        """The root of a function that grows with zeta from negative to positive, below the lowest of K s."""
        s = np.ones(1) if self.covariance is None else self.covariance[0]
        top = float(np.min(k * s))
        # In log(top - zeta): the root may lie any number of decades below the lowest K s.
        v = bracketed(lambda v: -function(top - math.exp(v)), math.log(distance))
        if v is None:
            raise NotConverged("no place on the line of edges: the covariance spans too many scales", top)
        return top - math.exp(v)

    def _on_sharp(self, d: float, means: Averages) -> tuple[float, float]:
        """alpha and zeta on the line of sharp edges."""
        q = self.law.q_min + d
        if self.covariance is None:
            # Sigma = I: alpha = q^2 / K2 and zeta = K - q / alpha
            return q**2 / means.k2, means.k - means.k2 / q
        zeta = self._zeta(means.k, lambda v: self._sharpness(q, means, v), means.k2 / q)
        return q * self._means(means.k, zeta)[0], zeta

    def _sharpness(self, q: float, means: Averages, zeta: float) -> float:
        first, second, *_ = self._means(means.k, zeta)
        if not math.isfinite(first):
            return math.inf
        # As a logarithm, which grows without end on both sides of the root.
        return math.log(means.k2 * second / (q * first))

    def _at_alpha(self, d: float, means: Averages, alpha: float) -> float:
        """zeta at given d and alpha."""
        q = self.law.q_min + d
        if self.covariance is None:
            return means.k - q / alpha
        return self._zeta(means.k, lambda v: math.log(q * self._means(means.k, v)[0] / alpha), q / alpha)

    def _at_pull(self, means: Averages, x: float) -> float:
        """zeta of an outlier at an eigenvalue x < K of X, 1 = (K - x) int s^2/(K s - zeta).

        Next to zeta = 0 this would leave few digits of zeta. It is the same as zeta M_1(zeta) = x / (K - x).
        """
        k, level = means.k, means.k - x
        if self.covariance is None:
            return x
        if abs(x) < _NEAR_ZERO * k * float(np.min(self.covariance[0])):
            sign = math.copysign(1.0, x)

            def off(v: float) -> float:
                zeta = sign * math.exp(v)
                return math.log(abs(zeta) * self._means(k, zeta)[0] * level / abs(x))

            v = bracketed(off, math.log(abs(x))) if x else -math.inf
            if v is not None:
                return sign * math.exp(v)
        return self._zeta(k, lambda v: math.log(level * self._means(k, v)[2]), level)

    # --- the edge -----------------------------------------------------------------------------------------------

    @cached_property
    def start(self) -> tuple[float, float]:
        """First d of the line, and alpha there, alpha_c, up to which edges are smooth; (0, 0) where no weight is negative.

        Averages that exist at d = 0 hardly change next to it; where they do, they are those of too few nodes.
        """
        q_min = self.law.q_min
        first = _NEAREST * q_min
        if q_min == 0 or (self.near or 0.0) > first:
            return 0.0, 0.0
        if self.law.closed:
            means, next_to = self.law.at(0.0), self.law.at(_NEXT * q_min)
            if 0 < means.k2 < 2 * next_to.k2:
                return 0.0, self._on_sharp(0.0, means)[0]
        means = self.law.at(first)
        if not (np.isfinite(means.k2) and means.k2 > 0):
            raise NotConverged("averages next to the infimum of the weights do not exist", -q_min)
        return first, self._on_sharp(first, means)[0]

    def edge(self, alpha: float) -> tuple[float, str, float]:
        """Left edge at alpha: value, kind "sharp" | "smooth" | "atom", and d there.

        "atom": no weight is negative and samples are fewer than dimensions; the spectrum starts at 0. Raises NotConverged
        where no edge is found.
        """
        if not self.law.scale > 0:
            return 0.0, "atom", 0.0
        d, alpha_c = self.start
        if alpha <= alpha_c:
            return alpha * self._at_alpha(d, self.law.at(d), alpha), "smooth", d

        def log_alpha(v: float) -> float:
            d = math.exp(v)
            return math.log(self._on_sharp(d, self.law.at(d))[0] / alpha)

        lowest = math.log(d or _NEAREST * self.law.q_min or math.exp(-_FAR) * self.law.scale)
        v = bracketed(log_alpha, max(math.log(self.near or self.law.scale), lowest), lowest)
        if v is None and alpha_c > 0 and log_alpha(lowest) >= 0:
            v = lowest  # between alpha_c and the alpha of the next d
        if v is None:
            if self.law.q_min == 0:
                return 0.0, "atom", 0.0
            raise NotConverged("left edge not found: no change of sign", -self.law.q_min)
        d = math.exp(v)
        return alpha * self._at_alpha(d, self.law.at(d), alpha), "sharp", d

    # --- outliers -----------------------------------------------------------------------------------------------

    def outliers(self, alpha: float, d_edge: float) -> list[Outlier]:
        """All outliers left of the edge at d_edge, lowest first. Raises NotConverged where one that must exist is not found."""
        found = []
        for index in range(len(self.law.blocks)):
            margins = self._margins(index, d_edge, alpha)
            for order in range(int(np.sum(margins > _EPS))):
                found.append(self._outlier(index, order, alpha, d_edge))
        return sorted(found, key=lambda o: o.value)

    def _margins(self, index: int, d: float, alpha: float) -> Array:
        """Eigenvalues of (K - X) int s^2/(K s - zeta) - 1, largest first."""
        means = self.law.at(d)
        pull = self._means(means.k, self._at_alpha(d, means, alpha))[2]
        x = means.x(index)
        shift = means.k * np.eye(len(x)) - x
        return np.linalg.eigvalsh(shift)[::-1] * pull - 1

    def _outlier(self, index: int, order: int, alpha: float, d_edge: float) -> Outlier:
        def margin(v: float) -> float:
            return float(self._margins(index, d_edge + math.exp(v), alpha)[order])

        q_edge = self.law.q_min + d_edge
        v = bracketed(lambda v: -margin(v), math.log(q_edge), math.log(q_edge * _NEAREST))
        # at the edge the margin is positive: closer than the nearest d the outlier is the edge
        d = d_edge + (0.0 if v is None else math.exp(v))
        means = self.law.at(d)
        values, vectors = np.linalg.eigh(means.x(index))
        zeta = self._at_alpha(d, means, alpha) if v is None else self._at_pull(means, float(values[order]))
        overlap = self._overlap(index, vectors[:, order], means, zeta, alpha)
        return self.law.blocks[index].outlier(alpha * zeta, overlap, vectors[:, order])

    def _overlap(self, index: int, x: Array, means: Averages, zeta: float, alpha: float) -> float:
        """q2 = h_1^2 chi / (-d/dz [chi h_2]), chi = alpha x^T (X - K) x; derivatives along the curve z(g)."""
        first, second, pull, third, square = self._means(means.k, zeta)
        chi = alpha * float(x @ means.x(index) @ x - means.k)
        chi_g = alpha * float(x @ means.x2(index) @ x - means.k2)  # d/dg, since dA/dg = A^2
        # h_1 = -M_1 / alpha and so on; 1 = -int s/(z - kappa s)^2 dz/dg + int s^2/(z - kappa s)^2 alpha K2
        slope = -(alpha**2 - second * alpha * means.k2) / square  # dz/dg
        if not slope < 0:  # a sharp edge
            return 0.0
        h2_z = (third * alpha * means.k2 / slope - second) / alpha**2
        total = chi_g / slope * (-pull / alpha) + chi * h2_z
        return float((first / alpha) ** 2 * chi / -total)

    # --- the transition -----------------------------------------------------------------------------------------

    def thresholds(self, index: int) -> list[tuple[Threshold, float]]:
        """Every alpha at which the largest eigenvalue of a block enters or leaves the bulk, ascending in alpha, and d there."""
        if not self.law.scale > 0:
            return []
        d, alpha_c = self.start
        first = self.outlier_at(index, d) if alpha_c > 0 else None
        smooth = first is not None and first[0] <= alpha_c * (1 + _MARGINAL)
        found = [(self._smooth_threshold(index, first), d)] if first is not None and smooth else []
        points = self.law.scale * _GRID if self.near is None else max(self.near, d) * _NEIGHBOURS
        points = points[points > d]
        if alpha_c > 0:
            points = np.append(d, points)
        values = np.array([self._sharp_margin(index, v) for v in points])
        if smooth and found[0][0].kind == "continuous":
            values[0] = 0.0  # the transition itself, to rounding
        points, values = points[values != 0], values[values != 0]
        for low, high, left, right in zip(points, points[1:], values, values[1:], strict=False):
            if left * right < 0:
                found.append(self._sharp_threshold(index, low, high))
        if not found and self.near is not None:
            raise NotConverged("threshold not found: no change of sign", math.nan)
        return sorted(found, key=lambda each: each[0].alpha)

    def _sharp_margin(self, index: int, d: float) -> float:
        means = self.law.at(d)
        _, zeta = self._on_sharp(d, means)
        x = means.x(index)
        shift = means.k * np.eye(len(x)) - x
        return float(np.linalg.eigvalsh(shift)[-1] * self._means(means.k, zeta)[2] - 1)

    def _sharp_threshold(self, index: int, low: float, high: float) -> tuple[Threshold, float]:
        """The zero of the margin between two d. alpha follows from the outlier there: it hardly depends on d, where alpha of
        the edge may depend on nothing else."""
        from scipy.optimize import brentq

        d = brentq(lambda v: self._sharp_margin(index, v), low, high, xtol=1e-300, rtol=_EPS)
        at = self.outlier_at(index, d)
        # d is found between two signs of the margin, alpha from the outlier's equation (see the docstring)
        alpha = math.nan if at is None else at[0]
        return Threshold(alpha, "continuous", 0.0, alpha_0=alpha), d

    def _smooth_threshold(self, index: int, first: tuple[float, float]) -> Threshold:
        """The outlier at the start of the line, where the edge is smooth; sharp to rounding at the tricritical point."""
        alpha, overlap = first
        if alpha > self.start[1] * (1 - _MARGINAL):
            return Threshold(alpha, "continuous", 0.0, alpha_0=alpha)
        zero = zero_of(alpha, overlap, self._overlap_slope(index, first))
        return Threshold(alpha, "discontinuous", overlap, alpha_0=zero)

    def _overlap_slope(self, index: int, first: tuple[float, float]) -> float:
        """dq2/dalpha along the outlier from the start on, by one-sided differences in log q."""
        d, q_min = self.start[0], self.law.q_min
        ahead = [self.outlier_at(index, d + q_min * math.expm1(_AHEAD * k)) for k in range(1, 5)]
        branch = [first, *(b for b in ahead if b is not None)]
        if len(branch) < len(_ONE_SIDED):
            return math.nan
        alpha, overlap = (np.array(column) for column in zip(*branch, strict=True))
        # Both derivatives in the same parameter, whose step drops out.
        return float((_ONE_SIDED @ overlap) / (_ONE_SIDED @ alpha))

    def outlier_at(self, index: int, d: float) -> tuple[float, float] | None:
        """alpha and squared overlap of the lowest outlier of a block as functions of d: its largest eigenvalue of K - X fixes
        zeta, hence alpha = q M_1."""
        means = self.law.at(d)
        values, vectors = np.linalg.eigh(means.x(index))
        if not means.k > values[0]:
            return None
        zeta = self._at_pull(means, float(values[0]))
        alpha = (self.law.q_min + d) * self._means(means.k, zeta)[0]
        return alpha, self._overlap(index, vectors[:, 0], means, zeta, alpha)


def given_law(
    weight: ArrayLike, spike: ArrayLike, probability: ArrayLike, infimum: float | None = None, many: int = 1
) -> Isotropic:
    """The equations for a discrete law of weights f and of spikes s: arrays (n,), probabilities (n,) that sum to 1.

    infimum  of the support of f (default: the smallest node); give it where the nodes only approach it
    many     spike directions alike
    Raises ParameterError on shapes that differ, entries that are not finite, or probabilities that do not sum to 1.

    >>> value, kind, _ = given_law(1.0, 1.0, 1.0).edge(4.0)  # Marchenko-Pastur
    >>> round(value, 12), kind
    (1.0, 'sharp')
    """
    given = {"weight": weight, "spike": spike, "probability": probability}
    arrays = {name: np.atleast_1d(finite(name, value)) for name, value in given.items()}
    shape = broadcast(**arrays)[0].shape
    if len(shape) != 1:
        raise ParameterError(f"weight, spike and probability must be (n,), got {shape}")
    f, s, w = (np.broadcast_to(array, shape).astype(float) for array in arrays.values())
    if abs(w.sum() - 1) > 1e-6 or np.any(w < 0):
        raise ParameterError(f"probabilities must be >= 0 and sum to 1, got a sum of {w.sum():.9g}")
    lowest = float(f.min()) if infimum is None else one("infimum", finite("infimum", infimum))
    if not lowest <= f.min():
        raise ParameterError(f"infimum must not exceed the smallest weight {f.min():.9g}, got {infimum}")
    q_min = max(0.0, -lowest)
    scale = q_min or float(np.max(np.abs(f)))
    block = Block(np.array([True]), np.zeros((1, 1)), many)
    return Isotropic(Law(node_averages(f, w, [(s * w)[None, :]], q_min, scale), (block,), q_min, True, scale))
