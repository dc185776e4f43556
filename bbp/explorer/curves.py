"""Theory behind the panels: density, branches over alpha; cached, every call bounded in size.

All numbers are in units of the Hessian ((p/2) H for p = inf), as in `theory`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.analysis.spectrum import Spectrum
from theory.answers import Edge, Threshold
from theory.exact.bulk import bulk_edge, edge_resolvent
from theory.exact.density import bulk_curve, bulk_resolvent
from theory.exact.outliers import outlier, teacher_branch
from theory.exact.transition import alpha_zero_map, bbp_threshold, critical_normalisation
from theory.exact.weight_law import weight_law
from theory.front import atom
from theory.model import Network

Array = NDArray[np.float64]

BRANCH_POINTS = 90
ZOOM_POINTS = 60
LOOK_POINTS, DENSITY_POINTS = 30, 150
DIGITS = 9  # of the density: the curve is right to 3e-5 of its maximum at worst (a sharp edge), 1e-9 in the median of models
MASS = 0.8  # of the bulk that the panel shows; the rest is a long tail to the right
REACH = 3.0  # the axis of alpha ends at this times alpha_BBP, or at twice, four times... that, to hold the present alpha


@dataclass(frozen=True)
class Point:
    """The model's own numbers: threshold, both alpha_0 (None where there is none)."""

    threshold: Threshold
    alpha_0: float | None
    alpha_0_continuation: float | None


@dataclass(frozen=True)
class Branch:
    """Over alpha (n,): edge, outlier (NaN where there is none), overlap q2 (0 without outlier); and where the axis ends."""

    alpha: Array
    edge: Array
    outlier: Array
    overlap: Array
    end: float


@dataclass(frozen=True)
class Window:
    """The density close to the edge: lam, rho (n,), the ends of the window, the largest rho in it."""

    lam: Array
    rho: Array
    left: float
    right: float
    top: float


@lru_cache(maxsize=256)
def point(model: Network) -> Point:
    """Threshold and alpha_0 of a model."""
    threshold = bbp_threshold(model)
    if threshold.kind == "continuous":  # both are alpha_BBP by definition
        zeros: list[float | None] = [threshold.alpha] * 2
    else:
        zeros = [_alpha_zero(model, threshold, method) for method in ("overlap", "continuation")]
    return Point(threshold, zeros[0], zeros[1])


def _alpha_zero(model: Network, threshold: Threshold, method: str) -> float | None:
    """`theory.exact.transition` with the threshold at hand, which is half of its work."""
    value = float(alpha_zero_map(model.p, model.p_star, model.a, method, thresholds=threshold))
    return None if math.isnan(value) else value


@lru_cache(maxsize=256)
def critical(p: float, p_star: int, noise: float) -> float:
    """a_c, 0 where every transition is discontinuous."""
    return float(critical_normalisation(p, p_star, noise))


def axis_end(model: Network, alpha: float) -> float:
    """Where the axis of alpha ends: it moves in steps of two, so that it stands still while alpha moves a little."""
    end = REACH * point(model).threshold.alpha
    return end * 2.0 ** max(0, math.ceil(math.log2(1.02 * alpha / end)))


@lru_cache(maxsize=64)
def branch(model: Network, end: float) -> Branch:
    """Edge, outlier and overlap from end/200 to `end`, with alpha_BBP itself twice, for the jump and the kink there."""
    start = point(model).threshold.alpha
    below = np.linspace(end / 200, start, 1 + max(20, int(BRANCH_POINTS * start / end)))[:-1]
    beyond = start + (end - start) * np.linspace(0, 1, BRANCH_POINTS - 40) ** 2
    beyond[0] = start * (1 + 1e-9)
    alpha = np.concatenate([below, [start * (1 - 1e-9)], beyond])
    found = teacher_branch(model, alpha)
    return Branch(alpha, found.edge, found.outlier, np.nan_to_num(found.overlap), end)


@lru_cache(maxsize=64)
def spectrum(model: Network, alpha: float) -> tuple[Spectrum, Window]:
    """Density with edge, atom and outlier; and the same close to the edge, from left of all as far as right of it."""
    edge, out, zero = bulk_edge(model, alpha), outlier(model, alpha), float(atom(model, alpha))
    lowest = edge.value if out is None else out.value
    nodes, known = _look(model, alpha, edge, DENSITY_POINTS)
    near = max(1.5 * (edge.value - lowest), 0.25 * abs(edge.value), 1e-3 * abs(lowest))
    close = edge.value + near * np.linspace(0, 1, ZOOM_POINTS) ** 2
    far = edge.value + nodes
    t, scale = bulk_resolvent(model, alpha, np.concatenate([far, close]), DIGITS, known)
    rho = scale * t.imag / math.pi
    # The pole at 0, if any, is left out.
    rho_far, rho_close = np.split(np.where(np.isfinite(rho), rho, np.nan), [len(far)])
    good = np.isfinite(rho_far)
    whole = Spectrum(model, alpha, far[good], rho_far[good], zero, edge, out)
    window = Window(close, rho_close, lowest - 0.35 * near, edge.value + near, float(np.nanmax(rho_close)))
    return whole, window


def shares(model: Network, alpha: float, count: int) -> tuple[Array, Array]:
    """Distances from the edge where shares of the mass are reached, and the density there (count,); the last one `MASS`.

    The shares 2 x^3 - x^4, x even, lie evenly in the bulk and crowd at the edge, where the density is a root, in places
    that move smoothly with the model.
    """
    edge = bulk_edge(model, alpha)
    rough, known = _look(model, alpha, edge, DENSITY_POINTS)
    far = np.unique(rough)
    rho, known = _densities(model, alpha, edge.value + far, known)
    held = np.concatenate([[0.0], np.cumsum(np.diff(far) * (rho[1:] + rho[:-1]) / 2)])
    rising = np.concatenate([[True], np.diff(held) > 0])
    x = np.arange(1, count + 1) / count
    nodes = np.interp((2 * x**3 - x**4) * held[-1], held[rising], far[rising])
    return nodes, _densities(model, alpha, edge.value + nodes, known)[0]


def _densities(model: Network, alpha: float, lam: Array, known: Any) -> tuple[Array, tuple[Array, Any]]:
    """Density at rising lam, with that of the neighbours where it is infinite; and the resolvent, known from then on."""
    t, scale = bulk_resolvent(model, alpha, lam, DIGITS, known)
    good = np.isfinite(t)
    return np.interp(lam, lam[good], scale * t.imag[good] / math.pi), (lam, t)


def _look(model: Network, alpha: float, edge: Edge, count: int) -> tuple[Array, tuple[Array, Any]]:
    """Distances from the edge to look at, to where `MASS` of the bulk is reached, half at equal shares of mass, half crowding
    at the edge, where rho rises like a root. And the places of the first look that found them, at distances in geometric
    progression and about the mean, with the resolvent there."""
    scale = 1.0 if math.isinf(model.p) else model.p / 2
    start = scale / edge_resolvent(model, alpha)
    second = weight_law(model, DIGITS).transform(np.zeros(1, dtype=np.complex128))[1]  # -E f^2
    side = math.sqrt(alpha * -second[0].real) * np.geomspace(0.1, 30, LOOK_POINTS // 2)
    u = np.concatenate([-side, side, start + abs(start) * np.geomspace(1e-3, 1e3, LOOK_POINTS)])
    lam, t = bulk_curve(model, alpha, np.unique(u[(u > start) & (u != 0)]), DIGITS)
    lam, t = np.concatenate([[edge.value], lam]), np.concatenate([[-1 / start], t])
    far, rho = lam - edge.value, scale * t.imag / math.pi
    held = np.concatenate([[0.0], np.cumsum(np.diff(far) * (rho[1:] + rho[:-1]) / 2)])
    share = MASS * min(1 - float(atom(model, alpha)), held[-1])
    rising = np.concatenate([[True], np.diff(held) > 0])
    reach = float(np.interp(share, held[rising], far[rising]))
    half = np.linspace(0, 1, count // 2)
    shares = np.interp(half * share, held[rising], far[rising])
    return np.sort(np.concatenate([reach * half**2, shares])), (lam, t)
