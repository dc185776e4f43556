"""The left edge on a cloud of points of a law: sharp at a stationary point, smooth where Q meets the end of the support.

By Lehner's formula (`theory.general.dyson`) the edge of a law is the maximum of the smallest eigenvalue of Z(Q) over
{Q > 0, Q + F >= 0 for every weight F of the law}. A cloud of points knows the averages in Z, but only some of the weights.
So, derived here:

* A stationary point of the cloud's equation is the edge of the law if Q + F > 0 for all weights: a *sharp* edge.
* Else walk along the branch Z(Q) = z I, from z = -inf to the right. Q(z) decreases, and the walk ends at the z_0 where Q + F
  first becomes singular for some F. To raise Z there to first order Q must fall in every direction, since (I - L)^{-1} is
  positive, which the constraint forbids: z_0 is a local maximum, by concavity the maximum. This is a *smooth* edge: one
  equation, smallest eigenvalue of Q + F = 0, borders Newton's method. G need not be a multiple of I.

Where averages over the law diverge as Q + F -> 0 (the infimum is taken inside, in few dimensions) rho reaches 1 before: such
an edge is sharp however close. Points do not resolve it: `theory.general.touching` says how close, and the kind is
"unresolved" where it cannot.

A network's extremes are found by search over all preactivations and outputs (`support`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theory.checks import NotConverged
from theory.general.dyson import Dyson, DysonEdge
from theory.general.lowest import Lowest, lowest
from theory.general.orbits import equal_students
from theory.general.state import State, newton_step
from theory.general.touching import MOST, Peak, depth, peak
from theory.model.activations import shifted
from theory.model.network import Network

Array = NDArray[Any]
_STEPS = 40
_TOLERANCE = 1e-12
_STAGNATION = 1e-8
_TOUCHES = 12
_SHORT = 1e-2  # part of a step that can be taken below which a point of the cloud stands in its way
_HALVINGS = 30
_BELOW = 1e-7  # relative distance by which searches may miss the infimum
_TOUCHING = 1e-9  # relative distance within which a weight touches
_NEAREST = 1e-14  # relative distance of a sharp edge from the end of the support that is rounding of Q,
_SHOWN, _CUT = (
    1e-5,
    0.02,
)  # from which points may show it; up to which weights are then taken out of their sums
_DEEPEST = 0.02  # and from which points should have shown it
_FARTHEST = 1e6  # times the infimum, where no branch is looked for


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
        low, touching = (
            values[:, 0],
            float(values[:, 0].min()) + _TOUCHING * float(np.linalg.norm(state.q, 2)),
        )
        if self._closed[int(np.argmin(low))]:
            return "smooth", 0.0
        rows = [(vectors[i, :, 0], self._peaks[i]) for i in np.flatnonzero(low <= touching)]
        there = [(e, peak) for e, peak in rows if peak is not None]
        at = depth(state, z, alpha, there) if len(there) == len(rows) else math.nan
        if at > _SHOWN:  # points show some of it already
            bare = dyson.above(state.q, _CUT * float(np.linalg.norm(state.q, 2)))
            at = math.nan if bare is None else depth(bare, z, alpha, there, _CUT)
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
    edge = None if start is None else dyson.newton_edge(dyson.state(start[0]), start[1], 0)
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
        step = state.bordered(z, state.coordinates(np.outer(along, along)), 0.0, residual, -low)
        state, taken = dyson.step(state, step[:-1])
        if taken < _SHORT:  # points of the cloud are in the way: weights for which no extreme is known
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
        q *= 2
    return None


_FAR = 1e3  # preactivations from here on count as at infinity
_FAR_OUTPUT = 1e6
_ALL_ORDERS = 4  # p up to which every permutation of a place is kept


def support(model: Network) -> Support:
    """A fresh support of a model of finite p: searches add to it."""
    return Support(partial(_extreme, model), bottom(model), scalar(model))


def scalar(model: Network) -> bool:
    """Whether G is a multiple of I by symmetry: signs of the preactivations and permutations of the students."""
    return model.p == 1 or (model.even_students and equal_students(model))


@lru_cache(maxsize=64)
def bottom(model: Network) -> Extreme:
    """The infimum of the weights themselves."""
    return _extreme(model, np.zeros((int(model.p), int(model.p))))


@lru_cache(maxsize=64)
def bottom_place(model: Network) -> tuple[Array, float]:
    """Preactivations (p,) and output where the weights are lowest."""
    found = _search(model, np.zeros((int(model.p), int(model.p))))
    lam, y = _map(model)(found.x[None, :], np.array([found.y]))
    return lam[0], float(y[0])


def _map(model: Network) -> Callable[[Array, Array], tuple[Array, Array]]:
    """From what is searched over to (lam, y): themselves where every pair occurs, else normals of which lam, and without
    noise y too, are functions."""
    if _all_pairs(model):
        return lambda x, y: (x, y)
    mixing, p_star = model.mixing(), model.p_star
    if model.noise or model.output_noise:
        return lambda v, y: (v @ mixing.T, y)
    return lambda v, y: (v @ mixing.T, model.outputs(v[:, :p_star]))


def _all_pairs(model: Network) -> bool:
    own = model.mixing()[:, model.p_star :]
    return bool(np.linalg.matrix_rank(own, tol=1e-9) == len(own))


@lru_cache(maxsize=8)
def _searched(model: Network, shift: bytes) -> Lowest:
    p = int(model.p)
    moved = np.frombuffer(shift).reshape(p, p)
    mapped, free = _map(model), _all_pairs(model)

    def smallest(x: Array, y: Array) -> Array:
        return _smallest(model, moved, *mapped(x, y))

    def outputs(x: Array) -> Array:
        return model.student_outputs(mapped(x, np.zeros(len(x)))[0])

    unit, bounded = model.a if model.rule.has_a else 1.0, bool(np.any(moved))
    known = _known(model) if bounded else ()
    return lowest(smallest, p if free else p + model.p_star, model.reach, outputs, unit, bounded, known)


def _known(model: Network) -> list[tuple[Array, float]]:
    """Where the weights themselves are lowest, one student there, or all of them."""
    found = _search(model, np.zeros((int(model.p), int(model.p))))
    one = found.x[int(np.argmax(np.abs(model.student.second(shifted(found.x, model.bias, np), np))))]
    return [(found.x, found.y), (np.full_like(found.x, one), found.y)]


def _search(model: Network, shift: Array) -> Lowest:
    return _searched(model, np.ascontiguousarray(shift, dtype=np.float64).tobytes())


def _extreme(model: Network, shift: Array) -> Extreme:
    found = _search(model, shift)
    lam, y = _map(model)(found.x[None, :], np.array([found.y]))
    alike = _all_pairs(model) and equal_students(model)
    weights = model.weights_at(_orders(lam[0]) if alike else lam, y)
    closed = _closed(model, lam[0], float(y[0]))
    around = None if closed else peak(model, lam[0], float(y[0]), partial(_smallest, model, shift))
    return Extreme(found.value, weights, closed, around)


def _smallest(model: Network, shift: Array, lam: Array, y: Array) -> Array:
    """Smallest eigenvalue (n,) of F + shift at lam (n, p) and y (n,), inf where F is no number."""
    with np.errstate(all="ignore"):
        f = model.weights_at(lam, y) + shift
    bad = ~np.all(np.isfinite(f), axis=(1, 2))
    f[bad] = 0.0
    values = np.linalg.eigvalsh(f)[:, 0]
    values[bad] = np.inf
    return np.asarray(values)


def _orders(lam: Array) -> Array:
    """The place under all permutations of the students, or cyclic ones where there are many; weights are permuted with it."""
    p = len(lam)
    if p > _ALL_ORDERS:
        return np.array([np.roll(lam, shift) for shift in range(p)])
    return np.unique(np.array(list(permutations(lam))), axis=0)


def _closed(model: Network, lam: Array, y: float) -> bool:
    """Whether averages of (Q + F)^-2 exist: the place lies at infinity, or in many dimensions."""
    low, high = model.reach
    if np.any(np.abs(lam) >= _FAR) or abs(y) >= _FAR_OUTPUT:
        return True
    if model.target is not None and (
        y <= low or y >= high
    ):  # an end may be taken on a set of one codimension
        return not model.attains(y) or len(lam) + 1 > MOST
    if y >= high:
        return True
    if y <= low:
        return not model.attains(y) or len(lam) + model.p_star > MOST
    return len(lam) + 1 > MOST
