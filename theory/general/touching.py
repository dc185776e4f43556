"""How near a sharp edge comes to the end of the support, where the lowest weights lie inside, in few dimensions.

Derived here. Next to a place where the smallest eigenvalue of Q + F touches 0 it is lambda = e'Qe-part + x'Hx/2 over the k
directions x across which it grows, with Q + F ~ lambda e e' there and B = I - Q^{1/2} (Q + F)^{-1} Q^{1/2} ~ -w w' / lambda,
w = Q^{1/2} e. Such weights, of density c, add to the map L of `theory.general.dyson`, at a distance d = e'(Q - Q_0)e from
touching,

    S(d) W W',   W = w w',   S(d) = alpha c int d^k x / (d + x'Hx/2)^2 = alpha A d^{(k - 4)/2},    alpha A log(1/d) for k = 4,

with A = c 2^{k/2} (pi/2, pi, pi^2, pi^2) / sqrt(det H). So rho reaches 1, the edge is sharp, at S(d) W'(1 - L)^{-1} W = 1: no
cloud of points shows this where c is small, but d follows. Below rounding of Q it is called smooth, as in
`theory.general.isotropic`: its square root shows at no N. Weights at places alike by symmetry add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theory.general.state import State, newton_step
from theory.model.network import Network

Array = NDArray[Any]

MOST = 4  # dimensions in which averages of (Q + F)^-2 diverge
_INTEGRALS = math.pi / 2, math.pi, math.pi**2, math.pi**2
_DIRECTIONS = 4000
_STEP = 1e-3  # of second differences
_FLAT = 1e-6  # relative curvature below which the lowest place is no point
_REACH = 12.0  # standard deviations beyond which a place has no probability
_BINS = 4096  # of the density of a mean of outputs
_EXTENT = 9.0  # standard deviations that it covers


class Peak(NamedTuple):
    """A place of lowest weights: k, A, and at how many places alike by symmetry they lie."""

    codimension: int
    amplitude: float
    images: int


def peak(model: Network, lam: Array, y: float, smallest: Callable[[Array, Array], Array]) -> Peak | None:
    """The peak at preactivations lam (p,) and output y; smallest(lam (n, p), y (n,)) -> (n,) is the smallest eigenvalue of
    Q + F. None where it is no single point, or the density there is not known in closed form."""
    if model.output_noise or model.target is not None or model.gram is not None or model.overlap != 0.0:
        return None
    p, p_star, size = len(lam), model.p_star, math.sqrt(1 + model.noise)
    if np.any(np.abs(lam) >= _REACH):
        return Peak(p + 1, 0.0, 1)
    students = math.exp(-float(lam @ lam) / 2) / (2 * math.pi) ** (p / 2)
    low, high = model.reach
    images = _images(lam, model.even_students)
    if p_star == 1 or y <= low or y >= high:
        total = 0.0
        for u in _preimages(model, y, size):

            def of_normals(v: Array) -> Array:
                return smallest(v[:, :p], model.outputs(size * v[:, p:]))

            one = _amplitude(of_normals, np.concatenate([lam, np.full(p_star, u)]))
            if one is None:
                return None
            total += one * math.exp(-p_star * u**2 / 2) / (2 * math.pi) ** (p_star / 2)
        return Peak(p + p_star, students * total, images)
    one = _amplitude(lambda v: smallest(v[:, :p], v[:, p]), np.append(lam, y))
    return None if one is None else Peak(p + 1, students * one * _mean_density(model, y, size), images)


def depth(
    state: State, z: float, alpha: float, peaks: list[tuple[Array, Peak]], cut: float = math.inf
) -> float:
    """d at a sharp edge next to touching, relative to Q; peaks are vectors e (p,) with what lies there. NaN where L itself is
    not left of the edge, inf where d is none of the small ones that this holds for.

    cut   relative to Q: the smallest eigenvalue of Q + F up to which weights count here, and not in the state
    """
    from scipy.optimize import brentq

    size = float(np.linalg.norm(state.q, 2))
    rows = []
    for e, _ in peaks:
        w = state.root @ e
        rows.append(state.coordinates(np.outer(w, w)))
    solved = [newton_step(state, row, z) for row in rows]
    if any(row is None for row in solved):
        return math.nan
    several = 1 if state.span is None else peaks[0][1].images
    if several > 1:
        rows, solved = rows[:1], solved[:1]
    together = float(np.linalg.eigvalsh(np.array(rows) @ np.array(solved).T)[-1]) * several
    k, amplitude = peaks[0][1].codimension, alpha * peaks[0][1].amplitude * together
    if not amplitude > 0:
        return 0.0
    if math.isinf(cut):
        return math.exp(-min(1 / amplitude, 700.0)) if k == MOST else float(amplitude ** (2 / (4 - k)) / size)

    def excess(v: float) -> float:
        power = 1.0 if k == MOST else (math.exp(v) * size) ** (k / 2 - 2)
        return math.log(amplitude * power * _share(k, math.sqrt(cut * math.exp(-v))))

    low, high = math.log(cut) - 60, math.log(cut)
    if excess(high) > 0 or excess(low) < 0:
        return math.inf
    return math.exp(float(brentq(excess, low, high)))


def _share(k: int, r: float) -> float:
    """Of the integral over x, what lies at lambda < r^2 d; for k = 4 that part itself."""
    if k == MOST:
        return math.log1p(r * r) - r * r / (1 + r * r)
    if k == 2:
        return r * r / (1 + r * r)
    return 2 / math.pi * (math.atan(r) + (2 - k) * r / (1 + r * r))


def _images(lam: Array, even: bool) -> int:
    """Places alike by permutations of students, and by their signs."""
    _, counts = np.unique(np.round(np.abs(lam) if even else lam, 6), return_counts=True)
    many = math.factorial(len(lam)) // math.prod(math.factorial(int(c)) for c in counts)
    return many * 2 ** int(np.sum(np.abs(lam) > 1e-6)) if even else many


def _preimages(model: Network, y: float, size: float) -> list[float]:
    """The u' within reach at which one teacher's output is y."""
    u = np.linspace(-_REACH, _REACH, 20_001)
    off = model.teacher.value(size * u, np) - y
    at = np.flatnonzero(off[:-1] * off[1:] < 0)
    found = [float(u[i] - off[i] * (u[i + 1] - u[i]) / (off[i + 1] - off[i])) for i in at]
    nearest = int(np.argmin(np.abs(off)))
    if not found and abs(off[nearest]) < 1e-5 * (1 + abs(y)):  # touched without a change of sign
        found.append(float(u[nearest]))
    return found


def _amplitude(function: Callable[[Array], Array], place: Array) -> float | None:
    """A without its density at a place (k,), by second differences; None where the function is flat along a direction.

    Where several eigenvalues touch at once their lowest is not smooth, but still of second degree: then by its mean over
    directions, in units of the second differences along the axes."""
    k = len(place)
    steps = np.eye(k) * _STEP * (1 + np.abs(place))
    pairs = [(i, j, a, b) for i in range(k) for j in range(k) for a in (1, -1) for b in (1, -1)]
    values = function(np.array([place + a * steps[i] + b * steps[j] for i, j, a, b in pairs]))
    signs = np.array([a * b for *_, a, b in pairs])
    second = (values * signs).reshape(k, k, 4).sum(axis=2) / 4
    second /= np.multiply.outer(np.diag(steps), np.diag(steps))
    if k > MOST or not np.all(np.isfinite(second)) or np.min(np.diag(second)) <= 0:
        return None
    curvatures = np.linalg.eigvalsh(second)
    if curvatures[0] > _FLAT * curvatures[-1]:
        return float(2 ** (k / 2) * _INTEGRALS[k - 1] / math.sqrt(np.prod(curvatures)))
    axes = np.sqrt(np.diag(second))
    n = np.random.default_rng(0).standard_normal((_DIRECTIONS, k))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    rise = (function(place + _STEP * n / axes) - function(place[None, :])) / _STEP**2
    if np.min(rise) <= _FLAT:
        return None
    return float(_INTEGRALS[k - 1] * np.mean(rise ** (-k / 2)) / np.prod(axes))


def _mean_density(model: Network, y: float, size: float) -> float:
    """Density of the mean of p_star outputs at y, by convolution."""
    u = np.linspace(-_EXTENT, _EXTENT, 400_001)
    values, weight = model.teacher.value(size * u, np), np.exp(-(u**2) / 2)
    low, high = float(values.min()), float(values.max())
    one, _ = np.histogram(values, _BINS, (low, high), weights=weight / weight.sum())
    many = np.fft.irfft(np.fft.rfft(one, _BINS * model.p_star) ** model.p_star, _BINS * model.p_star)
    step = (high - low) / _BINS / model.p_star  # of the mean
    at = (y - low) / step - model.p_star / 2
    return max(float(np.interp(at, np.arange(len(many)), many, 0.0, 0.0)) / step, 0.0)
