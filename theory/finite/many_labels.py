"""Labels of a draw of any size for the law of a sample: all of them, or the extreme ones and others that stand for many.

Up to SINGLY dimensions (and for p > 8) every label is drawn, coupled along alpha (`coupled_labels`). Beyond,
theory.finite.extreme_labels: about EXTREMES of the labels at alpha_BBP, those with a pole next to the end of the walk,
one by one; REST labels with one weight s M / REST, s = sqrt(REST / M), and nodes of the mean with 1 - s of the weight, so
that every sum over labels has the mean and the variance it has over all of them: of Phi, of y Phi, and of v v^T (x) Phi
for the projections v on any direction. The nodes have no projections of their own, only their mean, v v^T -> y I on the
teacher and I elsewhere. The draws of one seed are the same along alpha up to 2 alpha_BBP, and from octave to octave beyond.

Labels that are all drawn are drawn at every number m of samples at once, so that what a draw shows moves smoothly with alpha =
m/N.

The p + p_star preactivations of a label are independent normal variables: a direction, uniform on the sphere, times the
root of r ~ chi^2_{p + p_star}; and in which order m labels are told is of no matter. Told from the largest r down they have

    r_j = the value that r exceeds with probability G_j / G_{m+1},      G_j = e_1 + ... + e_j,

with e_i independent exponentials: G_j / G_{m+1} are the order statistics of m independent uniform variables. With the same
e_i and the same directions at every m, one label more lengthens each of the others a little and adds one at the far end,
where r, and with it the weight F, is near 0. Labels told in the order of their arrival, where a larger sample adds
independent ones, have the same law at each m, but their path along alpha is as rough as a random walk: a mean of 64 has
kinks that are seen in a figure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv, gammaincinv, gammaln

from theory.exact.transition import bbp_threshold
from theory.finite import random_numbers
from theory.finite.extreme_labels import WIDEST, LabelTail, TailDraw
from theory.finite.quenched import gram_factor
from theory.model.network import Network

Array = NDArray[np.float64]
_LEAST = 2.0**-40
_LARGEST = 1 - _LEAST  # a level nearer 1 is r = 0


def coupled_labels(width: int, m: int, chosen: range, seed: int) -> tuple[Array, Array]:
    """Directions (q, m, width) of m labels of the draws `chosen`, and G (q, m + 1): see the top of the module.

    width   p + p_star
    """
    directions = np.stack([random_numbers.directions(seed, number, m, width) for number in chosen])
    return directions, np.stack([random_numbers.arrivals(seed, number, m + 1) for number in chosen])


def lengths(width: int, arrivals: Array, total: Array | float) -> Array:
    """Root of r (q, m, 1) of the labels that arrive at G (q, m) of `total` (q, 1), G_{m+1} in a sample of m; to 10 digits.

    >>> lengths(2, np.array([[0.5]]), 1.0).round(4)  # r = 2 log 2
    array([[[1.1774]]])
    """
    depth = -np.log(np.minimum(arrivals / total, _LARGEST))
    return np.asarray(np.exp(_log_length(width)(np.log(depth))[..., None]))


@dataclass(frozen=True)
class _Cubic:
    """A smooth function by cubics between points at equal distances, from its values and slopes there (Hermite).

    SciPy's splines would serve too, but importing them takes 0.2 s.
    """

    first: float
    step: float
    coefficients: Array  # (4, points - 1), of the share of the way from one point to the next

    @classmethod
    def through(cls, x: Array, values: Array, slopes: Array) -> _Cubic:
        step = float(x[1] - x[0])
        rise, (start, end) = np.diff(values), (step * slopes[:-1], step * slopes[1:])
        return cls(
            float(x[0]),
            step,
            np.array([values[:-1], start, 3 * rise - 2 * start - end, start + end - 2 * rise]),
        )

    def __call__(self, x: Array) -> Array:
        way = (x - self.first) / self.step
        left = np.clip(way.astype(np.int64), 0, self.coefficients.shape[1] - 1)
        way -= left
        constant, linear, square, cube = (row[left] for row in self.coefficients)
        return np.asarray(constant + way * (linear + way * (square + way * cube)))


@lru_cache(maxsize=8)
def _log_length(width: int) -> _Cubic:
    """log of the root of r over x = log of the depth y = -log P(r' > r), linear at both ends.

    Its slope is y P(r' > r) / (2 r f(r)), f the density of r: with z = r / 2, s = width / 2, r f = z^s exp(-z) / Gamma(s).
    """
    x = np.linspace(np.log(_LEAST), np.log(700.0), 1000)
    depth, half = np.exp(x), width / 2
    far = depth > 0.7
    z = np.where(far, gammainccinv(half, np.exp(-depth)), gammaincinv(half, -np.expm1(-depth)))
    slopes = np.exp(x + z - depth - half * np.log(z) + gammaln(half)) / 2
    return _Cubic.through(x, np.log(2 * z) / 2, slopes)


SINGLY = 5000
EXTREMES, REST = 500, 1000
_SMALL = 0.1  # length of all overlaps of a student together up to which their effect is linear


@dataclass(frozen=True)
class DrawnLabels:
    """Labels of q draws.

    normals (q, m, p + p_star)   preactivations, students' first
    basis (q, m, p + p_star)     projections on an orthonormal basis of students and teacher: the teacher's last, before them
                                 those on what the students have beside it
    score (q, m)                 lowest for the most negative weights
    weight (q, m)                how many labels each stands for; None where all stand for themselves
    nodes (3, k)                 yhat, y and weight of the mean of the others; k = 0 where there are none
    """

    normals: Array
    basis: Array
    score: Array
    weight: Array | None
    nodes: Array


def drawn_labels(
    model: Network, m: int, n: int, chosen: range, seed: int, labels: Array | None = None
) -> DrawnLabels:
    """Labels of the draws `chosen` of m samples in dimension n; labels (2, m, p + p_star): normals, basis of all draws."""
    width, none = int(model.p) + model.p_star, np.empty((3, 0))
    if labels is not None:
        normals, basis = (np.broadcast_to(part, (len(chosen), m, width)) for part in labels)
        return DrawnLabels(normals, basis, _lowest_weight(model, normals), None, none)
    if n > SINGLY and model.p <= WIDEST:
        return _many(model, m, n, chosen, seed)
    directions, arrivals = coupled_labels(width, m, chosen, seed)
    before, total = arrivals[:, :-1], arrivals[:, -1:]
    # The score is the lowest weight among n labels, at every m: those that count as extreme stay the same along alpha. (By
    # the weights at m itself no mean of docs/appendix_finite_n.md moves by more than its error.)
    basis = directions * lengths(width, before, total)
    factors = _factors(model, n, chosen, seed)
    alike = directions * lengths(width, before, n + 1.0)
    score = _lowest_weight(model, _with_overlaps(model, alike, factors))
    return DrawnLabels(_with_overlaps(model, basis, factors), basis, score, None, none)


def _factors(model: Network, n: int, chosen: range, seed: int) -> Array:
    """Students (q, p, p_star + p) of each draw on an orthonormal basis, the teacher first: of norm 1, at random."""
    drawn = [gram_factor(model, n, np.random.default_rng([seed, number, 5])) for number in chosen]
    return np.array(drawn)[:, model.p_star :]


def _with_overlaps(model: Network, basis: Array, factors: Array) -> Array:
    """Preactivations (q, m, p + p_star) of students (q, p, p_star + p) from projections of samples on their basis."""
    p = int(model.p)
    teacher, beside = factors[..., : model.p_star], factors[..., model.p_star :]
    u = basis[..., p:]
    lam = basis[..., :p] @ beside.transpose(0, 2, 1) + u @ teacher.transpose(0, 2, 1)
    return np.concatenate([lam, u], axis=2)


def held(model: Network, m: int, n: int) -> int:
    """Labels of a draw that are held in memory."""
    return min(m, 4 * (EXTREMES + REST)) if n > SINGLY and model.p <= WIDEST else m


def _many(model: Network, m: int, n: int, chosen: range, seed: int) -> DrawnLabels:
    octave = max(1, math.ceil(math.log2(m / (bbp_threshold(model).alpha * n))))
    tail, p = _tail(model, n, octave), int(model.p)
    draws = [_one(tail, np.random.default_rng([seed, number, 4, octave]), m) for number in chosen]
    most = max(len(weight) for _, weight in draws)
    normals, weights = np.ones((len(draws), most, p + model.p_star)), np.zeros((len(draws), most))
    normals[..., p:] = 0  # places left empty: a weight F above 0 that counts for nothing
    for i, (own, weight) in enumerate(draws):
        normals[i, : len(own)], weights[i, : len(own)] = own, weight
    basis, mass = normals, float(tail.mean.share.sum())
    nodes = np.array(tail.nodes)
    nodes[2] *= (1 - math.sqrt(min(tail.rest / (m * mass), 1.0))) * m
    nodes = nodes if nodes[2].any() else nodes[:, :0]
    # Overlaps of students act through the sum over all labels, of which the nodes, having no lam, feel none: those drawn stand
    # for them, the effect being linear in overlaps. Overlaps are stretched as far as they stay small. Where that is not enough,
    # the change by overlaps counts several times, and what it is a change of, the same labels without, so much less.
    rest = weights * (weights != 1)
    stand = (m * mass / np.maximum(rest.sum(axis=1), 1))[:, None]
    stretch = np.minimum(stand, _SMALL * math.sqrt(n / (p + model.p_star)))
    times, factors = stand / stretch, _factors(model, n, chosen, seed)
    seen = np.where(
        (rest > 0)[..., None],
        _with_overlaps(model, basis, _stretched(factors, stretch[:, 0])),
        _with_overlaps(model, basis, factors),
    )
    if np.any(times > 1):
        bare = np.where((rest > 0)[..., None], normals, np.repeat([1.0, 0.0], [p, model.p_star]))
        seen, basis = np.concatenate([seen, bare], axis=1), np.concatenate([basis, basis], axis=1)
        weights = np.concatenate([np.where(rest > 0, times * rest, weights), (1 - times) * rest], axis=1)
    normals = seen
    return DrawnLabels(normals, basis, _lowest_weight(model, normals), weights, nodes)


def _stretched(factors: Array, times: Array) -> Array:
    """Students (q, p, p_star + p) whose overlaps with one another and with the teacher are `times` (q,) times as large."""
    p = factors.shape[1]
    own = np.zeros_like(factors)
    own[:, range(p), range(-p, 0)] = factors[:, range(p), range(-p, 0)]
    longer = own + times[:, None, None] * (factors - own)
    return np.asarray(longer / np.linalg.norm(longer, axis=2, keepdims=True))


@lru_cache(maxsize=16)
def _tail(model: Network, n: int, octave: int) -> LabelTail:
    return LabelTail(model, bbp_threshold(model).alpha * n * 2.0**octave, EXTREMES * 2**octave, REST)


def _one(tail: LabelTail, rng: np.random.Generator, m: int) -> tuple[Array, Array]:
    """Preactivations (k, p + p_star) of the labels of one draw that are drawn, and how many labels each stands for."""
    found: TailDraw = tail.draw(rng)
    here, mass = found.extreme.share * tail.samples <= m, float(tail.mean.share.sum())
    kept = min(tail.rest, round(m * mass))
    lam = np.concatenate([found.extreme.lam, found.rest.lam[:kept]])
    y = np.concatenate([found.extreme.y, found.rest.y[:kept]])
    weight = np.full(len(y), math.sqrt(kept * m * mass) / kept)
    weight[: len(here)] = 1
    direction = rng.standard_normal((len(y), tail.model.p_star))
    u = direction * np.sqrt(tail.model.p_star * y / np.sum(direction**2, axis=1))[:, None]
    chosen = np.append(np.flatnonzero(here), np.arange(len(here), len(y)))
    return np.hstack([lam, u])[chosen], weight[chosen]


def _lowest_weight(model: Network, normals: Array) -> Array:
    """The lowest eigenvalue of (p/2) F (q, m)."""
    p = int(model.p)
    yhat, y = (np.mean(part**2, axis=-1) for part in (normals[..., :p], normals[..., p:]))
    return np.asarray(((3 if p == 1 else 1) * yhat - y) / (model.a + y))
