"""Networks whose resolvent is a p x p matrix: the matrix Dyson equation on clouds of weighted points, and what it proves.

Two kinds of clouds. In at most three dimensions, (lam, teacher), a product trapezoid: its step is refined, the last change
is the error. Elsewhere randomised Sobol points: the spread over scramblings is the error, widened by Student's t so that
two of them cover 95 %.

A stationary point Q of the Dyson equation on a cloud is the edge of the law only where Q + F > 0 for every weight, not
only for those of the cloud: this is looked at by minimising over all (lam, y). Where it fails the edge is smooth, at
Q = q_min I, provided G is a multiple of I; else it is "unresolved".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import qmc
from scipy.stats import t as student_t

from theory.checks import NotConverged, ParameterError
from theory.general.dyson import Dyson, DysonEdge
from theory.general.laws import outputs_of
from theory.general.lowest import Lowest, lowest
from theory.general.network import Network
from theory.general.results import ModelThreshold, Spectrum
from theory.general.spikes import spikes
from theory.quadrature import chi_square_law

Array = NDArray[Any]

STEPS = 0.2, 0.16, 0.13  # of the product rule
_RADIUS = 0.1  # of its sinh map in the students, see `theory.general.laws`
_WIDE = 1.0  # and in the teacher
_REACH = 8.5  # of its nodes: what is left out is 2e-17
_DIMENSIONS = 3
_LEVEL = 13  # log2 of the points of one scrambling
_SCRAMBLINGS = 8
_STEADY = 1e-11
_POLYNOMIAL = "quadratic", "he2"
_ALPHAS = np.geomspace(0.05, 500, 25)  # where a change of sign of the margin is looked for
_CLOSE = 1e-7  # relative distance within which outliers count as one


@dataclass(frozen=True)
class CloudBlock:
    """Spike vectors (n, k) that mix, which of them are teacher directions (k,), how often the block occurs."""

    vectors: Array
    teacher: NDArray[np.bool_]
    students: Array
    degeneracy: int | float = 1


@dataclass(frozen=True)
class Cloud:
    """Weights F (n, p, p) with probabilities (n,) and their blocks of spikes."""

    f: Array
    probability: Array
    blocks: tuple[CloudBlock, ...]


@dataclass(frozen=True)
class Solved:
    """Edge with its kind, and outliers as rows (value, overlap, teacher share, student share, degeneracy), of one cloud."""

    edge: float
    kind: str
    rows: Array
    margin: float


def point_spectrum(model: Network, alpha: float) -> Spectrum:
    """`theory.general.spectrum.spectrum` by clouds of points. Raises ParameterError for p = inf and with a covariance."""
    bottom = _bottom(model)
    if not math.isfinite(bottom.value):
        return Spectrum.without_edge("points", "no left edge: the weight is unbounded below")
    if dimensions(model) <= _DIMENSIONS:
        return _by_product(model, alpha)
    runs = [_solved(model, cloud, alpha) for cloud in _sobol_clouds(model)]
    return scattered(runs)


def point_threshold(model: Network) -> ModelThreshold:
    """`theory.general.spectrum.threshold` by clouds of points: the first root in alpha of the largest margin of each."""
    if not math.isfinite(_bottom(model).value):
        reason = "no left edge: the weight is unbounded below"
        return ModelThreshold(math.nan, "no edge", math.nan, route="points", reason=reason)
    if dimensions(model) <= _DIMENSIONS:
        rough, fine = (_root(model, product_cloud(model, step)) for step in STEPS[:2])
        if rough is None or fine is None:
            return _absent()
        error = abs(fine[0] - rough[0])
        return ModelThreshold(fine[0], fine[1], fine[2], error, abs(fine[2] - rough[2]), route="points")
    roots = [_root(model, cloud) for cloud in _sobol_clouds(model)]
    found = [r for r in roots if r is not None]
    if len(found) < len(roots):
        return _absent() if not found else ModelThreshold(math.nan, "unresolved", math.nan, route="points")
    kinds = {r[1] for r in found}
    alpha, alpha_error = _mean_error(np.array([r[0] for r in found]))
    overlap, overlap_error = _mean_error(np.array([r[2] for r in found]))
    kind = kinds.pop() if len(kinds) == 1 else "unresolved"
    return ModelThreshold(
        float(alpha), kind, float(overlap), float(alpha_error), float(overlap_error), route="points"
    )


def _absent() -> ModelThreshold:
    low, high = _ALPHAS[0], _ALPHAS[-1]
    reason = f"no outlier enters or leaves the bulk for alpha from {low:g} to {high:g}"
    return ModelThreshold(math.nan, "none", math.nan, route="points", reason=reason)


def dimensions(model: Network) -> int:
    """Dimensions of the average: student preactivations and what the teacher shows."""
    free = model.overlap == 0.0 and model.gram is None
    teacher = 1 if free and model.teacher.name in _POLYNOMIAL else model.p_star
    return int(model.p) + teacher + (1 if model.output_noise else 0)


def scattered(runs: Sequence[Solved]) -> Spectrum:
    """Means over independent clouds, errors from their spread; outliers found in every cloud only, and an unresolved kind where
    clouds disagree."""
    kinds, many = {run.kind for run in runs}, {len(run.rows) for run in runs}
    shared = min(many)
    edge, edge_error = _mean_error(np.array([run.edge for run in runs]))
    columns = np.array([run.rows[:shared] for run in runs]).reshape(len(runs), shared, 5)
    mean, error = _mean_error(columns)
    return Spectrum(
        float(edge),
        float(edge_error),
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
    factor = student_t.ppf(0.975, n - 1) / 1.959964
    return values.mean(axis=0), factor * values.std(axis=0, ddof=1) / math.sqrt(n)


def _by_product(model: Network, alpha: float) -> Spectrum:
    rough = _solved(model, product_cloud(model, STEPS[0]), alpha)
    for step in STEPS[1:]:
        fine = _solved(model, product_cloud(model, step), alpha)
        shared = min(len(rough.rows), len(fine.rows))
        change = np.abs(fine.rows[:shared] - rough.rows[:shared])
        rows = fine.rows[:shared]
        found = Spectrum(
            fine.edge,
            abs(fine.edge - rough.edge),
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
        if found.steady(_STEADY):
            break
        rough = fine
    return found


# --- clouds -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def product_cloud(model: Network, h: float) -> Cloud:
    """Product trapezoid of step h over student directions and teacher; nodes of least probability are left out."""
    _fit(model)
    p = int(model.p)
    line, weight = _axis(0.0, _WIDE, h)
    axes = [_axis(_centre(model), _RADIUS, h)] * p
    through_y = dimensions(model) < p + model.p_star + (1 if model.output_noise else 0)
    if through_y:
        chi, probability = chi_square_law(model.p_star)
        axes.append((chi, probability))
    else:
        axes += [(line, weight)] * model.p_star
    if model.output_noise:
        axes.append((line, weight))
    grids = np.meshgrid(*(a for a, _ in axes), indexing="ij")
    probability = np.ones(1)
    for _, w in axes:
        probability = np.multiply.outer(probability, w)
    probability = probability.ravel()
    keep = probability > 1e-18 * probability.max()
    v = np.stack([g.ravel()[keep] for g in grids], axis=1)
    probability = probability[keep] / probability[keep].sum()
    xi = v[:, -1] if model.output_noise else None
    if through_y:
        clean = 1 / (1 + model.noise)
        y = v[:, p] / clean + model.teacher.value(np.zeros(1), np)[0]
        y = y if xi is None else y + math.sqrt(model.output_noise) * xi
        own, square = v[:, :p], clean * v[:, p] + 1 - clean
        lam = own @ model.mixing()[:, model.p_star :].T
        blocks = (
            CloudBlock(np.sqrt(square)[:, None], np.ones(1, bool), np.zeros((1, 1)), model.p_star),
            CloudBlock(own, np.zeros(p, bool), np.eye(p)),
        )
        return Cloud(model.weights(lam, y), probability, blocks)
    return _cloud(model, v[:, :p], v[:, p : p + model.p_star], None, xi, probability)


def _axis(centre: float, radius: float, h: float) -> tuple[Array, Array]:
    """Nodes and probabilities of N(0, 1) by x = centre + radius sinh v."""
    count = math.ceil(math.asinh((_REACH + abs(centre)) / radius) / h)
    v = h * np.arange(-count, count + 1)
    x = centre + radius * np.sinh(v)
    weight = np.exp(-(x**2) / 2) * np.cosh(v)
    return x, weight / weight.sum()


def _centre(model: Network) -> float:
    """The preactivation of the student at which the weights are lowest, 0 where it does not matter or is far out."""
    found = _bottom(model)
    values, vectors = np.linalg.eigh(model.weights(found.x[None, :], np.array([found.y]))[0])
    place = float(found.x[np.argmax(np.abs(vectors[:, 0]))])
    moved = found.x - np.where(found.x == place, place, 0.0)
    (lower,) = np.linalg.eigvalsh(model.weights(moved[None, :], np.array([found.y])))[:, 0]
    return place if abs(place) < 4 and lower > values[0] + 1e-6 * abs(values[0]) else 0.0


def _cloud(
    model: Network, own: Array, u: Array, zeta: Array | None, xi: Array | None, probability: Array
) -> Cloud:
    """The cloud of student directions own (n, p) and teacher preactivations u (n, p_star).

    Without zeta and with noise, u stands for u' = (u + noise)/sqrt(1 + Delta) and the parts of u that u' leaves open are
    added as pairs of points. Free equal teachers give one block of their mean and p_star - 1 of a difference.
    """
    if zeta is None and model.noise:
        hidden = math.sqrt(model.noise / (1 + model.noise))
        clean = math.sqrt(1 / (1 + model.noise))
        signs = (
            np.array(np.meshgrid(*[[-1.0, 1.0]] * model.p_star, indexing="ij")).reshape(model.p_star, -1).T
        )
        n, many = len(u), len(signs)
        seen = np.repeat(u, many, axis=0) / clean  # the argument of the teacher
        u = clean * np.repeat(u, many, axis=0) + hidden * np.tile(signs, (n, 1))
        own, probability = np.repeat(own, many, axis=0), np.repeat(probability, many) / many
        xi = None if xi is None else np.repeat(xi, many)
        y = model.outputs(seen, None, xi)
    else:
        y = model.outputs(u, zeta, xi)
    lam = np.concatenate([u, own], axis=1) @ model.mixing().T
    f = model.weights(lam, y)
    p, p_star = own.shape[1], u.shape[1]
    mixing = model.mixing()
    if p_star == 1 or model.overlap != 0.0:
        blocks: tuple[CloudBlock, ...] = (
            CloudBlock(
                np.concatenate([u, own], axis=1),
                np.arange(p_star + p) < p_star,
                _projector(mixing),
            ),
        )
    else:
        mean = u.sum(axis=1, keepdims=True) / math.sqrt(p_star)
        first = np.concatenate([np.zeros((p, 1)), mixing[:, p_star:]], axis=1)
        blocks = (
            CloudBlock(np.concatenate([mean, own], axis=1), np.arange(1 + p) < 1, _projector(first)),
            CloudBlock((u[:, :1] - u[:, 1:2]) / math.sqrt(2), np.ones(1, bool), np.zeros((1, 1)), p_star - 1),
        )
    return Cloud(f, probability, blocks)


def _projector(rows: Array) -> Array:
    """Projector on the span of rows (r, k)."""
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    kept = vectors[values > 1e-9 * max(values.max(), 1e-300)]
    return kept.T @ kept


def _sobol_clouds(model: Network) -> list[Cloud]:
    _fit(model)
    return [_sobol_cloud(model, repeat) for repeat in range(_SCRAMBLINGS)]


@lru_cache(maxsize=2 * _SCRAMBLINGS)
def _sobol_cloud(model: Network, repeat: int) -> Cloud:
    p, p_star = int(model.p), model.p_star
    sizes = [p, p_star, p_star if model.noise else 0, 1 if model.output_noise else 0]
    if sum(sizes) > qmc.Sobol.MAXDIM:
        raise ParameterError(
            f"p and p_star must add up to less than {qmc.Sobol.MAXDIM} here, got {sum(sizes)}"
        )
    uniform = qmc.Sobol(sum(sizes), rng=np.random.default_rng([0, repeat])).random_base2(_LEVEL)
    normal = ndtri(np.clip(uniform, 2.0**-40, 1 - 2.0**-40))
    own, u, zeta, xi = np.split(normal, np.cumsum(sizes)[:-1], axis=1)
    return _cloud(
        model,
        own,
        u,
        zeta if model.noise else None,
        xi[:, 0] if model.output_noise else None,
        np.full(len(own), 1 / len(own)),
    )


def _fit(model: Network) -> None:
    if math.isinf(model.p):
        raise ParameterError("p must be finite for this teacher or with output_noise, got inf")
    if model.covariance is not None:
        raise ParameterError(
            "covariance must be None where students mix (p > 1 with activations that are not quadratic), got one"
        )


# --- the equation on one cloud --------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _bottom(model: Network) -> Lowest:
    _fit(model)
    return _lowest_of(model, np.zeros((int(model.p), int(model.p))))


def _lowest_of(model: Network, shift: Array) -> Lowest:
    """Infimum of the smallest eigenvalue of F + shift over all (lam, y)."""

    def smallest(lam: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            f = model.weights(lam, y) + shift
        bad = ~np.all(np.isfinite(f), axis=(1, 2))
        f[bad] = 0.0
        values = np.linalg.eigvalsh(f)[:, 0]
        values[bad] = np.inf
        return values

    def outputs(lam: Array) -> Array:
        return np.mean(model.student.value(lam, np), axis=-1)

    return lowest(smallest, int(model.p), outputs_of(model.teacher, model.output_noise > 0), outputs)


def _isotropic(model: Network) -> bool:
    return model.p == 1 or (model.student.parity == "even" and model.overlap == 0.0 and model.gram is None)


def edge_of(
    dyson: Dyson, q_min: float, isotropic: bool, admissible: Callable[[Array], bool]
) -> tuple[DysonEdge, str]:
    """Edge and kind: a stationary point of the cloud if it is one of the law, else the end of the walk at q_min I."""
    state = dyson.state(q_min * np.eye(dyson.p)) if isotropic and q_min > 0 else None
    if state is not None and state.top()[0] <= 1:
        value = float(np.trace(state.z())) / dyson.p
        return DysonEdge(value, state.q, np.eye(dyson.p), math.nan, 0.0, 0), "smooth"
    try:
        edge: DysonEdge | None = dyson.edge()
    except NotConverged:
        edge = None
    if edge is not None and float(np.linalg.eigvalsh(edge.q)[0]) > q_min and admissible(edge.q):
        return edge, "sharp"
    if q_min == 0 and edge is None:
        return DysonEdge(0.0, np.zeros((dyson.p, dyson.p)), np.eye(dyson.p), math.nan, 0.0, 0), "atom"
    if edge is None:
        raise NotConverged("left edge not found", -q_min)
    return edge, "unresolved"


def _solved(model: Network, cloud: Cloud, alpha: float) -> Solved:
    dyson = Dyson(cloud.f, alpha * cloud.probability)
    q_min = max(0.0, -_bottom(model).value)

    def admissible(q: Array) -> bool:
        return model.p == 1 or _lowest_of(model, q).value > 0

    edge, kind = edge_of(dyson, q_min, _isotropic(model), admissible)
    if kind == "atom":
        return Solved(0.0, kind, np.zeros((0, 5)), -1.0)
    return _with_outliers(dyson, edge, kind, cloud.blocks)


def _with_outliers(dyson: Dyson, edge: DysonEdge, kind: str, blocks: Sequence[CloudBlock]) -> Solved:
    rows, margins = [], [-math.inf]
    for block in blocks:
        found = spikes(dyson, edge, block.vectors)
        if np.any(block.teacher):
            margins.append(float(found.margins[0]))
        for value, overlap, x in zip(found.values, found.overlaps, found.directions, strict=True):
            rows.append(
                [
                    value,
                    overlap,
                    float(np.sum(x[block.teacher] ** 2)),
                    float(np.sum((block.students @ x) ** 2)),
                    block.degeneracy,
                ]
            )
    table = np.array(sorted(rows)).reshape(-1, 5)
    return Solved(float(edge.value), kind, _clustered(table), max(margins))


def _clustered(rows: Array) -> Array:
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


def _root(model: Network, cloud: Cloud) -> tuple[float, str, float] | None:
    """First alpha at which the largest margin of a teacher block changes sign: alpha, kind, overlap just above.

    Values of alpha at which the cloud has no edge (a few points carry it all, as at small alpha) are passed over.
    """

    def margin(log_alpha: float) -> float:
        return _solved(model, cloud, math.exp(log_alpha)).margin

    below, left = math.nan, math.nan
    for alpha in _ALPHAS:
        above = math.log(alpha)
        try:
            right = margin(above)
        except NotConverged:
            continue
        if left < 0 <= right:
            break
        below, left = above, right
    else:
        return None
    root = math.exp(brentq(margin, below, above, xtol=1e-13, rtol=1e-13))
    at = _solved(model, cloud, root * (1 + 1e-7))
    if at.kind == "smooth":
        teacher = [row for row in at.rows if row[2] > 0]
        return root, "discontinuous", float(teacher[0][1]) if teacher else math.nan
    return root, "continuous" if at.kind == "sharp" else "unresolved", 0.0
