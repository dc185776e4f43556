"""Finite-N theory at given preactivations, the quenched disorder of one draw: edge, outliers and overlaps without a matrix.

Given the preactivations lam (M, p) and u (M, p_star) of M samples the Hessian is a weighted Wishart matrix
with FIXED weights F^mu, so that the expectation alpha E[...] of the N = inf theory becomes a sum. Let v (M, r) be the
projections of the samples on an orthonormal basis of the span of teacher and students, r = p + p_star at most. What stays
random is the part of each x outside that span: Gaussian, in n' = N - r dimensions, independent of the weights. Hence

    n'/N G^{-1} = z - (1/N) sum_mu F^mu (I - G F^mu)^{-1}                 p x p, scalar for p = 1
    z I - (1/N) sum_mu (v v^T)^mu (x) F^mu (I - G F^mu)^{-1}              singular at outliers, p r x p r

which is exact to order 1/N: no dimension is counted twice, and students mix into the outliers by their actual overlaps with
the teacher (of order N^{-1/2} in a sample). Both are the equations of dimension n' with eigenvalues times n'/N. What is left
of an outlier, its scatter given the preactivations, is the noise of theory.finite.block.

There is one edge, however many outliers leave: the place of the lowest eigenvalue of the bulk but for its Tracy-Widom scatter.
By perturbation theory, let b_i (r p,) be the coupling of the span to the i-th eigenvalue mu_i of the bulk of dimension n'. The
eigenvalues of the whole matrix are the zeros of det(z - Xi(z)), whose pole at mu_i is b_i b_i^T/(z - mu_i). As many leave as Xi
has outliers, and the rest interlace with the mu_i. Beside the pole stands the margin matrix M = edge - Xi(edge), positive on
directions that pull an outlier out. So an eigenvalue of the bulk moves by b^T M^{-1} b: to the right, away from outliers, and
to the left from directions without one. The poles make g singular with the same weight, hence E[b b^T] = (dXi/dg)/(p n'), g the
mean trace, and the mean displacement is

    sum_j c_j / m_j,      c_j = x_j^T (dXi/dg) x_j / (p n'),      m_j, x_j eigenpairs of M.

A direction that no weight depends on has m = 1/g, dXi/dg = 1/g^2: what one dimension more does to the edge (tests). Next to a
threshold, |m_j| < kappa c_j ~ N^{-1/3}, no eigenvalue moves by more than the distance to the next, and which one is the lowest
of the bulk changes. There 1/m is taken as m/(m^2 + (kappa c)^2), so that nothing jumps as an outlier appears; the law is that
of Bloemendal and Virag (theory.finite.law draws it). In dense samples (benchmarks/quenched.py edge) the mean is that of Tracy
and Widom about this edge to 0.3/kappa away from thresholds; up to 1.2/kappa above it where an outlier has just left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from theory.answers import Prediction
from theory.checks import ParameterError, count, finite, numpy_defaults
from theory.exact import committee_weights, finite_committee
from theory.finite.bulk import weight_eigenvalues
from theory.finite.tracy_widom import tracy_widom_scale
from theory.general.dyson import Dyson, DysonEdge
from theory.general.spikes import SpikeBlock
from theory.model.network import Network

Array = NDArray[np.float64]

_NORMS = 0.1, 10.0  # of rows, squared, over n: further from 1 the factor 1/n has been left out, or put twice
_ASYMMETRY = 1e-6  # of the largest norm: beyond any rounding


@numpy_defaults
def quenched(
    model: Network, lam: ArrayLike, u: ArrayLike, n: int, gram: ArrayLike | None = None
) -> Prediction:
    """Edge, outliers and overlaps predicted for one draw of preactivations.

    For those of an actual sample (students and teacher rows applied to its data) the prediction is for that sample.

    Parameters
    ----------
    model : Network
        A quadratic committee of finite p.
    lam, u : arrays (M, p) and (M, p_star)
        Preactivations of student and teacher.
    n : int
        Input dimension N.
    gram : array (r, r)
        Overlaps of the rows, teacher first and students after, over n. Without it they count as orthogonal: this leaves out a
        term of order 1/N for an actual sample, and none for preactivations drawn independently.

    Returns
    -------
    Prediction
        Outliers and overlaps (k,), k = p p_star, are NaN where fewer leave the bulk; margins (k,) are those of the block of the
        span of teacher and students; `lowest` is the lowest outlier or the edge.

    Raises
    ------
    ParameterError
        On bad shapes, a gram that is not positive definite, n not above p + p_star.
    NotConverged
        Where no weight is negative (a handful of samples).

    >>> model = Network(1, 1, 0.5)
    >>> lam, u, _ = model.draw_labels(600, np.random.default_rng(0))
    >>> found = quenched(model, lam, u, 200)
    >>> found.overlaps.shape, found.lowest <= found.edge
    ((1,), True)
    """
    n = count("n", n)
    model, lam, u = checked_preactivations(model, lam, u)
    y, vectors = np.mean(u**2, axis=1), orthonormal(np.hstack([u, lam]), gram)
    inner = n - vectors.shape[1]
    if inner < 1:
        raise ParameterError(f"n must be above p + p_star = {vectors.shape[1]}, got {n}")
    values, multiplicities = weight_eigenvalues(model, np.mean(lam**2, axis=1), y, 2 / int(model.p))
    eigenvalues = np.stack(values), np.array(multiplicities, dtype=np.float64)
    dyson = Dyson(committee_weights(model.a, lam, y), 1 / inner, eigenvalues)
    k, unit, edge, block = int(model.degeneracy), inner / n, dyson.edge(), SpikeBlock(dyson, vectors)
    found = block.spikes(edge)
    kappa = tracy_widom_scale(model.p * inner, edge.curvature)
    # Of the part of an eigenvector in the span only the teacher's rows are signal.
    seen = found.overlaps[:k] * np.sum(found.directions[:k, : model.p_star] ** 2, axis=(1, 2))
    padding = np.full(k - len(seen), np.nan)
    pushed = (edge.value + edge_displacement(block, edge, inner, kappa)) * unit
    return Prediction(
        edge=pushed,
        scale=kappa / unit,
        outliers=np.concatenate([found.values[:k] * unit, padding]),
        overlaps=np.concatenate([seen, padding]),
        margins=np.asarray(found.margins[:k] * unit, dtype=np.float64),
        lowest=float(np.min(found.values[:k] * unit, initial=pushed)),
    )


def edge_displacement(block: SpikeBlock, edge: DysonEdge, inner: int, kappa: float) -> float:
    """Mean displacement of the lowest eigenvalue of the bulk by the directions of `block`, in units of the equation that `edge`
    solves: derived at the top of the module. `inner` is the dimension of the bulk, kappa the scale of its lowest eigenvalue; 0
    leaves 1/m as it is.
    """
    state = edge.at
    values, vectors = np.linalg.eigh(block.xi(state))
    null = state.coordinates(edge.null)
    rise = inner * float(state.coordinates(state.inverse_q) @ null)  # p n' dg along the null vector
    shape = (1, block.v.shape[1], block.dyson.p)
    # dXi / dg along the null vector E of L - 1: to first order all of G moves along it at the edge.
    c = np.array([block.slope(state, x.reshape(shape)) @ null for x in vectors.T]) / rise
    m = edge.value - values
    # 1/m smoothed over the width kappa c, on which eigenvalues exchange places (see the top)
    return float(np.sum(c * m / (m**2 + (kappa * c) ** 2)))


def orthonormal(projections: Array, gram: ArrayLike | None) -> Array:
    """Projections (M, r) on the orthonormal basis that Gram and Schmidt make of rows with overlaps `gram` (r, r)."""
    if gram is None:
        return projections
    overlaps = np.asarray(finite("gram", gram), dtype=np.float64)
    r = projections.shape[1]
    if overlaps.shape != (r, r):
        raise ParameterError(f"gram must have shape ({r}, {r}), got {overlaps.shape}")
    norms = np.diag(overlaps)
    if np.any((norms < _NORMS[0]) | (norms > _NORMS[1])):
        raise ParameterError(
            f"gram must be W W^T / n of rows of norm sqrt(n), its diagonal near 1, got {norms.min():g} to {norms.max():g} there"
        )
    if np.any(np.abs(overlaps - overlaps.T) > _ASYMMETRY * norms.max()):
        raise ParameterError("gram must be symmetric, got one that is not")
    try:
        factor = np.linalg.cholesky(overlaps)
    except np.linalg.LinAlgError:
        raise ParameterError("gram must be positive definite, got one that is not") from None
    # Rows = L Q with gram = L L^T: projections on Q are L^-1 of those on the rows.
    return np.asarray(solve_triangular(factor, projections.T, lower=True).T)


def checked_preactivations(model: Network, lam: ArrayLike, u: ArrayLike) -> tuple[Network, Array, Array]:
    """Preactivations lam (M, p), u (M, p_star) of a model of finite width as arrays; ParameterError on other shapes."""
    model, lam, u = finite_committee(model), np.asarray(finite("lam", lam)), np.asarray(finite("u", u))
    if lam.ndim != 2 or not len(lam) or lam.shape[1] != model.p:
        raise ParameterError(f"lam must have shape (M, {model.p}), got {lam.shape}")
    if u.shape != (len(lam), model.p_star):
        raise ParameterError(f"u must have shape ({len(lam)}, {model.p_star}), got {u.shape}")
    return model, lam, u
