"""Outliers of a weighted Wishart matrix that its spike vectors pull out to the left, and their overlaps.

With each sample comes a vector v (k,) of projections on k orthogonal directions of norm sqrt(N). Those
directions carry the block (all derived by a Schur complement on them, as in arXiv 2510.18435)

    z I - Xi(z),      Xi = sum c (v v^T) (x) F (I - G F)^{-1},      k p x k p,

and outliers are the zeros of its determinant. Left of the edge Q(z) = -G^{-1} decreases with z and A = F (I -
G F)^{-1} increases with Q, both in the order of symmetric matrices, so every ordered eigenvalue of z I -
Xi(z) increases strictly with z: there are exactly as many outliers as z I - Xi has positive eigenvalues at
the edge, one for each. The residue of the inverse block at an outlier gives the squared overlap of its
eigenvector with the spike space:

    q2 = 1 / (1 - x^T Xi'(z) x),      x the null vector of the block, prime = d/dz.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import NotConverged, ParameterError, finite
from theory.general.dyson import Dyson, DysonEdge
from theory.general.state import State, newton_step, symmetric

Array = NDArray[np.floating[Any]]

_STEPS = 60  # of Newton's method, at the most
_TOLERANCE = 1e-13  # of the whitened equation, whose terms are of order 1
_ALIKE = 1e-9  # relative distance of eigenvalues that a symmetry makes equal


@dataclass(frozen=True)
class Spikes:
    """Outliers left of the edge, lowest first; r of the k p possible ones exist.

    values (r,)  overlaps (r,)  directions (r, k, p): weights over (spike vector, block), norm 1
    margins (k p,)  eigenvalues of edge - Xi(edge), largest first: positive for each outlier that exists
    """

    values: Array
    overlaps: Array
    directions: Array
    margins: Array


class SpikeBlock:
    """The block z I - Xi of spike vectors v (m, k) for one Dyson equation.

    `classes` (k p, k p) averages Xi over a symmetry (`theory.general.cubature`), which the equation must have: then
    eigenvectors of one eigenvalue are images of one another, and the derivative is its mean over them.
    """

    def __init__(self, dyson: Dyson, vectors: ArrayLike, classes: NDArray[np.intp] | None = None):
        v = np.asarray(finite("vectors", vectors), dtype=np.float64)
        if v.ndim != 2 or len(v) != len(dyson.c) or not v.size:
            raise ParameterError(
                f"vectors must have shape ({len(dyson.c)}, k) with k at least 1, got {v.shape}"
            )
        self.dyson, self.v, self.classes = dyson, v, classes
        self.pairs = symmetric(v.shape[1])
        self.products = v.T[self.pairs.rows] * v.T[self.pairs.cols]

    def on(self, dyson: Dyson) -> SpikeBlock:
        """The same vectors with another equation of the same weights (`Dyson.scaled`)."""
        other = copy.copy(self)
        other.dyson = dyson
        return other

    def xi(self, state: State) -> Array:
        """Xi (k p, k p) at a state, spike index first."""
        k, p, at = self.v.shape[1], self.dyson.p, state.packing.position
        gram = self.products @ state.weighted.T
        blocks = gram[self.pairs.position[:, :, None, None], at[None, None]]
        # sum c v v^T (x) A, A = Q^(1/2) B Q^(1/2)
        blocks = np.einsum("ai,klij,jb->kalb", state.root, blocks, state.root)
        return class_average(blocks.reshape(k * p, k * p), self.classes)

    def pulled(self, state: State, z: float) -> Array:
        """Xi (k p, k p), to be compared with z: for inputs with a covariance Xi + z - zeta (`theory.general.correlated`)."""
        xi, pull = self.xi(state), state.pull(z)
        return xi if pull is None else xi + np.kron(np.eye(self.v.shape[1]), pull)

    def slopes(self, state: State, directions: Array, z: float) -> tuple[Array, float]:
        """Derivatives of x^T (what is compared with z) x: along a whitened step as coordinates (d,), and in z."""
        mean = np.einsum("nki,nkj->ij", directions, directions) / len(directions)
        row, corner = state.pull_slope(mean, z)
        return self.slope(state, directions) + row, corner

    def slope(self, state: State, directions: Array) -> Array:
        """Derivative of x^T Xi x, mean over n directions x (n, k, p), along a whitened step: coordinates (d,) of sum c t t^T
        with t = B Q^{1/2} X^T v."""
        loaded = np.einsum("ij,nkj,mk->inm", state.root, directions, self.v, optimize=True)
        t = np.einsum("ijm,jnm->inm", state.b[state.packing.position], loaded)
        t = t.reshape(len(t), -1)
        c = np.tile(state.c, len(directions)) / len(directions)
        return state.coordinates((t * c) @ t.T)

    def eigenpair(self, state: State, order: int, z: float) -> tuple[float, Array]:
        """The ordered eigenvalue of what is compared with z, and its eigenvector (1, k, p): with classes all (n, k, p)."""
        values, vectors = np.linalg.eigh(self.pulled(state, z))
        alike = np.abs(values - values[order]) <= _ALIKE * np.abs(values).max()
        chosen = vectors[:, [order] if self.classes is None else alike]
        return float(values[order]), chosen.T.reshape(-1, self.v.shape[1], self.dyson.p)

    def bisected(self, order: int, edge: float) -> tuple[State, float, Array]:
        """An outlier by bisection of an increasing function of z, for the starts that Newton's method cannot use."""
        high, width = edge, 1e-3 * (1 + abs(edge))
        low = edge - width
        # z - level grows with z: downwards until it is negative.
        while low - self.eigenpair(self._inside(low), order, low)[0] > 0:
            high, width = low, 2 * width
            low -= width
        for _ in range(200):
            z = (low + high) / 2
            if not low < z < high:
                break
            state = self.dyson.state_at(z)
            if state is not None and z - self.eigenpair(state, order, z)[0] <= 0:
                low = z
            else:
                high = z
        state = self._inside(low)
        return state, low, self.eigenpair(state, order, low)[1]

    def spikes(self, edge: DysonEdge) -> Spikes:
        """All outliers left of an edge, sharp or smooth, of this equation. Raises NotConverged where one that must exist is not
        found.

        >>> rng = np.random.default_rng(0)
        >>> v = rng.standard_normal((400, 1))
        >>> dyson = Dyson((1 - v**2)[:, :, None], 1 / 100)
        >>> len(SpikeBlock(dyson, v).spikes(dyson.edge()).values)
        1
        """
        state = edge.at
        margins = edge.value - np.linalg.eigvalsh(self.pulled(state, edge.value))
        k, p = self.v.shape[1], self.dyson.p
        found: list[tuple[float, float, Array]] = []
        for order in reversed(range(int(np.sum(margins > 0)))):
            # The outlier nearest the edge first: each is a good start for the next.
            state, z, directions = outlier_of(self, state, order, edge.value)
            loaded = state.loaded(z, directions[0])
            found.append((z, overlap_at(self, state, directions, z), loaded / np.linalg.norm(loaded)))
        found.sort(key=lambda item: item[0])
        values, overlaps = (np.array([item[i] for item in found]) for i in (0, 1))
        return Spikes(values, overlaps, np.array([item[2] for item in found]).reshape(-1, k, p), margins)

    def _inside(self, z: float) -> State:
        state = self.dyson.state_at(z)
        if state is None:
            raise NotConverged("outlier not found", z)
        return state


def overlap_at(block: SpikeBlock, state: State, directions: Array, z: float) -> float:
    """Squared overlap with the spike directions of an outlier at z, where the sums are `state` and the null vectors of the
    block `directions` (n, k, p); 0 at a sharp edge."""
    # -dQ/dz, whitened; it diverges at a sharp edge, where the overlap is 0
    x = newton_step(state, state.z_slope(z), z)
    if x is None:
        return 0.0
    row, corner = block.slopes(state, directions, z)
    return float(np.sum(state.loaded(z, directions) ** 2) / len(directions) / (1 - corner + row @ x))


def outlier_of(block: SpikeBlock, start: State, order: int, edge: float) -> tuple[State, float, Array]:
    """The outlier of one ascending order, which must exist, from a state at the edge: the sums there, its place and null
    vectors (n, k, p). Raises NotConverged where it is not found.

    Newton's method on Z(Q) = z I with the ordered eigenvalue of Xi equal to z. The pair stays regular at the edge."""
    state: State | None = start
    z = start.centre()
    best = np.inf
    for _ in range(_STEPS):
        if state is None:
            break
        value, directions = block.eigenpair(state, order, z)
        residual = state.residual(z)
        size = max(float(np.abs(residual).max()), abs(value - z))
        if size < _TOLERANCE or (size < 1e3 * _TOLERANCE and size >= best):
            if z < edge and newton_step(state, residual, z) is not None:
                return state, z, directions
            break
        best = min(best, size)
        slope, corner = block.slopes(state, directions, z)
        # z - value = 0 borders Z(Q) = z I: regular at the edge, where I - L alone is singular.
        step = state.bordered(z, slope, corner - 1.0, residual, z - value)
        state, taken = block.dyson.step(state, step[:-1])
        z += taken * step[-1]
    return block.bisected(order, edge)


def class_average(matrix: Array, classes: NDArray[np.intp] | None) -> Array:
    """The matrix averaged over symmetry classes of its entries."""
    if classes is None:
        return matrix
    kept = classes >= 0
    sums = np.bincount(classes[kept], matrix[kept])
    means = sums / np.bincount(classes[kept])
    averaged = np.where(kept, means[np.where(kept, classes, 0)], 0.0)
    return (averaged + averaged.T) / 2
