"""The small random matrix whose lowest pairs have the law of a sample's: signal, extreme data points, eigenvalues of the bulk.

Derived here, units of (p/2) H. A few directions of the input space are singled out, each with its p copies, one in each student
block: the p_star of the teacher, the p that the students have beside it, and those that the inputs of K extreme data points
span. The other data points make a bulk that is independent of all of these, in the N - p - p_star - K dimensions that are left.
In this basis the Hessian is, with eigenvalues mu of that bulk,

    [ A + X   b ]        A = (1/N) sum v v^T (x) F    over the data points of the bulk, v (w,) their projections,
    [ b'      mu]        X = (1/N) sum x x^T (x) F    over the K extreme ones, x their components, R of a QR
                                                      decomposition: chi and normal variables.

Given the preactivations the couplings b of an eigenvector of the bulk have the covariance (1/pN) (-Im C / Im t), C = (1/N) sum
v v^T (x) Phi (theory.finite.block): 1 / |t|^2 for a direction that no weight depends on. For p > 1 the bulk is not isotropic in
the p blocks, which moves its edge and makes what couples to it anisotropic. What is drawn:

* the preactivations, and v: the students overlap with one another and with the teacher by N^{-1/2}, as in a sample, and lam
  with u (theory.finite.draw);
* the lowest eigenvalues (24, more for p p_star > 4 at p > 1) and Gaussian couplings (single overlaps follow Porter and Thomas);
* what the other eigenvalues give: theory.finite.block.

For p_star = p = 1 far above the threshold the noise is the second term of Var z = (1/N) { alpha Var[phi (1 + q2 (u^2 -
1))] + 2 (1 - q2)^2 |z'(g)| } of an outlier, since dz = q2 dS there and (1 - q2) / q2 = -alpha S'(g) / z'(g).

Why extreme data points are apart. At a smooth edge a low eigenvector is the input of one data point, and its coupling to the
signal is the u of that one. As independent eigenvectors with Gaussian couplings they have too much scatter in the overlap
(quartiles 0.017, 0.056, 0.135 at p = 1, a = 2, alpha = 0.85, N = 100; 3,000 dense samples 0.037, 0.084, 0.137; apart 0.037,
0.087, 0.139). For p > 1 a data point with F near its lowest value pulls p - 1 eigenvalues out of the bulk of the others, on its
own input and across its own lam, as near to one another as students are alike, and its term in sum Phi is nearly a pole.
theory.finite.draw says which are extreme.

Eigenvalues (`airy_eigenvalues`). Local statistics depend on the symmetry class alone. So eigenvalues of any bulk are placed
by the variable y in which the mean number of eigenvalues below is (2 / 3 pi) y^{3/2}, as in the Airy process. At a square-root
edge y is linear in the energy, elsewhere the map is that of equal counts. They are drawn as those of a GOE.

The block depends on z. It is replaced by a chord, R(z) = R(z_0) + R' (z - z_0), about the energy of the pairs that the chord
before gave, which makes (1 - R')^(-1/2) the unit of the block. The chord covers the energies of the lowest pairs, and _WIDTH of
the distance to the last kept eigenvalue at the least. Its far end keeps _CLEAR of that distance from the edge of the bulk, next
to which R is the small difference of two singular parts. The last chord but one is about the p p_star lowest pairs, the last
about the one above them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dsterf

from theory.checks import NotConverged
from theory.finite.block import (
    EDGE,
    KeptEigenvalues,
    at_count,
    hats,
    higher_order,
    kept_eigenvalues,
    kept_part,
    lower_root,
    mean_block,
    noise,
    t_at,
    with_second_order,
)
from theory.finite.bulk import BulkCurve, bulk_curve
from theory.finite.draw import Draw

Array = NDArray[np.float64]

_ABSENT = 1e3  # energy of directions that a draw does not have
_TURNS, _FAR_TURNS = 3, 6  # chords, up to N = _FAR and beyond
_FAR = 10_000  # beyond this N the first tangent, at the edge, is too short for an outlier
_WIDTH, _CLEAR = 0.05, 0.3  # of the distance to the last kept eigenvalue: see the top
_EARLY = 0.3  # share of draws whose curve may end before the last kept eigenvalue: there it goes straight on
_STEPS, _SLACK = 8, 1e-12  # of Newton's method for the mean outlier; relative, of its bracket
_QUIET = 0.8  # of t at the edge of the bulk, up to where the noise is taken
# The GOE of this order: its 24 lowest eigenvalues differ from the Airy process by far less than they fluctuate. Their vectors
# die out as Airy functions beyond row 172, to rounding at row 220.
ORDER, _FEW, _ROWS = 400, 24, 220
_SEED, _BATCH = 20260, 64


@dataclass(frozen=True)
class SmallPairs:
    """Pairs of q draws in ascending order, in units of (p/2) H times N over the bulk's dimension.

    values (q, k), overlaps (q, k)   eigenvalues, squared overlaps with the signal
    known (q, k)                     pairs that stand for one eigenvector of a sample, not for all that are left out
    sound (q,)                       draws with an edge and enough eigenvalues left of 0
    """

    values: Array
    overlaps: Array
    known: NDArray[np.bool_]
    sound: NDArray[np.bool_]


def small_pairs(drawn: Draw, chosen: range) -> SmallPairs:
    """Pairs of the draws number `chosen`: see the top of the module.

    Raises NotConverged where no draw has an edge with enough eigenvalues left of 0.
    """
    drawn = replace(drawn, data=with_second_order(drawn.data))
    inner, rows = drawn.data, drawn.rows == 1
    d, order, most = int(rows.sum()), drawn.blocks * inner.n, drawn.couplings.shape[-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        bulk = bulk_curve(inner, order, most + 1)
        fewest = np.where(drawn.extremes > 0, 2, d + 2)
        sound = (
            np.isfinite(bulk.edge)
            & np.isfinite(drawn.edge)
            & (bulk.count[:, -1] > fewest)
            & (bulk.count[:, 1] > 0)
        )
    if not np.any(sound):
        raise NotConverged("the bulk of every draw has too few levels left of 0", None)
    kept = int(min(most, math.floor(np.quantile(bulk.count[sound, -1], _EARLY)) - 1, order.min()))
    lows = airy_eigenvalues(chosen.stop, most)[chosen.start :, :kept]
    bulk_edge = np.where(sound, bulk.edge, -1.0)
    t_edge = np.where(sound, bulk.t_edge, 0.5)
    bulk = replace(bulk, t=np.where(sound[:, None], bulk.t, 0.5), t_edge=t_edge)
    fine = kept_eigenvalues(drawn, bulk, order, kept)
    eigenvalues, couplings = _kept_pairs(drawn, bulk, fine, lows, sound)
    # First chord: about the outlier of quenched theory, or the edge.
    found = np.where(sound, np.fmin(_outlier(drawn), np.minimum(drawn.edge, bulk.edge)), -1.0)
    turns = _TURNS if drawn.n <= _FAR else _FAR_TURNS
    parts, spread = [], np.zeros(len(found))
    for turn in range(turns):
        reach = np.where(sound, eigenvalues[:, -1] - found, 1.0)
        width = np.maximum(_WIDTH * reach, spread)
        chord = (found + width, np.minimum(found - width, bulk_edge - _CLEAR * reach))
        root, centre = _block(drawn, fine, sound, t_edge, found, chord)
        matrix = bordered(root, centre, couplings, eigenvalues)
        if turn < turns - 2:
            values = np.linalg.eigvalsh(matrix)
        else:  # about the lowest, and then about those above them, whose overlaps are asked for
            values, vectors = np.linalg.eigh(matrix)
            parts.append((values, ((root[:, rows] @ vectors[:, : len(rows)]) ** 2).sum(axis=1)))
        lowest = values[:, d : d + 1] if turn == turns - 2 else values[:, :d]
        near, spread = lowest.mean(axis=1), np.ptp(lowest, axis=1) / 2
        found = np.where(sound, np.minimum(bulk_edge, near), -1.0)
    (values, overlaps), (above, theirs) = parts
    # Two chords, two sets of pairs: joined in ascending order.
    values = np.maximum.accumulate(np.concatenate([values[:, :d], above[:, d:]], axis=1), axis=1)
    overlaps = np.asarray(np.concatenate([overlaps[:, :d], theirs[:, d:]], axis=1), dtype=np.float64)
    # The highest vectors stand for all eigenvectors left out: theory.finite.law has the overlaps of those.
    known = values <= eigenvalues[:, kept // 2, None]
    known &= np.arange(values.shape[1]) < kept + (drawn.blocks * drawn.extremes)[:, None]
    return SmallPairs(np.asarray(values, dtype=np.float64), overlaps, known, sound)


def _block(
    drawn: Draw,
    fine: KeptEigenvalues,
    sound: NDArray[np.bool_],
    t_edge: Array,
    found: Array,
    chord: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Root of the block's unit and its centre (q, p w, p w): the mean on a chord (2 of (q,)), the noise at found (q,), X."""
    eye = np.eye(len(drawn.rows))
    data = drawn.data
    # Next to the edge the mean is a small difference of two singular parts.
    ends, highest = [], data.energy(EDGE * t_edge)
    for z in (np.minimum(chord[0], highest), chord[1]):
        t = t_at(data, t_edge, z)
        z = data.energy(t)
        ends.append((z, mean_block(drawn, t) - kept_part(fine, z)))
    (z, first), (z_far, second) = ends
    apart = np.where(sound & (z != z_far), z - z_far, np.inf)[:, None, None]
    line = np.where(sound[:, None, None], (first - second) / apart, 0)
    absent = np.tile(~drawn.present, drawn.blocks)
    _clear(line, absent)
    root = _root(line)
    # The variance T diverges at the edge like 1 / (1/t^2 - L).
    t = np.minimum(_QUIET * t_edge, t_at(data, t_edge, found))
    centre = (
        first
        - line * z[:, None, None]
        + noise(drawn, fine, t)
        + drawn.extreme
        + higher_order(drawn, fine, t_edge, found)[:, :, None] * eye
    )
    _clear(centre, absent)
    centre[:, range(len(eye)), range(len(eye))] += _ABSENT * absent
    return root, np.where(sound[:, None, None], centre, 0)


def _outlier(drawn: Draw) -> Array:
    """Where the mean margin of all data points vanishes (q,), or else the edge: by Newton's method in its bracket."""
    data, high = drawn.whole, drawn.t_edge
    low, t = 1e-3 * high, high
    for _ in range(_STEPS):
        z, slope, signal, signal_slope = data.sums(t)
        low, high = np.where(z > signal, low, t), np.where(z > signal, t, high)
        # Newton's method for z - S = 0 in t. Where it has settled its step ends on an end of the bracket, to rounding.
        new = t - (z - signal) / (slope - signal_slope)
        within = (new >= low * (1 - _SLACK)) & (new <= high * (1 + _SLACK))
        t = np.where(within, np.clip(new, low, high), (low + high) / 2)
    return np.asarray(data.energy(t) * data.n / drawn.data.n)


def _clear(block: Array, absent: NDArray[np.bool_]) -> None:
    """Rows and columns (q, k) of blocks (q, k, k) set to 0."""
    block[absent] = 0
    block.swapaxes(1, 2)[absent] = 0


def _root(line: Array) -> Array:
    """V with V V^T the inverse of 1 - line (q, k, k), the unit of the block: overlaps do not depend on which root it is.

    The part of a unit below 1, which a chord next to the edge can make, is raised to 1.
    """
    values, vectors = np.linalg.eigh(-line)
    return np.asarray(vectors / np.sqrt(1 + np.maximum(values, 0))[:, None])


def _kept_pairs(
    drawn: Draw, bulk: BulkCurve, fine: KeptEigenvalues, lows: Array, sound: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """The kept eigenvalues (q, kept) and their couplings (q, p w, kept) to the block.

    y of `lows` goes to the energy of equal count, straight on beyond the edge.
    """
    kept = lows.shape[1]
    counted = 2 / (3 * math.pi) * np.maximum(lows, 0) ** 1.5
    energies = np.zeros(lows.shape)
    for i in np.flatnonzero(sound):
        # Beyond the edge: the slope dE/dy of the first node, y = (3 pi count / 2)^(2/3).
        y, count, energy = lows[i], bulk.count[i], bulk.energy[i]
        step = (energy[1] - energy[0]) / (1.5 * math.pi * count[1]) ** (2 / 3)
        energies[i] = np.where(y > 0, at_count(count, energy, counted[i]), bulk.edge[i] + step * y)
    # L times normal variables, L L^T the covariance at a node; linear in count^(2/3) between nodes
    drawn_numbers = drawn.couplings[..., :kept] * drawn.present[:, None, :, None]
    turned = lower_root(fine.covariance, drawn.present) @ drawn_numbers.reshape(len(lows), 1, -1, kept)
    return energies, np.einsum("qlk,qkal->qal", hats(counted, kept), turned)


def bordered(root: Array, centre: Array, couplings: Array, eigenvalues: Array) -> Array:
    """The small matrices (q, d + kept, d + kept): a block (q, d, d) in the unit whose root (q, d, d) is given, eigenvalues
    (q, kept), and the block's couplings (q, d, kept) to them."""
    (q, kept), d = eigenvalues.shape, centre.shape[1]
    matrix = np.zeros((q, d + kept, d + kept))
    turned = root.swapaxes(-1, -2)
    matrix[:, :d, :d] = turned @ centre @ root
    matrix[:, :d, d:] = turned @ couplings
    matrix[:, d:, :d] = matrix[:, :d, d:].transpose(0, 2, 1)
    matrix[:, range(d, d + kept), range(d, d + kept)] = eigenvalues
    return matrix


def airy_eigenvalues(draws: int, keep: int) -> Array:
    """The `keep` lowest eigenvalues (draws, keep) of GOE matrices, ascending, in the variable y of the Airy process:
    the same numbers at every call.

    >>> airy_eigenvalues(3, 2).shape
    (3, 2)
    """
    rows = _ROWS if keep <= _FEW else ORDER
    batches = [_batch(number, rows)[:, :keep] for number in range(-(-draws // _BATCH))]
    return np.concatenate(batches)[:draws]


@lru_cache(maxsize=64)
def _batch(number: int, rows: int) -> Array:
    """Draws (64, rows) from a seed of their own, y of eigenvalues x of a semicircle on [-2, 2]; linear beyond its edge."""
    rng = np.random.default_rng([_SEED, number])
    x = np.array([_lowest(rng, rows) for _ in range(_BATCH)])
    inside = np.clip(x, -2, 2)
    # Share of the semicircle's mass below x.
    below = 0.5 + inside * np.sqrt(4 - inside**2) / (4 * math.pi) + np.arcsin(inside / 2) / math.pi
    y = (1.5 * math.pi * ORDER * np.maximum(below, 0)) ** (2 / 3)
    # y of (2 / 3 pi) y^(3/2) = count; beyond the edge the local scale N^(2/3), which is its tangent.
    return np.where(x > -2, y, ORDER ** (2 / 3) * (x + 2))


def _lowest(rng: np.random.Generator, rows: int) -> Array:
    """Tridiagonal form of the GOE (Dumitriu and Edelman, J. Math. Phys. 43 (2002) 5830), spectrum scaled to [-2, 2]."""
    diagonal = rng.standard_normal(ORDER)
    beside = np.sqrt(rng.chisquare(np.arange(ORDER - 1, 0, -1)) / 2)
    values, info = dsterf(diagonal[:rows], beside[: rows - 1])
    if info:
        raise np.linalg.LinAlgError(f"sterf returned {info}")
    # sterf has the radius (2 N)^(1/2).
    return np.asarray(values) / math.sqrt(ORDER / 2)
