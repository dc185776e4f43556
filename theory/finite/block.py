"""What the bulk gives in the block of singled-out directions: its mean at fixed preactivations, its noise, its response to the
block.

Derived here, for theory.finite.small_matrix, in its notation. The block is C(z) = (1/N) sum v v^T (x) Phi(t) less what
the kept eigenvalues give in the mean, with Phi = F (I + t F)^{-1} and t(z) of the bulk. Eigenvectors at E have couplings of
covariance -Im C(E) / (pN Im t), whole matrices both: the students overlap with the teacher by (p_star/N)^{1/2} in all, and what
C has off its diagonal is singular at the edge as its diagonal is. On top:

* `noise`, Gaussian. In the covariance of two entries of a signal block W = b R b^T, R the resolvent of the bulk, the two
  resolvents are tied by rungs sum_mu F (x) F, which carry the pair (k, m) of student blocks of one line into itself: a ladder,
  L[X] = alpha E[Phi X Phi], that ends on the signal in S'[X] = alpha E[y Phi X Phi]. With T = S' (1/t^2 - L)^{-1} S' on p x p
  matrices X,

      N Cov(W_{lk,l'k'}, W_{jm,j'm'}) = T_{km,k'm'} d_{lj} d_{l'j'} + T_{km',k'm} d_{lj'} d_{l'j}.

  L and S' act as numbers on multiples of I, on symmetric traceless and on antisymmetric X (`ladder_sectors`), so that T has
  three values. p = 1: a GOE block, the second term of the variance of an outlier. p > 1: the multiples of I alone
  would give independent entries of 1/p of that; the other two sectors tie entries of different blocks. The noise is of the
  shape of C at the edge: what the sectors give for a mean direction of each kind is transformed to the directions of the draw.
  Kept eigenvalues bring a part of the variance of an entry, averaged over sectors; the noise has the rest, and the same share
  of each sector, as found in samples (p = 2: 0.39 of all three where 24 of 188 eigenvalues are kept, with couplings drawn
  independent).
* `higher_order`, the terms of second and higher order in the resolvent rho = (1/pN) sum over the rows of the K extreme data
  points. These rows act on the bulk, and it on them. The data points of the bulk feel tau = t_b + rho with z = -1/t_b + K(tau),
  and give K(tau), S(tau). The small matrix has K(t + rho) through v, the response of the kept eigenvalues, which move by
  rho / |t|^2, and the noise, which is linear in rho. To first order in rho the two agree, as tau' = 1 / (1 - t^2 rung). The
  rest is a number for each kind of row, and is added. tau is the t of all data points at the energy: t_b + rho to all orders.
  Without this every extreme data point makes the lowest eigenvalue too low, by an amount that grows like (K/N)^{3/2}.

Anisotropy. The preactivations of a draw single out directions in the space of the p student blocks. The resolvent T of the bulk
there makes

    W(T) = -log det T + (1/N) sum log det(1 + T F) - z tr T

stationary: z = -1/T + (1/N) sum Phi(T), Phi(T) = F (I + T F)^{-1}. This is perturbation theory in the traceless part of T. With
T = t I + delta, delta traceless, W has tr(kappa delta) and (1/2) (1/t^2 - L) tr(delta^2) besides what it has at t I: kappa is
the traceless part of (1/N) sum Phi(t I), L the traceless rung. So

    delta = -kappa / (1/t^2 - L),      z(t) = -1/t + K(t) - (1/2) d/dt [ tr(kappa^2) / p / (1/t^2 - L) ].

L is below the rung of multiples of I, which is 1/t^2 at the edge of isotropic weights, but not by much (by a tenth at p = 2,
a = 0.3): there linear response is larger than delta is. The last term, of second order, puts the edge at a lower t, where it is
small. Where the denominator vanishes it has a double pole, of a place and size found from two values below the edge.
The block of a direction with rungs of its own (teacher, students) changes by -end delta to first order in delta, and by a
trace of second order: `anisotropy`. At complex t, on the curve where z is real, it makes the couplings anisotropic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from theory.finite.bulk import BulkCurve, Preactivations, edge_of
from theory.finite.draw import Draw

Array = NDArray[np.float64]

EDGE = 0.97  # of t at the edge of the bulk, up to where the mean is taken
_FINE, _NODES, _CLOSER = 160, 8, 2.5  # steps of the measure; nodes of couplings, the power that crowds them
_BISECTIONS, _STEPS = 6, 5  # halvings, and then steps of Newton's method
_RIDGE = 1e-12  # of covariances, of their mean diagonal
_ABOVE = 1e-4  # the real axis, of t: where the coupling of an eigenvector at the edge is taken
_NEAR = 0.25  # of its distance, the nearest that a moved eigenvalue may come to the energy
_LEAST = 0.1  # that is left of a coupling's square in any direction
_PLACES = 0.8, 0.97  # of t at the isotropic edge: where the second-order term is taken


@dataclass(frozen=True)
class KeptEigenvalues:
    """The kept eigenvalues of each draw as a fine measure of their curve, at the middles of f steps, and their couplings.

    step (f,)                          eigenvalues in a step
    energies (q, f)                    where they are
    hats (f, k)                        shares of the k nodes of `covariance` and `squares` in each
    covariance (q, k, p w, p w)        of the couplings of an eigenvector at a node
    squares (3, q, k)                  their mean squares by kind, averaged over directions of lam
    """

    step: Array
    energies: Array
    hats: Array
    covariance: Array
    squares: Array


def kept_eigenvalues(drawn: Draw, bulk: BulkCurve, order: Array, kept: int) -> KeptEigenvalues:
    """The fine measure of `kept` of the `order` (q,) eigenvalues, and the covariance of their couplings.

    An eigenvector at E couples to row x of the block by b_x, and pN E[b_x b_y] = -Im C_xy(E) / Im t: the students overlap with
    the teacher, so that entries of different rows are not independent. Between nodes all is linear in count^(2/3), as the
    energy is next to an edge.
    """
    # Shorter steps next to the edge, where resolvents of kept eigenvalues change fastest.
    share = np.linspace(0, 1, _FINE + 1)[1:] ** 2 * kept
    step = np.diff(share, prepend=0.0)
    at = share - step / 2
    energies = np.stack([at_count(*both, at) for both in zip(bulk.count, bulk.energy, strict=True)])
    nodes, roots, data = np.cbrt(_nodes(kept)), np.cbrt(bulk.count), drawn.data
    x, y = (
        np.stack([np.interp(nodes, *both) for both in zip(roots, part, strict=True)])
        for part in (bulk.t.real, bulk.t.imag)
    )
    covariance, squares = [], []
    for real, imag in zip(x.T, np.maximum(y, _ABOVE * x).T, strict=True):
        # -Im phi / Im t in closed form: no cancellation as Im t -> 0
        spectral = [f**2 / ((1 + real[:, None] * f) ** 2 + (imag[:, None] * f) ** 2) for f in data.f]
        means = _traces(data, spectral)
        unit = 1 / order
        block = weighted_block(data, drawn.v, spectral, drawn.kinds)
        if drawn.blocks > 1:
            more = -anisotropy(data, real + 1j * imag).imag / imag[:, None, None, None]
            block = stretched(block, more, means, drawn.kinds)
        covariance.append(block * unit[:, None, None])
        squares.append(means * unit)
    return KeptEigenvalues(
        step, energies, hats(at, kept), np.stack(covariance, axis=1), np.stack(squares, axis=2)
    )


def hats(counts: Array, kept: int) -> Array:
    """Shares (..., k) of the nodes of KeptEigenvalues in what is linear in count^(2/3) between them."""
    nodes, at = _nodes(kept) ** (2 / 3), np.maximum(counts, 0) ** (2 / 3)
    return np.stack([np.interp(at, nodes, one) for one in np.eye(len(nodes))], axis=-1)


def _nodes(kept: int) -> Array:
    """Counts of the nodes: denser next to the edge, where couplings change most at p > 1."""
    return np.asarray(np.linspace(0, 1, _NODES) ** _CLOSER * kept)


def t_at(data: Preactivations, t_edge: Array, z: Array) -> Array:
    """t (q,) with z(t) = z between 0 and the edge, or the edge: bisection, then Newton's method from below (z is concave)."""
    low, high = 1e-3 * t_edge, t_edge.copy()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        above = data.energy(middle) > z
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    for _ in range(_STEPS):
        value, slope = data.energy_slope(low)
        low = np.clip(low + (z - value) / np.maximum(slope, 1e-300), low, high)
    return low


def signal_block(data: Preactivations, v: Array, t: Array, kinds: NDArray[np.int64]) -> Array:
    """(1/N) sum v v^T (x) Phi at real t (q,): see `weighted_block`."""
    return weighted_block(data, v, [f / (1 + t[:, None] * f) for f in data.f], kinds)


def weighted_block(data: Preactivations, v: Array, every: list[Array], kinds: NDArray[np.int64]) -> Array:
    """(1/N) sum v v^T (x) W, v (q, m, w): (q, p w, p w), block index first; kinds as in Draw.

    every   eigenvalues (q, m) of the matrices W (p, p), of which the last is that of lam, as Preactivations.f
    """
    q, m, p = data.lam.shape
    w = v.shape[2]
    if data.weight is not None:
        every = [data.weight * part for part in every]
    phi = [part[:, :m] for part in every]
    unit = data.lam / np.linalg.norm(data.lam, axis=2, keepdims=True)
    across, size = v.transpose(0, 2, 1), np.reshape(data.n, (-1, 1, 1))
    block = np.empty((q, p, w, p, w))
    for i in range(p):
        for j in range(i + 1):
            # Phi = phi_1 I + (phi_2 - phi_1) lam lam^T / |lam|^2
            part = (phi[-1] - phi[0]) * unit[..., i] * unit[..., j] + (phi[0] if i == j else 0)
            block[:, i, :, j] = block[:, j, :, i] = (across * part[:, None]) @ v / size
    if every[0].shape[1] > m:  # those without projections of their own: their mean
        parts = [share * part[:, m:] for share, part in zip(data.shares, every, strict=True)]
        mean_weight = np.sum(parts, axis=0) / size[:, 0]
        factors = np.stack([np.ones_like(mean_weight), data.y[:, m:], data.yhat[:, m:]])
        # v v^T -> y I on the teacher, yhat I on students, I elsewhere, in the mean over directions
        mean = (factors * mean_weight).sum(axis=2)[kinds].T
        for i in range(p):
            block[:, i, range(w), i, range(w)] += mean
    return block.reshape(q, p * w, p * w)


def _means(data: Preactivations, t: Array) -> Array:
    """(1/N) sum Phi, y Phi, yhat Phi over the data points at t (q,), traces over p: (3, q)."""
    return _traces(data, [f / (1 + t[:, None] * f) for f in data.f])


def _traces(data: Preactivations, every: list[Array]) -> Array:
    mean = np.sum([share * part for part, share in zip(every, data.shares, strict=True)], axis=0)
    return np.stack([data.total(mean * v) for v in (1.0, data.y, data.yhat)]) / data.n


def higher_order(drawn: Draw, kept: KeptEigenvalues, t_edge: Array, z: Array) -> Array:
    """What the block has beyond first order in the extreme rows, (q, p w) on its diagonal, at z (q,): see the top."""
    if not np.any(drawn.extremes):
        return np.zeros((len(z), len(drawn.rows)))
    # Left of the edge of all data points, where tau exists
    data, whole, z = drawn.data, drawn.whole, np.fmin(z, drawn.edge)
    t, tau = t_at(data, t_edge, z), t_at(whole, drawn.t_edge, z * data.n / whole.n)
    after = _means(data, tau)
    # rho = tau - t_b, with -1 / t_b = z - K(tau)
    rho = np.maximum(tau + 1 / (z - after[0]), 0)
    sectors = ladder_sectors(data, t)[..., 0]
    gap, squares = z[:, None] - kept.energies, kept.squares @ kept.hats.T
    # Kept eigenvalues move by rho / |t|^2 = pN rho <b^2> of a direction that no weight depends on; gap < 0 throughout.
    moved = squares[0] * (drawn.blocks * data.n * rho)[:, None]
    weight = kept.step * squares
    # 1/(gap + moved) beyond its first order in moved; no eigenvalue may come across the energy.
    theirs = np.sum(
        weight / np.minimum(gap + moved, _NEAR * gap) - weight / gap + weight * moved / gap**2, axis=2
    )
    # sectors rho (tau' - 1), tau' = 1 / (1 - t^2 rung)
    linear = sectors * rho * t**2 * sectors[0] / (1 - t**2 * sectors[0])
    excess = after - _means(data, t + rho) + linear - theirs
    return np.where(drawn.extremes > 0, excess, 0)[drawn.rows].T


def noise(drawn: Draw, kept: KeptEigenvalues, t: Array) -> Array:
    """The Gaussian block (q, p w, p w) of the eigenvalues left out, at t (q,).

    A matrix omega (p, p) with covariance T has a part with independent entries, one that is a multiple of I and one in
    which omega_ij and omega_ji are tied; kept eigenvalues have independent couplings, so they bring the first kind alone.
    """
    q, w, p = len(t), drawn.v.shape[2], drawn.blocks
    data = drawn.data
    sectors = ladder_sectors(data, t)
    ends = sectors[drawn.kinds].swapaxes(0, 1)
    # T of the three sectors: S' (1/t^2 - L)^-1 S' / N
    gap = np.maximum(1 / t[:, None] ** 2 - sectors[0], 1e-12)
    t0, t1, t2 = np.moveaxis(ends[:, :, None] * ends[:, None] / (gap * data.n[:, None])[:, None, None], -1, 0)
    gap_kept = data.energy(t)[:, None] - kept.energies
    scatter = np.sqrt(2 * np.sum(kept.step * (kept.squares @ kept.hats.T / gap_kept) ** 2, axis=2))[
        drawn.kinds
    ].T
    # Var(b^2) = 2 <b^2>^2, Var(b c) = <b^2> <c^2>: half of it off the diagonal.
    own = scatter[:, :, None] * scatter[:, None] / 2
    # T_km,k'm' = free d_km d_k'm' + same d_kk' d_mm' + tied d_km' d_mk', from T on I, traceless and antisymmetric X
    free, same, tied = (t0, 0 * t0, 0 * t0) if p == 1 else ((t0 - t1) / p, (t1 + t2) / 2, (t1 - t2) / 2)
    entry = free + (same + tied) / p
    # The share of an entry's variance that kept eigenvalues do not bring.
    left = np.maximum(1 - own / entry, 0)
    even, odd, same = (
        np.sqrt(np.maximum(left * c, 0))[..., None, None] for c in (free + tied, free - tied, same)
    )
    raw = drawn.noise[..., :-1].reshape(q, w, w, p, p)
    turned = raw.swapaxes(3, 4)
    omega = even * (raw + turned) / 2 + odd * (raw - turned) / 2
    omega = omega + same * drawn.noise[..., -1, None, None] * np.eye(p)
    block = omega.transpose(0, 3, 1, 4, 2).reshape(q, p * w, p * w)
    # the two pairings of directions, d_lj d_l'j' and d_lj' d_l'j
    block = (block + block.transpose(0, 2, 1)) / math.sqrt(2)
    plain = np.sqrt(kept.squares[drawn.rows, :, 0]).T
    shape = lower_root(kept.covariance[:, 0] / (plain[:, :, None] * plain[:, None]), drawn.present)
    return np.asarray(shape @ block @ shape.transpose(0, 2, 1))


def kept_part(kept: KeptEigenvalues, z: Array) -> Array:
    """Mean (q, p w, p w) of sum b b^T / (z - mu) over the kept eigenvalues."""
    weights = (kept.step / (z[:, None] - kept.energies)) @ kept.hats
    return np.asarray(np.einsum("qk,qkab->qab", weights, kept.covariance))


def lower_root(covariance: Array, present: NDArray[np.bool_]) -> Array:
    """Triangular L (..., q, d, d) with L L^T the covariance, of directions present (q, w); absent ones by themselves."""
    d = covariance.shape[-1]
    filled = covariance.copy()
    ridge = _RIDGE * np.einsum("...aa->...a", covariance).mean(axis=-1)
    own = np.tile(~present, d // present.shape[1]).reshape(len(present), *(1,) * (covariance.ndim - 3), d)
    filled[..., range(d), range(d)] += own + ridge[..., None]
    try:
        return np.asarray(np.linalg.cholesky(filled))
    except np.linalg.LinAlgError:  # data points of negative weight (theory.finite.draw)
        values, vectors = np.linalg.eigh(filled)
        least = 1e-6 * np.abs(values).max(axis=-1, keepdims=True)
        return np.asarray(
            np.linalg.cholesky((vectors * np.maximum(values, least)[..., None, :]) @ vectors.swapaxes(-1, -2))
        )


def at_count(counts: Array, energies: Array, at: Array) -> Array:
    """Energy at which the count is `at`, linear in the variable y ~ count^(2/3); straight on beyond the last node."""
    moves = np.append(True, np.diff(counts) > 1e-6)  # where the curve ended early its last node is repeated
    energies, y, wanted = energies[moves], counts[moves] ** (2 / 3), at ** (2 / 3)
    found = np.interp(wanted, y, energies)
    if len(y) == 1:
        return found
    slope = (energies[-1] - energies[-2]) / (y[-1] - y[-2])
    return np.where(wanted > y[-1], energies[-1] + slope * (wanted - y[-1]), found)


def ladder_sectors(data: Preactivations, t: Array) -> Array:
    """Rungs of the ladder, its ends on the teacher and on students: (3, q, 3) at t (q,).

    Each for X a multiple of I, symmetric traceless, antisymmetric: L / X and S' / X. The direction of each lam is averaged.
    """
    p = data.lam.shape[2]
    phi = [f / (1 + t[:, None] * f) for f in data.f]
    gap = phi[-1] - phi[0]
    # Over directions n of lam: E[n_i n_j] = d_ij / p, E[n_i n_j n_k n_l] = (three pairings) / (p (p + 2)).
    both = phi[0] ** 2 + 2 * phi[0] * gap / p
    kinds = np.stack([both + gap**2 / p, both + 2 * gap**2 / (p * (p + 2)), both], axis=1)
    return np.stack([data.total(kinds * v) for v in (1.0, data.y[:, None], data.yhat[:, None])]) / np.reshape(
        data.n, (-1, 1)
    )


def _response(data: Preactivations, t: Array) -> tuple[Array, Array, Array]:
    """delta (q, p, p); traceless rungs by kind of direction, and the second-order trace of its block (3, q)."""
    p, m = data.lam.shape[2], data.lam.shape[1]
    low, high = (data.f[i] / (1 + t[:, None] * data.f[i]) for i in (0, -1))
    gap, square = high - low, high**2 - low**2
    unit = data.lam / np.linalg.norm(data.lam, axis=2, keepdims=True)
    size = np.reshape(data.n, (-1, 1, 1))

    def traceless(values: Array) -> Array:
        values = values[:, :m] if data.weight is None else values[:, :m] * data.weight[:, :m]
        found = (unit * values[..., None]).transpose(0, 2, 1) @ unit / size
        return np.asarray(found - np.trace(found, axis1=1, axis2=2)[:, None, None] * np.eye(p) / p)

    # The same averages over directions, of Phi X Phi and of the cubic term of W
    rung = low**2 + 2 * low * gap / p + 2 * gap**2 / (p * (p + 2))
    cube = low**3 + (low**2 * gap + square * low) / p + 2 * square * gap / (p * (p + 2))
    sizes = (np.ones(1), data.y, data.yhat)
    rungs, cubes = (np.stack([data.total(part * v) for v in sizes]) / data.n for part in (rung, cube))
    delta = -traceless(gap) / (1 / t**2 - rungs[0])[:, None, None]
    falls = np.stack([np.einsum("qij,qij->q", delta, traceless(square * v)) for v in sizes])
    return delta, rungs, (cubes * np.einsum("qij,qij->q", delta, delta) - falls) / p


def with_second_order(data: Preactivations) -> Preactivations:
    """The same preactivations with the second-order term of z(t): for p > 1, where they have an edge."""
    if len(data.f) == 1:
        return data
    edge, found = edge_of(data), []
    edge = np.where(np.isfinite(edge), edge, 0.1)
    for place in _PLACES:
        t = place * edge
        delta, _, trace = _response(data, t)
        square = np.einsum("qij,qij->q", delta, delta) / delta.shape[1]
        found.append(np.sqrt(np.maximum(square / t**3 - trace[0], 1e-300)))
    # Root of A / (t_0 - t)^2: its reciprocal is linear in t, and two values give t_0 and A.
    ratio = np.minimum(found[0] / found[1], 0.99)
    pole = edge * np.maximum((_PLACES[1] - ratio * _PLACES[0]) / (1 - ratio), 1.0)
    return replace(data, soft=np.stack([(found[1] * (pole - _PLACES[1] * edge)) ** 2, pole]))


def anisotropy(data: Preactivations, t: Array) -> Array:
    """What the anisotropy of the bulk adds to the block of a direction (q, 3, p, p), of each kind as in Draw, at t (q,)."""
    delta, rungs, trace = _response(data, t)
    return np.asarray(
        trace.T[..., None, None] * np.eye(delta.shape[1]) - rungs.T[..., None, None] * delta[:, None]
    )


def mean_block(drawn: Draw, t: Array) -> Array:
    """The signal block (q, p w, p w) of a draw at real t (q,), with what the anisotropy of the bulk adds."""
    block = signal_block(drawn.data, drawn.v, t, drawn.kinds)
    if drawn.blocks > 1:
        more, w = anisotropy(drawn.data, t), len(drawn.kinds)
        parts = block.reshape(-1, drawn.blocks, w, drawn.blocks, w)
        for row, kind in enumerate(drawn.kinds):
            parts[:, :, row, :, row] += more[:, kind]
    return block


def stretched(block: Array, more: Array, means: Array, kinds: NDArray[np.int64]) -> Array:
    """A positive block plus `more` (q, 3, p, p), of `anisotropy`, as R block R, which stays positive.

    R^2 = 1 + more / means, means (3, q) of the block's diagonal by kind, with the traces over the p copies of a direction
    that the sum has.
    """
    q, _, p, _ = more.shape
    w = len(kinds)
    values, vectors = np.linalg.eigh(np.eye(p) + more / means.T[..., None, None])
    root = ((vectors * np.sqrt(np.maximum(values, _LEAST))[..., None, :]) @ vectors.swapaxes(-1, -2))[
        :, kinds
    ]
    parts = block.reshape(q, p, w, p, w)
    turned = np.einsum("qaij,qjakb->qiakb", root, parts, optimize=True)
    turned = np.einsum("qiakb,qbkl->qialb", turned, root, optimize=True)
    own = np.einsum("qiaia->qa", parts)
    wanted = np.maximum(own + np.einsum("qaii->qa", more)[:, kinds], _LEAST * own)
    found = np.einsum("qiaia->qa", turned)
    # R block R has the right anisotropy but not quite the right trace: that is set.
    scale = np.sqrt(wanted / np.maximum(found, 1e-300))
    turned *= scale[:, None, :, None, None] * scale[:, None, None, None, :]
    return turned.reshape(q, p * w, p * w)
