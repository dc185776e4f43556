"""What is drawn of a sample for the small matrix of theory.finite.small_matrix: preactivations, all else as normal variables.

A sample has m data points, each with its preactivations (lambda, u). The extreme ones enter the small matrix by themselves, the
others make its bulk (theory.finite.bulk).

Preactivations. Up to SINGLY dimensions (and for p > 8) those of every data point are drawn, coupled between all m, so that
what a draw gives moves smoothly with alpha = m/N. Beyond, only extreme ones and others that each stand for many are drawn
(theory.finite.large_n).

The p + p_star preactivations of a data point are independent normal variables: a direction, uniform on the sphere, times the
root of r ~ chi^2_{p + p_star}. The order of the m data points does not matter. From the largest r down they have

    r_j = the value that r exceeds with probability G_j / G_{m+1},      G_j = e_1 + ... + e_j,

with e_i independent exponentials: G_j / G_{m+1} are the order statistics of m independent uniform variables. The e_i and the
directions are the same at every m. So one data point more lengthens each of the others a little and adds one at the far end,
where r, and with it the weight F, is near 0. In their order of arrival, where a larger sample adds independent data points,
they have the same law at each m, but along alpha a draw is as rough as a random walk: a mean of 64 has kinks that a figure
shows.

Extreme data points. Let a data point have phi = f / (1 + t f) at the t of the edge of all of them. It is extreme where
mean-field theory misses much, which replaces x' R x / N by t. In the mean of the p blocks this fluctuates about t by t sqrt(2 /
pN) or more, and phi with it by t phi sqrt(2 / pN) of itself; a data point is extreme where that exceeds OWN. They are to be no
more than needed, for the directions of extreme ones have Gaussian noise among them, which lacks the third cumulant that the
bulk's has. (At fixed preactivations, p = 1, a = 0.6, alpha = 2.47, N = 150, dense samples scatter by 0.15; the law does so
without extreme data points, and by 0.20 with eleven.) Predictions hardly depend on OWN from 0.23 to 0.33 at N = 150
(docs/appendix_finite_n.md).

Random numbers. Each kind has a stream of its own, so that draws do not depend on which others are made with them. What a data
point has by itself is the head of a stream: m data points of a draw are the first m of a longer array, of a power of 2, which
is stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv, gammaincinv, gammaln

from theory.exact import committee_weights
from theory.finite import large_n
from theory.finite.bulk import Preactivations, control_variates, edge_of, weight_eigenvalues
from theory.model.network import Network

Array = NDArray[np.float64]

SINGLY = 5000
KEPT, PER_OUTLIER = 24, 6  # eigenvalues of the bulk, at the least; for each of the p p_star lowest at p > 1
EXTREMES = 16  # at the most
OWN = 0.25  # a data point's fluctuation, in units of itself, from which it is extreme
_FEWER, _LEFT = 12, 3  # dimensions, and data points of negative weight, for each extreme one
_SMALL = 0.1  # length of all overlaps of a student together up to which their effect is linear
_LEAST = 2.0**-40  # a share of what arrives nearer 1 than this is r = 0
_CACHED = 128  # draws of a seed whose random numbers are stored, the first ones
_LARGEST = 2**14  # numbers of a draw that are stored: 17 MB in all of a kind
ARRIVALS, BLOCK, BESIDE, DIRECTIONS, STUDENTS = 0, 1, 2, 3, 5


@dataclass(frozen=True)
class Draw:
    """What is drawn of q samples, before an energy is chosen.

    data, whole             preactivations of the bulk, in the dimensions left to it; of all, in N - p - p_star
    t_edge, edge (q,)       of all data points: t, and the energy in the units of the bulk's dimension (NaN without an edge)
    extremes (q,)           how many data points are extreme
    excess (q, 2)           of the sums of theory.finite.bulk over all data points; NaN where draws share them
    v (q, m, w)             projections of the inputs on the w directions: the teacher's, the students', the extreme ones
    extreme (q, p w, p w)   X, block index first, direction second, as in all blocks here
    present (q, w)          directions that there are, as draws differ in how many data points are extreme
    noise (q, w, w, p^2 + 1), couplings (q, p, w, kept)    standard normal
    """

    data: Preactivations
    whole: Preactivations
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
        return self.data.lam.shape[2]

    @property
    def n(self) -> int:
        """The dimension N."""
        return int(self.whole.n) + self.blocks + self.data.u.shape[2]

    @property
    def kinds(self) -> NDArray[np.int64]:
        """What each of the w directions is: 1 the teacher's, 2 the students' beside it, 0 neither."""
        p_star, w = self.data.u.shape[2], self.v.shape[2]
        return np.repeat([1, 2, 0], [p_star, self.blocks, w - p_star - self.blocks])

    @property
    def rows(self) -> NDArray[np.int64]:
        """The same of each of the p w rows."""
        return np.tile(self.kinds, self.blocks)


def draw(model: Network, m: int, n: int, chosen: range, seed: int, shared: Array | None = None) -> Draw:
    """Preactivations of each draw, the extreme ones apart, and all other variables; those of a draw are coupled along m.

    shared   as in `draw_preactivations`
    """
    p, p_star = int(model.p), model.p_star
    inner, every = n - p - p_star, p_star + p + EXTREMES
    whole, basis, score = draw_preactivations(model, m, n, chosen, seed, shared)
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
        (_cached_block if i < _CACHED else _block)(seed, i, p, every, eigenvalue_count(model), most, inner)
        for i in chosen
    ]
    noise, couplings = np.stack([o[0][:w, :w] for o in own]), np.stack([o[1][:, :w] for o in own])
    excess = np.full((len(own), 2), np.nan)
    if shared is None and whole.weight is None:
        excess = control_variates(model, Preactivations.of(model, basis[..., :p], basis[..., p:], n), m / n)
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


def eigenvalue_count(model: Network) -> int:
    """How many eigenvalues of the bulk the small matrix has, at the most."""
    return KEPT if model.p == 1 else max(KEPT, PER_OUTLIER * int(model.degeneracy))


def _extremes(data: Preactivations, t_edge: Array) -> NDArray[np.int64]:
    """How many data points (q,) are extreme: see the top."""
    shares = sum(
        share * (f / (1 + t_edge[:, None] * f)) ** 2 for f, share in zip(data.f, data.shares, strict=True)
    )
    # t phi (2 / pN)^(1/2) > OWN, squared and averaged over the p blocks
    large = shares * t_edge[:, None] ** 2 > OWN**2 * data.lam.shape[2] * data.n / 2
    if data.weight is not None:
        large &= data.weight == 1
    negative = (data.f[0] < 0).sum(axis=1)  # the others make the bulk
    return np.minimum(np.minimum(large.sum(axis=1), negative // _LEFT), EXTREMES)


def stored(model: Network, m: int, n: int) -> int:
    """How many samples of a draw are in memory."""
    return min(m, large_n.STORED) if n > SINGLY and model.p <= large_n.WIDEST else m


def draw_preactivations(
    model: Network, m: int, n: int, chosen: range, seed: int, shared: Array | None = None
) -> tuple[Preactivations, Array, Array]:
    """Preactivations of the draws `chosen` of m samples in dimension n.

    They come in dimension n - p - p_star, with projections (q, m, p + p_star) of the inputs on an orthonormal basis of students
    and teacher, the teacher's last, and a score (q, m), lowest for the most negative weights.

    shared   (2, m, p + p_star) preactivations, students' first, and projections that all draws share
    """
    p, width = int(model.p), int(model.p) + model.p_star
    if shared is not None:
        normals, basis = (np.broadcast_to(part, (len(chosen), m, width)) for part in shared)
        score = _lowest_weight(model, normals)
    elif n > SINGLY and model.p <= large_n.WIDEST:
        return _many(model, m, n, chosen, seed)
    else:
        directions, arrivals = coupled_data(width, m, chosen, seed)
        before, total = arrivals[:, :-1], arrivals[:, -1:]
        basis = directions * lengths(width, before, total)
        factors = _factors(model, n, chosen, seed)
        normals = _with_overlaps(model, basis, factors)
        # The score is the lowest weight among n data points, at every m: those that count as extreme stay the same along
        # alpha. (By the weights at m itself no mean of docs/appendix_finite_n.md moves by more than its error.)
        alike = directions * lengths(width, before, n + 1.0)
        score = _lowest_weight(model, _with_overlaps(model, alike, factors))
    return Preactivations.of(model, normals[..., :p], normals[..., p:], n - width), basis, score


def coupled_data(width: int, m: int, chosen: range, seed: int) -> tuple[Array, Array]:
    """Directions (q, m, width) of m data points of the draws `chosen`, and G (q, m + 1): see the top of the module.

    width   p + p_star
    """
    directions = np.stack([_head(seed, number, DIRECTIONS, m, width) for number in chosen])
    return directions, np.stack([_head(seed, number, ARRIVALS, m + 1, 1) for number in chosen])


def lengths(width: int, arrivals: Array, total: Array | float) -> Array:
    """Root of r (q, m, 1) of the data points that arrive at G (q, m) of `total` (q, 1), G_{m+1} in a sample of m; to 10 digits.

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


def _many(model: Network, m: int, n: int, chosen: range, seed: int) -> tuple[Preactivations, Array, Array]:
    """`draw_preactivations` where few data points stand for many.

    Overlaps of students act through the sum over all data points, but not on the nodes, which have no lam. As the effect is
    linear in overlaps, those drawn take the part of the nodes: their overlaps are stretched as far as they stay small. Where
    that is not enough, the change by overlaps counts several times: data points with overlaps have a larger weight, and the
    same ones without overlaps a negative one.
    """
    p, p_star = int(model.p), model.p_star
    basis, weights, nodes, others = large_n.representatives(model, m, n, chosen, seed)
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
    data = Preactivations.of(model, normals[..., :p], normals[..., p:], n - p - p_star, weights, nodes)
    return data, basis, _lowest_weight(model, normals)


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
    seed: int, number: int, p: int, w: int, kept: int, k: int, dimension: int
) -> tuple[Array, Array, Array]:
    """Normal numbers (w, w, p^2 + 1) and (p, w, kept), and the triangle (k, k): components of k Gaussian vectors of a
    dimension on the orthonormal basis that Gram and Schmidt make of them."""
    rng = np.random.default_rng([seed, number, BLOCK])
    noise, couplings = rng.standard_normal((w, w, p * p + 1)), rng.standard_normal((p, w, kept))
    triangle = np.tril(rng.standard_normal((k, k)), -1)
    # R of a QR decomposition of Gaussian vectors: chi variables on the diagonal
    triangle[range(k), range(k)] = np.sqrt(rng.chisquare(dimension - np.arange(k)))
    return noise, couplings, triangle


def _head(seed: int, number: int, kind: int, m: int, width: int) -> Array:
    """Of m data points of a draw: DIRECTIONS (m, width), unit vectors; ARRIVALS (m,), sums of exponential numbers; BESIDE
    (m, width), normal, their projections on more directions."""
    # Rows are filled in order: a longer array starts with the shorter one.
    longer = 1 << (m - 1).bit_length()
    if number >= _CACHED or longer * width > _LARGEST:
        return _stream(seed, number, kind, m, width)
    return _cached_stream(seed, number, kind, longer, width)[:m]


def _stream(seed: int, number: int, kind: int, m: int, width: int) -> Array:
    rng = np.random.default_rng([seed, number, kind])
    if kind == ARRIVALS:
        return np.cumsum(rng.standard_exponential(m))
    normal = rng.standard_normal((m, width))
    return normal / np.linalg.norm(normal, axis=1, keepdims=True) if kind == DIRECTIONS else normal


_cached_block, _cached_stream = lru_cache(maxsize=_CACHED)(_block), lru_cache(maxsize=4 * _CACHED)(_stream)
