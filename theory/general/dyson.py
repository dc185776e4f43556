"""The p x p matrix Dyson equation of a weighted Wishart matrix, left of its spectrum.

H = sum_mu F^mu (x) x^mu x^mu^T with symmetric p x p weights F^mu and x ~ N(0, I_N / N) has, at large N, the
block resolvent G(z) = (1/N) partial trace of (z - H)^{-1} that solves (any coefficients c_mu; 1/N for a
sample, probabilities times alpha for a law)

    G^{-1} = z - sum_mu c_mu F^mu (I - G F^mu)^{-1}.

Everything here is done in Q = -G^{-1}, which is positive definite left of the spectrum. Derived here:

* With A = F (I - G F)^{-1} = Q - Q (Q + F)^{-1} Q the equation reads Z(Q) = -Q + sum c A = z I. The
  admissible set {Q > 0, Q + F^mu > 0 for every mu} is convex, and Q (Q + F)^{-1} Q is a matrix fractional
  function, so Z is operator concave. Hence left edge = max over Q of the smallest eigenvalue of Z(Q)
  (Lehner's formula, Canad. J. Math. 51 (1999) 260, in its compound-Poisson form) is a concave problem: any
  admissible Q gives a lower bound, and a stationary point is THE edge.
* With B = Q^{-1/2} A Q^{-1/2} (so I - B = Q^{1/2} (Q + F)^{-1} Q^{1/2} > 0) the derivative of Z along Q^{1/2} X Q^{1/2} is,
  whitened the same way, L[X] - X with the completely positive self-adjoint map L[X] = sum c B X B. Left of the edge its
  spectral radius rho < 1; at the edge rho = 1, with a positive semidefinite eigenvector E.
* For p = 1 this is sum c f^2 / (q + f)^2 = 1. Its left side to the power -1/2 is concave and increasing in q (a norm of
  exponent -2), so Newton's method from the left end converges monotonically: no bracket, no failure.

SciPy's solvers for Riccati equations treat one quadratic term; here there are M rational ones, and the Newton
method below is the same Kleinman iteration with the M terms summed.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import NotConverged, ParameterError, finite, one, positive
from theory.general.correlated import CorrelatedState, PopulationSpectrum
from theory.general.isotropic import Isotropic, Law, node_averages
from theory.general.state import State, newton_step, symmetric

Array = NDArray[np.floating[Any]]

_STEPS = 60  # of Newton's method, at the most
_TOLERANCE = 1e-13  # of the whitened equation, whose terms are of order 1
_NEAR = 1e-8  # residual of a step along the branch with a population spectrum
_STAGNATION = 1e-9  # next to a pole rounding stops the iteration at about eps q / (q + f)


@dataclass(frozen=True)
class DysonEdge:
    """Left edge of the spectrum of a matrix Dyson equation.

    value      the edge, in units of the weights
    kind       "sharp"; of a law too (`theory.general.support`) "smooth", "atom" or "unresolved"
    state      the sums there, None for an atom
    null       the positive semidefinite null vector E of the whitened derivative, (p, p), Frobenius norm 1; None but where it
               was solved for
    curvature  d^2 z / d g^2 at a sharp edge along the physical branch, g = tr G / p; negative
    residual   largest entry of the whitened equation and of rho - 1: what is left unsolved
    off        what a sharp edge may be off by where it is told from the end of the support (`theory.general.support`)
    """

    value: float
    kind: str = "sharp"
    state: State | None = None
    null: Any = None
    curvature: float = math.nan
    residual: float = 0.0
    off: float = 0.0

    @property
    def at(self) -> State:
        """The sums at the edge; raises ParameterError for an atom."""
        if self.state is None:
            raise ParameterError("an atom at 0 has no resolvent")
        return self.state

    @property
    def q(self) -> Array:
        """Q = -G^{-1} at the edge, (p, p)."""
        return self.at.q

    @property
    def g(self) -> Array:
        """G at the edge, (p, p), negative definite."""
        return -np.linalg.inv(self.q)


class Dyson:
    """The Dyson equation of the weights F (m, p, p), each with coefficient c (m,) or one number for all (1/N
    for a sample).

    Weights must be symmetric and finite, coefficients positive. `eigenvalues`, if the caller has them
    cheaply, is a pair (values (k, m), multiplicities (k,)) of the eigenvalues of each weight, multiplicities
    adding up to p. `population` is the population spectrum of the inputs, None for the identity. Raises ParameterError on bad
    shapes or values.

    `span` (D, d), orthonormal coordinates, restricts Q to the matrices that a group of orthogonal matrices leaves as they are:
    the equation is then that of the weights with all their images. Z(Q) of the images is the projection of Z(Q) on the span.
    """

    def __init__(
        self,
        weights: ArrayLike,
        coefficients: ArrayLike,
        eigenvalues: tuple[Array, Array] | None = None,
        population: PopulationSpectrum | None = None,
        span: Array | None = None,
    ):
        f = np.asarray(finite("weights", weights), dtype=np.float64)
        if f.ndim != 3 or f.shape[1] != f.shape[2] or not f.size:
            raise ParameterError(f"weights must have shape (m, p, p) with m and p at least 1, got {f.shape}")
        c = np.asarray(positive("coefficients", coefficients), dtype=np.float64)
        if c.shape not in ((), (len(f),)):
            raise ParameterError(f"coefficients must be one number or have shape ({len(f)},), got {c.shape}")
        self.p = f.shape[1]
        self.packing = symmetric(self.p)
        self.packed = np.ascontiguousarray(f[:, self.packing.rows, self.packing.cols].T)
        skew = np.abs(self.packed - f[:, self.packing.cols, self.packing.rows].T).max()
        if skew > 1e-12 * np.abs(self.packed).max():
            raise ParameterError(f"weights must be symmetric matrices, got entries that differ by {skew:.3g}")
        self.c = np.broadcast_to(c, len(f))
        if eigenvalues is None:
            values = f[:, 0, :].T if self.p == 1 else np.linalg.eigvalsh(f).T
            eigenvalues = values, np.ones(self.p)
        self.values: Array = eigenvalues[0]
        self.multiplicities: Array = eigenvalues[1]
        self.population, self.span = population, span

    def scaled(self, factor: float) -> Dyson:
        """The equation with every coefficient multiplied by a positive factor: the same weights at another alpha."""
        other = copy.copy(self)
        other.c = self.c * one("factor", positive("factor", factor))
        return other

    def above(self, q: Array, cut: float) -> State | None:
        """`state` by the weights alone at which the smallest eigenvalue of Q + F exceeds `cut`."""
        shifted = self.packed + q[self.packing.rows, self.packing.cols][:, None]
        lowest = np.linalg.eigvalsh(np.moveaxis(shifted[self.packing.position], 2, 0))[:, 0]
        other = copy.copy(self)
        other.c = np.where(lowest > cut, self.c, 0.0)
        return other.state(q)

    def state(self, q: Array) -> State | None:
        """The sums at Q (p, p), or None where Q is not admissible."""
        shifted = self.packed + q[self.packing.rows, self.packing.cols][:, None]
        inverse = self.packing.invert(shifted)
        eigen = np.linalg.eigh(q)
        if inverse is None or eigen[0][0] <= 0:
            return None
        if self.population is None:
            return State(q, (eigen[0], eigen[1]), self.c, self.packing, inverse, self.span)
        state = CorrelatedState(q, (eigen[0], eigen[1]), self.c, self.packing, inverse, self.span)
        state.population = self.population
        return state

    def edge(self) -> DysonEdge:
        """The left edge, with its null vector and curvature.

        Raises NotConverged (carrying the best lower bound) where there is none to find: weights without a
        negative eigenvalue and fewer samples than dimensions, so that the spectrum starts at the atom at 0.
        """
        # Of the trace equation: each eigenvalue with its share of the trace.
        coefficients = np.outer(self.multiplicities / self.p, self.c)
        # The start is the edge of the trace equation, exact where G = g I.
        q = scalar_edge(self.values, coefficients)
        if self.population is not None and q > 0:
            f, c = self.values.ravel(), coefficients.ravel()
            scale = float(np.sqrt(c @ f**2 / c.sum()))
            q_min = max(0.0, -float(f.min()))
            law = Law(node_averages(f, c, (), q_min, scale), (), q_min, False, scale)
            q = q_min + Isotropic(law, (self.population.s, self.population.w)).edge(1.0)[2]  # if G were g I
        state = self.state(q * np.eye(self.p))
        if state is None:
            raise NotConverged("no left edge: the weights have no negative eigenvalue and are too few", 0.0)
        return self.newton_edge(state, state.centre()) or self.climbed_edge(q)

    def newton_edge(self, state: State | None, z: float) -> DysonEdge | None:
        """Newton's method on Z(Q) = z I, rho^{-1/2} = 1 from a good start; None as soon as it moves away."""
        best = np.inf
        for _ in range(_STEPS):
            if state is None:
                return None
            rho, e = state.top(z)
            residual, (w, corner) = state.residual(z), state.gradient(e, z)
            size = max(float(np.abs(residual).max()), abs(rho - 1))
            if size < _TOLERANCE or (size < _STAGNATION and size >= best):
                return self._edge_at(state, z, e, w, size)
            # Newton's method has left the neighbourhood in which it converges.
            if size > 4 * best:
                return None
            best = min(best, size)
            # rho^(-1/2) = 1 in place of rho = 1: nearly linear in Q next to a pole (for p = 1 see the top)
            step = state.bordered(z, w, corner, residual, 2 * rho * (1 - np.sqrt(rho)))
            state, taken = self.step(state, step[:-1])
            z += taken * float(step[-1])
        return None

    def climbed_edge(self, q: float) -> DysonEdge:
        """The edge by a climb along the branch rho < 1 from Q = q I or farther right, then Newton's method.

        Where several eigenvalues of L are close to 1 Newton's method from outside the branch wanders. On the branch the
        smallest eigenvalue of Z(Q) bounds the edge from below; with 1 - rho falling linearly along the null direction
        the rest of the way is (1 - rho)^2 / (2 |<W, E>| tr Q^{-1} E). Each step aims at a part of it by one Kleinman
        step, which stays on the branch for every aim left of the edge. With a population spectrum, where rho
        depends on z, it takes several steps.
        """
        state = self._on_branch(q)
        bound = state.bound()
        rho, e = state.top(bound)
        # Newton's method is tried from 1 - rho < attempt on, each time twice as near.
        attempt, part = 0.3, 0.9
        for _ in range(4 * _STEPS):
            if 1 - rho < attempt:
                attempt = (1 - rho) / 2
                found = self.newton_edge(state, bound)
                if found is not None:
                    return found
            w = -state.gradient(e, bound)[0] @ e
            # Only a part of the way: the linear law of 1 - rho holds next to the edge.
            aim = bound + part * (1 - rho) ** 2 / (2 * w * float(state.z_slope(bound) @ e))
            moved = self._towards(state, float(aim))
            if moved is not None and moved.top(moved.bound())[0] < 1:
                state, part = moved, min(0.9, 2 * part)
                bound = state.bound()
                rho, e = state.top(bound)
            else:
                part /= 4
        raise NotConverged("left edge not found", bound)

    def _towards(self, state: State, z: float) -> State | None:
        """Kleinman's iteration for z; None where z is not left of the edge.

        One step; with a population spectrum as many as make the residual small.
        """
        for _ in range(_STEPS):
            x = newton_step(state, state.residual(z), z)
            moved = None if x is None else self.state(state.moved(x))
            if moved is None or self.population is None or np.abs(moved.residual(z)).max() < _NEAR:
                return moved
            state = moved
        return None

    def _on_branch(self, q: float) -> State:
        """The first of q I, 1.1 q I, ... that is admissible with rho < 1."""
        for _ in range(20 * _STEPS):
            state = self.state(q * np.eye(self.p))
            if state is not None and state.top(state.bound())[0] < 0.98:
                return state
            # rho falls as Q grows
            q *= 1.1
        raise NotConverged("left edge not found", -q)

    def step(self, state: State, x: Array) -> tuple[State | None, float]:
        """The first admissible of the steps x, x/2, x/4, ... and the fraction taken."""
        for halvings in range(40):
            moved = self.state(state.moved(x * 0.5**halvings))
            if moved is not None:
                return moved, 0.5**halvings
        return None, 0.0

    def _edge_at(self, state: State, z: float, e: Array, w: Array, size: float) -> DysonEdge:
        # Along the null vector z moves by <E, Z''[E, E]> / (2 tr(Q^{-1} E)) per squared step, and tr G by tr(Q^{-1} E).
        pull, fall = float(state.coordinates(state.inverse_q) @ e), float(state.z_slope(z) @ e)
        curvature = float(w @ e) * self.p**2 / (pull**2 * fall)
        return DysonEdge(z, "sharp", state, state.matrix(e), curvature, size)

    def solve(self, z: float) -> Array:
        """G(z) (p, p) at a real z left of the spectrum; raises ParameterError if z is not left of it."""
        state = self.state_at(one("z", finite("z", z)))
        if state is None:
            raise ParameterError(f"z must lie left of the spectrum, got {z!r}")
        return -state.inverse_q

    def state_at(self, z: float) -> State | None:
        """State at Q(z), or None where z is not left of the edge.

        From Q >= Q(z) concavity makes Newton's iterates decrease monotonically to Q(z) with rho < 1 all the
        way; A <= F gives the start Q = (largest eigenvalue of sum c F, less z) I.
        """
        k = float(np.linalg.eigvalsh(self.packing.unpack(self.packed @ self.c))[-1])
        q = k - z if self.population is None else self.population.y(k, z)
        # Admissible: Q + F > 0 for the lowest weight.
        q = max(q, -2.0 * float(self.values.min()), np.finfo(float).tiny)
        state = self.state(q * np.eye(self.p))
        best = np.inf
        for _ in range(_STEPS):
            if state is None:
                return None
            residual = state.residual(z)
            x = newton_step(state, residual, z)
            size = float(np.abs(residual).max())
            if x is None:
                return None
            if size < _TOLERANCE or (size < _STAGNATION and size >= best):
                return state
            best = min(best, size)
            state = self.state(state.moved(x))
        return None


def scalar_edge(values: Array, coefficients: Array) -> float:
    """Root q of sum c f^2 / (q + f)^2 = 1 right of every pole, 0 where there is none.

    values, coefficients  arrays of one shape. The starting point is where the largest single term alone
                          reaches 1, so it lies left of the root, from where the iteration climbs monotonically.

    >>> round(float(scalar_edge(np.array([[-1.0]]), np.array([[4.0]]))), 12)
    3.0
    """
    f, c = values[values != 0], coefficients[values != 0]
    if not len(f):
        return 0.0
    q = float(np.max(np.sqrt(c) * np.abs(f) - f))
    if q <= 0:
        if c.sum() <= 1:
            return 0.0
        q = 0.0
    for _ in range(_STEPS):
        # Newton's method for rho^(-1/2) = 1: q grows by (rho^(1/2) - 1) / (-rho' / 2 rho).
        ratio = f / (q + f)
        terms = c * ratio**2
        rho = float(terms.sum())
        slope = float((terms / (q + f)).sum()) / rho
        change = (np.sqrt(rho) - 1) / slope
        q += change
        if abs(change) <= 4e-16 * q:
            break
    return q
