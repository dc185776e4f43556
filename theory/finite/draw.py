"""What is drawn of a sample for the small matrix of theory.finite.small_matrix: labels, extreme ones apart, all else
normal.

A label with t and phi = f / (1 + t f) at the edge of all labels is extreme where mean-field theory, which replaces x' R x / N
of a label by t, misses much: in the mean of the p blocks it fluctuates about t by t sqrt(2 / pN) or more, and phi with it by
t phi sqrt(2 / pN) of itself.
That must exceed OWN: no more than needed, for directions told by themselves have Gaussian noise among them, which
has no third cumulant as that of the bulk has. (At fixed labels, p = 1, a = 0.6, alpha = 2.47, N = 150, dense samples scatter by
0.15; without extreme labels the law does too, with eleven by 0.20.) Predictions hardly depend on OWN from 0.23 to 0.33 at
N = 150 (docs/appendix_finite_n.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from theory.exact.committee import committee_weights
from theory.finite import random_numbers
from theory.finite.label_bulk import Labels, edge_of, label_excess
from theory.finite.many_labels import drawn_labels
from theory.model.network import Network

Array = NDArray[np.float64]

LEVELS, PER_OUTLIER = 24, 6  # of the bulk, at the least; for each of the p p_star lowest at p > 1
EXTREMES = 16  # at the most
OWN = 0.25  # a label's fluctuation, in units of itself, from which it is extreme
_FEWER, _LEFT = 12, 3  # dimensions, and labels of negative weight, for each extreme one


@dataclass(frozen=True)
class Draw:
    """What is drawn of q samples, before an energy is chosen.

    labels, whole           those of the bulk, in the dimensions left to it; all, in N - p - p_star
    t_edge, edge (q,)       of all labels: t, and the energy in the units of the bulk's dimension (NaN without an edge)
    extremes (q,)           how many labels are told by themselves
    excess (q, 2)           of the sums of theory.finite.label_bulk over all labels; NaN where draws share them
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


def draw(model: Network, m: int, n: int, chosen: range, seed: int, labels: Array | None = None) -> Draw:
    """The labels of each draw, its extreme ones apart, and all other variables; those of a draw are coupled along m."""
    p, p_star = int(model.p), model.p_star
    inner, every = n - p - p_star, p_star + p + EXTREMES
    told = drawn_labels(model, m, n, chosen, seed, labels)
    whole = Labels.of(model, told.normals[..., :p], told.normals[..., p:], inner, told.weight, told.nodes)
    with np.errstate(invalid="ignore", divide="ignore"):
        t_edge = edge_of(whole)
        edge = whole.energy(t_edge)
    extremes = np.minimum(_extremes(whole, t_edge), n // _FEWER)
    k, size = int(extremes.max()), inner - extremes
    w = p_star + p + k
    # What a direction has by itself is drawn for all that there may be, as their number changes with m.
    most = min(EXTREMES, inner)
    own = [random_numbers.block_numbers(seed, i, p, every, level_count(model), most, inner) for i in chosen]
    noise, couplings = np.stack([o[0][:w, :w] for o in own]), np.stack([o[1][:, :w] for o in own])
    excess = np.full((len(own), 2), np.nan)
    if labels is None and told.weight is None:
        excess = label_excess(model, Labels.of(model, told.basis[..., :p], told.basis[..., p:], n), m / n)
    v = np.roll(told.basis, p_star, axis=2)  # the teacher's first
    bulk, x = whole, np.zeros((len(own), p * w, p * w))
    if k:
        rank = np.argsort(told.score, axis=1)[:, :k]
        apart = np.arange(k) < extremes[:, None]
        far, far_v = (np.take_along_axis(part, rank[..., None], axis=1) for part in (told.normals, v))
        triangles = np.stack([o[2][:k, :k] for o in own])
        far_v = np.concatenate([far_v, triangles * apart[:, None]], axis=2) * apart[..., None]
        weights = committee_weights(model.a, far[..., :p], np.mean(far[..., p:] ** 2, axis=-1)) * p / 2
        x = np.einsum("qmij,qma,qmb->qiajb", weights, far_v, far_v, optimize=True)
        x = x.reshape(len(own), p * w, p * w) / size[:, None, None]
        others = np.stack([random_numbers.beside(seed, i, v.shape[1], EXTREMES)[:, :k] for i in chosen])
        v = np.concatenate([v, others * apart[:, None]], axis=2)
        bulk = whole.without(rank, apart)
    bulk = replace(bulk, n=size)
    present = np.arange(w) < (p_star + p + extremes)[:, None]
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
    large = shares * t_edge[:, None] ** 2 > OWN**2 * labels.lam.shape[2] * labels.n / 2
    if labels.weight is not None:
        large &= labels.weight == 1
    negative = (labels.f[0] < 0).sum(axis=1)  # the others make the bulk
    return np.minimum(np.minimum(large.sum(axis=1), negative // _LEFT), EXTREMES)
