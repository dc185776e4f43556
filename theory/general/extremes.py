"""The lowest weights of networks: where F + shift has its smallest eigenvalue, and how much probability lies about that place.

For finite p they are found by search over all preactivations and outputs (`support`); `theory.general.support` needs them.

p = inf: yhat, a mean of p independent outputs, tends to a number as p grows, and the averages with it. The support of the
weights does not: a student at the worst place of s'' while all others drive yhat to an end of its range has a probability of
exp(-O(p)), not 0, and the left edge at N = inf ends where Q + F first becomes singular for ANY weight. So derived here, in
units of (p/2) H with F = diag(d) + (c/p) s'(lam) s'(lam)^T, d = l' s'' / 2, c = l'' / 2:

* For c >= 0 one student alone gives the infimum of F as p -> inf: that of l'(y, yhat) s''(x) / 2 over all y, all yhat
  between the ends of s and all x. It factorises into the ranges of l' and s''.
* For c < 0 a weight may be lower along the sum of the students; a mean of two kinds of them is searched.

Where this infimum lies below that of the weights of yhat = E s (tanh, erf; not the quadratic one, whose infimum is at
y -> inf for every yhat), thresholds of finite p tend to the one with this end of the support: tanh, a = 2: 3.48, 4.70, 5.67,
6.8, 7.5(2), 8.2(3) at p = 2, 3, 4, 6, 8, 12 and 9.3730 at p = inf. Samples have such weights only from N = exp(O(p)) on:
before, they follow the law without them (`typical_infimum`), whose threshold is 2.8943.

Along the sum of the students the rank-one part of F is no small part of it. For c >= 0 it only adds to H, as a matrix and for
every draw, so that neither the edge nor the lowest outlier, those of the directions across the sum, depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.general.infimum import Infimum, plane_infimum, searched_infimum, smallest_eigenvalues
from theory.general.support import MOST, Extreme, Peak, Support
from theory.model.activations import Activation, shifted, supremum
from theory.model.network import Network

Array = NDArray[Any]

_FAR = 1e3  # preactivations from here on count as at infinity
_FAR_OUTPUT = 1e6
_ALL_ORDERS = 4  # p up to which every permutation of a place is kept
_INTEGRALS = math.pi / 2, math.pi, math.pi**2, math.pi**2
_DIRECTIONS = 4000  # random ones, of the mean over a minimum that is not smooth
_STEP = 1e-3  # of second differences
_FLAT = 1e-6  # relative curvature below which the lowest place is no point
_REACH = 12.0  # standard deviations beyond which a place has no probability
_BINS = 4096  # of the density of a mean of outputs
_EXTENT = 9.0  # standard deviations that it covers
_LOWER = 1e-9  # relative distance by which rare weights must lie below the others to count
_MOST = 20.0  # logarithm of the odds of one kind of students against the other


def support(model: Network) -> Support:
    """A fresh support of a model of finite p: searches add to it."""
    return Support(partial(_extreme, model), bottom(model), scalar(model))


def equal_students(model: Network) -> bool:
    """Whether all students enter the output alike: equal readouts, equal biases."""
    return all(numbers is None or len(set(numbers)) == 1 for numbers in (model.readout, model.bias))


def scalar(model: Network) -> bool:
    """Whether G is a multiple of I by symmetry: signs of the preactivations and permutations of the students."""
    return model.p == 1 or (model.even_students and equal_students(model))


@lru_cache(maxsize=64)
def bottom(model: Network) -> Extreme:
    """The infimum of the weights themselves, for finite p: its value is -inf where they are unbounded below."""
    return _extreme(model, np.zeros((int(model.p), int(model.p))))


@lru_cache(maxsize=64)
def bottom_place(model: Network) -> tuple[Array, float]:
    """Preactivations (p,) and output where the weights are lowest."""
    found = _search(model)
    lam, y = _map(model)(found.x[None, :], np.array([found.y]))
    return lam[0], float(y[0])


def _map(model: Network) -> Callable[[Array, Array], tuple[Array, Array]]:
    """From what is searched over to (lam, y): themselves where every pair occurs, else normals of which lam, and without
    noise y too, are functions."""
    if _all_pairs(model):
        return lambda x, y: (x, y)
    mixing, p_star = model.mixing(), model.p_star
    if model.noise or model.output_noise:
        return lambda v, y: (v @ mixing.T, y)
    return lambda v, y: (v @ mixing.T, model.outputs(v[:, :p_star]))


def _all_pairs(model: Network) -> bool:
    own = model.mixing()[:, model.p_star :]
    return bool(np.linalg.matrix_rank(own, tol=1e-9) == len(own))


@lru_cache(maxsize=8)
def _searched(model: Network, shift: bytes) -> Infimum:
    p = int(model.p)
    moved = np.frombuffer(shift).reshape(p, p)
    mapped, free = _map(model), _all_pairs(model)

    def smallest(x: Array, y: Array) -> Array:
        return _smallest(model, moved, *mapped(x, y))

    def outputs(x: Array) -> Array:
        return model.student_outputs(mapped(x, np.zeros(len(x)))[0])

    unit, bounded = model.a if model.rule.has_a else 1.0, bool(np.any(moved))
    known = []
    if bounded:  # where the weights themselves are lowest, one student there, or all of them
        at = _search(model)
        # The student of the largest |s''| is the one on which l' s'' acts most.
        bends = np.abs(model.student.second(shifted(at.x, model.bias, np), np))
        known = [(at.x, at.y), (np.full_like(at.x, at.x[int(np.argmax(bends))]), at.y)]
    d = p if free else p + model.p_star
    return searched_infimum(smallest, d, model.reach, outputs, unit, bounded, known)


def _search(model: Network, shift: Array | None = None) -> Infimum:
    shift = np.zeros((int(model.p), int(model.p))) if shift is None else shift
    return _searched(model, np.ascontiguousarray(shift, dtype=np.float64).tobytes())


def _extreme(model: Network, shift: Array) -> Extreme:
    found = _search(model, shift)
    lam, y = _map(model)(found.x[None, :], np.array([found.y]))
    alike = _all_pairs(model) and equal_students(model)
    weights = model.weights_at(_orders(lam[0]) if alike else lam, y)
    closed = _closed(model, lam[0], float(y[0]))
    around = None if closed else peak(model, lam[0], float(y[0]), partial(_smallest, model, shift))
    return Extreme(found.value, weights, closed, around)


def _smallest(model: Network, shift: Array, lam: Array, y: Array) -> Array:
    """Smallest eigenvalue (n,) of F + shift at lam (n, p) and y (n,), inf where F is no number."""
    with np.errstate(all="ignore"):
        return smallest_eigenvalues(model.weights_at(lam, y) + shift)


def _orders(lam: Array) -> Array:
    """The place under all permutations of the students, or cyclic ones where there are many; weights are permuted with it."""
    p = len(lam)
    if p > _ALL_ORDERS:
        return np.array([np.roll(lam, shift) for shift in range(p)])
    return np.unique(np.array(list(permutations(lam))), axis=0)


def _closed(model: Network, lam: Array, y: float) -> bool:
    """Whether averages of (Q + F)^-2 exist: the place lies at infinity, or in many dimensions."""
    low, high = model.reach
    if np.any(np.abs(lam) >= _FAR) or abs(y) >= _FAR_OUTPUT:
        return True
    if model.target is not None and (
        y <= low or y >= high
    ):  # an end may be taken on a set of one codimension
        return not model.attains(y) or len(lam) + 1 > MOST
    if y >= high:
        return True
    if y <= low:
        return not model.attains(y) or len(lam) + model.p_star > MOST
    return len(lam) + 1 > MOST


# --- probability about a place of lowest weights ---


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


def _images(lam: Array, even: bool) -> int:
    """Places alike by permutations of students, and by their signs."""
    _, counts = np.unique(np.round(np.abs(lam) if even else lam, 6), return_counts=True)
    # distinct permutations of the places
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
    # mixed second differences, [f(++) - f(+-) - f(-+) + f(--)] / 4
    second = (values * signs).reshape(k, k, 4).sum(axis=2) / 4
    second /= np.multiply.outer(np.diag(steps), np.diag(steps))
    if k > MOST or not np.all(np.isfinite(second)) or np.min(np.diag(second)) <= 0:
        return None
    curvatures = np.linalg.eigvalsh(second)
    if curvatures[0] > _FLAT * curvatures[-1]:
        return float(2 ** (k / 2) * _INTEGRALS[k - 1] / math.sqrt(np.prod(curvatures)))
    axes = np.sqrt(np.diag(second))
    # The mean over directions of rise^(-k/2) is the volume of {rise <= 1} in units of the ball's, whatever its shape.
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
    # p_star-fold convolution: the density of a sum of independent outputs
    many = np.fft.irfft(np.fft.rfft(one, _BINS * model.p_star) ** model.p_star, _BINS * model.p_star)
    step = (high - low) / _BINS / model.p_star  # of the mean
    # Each of the p_star bins is half a bin above its lower end.
    at = (y - low) / step - model.p_star / 2
    return max(float(np.interp(at, np.arange(len(many)), many, 0.0, 0.0)) / step, 0.0)


# --- infinitely many students ---


def rare_infimum(model: Network, typical: Infimum, outputs: tuple[float, float]) -> Infimum:
    """The infimum of all weights of a model of p = inf, given that of weights with yhat at its mean and the range of y."""
    if not math.isfinite(typical.value):
        return typical
    value = _separate(model, outputs) if convex(model, outputs) else _together(model, outputs)
    if not value < typical.value - _LOWER * abs(typical.value):
        return typical
    return Infimum(value, math.nan, math.nan, "far")


def convex(model: Network, outputs: tuple[float, float]) -> bool:
    """Whether l'' >= 0 for all outputs of teacher and students."""
    found = plane_infimum(
        _of_outputs(model, lambda y, yhat: model.rule.second(y, yhat, model.a, np)), outputs
    )
    return found.value >= -1e-12


def _of_outputs(model: Network, function: Any) -> Any:
    """A function of (y, yhat) as one of (x, y) with yhat = s(x): all values between the ends of s are taken."""

    def weight(x: Array, y: Array) -> Array:
        x, y = np.broadcast_arrays(x, y)
        with np.errstate(all="ignore"):
            return np.asarray(function(y, model.student.value(x, np)), float)

    return weight


def _separate(model: Network, outputs: tuple[float, float]) -> float:
    """The infimum of l' s'' / 2 over independent y, yhat and x: at a corner of the ranges of l' and s''."""
    first = _of_outputs(model, lambda y, yhat: model.rule.first(y, yhat, model.a, np))
    slopes = plane_infimum(first, outputs).value, -plane_infimum(lambda x, y: -first(x, y), outputs).value
    bends = -_largest_bend(model.student, -1), _largest_bend(model.student, 1)
    # A product of two independent ranges is lowest at a corner.
    corners = [0.0 if bend == 0 else slope * bend / 2 for slope in slopes for bend in bends]
    return min(corners)


def _largest_bend(entry: Activation, sign: int) -> float:
    """Supremum of s'' times the sign, over the x where it is defined: not where inf / inf is computed far out."""

    def bend(x: Array) -> Array:
        with np.errstate(all="ignore"):
            values = sign * entry.second(x, np)
        return np.where(np.isnan(values), -np.inf, values)

    return supremum(bend)


def _together(model: Network, outputs: tuple[float, float]) -> float:
    """The infimum of F over students of two kinds, in any proportion."""
    student, rule, a = model.student, model.rule, model.a

    def shares(v: Array) -> Array:
        first = 1 / (1 + np.exp(-np.clip(v[:, 2], -_MOST, _MOST)))
        return np.stack([first, 1 - first], axis=1)

    def mean(v: Array) -> Array:
        return np.sum(shares(v) * student.value(v[:, :2], np), axis=1)

    def smallest(v: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            yhat = mean(v)
            along = np.sqrt(shares(v)) * student.first(v[:, :2], np)
            f = rule.second(y, yhat, a, np)[:, None, None] / 2 * along[:, :, None] * along[:, None, :]
            bends = rule.first(y, yhat, a, np)[:, None] * student.second(v[:, :2], np) / 2
            return smallest_eigenvalues(f + bends[:, None] * np.eye(2))

    return searched_infimum(smallest, 3, outputs, mean).value
