"""What is drawn of a sample for the small matrix of theory.finite.small_matrix: labels, extreme ones apart, all else normal.

A label is the pair (lambda, u) of one sample's preactivations (theory.finite.bulk).

Labels. Up to SINGLY dimensions (and for p > 8) every label is drawn, at every number m of samples at once, so that what a draw
shows moves smoothly with alpha = m/N. Beyond, extreme ones and others that stand for many: theory.finite.many_labels.

The p + p_star preactivations of a label are independent normal variables: a direction, uniform on the sphere, times the
root of r ~ chi^2_{p + p_star}; and in which order m labels are told is of no matter. Told from the largest r down they have

    r_j = the value that r exceeds with probability G_j / G_{m+1},      G_j = e_1 + ... + e_j,

with e_i independent exponentials: G_j / G_{m+1} are the order statistics of m independent uniform variables. With the same
e_i and the same directions at every m, one label more lengthens each of the others a little and adds one at the far end,
where r, and with it the weight F, is near 0. Labels told in the order of their arrival, where a larger sample adds
independent ones, have the same law at each m, but their path along alpha is as rough as a random walk: a mean of 64 has
kinks that are seen in a figure.

Extreme labels. A label with t and phi = f / (1 + t f) at the edge of all labels is extreme where mean-field theory, which
replaces x' R x / N of a label by t, misses much: in the mean of the p blocks it fluctuates about t by t sqrt(2 / pN) or more,
and phi with it by t phi sqrt(2 / pN) of itself. That must exceed OWN: no more than needed, for directions told by themselves
have Gaussian noise among them, which has no third cumulant as that of the bulk has. (At fixed labels, p = 1, a = 0.6,
alpha = 2.47, N = 150, dense samples scatter by 0.15; without extreme labels the law does too, with eleven by 0.20.) Predictions
hardly depend on OWN from 0.23 to 0.33 at N = 150 (docs/appendix_finite_n.md).

Random numbers. Each kind has a stream of its own, so that draws do not depend on which others are made with them. What a label
has by itself is the head of a stream: m labels of a draw are the first m of a longer array, of a power of 2, which is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv, gammaincinv, gammaln

from theory.exact import committee_weights
from theory.finite import many_labels
from theory.finite.bulk import Labels, edge_of, label_excess, weight_eigenvalues
from theory.model.network import Network

Array = NDArray[np.float64]

SINGLY = 5000
LEVELS, PER_OUTLIER = 24, 6  # of the bulk, at the least; for each of the p p_star lowest at p > 1
EXTREMES = 16  # at the most
OWN = 0.25  # a label's fluctuation, in units of itself, from which it is extreme
_FEWER, _LEFT = 12, 3  # dimensions, and labels of negative weight, for each extreme one
_SMALL = 0.1  # length of all overlaps of a student together up to which their effect is linear
_LEAST = 2.0**-40  # a share of what arrives nearer 1 than this is r = 0
_KEPT = 128  # draws of a seed whose random numbers are kept, the first ones
_LARGEST = 2**14  # numbers of a draw that are kept: 17 MB in all of a kind
ARRIVALS, BLOCK, BESIDE, DIRECTIONS, STUDENTS = 0, 1, 2, 3, 5


@dataclass(frozen=True)
class Draw:
    """What is drawn of q samples, before an energy is chosen.

    labels, whole           those of the bulk, in the dimensions left to it; all, in N - p - p_star
    t_edge, edge (q,)       of all labels: t, and the energy in the units of the bulk's dimension (NaN without an edge)
    extremes (q,)           how many labels are told by themselves
    excess (q, 2)           of the sums of theory.finite.bulk over all labels; NaN where draws share them
    v (q, m, w)             projections of the samples on the w directions: the teacher's, the students', the extreme labels'
    extreme (q, p w, p w)   X, block index first, direction second, as in all blocks here
    present (q, w)          directions that there are, as draws differ in how many extreme labels they have
    noise (q, w, w, p^2 + 1), couplings (q, p, w, levels)    standard normal
    """

    labels: Labels
    whole: Labels
    t_edge: Array
    edge: Array
    extremes: NDArray[np.int64]
    excess: Array
    v: Array
    extreme: Array
    present: NDArray[np.bool_]
    noise: Array
    couplings: Array

    @property
    def blocks(self) -> int:
        """p."""
        return self.labels.lam.shape[2]

    @property
    def kinds(self) -> NDArray[np.int64]:
        """What each of the w directions is: 1 the teacher's, 2 the students' beside it, 0 neither."""
        p_star, w = self.labels.u.shape[2], self.v.shape[2]
        return np.repeat([1, 2, 0], [p_star, self.blocks, w - p_star - self.blocks])

    @property
    def rows(self) -> NDArray[np.int64]:
        """The same of each of the p w rows."""
        return np.tile(self.kinds, self.blocks)


def draw(model: Network, m: int, n: int, chosen: range, seed: int, shared: Array | None = None) -> Draw:
    """The labels of each draw, its extreme ones apart, and all other variables; those of a draw are coupled along m.

    shared   as in `drawn_labels`
    """
    p, p_star = int(model.p), model.p_star
    inner, every = n - p - p_star, p_star + p + EXTREMES
    whole, basis, score = drawn_labels(model, m, n, chosen, seed, shared)
    with np.errstate(invalid="ignore", divide="ignore"):
        t_edge = edge_of(whole)
        edge = whole.energy(t_edge)
    # Each takes a dimension out of the bulk: at most one in _FEWER.
    extremes = np.minimum(_extremes(whole, t_edge), n // _FEWER)
    k, size = int(extremes.max()), inner - extremes
    w = p_star + p + k
    # What a direction has by itself is drawn for all that there may be, as their number changes with m.
    most = min(EXTREMES, inner)
    own = [
        (_kept_block if i < _KEPT else _block)(seed, i, p, every, level_count(model), most, inner)
        for i in chosen
    ]
    noise, couplings = np.stack([o[0][:w, :w] for o in own]), np.stack([o[1][:, :w] for o in own])
    excess = np.full((len(own), 2), np.nan)
    if shared is None and whole.weight is None:
        excess = label_excess(model, Labels.of(model, basis[..., :p], basis[..., p:], n), m / n)
    v = np.roll(basis, p_star, axis=2)  # the teacher's first
    bulk, x = whole, np.zeros((len(own), p * w, p * w))
    if k:
        rank = np.argsort(score, axis=1)[:, :k]
        apart = np.arange(k) < extremes[:, None]
        lam, u, far = (np.take_along_axis(part, rank[..., None], axis=1) for part in (whole.lam, whole.u, v))
        triangles = np.stack([o[2][:k, :k] for o in own])
        far = np.concatenate([far, triangles * apart[:, None]], axis=2) * apart[..., None]
        weights = committee_weights(model.a, lam, np.mean(u**2, axis=-1)) * p / 2
        x = np.einsum("qmij,qma,qmb->qiajb", weights, far, far, optimize=True)
        # x of unit variance a component: the 1/N of the inputs, in the dimension of the bulk
        x = x.reshape(len(own), p * w, p * w) / size[:, None, None]
        others = np.stack([_head(seed, i, BESIDE, v.shape[1], EXTREMES)[:, :k] for i in chosen])
        v = np.concatenate([v, others * apart[:, None]], axis=2)
        bulk = whole.without(rank, apart)
    bulk = replace(bulk, n=size)
    present = np.arange(w) < (p_star + p + extremes)[:, None]
    # Any t in (0, 1): draws without an edge are told apart by their NaN energy.
    t_edge = np.where(np.isfinite(t_edge), t_edge, 0.5)
    return Draw(bulk, whole, t_edge, edge * inner / size, extremes, excess, v, x, present, noise, couplings)


def level_count(model: Network) -> int:
    """How many levels of the bulk are told one by one, at the most."""
    return LEVELS if model.p == 1 else max(LEVELS, PER_OUTLIER * int(model.degeneracy))


def _extremes(labels: Labels, t_edge: Array) -> NDArray[np.int64]:
    """How many labels (q,) feel the edge so much that each is told by itself."""
    shares = sum(
        share * (f / (1 + t_edge[:, None] * f)) ** 2 for f, share in zip(labels.f, labels.shares, strict=True)
    )
    # t phi (2 / pN)^(1/2) > OWN, squared and averaged over the p blocks
    large = shares * t_edge[:, None] ** 2 > OWN**2 * labels.lam.shape[2] * labels.n / 2
    if labels.weight is not None:
        large &= labels.weight == 1
    negative = (labels.f[0] < 0).sum(axis=1)  # the others make the bulk
    return np.minimum(np.minimum(large.sum(axis=1), negative // _LEFT), EXTREMES)


def stored(model: Network, m: int, n: int) -> int:
    """How many samples of a draw are in memory."""
    return min(m, many_labels.STORED) if n > SINGLY and model.p <= many_labels.WIDEST else m


def drawn_labels(
    model: Network, m: int, n: int, chosen: range, seed: int, shared: Array | None = None
) -> tuple[Labels, Array, Array]:
    """Labels of the draws `chosen` of m samples in dimension n: in dimension n - p - p_star, with their projections
    (q, m, p + p_star) on an orthonormal basis of students and teacher, the teacher's last, and a score (q, m), lowest for the
    most negative weights.

    shared   (2, m, p + p_star) preactivations, students' first, and projections that all draws share
    """
    p, width = int(model.p), int(model.p) + model.p_star
    if shared is not None:
        normals, basis = (np.broadcast_to(part, (len(chosen), m, width)) for part in shared)
        score = _lowest_weight(model, normals)
    elif n > SINGLY and model.p <= many_labels.WIDEST:
        return _many(model, m, n, chosen, seed)
    else:
        directions, arrivals = coupled_labels(width, m, chosen, seed)
        before, total = arrivals[:, :-1], arrivals[:, -1:]
        basis = directions * lengths(width, before, total)
        factors = _factors(model, n, chosen, seed)
        normals = _with_overlaps(model, basis, factors)
        # The score is the lowest weight among n labels, at every m: those that count as extreme stay the same along alpha. (By
        # the weights at m itself no mean of docs/appendix_finite_n.md moves by more than its error.)
        alike = directions * lengths(width, before, n + 1.0)
        score = _lowest_weight(model, _with_overlaps(model, alike, factors))
    return Labels.of(model, normals[..., :p], normals[..., p:], n - width), basis, score


def coupled_labels(width: int, m: int, chosen: range, seed: int) -> tuple[Array, Array]:
    """Directions (q, m, width) of m labels of the draws `chosen`, and G (q, m + 1): see the top of the module.

    width   p + p_star
    """
    directions = np.stack([_head(seed, number, DIRECTIONS, m, width) for number in chosen])
    return directions, np.stack([_head(seed, number, ARRIVALS, m + 1, 1) for number in chosen])


def lengths(width: int, arrivals: Array, total: Array | float) -> Array:
    """Root of r (q, m, 1) of the labels that arrive at G (q, m) of `total` (q, 1), G_{m+1} in a sample of m; to 10 digits.

    >>> lengths(2, np.array([[0.5]]), 1.0).round(4)  # r = 2 log 2
    array([[[1.1774]]])
    """
    depth = -np.log(np.minimum(arrivals / total, 1 - _LEAST))
    first, step, cubics = _log_length(width)
    way = (np.log(depth)[..., None] - first) / step
    left = np.clip(way.astype(np.int64), 0, cubics.shape[1] - 1)
    way -= left
    constant, linear, square, cube = (row[left] for row in cubics)
    return np.asarray(np.exp(constant + way * (linear + way * (square + way * cube))))


@lru_cache(maxsize=8)
def _log_length(width: int) -> tuple[float, float, Array]:
    """log of the root of r over x = log of the depth y = -log P(r' > r), linear at both ends: first of equally distant points,
    their distance, and cubics (4, points - 1) of the share of the way from one to the next, from values and slopes (Hermite).

    Its slope is y P(r' > r) / (2 r f(r)), f the density of r: with z = r / 2, s = width / 2, r f = z^s exp(-z) / Gamma(s).
    SciPy's splines would serve too, but importing them takes 0.2 s.
    """
    x = np.linspace(np.log(_LEAST), np.log(700.0), 1000)
    depth, half = np.exp(x), width / 2
    # Of P and 1 - P the smaller one is inverted: the other has lost its digits.
    far = depth > 0.7
    z = np.where(far, gammainccinv(half, np.exp(-depth)), gammaincinv(half, -np.expm1(-depth)))
    # P(r' > r) = exp(-y), r f = z^s exp(-z) / Gamma(s), both in the exponent as each underflows
    slopes = np.exp(x + z - depth - half * np.log(z) + gammaln(half)) / 2
    step, values = float(x[1] - x[0]), np.log(2 * z) / 2
    rise, start, end = np.diff(values), step * slopes[:-1], step * slopes[1:]
    return (
        float(x[0]),
        step,
        np.array([values[:-1], start, 3 * rise - 2 * start - end, start + end - 2 * rise]),
    )


def gram_factor(model: Network, n: int, rng: np.random.Generator) -> Array:
    """The lower triangle L (r, r) of overlaps L L^T of orthogonal teacher rows and random student rows on the sphere in
    dimension n: rows on an orthonormal basis, teacher first.

    By Bartlett's decomposition: components on the rows before are normal, what is left has a chi-square of n - j.
    """
    p, p_star = int(model.p), model.p_star
    factor = np.eye(p + p_star)
    for j in range(p_star, p + p_star):
        # Bartlett: n - j components are left beside the j rows before
        row = np.append(rng.standard_normal(j), np.sqrt(rng.chisquare(n - j)))
        factor[j, : j + 1] = row / np.linalg.norm(row)
    return factor


def _factors(model: Network, n: int, chosen: range, seed: int) -> Array:
    """Students (q, p, p_star + p) of each draw on an orthonormal basis, the teacher first: of norm 1, at random."""
    drawn = [gram_factor(model, n, np.random.default_rng([seed, i, STUDENTS])) for i in chosen]
    return np.array(drawn)[:, model.p_star :]


def _with_overlaps(model: Network, basis: Array, factors: Array) -> Array:
    """Preactivations (q, m, p + p_star) of students (q, p, p_star + p) from projections of samples on their basis."""
    p = int(model.p)
    teacher, beside = factors[..., : model.p_star], factors[..., model.p_star :]
    u = basis[..., p:]
    lam = basis[..., :p] @ beside.transpose(0, 2, 1) + u @ teacher.transpose(0, 2, 1)
    return np.concatenate([lam, u], axis=2)


def _many(model: Network, m: int, n: int, chosen: range, seed: int) -> tuple[Labels, Array, Array]:
    """`drawn_labels` where few of them stand for many.

    Overlaps of students act through the sum over all labels, of which the nodes, having no lam, feel none: those drawn stand
    for them, the effect being linear in overlaps. Overlaps are stretched as far as they stay small. Where that is not enough,
    the change by overlaps counts several times, and what it is a change of, the same labels without, so much less.
    """
    p, p_star = int(model.p), model.p_star
    basis, weights, nodes, others = many_labels.standing(model, m, n, chosen, seed)
    rest = weights * (weights != 1)
    stand = (others / np.maximum(rest.sum(axis=1), 1))[:, None]
    # p + p_star overlaps of N^(-1/2) each are ((p + p_star)/N)^(1/2) together.
    stretch = np.minimum(stand, _SMALL * math.sqrt(n / (p + p_star)))
    times, factors = stand / stretch, _factors(model, n, chosen, seed)
    stands = (rest > 0)[..., None]
    longer = _with_overlaps(model, basis, _stretched(factors, stretch[:, 0]))
    normals = np.where(stands, longer, _with_overlaps(model, basis, factors))
    if np.any(times > 1):
        bare = np.where(stands, basis, np.repeat([1.0, 0.0], [p, p_star]))
        # times (with overlaps - without) + without: the linear response to overlaps, at its full size
        normals, basis = np.concatenate([normals, bare], axis=1), np.concatenate([basis, basis], axis=1)
        weights = np.concatenate([np.where(rest > 0, times * rest, weights), (1 - times) * rest], axis=1)
    labels = Labels.of(model, normals[..., :p], normals[..., p:], n - p - p_star, weights, nodes)
    return labels, basis, _lowest_weight(model, normals)


def _stretched(factors: Array, times: Array) -> Array:
    """Students (q, p, p_star + p) whose overlaps with one another and with the teacher are `times` (q,) times as large."""
    p = factors.shape[1]
    own = np.zeros_like(factors)
    own[:, range(p), range(-p, 0)] = factors[:, range(p), range(-p, 0)]
    longer = own + times[:, None, None] * (factors - own)
    return np.asarray(longer / np.linalg.norm(longer, axis=2, keepdims=True))


def _lowest_weight(model: Network, normals: Array) -> Array:
    """The lowest eigenvalue of (p/2) F (q, m)."""
    yhat, y = (np.mean(part**2, axis=-1) for part in np.split(normals, [int(model.p)], axis=-1))
    return weight_eigenvalues(model, yhat, y)[0][0]


def _block(
    seed: int, number: int, p: int, w: int, levels: int, k: int, dimension: int
) -> tuple[Array, Array, Array]:
    """Normal numbers (w, w, p^2 + 1) and (p, w, levels), and the triangle (k, k): components of k Gaussian vectors of a
    dimension on the orthonormal basis that Gram and Schmidt make of them."""
    rng = np.random.default_rng([seed, number, BLOCK])
    noise, couplings = rng.standard_normal((w, w, p * p + 1)), rng.standard_normal((p, w, levels))
    triangle = np.tril(rng.standard_normal((k, k)), -1)
    # R of a QR decomposition of Gaussian vectors: chi variables on the diagonal
    triangle[range(k), range(k)] = np.sqrt(rng.chisquare(dimension - np.arange(k)))
    return noise, couplings, triangle


def _head(seed: int, number: int, kind: int, m: int, width: int) -> Array:
    """Of m labels of a draw: DIRECTIONS (m, width), unit vectors; ARRIVALS (m,), sums of exponential numbers; BESIDE
    (m, width), normal, their projections on more directions."""
    # Rows are filled in order: a longer array starts with the shorter one.
    longer = 1 << (m - 1).bit_length()
    if number >= _KEPT or longer * width > _LARGEST:
        return _stream(seed, number, kind, m, width)
    return _kept_stream(seed, number, kind, longer, width)[:m]


def _stream(seed: int, number: int, kind: int, m: int, width: int) -> Array:
    rng = np.random.default_rng([seed, number, kind])
    if kind == ARRIVALS:
        return np.cumsum(rng.standard_exponential(m))
    normal = rng.standard_normal((m, width))
    return normal / np.linalg.norm(normal, axis=1, keepdims=True) if kind == DIRECTIONS else normal


_kept_block, _kept_stream = lru_cache(maxsize=_KEPT)(_block), lru_cache(maxsize=4 * _KEPT)(_stream)
