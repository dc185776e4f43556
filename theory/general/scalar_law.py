"""Edge, outlier and threshold of H = sum_mu f^mu x^mu x^mu^T for any law of a scalar weight f and of a spike.

x^mu ~ N(0, I_N / N) apart from one direction v, along which E[(v.x)^2 | f] N = s. With M = alpha N samples, g the
Stieltjes transform and phi(g) = f / (1 - g f), each sample being a rank-one update independent of the others:

    bulk      z(g) = 1/g + alpha E[phi]
    outlier   z(g) = alpha E[s phi],     overlap q2 = 1 / (1 - alpha E[s phi^2] / z'(g))
    left edge: the first g from 0- down with dz/dg = 0 (sharp), else g_min = 1 / inf f (smooth)

f = 1, s = 1 is Marchenko-Pastur; f = 1, s = const is spiked covariance; f = T(y), s = u^2 a spectral method of
phase retrieval. The law is discrete: nodes of a quadrature. Right edges are left edges of the law of -f (`flipped`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from theory.checks import NotConverged, ParameterError, broadcast, finite, one, positive
from theory.late_scipy import brentq

Array = NDArray[np.float64]

_PER_DECADE = 20  # nodes of the search where weights of several scales meet
_MOST = 6000
_MARGINAL = 1e-10  # |z'(g) g^2| below this is the tricritical point itself, to the accuracy of the quadrature

# Fractions of g_min on which sign changes are looked for before a root is polished: dense at both ends
_UNIT = np.unique(
    [*np.geomspace(1e-9, 0.5, 100), *np.linspace(0.01, 0.99, 150), *(1 - np.geomspace(0.5, 1e-13, 100))]
)


@dataclass(frozen=True)
class LawEdge:
    """Left edge of the bulk: value, kind "sharp" | "smooth" | "atom" (all weights >= 0, alpha <= 1), g there."""

    value: float
    kind: str
    g: float


@dataclass(frozen=True)
class LawOutlier:
    """Outlier left of the bulk: value, squared overlap with the spike, g there."""

    value: float
    overlap: float
    g: float


@dataclass(frozen=True)
class LawThreshold:
    """Smallest alpha with an outlier at its edge: alpha, kind "continuous" | "discontinuous", overlap just above it."""

    alpha: float
    kind: str
    overlap: float


@dataclass(frozen=True)
class ScalarLaw:
    """Discrete law of (weight f, spike s): arrays (n,), probabilities (n,) that sum to 1.

    infimum   inf of the support of f (default: the smallest node); give it where the nodes only approach it
    Raises ParameterError on shapes that differ, entries that are not finite, or probabilities that do not sum to 1.
    """

    weight: Array
    spike: Array
    probability: Array
    infimum: float | None = None

    def __post_init__(self) -> None:
        arrays = {}
        for name in ("weight", "spike", "probability"):
            arrays[name] = np.atleast_1d(finite(name, getattr(self, name)))
        shape = broadcast(**arrays)[0].shape
        if len(shape) != 1:
            raise ParameterError(f"weight, spike and probability must be (n,), got {shape}")
        for name, array in arrays.items():
            object.__setattr__(self, name, np.broadcast_to(array, shape))
        total = float(self.probability.sum())
        if abs(total - 1) > 1e-6 or np.any(self.probability < 0):
            raise ParameterError(f"probabilities must be >= 0 and sum to 1, got a sum of {total:.9g}")
        if self.infimum is None:
            object.__setattr__(self, "infimum", float(self.weight.min()))
        elif not one("infimum", finite("infimum", self.infimum)) <= self.weight.min():
            raise ParameterError(
                f"infimum must not exceed the smallest weight {self.weight.min():.9g}, got {self.infimum}"
            )

    @property
    def flipped(self) -> ScalarLaw:
        """The law of -f: its left edge is minus the right edge of this one, which must have a largest weight."""
        return replace(self, weight=-self.weight, infimum=None)

    @property
    def g_min(self) -> float:
        """Lower end of the walk of g from 0-: 1 / infimum, or -inf where no weight is negative."""
        return 1 / self.infimum if self.infimum is not None and self.infimum < 0 else -np.inf

    def averages(self, g: float) -> tuple[float, float, float, float]:
        """E[phi], E[phi^2], E[s phi], E[s phi^2] at one g in (g_min, 0)."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            phi = self.weight / (1 - g * self.weight)
            first, second = self.probability * phi, self.probability * phi**2
        return first.sum(), second.sum(), (self.spike * first).sum(), (self.spike * second).sum()

    def z(self, g: float, alpha: float) -> float:
        """The Dyson equation solved for z: 1/g + alpha E[phi(g)]."""
        return 1 / g + alpha * self.averages(g)[0]

    def edge(self, alpha: float) -> LawEdge:
        """Left edge of the bulk at sample ratio alpha (units of the weights).

        An atom is the answer only where it must be: alpha times the share of weights that are not 0 is at most 1. Raises
        ParameterError unless alpha is one positive number.
        """
        alpha = one("alpha", positive("alpha", alpha))
        g = self._walk(lambda v: alpha * (v**2 * self.averages(v)[1]) - 1)
        if g is not None:
            return LawEdge(float(self.z(g, alpha)), "sharp", g)
        if np.isinf(self.g_min):
            if alpha * float(self.probability[self.weight > 0].sum()) > 1:
                raise NotConverged(
                    f"left edge not found at alpha = {alpha}: the weights span too many scales", 0.0
                )
            return LawEdge(0.0, "atom", -np.inf)
        value = float(self.z(self.g_min, alpha))
        if not np.isfinite(
            value
        ):  # an atom of weights at the infimum, and alpha too small to tell the edge from it
            inside = float(np.nextafter(self.g_min, 0))
            return LawEdge(float(self.z(inside, alpha)), "sharp", inside)
        return LawEdge(value, "smooth", self.g_min)

    def outlier(self, alpha: float) -> LawOutlier | None:
        """The spike's eigenvalue left of the bulk, or None where it stays inside. Raises as `edge`."""
        edge, alpha = self.edge(alpha), float(alpha)

        def miss(g: float) -> float:
            first, _, spiked, _ = self.averages(g)
            return 1 + alpha * g * (first - spiked)  # g (z - alpha E[s phi]): 1 at g = 0-

        g = self._walk(miss, lowest=edge.g)
        if g is None:
            return None
        first, second, _, spiked = self.averages(g)
        steepness = alpha * g  # g^2 z' = alpha g^2 E[phi^2] - 1, in this order as g^2 alone may underflow
        overlap = 1 / (1 - steepness * g * spiked / (steepness * g * second - 1))
        return LawOutlier(float(1 / g + alpha * first), float(overlap), g)

    def threshold(self) -> LawThreshold | None:
        """Smallest alpha above which an outlier leaves the bulk on the left; None where there is none."""
        candidates = (self._smooth_threshold(), self._sharp_threshold())
        return min((t for t in candidates if t is not None), key=lambda t: t.alpha, default=None)

    def _smooth_threshold(self) -> LawThreshold | None:
        """The closed form at g_min, where the edge there is smooth (or marginal: then the overlap starts from 0)."""
        if not np.isfinite(self.g_min):
            return None
        first, second, spiked, spiked2 = self.averages(self.g_min)
        if not (np.isfinite(first) and np.isfinite(spiked) and self.g_min * (spiked - first) > 0):
            return None
        alpha = 1 / (self.g_min * (spiked - first))
        excess = alpha * self.g_min**2 * second - 1  # z'(g_min) g_min^2: negative at a smooth edge
        if not excess < _MARGINAL:
            return None
        if excess > -_MARGINAL:
            return LawThreshold(float(alpha), "continuous", 0.0)
        overlap = 1 / (1 - alpha * spiked2 * self.g_min**2 / excess)
        return LawThreshold(float(alpha), "discontinuous", float(overlap))

    def _sharp_threshold(self) -> LawThreshold | None:
        # At g = 0 the miss is E[f] - E[s f], where equal only up to rounding.
        g = self._walk(self._sharp_miss, from_zero=False)
        return None if g is None else LawThreshold(float(1 / (g**2 * self.averages(g)[1])), "continuous", 0.0)

    def _sharp_miss(self, g: float) -> float:
        """(z - alpha E[s phi]) / |1/g| on the line of sharp edges alpha = 1 / (g^2 E[phi^2])."""
        first, second, spiked, _ = self.averages(g)
        return second * g + (first - spiked)

    def _grid(self, lowest: float) -> Array:
        """Nodes g from near 0 down to `lowest`, dense at both ends, that see the scale 1/|f| of every weight."""
        sizes = np.abs(self.weight[(self.weight != 0) & (self.probability > 0)])
        if not sizes.size:
            return np.array([-1.0])
        first, last = 1e-9 / float(sizes.max()), -lowest if np.isfinite(lowest) else 1e8 / float(sizes.min())
        inner = _UNIT * -lowest if np.isfinite(lowest) else np.array([last])
        if first < inner[0]:
            last = min(last, float(inner[0]))
            decades = np.log10(last) - np.log10(first)
            steps = 2 + int(min(_PER_DECADE * decades, _MOST))
            inner = np.concatenate([np.logspace(np.log10(first), np.log10(last), steps), inner])
        return -np.unique(inner)

    def _walk(self, function: Callable, lowest: float | None = None, from_zero: bool = True) -> float | None:
        """The root of `function` nearest 0 in (lowest, 0), walking g down from 0-; None where it keeps its sign.

        from_zero   whether its sign at g = 0 itself can be trusted: roots above the first node are then found too
        """
        lowest = self.g_min if lowest is None else lowest
        grid = self._grid(lowest)
        grid = np.append(0.0, grid) if from_zero else grid
        values = np.array([function(g) for g in grid])
        # A root on a node shows as a change of sign between its neighbours, hence zeros are left out.
        known = np.isfinite(values) & (values != 0)
        grid, signs = grid[known], np.sign(values[known])
        change = np.flatnonzero(signs[1:] != signs[:-1])
        if not change.size:
            return None
        near, far = grid[change[0]], grid[change[0] + 1]
        return float(brentq(function, far, near, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=5000))
