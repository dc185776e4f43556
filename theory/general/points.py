"""Networks whose resolvent is a p x p matrix: the matrix Dyson equation on clouds of points, at one alpha and along alpha.

In at most three dimensions, (lam, teacher), the cloud is a product rule, refined until nothing moves; elsewhere Sobol points,
whose spread over scramblings is the error, widened by Student's t so that two of them cover 95 %. Edges of clouds are made
those of the law by its support (`theory.general.support`).

The threshold is the first alpha at which the largest margin, edge less the lowest eigenvalue of Xi there, rises through 0: it
is bracketed on a coarse cloud by a scan of alpha, then found on each fine one, every solution being the start of the next. What
the ends of the scan mean is known exactly. As alpha -> 0 the edge tends to the infimum of F and Xi to 0, or the edge is the
atom: no model has an outlier there, so none has one at every alpha. As alpha -> inf edge and outliers are those of the mean
Hessian, alpha E[F] and alpha E[v v^T (x) F]: their order says whether outliers stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from theory.answers import Threshold
from theory.checks import NotConverged
from theory.general.clouds import Cloud, dimensions, fit, product_cloud, sobol_cloud
from theory.general.dyson import Dyson, DysonEdge, State
from theory.general.levels import Levels
from theory.general.orbits import invariant_span, orbit_labels
from theory.general.results import Found, zero_of
from theory.general.spikes import SpikeBlock, outlier_of, overlap_at
from theory.general.support import Support, bottom, edge_of, support
from theory.model.network import Network

Array = NDArray[Any]
Bracket = tuple[float, float, int]  # two alphas and whether the margin rises between them, +1, or falls, -1
_Lowest = tuple[float, list[Array], int]
Guess = tuple[float, tuple[Array, float] | None]  # an alpha, and (Q, z) near it

STEPS = 0.2, 0.16, 0.13, 0.1  # of the product rule
COARSE_STEP, COARSE_LEVEL = 0.35, 11  # of the clouds that bracket a threshold
_DIMENSIONS = 3
_LEVEL = 15  # log2 of the points of one scrambling
_SCRAMBLINGS = 8
_STEADY = 1e-11
_STEADY_THRESHOLD = 1e-9
_ALPHAS = np.geomspace(
    0.02, 2e4, 61
)  # where changes of sign of the margin are looked for: steps of a quarter
_CLOSE = 1e-7  # relative distance within which outliers count as one
_CARRIES = 0.01  # share of an outlier's vector on teacher directions from which it carries the teacher
_SECANTS = 12
_NEAR = 1e-6  # relative distance left of the edge of the mean Hessian at which a covariance's pull is taken
_ROUGHLY, _NEARLY = (
    0.15,
    0.03,
)  # relative distances in Q at which smooth edges are verified, in the scan and at the root
_AHEAD = 1e-3  # steps in log alpha of the tangent: what three points leave is 1e-6
UNBOUNDED = "no left edge: the weight is unbounded below"


@dataclass(frozen=True)
class Solved:
    """Edge with its kind, outliers as rows (value, overlap, teacher share, student share, degeneracy), and what is not known of
    the edge, of one cloud."""

    edge: float
    kind: str
    rows: Array
    error: float = 0.0


class CloudProblem:
    """The equations of a model on one cloud at any alpha; each edge, (Q, z) in `start`, is the start of the next."""

    def __init__(self, model: Network, cloud: Cloud, law: Support, start: tuple[Array, float] | None = None):
        self.law, self.cloud, self.start = law, cloud, start
        self.unit = Dyson(
            cloud.f, cloud.probability, levels=Levels.of(model.levels()), span=invariant_span(model)
        )
        self.spikes = []
        for block in cloud.blocks:
            teachers = int(block.teacher.sum())
            orbits = orbit_labels(model, teachers, len(block.teacher) - teachers)
            self.spikes.append(SpikeBlock(self.unit, block.vectors, orbits))

    def edge(self, alpha: float) -> tuple[Dyson, DysonEdge]:
        """Equation and edge at alpha. Raises NotConverged."""
        dyson = self.unit.scaled(alpha)
        edge = edge_of(dyson, self.law, self.start)
        self.start = None if edge.state is None else (edge.state.q, edge.value)
        return dyson, edge

    def solved(self, alpha: float) -> Solved:
        """Edge and all outliers at alpha. Raises NotConverged."""
        dyson, edge = self.edge(alpha)
        if edge.state is None:
            return Solved(edge.value, edge.kind, np.zeros((0, 5)))
        rows = []
        for block, spike in zip(self.cloud.blocks, self.spikes, strict=True):
            found = spike.on(dyson).spikes(edge.state, edge.value)
            for value, overlap, x in zip(found.values, found.overlaps, found.directions, strict=True):
                teacher, student = np.sum(x[block.teacher] ** 2), np.sum((block.students @ x) ** 2)
                rows.append([value, overlap, float(teacher), float(student), block.degeneracy])
        return Solved(edge.value, edge.kind, clustered(np.array(sorted(rows)).reshape(-1, 5)), edge.off)

    def margin(self, alpha: float) -> tuple[float, DysonEdge, float]:
        """Largest margin of a direction that carries the teacher, the edge, and the overlap that its outlier starts with."""
        dyson, edge = self.edge(alpha)
        if edge.state is None:
            return -1.0, edge, 0.0
        spike, found = self._carrier(dyson, edge.state, edge.value)
        overlap = (
            overlap_at(spike, edge.state, np.array(found[1]), edge.value) if edge.kind == "smooth" else 0.0
        )
        return edge.value - found[0], edge, overlap

    def _carrier(self, dyson: Dyson, state: State, z: float) -> tuple[SpikeBlock, _Lowest]:
        """The block with the lowest eigenvalue of Xi that carries the teacher, and what is known of that."""
        best: tuple[SpikeBlock, _Lowest] | None = None
        for block, unit in zip(self.cloud.blocks, self.spikes, strict=True):
            if not np.any(block.teacher):
                continue
            spike = unit.on(dyson)
            found = _lowest_with_teacher(spike.pulled(state, z), block.teacher)
            if found is not None and (best is None or found[0] < best[1][0]):
                best = spike, found
        if best is None:
            raise NotConverged("no direction carries the teacher", z)
        return best

    def overlap(self, alpha: float) -> float:
        """Squared overlap of the lowest outlier that carries the teacher, at an alpha where it exists."""
        dyson, edge = self.edge(alpha)
        if edge.state is None:
            return 0.0
        spike, (*_, order) = self._carrier(dyson, edge.state, edge.value)
        state, z, directions = outlier_of(spike, edge.state, order, edge.value)
        return overlap_at(spike, state, directions, z)

    def stays(self) -> bool:
        """Whether outliers that carry the teacher are there as alpha -> inf: those of the mean Hessian.

        Its bulk is E[F] (x) Sigma; z stands for z / alpha. At its edge a covariance pulls by B = -N^{-1} - (Xi - E[F]).
        """
        mean = np.einsum("n,nij->ij", self.cloud.probability, self.cloud.f)
        levels, vectors = np.linalg.eigh(mean)
        edge, p, shift = float(levels[0]), len(mean), np.zeros_like(mean)
        if self.unit.levels is not None:
            s, w = self.unit.levels.s, self.unit.levels.w
            edge = float(np.min(np.outer(s, levels)))
            z = edge - _NEAR * abs(edge)
            pull = 1 / ((w * s**2) @ (1 / (s[:, None] * levels - z)))
            shift = (vectors * (edge - levels + pull)) @ vectors.T
        for block in self.cloud.blocks:
            k = block.vectors.shape[1]
            v = block.vectors * self.cloud.probability[:, None]
            xi = np.einsum("nk,nl,nij->kilj", v, block.vectors, self.cloud.f, optimize=True)
            values, x = np.linalg.eigh(xi.reshape(k * p, k * p) + np.kron(np.eye(k), shift))
            share = np.sum(x.reshape(k, p, k * p)[block.teacher] ** 2, axis=(0, 1))
            if np.any(values[share > _CARRIES] < edge - 1e-9 * abs(edge)):
                return True
        return False


def _lowest_with_teacher(xi: Array, teacher: NDArray[np.bool_]) -> _Lowest | None:
    """The lowest eigenvalue of Xi whose vectors lie on teacher directions to some part, all its vectors (k, p), its order."""
    values, vectors = np.linalg.eigh(xi)
    for start, value in enumerate(values):
        alike = np.flatnonzero(np.abs(values - value) <= _CLOSE * abs(value))
        each = [vectors[:, i].reshape(len(teacher), -1) for i in alike]
        if alike[0] == start and max(np.sum(x[teacher] ** 2) for x in each) > _CARRIES:
            return float(value), each, start
    return None


def clustered(rows: Array) -> Array:
    """Rows of equal places joined, degeneracies added, shares averaged."""
    groups: list[list[Array]] = []
    for row in rows:
        if groups and abs(row[0] - groups[-1][-1][0]) <= _CLOSE * (abs(row[0]) + 1e-300):
            groups[-1].append(row)
        else:
            groups.append([row])
    joined = []
    for group in groups:
        table = np.array(group)
        mean = np.average(table, axis=0, weights=table[:, 4])
        mean[4] = table[:, 4].sum()
        joined.append(mean)
    return np.array(joined).reshape(-1, 5)


# --- one alpha ------------------------------------------------------------------------------------------------------


def point_spectrum(model: Network, alpha: float) -> Found:
    """`theory.general.spectrum.spectrum` by clouds of points. Raises ParameterError for p = inf."""
    fit(model)
    if not math.isfinite(bottom(model).value):
        return Found.without_edge("points", UNBOUNDED)
    law, start = support(model), None
    if dimensions(model) > _DIMENSIONS:
        runs = []
        for repeat in range(_SCRAMBLINGS):
            solved, start = _solved(model, sobol_cloud(model, repeat, _LEVEL), law, alpha, start)
            runs.append(solved)
        return scattered(runs)
    rough, start = _solved(model, product_cloud(model, STEPS[0]), law, alpha, start)
    for step in STEPS[1:]:
        fine, start = _solved(model, product_cloud(model, step), law, alpha, start)
        found = _changed(rough, fine)
        if found.steady(_STEADY):
            break
        rough = fine
    return found


def _solved(model: Network, cloud: Cloud, law: Support, alpha: float, start: Any) -> tuple[Solved, Any]:
    """The solution on a cloud, started from that of another one, and the start of the next."""
    problem = CloudProblem(model, cloud, law, start)
    return problem.solved(alpha), problem.start


def scattered(runs: Sequence[Solved]) -> Found:
    """Means over independent clouds, errors from their spread; outliers found in every cloud only, and an unresolved kind where
    clouds disagree."""
    kinds, many = {run.kind for run in runs}, {len(run.rows) for run in runs}
    shared = min(many)
    edge, edge_error = _mean_error(np.array([run.edge for run in runs]))
    columns = np.array([run.rows[:shared] for run in runs]).reshape(len(runs), shared, 5)
    mean, error = _mean_error(columns)
    return Found(
        float(edge),
        math.hypot(float(edge_error), max(run.error for run in runs)),
        kinds.pop() if len(kinds) == 1 else "unresolved",
        "points",
        mean[:, 0],
        error[:, 0],
        mean[:, 1],
        error[:, 1],
        mean[:, 2],
        error[:, 2],
        mean[:, 3],
        tuple(round(v) for v in mean[:, 4]),
        unsettled=len(many) > 1,
    )


def _mean_error(values: Array) -> tuple[Array, Array]:
    """Mean over the first axis, and half of half the width of its 95 % interval by Student's t."""
    n = len(values)
    factor = stdtrit(n - 1, 0.975) / 1.959964
    return values.mean(axis=0), factor * values.std(axis=0, ddof=1) / math.sqrt(n)


def _changed(rough: Solved, fine: Solved) -> Found:
    """The finer solution; its errors are the changes from the rough one."""
    shared = min(len(rough.rows), len(fine.rows))
    rows, change = fine.rows[:shared], np.abs(fine.rows[:shared] - rough.rows[:shared])
    return Found(
        fine.edge,
        math.hypot(fine.edge - rough.edge, fine.error),
        fine.kind if fine.kind == rough.kind else "unresolved",
        "points",
        rows[:, 0],
        change[:, 0],
        rows[:, 1],
        change[:, 1],
        rows[:, 2],
        change[:, 2],
        rows[:, 3],
        tuple(int(v) for v in rows[:, 4]),
        unsettled=len(rough.rows) != len(fine.rows),
    )


# --- thresholds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Root:
    """A zero of the largest margin on one cloud: alpha, kind of the threshold, squared overlap just above, and where the
    tangent of that vanishes."""

    alpha: float
    kind: str
    overlap: float
    zero: float


def point_threshold(model: Network) -> Threshold:
    """`theory.general.spectrum.threshold` by clouds of points."""
    fit(model)
    if not math.isfinite(bottom(model).value):
        return Threshold(math.nan, "no edge", math.nan, route="points", reason=UNBOUNDED)
    law, product = support(model), dimensions(model) <= _DIMENSIONS
    coarse = CloudProblem(
        model,
        product_cloud(model, COARSE_STEP) if product else sobol_cloud(model, _SCRAMBLINGS, COARSE_LEVEL),
        law,
    )
    law.near = _ROUGHLY
    brackets = _scanned(coarse)
    law.near = _NEARLY
    rising = next((b for b in brackets if b[2] > 0), None)
    if rising is None:
        return _absent(coarse.stays())
    falling = next((b for b in brackets if b[2] < 0 and b[0] >= rising[0]), None)
    try:
        until = math.inf if falling is None else _root(coarse, falling).alpha
        first = _root(coarse, rising)
        guess = first.alpha, coarse.start
        refined = _refined if product else _averaged
        return refined(model, law, rising, guess, until)
    except NotConverged as failure:
        return Threshold(math.nan, "unresolved", math.nan, route="points", reason=str(failure))


def _absent(stays: bool) -> Threshold:
    low, high = _ALPHAS[0], _ALPHAS[-1]
    if stays:
        reason = f"outliers exist as alpha -> inf, none of them for alpha up to {high:g}"
        return Threshold(math.nan, "unresolved", math.nan, route="points", reason=reason)
    reason = f"no outlier at any of {len(_ALPHAS)} alphas from {low:g} to {high:g}, nor as alpha -> inf"
    return Threshold(math.nan, "none", math.nan, route="points", reason=reason)


def _scanned(problem: CloudProblem) -> list[Bracket]:
    """Brackets in alpha of every change of sign of the margin, +1 where it rises. Alphas at which the cloud has no edge (a few
    points carry it all, as at small alpha) are passed over."""
    brackets, before, left = [], math.nan, -1.0
    for alpha in _ALPHAS:
        try:
            right = problem.margin(alpha)[0]
        except NotConverged:
            continue
        if math.isfinite(before) and left * right < 0:
            brackets.append((before, float(alpha), 1 if right > 0 else -1))
        before, left = float(alpha), right
    return brackets


def _root(problem: CloudProblem, bracket: Bracket, start: float | None = None) -> Root:
    """The zero of the margin in a bracket: by secants from `start` where one is known, else between its ends."""

    from scipy.optimize import brentq

    def margin(log_alpha: float) -> float:
        return problem.margin(math.exp(log_alpha))[0]

    low, high = math.log(bracket[0]), math.log(bracket[1])
    v = None if start is None else _secant(margin, math.log(start), 1e-3 * (high - low))
    if v is None or not low - 1 < v < high + 1:
        low, high = low - 0.1, high + 0.1  # the bracket was another cloud's
        if margin(low) * margin(high) > 0:
            raise NotConverged("threshold not found: clouds of points disagree", math.exp(low))
        v = float(brentq(margin, low, high, xtol=1e-13, rtol=1e-13))
    _, edge, overlap = problem.margin(math.exp(v))
    kind = {"smooth": "discontinuous", "sharp": "continuous"}.get(edge.kind, "unresolved")
    if kind != "discontinuous":
        return Root(math.exp(v), kind, 0.0, math.exp(v))
    here = problem.start
    near = [overlap, *(problem.overlap(math.exp(v + step * _AHEAD)) for step in (1, 2))]
    problem.start = here
    slope = float(np.dot([-1.5, 2.0, -0.5], near)) / (_AHEAD * math.exp(v))
    return Root(math.exp(v), kind, overlap, zero_of(math.exp(v), overlap, slope))


def _secant(function: Callable[[float], float], x: float, step: float) -> float | None:
    """Root by secants from x and x + step; None where they do not settle."""
    low, left = x, function(x)
    x, right = low + step, function(low + step)
    for _ in range(_SECANTS):
        if left == right:
            return x if right == 0 else None
        move = -right * (x - low) / (right - left)
        low, left, x = x, right, x + float(np.clip(move, -0.5, 0.5))
        if abs(move) < 1e-13:
            return x
        right = function(x)
    return x if abs(move) < 1e-10 else None


def _refined(model: Network, law: Support, bracket: Bracket, first: Guess, until: float) -> Threshold:
    """The threshold on finer and finer product rules; the last change is the error."""
    rough, start = None, first[1]
    for step in STEPS:
        problem = CloudProblem(model, product_cloud(model, step), law, start)
        fine = _root(problem, bracket, first[0] if rough is None else rough.alpha)
        start = problem.start
        if rough is not None:
            kind = fine.kind if fine.kind == rough.kind else "unresolved"
            found = Threshold(
                fine.alpha,
                kind,
                fine.overlap,
                abs(fine.alpha - rough.alpha),
                fine.zero,
                "points",
                jump_error=abs(fine.overlap - rough.overlap),
                alpha_0_error=abs(fine.zero - rough.zero),
                until=until,
            )
            if found.steady(_STEADY_THRESHOLD):
                break
        rough = fine
    return found


def _averaged(model: Network, law: Support, bracket: Bracket, first: Guess, until: float) -> Threshold:
    """The mean over scramblings; the error holds their spread and what finite clouds may be off by on the whole.

    Few points near the end of the support make roots err to one side, at least like 1/points: a quarter of the change from
    clouds of a quarter of the points bounds what is left.
    """
    rough, guess = _roots(model, law, bracket, first, _LEVEL - 2, range(_SCRAMBLINGS, _SCRAMBLINGS + 4))
    roots, _ = _roots(model, law, bracket, guess, _LEVEL, range(_SCRAMBLINGS))
    kinds = {root.kind for root in roots}
    fine, coarse = (np.array([(r.alpha, r.overlap, r.zero) for r in found]) for found in (roots, rough))
    mean, error = _mean_error(fine)
    error = np.hypot(error, (mean - coarse.mean(axis=0)) / 4)
    kind = kinds.pop() if len(kinds) == 1 else "unresolved"
    reason = "" if kind != "unresolved" else "clouds of points disagree on the kind of the edge"
    alpha, overlap, zero = zip(mean.tolist(), error.tolist(), strict=True)
    return Threshold(
        alpha[0],
        kind,
        overlap[0],
        alpha[1],
        zero[0],
        "points",
        reason,
        jump_error=overlap[1],
        alpha_0_error=zero[1],
        until=until,
    )


def _roots(
    model: Network, law: Support, bracket: Bracket, guess: Guess, level: int, repeats: range
) -> tuple[list[Root], Guess]:
    """Roots on several clouds, each the guess of the next."""
    roots = []
    for repeat in repeats:
        problem = CloudProblem(model, sobol_cloud(model, repeat, level), law, guess[1])
        roots.append(_root(problem, bracket, guess[0]))
        guess = roots[-1].alpha, problem.start
    return roots, guess
