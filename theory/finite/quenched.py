"""Finite-N theory conditioned on the labels of one draw: edge, outliers and overlaps without a matrix.

Given the preactivations lam (M, p) and u (M, p_star) of M samples the Hessian is a weighted Wishart matrix
with FIXED weights F^mu, so that the expectation alpha E[...] of the N = inf theory becomes a sum. Let v (M, r) be the
projections of the samples on an orthonormal basis of the span of teacher and students, r = p + p_star at most. What stays
random is the part of each x outside that span: Gaussian, in n' = N - r dimensions, independent of the labels. Hence

    n'/N G^{-1} = z - (1/N) sum_mu F^mu (I - G F^mu)^{-1}                 p x p, scalar for p = 1
    z I - (1/N) sum_mu (v v^T)^mu (x) F^mu (I - G F^mu)^{-1}              singular at outliers, p r x p r

which is exact to order 1/N: no dimension is counted twice, and students mix into the outliers by their actual overlaps with
the teacher (of order N^{-1/2} in a sample). Both are the equations of dimension n' with eigenvalues times n'/N. What is left
of an outlier, its scatter given the labels, is in theory.finite.block_noise.

There is one edge, whatever leaves: where the lowest level of the bulk would be but for its Tracy-Widom scatter. With
b_i (r p,) the coupling of the span to the i-th level mu_i of the bulk of dimension n', the levels of the whole matrix are the
zeros of det(z - Xi(z)), whose pole at mu_i is b_i b_i^T/(z - mu_i); as many leave as Xi has outliers, and the rest interlace.
Beside the pole stands the margin matrix M = edge - Xi(edge), positive on directions that pull an outlier out, so that a level
moves by b^T M^{-1} b: to the right, away from the outliers, and to the left, pushed by directions that stay in. The poles make
g singular with the same weight, hence E[b b^T] = (dXi/dg)/(p n'), g the mean trace, and the mean displacement is

    sum_j c_j / m_j,      c_j = x_j^T (dXi/dg) x_j / (p n'),      m_j, x_j eigenpairs of M.

A direction without labels of its own has m = 1/g, dXi/dg = 1/g^2: what one dimension more does to the edge (tests). Next to a
threshold, |m_j| < kappa c_j ~ N^{-1/3}, no level moves by more than the distance to the next, and which one is the lowest of
the bulk changes: 1/m is taken as m/(m^2 + (kappa c)^2), so that nothing jumps as an outlier appears. There the law is that of
Bloemendal and Virag (theory.finite.law draws it). In dense samples (benchmarks/quenched.py edge) the mean is that of Tracy
and Widom about this edge to 0.3/kappa away from thresholds; up to 1.2/kappa above it where an outlier has just left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from theory.answers import Printed
from theory.checks import ParameterError, count, finite, generator, numpy_defaults, one, ratio
from theory.exact.committee import committee_weights, finite_committee
from theory.finite.tracy_widom import tracy_widom_scale
from theory.general.dyson import Dyson, DysonEdge
from theory.general.spikes import SpikeBlock
from theory.general.state import State
from theory.model.network import Network

Array = NDArray[np.float64]

_NORMS = 0.1, 10.0  # of rows, squared, over n: further from 1 the factor 1/n has been left out, or put twice
_ASYMMETRY = 1e-6


@dataclass(frozen=True, repr=False)
class Quenched(Printed):
    """Predictions for one draw of labels, in units of the Hessian.

    edge                 left edge of the bulk, as teacher and students push it
    outliers (k,)        eigenvalues that leave the bulk outside the span, lowest first, NaN where there are fewer than k =
                         p p_star; left of `edge` but for one that has barely left, by O(1/n)
    overlaps (k,)        squared overlap of each with the signal space, NaN likewise
    margins (k,)         how far the block of the span is beyond the bulk, largest first; an outlier exists where positive
    scale                kappa: about `edge` the lowest bulk eigenvalue fluctuates as -TW1 / kappa
    g (p, p)             G at the edge of the bulk outside the span
    directions (k', p + p_star, p), residues (k',)  of the k' outliers there are: their components on the orthonormal basis
                         of teacher and students (x) student blocks, norm 1, and their squared overlap with all of that span
    """

    edge: float
    outliers: Array
    overlaps: Array
    margins: Array
    scale: float
    g: Array
    directions: Array
    residues: Array

    @property
    def lowest(self) -> float:
        """Predicted lowest eigenvalue without its Tracy-Widom shift: the lowest outlier or the edge."""
        return float(np.nanmin(np.append(self.outliers, self.edge)))


@numpy_defaults
def quenched(model: Network, lam: ArrayLike, u: ArrayLike, n: int, gram: ArrayLike | None = None) -> Quenched:
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
        Overlaps of the rows, teacher first and students after, over n; without it they count as orthogonal, which leaves out a
        term of order 1/N for an actual sample, and none for labels drawn independently.

    Returns
    -------
    Quenched
        Edge, outliers and overlaps in units of the Hessian.

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
    model, lam, u = checked_labels(model, lam, u)
    y, vectors = np.mean(u**2, axis=1), orthonormal(np.hstack([u, lam]), gram)
    inner = n - vectors.shape[1]
    if inner < 1:
        raise ParameterError(f"n must be above p + p_star = {vectors.shape[1]}, got {n}")
    dyson = Dyson(committee_weights(model.a, lam, y), 1 / inner, _eigenvalues(model, lam, y))
    k, unit, edge, block = int(model.degeneracy), inner / n, dyson.edge(), SpikeBlock(dyson, vectors)
    state = block.at(edge)
    found = block.spikes(state, edge.value)
    kappa = tracy_widom_scale(model.p * inner, edge.curvature)
    directions, residues = found.directions[:k], found.overlaps[:k]
    seen = residues * np.sum(directions[:, : model.p_star] ** 2, axis=(1, 2))
    padding = np.full(k - len(seen), np.nan)
    return Quenched(
        edge=(edge.value + level_push(block, state, edge, inner, kappa)) * unit,
        outliers=np.concatenate([found.values[:k] * unit, padding]),
        overlaps=np.concatenate([seen, padding]),
        margins=np.asarray(found.margins[:k] * unit, dtype=np.float64),
        scale=kappa / unit,
        g=np.asarray(edge.g, dtype=np.float64),
        directions=np.asarray(directions, dtype=np.float64),
        residues=np.asarray(residues, dtype=np.float64),
    )


def level_push(block: SpikeBlock, state: State, edge: DysonEdge, inner: int, kappa: float) -> float:
    """By how much the directions of `block` displace the lowest level of a bulk of dimension `inner`, units of its equation.

    state, edge  of the bulk;  kappa  its scale: 0 leaves 1/m as it is. Derived in the docstring of this module.
    """
    levels, vectors = np.linalg.eigh(block.xi(state))
    null = state.coordinates(edge.null)
    rise = inner * float(state.coordinates(state.inverse_q) @ null)  # p n' dg along the null vector
    shape = (1, block.v.shape[1], block.dyson.p)
    c = np.array([block.slope(state, x.reshape(shape)) @ null for x in vectors.T]) / rise
    m = edge.value - levels
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
    return np.asarray(solve_triangular(factor, projections.T, lower=True).T)


def draw_gram(model: Network, n: int, rng: np.random.Generator) -> Array:
    """Overlaps (r, r) of orthogonal teacher rows and random student rows on the sphere in dimension n, teacher first.

    By Bartlett's decomposition: components on the rows before are normal, what is left has a chi-square of n - j.

    >>> draw_gram(Network(1, 1, 0.5), 100, np.random.default_rng(0)).shape
    (2, 2)
    """
    factor = gram_factor(finite_committee(model), n, rng)
    return np.asarray(factor @ factor.T)


def gram_factor(model: Network, n: int, rng: np.random.Generator) -> Array:
    """The lower triangle L (r, r) of overlaps L L^T as `draw_gram` draws them: rows on an orthonormal basis, teacher first."""
    p, p_star = int(model.p), model.p_star
    factor = np.eye(p + p_star)
    for j in range(p_star, p + p_star):
        row = np.append(rng.standard_normal(j), np.sqrt(rng.chisquare(n - j)))
        factor[j, : j + 1] = row / np.linalg.norm(row)
    return factor


@numpy_defaults
def mean_margin(model: Network, lam: ArrayLike, y: ArrayLike, coefficients: ArrayLike) -> float:
    """Mean over the p p_star directions of the signal of the margin edge - Xi(edge).

    lam (m, p), teacher outputs y (m,) = mean of u^2, coefficients (m,) or one number: 1/n for a sample. Raises
    ParameterError on other shapes, entries that are not finite, y < 0 or p = inf.
    """
    model, lam = _student_labels(model, lam)
    y = np.asarray(finite("y", y))
    if y.shape != (len(lam),) or np.any(y < 0):
        raise ParameterError(
            f"y must have shape ({len(lam)},) and be at least 0, got shape {y.shape}, least {np.min(y, initial=0):g}"
        )
    dyson = Dyson(committee_weights(model.a, lam, y), coefficients, _eigenvalues(model, lam, y))
    edge = dyson.edge()
    return edge.value - float(np.trace(SpikeBlock(dyson, np.sqrt(y)[:, None]).xi_at(edge))) / dyson.p


@dataclass(frozen=True, repr=False)
class QuenchedMean(Printed):
    """Averages of quenched predictions over independent draws of labels, each with its standard error (`*_error`).

    edge, edge_std            mean and standard deviation over draws of the edge
    outliers, overlaps (k,)   means over the draws in which that outlier exists, NaN where it never does
    fraction (k,)             share of draws in which it exists
    lowest                    mean of the lowest outlier, or of the edge in draws without one
    margin                    mean over the k = p p_star margins
    draws                     number of draws
    """

    edge: float
    edge_error: float
    edge_std: float
    outliers: Array
    outliers_error: Array
    overlaps: Array
    overlaps_error: Array
    fraction: Array
    lowest: float
    lowest_error: float
    margin: float
    margin_error: float
    draws: int


@numpy_defaults
def quenched_mean(model: Network, alpha: float, n: int, draws: int, rng: np.random.Generator) -> QuenchedMean:
    """Quenched predictions averaged over `draws` draws of round(alpha n) labels in dimension n.

    Each draw has its own overlaps of students and teacher (`draw_gram`), labels that go with them.
    Raises ParameterError on bad arguments.

    >>> found = quenched_mean(Network(1, 1, 0.5), 3.0, 100, 4, np.random.default_rng(0))
    >>> found.draws, found.lowest <= found.edge
    (4, True)
    """
    model, rng = finite_committee(model), generator("rng", rng)
    n, draws = count("n", n), count("draws", draws, minimum=2)
    m = count("samples", round(one("alpha", ratio("alpha", alpha)) * n))
    runs = []
    for _ in range(draws):
        gram = draw_gram(model, n, rng)
        both = rng.standard_normal((m, len(gram))) @ np.linalg.cholesky(gram).T
        runs.append(quenched(model, both[:, model.p_star :], both[:, : model.p_star], n, gram))
    edges, lowest = np.array([r.edge for r in runs]), np.array([r.lowest for r in runs])
    outliers, overlaps = (np.array([getattr(r, name) for r in runs]) for name in ("outliers", "overlaps"))
    margin = np.array([r.margins.mean() for r in runs])
    outliers_mean, outliers_error = _present(outliers)
    overlaps_mean, overlaps_error = _present(overlaps)
    return QuenchedMean(
        *_mean(edges),
        float(edges.std(ddof=1)),
        outliers_mean,
        outliers_error,
        overlaps_mean,
        overlaps_error,
        np.isfinite(outliers).mean(axis=0),
        *_mean(lowest),
        *_mean(margin),
        draws,
    )


def _mean(values: Array) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def _present(values: Array) -> tuple[Array, Array]:
    """Mean and standard error down axis 0 over the finite entries of each column; NaN where there are too few."""
    columns = [column[np.isfinite(column)] for column in values.T]
    means = np.array([c.mean() if len(c) else np.nan for c in columns])
    errors = np.array([c.std(ddof=1) / math.sqrt(len(c)) if len(c) > 1 else np.nan for c in columns])
    return means, errors


def checked_labels(model: Network, lam: ArrayLike, u: ArrayLike) -> tuple[Network, Array, Array]:
    """Preactivations lam (M, p), u (M, p_star) of a model of finite width as arrays; ParameterError on other shapes."""
    model, lam = _student_labels(model, lam)
    u = np.asarray(finite("u", u))
    if u.shape != (len(lam), model.p_star):
        raise ParameterError(f"u must have shape ({len(lam)}, {model.p_star}), got {u.shape}")
    return model, lam, u


def _student_labels(model: Network, lam: ArrayLike) -> tuple[Network, Array]:
    model, lam = finite_committee(model), np.asarray(finite("lam", lam))
    if lam.ndim != 2 or not len(lam) or lam.shape[1] != model.p:
        raise ParameterError(f"lam must have shape (M, {model.p}), got {lam.shape}")
    return model, lam


def _eigenvalues(model: Network, lam: Array, y: Array) -> tuple[Array, Array]:
    """The two distinct eigenvalues of each weight (rows) and their multiplicities p - 1 and 1."""
    p = int(model.p)
    yhat = np.mean(lam**2, axis=1)
    f2 = (2 / p) * (3 * yhat - y) / (model.a + y)
    if p == 1:
        return f2[None], np.ones(1)
    return np.stack([(2 / p) * (yhat - y) / (model.a + y), f2]), np.array([p - 1.0, 1.0])
