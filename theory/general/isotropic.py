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
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from theory.general.results import zero_of
from theory.late_scipy import brentq

Array = NDArray[Any]

_EPS = 4 * np.finfo(float).eps
_FAR = 300.0  # logarithm at which every search for a bracket ends
_NEAREST = 36.0  # logarithm of the smallest relative step that still changes q
_AHEAD = 4e-4  # in log q: what the difference below leaves is 1e-10, rounding 1e-11
_ONE_SIDED = np.array([-25, 48, -36, 16, -3]) / 12
_GRID = np.concatenate([np.geomspace(1e-12, 1e-2, 21), np.geomspace(2e-2, 1e6, 60)])


@dataclass(frozen=True)
class Block:
    """Spike directions that mix with one another.

    name        of the directions
    teacher     (k, k) projector on teacher directions, in the coordinates of the block
    student     (k, k) projector on the span of the students
    degeneracy  how many equal blocks there are
    """

    name: str
    teacher: Array
    student: Array
    degeneracy: int | float = 1


@dataclass(frozen=True)
class Averages:
    """K, K2 and for each block X (k, k), X2 (k, k) at one q."""

    k: float
    k2: float
    x: list[Array]
    x2: list[Array]


class Law(Protocol):
    """What a law of weights offers: averages at q, its blocks, and how the weights end below."""

    @property
    def q_min(self) -> float:
        """-infimum of the weights, 0 where none is negative."""

    @property
    def closed(self) -> bool:
        """Whether averages at q_min itself exist: alpha_c > 0 may then be taken from them."""

    @property
    def scale(self) -> float:
        """A typical weight."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks of spike directions."""

    def at(self, q: float) -> Averages:
        """Averages at q."""


@dataclass(frozen=True)
class IsotropicOutlier:
    """One outlier: value, squared overlap with the block's directions, unit vector x (k,) there, the block, q."""

    value: float
    overlap: float
    vector: Array
    block: Block
    q: float


@dataclass(frozen=True)
class OnBranch:
    """An outlier at given q: the alpha to which it belongs, its value and squared overlap."""

    alpha: float
    value: float
    overlap: float


@dataclass(frozen=True)
class IsotropicThreshold:
    """Where an outlier of the block with a teacher leaves the bulk: alpha, kind, squared overlap just above, z, and where the
    tangent of the overlap vanishes."""

    alpha: float
    kind: str
    overlap: float
    edge: float
    zero: float


def bracketed(function: Callable[[float], float], start: float, lowest: float = -_FAR) -> float:
    """Root of a function of a logarithm that grows from negative to positive; an end of the search where it has none."""
    low = high = start
    below = above = function(start)
    step = 1.0
    while below > 0 and low > lowest:
        high, above, low, step = low, below, max(low - step, lowest), 2 * step
        below = function(low)
    while above < 0 and high < _FAR:
        low, below, high, step = high, above, min(high + step, _FAR), 2 * step
        above = function(high)
    if below >= 0:
        return low
    if above <= 0:
        return high
    return float(brentq(function, low, high, xtol=1e-15, rtol=_EPS))


class Isotropic:
    """The equations above for a law of weights and a law of covariance eigenvalues (s, w), None for the identity."""

    def __init__(self, law: Law, covariance: tuple[Array, Array] | None = None):
        self.law = law
        if covariance is not None:
            s, w = covariance
            covariance = s[s > 0], w[s > 0]
        self.covariance = covariance

    # --- the covariance: one equation in zeta -----------------------------------------------------------------

    def _means(self, k: float, zeta: float) -> tuple[float, float, float, float, float]:
        """M_1, M_2, int s^2/(K s - zeta), int s^3/(K s - zeta)^2, int s/(K s - zeta)^2."""
        if self.covariance is None:
            first = 1 / (k - zeta)
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
        v = bracketed(lambda v: -function(top - math.exp(v)), math.log(distance))
        return top - math.exp(v)

    def _on_sharp(self, q: float, means: Averages) -> tuple[float, float]:
        """alpha and zeta on the line of sharp edges."""
        if self.covariance is None:
            return q**2 / means.k2, means.k - means.k2 / q
        zeta = self._zeta(means.k, lambda v: self._sharpness(q, means, v), means.k2 / q)
        return q * self._means(means.k, zeta)[0], zeta

    def _sharpness(self, q: float, means: Averages, zeta: float) -> float:
        first, second, *_ = self._means(means.k, zeta)
        return math.log(means.k2 * second / (q * first))

    def _at_alpha(self, q: float, means: Averages, alpha: float) -> float:
        """zeta at given q and alpha."""
        if self.covariance is None:
            return means.k - q / alpha
        return self._zeta(means.k, lambda v: math.log(q * self._means(means.k, v)[0] / alpha), q / alpha)

    # --- the edge -----------------------------------------------------------------------------------------------

    def alpha_c(self) -> float:
        """alpha up to which the edge is smooth: 0 where no smooth edge exists."""
        if not self.law.closed:
            return 0.0
        means = self.law.at(self.law.q_min)
        if not (np.isfinite(means.k2) and means.k2 > 0):
            return 0.0
        return self._on_sharp(self.law.q_min, means)[0]

    def edge(self, alpha: float) -> tuple[float, str, float]:
        """Left edge at alpha: value, kind "sharp" | "smooth" | "atom", and q there.

        "atom": no weight is negative and samples are fewer than dimensions; the spectrum starts at 0.
        """
        if self.law.closed and alpha <= self.alpha_c():
            q = self.law.q_min
            return alpha * self._at_alpha(q, self.law.at(q), alpha), "smooth", q
        q_min, start = self.law.q_min, math.log(self.law.scale)

        def log_alpha(v: float) -> float:
            q = q_min + math.exp(v)
            return math.log(self._on_sharp(q, self.law.at(q))[0] / alpha)

        lowest = start - _NEAREST
        v = bracketed(log_alpha, start, lowest)
        if v <= lowest and q_min == 0:
            return 0.0, "atom", 0.0
        d = math.exp(v)
        q = q_min + d
        return alpha * self._on_sharp(q, self.law.at(q))[1], "sharp", q

    # --- outliers -----------------------------------------------------------------------------------------------

    def outliers(self, alpha: float, q_edge: float) -> list[IsotropicOutlier]:
        """All outliers left of the edge at q_edge, lowest first."""
        found = []
        for index in range(len(self.law.blocks)):
            levels = self._margins(index, q_edge, alpha)
            for order in range(int(np.sum(levels > 0))):
                found.append(self._outlier(index, order, alpha, q_edge))
        return sorted(found, key=lambda o: o.value)

    def _margins(self, index: int, q: float, alpha: float) -> Array:
        """Eigenvalues of (K - X) int s^2/(K s - zeta) - 1, largest first."""
        means = self.law.at(q)
        pull = self._means(means.k, self._at_alpha(q, means, alpha))[2]
        shift = means.k * np.eye(len(means.x[index])) - means.x[index]
        return np.linalg.eigvalsh(shift)[::-1] * pull - 1

    def _outlier(self, index: int, order: int, alpha: float, q_edge: float) -> IsotropicOutlier:
        def margin(v: float) -> float:
            return float(self._margins(index, q_edge + math.exp(v), alpha)[order])

        v = bracketed(lambda v: -margin(v), math.log(self.law.scale), math.log(q_edge) - _NEAREST)
        q = q_edge + math.exp(v)
        means = self.law.at(q)
        zeta = self._at_alpha(q, means, alpha)
        vector = np.linalg.eigh(means.k * np.eye(len(means.x[index])) - means.x[index])[1][:, -1 - order]
        overlap = self._overlap(index, vector, q, means, zeta, alpha)
        return IsotropicOutlier(alpha * zeta, overlap, vector, self.law.blocks[index], q)

    def _overlap(self, index: int, x: Array, q: float, means: Averages, zeta: float, alpha: float) -> float:
        """q2 = h_1^2 chi / (-d/dz [chi h_2]), chi = alpha x^T (X - K) x; derivatives along the curve z(g)."""
        first, second, pull, third, square = self._means(means.k, zeta)
        chi = alpha * float(x @ means.x[index] @ x - means.k)
        chi_g = alpha * float(x @ means.x2[index] @ x - means.k2)  # d/dg, since dA/dg = A^2
        # h_1 = -M_1 / alpha and so on; 1 = -int s/(z - kappa s)^2 dz/dg + int s^2/(z - kappa s)^2 alpha K2
        slope = -(alpha**2 - second * alpha * means.k2) / square  # dz/dg
        h2_z = (third * alpha * means.k2 / slope - second) / alpha**2
        total = chi_g / slope * (-pull / alpha) + chi * h2_z
        return float((first / alpha) ** 2 * chi / -total)

    # --- the transition -----------------------------------------------------------------------------------------

    def thresholds(self, index: int) -> list[IsotropicThreshold]:
        """Every alpha at which the largest eigenvalue of a block enters or leaves the bulk, ascending in alpha."""
        found = []
        start = self.law.q_min
        if self.law.closed:
            smooth = self._smooth_threshold(index)
            if smooth is not None:
                found.append(smooth)
        points = start + self.law.scale * _GRID
        values = [self._sharp_margin(index, q) for q in points]
        if self.law.closed and self.alpha_c() > 0:
            points, values = np.append(start, points), [self._sharp_margin(index, start), *values]
        for low, high, left, right in zip(points, points[1:], values, values[1:], strict=False):
            if left * right < 0:
                q = brentq(lambda v: self._sharp_margin(index, v), low, high, xtol=1e-300, rtol=_EPS)
                alpha, zeta = self._on_sharp(q, self.law.at(q))
                found.append(IsotropicThreshold(alpha, "continuous", 0.0, alpha * zeta, alpha))
        return sorted(found, key=lambda t: t.alpha)

    def _sharp_margin(self, index: int, q: float) -> float:
        means = self.law.at(q)
        _, zeta = self._on_sharp(q, means)
        shift = means.k * np.eye(len(means.x[index])) - means.x[index]
        return float(np.linalg.eigvalsh(shift)[-1] * self._means(means.k, zeta)[2] - 1)

    def _smooth_threshold(self, index: int) -> IsotropicThreshold | None:
        """The outlier at q_min, where the edge there is smooth."""
        alpha_c = self.alpha_c()
        found = self.outlier_at(index, self.law.q_min) if alpha_c > 0 else None
        if found is None or found.alpha > alpha_c:
            return None
        zero = zero_of(found.alpha, found.overlap, self._overlap_slope(index, found))
        return IsotropicThreshold(found.alpha, "discontinuous", found.overlap, found.value, zero)

    def _overlap_slope(self, index: int, first: OnBranch) -> float:
        """dq2/dalpha along the outlier from q_min on, by one-sided differences in log q."""
        ahead = [self.outlier_at(index, self.law.q_min * math.exp(_AHEAD * k)) for k in range(1, 5)]
        branch = [first, *(b for b in ahead if b is not None)]
        if len(branch) < len(_ONE_SIDED):
            return math.nan
        alpha, overlap = (np.array([getattr(b, name) for b in branch]) for name in ("alpha", "overlap"))
        return float((_ONE_SIDED @ overlap) / (_ONE_SIDED @ alpha))

    def outlier_at(self, index: int, q: float) -> OnBranch | None:
        """The lowest outlier of a block as a function of q: its largest eigenvalue of K - X fixes zeta, hence alpha = q M_1."""
        means = self.law.at(q)
        values, vectors = np.linalg.eigh(means.k * np.eye(len(means.x[index])) - means.x[index])
        level = float(values[-1])
        if not level > 0:
            return None
        zeta = (
            means.k - level
            if self.covariance is None
            else self._zeta(means.k, lambda v: math.log(level * self._means(means.k, v)[2]), level)
        )
        alpha = q * self._means(means.k, zeta)[0]
        return OnBranch(alpha, alpha * zeta, self._overlap(index, vectors[:, -1], q, means, zeta, alpha))
