"""What the labels of a draw do by singling out directions in the space of the p student blocks: an anisotropic bulk.

Derived here, units of (p/2) H. The resolvent T of the bulk in the p blocks makes

    W(T) = -log det T + (1/N) sum log det(1 + T F) - z tr T

stationary: z = -1/T + (1/N) sum Phi(T), Phi(T) = F (I + T F)^{-1}. With T = t I + delta, delta traceless, W has
tr(kappa delta) and (1/2) (1/t^2 - L) tr(delta^2) besides what it has at t I: kappa is the traceless part of (1/N) sum Phi(t I),
L the traceless rung (`label_sectors`). So

    delta = -kappa / (1/t^2 - L),      z(t) = -1/t + K(t) - (1/2) d/dt [ tr(kappa^2) / p / (1/t^2 - L) ].

L is below the rung of multiples of I, which is 1/t^2 at the edge of isotropic labels, but not by much (by a tenth at p = 2,
a = 0.3): there linear response is larger than delta is. The last term makes the edge come at a lower t, where it is small.
Where the denominator vanishes it has a double pole: it is told by its place and size, from two values below the edge.
The block of a direction with rungs of its own (teacher, students) changes by -end delta and by a trace of
second order: `tilt`. The same functions at complex t, on the curve where z is real, make the couplings of levels anisotropic.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from theory.finite.label_bulk import Labels, edge_of

Array = NDArray[np.float64]

_LEAST = 0.1  # that is left of a coupling's square in any direction
_PLACES = (0.8, 0.97)  # of t at the isotropic edge: where the second-order term is taken


def label_sectors(labels: Labels, t: Array) -> Array:
    """Rungs of the ladder of theory.finite.block_noise, its ends on the teacher and on students: (3, q, 3) at t (q,).

    Each for X a multiple of I, symmetric traceless, antisymmetric: L / X and S' / X. The direction of each lam is averaged.
    """
    p = labels.lam.shape[2]
    phi = [f / (1 + t[:, None] * f) for f in labels.f]
    gap = phi[-1] - phi[0]
    both = phi[0] ** 2 + 2 * phi[0] * gap / p
    kinds = np.stack([both + gap**2 / p, both + 2 * gap**2 / (p * (p + 2)), both], axis=1)
    return np.stack(
        [labels.total(kinds * v) for v in (1.0, labels.y[:, None], labels.yhat[:, None])]
    ) / np.reshape(labels.n, (-1, 1))


def _response(labels: Labels, t: Array) -> tuple[Array, Array, Array]:
    """delta (q, p, p); traceless rungs by kind of direction, and the second-order trace of its block (3, q)."""
    p, m = labels.lam.shape[2], labels.lam.shape[1]
    low, high = (labels.f[i] / (1 + t[:, None] * labels.f[i]) for i in (0, -1))
    gap, square = high - low, high**2 - low**2
    unit = labels.lam / np.linalg.norm(labels.lam, axis=2, keepdims=True)
    size = np.reshape(labels.n, (-1, 1, 1))

    def traceless(values: Array) -> Array:
        values = values[:, :m] if labels.weight is None else values[:, :m] * labels.weight[:, :m]
        found = (unit * values[..., None]).transpose(0, 2, 1) @ unit / size
        return np.asarray(found - np.trace(found, axis1=1, axis2=2)[:, None, None] * np.eye(p) / p)

    rung = low**2 + 2 * low * gap / p + 2 * gap**2 / (p * (p + 2))
    cube = low**3 + (low**2 * gap + square * low) / p + 2 * square * gap / (p * (p + 2))
    sizes = (np.ones(1), labels.y, labels.yhat)
    rungs, cubes = (np.stack([labels.total(part * v) for v in sizes]) / labels.n for part in (rung, cube))
    delta = -traceless(gap) / (1 / t**2 - rungs[0])[:, None, None]
    falls = np.stack([np.einsum("qij,qij->q", delta, traceless(square * v)) for v in sizes])
    return delta, rungs, (cubes * np.einsum("qij,qij->q", delta, delta) - falls) / p


def soften(labels: Labels) -> Labels:
    """The same labels with the second-order term of z(t): for p > 1, where they have an edge."""
    if len(labels.f) == 1:
        return labels
    edge, found = edge_of(labels), []
    edge = np.where(np.isfinite(edge), edge, 0.1)
    for place in _PLACES:
        t = place * edge
        delta, _, trace = _response(labels, t)
        square = np.einsum("qij,qij->q", delta, delta) / delta.shape[1]
        found.append(np.sqrt(np.maximum(square / t**3 - trace[0], 1e-300)))
    ratio = np.minimum(found[0] / found[1], 0.99)
    pole = edge * np.maximum((_PLACES[1] - ratio * _PLACES[0]) / (1 - ratio), 1.0)
    return replace(labels, soft=np.stack([(found[1] * (pole - _PLACES[1] * edge)) ** 2, pole]))


def tilt(labels: Labels, t: Array) -> Array:
    """What the anisotropy of the bulk adds to the block of a direction (q, 3, p, p), of each kind as in Draw, at t (q,)."""
    delta, rungs, trace = _response(labels, t)
    return np.asarray(
        trace.T[..., None, None] * np.eye(delta.shape[1]) - rungs.T[..., None, None] * delta[:, None]
    )


def add_tilt(block: Array, tilted: Array, kinds: NDArray[np.int64]) -> None:
    """What `tilt` says onto a block (q, p w, p w), block index first, of directions of these kinds (w,)."""
    q, _, p, _ = tilted.shape
    parts = block.reshape(q, p, len(kinds), p, len(kinds))
    for row, kind in enumerate(kinds):
        parts[:, :, row, :, row] += tilted[:, kind]


def stretched(block: Array, more: Array, means: Array, kinds: NDArray[np.int64]) -> Array:
    """A positive block plus what `tilt` says, `more` (q, 3, p, p), as R block R, which stays positive.

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
    scale = np.sqrt(wanted / np.maximum(found, 1e-300))
    turned *= scale[:, None, :, None, None] * scale[:, None, None, None, :]
    return turned.reshape(q, p * w, p * w)
