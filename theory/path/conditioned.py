"""The Hessian at a point that a method of first order has reached: edge, outliers and overlaps, given what it has used.

Quenched theory (`theory.finite.quenched`) knows the weight F of every sample and takes the data beyond teacher and students for
independent of them. After a descent they are not: they are orthogonal to every force l' that was used (`theory.path.used`).
With images A (M, k) of the known vectors, orthonormal forces L (M, r), n' = n - k, and p = 1 to read it:

    n'/n 1/g = z - (1/n) [ tr B_P - (M - r) ] / g,   B = (1 - g D)^{-1}, D = diag F,   tr B_P = tr B - tr (L'BL)^{-1} L'B^2 L
    Xi(z) = (1/n) [ A' D B A - g A' D B L (L' B L)^{-1} L' B D A ]

outliers where det(z - Xi(z)) = 0, q2 = |its part on the teacher|^2 / (1 - x' Xi'(z) x), x the null vector. For any p, and how
it is computed: `theory.path.projected`. Without forces this is quenched theory. One force is what a critical point knows (its
gradient vanishes). Nothing is fitted, and no response function is needed.

At finite n the lowest eigenvalue and its overlap have the law of a small random matrix (`theory.path.law`); the edge is that of
the bulk as the known directions displace it (`theory.finite.quenched`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.answers import Printed
from theory.checks import ParameterError, count, finite
from theory.finite.quenched import level_push
from theory.finite.tracy_widom import tracy_widom_scale
from theory.general.spikes import outlier_of, overlap_at
from theory.general.state import State
from theory.model import Network
from theory.model.network import network
from theory.path.law import lowest_pairs
from theory.path.projected import ProjectedDyson, ProjectedSpikes, ProjectedState
from theory.path.used import Used

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Conditioned(Printed):
    """Predictions for the Hessian at one point of a path, in units of the Hessian.

    edge              left edge of the bulk, as the known directions push it
    scale             kappa: about `edge` the lowest bulk eigenvalue fluctuates as -TW1 / kappa
    outliers (j,)     eigenvalues that leave the bulk, lowest first: the lowest of those asked for
    overlaps (j,)     squared overlap of each with the signal space
    student_overlaps (j, p)  squared overlap with the span of one student row over all blocks
    residues (j,)     squared overlap with all known directions
    margins (k p,)    how far each known direction is beyond the bulk, largest first: an outlier exists where positive
    g (p, p)          G at the edge of the bulk
    lowest, lowest_error    mean and standard deviation of the lowest eigenvalue at this n, given what is known
    overlap, overlap_error  the same of its eigenvector's squared overlap with the signal space
    """

    edge: float
    scale: float
    outliers: Array
    overlaps: Array
    student_overlaps: Array
    residues: Array
    margins: Array
    g: Array
    lowest: float
    lowest_error: float
    overlap: float
    overlap_error: float


def conditioned(
    model: Any, used: Used, y: ArrayLike | None = None, *, outliers: int | None = None
) -> Conditioned:
    """Edge, outliers and overlaps of the Hessian given what a method has used of its data (`theory.path.used.closure`).

    Parameters
    ----------
    model : Network of finite p, inputs without covariance.
    used : what is known: images, components of teacher and students, forces.
    y : teacher outputs (M,) where they have noise; None: those of the teacher's preactivations.
    outliers : how many of those that exist are wanted at most; None: p p_star + p.

    Returns
    -------
    Conditioned

    Raises
    ------
    ParameterError
        on shapes that do not fit the model, or a dimension that is used up.
    NotConverged
        where the spectrum has no left edge (no negative weight).

    >>> from theory.path import closure
    >>> rng = np.random.default_rng(0)
    >>> x, w = rng.standard_normal((600, 200)) / 200**0.5, 200**0.5 * np.eye(200)
    >>> found = conditioned(Network(a=0.5), closure(x, w[:1], w[1:2]))
    >>> len(found.outliers), found.lowest < found.edge
    (1, True)
    """
    model, lam, y = _checked(model, used, y)
    inner = used.n - used.images.shape[1]
    if inner < 1 or used.forces.shape[1] >= len(lam):
        raise ParameterError(
            f"n and M must be above what is used of them, got {used.images.shape[1]} of {used.n} dimensions and "
            f"{used.forces.shape[1]} of {len(lam)} samples"
        )
    p, unit = lam.shape[1], inner / used.n
    dyson = ProjectedDyson(model.weights_at(lam, y), 1 / inner, used.forces)
    edge, block = dyson.edge(), ProjectedSpikes(dyson, used.images)
    state = block.at(edge)
    assert isinstance(state, ProjectedState)
    kappa = tracy_widom_scale(p * inner, edge.curvature)
    margins = edge.value - np.linalg.eigvalsh(block.xi(state))
    wanted = int(model.degeneracy) + p if outliers is None else count("outliers", outliers, 1)
    found = [
        _outlier(block, state, order, edge.value, used)
        for order in range(min(wanted, int(np.sum(margins > 0))))
    ]
    values, overlaps, residues = np.array([row[:3] for row in found]).reshape(-1, 3).T
    pairs = lowest_pairs(block, edge, state, float(values[0]) if len(values) else None, kappa)
    components = pairs.components.reshape(len(pairs.values), -1, p)
    q2 = np.sum((used.teacher.T @ components) ** 2, axis=(1, 2))
    return Conditioned(
        edge=(edge.value + level_push(block, state, edge, inner, kappa)) * unit,
        scale=kappa / unit,
        outliers=values * unit,
        overlaps=overlaps,
        student_overlaps=np.array([row[3] for row in found]).reshape(-1, p),
        residues=residues,
        margins=np.asarray(margins * unit, dtype=np.float64),
        g=np.asarray(edge.g, dtype=np.float64),
        lowest=float(pairs.values.mean()) * unit,
        lowest_error=float(pairs.values.std()) * unit,
        overlap=float(q2.mean()),
        overlap_error=float(q2.std()),
    )


def _checked(model: Any, used: Used, y: ArrayLike | None) -> tuple[Network, Array, Array]:
    """The model as a Network, preactivations (M, p) of the students and outputs (M,)."""
    wide = network(model)
    if wide.covariance is not None or wide.inputs is not None:
        raise ParameterError("covariance and inputs must be None along a path, got one")
    shapes = (used.students.shape[1], used.teacher.shape[1])
    if shapes != (wide.p, wide.p_star):
        raise ParameterError(f"students and teacher must have {wide.p} and {wide.p_star} rows, got {shapes}")
    if y is None:
        return wide, used.lam, wide.outputs(used.u)
    outputs = np.asarray(finite("y", y), dtype=np.float64)
    if outputs.shape != (len(used.images),):
        raise ParameterError(f"y must have shape ({len(used.images)},), got {outputs.shape}")
    return wide, used.lam, outputs


def _outlier(
    block: ProjectedSpikes, start: State, order: int, edge: float, used: Used
) -> tuple[float, float, float, Array]:
    """Place in units of its equation, overlap with the teacher, residue, overlaps (p,) with the students, of one outlier."""
    state, z, directions = outlier_of(block, start, order, edge)
    residue, x = overlap_at(block, state, directions, z), directions[0]
    lengths = np.linalg.norm(used.students, axis=0)
    on_students = np.sum(((used.students / lengths).T @ x) ** 2, axis=1)
    return z, residue * float(np.sum((used.teacher.T @ x) ** 2)), residue, residue * on_students
