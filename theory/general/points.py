"""Networks whose resolvent is a p x p matrix: the matrix Dyson equation by cubature, at one alpha and along alpha.

In at most three dimensions, (lam, teacher), averages are product rules, refined until nothing moves; in more, Sobol points,
whose spread over scramblings is the error, widened by Student's t so that two of them cover 95 %. Edges of rules are made
those of the law by its support (`theory.general.support`).

The threshold is the first alpha at which the largest margin, edge less the lowest eigenvalue of Xi there, rises through 0: it
is bracketed on a coarse rule by a scan of alpha, then found on each fine one, every solution being the start of the next. What
the ends of the scan mean is known exactly. As alpha -> 0 the edge tends to the infimum of F and Xi to 0, or the edge is the
atom: no model has an outlier there, so none has one at every alpha. As alpha -> inf edge and outliers are those of the mean
Hessian, alpha E[F] and alpha E[v v^T (x) F]: their order says whether outliers stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.answers import (
    Edge,
    Found,
    Outlier,
    Threshold,
    changed,
    changed_threshold,
    mean_error,
    scattered,
    without_edge,
    zero_of,
)
from theory.checks import NotConverged
from theory.general.correlated import PopulationSpectrum
from theory.general.cubature import (
    Cubature,
    dimensions,
    invariant_span,
    product_rule,
    require_finite_width,
    sobol_rule,
    symmetry_classes,
)
from theory.general.dyson import Dyson, DysonEdge, State
from theory.general.extremes import bottom, support
from theory.general.nodes import UNBOUNDED
from theory.general.spikes import SpikeBlock, outlier_of, overlap_at
from theory.general.support import Support, edge_of
from theory.model.network import Network

Array = NDArray[Any]
Bracket = tuple[float, float, int]  # two alphas and whether the margin rises between them, +1, or falls, -1
_Lowest = tuple[float, list[Array], int]
Guess = tuple[float, tuple[Array, float] | None]  # an alpha, and (Q, z) near it

STEPS = 0.2, 0.16, 0.13, 0.1  # of the product rule
COARSE_STEP, COARSE_LEVEL = 0.35, 11  # of the rules that bracket a threshold
_DIMENSIONS = 3  # of the average, up to which the nodes of a product rule are few enough
_LEVEL = 15  # log2 of the points of one scrambling
_SCRAMBLINGS = 8
_STEADY = 1e-11  # relative change of edge and outliers at which product rules are fine enough
_STEADY_THRESHOLD = 1e-9  # the same of a threshold
# where changes of sign of the margin are looked for: steps of a quarter
_ALPHAS = np.geomspace(0.02, 2e4, 61)
_CLOSE = 1e-7  # relative distance within which outliers count as one
_CARRIES = 0.01  # share of an outlier's vector on teacher directions from which it carries the teacher
_SECANTS = 12  # steps, at the most
_NEAR = 1e-6  # relative distance left of the edge of the mean Hessian at which a covariance's pull is taken
_ROUGHLY, _NEARLY = 0.15, 0.03  # distances in Q at which smooth edges are verified: in the scan, at the root
_AHEAD = 1e-3  # steps in log alpha of the tangent: what three points leave is 1e-6


class PointProblem:
    """The equations of a model on one rule at any alpha; each edge, (Q, z) in `start`, is the start of the next.

    model   its covariance and its symmetries; None for a weight without
    """

    def __init__(
        self, model: Network | None, rule: Cubature, law: Support, start: tuple[Array, float] | None = None
    ):
        self.law, self.rule, self.start = law, rule, start
        population, span = (
            (None, None) if model is None else (PopulationSpectrum.of(model.levels()), invariant_span(model))
        )
        self.unit = Dyson(rule.f, rule.probability, population=population, span=span)
        self.spikes = []
        for vectors, block in rule.blocks:
            own = int(np.sum(~block.teacher))
            classes = None if model is None else symmetry_classes(model, len(block.teacher) - own, own)
            self.spikes.append(SpikeBlock(self.unit, vectors, classes))

    def edge(self, alpha: float) -> tuple[Dyson, DysonEdge]:
        """Equation and edge at alpha. Raises NotConverged."""
        dyson = self.unit.scaled(alpha)
        edge = edge_of(dyson, self.law, self.start)
        # The edge moves little from one alpha to the next.
        self.start = None if edge.state is None else (edge.state.q, edge.value)
        return dyson, edge

    def solved(self, dyson: Dyson, edge: DysonEdge) -> Found:
        """The answers of an edge: itself, and the outliers left of it, lowest first. Raises NotConverged."""
        pulled = []
        for (_, block), spike in zip(self.rule.blocks, self.spikes, strict=True):
            if edge.state is None:
                break  # an atom
            found = spike.on(dyson).spikes(edge)
            for value, overlap, x in zip(found.values, found.overlaps, found.directions, strict=True):
                pulled.append(block.outlier(float(value), float(overlap), x))
        bulk = Edge(edge.value, edge.kind, edge.off, "points")
        return Found(bulk, tuple(sorted(pulled, key=astuple)))

    def margin(self, alpha: float) -> tuple[float, DysonEdge, float]:
        """Largest margin of a direction that carries the teacher, the edge, and the overlap that its outlier starts with."""
        dyson, edge = self.edge(alpha)
        if edge.state is None:
            # Nothing lies left of an atom: a margin below 0.
            return -1.0, edge, 0.0
        spike, found = self._carrier(dyson, edge.state, edge.value)
        smooth = edge.kind == "smooth"
        overlap = overlap_at(spike, edge.state, np.array(found[1]), edge.value) if smooth else 0.0
        return edge.value - found[0], edge, overlap

    def _carrier(self, dyson: Dyson, state: State, z: float) -> tuple[SpikeBlock, _Lowest]:
        """The block with the lowest eigenvalue of Xi that carries the teacher, and what is known of that."""
        best: tuple[SpikeBlock, _Lowest] | None = None
        for (_, block), unit in zip(self.rule.blocks, self.spikes, strict=True):
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
        mean = np.einsum("n,nij->ij", self.rule.probability, self.rule.f)
        values, vectors = np.linalg.eigh(mean)
        edge, p, shift = float(values[0]), len(mean), np.zeros_like(mean)
        if self.unit.population is not None:
            s, w = self.unit.population.s, self.unit.population.w
            edge = float(np.min(np.outer(s, values)))
            # Just left of the edge, at which N diverges
            z = edge - _NEAR * abs(edge)
            pull = 1 / ((w * s**2) @ (1 / (s[:, None] * values - z)))
            shift = (vectors * (edge - values + pull)) @ vectors.T
        for vectors, block in self.rule.blocks:
            k = vectors.shape[1]
            v = vectors * self.rule.probability[:, None]
            xi = np.einsum("nk,nl,nij->kilj", v, vectors, self.rule.f, optimize=True)
            values, x = np.linalg.eigh(xi.reshape(k * p, k * p) + np.kron(np.eye(k), shift))
            share = np.sum(x.reshape(k, p, k * p)[block.teacher] ** 2, axis=(0, 1))
            if np.any(values[share > _CARRIES] < edge - 1e-9 * abs(edge)):
                return True
        return False


def _lowest_with_teacher(xi: Array, teacher: NDArray[np.bool_]) -> _Lowest | None:
    """The lowest eigenvalue of Xi whose vectors lie on teacher directions to some part, all its vectors (k, p), its order."""
    values, vectors = np.linalg.eigh(xi)
    for start, value in enumerate(values):
        # Equal outliers of mixed teacher and student parts are one eigenspace: any vector in it counts.
        alike = np.flatnonzero(np.abs(values - value) <= _CLOSE * abs(value))
        each = [vectors[:, i].reshape(len(teacher), -1) for i in alike]
        if alike[0] == start and max(np.sum(x[teacher] ** 2) for x in each) > _CARRIES:
            return float(value), each, start
    return None


def joined(found: Found) -> Found:
    """Outliers of equal places as one, multiplicities added, shares averaged."""
    groups: list[list[Outlier]] = []
    for o in found.pulled:
        if groups and abs(o.value - groups[-1][-1].value) <= _CLOSE * (abs(o.value) + 1e-300):
            groups[-1].append(o)
        else:
            groups.append([o])
    pulled = []
    for group in groups:
        many = [o.multiplicity for o in group]
        rows = [(o.value, o.overlap, o.teacher_share, o.student_share) for o in group]
        value, overlap, teacher, student = np.average(rows, axis=0, weights=many).tolist()
        pulled.append(Outlier(value, overlap, teacher, student, sum(many)))
    return replace(found, pulled=tuple(pulled))


# --- one alpha ------------------------------------------------------------------------------------------------------


def point_spectrum(model: Network, alpha: float) -> Found:
    """`theory.general.spectrum.solve` by cubature. Raises ParameterError for p = inf."""
    require_finite_width(model)
    if not math.isfinite(bottom(model).value):
        return without_edge("points", UNBOUNDED)
    law, start = support(model), None

    def solved(rule: Cubature) -> Found:
        nonlocal start  # the next rule is solved from where this one ends
        problem = PointProblem(model, rule, law, start)
        found = joined(problem.solved(*problem.edge(alpha)))
        start = problem.start
        return found

    if dimensions(model) > _DIMENSIONS:
        return scattered([solved(sobol_rule(model, repeat, _LEVEL)) for repeat in range(_SCRAMBLINGS)])
    rough = solved(product_rule(model, STEPS[0]))
    for step in STEPS[1:]:
        fine = solved(product_rule(model, step))
        found = changed(rough, fine)
        if found.steady(_STEADY):
            break
        rough = fine
    return found


# --- thresholds -----------------------------------------------------------------------------------------------------


def point_threshold(model: Network) -> Threshold:
    """`theory.general.spectrum.threshold` by cubature."""
    require_finite_width(model)
    if not math.isfinite(bottom(model).value):
        return Threshold(math.nan, "no edge", math.nan, route="points", reason=UNBOUNDED)
    law, product = support(model), dimensions(model) <= _DIMENSIONS
    coarse = PointProblem(
        model,
        product_rule(model, COARSE_STEP) if product else sobol_rule(model, _SCRAMBLINGS, COARSE_LEVEL),
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


def _scanned(problem: PointProblem) -> list[Bracket]:
    """Brackets in alpha of every change of sign of the margin, +1 where it rises. Alphas at which the rule has no edge (a few
    points carry it all, as at small alpha) are passed over."""
    # As alpha -> 0 no model has an outlier (see the top).
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


def _root(problem: PointProblem, bracket: Bracket, start: float | None = None) -> Threshold:
    """The zero of the largest margin in a bracket, on one rule: by secants from `start` if known, else between the ends."""

    from scipy.optimize import brentq

    def margin(log_alpha: float) -> float:
        return problem.margin(math.exp(log_alpha))[0]

    low, high = math.log(bracket[0]), math.log(bracket[1])
    v = None if start is None else _secant(margin, math.log(start), 1e-3 * (high - low))
    if v is None or not low - 1 < v < high + 1:
        low, high = low - 0.1, high + 0.1  # the bracket was another rule's
        if margin(low) * margin(high) > 0:
            raise NotConverged("threshold not found: clouds of points disagree", math.exp(low))
        v = float(brentq(margin, low, high, xtol=1e-13, rtol=1e-13))
    _, edge, overlap = problem.margin(math.exp(v))
    kind = {"smooth": "discontinuous", "sharp": "continuous"}.get(edge.kind, "unresolved")
    if kind != "discontinuous":
        return Threshold(math.exp(v), kind, 0.0, alpha_0=math.exp(v), route="points")
    here = problem.start
    near = [overlap, *(problem.overlap(math.exp(v + step * _AHEAD)) for step in (1, 2))]
    # The edges ahead are no start for another rule's root.
    problem.start = here
    # One-sided, of second order: the branch begins here.
    slope = float(np.dot([-1.5, 2.0, -0.5], near)) / (_AHEAD * math.exp(v))
    zero = zero_of(math.exp(v), overlap, slope)
    return Threshold(math.exp(v), kind, overlap, alpha_0=zero, route="points")


def _secant(function: Callable[[float], float], x: float, step: float) -> float | None:
    """Root by secants from x and x + step; None where they do not settle."""
    low, left = x, function(x)
    x, right = low + step, function(low + step)
    for _ in range(_SECANTS):
        if left == right:
            return x if right == 0 else None
        # in log alpha
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
        problem = PointProblem(model, product_rule(model, step), law, start)
        fine = _root(problem, bracket, first[0] if rough is None else rough.alpha)
        start = problem.start
        if rough is not None:
            found = replace(changed_threshold(rough, fine), until=until)
            if found.steady(_STEADY_THRESHOLD):
                break
        rough = fine
    return found


def _averaged(model: Network, law: Support, bracket: Bracket, first: Guess, until: float) -> Threshold:
    """The mean over scramblings; the error holds their spread and what finite numbers of points may be off by on the whole.

    Few points near the end of the support make roots err to one side, at least like 1/points: a quarter of the change from
    rules of a quarter of the points bounds what is left.
    """
    rough, guess = _roots(model, law, bracket, first, _LEVEL - 2, range(_SCRAMBLINGS, _SCRAMBLINGS + 4))
    roots, _ = _roots(model, law, bracket, guess, _LEVEL, range(_SCRAMBLINGS))
    kinds = {root.kind for root in roots}
    fine, coarse = (np.array([(r.alpha, r.jump, r.alpha_0) for r in found]) for found in (roots, rough))
    mean, error = mean_error(fine)
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
) -> tuple[list[Threshold], Guess]:
    """Roots on several rules, each the guess of the next."""
    roots = []
    for repeat in repeats:
        problem = PointProblem(model, sobol_rule(model, repeat, level), law, guess[1])
        roots.append(_root(problem, bracket, guess[0]))
        guess = roots[-1].alpha, problem.start
    return roots, guess
