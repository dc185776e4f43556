"""The small random matrix whose lowest pairs have the law of a sample's: signal, extreme labels, levels of the bulk.

Derived here, units of (p/2) H. A few directions of the input space are singled out, each with its p copies, one in each
student block: the p_star of the teacher and, for p > 1, those that the K most negative labels' inputs span. The other
labels make a bulk that is independent of all of them, in the N - p - p_star - K dimensions that are left. In this basis
the Hessian is, with levels mu of that bulk,

    [ A + X   b ]        A = (1/N) sum v v^T (x) F    over the labels of the bulk, v (w,) their projections,
    [ b'      mu]        X = (1/N) sum x x^T (x) F    over the K extreme labels, x their components, R of a QR
                                                      decomposition: chi and normal variables.

Given the labels a level has couplings b to the copies of a direction of mean square (1/pN) (-Im S / Im t) for the signal
and (1/pN) / |t|^2 for a direction that has no part in the labels (theory.finite_n.label_bulk). What is drawn:

* the labels, and v on the extreme directions, which is normal and independent of them;
* the LEVELS lowest levels, those of a GOE at equal counts (theory.finite_n.levels), and Gaussian couplings (single
  overlaps follow Porter and Thomas);
* what the other levels give: its mean at fixed labels, (1/N) sum v v^T (x) Phi less the mean of the kept levels, with
  Phi = F (I + t F)^{-1}, and noise about it, the Gaussian block of theory.finite_n.block_noise in its three sectors,
  less what the kept levels bring by themselves.

For p_star = p = 1 far above the threshold that noise is the second term of Var z = (1/N) { alpha Var[phi (1 + q2 (u^2 -
1))] + 2 (1 - q2)^2 |z'(g)| } of an outlier, since dz = q2 dS there and (1 - q2) / q2 = -alpha S'(g) / z'(g).

Why extreme labels by themselves: the resolvent of the bulk is a multiple of I in the p blocks only on the average. A
label with F near its lowest value pulls p - 1 levels out of the bulk of the others, on its own input and across its own
lam, as near to one another as students are alike; averaged, they would be independent levels with couplings of their own,
and its term in sum Phi nearly a pole. Left to themselves the K most negative ones do neither harm: the rest is a bulk
whose edge lies farther right and whose anisotropy is small. (Without them the lowest vector of dense samples has 10 to
30 % less overlap than predicted for p > 1. For p = 1 there are no such levels and K = 0: K = 16 makes the lowest of dense
samples 0.1 too low at p_star = 3, a = 0.7, alpha = 6, N = 150, and its overlap at p_star = 1 and 2 no better.)

The mean part depends on z: it is taken on a chord about the energy where the pairs are found in the turn before, R(z) =
R(z_0) + R' (z - z_0), which makes (1 - R')^(-1/2) the unit of the block. The chord's half width is a part (_WIDTH) of the
distance to the last kept level, the scale on which what is left out is smooth: at large N kept levels reach less far, and a
chord of fixed width misses the slope that an outlier feels. The noise is that at the energy of the pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from theory.checks import NotConverged
from theory.finite_n.label_bulk import LabelBulk, Labels, edge_of, label_bulk
from theory.finite_n.label_control import label_excess
from theory.finite_n.levels import airy_levels
from theory.finite_n.many_labels import drawn_labels
from theory.model import Committee

Array = NDArray[np.float64]

LEVELS = 24  # of the bulk
EXTREMES = 16  # at the most
SHARE = (0.02, 0.005)  # of the edge's condition t^2 (1/N) sum phi^2 = 1 from which a label is extreme: p = 1, above
_FEWER = 12  # dimensions for each extreme label
_ABSENT = 1e3  # energy of directions that a draw does not have
_TURNS, _FAR_TURNS, _FAR = (
    4,
    7,
    10_000,
)  # beyond N = _FAR the first chord, at the edge, is too short for an outlier
_WIDTH = 0.05
_EARLY = 0.3  # share of draws whose curve may end before the levels do: theirs go straight on
_EDGE, _QUIET = 0.97, 0.8  # of t at the edge of the bulk: the chord's near end and the noise stay below
_FINE = 160
_BISECTIONS = 14


@dataclass(frozen=True)
class Draw:
    """What is drawn of q samples, before an energy is chosen.

    labels, whole           of the bulk, in the dimensions left to it; all, in N - p - p_star. edge (q,): of all labels
    excess (q, 2)           of the sums of theory.finite_n.label_control over all labels; NaN where draws share them
    v (q, m, w)             projections of the samples on the w directions: the teacher's, the students', the extreme labels'
    extreme (q, p w, p w)   X, block index first, direction second, as in all blocks here
    present (q, w)          directions that there are: draws have `extremes` (q,) of the last kind
    noise (q, w, w, p^2 + 1), couplings (q, p, w, LEVELS)    standard normal
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


@dataclass(frozen=True)
class SmallPairs:
    """Pairs of q draws in ascending order, in units of (p/2) H times N over the bulk's dimension.

    values (q, k), overlaps (q, k)   eigenvalues, squared overlaps with the signal
    known (q, k)                     pairs that stand for one level of a sample, not for all that are left out
    sound (q,)                       draws with an edge and enough levels left of 0
    excess (q, 2)                    as in Draw
    """

    values: Array
    overlaps: Array
    known: NDArray[np.bool_]
    sound: NDArray[np.bool_]
    excess: Array
    size: NDArray[np.int64]


def small_pairs(
    model: Committee, m: int, n: int, chosen: range, seed: int, labels: Array | None = None
) -> SmallPairs:
    """Pairs of the draws number `chosen` of m samples in dimension n: see the top of the module.

    labels (m, p + p_star)   preactivations that all draws share, students' first; each has its own if None

    Raises NotConverged where no draw has an edge with enough levels left of 0.
    """
    drawn = draw(model, m, n, chosen, seed, labels)
    bulk_labels, d = drawn.labels, int(model.degeneracy)
    order = drawn.blocks * bulk_labels.n
    with np.errstate(invalid="ignore", divide="ignore"):
        bulk = label_bulk(bulk_labels, order, LEVELS + 1)
        fewest = np.where(drawn.extremes > 0, 2, d + 2)
        sound = (
            np.isfinite(bulk.edge)
            & np.isfinite(drawn.edge)
            & (bulk.count[:, -1] > fewest)
            & (bulk.count[:, 1] > 0)
        )
    if not np.any(sound):
        raise NotConverged("the bulk of every draw has too few levels left of 0", None)
    kept = int(min(LEVELS, math.floor(np.quantile(bulk.count[sound, -1], _EARLY)) - 1, order.min()))
    lows = airy_levels(chosen.stop, LEVELS)[chosen.start :, :kept]
    bulk_edge = np.where(sound, bulk.edge, -1.0)
    t_edge = np.where(sound, bulk.t_edge, 0.5)
    curves = _squares(bulk_labels, bulk, t_edge)
    levels, squares = _levels(drawn, bulk, lows, sound, curves)
    fine = _fine_levels(bulk, order, kept, curves)
    found = np.where(sound, np.minimum(drawn.edge, bulk.edge), -1.0)
    rows = drawn.rows == 1
    turns = _TURNS if n <= _FAR else _FAR_TURNS
    parts = []
    for turn in range(turns):
        width = _WIDTH * np.where(sound, levels[:, -1] - found, 1.0)
        root, centre = _block(drawn, fine, sound, t_edge, found, width)
        matrix = _matrix(drawn, root, centre, levels, squares)
        if turn < turns - 2:
            values = np.linalg.eigvalsh(matrix)
        else:  # about the lowest, and then about those above them, whose overlaps are asked for
            values, vectors = np.linalg.eigh(matrix)
            parts.append((values, ((root[:, rows] @ vectors[:, : len(rows)]) ** 2).sum(axis=1)))
        near = values[:, d] if turn == turns - 2 else values[:, :d].mean(axis=1)
        found = np.where(sound, np.minimum(bulk_edge, near), -1.0)
    values, overlaps = (
        np.concatenate([low[:, :d], above[:, d:]], axis=1) for low, above in zip(*parts, strict=True)
    )
    # The highest vectors stand for the levels left out, all in one: theory.finite_n.elsewhere tells what those hold.
    known = values <= levels[:, kept - 1, None]
    known &= np.arange(values.shape[1]) < kept + (drawn.blocks * drawn.extremes)[:, None]
    return SmallPairs(values, overlaps, known, sound, drawn.excess, bulk_labels.n)


def draw(model: Committee, m: int, n: int, chosen: range, seed: int, labels: Array | None = None) -> Draw:
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
    rngs = [np.random.default_rng([seed, i, 1]) for i in chosen]
    noise = np.stack([rng.standard_normal((every, every, p * p + 1)) for rng in rngs])[:, :w, :w]
    couplings = np.stack([rng.standard_normal((p, every, LEVELS)) for rng in rngs])[:, :, :w]
    excess = np.full((len(rngs), 2), np.nan)
    if labels is None and told.weight is None:
        excess = label_excess(model, Labels.of(model, told.basis[..., :p], told.basis[..., p:], n), m / n)
    v = np.roll(told.basis, p_star, axis=2)  # the teacher's first
    bulk, x = whole, np.zeros((len(rngs), p * w, p * w))
    if k:
        rank = np.argsort(told.score, axis=1)[:, :k]
        apart = np.arange(k) < extremes[:, None]
        far, far_v = (np.take_along_axis(part, rank[..., None], axis=1) for part in (told.normals, v))
        triangles = np.stack([_triangle(min(EXTREMES, inner), inner, rng)[:k, :k] for rng in rngs])
        far_v = np.concatenate([far_v, triangles * apart[:, None]], axis=2) * apart[..., None]
        weights = model.weights_at(far[..., :p], np.mean(far[..., p:] ** 2, axis=-1)) * p / 2
        x = np.einsum("qmij,qma,qmb->qiajb", weights, far_v, far_v, optimize=True)
        x = x.reshape(len(rngs), p * w, p * w) / size[:, None, None]
        others = [
            np.random.default_rng([seed, i, 2]).standard_normal((v.shape[1], EXTREMES))[:, :k] for i in chosen
        ]
        v = np.concatenate([v, np.stack(others) * apart[:, None]], axis=2)
        bulk = whole.without(rank, apart)
    bulk = replace(bulk, n=size)
    present = np.arange(w) < (p_star + p + extremes)[:, None]
    return Draw(bulk, whole, t_edge, edge * inner / size, extremes, excess, v, x, present, noise, couplings)


def _extremes(labels: Labels, t_edge: Array) -> NDArray[np.int64]:
    """How many labels (q,) have so large a share of the edge's condition that each is told by itself."""
    shares = sum(
        share * (f / (1 + t_edge[:, None] * f)) ** 2 for f, share in zip(labels.f, labels.shares, strict=True)
    )
    large = shares * (t_edge**2 / labels.n)[:, None] > SHARE[len(labels.f) > 1]
    if labels.weight is not None:
        large &= labels.weight == 1
    return np.minimum(large.sum(axis=1), EXTREMES)


def _triangle(k: int, dimension: int, rng: np.random.Generator) -> Array:
    """Components (k, k) of k Gaussian vectors of a dimension on the orthonormal basis that Gram and Schmidt make of them."""
    below = np.tril(rng.standard_normal((k, k)), -1)
    below[range(k), range(k)] = np.sqrt(rng.chisquare(dimension - np.arange(k)))
    return below


def _t_at(labels: Labels, t_edge: Array, z: Array) -> Array:
    """t (q,) with z(t) = z, between 0 and the edge, by bisection."""
    low, high = 1e-3 * t_edge, t_edge.copy()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        above = labels.energy(middle) > z
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return (low + high) / 2


def _block(
    drawn: Draw,
    fine: _FineLevels,
    sound: NDArray[np.bool_],
    t_edge: Array,
    found: Array,
    width: Array,
) -> tuple[Array, Array]:
    """Root of the block's unit and its centre (q, p w, p w): the chord of found (q,) +- width (q,), the noise there, X.

    What the levels left out give is smooth on the scale of their distance, of which the width is a part.
    """
    eye = np.eye(len(drawn.rows))
    labels = drawn.labels
    ends = []
    for t in (
        np.minimum(_EDGE * t_edge, _t_at(labels, t_edge, found + width)),
        _t_at(labels, t_edge, found - width),
    ):
        z = labels.energy(t)
        mean = _kept_part(drawn, fine, z)[0]
        ends.append((z, signal_block(labels, drawn.v, t, drawn.kinds) - mean[:, :, None] * eye))
    (z, first), (z_far, second) = ends
    apart = np.where(sound & (z != z_far), z - z_far, np.inf)[:, None, None]
    line = np.where(sound[:, None, None], (first - second) / apart, 0)
    values, vectors = np.linalg.eigh(eye - line)
    root = (vectors * np.maximum(values, 1.0)[:, None, :] ** -0.5) @ vectors.transpose(0, 2, 1)
    t = np.minimum(_QUIET * t_edge, _t_at(labels, t_edge, found))
    noise = _noise(drawn, fine, t)
    centre = first - line * z[:, None, None] + noise + drawn.extreme + _tilt(drawn, t) + _bend(drawn, fine, t_edge, found)[:, :, None] * eye
    absent = np.tile(~drawn.present, drawn.blocks)
    centre[absent] = 0
    centre.swapaxes(1, 2)[absent] = 0
    centre[:, range(len(eye)), range(len(eye))] += _ABSENT * absent
    return root, np.where(sound[:, None, None], centre, 0)


def signal_block(labels: Labels, v: Array, t: Array, kinds: NDArray[np.int64]) -> Array:
    """(1/N) sum v v^T (x) Phi at real t (q,), v (q, m, w), Phi (p, p): (q, p w, p w), block index first; kinds as in Draw."""
    q, m, p = labels.lam.shape
    w = v.shape[2]
    every = [f / (1 + t[:, None] * f) for f in labels.f]
    if labels.weight is not None:
        every = [labels.weight * part for part in every]
    phi = [part[:, :m] for part in every]
    unit = labels.lam / np.linalg.norm(labels.lam, axis=2, keepdims=True)
    across, size = v.transpose(0, 2, 1), np.reshape(labels.n, (-1, 1, 1))
    block = np.empty((q, p, w, p, w))
    for i in range(p):
        for j in range(i + 1):
            part = (phi[-1] - phi[0]) * unit[..., i] * unit[..., j] + (phi[0] if i == j else 0)
            block[:, i, :, j] = block[:, j, :, i] = (across * part[:, None]) @ v / size
    if every[0].shape[1] > m:  # those without projections of their own: their mean
        parts = [share * part[:, m:] for share, part in zip(labels.shares, every, strict=True)]
        level = np.sum(parts, axis=0) / size[:, 0]
        factors = np.stack([np.ones_like(level), labels.y[:, m:], labels.yhat[:, m:]])
        mean = (factors * level).sum(axis=2)[kinds].T
        for i in range(p):
            block[:, i, range(w), i, range(w)] += mean
    return block.reshape(q, p * w, p * w)


def label_sectors(labels: Labels, t: Array) -> Array:
    """Rungs of the ladder of theory.finite_n.block_noise, its ends on the teacher and on students: (3, q, 3) at real t (q,).

    Each for X a multiple of I, symmetric traceless, antisymmetric: L / X and S' / X. The direction of each lam is averaged.
    """
    p = labels.lam.shape[2]
    phi = [f / (1 + t[:, None] * f) for f in labels.f]
    gap = phi[-1] - phi[0]
    both = phi[0] ** 2 + 2 * phi[0] * gap / p
    kinds = np.stack([both + gap**2 / p, both + 2 * gap**2 / (p * (p + 2)), both], axis=1)
    return np.stack([labels.total(kinds * v) for v in (1.0, labels.y[:, None], labels.yhat[:, None])]) / np.reshape(labels.n, (-1, 1))


def _means(labels: Labels, t: Array) -> Array:
    """(1/N) sum Phi, y Phi, yhat Phi over the labels at t (q,), traces over p: (3, q)."""
    phi = sum(share * f / (1 + t[:, None] * f) for f, share in zip(labels.f, labels.shares, strict=True))
    return np.stack([labels.total(phi * v) for v in (1.0, labels.y, labels.yhat)]) / labels.n


def _bend(drawn: Draw, fine: _FineLevels, t_edge: Array, z: Array) -> Array:
    if not np.any(drawn.extremes):
        return np.zeros((len(z), len(drawn.rows)))
    labels, whole, z = drawn.labels, drawn.whole, np.minimum(z, drawn.edge)
    t, tau = _t_at(labels, t_edge, z), _t_at(whole, drawn.t_edge, z * labels.n / whole.n)
    after = _means(labels, tau)
    rho = np.maximum(tau + 1 / (z - after[0]), 0)
    sectors = label_sectors(labels, t)[..., 0]
    gap = z[:, None] - fine.energies
    moved = fine.squares[0] * (drawn.blocks * labels.n * rho)[:, None]
    weight = fine.step * fine.squares
    kept = np.sum(weight / np.minimum(gap + moved, _NEAR * gap) - weight / gap + weight * moved / gap**2, axis=2)
    linear = sectors * rho * t**2 * sectors[0] / (1 - t**2 * sectors[0])
    bend = after - _means(labels, t + rho) + linear - kept
    return BEND * np.where(drawn.extremes > 0, bend, 0)[drawn.rows].T


_NEAR = 0.25
BEND = 1.0


def _tilt(drawn: Draw, t: Array) -> Array:
    labels, p, w = drawn.labels, drawn.blocks, drawn.v.shape[2]
    q, m, _ = labels.lam.shape
    if p == 1:
        return np.zeros((q, w, w))
    phi = [f / (1 + t[:, None] * f) for f in labels.f]
    gap = (phi[-1] - phi[0])[:, :m]
    if labels.weight is not None:
        gap = gap * labels.weight[:, :m]
    unit = labels.lam / np.linalg.norm(labels.lam, axis=2, keepdims=True)
    kappa = np.einsum("qm,qmi,qmj->qij", gap, unit, unit, optimize=True) / labels.n[:, None, None]
    kappa -= np.trace(kappa, axis1=1, axis2=2)[:, None, None] * np.eye(p) / p
    sectors = label_sectors(labels, t)[..., 1]
    factor = sectors[drawn.kinds].T / (1 / t**2 - sectors[0])[:, None]
    out = np.einsum("qij,qa,ab->qiajb", kappa, factor, np.eye(w))
    return out.reshape(q, p * w, p * w)


def _noise(drawn: Draw, fine: _FineLevels, t: Array) -> Array:
    """The Gaussian block (q, p w, p w) of the levels left out, at t (q,).

    A matrix omega (p, p) with covariance T has a part with independent entries, one that is a multiple of I and one in
    which omega_ij and omega_ji are tied; kept levels have independent couplings, so they bring the first kind alone.
    """
    q, w, p = len(t), drawn.v.shape[2], drawn.blocks
    sectors = label_sectors(drawn.labels, t)
    ends = sectors[drawn.kinds].swapaxes(0, 1)
    gap = np.maximum(1 / t[:, None] ** 2 - sectors[0], 1e-12)
    t0, t1, t2 = np.moveaxis(ends[:, :, None] * ends[:, None] / (gap * drawn.labels.n[:, None])[:, None, None], -1, 0)
    scatter = np.sqrt(_kept_part(drawn, fine, drawn.labels.energy(t))[1][:, :w])
    own = scatter[:, :, None] * scatter[:, None] / 2
    free, same, tied = (t0, 0 * t0, 0 * t0) if p == 1 else ((t0 - t1) / p, (t1 + t2) / 2, (t1 - t2) / 2)
    even, odd, same = (
        np.sqrt(np.maximum(c, 0))[..., None, None] for c in (free - own + tied, free - own - tied, same)
    )
    raw = drawn.noise[..., :-1].reshape(q, w, w, p, p)
    turned = raw.swapaxes(3, 4)
    omega = even * (raw + turned) / 2 + odd * (raw - turned) / 2
    omega = omega + same * drawn.noise[..., -1, None, None] * np.eye(p)
    block = omega.transpose(0, 3, 1, 4, 2).reshape(q, p * w, p * w)
    return np.asarray((block + block.transpose(0, 2, 1)) / math.sqrt(2))


@dataclass(frozen=True)
class _FineLevels:
    """The kept levels of each draw as a fine measure of their curve, at the middles of f steps.

    step (f,)             levels in a step
    energies (q, f)       where they are
    squares (3, q, f)     of their couplings, by kind
    """

    step: Array
    energies: Array
    squares: Array


def _squares(labels: Labels, bulk: LabelBulk, t_edge: Array) -> tuple[Array, Array, Array]:
    """pN times the mean squared coupling of a level, along the curve (q, k), to a direction of each kind.

    To a student's it is that of a plain one times what yhat makes of the rungs at the edge.
    """
    sectors = label_sectors(labels, _EDGE * t_edge)[..., 0]
    return bulk.plain, bulk.ratio, bulk.plain * (sectors[2] / sectors[0])[:, None]


def _fine_levels(bulk: LabelBulk, order: Array, kept: int, curves: tuple[Array, ...]) -> _FineLevels:
    share = np.linspace(0, 1, _FINE + 1)[1:] ** 2 * kept
    step = np.diff(share, prepend=0.0)
    at = share - step / 2
    counts = bulk.count
    energies = np.stack([_at_count(*both, at) for both in zip(counts, bulk.energy, strict=True)])
    squares = [
        [np.interp(at, *both) for both in zip(counts, curve, strict=True)] for curve in curves
    ]
    return _FineLevels(step, energies, np.array(squares) / order[:, None])


def _kept_part(drawn: Draw, fine: _FineLevels, z: Array) -> tuple[Array, Array]:
    """Mean (q, p w) of sum b^2 / (z - mu) over the kept levels, for each row, and the variance of its fluctuation."""
    gap = z[:, None] - fine.energies
    sums = (
        np.sum(fine.step * fine.squares / gap, axis=2),
        2 * np.sum(fine.step * (fine.squares / gap) ** 2, axis=2),
    )
    mean, variance = (both[drawn.rows].T for both in sums)
    return mean, variance


def _levels(
    drawn: Draw, bulk: LabelBulk, lows: Array, sound: NDArray[np.bool_], curves: tuple[Array, ...]
) -> tuple[Array, Array]:
    """Energies (q, kept) of the kept levels and mean squares (q, 3, kept) of their couplings, by kind.

    y of `lows` goes to the energy of equal count, straight on beyond the edge.
    """
    order = drawn.blocks * drawn.labels.n
    energies, squares = np.zeros(lows.shape), np.zeros((len(lows), 3, lows.shape[1]))
    for i in np.flatnonzero(sound):
        y, count, energy = lows[i], bulk.count[i], bulk.energy[i]
        counted = 2 / (3 * math.pi) * np.maximum(y, 0) ** 1.5
        step = (energy[1] - energy[0]) / (1.5 * math.pi * count[1]) ** (2 / 3)
        energies[i] = np.where(y > 0, _at_count(count, energy, counted), bulk.edge[i] + step * y)
        for row, curve in enumerate(curves):
            squares[i, row] = np.maximum(np.interp(counted, count, curve[i]), 0) / order[i]
    return energies, squares


def _matrix(drawn: Draw, root: Array, centre: Array, levels: Array, squares: Array) -> Array:
    """The small matrices (q, p w + kept, p w + kept)."""
    d, kept = root.shape[1], levels.shape[1]
    matrix = np.zeros((len(root), d + kept, d + kept))
    matrix[:, :d, :d] = root @ centre @ root
    rows = squares[:, drawn.rows]
    couplings = drawn.couplings[..., :kept] * drawn.present[:, None, :, None]
    matrix[:, :d, d:] = root @ (couplings.reshape(len(root), d, kept) * np.sqrt(rows))
    matrix[:, d:, :d] = matrix[:, :d, d:].transpose(0, 2, 1)
    matrix[:, range(d, d + kept), range(d, d + kept)] = levels
    return matrix


def _at_count(counts: Array, energies: Array, at: Array) -> Array:
    """Energy at which the count is `at`, linear in the variable y ~ count^(2/3); straight on beyond the last node."""
    moves = np.append(True, np.diff(counts) > 1e-6)  # where the curve ended early its last node is repeated
    energies, y, wanted = energies[moves], counts[moves] ** (2 / 3), at ** (2 / 3)
    found = np.interp(wanted, y, energies)
    if len(y) == 1:
        return found
    slope = (energies[-1] - energies[-2]) / (y[-1] - y[-2])
    return np.where(wanted > y[-1], energies[-1] + slope * (wanted - y[-1]), found)
