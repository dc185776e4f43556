"""Laws of scalar weights as nodes with probabilities, for `theory.general.isotropic`: of networks, and given ones.

H = sum_mu f^mu x^mu x^mu^T with x^mu ~ N(0, I_N / N) apart from one direction v, along which E[(v.x)^2 | f] N = s: f = 1,
s = 1 is Marchenko-Pastur; f = 1, s = const spiked covariance; f = T(y), s = u^2 a spectral method of phase retrieval. Right
edges are minus the left edges of the law of -f.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import NotConverged, ParameterError, broadcast, finite, one
from theory.general.isotropic import Averages, Block, Isotropic

Array = NDArray[Any]

_BELOW = 1e-6  # relative distance by which rounding may put a node below the infimum,
_ROUNDED = 1e-9  # and share of nodes where that may be more: a + y is then rounding itself


@dataclass(frozen=True)
class NodeLaw:
    """Weights f (n,) with coefficients of K (n,), and of X for each block (k (k + 1) / 2, n), upper triangle packed.

    f counts the nodes of all branches: K = coefficients @ A(f). For blocks k is 1 or 2.
    """

    f: Array
    coefficients: Array
    rows: tuple[Array, ...]
    blocks: tuple[Block, ...]
    q_min: float
    closed: bool
    scale: float

    @cached_property
    def above(self) -> Array:
        """f - infimum (n,). Raises NotConverged where a weight lies below it."""
        above = self.f + self.q_min
        lowest, below = float(np.min(above)), above < -_BELOW * max(self.q_min, self.scale)
        if np.sum(self.coefficients[below]) > _ROUNDED:
            raise NotConverged(f"a weight lies {-lowest:.3g} below the infimum that was found", -self.q_min)
        return np.maximum(above, 0.0)

    def at(self, d: float) -> Averages:
        """K, K2, X and X2 at q = q_min + d, d > 0 (or d = 0 where averages exist there)."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            a = self.f * ((self.q_min + d) / (self.above + d))
            a2 = a * a
        return Averages(
            float(self.coefficients @ a),
            float(self.coefficients @ a2),
            [_unpacked(rows @ a) for rows in self.rows],
            [_unpacked(rows @ a2) for rows in self.rows],
        )


def _unpacked(packed: Array) -> Array:
    return packed.reshape(1, 1) if len(packed) == 1 else packed[[[0, 1], [1, 2]]]


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
    return Isotropic(NodeLaw(f, w, ((s * w)[None, :],), (block,), q_min, True, scale))
