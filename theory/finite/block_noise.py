"""What scatters outliers once the labels are fixed: a Gaussian block on the p p_star directions of the signal.

Derived here. The signal block b R b^T, R the resolvent of the bulk, has fluctuations of order N^{-1/2} about its mean. In the
covariance of two of its entries the two resolvents are tied by rungs sum_mu F (x) F, which carry the pair (k, m) of student
blocks of one line into itself: a ladder, L[X] = alpha E[Phi X Phi] with Phi = F (I - g F)^{-1}, that ends on the signal in
S'[X] = alpha E[y Phi X Phi]. With T = S' (1/g^2 - L)^{-1} S' on p x p matrices X,

    N Cov(W_{lk,l'k'}, W_{jm,j'm'}) = T_{km,k'm'} d_{lj} d_{l'j'} + T_{km',k'm} d_{lj'} d_{l'j}.

L and S' act as numbers on multiples of I, on symmetric traceless and on antisymmetric X, so that T has three values. p = 1: a
GOE block whose diagonal has the variance 2 (alpha S')^2 / (N |z'(g)|), the second term of the variance of an outlier. p > 1:
the multiples of I alone would give independent entries of 1/p of that; the other two sectors tie entries of different blocks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.checks import count
from theory.exact.committee import chi_square_law, finite_committee
from theory.finite.quenched import Quenched
from theory.model.network import Network

Array = NDArray[np.float64]


@lru_cache(maxsize=32)
def _nodes(model: Network) -> tuple[Array, Array, Array, Array]:
    p = int(model.p)
    (yhat, one), (y, two) = chi_square_law(p), chi_square_law(model.p_star)
    yhat, y = (v.ravel() for v in np.meshgrid(yhat, y, indexing="ij"))
    f1, f2 = ((2 / p) * (c * yhat - y) / (model.a + y) for c in (1, 3))
    return f1, f2, y, np.outer(one, two).ravel()


def ladder(model: Network, alpha: float, g: float) -> Array:
    """T (p, p, p, p), index order k, m, k', m', at a real g between the edge and 0; units of the Hessian squared."""
    model = finite_committee(model)
    p = int(model.p)
    f1, f2, y, probability = _nodes(model)
    phi, high = f1 / (1 - g * f1), f2 / (1 - g * f2)
    gap = high - phi
    both = phi**2 + 2 * phi * gap / p
    kinds = (((p - 1) * phi**2 + high**2) / p, both + 2 * gap**2 / (p * (p + 2)), both)
    values = []
    for factor in kinds:
        rung, end = alpha * float(factor @ probability), alpha * float((factor * y) @ probability)
        values.append(end**2 / max(float(1 / g**2 - rung), 1e-12))
    eye = np.eye(p)
    same = np.einsum("ac,bd->abcd", eye, eye)
    turned = np.einsum("ad,bc->abcd", eye, eye)
    trace = np.einsum("ab,cd->abcd", eye, eye) / p
    return np.asarray(
        values[0] * trace + values[1] * ((same + turned) / 2 - trace) + values[2] * (same - turned) / 2
    )


def block_covariance(model: Network, alpha: float, g: float, n: int) -> Array:
    """Covariance (d, d, d, d) of the entries W_ab, W_cd of the block, d = p_star p, teacher index first."""
    size: int = count("n", n)
    t = ladder(model, alpha, g) / size
    d = int(model.degeneracy)
    eye = np.eye(model.p_star)
    straight = np.einsum("kmKM,lj,LJ->lkLKjmJM", t, eye, eye)
    crossed = np.einsum("kMKm,lJ,Lj->lkLKjmJM", t, eye, eye)
    return np.asarray((straight + crossed).reshape(d, d, d, d))


def draw_blocks(covariance: Array, draws: int, rng: np.random.Generator) -> Array:
    """Symmetric Gaussian blocks (draws, d, d) of a covariance (d, d, d, d)."""
    d = len(covariance)
    values, vectors = np.linalg.eigh(covariance.reshape(d * d, d * d))
    root = vectors * np.sqrt(np.maximum(values, 0))
    raw = (rng.standard_normal((draws, d * d)) @ root.T).reshape(draws, d, d)
    return np.asarray((raw + raw.transpose(0, 2, 1)) / 2)


def scattered_outliers(
    model: Network, found: Quenched, alpha: float, n: int, draws: int, rng: np.random.Generator
) -> Array:
    """Outliers (draws, k'), lowest first, of samples that share the labels of `found`, to first order in the block noise.

    In the space of the k' outliers of the draw: eigenvalues of diag(outliers) + r W r, r^2 their residues.
    """
    values = found.outliers[np.isfinite(found.outliers)]
    if not len(values):
        return np.empty((draws, 0))
    g = _trace_at(model, alpha, n, float(values.mean()))
    blocks = draw_blocks(block_covariance(model, alpha, g, n), draws, rng)
    seen = found.directions[:, : model.p_star].reshape(len(values), -1) * np.sqrt(found.residues)[:, None]
    return np.asarray(np.linalg.eigvalsh(np.diag(values) + seen @ blocks @ seen.T), dtype=np.float64)


def _trace_at(model: Network, alpha: float, n: int, z: float) -> float:
    """g of the N = inf bulk at z, or just above the edge where z lies inside."""
    f1, f2, _, probability = _nodes(model)
    share = 1 / int(model.p)

    def below(g: float) -> Any:
        phi = (1 - share) * f1 / (1 - g * f1) + share * f2 / (1 - g * f2)
        return 1 / g + alpha * float(phi @ probability) - z

    low, high = -1e-9, -int(model.p) / 2 * (1 - 1e-9)
    grid = -np.geomspace(1e-4, -high, 200)
    values = np.array([below(v) for v in grid])
    top = int(np.argmax(values))
    if values[top] <= 0:
        return float(grid[max(top - 1, 0)])
    first = int(np.argmax(values > 0))
    low, high = (grid[first - 1], grid[first]) if first else (low, grid[0])
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) <= 0 else (low, middle)
    return float(low)
