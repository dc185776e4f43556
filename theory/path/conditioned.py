"""The Hessian at a point that a method of first order has reached: edge, outliers and overlaps, given what it has used.

Quenched theory (`theory.finite.quenched`) knows the weight F of every sample and takes the data beyond teacher and students for
independent of them. After a descent they are not: they are orthogonal to every force l' that was used.
With images A (M, k) of the known vectors, orthonormal forces L (M, r), n' = n - k, and p = 1 to read it:

    n'/n 1/g = z - (1/n) [ tr B_P - (M - r) ] / g,   B = (1 - g D)^{-1}, D = diag F,   tr B_P = tr B - tr (L'BL)^{-1} L'B^2 L
    Xi(z) = (1/n) [ A' D B A - g A' D B L (L' B L)^{-1} L' B D A ]

outliers where det(z - Xi(z)) = 0, q2 = |its part on the teacher|^2 / (1 - x' Xi'(z) x), x the null vector. For any p, and how
it is computed: `theory.path.projected`. Without forces this is quenched theory. One force is what a critical point knows (its
gradient vanishes). Nothing is fitted, and no response function is needed.

The edge is that of the bulk as the known directions displace it (`theory.finite.quenched`). At finite n eigenvalues of the bulk
lie next to an outlier and share its overlap, the edge fluctuates, and couplings between known directions repel the lowest
eigenvalue (by 0.01 to 0.1 where a path has left many). All of it is in the matrix of the known directions, k p of them, and the
lowest eigenvalues mu_i of the bulk:

    det [ z - Xi_0(z) - W      -b  ]
        [     -b'            z - mu]  = 0,        E b b' = C = dXi/dg / (p n')        (derived in `theory.finite.quenched`)

* mu_i = edge + y_i / kappa, y those of the GOE at the edge (`theory.finite.small_matrix`), b Gaussian and independent.
* Xi_0 = Xi less C sum_i 1/(z - mean mu_i): what these eigenvalues give in the mean counts once. It is taken on its tangent at
  the outlier, or 1.5/kappa below the edge where that is lower, so that zeros are eigenvalues.
* W = (S^{1/2} G S^{1/2}) / n'^{1/2}, G of the GOE (variance 1, 2 on the diagonal), the scatter by the other eigenvalues: the
  second term of the variance of an outlier, as in `theory.finite.block`. S_ij = <t_i t_j', X>, X = (1 - L)^{-1} sigma / <sigma,
  (1 - L)^{-1} sigma>^{1/2}, sigma = slope of the outlier's direction: exact for the variance of that direction and its
  couplings to others at p = 1, and up to the sectors that sigma does not see at p > 1. The scatter by the kept eigenvalues
  themselves is taken off.

What is used (`closure`). A method that touches X (M, N) through products X v and X' f alone leaves the rest of X Gaussian
(E. Bolthausen's conditioning; `theory.path.deferred` uses it forwards). With R the vectors and L the forces that it has used,

    X = L L' X + (1 - L L') X R R' / N + P X~ Q,     P, Q the projections on the complements of L and R, X~ fresh.

Every vector and every force would be thousands of directions after a long path, and each costs an error of order 1/N. A smooth
path spans few. What is kept here is closed: R holds the teacher, the start, the point and X' l for every force l of L. Then
X' L lies in R, and beyond R the data are P X~ alone. Forces of unit norm that differ by less than `FORCES` count as one;
cutting R and L independently leaks (outliers moved by 0.1 to 0.35).

Not every force of a path is needed. The point is w_t = c w_0 - X' f, f the sum of all forces used with the factors by which
the sphere has shrunk them since: that one, and the forces at some twenty moments, for its dependence on the path, stand for
hundreds. Standard deviation of the lowest eigenvalue, predicted less found, over eight samples of p = 1, a = 1, alpha = 4,
n = 500, t = 1: 0.020 with all 200 forces, 0.020 with the sum and 32 moments, 0.026 with 16, 0.040 with 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from theory.answers import Prediction
from theory.checks import ParameterError, count, finite
from theory.finite.quenched import edge_displacement
from theory.finite.small_matrix import airy_eigenvalues, bordered
from theory.finite.tracy_widom import tracy_widom_scale
from theory.general.dyson import DysonEdge
from theory.general.spikes import outlier_of, overlap_at
from theory.general.state import State, newton_step
from theory.model import Network
from theory.model.activations import shifted, weighed
from theory.model.network import network
from theory.path.projected import ProjectedDyson, ProjectedSpikes, ProjectedState

Array = NDArray[Any]

FORCES = 1e-7  # singular values of the forces, relative to the largest, that are kept
ROWS = 1e-10  # the same for the vectors
MOMENTS = 24  # forces of a path that stand for all, beside their sum
KEPT = 6  # eigenvalues of the bulk in the small matrix; y of the last is about 9
DRAWS = 200  # of eigenvalues, couplings and noise; always the same
_CLEAR = 1.5  # distance of the tangent from the edge, in 1/kappa, at the least
_SEED = 20261


class Data(Protocol):
    """Data X (M, N) known by products, as `theory.path.deferred.Deferred`; arrays of NumPy, or of JAX in `sims.dynamics`."""

    @property
    def dtype(self) -> np.dtype:
        """Of the products."""

    def push(self, vectors: Any) -> Any:
        """X v of b vectors (b, N): (M, b)."""

    def pull(self, forces: Any) -> Any:
        """X' f of b forces (M, b): (b, N)."""


@dataclass(frozen=True)
class Used:
    """Data of dimension n as far as they are known.

    images (M, k)       X on an orthonormal basis of the vectors R, in the norm |w|^2 = n
    teacher (k, p_star), students (k, p)  components of teacher rows and student rows on it
    forces (M, r)       orthonormal combinations of samples, X' of which lies in the span of R
    """

    images: Array
    teacher: Array
    students: Array
    forces: Array
    n: int

    @property
    def u(self) -> Array:
        """Preactivations (M, p_star) of the teacher."""
        return self.images @ self.teacher

    @property
    def lam(self) -> Array:
        """Preactivations (M, p) of the students."""
        return self.images @ self.students


def closure(
    data: ArrayLike | Data,
    teacher: ArrayLike,
    students: ArrayLike,
    forces: NDArray[Any] | Sequence[ArrayLike] = (),
    others: ArrayLike | None = None,
) -> Used:
    """What the data are known to be at `students` after a method has used `forces`.

    Parameters
    ----------
    data : the matrix X (M, N), or an object with its products (`Data`).
    teacher, students : rows (p_star, N) and (p, N) of norm sqrt(N).
    forces : columns (M, b), or a sequence of them: every f whose X' f the method has used, or enough of them (see the module).
    others : further vectors (b, N) known to the method: the start, vectors of noise. Any norm.

    Returns
    -------
    Used

    Raises
    ------
    ParameterError
        where shapes do not fit or numbers are not finite.

    >>> rng = np.random.default_rng(0)
    >>> x, w = rng.standard_normal((30, 10)) / 10**0.5, 10**0.5 * np.eye(10)
    >>> used = closure(x, w[:1], w[1:2], [np.ones((30, 1))])
    >>> used.images.shape, used.forces.shape, bool(np.allclose(used.lam, x @ w[1:2].T))
    ((30, 3), (30, 1), True)
    """
    rows = [_rows("teacher", teacher), _rows("students", students)]
    if others is not None:
        rows.append(_rows("others", others))
    n = rows[0].shape[1]
    if any(each.shape[1] != n for each in rows):
        raise ParameterError("teacher, students and others must have rows of one length")
    push, pull = _products(data)
    kept = orthonormal_forces(forces)
    vectors = [_normalised(each) for each in rows]
    samples = getattr(data, "m", None) or len(np.asarray(data))
    if kept.size and len(kept) != samples:
        raise ParameterError(f"forces must have {samples} rows, one a sample, got {len(kept)}")
    if kept.size:
        # X'l joins R for every l of L, so that X'L lies in span R: cutting one of them alone leaks.
        vectors.append(_normalised(np.asarray(pull(kept), dtype=np.float64)))
    u, values, _ = np.linalg.svd(np.concatenate(vectors).T, full_matrices=False)
    # Norm sqrt(n), as that of teacher and students: images are preactivations of variance 1.
    basis = u[:, values > ROWS * values[0]].T * np.sqrt(n)
    images = np.asarray(push(basis), dtype=np.float64)
    if not kept.size:
        kept = np.empty((len(images), 0))
    return Used(images, basis @ rows[0].T / n, basis @ rows[1].T / n, kept, n)


def force(model: Network, lam: Array, y: Array) -> Array:
    """l' c s'(lam + b), the derivatives of the loss in preactivations: what a gradient multiplies X' with.

    Parameters
    ----------
    model : Network
    lam, y : arrays (M, p) and (M,)
        Preactivations of the student, outputs of the teacher.

    Returns
    -------
    array (M, p)
    """
    first = model.rule.first(y, model.student_outputs(lam), model.a, np)
    slopes = model.student.first(shifted(lam, model.bias, np), np)
    return np.asarray(weighed(first[:, None] * slopes, model.readout, np))


def moments(number: int) -> list[int]:
    """Which of so many forces, in order of time, stand for all beside their sum: MOMENTS of them, log-spaced.

    >>> moments(3), len(moments(1000)) <= MOMENTS
    ([0, 1, 2], True)
    """
    spaced = np.geomspace(1, max(number, 1), MOMENTS)
    return (np.unique(np.rint(spaced).astype(int)) - 1).tolist() if number else []


def orthonormal_forces(forces: NDArray[Any] | Sequence[ArrayLike]) -> Array:
    """Orthonormal columns (M, r) that span forces (M, b), or a sequence of such, each of unit norm, up to `FORCES`."""
    parts = [
        np.asarray(part, dtype=np.float64)
        for part in ([forces] if isinstance(forces, np.ndarray) else forces)
    ]
    if not parts:
        return np.empty((0, 0))
    columns = np.concatenate(
        [np.asarray(finite("forces", part)).reshape(len(part), -1) for part in parts], axis=1
    )
    # Of unit norm: forces late in a descent are small, and count as much.
    u, values, _ = np.linalg.svd(_normalised(columns.T).T, full_matrices=False)
    return np.ascontiguousarray(u[:, values > FORCES * values[0]]) if values.size and values[0] else u[:, :0]


def _normalised(rows: Array) -> Array:
    """Rows of unit norm; rows of zeros stay."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(float).tiny)


def _rows(name: str, given: ArrayLike) -> Array:
    rows = np.asarray(finite(name, given), dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise ParameterError(f"{name} must have shape (rows, N), got {rows.shape}")
    return rows


def _products(data: Any) -> tuple[Any, Any]:
    """Functions push and pull of data."""
    if hasattr(data, "push"):
        return data.push, data.pull
    x = np.asarray(data)
    return lambda vectors: x @ vectors.T, lambda forces: forces.T @ x


def conditioned(
    model: Any, used: Used, y: ArrayLike | None = None, *, outliers: int | None = None
) -> Prediction:
    """Edge, outliers and overlaps of the Hessian given what a method has used of its data (`closure`).

    Parameters
    ----------
    model : Network of finite p, inputs without covariance.
    used : what is known: images, components of teacher and students, forces.
    y : teacher outputs (M,) where they have noise; None: those of the teacher's preactivations.
    outliers : how many of those that exist are wanted at most; None: p p_star + p.

    Returns
    -------
    Prediction
        Of the outliers the lowest, as many as asked for; margins (k p,) of the k known directions; mean and scatter, at this
        n, of the lowest eigenvalue and its overlap, given what is known.

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
    kappa = tracy_widom_scale(p * inner, edge.curvature)
    margins = edge.value - np.linalg.eigvalsh(block.xi(edge.at))
    wanted = int(model.degeneracy) + p if outliers is None else count("outliers", outliers, 1)
    found = [
        _outlier(block, edge.at, order, edge.value, used)
        for order in range(min(wanted, int(np.sum(margins > 0))))
    ]
    values, overlaps, residues = np.array([row[:3] for row in found]).reshape(-1, 3).T
    lowest, components = _lowest_pairs(block, edge, float(values[0]) if len(values) else None, kappa)
    q2 = np.sum((used.teacher.T @ components.reshape(len(lowest), -1, p)) ** 2, axis=(1, 2))
    return Prediction(
        edge=(edge.value + edge_displacement(block, edge, inner, kappa)) * unit,
        scale=kappa / unit,
        outliers=values * unit,
        overlaps=overlaps,
        student_overlaps=np.array([row[3] for row in found]).reshape(-1, p),
        residues=residues,
        margins=np.asarray(margins * unit, dtype=np.float64),
        g=np.asarray(edge.g, dtype=np.float64),
        lowest=float(lowest.mean()) * unit,
        lowest_error=float(lowest.std()) * unit,
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


def _lowest_pairs(
    block: ProjectedSpikes, edge: DysonEdge, start: float | None, kappa: float
) -> tuple[Array, Array]:
    """Draws of the lowest pair: eigenvalues (DRAWS,) in units of the equation, components (DRAWS, k p) of their vectors on the
    known directions; `start` the lowest outlier or None."""
    at = edge.at
    assert isinstance(at, ProjectedState)
    # Next to the edge Xi less what the kept eigenvalues give is a small difference of two singular parts.
    clear = edge.value - _CLEAR / kappa
    z = clear if start is None else min(start, clear)
    state = block.dyson.state_at(z)
    assert isinstance(state, ProjectedState)
    # p n' dg along the null vector, by which every dXi is measured
    rise = float(at.coordinates(at.inverse_q) @ at.coordinates(edge.null)) / at.each
    coupled = block.gram(at, edge.null) / rise
    slope_z = newton_step(state, state.z_slope(z), z)
    assert slope_z is not None
    xi, falling = block.xi(state), block.gram(state, state.matrix(slope_z))  # Xi, -Xi'
    eigenvalues = (
        edge.value + airy_eigenvalues(DRAWS, min(KEPT, max(1, round(block.dyson.p / at.each)))) / kappa
    )
    # Mean places of the kept eigenvalues, whose mean pull and slope are taken out of Xi and Xi'.
    gaps = z - eigenvalues.mean(axis=0)
    coupled = _within(coupled, falling / np.sum(1 / gaps**2))
    rest, metric = xi - coupled * np.sum(1 / gaps), np.eye(len(xi)) + falling - coupled * np.sum(1 / gaps**2)
    noise = _noise(block, state, z, xi, coupled, float(np.sum(1 / gaps**2)))
    return _drawn(rest + z * (metric - np.eye(len(xi))), metric, coupled, noise, eigenvalues)


def _noise(
    block: ProjectedSpikes, state: ProjectedState, z: float, xi: Array, coupled: Array, kept: float
) -> Array:
    """N = S^{1/2} n'^{-1/2} (k p, k p), less the scatter by the kept eigenvalues: W = N G N."""
    x = np.linalg.eigh(xi)[1][:, :1]
    sigma = block.slope(state, x.T.reshape(1, -1, block.dyson.p))
    answer = newton_step(state, sigma, z)
    assert answer is not None
    square = float(sigma @ answer)
    if square <= 0:
        return np.zeros_like(xi)
    # The variance that the kept eigenvalues bring by themselves: a sum of C^2 / gap^2.
    own = (x.T @ coupled @ x).item() ** 2 * kept / state.each
    # S is normalised so that x' S x = <sigma, (1 - L)^-1 sigma>^(1/2), less the part of the kept eigenvalues.
    scatter = block.gram(state, state.matrix(answer)) * np.sqrt(
        max(1 - own / square, 0) / square * state.each
    )
    return _root(scatter)


def _within(matrix: Array, bound: Array) -> Array:
    """The matrix, cut down where it exceeds the bound: couplings of a direction that one extreme sample carries grow next
    to the edge as those of no other, and must not give more of -Xi' than there is."""
    # a ridge of rounding: a direction without slope has no coupling either
    root = _root(bound) + 1e-12 * np.trace(bound) * np.eye(len(bound))
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ matrix @ inverse)
    half = root @ vectors
    return (half * np.clip(values, 0, 1)) @ half.T


def _drawn(
    matrix: Array, metric: Array, coupled: Array, noise: Array, eigenvalues: Array
) -> tuple[Array, Array]:
    """Lowest pairs of [[matrix + W, b], [b', mu]] in the metric diag(metric, 1)."""
    rng, (draws, kept), d = np.random.default_rng(_SEED), eigenvalues.shape, len(matrix)
    # Coordinates in which the metric is I: a symmetric eigenvalue problem.
    into = solve_triangular(np.linalg.cholesky(metric), np.eye(d), lower=True)
    raw = rng.standard_normal((draws, d, d))
    # variance 1, 2 on the diagonal
    goe = (raw + raw.transpose(0, 2, 1)) / np.sqrt(2)
    couplings = _root(coupled) @ rng.standard_normal((draws, d, kept))
    values, vectors = np.linalg.eigh(bordered(into.T, matrix + noise @ goe @ noise, couplings, eigenvalues))
    return values[:, 0], vectors[:, :d, 0] @ into


def _root(matrix: Array) -> Array:
    """The root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
