"""The picture of the phases over (a, p) at one p* and noise: thresholds at few normalisations, interpolated between them.

Each row has its own nodes in log a. alpha_BBP has a kink at a_c, where its kind changes, so a_c is a node and the two sides are
interpolated each by itself (cubics in log a). Where a cubic through its neighbours misses a node by more than `MISS` - a sharp
bend, as where noise and signal weigh the same - nodes are added.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import threading
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.explorer.state import BY_NAME, WIDTHS
from theory.exact.transition import alpha_zero_map, critical_normalisation, threshold_map

Array = NDArray[np.float64]

A_RANGE = (0.01, 30.0)  # of the picture
COLUMNS = 240  # of the picture
MARGIN, HAIR = (
    1.0,
    1e-9,
)  # in log a: where nodes begin left of the picture; by how much those at a_c lie beside it
LEFT, CROWD = (
    14,
    1.25,
)  # nodes where the transition is continuous, a root each; the power with which they crowd at a_c
RIGHT = 0.25  # largest step of log a where it is discontinuous, and a closed form gives it
MISS, ROUNDS = 0.025, 4  # of log alpha at a node left out; how often nodes are added
BELOW, BETWEEN, CONTINUOUS, DISCONTINUOUS = 0, 1, 2, 3  # phases
_prepared: dict[int, PhaseMap] = {}  # by p_star, without noise


@dataclass(frozen=True)
class PhaseMap:
    """Thresholds over (p, a) of one p_star, p in the order of WIDTHS, a as in `a` (columns,).

    alpha_bbp, alpha_0   (widths, columns); alpha_0 by the tangent of the overlap, alpha_BBP itself where continuous, NaN where
                         there is none
    a_c                  (widths,), 0 where every transition is discontinuous, as for p = inf without noise
    columns              the thresholds as computed, before any interpolation: p, a, alpha_bbp, alpha_0, a_c
    """

    a: Array
    alpha_bbp: Array
    alpha_0: Array
    a_c: Array
    columns: dict[str, Array]


@dataclass(frozen=True)
class Nodes:
    """Thresholds at nodes, in any order: row (n,), log a, log alpha_BBP, log alpha_0 (NaN: none), whether it jumps."""

    row: NDArray[np.int64]
    log_a: Array
    log_bbp: Array
    log_zero: Array
    jumps: NDArray[np.bool_]

    def joined(self, more: Nodes) -> Nodes:
        """These and more, in the order of rows and of log a."""
        names = ("row", "log_a", "log_bbp", "log_zero", "jumps")
        both = {name: np.concatenate([getattr(self, name), getattr(more, name)]) for name in names}
        order = np.lexsort((both["log_a"], both["row"]))
        return Nodes(**{name: values[order] for name, values in both.items()})


def phase_map(p_star: int, noise: float = 0.0) -> PhaseMap:
    """Thresholds over the widths and normalisations of the phase diagram; kept."""
    ready = None if noise else _prepared.get(p_star)
    return _phase_map(p_star, float(noise)) if ready is None else ready


def is_ready(p_star: int, noise: float = 0.0) -> bool:
    """Whether `prepare` has had this diagram computed."""
    return not noise and p_star in _prepared


@lru_cache(maxsize=160)  # by position: with a default, two ways of asking would be two entries
def _phase_map(p_star: int, noise: float) -> PhaseMap:
    a_c = np.asarray(critical_normalisation(WIDTHS, p_star, noise))
    first = [_first_nodes(value, MARGIN if noise else 0.0) for value in a_c]
    rows = np.repeat(np.arange(len(WIDTHS)), [len(nodes) for nodes in first])
    found = _thresholds(rows, np.concatenate(first), p_star, noise)
    for count in range(ROUNDS):
        sides = _sides(found)
        more = [_more(found, part, not count) for part in sides]
        if not sum(map(len, more)):
            break
        rows = np.repeat([found.row[part][0] for part in sides], [len(nodes) for nodes in more])
        found = found.joined(_thresholds(rows, np.concatenate(more), p_star, noise))
    a = np.geomspace(*A_RANGE, COLUMNS)
    bbp, zero = np.empty((2, len(WIDTHS), COLUMNS))
    for part in _sides(found):
        row, at = found.row[part][0], found.log_a[part]
        wanted = (a >= a_c[row]) == found.jumps[part][0]
        x = np.log(a[wanted])
        bbp[row, wanted] = zero[row, wanted] = cubic(x, at, found.log_bbp[part])
        if found.jumps[part][0]:
            zero[row, wanted] = cubic(x, at, found.log_zero[part])
    columns = {
        "p": np.array(WIDTHS, dtype=np.float64)[found.row],
        "a": np.exp(found.log_a),
        "alpha_bbp": np.exp(found.log_bbp),
        "alpha_0": np.exp(found.log_zero),
        "a_c": a_c[found.row],
    }
    return PhaseMap(a, np.exp(bbp), np.exp(zero), a_c, columns)


def _first_nodes(a_c: float, margin: float) -> Array:
    """Nodes in log a of one row, from `margin` left of the picture; a_c belongs to both sides, a hair to the left and right."""
    low, high = math.log(A_RANGE[0]) - margin, math.log(A_RANGE[1])
    kink = math.log(a_c) if a_c > 0 else -math.inf
    beyond, end = max(kink + HAIR, low), min(kink - HAIR, high)
    left, right = np.empty((2, 0))
    if beyond < high:
        right = np.linspace(beyond, high, max(4, math.ceil((high - beyond) / RIGHT) + 1))
    if end > low:
        left = end - (end - low) * np.linspace(1, 0, LEFT) ** CROWD
    return np.concatenate([left, right])


def _thresholds(rows: Any, log_a: Array, p_star: int, noise: float) -> Nodes:
    """Thresholds at nodes."""
    widths, a = np.array(WIDTHS, dtype=np.float64)[rows], np.exp(log_a)
    found = threshold_map(widths, p_star, a, noise)
    zero = alpha_zero_map(widths, p_star, a, noise=noise, thresholds=found)
    return Nodes(np.asarray(rows), log_a, np.log(found.alpha), np.log(zero), found.discontinuous)


def _sides(found: Nodes) -> list[slice]:
    """Ranges of nodes of one row and one kind."""
    key = 2 * found.row + found.jumps
    ends = np.flatnonzero(np.diff(key)) + 1
    return [slice(a, b) for a, b in zip([0, *ends], [*ends, len(key)], strict=True)]


def _more(found: Nodes, part: slice, first: bool) -> Array:
    """Nodes to add: the middles of the intervals beside those that the cubic through their four neighbours misses; at first
    three between those where alpha_0 ceases to exist."""
    x, y = found.log_a[part], found.log_bbp[part]
    bad = 2 + np.flatnonzero(np.abs(_left_out(x, y)) > MISS) if len(x) >= 5 else np.empty(0, dtype=np.int64)
    gaps = np.union1d(bad - 1, bad)
    more = [(x[gaps] + x[gaps + 1]) / 2]
    if first:
        known = np.isfinite(found.log_zero[part])
        ends = np.setdiff1d(np.flatnonzero(known[1:] != known[:-1]), gaps)
        more += [x[ends] + share * (x[ends + 1] - x[ends]) for share in (0.25, 0.5, 0.75)]
    return np.concatenate(more)


def _left_out(x: Array, y: Array) -> Array:
    """By how much the cubic through its four neighbours misses each inner node (n - 4,)."""
    near = [(x[k : len(x) - 4 + k], y[k : len(x) - 4 + k]) for k in range(5)]
    at, exact = near.pop(2)
    weights = [
        math.prod((at - other) / (one - other) for other, _ in near if other is not one) for one, _ in near
    ]
    return sum(weight * value for weight, (_, value) in zip(weights, near, strict=True)) - exact


def cubic(at: Array, x: Array, y: Array) -> Array:
    """y at places `at` among rising x (n,), by the cubic through the four nodes about each; y may be NaN from a node on or up
    to one: then NaN where a neighbour is, and elsewhere from the nodes that have values."""
    known = np.isfinite(y)
    if not np.all(known):
        out = np.full(at.shape, np.nan)
        right = np.clip(np.searchsorted(x, at), 1, len(x) - 1)
        inside = known[right - 1] & known[right]
        if np.any(inside):
            few = np.sum(known) < 4
            out[inside] = (np.interp if few else cubic)(at[inside], x[known], y[known])
        return out
    first = np.clip(np.searchsorted(x, at) - 2, 0, len(x) - 4)
    near = x[first + np.arange(4)[:, None]]
    away = at - near
    out = np.zeros(at.shape)
    for one, others in enumerate(([1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2])):
        apart = near[one] - near[others]
        out += np.prod(away[others], axis=0) / np.prod(apart, axis=0) * y[first + one]
    return out


def prepare() -> threading.Thread:
    """Have the diagrams of every p_star computed beside whatever else goes on, so that a first visit finds them."""
    thread = threading.Thread(target=_collect, daemon=True)
    thread.start()
    return thread


def _collect() -> None:
    """Diagrams as a process of its own gives them: in a thread they would hold up the page's own work."""
    ours, its = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(target=_offer, args=(its,), daemon=True)
    child.start()
    its.close()
    with contextlib.suppress(EOFError, OSError):  # all are there, or the child was ended
        while True:
            p_star, found = ours.recv()
            _prepared[p_star] = found


def _offer(pipe: Connection) -> None:
    """In the child: every diagram without noise, until nobody listens any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, whose end ends it
    os.nice(10)
    teachers = BY_NAME["p_star"]
    with contextlib.suppress(OSError):
        for p_star in range(int(teachers.low), int(teachers.high) + 1):
            pipe.send((p_star, phase_map(p_star)))


def phases(found: PhaseMap, alpha: float) -> NDArray[np.uint8]:
    """The phase at every (p, a): BELOW alpha_BBP and alpha_0, BETWEEN them, or above, by the kind of transition passed."""
    jumps = found.a >= found.a_c[:, None]
    above = np.where(jumps, DISCONTINUOUS, CONTINUOUS)
    below = np.where(jumps & (alpha >= found.alpha_0), BETWEEN, BELOW)
    return np.where(alpha > found.alpha_bbp, above, below).astype(np.uint8)


def nearest_row(p: float) -> float:
    """Where width p lies on the axis of rows: between two rows where it is none of WIDTHS, linear in log p."""
    if math.isinf(p):
        return len(WIDTHS) - 1.0
    finite = np.array(WIDTHS[:-1])
    return float(np.interp(math.log(p), np.log(finite), np.arange(len(finite))))
