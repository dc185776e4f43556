"""The matrix Dyson equation and its spike block where some combinations of the samples are known: weights between projections.

Let P project the M samples on the complement of r orthonormal columns L. The matrix is that of theory.general.dyson with fresh
data P X~ in place of X~. All samples together then are one weight F_P = (P (x) I) blockdiag(F^mu) (P (x) I) of size M p, and
theory.general.dyson and theory.general.spikes hold with partial traces over the samples (ptr, p x p) in place of sums:

    Z(Q) = -Q + c ptr[ Q (x) P - (Q (x) P) C (Q (x) P) ],    C = ((Q + F)_P)^{-1} = S - S Phi (Phi' S Phi)^{-1} Phi' S

on the range of P (x) I, with S = blockdiag (Q + F^mu)^{-1} and Phi = L (x) I_p. (This is the inverse of a compressed matrix by
the block that is left out.) Only matrices of size r p are inverted. In the whitened coordinates of that module (Q = I, its B
here P (x) I - C):

    mean   c [ (M - r) I - ptr C ]             map X   c [ (M - r) X - X ptr C - (ptr C) X + ptr(C X C) ]
    W      -2 c sym [ (ptr C) E^2 - ptr(C E^2 C) - ptr(C E C) E + ptr(C E C E C) ]
    Xi     c [ sum v v' (x) B^mu + Y K^{-1} Y' ],    Y = sum v L' (x) B^mu,    K = Phi' S Phi
    slope  c sum t t',    t = C F (v x) = B (v x) - U K^{-1} Phi' B (v x),    U = S Phi.

A Q with some Q + F^mu not positive is admissible as long as the compressed matrix is: K then has as many negative eigenvalues
as S (Haynsworth's inertia formula).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.general.dyson import Dyson
from theory.general.spikes import SpikeBlock
from theory.general.state import State, Symmetric

Array = NDArray[np.floating[Any]]


class ProjectedState(State):
    """The sums over weights at one Q, samples projected: what `theory.general.state.State` holds, and

    s (m, p, p)        (Q + F)^{-1} of every sample, whitened
    k, inverse_k       Phi' S Phi and its inverse (r p, r p)
    u, w (m, p, r p)   S Phi, and that times inverse_k
    e (m, p, p)        the diagonal blocks of S - C
    trace (p, p)       ptr C
    each               the coefficient c of every sample
    """

    def __init__(
        self,
        q: Array,
        eigen: tuple[Array, Array],
        coefficients: Array,
        packing: Symmetric,
        inverse: Array,
        forces: Array,
    ):
        super().__init__(q, eigen, coefficients, packing, inverse)
        p, (m, r) = len(q), forces.shape
        self.forces, self.each, self.left_over = forces, float(coefficients[0]), m - r
        # Whitened (Q + F)^-1 = I - B
        self.s = np.eye(p) - np.moveaxis(self.b[packing.position], -1, 0)
        k = np.empty((r, p, r, p))
        for a, b in zip(packing.rows, packing.cols, strict=True):
            k[:, a, :, b] = k[:, b, :, a] = forces.T @ (forces * self.s[:, a, b, None])
        self.k = k.reshape(r * p, r * p)
        # The one inverse of size r p: the block of the compressed inverse that the forces take out.
        self.inverse_k = np.linalg.inv(self.k)
        self.u = (self.s[:, :, None, :] * forces[:, None, :, None]).reshape(m, p, r * p)
        self.w = self.u @ self.inverse_k
        # C = S - U K^-1 U': its diagonal blocks are S - E.
        self.e = self.w @ self.u.transpose(0, 2, 1)
        rest = self.e.sum(axis=0)
        self.trace = self.s.sum(axis=0) - rest
        # (M - r) I - ptr C in place of M I - sum S, which the unprojected sums hold
        self.mean = self.mean + self.each * (rest - r * np.eye(p))
        self.map = np.array([self.coordinates(self._mapped(x)) for x in packing.basis]).T

    def _mapped(self, x: Array) -> Array:
        """L[x] (p, p)."""
        crossed = x @ self.trace
        return self.each * (self.left_over * x - crossed - crossed.T + self._between(x))

    def _between(self, x: Array) -> Array:
        """ptr(C x C) (p, p) of a symmetric x."""
        # ptr (S - U K^-1 U') x (S - U K^-1 U'), multiplied out so that no array is M x M
        crossed = np.sum(self.s @ x @ self.e, axis=0)
        return (
            np.sum(self.s @ x @ self.s, axis=0)
            - crossed
            - crossed.T
            + _traced(self.w @ self._inner(x), self.w)
        )

    def _inner(self, x: Array) -> Array:
        """U' (x) U (r p, r p)."""
        return _contracted(self.u, x @ self.u)

    def gradient(self, e: Array, z: float) -> tuple[Array, float]:
        """Derivative of rho along whitened X, as coordinates (d,), and in z, as in `State`."""
        y = self.matrix(e)
        once = self._between(y)
        slope = self.trace @ y @ y - self._between(y @ y) - once @ y + self._twice(y)
        return self.coordinates(-self.each * (slope + slope.T)), 0.0

    def _twice(self, y: Array) -> Array:
        """ptr(C y C y C) (p, p), C = S - U K^{-1} U' multiplied out."""
        s, w, e = self.s, self.w, self.e
        turned = y @ s @ y  # of every sample
        inner, far = self._inner(y), _contracted(self.u, turned @ self.u)
        moved = w @ inner
        outer = np.sum(e @ turned @ s, axis=0) - np.sum(moved @ w.transpose(0, 2, 1) @ y @ s, axis=0)
        middle = np.sum(s @ y @ e @ y @ s, axis=0)
        both = _traced(w @ far, w) - _traced(moved @ self.inverse_k @ inner, w)
        return np.sum(s @ turned @ s, axis=0) - outer - outer.T - middle + both


class ProjectedDyson(Dyson):
    """The Dyson equation of weights F (m, p, p), one coefficient for all, with the samples projected on the complement of
    orthonormal forces (m, r)."""

    def __init__(self, weights: ArrayLike, coefficient: float, forces: Array):
        super().__init__(weights, coefficient)
        self.forces = forces

    def state(self, q: Array) -> State | None:
        """The sums at Q (p, p), or None where Q is not admissible."""
        values, vectors = np.linalg.eigh(q)
        if values[0] <= 0:
            return None
        shifted = self.packed + q[self.packing.rows, self.packing.cols][:, None]
        inverse = self.packing.invert(shifted)
        if inverse is not None:
            return ProjectedState(q, (values, vectors), self.c, self.packing, inverse, self.forces)
        whole = np.moveaxis(shifted[self.packing.position], -1, 0)
        negative = int(np.sum(np.linalg.eigvalsh(whole) < 0))
        # K has r p eigenvalues: it cannot have as many negative ones as S.
        if negative > self.forces.shape[1] * self.p:
            return None
        inverse = np.linalg.inv(whole)[:, self.packing.rows, self.packing.cols].T
        state = ProjectedState(q, (values, vectors), self.c, self.packing, inverse, self.forces)
        # Haynsworth: the compressed matrix is positive where K and S have equally many.
        return state if np.sum(np.linalg.eigvalsh(state.k) < 0) == negative else None


class ProjectedSpikes(SpikeBlock):
    """The block z I - Xi of spike vectors v (m, k) for a projected equation, k of any size."""

    def __init__(self, dyson: ProjectedDyson, vectors: Array):
        self.dyson, self.v, self.classes = dyson, np.asarray(vectors, dtype=np.float64), None

    def xi(self, state: State) -> Array:
        """Xi (k p, k p) at a state, spike index first."""
        assert isinstance(state, ProjectedState)
        k, p, r = self.v.shape[1], self.dyson.p, state.forces.shape[1]
        xi, y = np.empty((k, p, k, p)), np.empty((k, p, r, p))
        for a, b in zip(state.packing.rows, state.packing.cols, strict=True):
            weighted = (self.v * state.b[state.packing.position[a, b]][:, None]).T
            xi[:, a, :, b] = xi[:, b, :, a] = weighted @ self.v
            y[:, a, :, b] = y[:, b, :, a] = weighted @ state.forces
        flat = y.reshape(k * p, r * p)
        whole = xi.reshape(k * p, k * p) + flat @ state.inverse_k @ flat.T
        root = np.kron(np.eye(k), state.root)
        xi = state.each * root @ whole @ root
        return (xi + xi.T) / 2

    def slope(self, state: State, directions: Array) -> Array:
        """Derivative of x^T Xi x, mean over n directions x (n, k, p), along a whitened step: coordinates (d,)."""
        assert isinstance(state, ProjectedState)
        t = self.felt(state, directions).reshape(-1, self.dyson.p)
        return state.coordinates(state.each / len(directions) * t.T @ t)

    def gram(self, state: ProjectedState, x: Array) -> Array:
        """c sum <t_i t_j', x> (k p, k p) over all known directions, of a symmetric whitened x (p, p)."""
        size = self.v.shape[1] * self.dyson.p
        t = self.felt(state, np.eye(size).reshape(size, -1, self.dyson.p))
        return state.each * (t @ x).reshape(size, -1) @ t.reshape(size, -1).T

    def felt(self, state: ProjectedState, directions: Array) -> Array:
        """t (n, m, p) of directions x (n, k, p): what the module calls C F (v x), whitened."""
        b = np.eye(self.dyson.p) - state.s
        t = ((self.v @ (directions @ state.root))[..., None, :] @ b)[..., 0, :]
        # What the forces have taken out of t: its projection through K^-1.
        known = np.einsum("mi,nma->nia", state.forces, t).reshape(len(t), -1)
        return t - np.einsum("mar,nr->nma", state.u, known @ state.inverse_k)


def _traced(left: Array, right: Array) -> Array:
    """sum over samples and columns (p, p) of arrays (m, p, R)."""
    return np.tensordot(left, right, axes=((0, 2), (0, 2)))


def _contracted(left: Array, right: Array) -> Array:
    """sum over samples and rows (R, R) of arrays (m, p, R)."""
    rows = left.shape[0] * left.shape[1]
    return left.reshape(rows, -1 if left.size else 0).T @ right.reshape(rows, -1 if left.size else 0)
