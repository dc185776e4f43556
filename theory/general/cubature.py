"""Cubature rules of a network's preactivations: product rules in few dimensions, scrambled Sobol points in many.

The product trapezoid has its step refined, the last change is the error; Sobol points their spread over scramblings.

Symmetries of a network are permutations of its students and, for even ones, signs. The points of a rule have the symmetry of
their law on average only. That splits equal outliers; and the largest of several margins split by noise is too large, so that a
threshold would come out too low. Hence Xi is averaged over the group, entry by entry over the symmetry classes of the indices
(spike, student, spike, student): this is Xi of the rule with all its images under the group. The Dyson equation of all images
has a Q that the group leaves as it is, of one or two free numbers (`invariant_span`). Without that Q would be the maximum over
its p (p + 1)/2 numbers, each of which adds its noise to the edge, and roots would be too large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.checks import ParameterError
from theory.general.extremes import bottom_place, equal_students
from theory.general.isotropic import Block
from theory.general.quadrature import SOBOL_DIMENSIONS, chi_square_law, normals, product, sobol
from theory.general.state import symmetric
from theory.model.network import Network

Array = NDArray[Any]

_RADIUS = 0.1  # of the sinh map in the students, see `theory.general.laws`
_WIDE = 1.0  # and in the teacher
_REACH = 8.5  # of the nodes: what is left out is 2e-17
_NEWTONS = 5  # that invert a map of the students to rounding, from a table of 4,096 rows
_POLYNOMIAL = "quadratic", "he2"
_LINE_NODES, _LINE_STEP = 8, 0.9  # of the trapezoid in one teacher's u: within 7.2 standard deviations


@dataclass(frozen=True)
class Cubature:
    """Weights F (n, p, p) with probabilities (n,), and of each block the spike vectors (n, k) that mix."""

    f: Array
    probability: Array
    blocks: tuple[tuple[Array, Block], ...]


def dimensions(model: Network) -> int:
    """Dimensions of the average: student preactivations and what the teacher shows."""
    free = model.overlap == 0.0 and model.gram is None
    polynomial = model.target is None and model.teacher.name in _POLYNOMIAL
    teacher = 1 if free and polynomial else model.p_star
    return int(model.p) + teacher + (1 if model.output_noise else 0)


@lru_cache(maxsize=4)
def product_rule(model: Network, h: float) -> Cubature:
    """Product trapezoid of step h over student directions and teacher; nodes of least probability are left out."""
    require_finite_width(model)
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
    v, probability = product(axes)
    keep = probability > 1e-18 * probability.max()
    v, probability = v[keep], probability[keep] / probability[keep].sum()
    xi = v[:, -1] if model.output_noise else None
    if through_y:
        clean = 1 / (1 + model.noise)
        y = v[:, p] / clean + model.teacher.value(np.zeros(1), np)[0]
        y = y if xi is None else y + math.sqrt(model.output_noise) * xi
        # E[u^2 | y'] = (y' + Delta) / (1 + Delta), of each u_l: all that Xi asks of u
        own, square = v[:, :p], clean * v[:, p] + 1 - clean
        lam = own @ model.mixing()[:, model.p_star :].T
        blocks = (
            (np.sqrt(square)[:, None], Block(np.ones(1, bool), np.zeros((1, 1)), model.p_star)),
            (own, Block(np.zeros(p, bool), np.eye(p))),
        )
        return Cubature(model.weights_at(lam, y), probability, blocks)
    return _rule(model, v[:, :p], v[:, p : p + model.p_star], None, xi, probability)


def _axis(centre: float, radius: float, h: float) -> tuple[Array, Array]:
    """Nodes and probabilities of N(0, 1), even steps h in v: x = radius sinh v, or where the weights are lowest away from 0

        v = [asinh((x - centre) / radius) + asinh((x + centre) / radius)] / 2,

    fine at centre and -centre: by symmetry most weights that are lowest at one are so at the other."""
    if centre == 0:
        count = math.ceil(math.asinh(_REACH / radius) / h)
        v = h * np.arange(-count, count + 1)
        x, stretch = radius * np.sinh(v), np.cosh(v)
    else:
        top = _REACH + abs(centre)
        rows = np.linspace(-top, top, 4096)
        count = math.ceil(_both(top, centre, radius)[0] / h)
        v = h * np.arange(-count, count + 1)
        x = np.interp(v, _both(rows, centre, radius)[0], rows)
        for _ in range(_NEWTONS):
            value, slope = _both(x, centre, radius)
            x = x - (value - v) / slope
        # dx/dv
        stretch = 1 / _both(x, centre, radius)[1]
    weight = np.exp(-(x**2) / 2) * stretch
    return x, weight / weight.sum()


def _both(x: Any, centre: float, radius: float) -> tuple[Any, Any]:
    """v of `_axis` at x, and its slope."""
    low, high = (x + centre) / radius, (x - centre) / radius
    slope = (1 / np.sqrt(1 + low**2) + 1 / np.sqrt(1 + high**2)) / radius
    return (np.arcsinh(low) + np.arcsinh(high)) / 2, slope / 2


def _centre(model: Network) -> float:
    """The preactivation of the student at which the weights are lowest, 0 where it does not matter or is far out."""
    lam, y = bottom_place(model)
    values, vectors = np.linalg.eigh(model.weights_at(lam[None, :], np.array([y]))[0])
    # The student that the lowest eigenvector points to; its place matters if the weight rises where it is 0.
    place = float(lam[np.argmax(np.abs(vectors[:, 0]))])
    moved = lam - np.where(lam == place, place, 0.0)
    (lower,) = np.linalg.eigvalsh(model.weights_at(moved[None, :], np.array([y])))[:, 0]
    return place if abs(place) < 4 and lower > values[0] + 1e-6 * abs(values[0]) else 0.0


def _rule(
    model: Network, own: Array, u: Array, zeta: Array | None, xi: Array | None, probability: Array
) -> Cubature:
    """The rule of student directions own (n, p) and teacher preactivations u (n, p_star).

    Without zeta and with noise, u stands for u' = (u + noise)/sqrt(1 + Delta) and the parts of u that u' leaves open are
    added as pairs of points. Free equal teachers give one block of their mean and p_star - 1 of a difference; a target need not
    treat them alike.
    """
    if zeta is None and model.noise:
        hidden = math.sqrt(model.noise / (1 + model.noise))
        clean = math.sqrt(1 / (1 + model.noise))
        # Two points +-1 have the mean and the variance of the part that u' leaves open, and Xi is of second order in u.
        signs = (
            np.array(np.meshgrid(*[[-1.0, 1.0]] * model.p_star, indexing="ij")).reshape(model.p_star, -1).T
        )
        n, many = len(u), len(signs)
        seen = np.repeat(u, many, axis=0) / clean  # the argument of the teacher
        u = clean * np.repeat(u, many, axis=0) + hidden * np.tile(signs, (n, 1))
        own, probability = np.repeat(own, many, axis=0), np.repeat(probability, many) / many
        # The output depends on u' alone.
        xi = None if xi is None else np.repeat(xi, many)
        y = model.outputs(seen, None, xi)
    else:
        y = model.outputs(u, zeta, xi)
    lam = np.concatenate([u, own], axis=1) @ model.mixing().T
    f = model.weights_at(lam, y)
    p, p_star = own.shape[1], u.shape[1]
    mixing = model.mixing()
    if p_star == 1 or model.overlap != 0.0 or model.target is not None:
        both = Block(np.arange(p_star + p) < p_star, _projector(mixing))
        blocks: tuple[tuple[Array, Block], ...] = ((np.concatenate([u, own], axis=1), both),)
    else:
        # Permutations of teachers: their mean mixes with students, differences from it are all alike.
        mean = u.sum(axis=1, keepdims=True) / math.sqrt(p_star)
        first = np.concatenate([np.zeros((p, 1)), mixing[:, p_star:]], axis=1)
        between = Block(np.ones(1, bool), np.zeros((1, 1)), p_star - 1)
        blocks = (
            (np.concatenate([mean, own], axis=1), Block(np.arange(1 + p) < 1, _projector(first))),
            ((u[:, :1] - u[:, 1:2]) / math.sqrt(2), between),
        )
    return Cubature(f, probability, blocks)


def _projector(rows: Array) -> Array:
    """Projector on the span of rows (r, k)."""
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    kept = vectors[values > 1e-9 * max(values.max(), 1e-300)]
    return kept.T @ kept


@lru_cache(maxsize=16)
def sobol_rule(model: Network, repeat: int, level: int) -> Cubature:
    """About 2^level points, independent for every `repeat`: scrambled Sobol points of all preactivations and noises.

    One teacher's u is not left to chance: each point of the rest comes with a trapezoid in u whose shift is one more Sobol
    dimension, so that the mean over scramblings is exact at any step. Values far out, which decide smooth edges, are all there.
    """
    require_finite_width(model)
    p, p_star = int(model.p), model.p_star
    sizes = [p, p_star, p_star if model.noise else 0, 1 if model.output_noise else 0]
    if sum(sizes) > SOBOL_DIMENSIONS:
        raise ParameterError(
            f"p and p_star must add up to less than {SOBOL_DIMENSIONS} here, got {sum(sizes)}"
        )
    line = np.arange(-_LINE_NODES, _LINE_NODES)
    if p_star == 1:
        # as many points in all
        level -= round(math.log2(len(line)))
    uniform = sobol(sum(sizes), np.random.default_rng([0, repeat]), level)
    own, u, zeta, xi = np.split(normals(uniform), np.cumsum(sizes)[:-1], axis=1)
    probability = np.full(len(own), 1 / len(own))
    if p_star == 1:
        u = (_LINE_STEP * (uniform[:, p : p + 1] + line)).reshape(-1, 1)
        own, zeta, xi = (np.repeat(v, len(line), axis=0) for v in (own, zeta, xi))
        probability = np.exp(-(u[:, 0] ** 2) / 2)
        probability /= probability.sum()
    return _rule(
        model,
        own,
        u,
        zeta if model.noise else None,
        xi[:, 0] if model.output_noise else None,
        probability,
    )


def require_finite_width(model: Network) -> None:
    """Raise ParameterError for p = inf, where there are infinitely many preactivations to average over."""
    if math.isinf(model.p):
        raise ParameterError("p must be finite for this teacher or with output_noise, got inf")


# --- symmetries ---


def symmetric_students(model: Network) -> bool:
    """Whether the model stays the same when its students are permuted, teachers with them where they overlap."""
    alike = model.gram is None and not isinstance(model.overlap, tuple) and equal_students(model)
    together = model.p_star == model.p and model.target is None
    return alike and (model.overlap == 0.0 or model.p_star == 1 or together)


def symmetry_classes(model: Network, teachers: int, owns: int) -> NDArray[np.intp] | None:
    """Symmetry class (of the indices under the group) of every entry of a block Xi (k p, k p) of `teachers` teacher
    directions and then `owns` (0 or p) students' own; -1 for those that vanish. None for a model without symmetry."""
    if not symmetric_students(model):
        return None
    even = model.even_students
    return _classes(int(model.p), teachers, owns, model.overlap != 0.0 and teachers == model.p > 1, even)


@lru_cache(maxsize=64)
def _classes(p: int, teachers: int, owns: int, together: bool, even: bool) -> NDArray[np.intp]:
    spikes = [("u", t if together else p + t) for t in range(teachers)] + [("w", k) for k in range(owns)]
    rows = [(kind, index, j) for kind, index in spikes for j in range(p)]
    table: dict[Any, int] = {}
    classes = np.empty((len(rows), len(rows)), dtype=np.intp)
    for a, (kind, i, j) in enumerate(rows):
        for b, (other, k, m) in enumerate(rows):
            names: dict[
                int, int
            ] = {}  # students in the order in which they are met; teachers that stay keep their number
            pattern = tuple(v if v >= p else names.setdefault(v, len(names)) for v in (i, j, k, m))
            # Under lam_k -> -lam_k row and column k of F change sign, and so does the spike w_k.
            signs = [j, m] + ([i] if kind == "w" else []) + ([k] if other == "w" else [])
            gone = even and any(signs.count(v) % 2 for v in signs)
            classes[a, b] = -1 if gone else table.setdefault((kind, other, pattern), len(table))
    classes.setflags(write=False)
    return classes


def invariant_span(model: Network) -> Array | None:
    """Orthonormal coordinates (D, d) of the symmetric p x p matrices that the symmetries of a model leave as they are:
    multiples of I, and for students that are not even of the matrix of ones too. None without symmetry, or for p = 1."""
    p = int(model.p)
    if p == 1 or not symmetric_students(model):
        return None
    even = model.even_students
    # Permutations leave I and the matrix of ones; signs leave I alone.
    kept = [np.eye(p)] if even else [np.eye(p), np.ones((p, p)) - np.eye(p)]
    return np.stack([symmetric(p).coordinates(m / np.linalg.norm(m)) for m in kept], axis=1)
