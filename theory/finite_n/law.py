"""The law of the lowest eigenvalue and of its overlap at finite N, over draws: one small random matrix per draw of labels.

Derived here, units of (p/2) H. Seen from the D = p p_star signal directions e_k (x) w*_l / sqrt(N) the Hessian is

    [ A   b ]        A (D, D): signal block,  mu_i: levels of the bulk,  b_i: their couplings
    [ b'  mu]

whose Schur complement is, on average and given the labels, S(t(z)) = A + sum_i E|b_i|^2 / (z - mu_i)
(theory.finite_n.label_bulk): the mean squared coupling of a level is (1/pN)(-Im S / Im t) there. What is left random
is drawn:

* the labels: edge, curve, couplings and block are those of the draw, the block with its off-diagonal part (1/N) sum u
  u^T (x) phi;
* the levels: those of a GOE at equal counts (theory.finite_n.levels);
* the couplings: independent Gaussian (single overlaps follow Porter and Thomas);
* the part of the block that comes from levels left out: GOE noise, so that its whole diagonal variance outside the
  bulk is (2/pN) S'(t)^2 / z'(t). For p = p_star = 1 this is the second term of Var z = (1/N) { alpha Var[phi (1 + q2
  (u^2 - 1))] + 2 (1 - q2)^2 |z'(g)| } of an outlier, since dz = q2 dS there and (1 - q2) / q2 = -alpha S'(g) / z'(g).

Levels beyond LEVELS enter by their mean, linear in z near the edge. One law serves all alpha: below the threshold the
lowest levels share what the signal leaves in the bulk, above it one falls out. How well it meets samples:
docs/finite_n.md and benchmarks/finite_law.py."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import NotConverged, ParameterError, count, one, positive, ratio
from theory.finite_n.label_bulk import LabelBulk, Labels, label_bulk
from theory.finite_n.levels import airy_levels
from theory.model import Committee, finite_committee

Array = NDArray[np.float64]

LEVELS = 24  # of the bulk, beside the D of the signal
_AT_ONCE = 2**20  # label entries held at a time
_NEAR, _FAR = (
    0.03,
    0.5,
)  # places left of the edge, shares of its t, between which the mean of far levels is a line
_FINE = 160


@dataclass(frozen=True)
class FiniteLaw:
    """Draws of what one sample shows at (model, alpha, N), in units of the Hessian; NaN where a draw has no edge.

    lowest (draws,)          lowest eigenvalue
    overlap (draws,)         squared overlap q2 with the signal space, mean over the p p_star lowest eigenvectors
    overlap_lowest (draws,)  that of the lowest eigenvector alone; overlap_next: of the first above the p p_star lowest
    informative (draws,)     whether the lowest eigenvectors are: the mean overlap of the p p_star lowest exceeds the overlap
                             of every other eigenvector (for p p_star = 1 the order parameter phi of the paper)
    among (draws,)           whether the eigenvector of largest overlap is among the p p_star lowest
    first (draws,)           whether it is the lowest one (phi of the paper)
    """

    lowest: Array
    overlap: Array
    overlap_lowest: Array
    overlap_next: Array
    informative: Array
    among: Array
    first: Array

    def mean(self, name: str) -> tuple[float, float]:
        """Mean of a field over draws and its standard error."""
        kept = self._kept(name)
        return float(kept.mean()), float(kept.std(ddof=1) / math.sqrt(kept.size))

    def std(self, name: str) -> float:
        """Standard deviation of a field over draws: the scatter of one sample."""
        return float(self._kept(name).std(ddof=1))

    def quantile(self, name: str, share: Any) -> Any:
        """Quantiles of a field over draws."""
        return np.quantile(self._kept(name), share)

    def share_above(self, q2: float, name: str = "overlap") -> tuple[float, float]:
        """P(field > q2) and its standard error over draws."""
        kept = self._kept(name)
        share = float(np.mean(kept > q2))
        return share, math.sqrt(max(share * (1 - share), 0.25 / kept.size) / kept.size)

    def _kept(self, name: str) -> Array:
        if name not in self.__dataclass_fields__:
            raise ParameterError(f"name must be one of {', '.join(self.__dataclass_fields__)}, got {name!r}")
        values = np.asarray(getattr(self, name), dtype=np.float64)
        return values[np.isfinite(values)]


def finite_law(model: Committee, alpha: float, n: int, *, draws: int = 200, seed: int = 0) -> FiniteLaw:
    """Draws of the lowest eigenvalue and of overlaps at (alpha, N): see FiniteLaw and the top of the module.

    Draws are the same random numbers at every alpha (labels nest), so that curves along alpha are smooth. Cost: draws
    times round(alpha N) p labels, about 1 ms a draw at 2,000. Raises ParameterError on unfit arguments (p = inf among
    them, or fewer than 2 draws), NotConverged where the bulk has too few levels left of 0.

    >>> law = finite_law(Committee(1, 1, 0.5), 3.0, 200, draws=40)
    >>> bool(law.mean("overlap")[0] > 0.15), law.lowest.shape
    (True, (40,))
    """
    model, n = finite_committee(model), count("n", n)
    draws, seed = count("draws", draws, minimum=2), count("seed", seed, minimum=0)
    m = count("samples", round(one("alpha", ratio("alpha", alpha)) * n))
    p, d = int(model.p), int(model.degeneracy)
    if p * n <= d + 1:
        raise ParameterError(
            f"n must be larger: p n = {p * n} levels hardly hold p p_star = {d} of the signal"
        )
    at_once = max(1, _AT_ONCE // (m * (p + model.p_star)))
    parts = []
    for first in range(0, draws, at_once):
        chosen = range(first, min(first + at_once, draws))
        parts.append(_draws(model, m, n, chosen, seed))
    return FiniteLaw(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True)
class FiniteCurve:
    """Along alpha (alpha,): means over draws, their standard errors, scatter of one draw; units as in FiniteLaw."""

    alpha: Array
    lowest: Array
    lowest_error: Array
    lowest_std: Array
    overlap: Array
    overlap_error: Array
    overlap_std: Array
    informative: Array
    among: Array


def finite_curve(
    model: Committee, alphas: ArrayLike, n: int, *, draws: int = 100, seed: int = 0
) -> FiniteCurve:
    """`finite_law` along alphas (alpha,) with common random numbers; NaN where it does not converge.

    >>> curve = finite_curve(Committee(1, 1, 0.5), [1.0, 3.0], 100, draws=20)
    >>> bool(curve.overlap[0] < curve.overlap[1])
    True
    """
    grid = np.atleast_1d(np.asarray(positive("alphas", alphas), dtype=np.float64))
    rows = []
    for alpha in grid:
        try:
            law = finite_law(model, float(alpha), n, draws=draws, seed=seed)
        except NotConverged:
            rows.append([math.nan] * 8)
            continue
        numbers = [(*law.mean(name), law.std(name)) for name in ("lowest", "overlap")]
        rows.append([*numbers[0], *numbers[1], law.mean("informative")[0], law.mean("among")[0]])
    return FiniteCurve(grid, *np.array(rows).T)


def _draws(model: Committee, m: int, n: int, chosen: range, seed: int) -> tuple[Array, ...]:
    p, p_star, d = int(model.p), model.p_star, int(model.degeneracy)
    normals = np.stack([np.random.default_rng([seed, i]).standard_normal((m, p + p_star)) for i in chosen])
    size = n - p - p_star  # the bulk lives in what students and teacher leave
    labels = Labels.of(model, normals[..., :p], normals[..., p:], size)
    with np.errstate(invalid="ignore", divide="ignore"):
        bulk = label_bulk(labels, p * size, LEVELS + 1)
        sound = np.isfinite(bulk.edge) & (bulk.count[:, -1] > d + 2)
    if not np.any(sound):
        raise NotConverged("the bulk of every draw has too few levels left of 0", None)
    kept = int(min(LEVELS, math.floor(bulk.count[sound, -1].min()) - 1, p * size))
    rngs = [np.random.default_rng([seed, i, 1]) for i in chosen]
    matrix, root = _matrices(labels, bulk, sound, kept, d, rngs)
    lows = airy_levels(chosen.stop, LEVELS)[chosen.start :, :kept]
    _place_levels(matrix, bulk, lows, sound, root, d, p * size, rngs)
    values, vectors = np.linalg.eigh(matrix)
    q2 = ((root @ vectors[:, :d]) ** 2).sum(axis=1)
    # The highest d vectors stand for the levels left out, all in one: no single level has their overlap. Those levels, far
    # from the edge, hold the largest overlap in too few samples to count (0 to 2 % of them, by theory.density.signal).
    rest = q2[:, d:kept].max(axis=1, initial=0.0)
    columns = (
        values[:, 0] * (2 / p * size / n),
        q2[:, :d].mean(axis=1),
        q2[:, 0],
        q2[:, d],
        (q2[:, :d].mean(axis=1) > rest).astype(float),
        (q2[:, :d].max(axis=1) > rest).astype(float),
        (q2[:, 0] > np.maximum(rest, q2[:, 1:d].max(axis=1, initial=0.0))).astype(float),
    )
    return tuple(np.where(sound, column, np.nan) for column in columns)


def _matrices(
    labels: Labels, bulk: LabelBulk, sound: NDArray[np.bool_], kept: int, d: int, rngs: list
) -> tuple[Array, Array]:
    """Matrices (q, d + kept, d + kept) with the signal block filled in, and the root (q, d, d) of the signal's metric.

    What far levels, labels and noise give is taken on the chord R(z) = R(z_0) + R' (z - z_0) of each draw, a matrix: A =
    r (R(z_0) - R' z_0) r with r = (1 - R')^(-1/2), the units in which the metric is 1.
    """
    q, order, eye = len(bulk.edge), labels.n * labels.lam.shape[2], np.eye(d)
    raw = np.stack([rng.standard_normal((d, d)) for rng in rngs])
    noise = (raw + raw.transpose(0, 2, 1)) / 2
    ends = []
    for back in (_NEAR, _FAR):
        t = np.where(sound, bulk.t_edge, 0.5) * (1 - back)
        z, slope, signal, signal_slope = labels.sums(t)
        kept_part, square = _kept_part(bulk, z, kept, order)
        # noise of the block outside the bulk, less what the kept levels bring by themselves
        variance = np.maximum(2 / order * signal_slope**2 / np.abs(slope) - square, 0)
        block = (signal - kept_part)[:, None, None] * eye + np.sqrt(variance)[:, None, None] * noise
        ends.append((z, block + _anisotropy(labels, t) if d > 1 else block))
    (z, near), (z_far, far) = ends
    line = np.where(sound[:, None, None], (near - far) / (z - z_far)[:, None, None], 0)
    values, vectors = np.linalg.eigh(eye - line)
    root = (vectors * np.maximum(values, 1.0)[:, None, :] ** -0.5) @ vectors.transpose(0, 2, 1)
    matrix = np.zeros((q, d + kept, d + kept))
    centre = near - line * z[:, None, None]
    matrix[:, :d, :d] = np.where(
        sound[:, None, None], root @ np.where(sound[:, None, None], centre, 0) @ root, 0
    )
    return matrix, root


def _kept_part(bulk: LabelBulk, z: Array, kept: int, order: int) -> tuple[Array, Array]:
    """Mean of sum |b|^2 / (z - mu) over the kept levels (q,), and the variance of its fluctuation with Gaussian couplings."""
    share = np.linspace(0, 1, _FINE + 1)[1:] ** 2 * kept
    middle = np.diff(share, prepend=0.0)
    at = share - middle / 2
    sums = []
    for i in range(len(z)):
        energy = _at_count(bulk.count[i], bulk.energy[i], at)
        square = np.interp(at, bulk.count[i], bulk.ratio[i]) / order
        gap = z[i] - energy
        sums.append((np.sum(middle * square / gap), 2 * np.sum(middle * (square / gap) ** 2)))
    return tuple(np.array(sums).T)


def _place_levels(
    matrix: Array,
    bulk: LabelBulk,
    lows: Array,
    sound: NDArray[np.bool_],
    root: Array,
    d: int,
    order: int,
    rngs: list,
) -> None:
    """Levels and couplings, in place: y of `lows` (q, kept) to the energy of equal count, straight on beyond the edge."""
    kept = lows.shape[1]
    for i in np.flatnonzero(sound):
        y = lows[i]
        counted = np.where(y > 0, 2 / (3 * math.pi) * np.maximum(y, 0) ** 1.5, 0)
        step = (bulk.energy[i, 1] - bulk.energy[i, 0]) / (1.5 * math.pi * bulk.count[i, 1]) ** (2 / 3)
        energy = np.where(y > 0, _at_count(bulk.count[i], bulk.energy[i], counted), bulk.edge[i] + step * y)
        square = np.maximum(np.interp(counted, bulk.count[i], bulk.ratio[i]), 0) / order
        couplings = root[i] @ (rngs[i].standard_normal((d, kept)) * np.sqrt(square))
        matrix[i, :d, d:], matrix[i, d:, :d] = couplings, couplings.T
        matrix[i, range(d, d + kept), range(d, d + kept)] = energy


def _at_count(counts: Array, energies: Array, at: Array) -> Array:
    """Energy at which the count is `at`, linear in the variable y ~ count^(2/3); straight on beyond the last node."""
    y, wanted = counts ** (2 / 3), at ** (2 / 3)
    found = np.interp(wanted, y, energies)
    slope = (energies[-1] - energies[-2]) / max(y[-1] - y[-2], 1e-300)
    return np.where(wanted > y[-1], energies[-1] + slope * (wanted - y[-1]), found)


def _anisotropy(labels: Labels, t: Array) -> Array:
    """(1/N) sum u u^T (x) phi at t (q,), phi (p, p), less its trace: (q, p p_star, p p_star)."""
    q, m, p = labels.lam.shape
    p_star = labels.u.shape[2]
    phi = [f / (1 + t[:, None] * f) for f in labels.f]
    pairs = np.einsum("qm,qml,qmk->qlk", phi[0], labels.u, labels.u, optimize=True) / labels.n
    block = np.einsum("ij,qlk->qiljk", np.eye(p), pairs)
    if p > 1:
        unit = labels.lam / np.linalg.norm(labels.lam, axis=2, keepdims=True)
        both = (unit[..., :, None] * labels.u[..., None, :]).reshape(q, m, p * p_star)
        along = np.einsum("qm,qma,qmb->qab", phi[1] - phi[0], both, both, optimize=True) / labels.n
        block = block + along.reshape(q, p, p_star, p, p_star)
    flat = block.reshape(q, p * p_star, p * p_star)
    return flat - np.trace(flat, axis1=1, axis2=2)[:, None, None] / (p * p_star) * np.eye(p * p_star)
