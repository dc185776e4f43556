"""The left edge on a cubature rule of a law: sharp at a stationary point, smooth where Q meets the end of the support.

By Lehner's formula (`theory.general.dyson`) the edge of a law is the maximum of the smallest eigenvalue of Z(Q) over
{Q > 0, Q + F >= 0 for every weight F of the law}. A cubature rule knows the averages in Z, but only some of the weights.
So, derived here:

* A stationary point of the rule's equation is the edge of the law if Q + F > 0 for all weights: a *sharp* edge.
* Else walk along the branch Z(Q) = z I, from z = -inf to the right. Q(z) decreases, and the walk ends at the z_0 where Q + F
  first becomes singular for some F. To raise Z there to first order Q must fall in every direction, since (I - L)^{-1} is
  positive, which the constraint forbids: z_0 is a local maximum, by concavity the maximum. This is a *smooth* edge: one
  equation, smallest eigenvalue of Q + F = 0, borders Newton's method. G need not be a multiple of I.

Where averages over the law diverge as Q + F -> 0 (the infimum is taken inside, in few dimensions) rho reaches 1 before: such
an edge is sharp however close. Points do not resolve it: `theory.general.support` says how close, and the kind is
"unresolved" where it cannot.

A network's extremes are found by search over all preactivations and outputs (`support`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theory.checks import NotConverged
from theory.general.dyson import Dyson, DysonEdge
from theory.general.state import State, newton_step

Array = NDArray[Any]
_STEPS = 40  # of Newton's method, at the most
_TOLERANCE = 1e-12  # of the whitened equation and of Q + F, relative to Q
_STAGNATION = 1e-8  # where rounding next to a pole stops the iteration
_TOUCHES = 12  # places of touching tried before giving up
_SHORT = 1e-2  # part of a step that can be taken below which a point of the rule stands in its way
_HALVINGS = 30  # of z along the branch
_BELOW = 1e-7  # relative distance by which searches may miss the infimum
_TOUCHING = 1e-9  # relative distance within which a weight touches
_NEAREST = 1e-14  # relative distance of a sharp edge from the end of the support that is rounding of Q,
_SHOWN, _CUT = 1e-5, 0.02  # from which points may show it; up to which weights then leave their sums
_DEEPEST = 0.02  # and from which points should have shown it
_FARTHEST = 1e6  # times the infimum, where no branch is looked for


MOST = 4  # dimensions in which averages of (Q + F)^-2 diverge


class Peak(NamedTuple):
    """A place of lowest weights: k, A, and at how many places alike by symmetry they lie."""

    codimension: int
    amplitude: float
    images: int


class Extreme(NamedTuple):
    """The infimum of the smallest eigenvalue of F + shift, the weights (n, p, p) where it is taken (or approached; equal places
    by symmetry), and whether averages exist there."""

    value: float
    weights: Array
    closed: bool
    peak: Peak | None = None  # where averages do not exist


@dataclass
class Support:
    """All weights of a law, known by their extremes: those met so far, and a search for others.

    search  shift (p, p) -> Extreme
    bottom  search(0)
    scalar  whether G is a multiple of I, so that a smooth edge lies at Q = -bottom I exactly
    near    relative distance in Q within which a place of touching is looked for again: what is missed is of second order
    """

    search: Callable[[Array], Extreme]
    bottom: Extreme
    scalar: bool = False
    near: float = 0.03
    _bank: Array = field(init=False)
    _closed: NDArray[np.bool_] = field(init=False)
    _peaks: list[Peak | None] = field(init=False)
    _certificates: list[tuple[Array, float]] = field(init=False, default_factory=list)
    _touched: list[Array] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._bank = self.bottom.weights
        self._closed = np.full(len(self._bank), self.bottom.closed)
        self._peaks = [self.bottom.peak] * len(self._bank)

    @property
    def q_min(self) -> float:
        """-infimum of the weights' eigenvalues, 0 where none is negative."""
        return max(0.0, -self.bottom.value)

    def admissible(self, q: Array) -> bool:
        """Whether Q + F > 0 for every weight.

        A search at Q' that found the infimum v > 0 settles every Q with v + smallest eigenvalue of Q - Q' > 0 too.
        """
        if len(q) == 1:
            return bool(q[0, 0] > self.q_min)
        if self.lowest(q)[0] <= 0:
            return False
        if any(value + np.linalg.eigvalsh(q - other)[0] > 0 for other, value in self._certificates):
            return True
        return self.search_at(q) > 0

    def lowest(self, q: Array) -> tuple[float, Array, bool]:
        """Smallest eigenvalue of Q + F over the extremes known, its eigenvector (p,), and whether averages exist there."""
        values, vectors = np.linalg.eigh(q + self._bank)
        at = int(np.argmin(values[:, 0]))
        return float(values[at, 0]), vectors[at, :, 0], bool(self._closed[at])

    def kind(self, dyson: Dyson, state: State, z: float) -> tuple[str, float]:
        """Kind of an edge at a Q that touches the support, and its relative distance from there where it is sharp."""
        alpha = float(dyson.c.sum())
        values, vectors = np.linalg.eigh(state.q + self._bank)
        low = values[:, 0]
        touching = float(low.min()) + _TOUCHING * float(np.linalg.norm(state.q, 2))
        # Averages exist at the infimum: the branch ends there with rho < 1.
        if self._closed[int(np.argmin(low))]:
            return "smooth", 0.0
        rows = [(vectors[i, :, 0], self._peaks[i]) for i in np.flatnonzero(low <= touching)]
        there = [(e, peak) for e, peak in rows if peak is not None]
        at = _depth(state, z, alpha, there) if len(there) == len(rows) else math.nan
        if at > _SHOWN:  # points show some of it already
            # Weights next to touching are left out of the sums and put back in closed form.
            bare = dyson.above(state.q, _CUT * float(np.linalg.norm(state.q, 2)))
            at = math.nan if bare is None else _depth(bare, z, alpha, there, _CUT)
        if at < _NEAREST:
            return "smooth", 0.0
        return ("sharp", at) if at < _DEEPEST else ("unresolved", 0.0)

    def verified(self, q: Array) -> bool:
        """Whether a Q that touches the extremes known touches no other: looked at once in every neighbourhood."""
        if any(np.linalg.norm(q - other, 2) < self.near * np.linalg.norm(q, 2) for other in self._touched):
            return True
        self._touched.append(q)
        return self.search_at(q) > -1e-7 * float(np.linalg.norm(q, 2))

    def search_at(self, q: Array) -> float:
        """The infimum of the eigenvalues of Q + F by search; what is found there is known from now on."""
        found = self.search(q)
        self._bank = np.concatenate([self._bank, found.weights])
        self._closed = np.append(self._closed, np.full(len(found.weights), found.closed))
        self._peaks += [found.peak] * len(found.weights)
        if found.value > 0:
            self._certificates.append((q, found.value))
        return found.value


def edge_of(dyson: Dyson, law: Support, start: tuple[Array, float] | None = None) -> DysonEdge:
    """Left edge and its kind; `start` is (Q, z) of a neighbouring problem. Raises NotConverged where it is not found."""
    lowest = float(dyson.values.min())
    if lowest < law.bottom.value - _BELOW * abs(law.bottom.value):
        raise NotConverged(f"a weight lies below the infimum that was found, {law.bottom.value:.6g}", lowest)
    if law.q_min > 0 and (law.scalar or law.bottom.closed):
        found = _at_bottom(dyson, law) if law.scalar else _smooth(dyson, law, start)
        if found is not None:
            return found
    edge = _stationary(dyson, start)
    if edge is not None and law.admissible(edge[1].q):
        return DysonEdge(edge[0], "sharp", edge[1])
    if law.q_min == 0:
        return DysonEdge(0.0, "atom", None)
    if not law.scalar:
        again = None if edge is None else _smooth(dyson, law, (edge[1].q, edge[0]))
        again = again or _walked(dyson, law)
        if again is not None:
            return again
    if edge is None:
        raise NotConverged("left edge not found", -law.q_min)
    return DysonEdge(edge[0], "unresolved", edge[1])


def _at_bottom(dyson: Dyson, law: Support) -> DysonEdge | None:
    """The smooth edge at Q = q_min I; an improbable infimum, where averages diverge, shows at no number of points."""
    state = dyson.state(law.q_min * np.eye(dyson.p))
    if state is None or state.top(state.centre())[0] > 1:
        return None
    kind, off = law.kind(dyson, state, state.centre())
    return DysonEdge(state.centre(), kind, state, off=off * law.q_min)


def _stationary(dyson: Dyson, start: tuple[Array, float] | None) -> tuple[float, State] | None:
    edge = None if start is None else dyson.newton_edge(dyson.state(start[0]), start[1])
    if edge is None:
        try:
            edge = dyson.edge()
        except NotConverged:
            return None
    state = dyson.state(edge.q)
    return None if state is None else (edge.value, state)


def _smooth(dyson: Dyson, law: Support, start: tuple[Array, float] | None) -> DysonEdge | None:
    """The end of the branch where it touches the support; once more where it turns out to touch another weight there. None
    where the branch does not reach so far."""
    q = law.q_min * np.eye(dyson.p) if start is None else start[0]
    for _ in range(_TOUCHES):
        state = dyson.state(q)
        if state is None:
            state = dyson.state(law.q_min * np.eye(dyson.p))
        found = _touching(dyson, law, state)
        if found is None:
            return None
        if law.verified(found[1].q):
            return _touched(dyson, law, *found)
        q = found[1].q
    return None


def _touched(dyson: Dyson, law: Support, value: float, state: State) -> DysonEdge:
    kind, off = law.kind(dyson, state, value)
    return DysonEdge(value, kind, state, off=off * float(np.linalg.norm(state.q, 2)))


def _touching(dyson: Dyson, law: Support, state: State | None) -> tuple[float, State] | None:
    """Newton's method on Z(Q) = z I with the smallest eigenvalue of Q + F equal to 0; None if that is not on the branch."""
    best, z, looked = math.inf, math.nan, False
    for _ in range(_STEPS):
        if state is None:
            return None
        z = state.centre() if math.isnan(z) else z
        low, x, _ = law.lowest(state.q)
        residual, scale = state.residual(z), float(np.linalg.norm(state.q, 2))
        size = max(float(np.abs(residual).max()), abs(low) / scale)
        if size < _TOLERANCE or (size < _STAGNATION and size >= best):
            return (z, state) if newton_step(state, residual, z) is not None else None
        best = min(best, size)
        along = state.root @ x
        # First-order perturbation theory: the eigenvalue of Q + F moves by x^T dQ x.
        step = state.bordered(z, state.coordinates(np.outer(along, along)), 0.0, residual, -low)
        state, taken = dyson.step(state, step[:-1])
        if taken < _SHORT:  # points of the rule are in the way: weights for which no extreme is known
            if state is None or looked:
                return None
            looked = law.search_at(state.q) < math.inf
        z += taken * float(step[-1])
    return None


def _walked(dyson: Dyson, law: Support) -> DysonEdge | None:
    """The smooth edge by bisection of z along the branch: Q(z) falls as z rises, and with it the smallest eigenvalue of Q + F.
    Extremes are looked for again where the branch was left. None where that is before the support is reached."""
    start = _on_branch(dyson, law)
    if start is None:
        return None
    low, first = start
    for _ in range(_TOUCHES):
        touched = False
        high = low + law.q_min / 4
        while (moved := dyson.state_at(high)) is not None and not touched:
            touched = law.lowest(moved.q)[0] <= 0
            if not touched:
                low, first, high = high, moved, high + law.q_min / 4
        for _ in range(_HALVINGS):
            z = (low + high) / 2
            moved = dyson.state_at(z)
            if moved is not None and law.lowest(moved.q)[0] > 0:
                low, first = z, moved
            else:
                high, touched = z, touched or moved is not None
        if touched:
            found = _touching(dyson, law, first) or (low, first)
            if law.verified(found[1].q):
                return _touched(dyson, law, *found)
        elif law.search_at(first.q) > 0:
            return None
        start = _on_branch(dyson, law)
        if start is None:
            return None
        low, first = start
    return None


def _on_branch(dyson: Dyson, law: Support) -> tuple[float, State] | None:
    """A z and Q(z) left of where the support is touched."""
    q = 2 * law.q_min
    while q < _FARTHEST * law.q_min:
        state = dyson.state(q * np.eye(dyson.p))
        if state is not None:
            z = state.bound()
            first = dyson.state_at(z)
            if first is not None and law.lowest(first.q)[0] > 0:
                return z, first
        # Far to the left, Q = q I is on the branch.
        q *= 2
    return None


def _depth(
    state: State, z: float, alpha: float, peaks: list[tuple[Array, Peak]], cut: float = math.inf
) -> float:
    """d at a sharp edge next to touching, relative to Q; peaks are vectors e (p,) with what lies there. NaN where L itself is
    not left of the edge, inf where d is none of the small ones that this holds for.

    cut   relative to Q: the smallest eigenvalue of Q + F up to which weights count here, and not in the state
    """
    from scipy.optimize import brentq

    size = float(np.linalg.norm(state.q, 2))
    rows = []
    for e, _ in peaks:
        w = state.root @ e
        rows.append(state.coordinates(np.outer(w, w)))
    solved = [newton_step(state, row, z) for row in rows]
    if any(row is None for row in solved):
        return math.nan
    several = 1 if state.span is None else peaks[0][1].images
    if several > 1:
        rows, solved = rows[:1], solved[:1]
    # A change of L of finite rank: rho = 1 where amplitude times the largest eigenvalue of W^T (I - L)^-1 W is 1.
    together = float(np.linalg.eigvalsh(np.array(rows) @ np.array(solved).T)[-1]) * several
    k, amplitude = peaks[0][1].codimension, alpha * peaks[0][1].amplitude * together
    if not amplitude > 0:
        return 0.0
    if math.isinf(cut):
        # rho = 1 where amplitude d^(k/2 - 2) = 1; at k = 4 the power is a logarithm.
        return math.exp(-min(1 / amplitude, 700.0)) if k == MOST else float(amplitude ** (2 / (4 - k)) / size)

    def excess(v: float) -> float:
        power = 1.0 if k == MOST else (math.exp(v) * size) ** (k / 2 - 2)
        return math.log(amplitude * power * _share(k, math.sqrt(cut * math.exp(-v))))

    low, high = math.log(cut) - 60, math.log(cut)
    if excess(high) > 0 or excess(low) < 0:
        return math.inf
    return math.exp(float(brentq(excess, low, high)))


def _share(k: int, r: float) -> float:
    """Of the integral over x, what lies at lambda < r^2 d; for k = 4 that part itself."""
    if k == MOST:
        return math.log1p(r * r) - r * r / (1 + r * r)
    if k == 2:
        return r * r / (1 + r * r)
    return 2 / math.pi * (math.atan(r) + (2 - k) * r / (1 + r * r))
