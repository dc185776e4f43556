"""An upper bound on the squared overlap of any eigenvector with given directions, from a few Lanczos steps.

For a symmetric T and a vector s the measure mu = sum over eigenvectors v of (v.s)^2 delta(x - eigenvalue of v) has the total
mass |s|^2. m Lanczos steps from s give a tridiagonal matrix whose eigenvalues x_1 < ... < x_m, and |s|^2 times the squared
first entries w_i of its eigenvectors, are the nodes and weights of the Gauss rule of mu. The inequalities of Chebyshev,
Markov and Stieltjes say

    w_1 + ... + w_{i-1}  <=  mu(x < x_i)  <=  mu(x <= x_i)  <=  w_1 + ... + w_i

so that the open interval (x_i, x_{i+1}) holds at most w_i + w_{i+1}, each end beyond the nodes at most w_1 or w_m, and a node
itself at most w_i. With w_0 = w_{m+1} = 0, no eigenvector has

    (v.s)^2  >  max over i of (w_i + w_{i+1})

and for several directions the maxima add up. It holds for every m, also where Lanczos ends early in an invariant subspace:
fewer steps make it larger, not wrong. It falls no faster than about 1 / m, since m weights add up to |s|^2.

Sources: Akhiezer, The Classical Moment Problem, section 2.5; Golub and Meurant, Matrices, Moments and Quadrature with
Applications. The Christoffel function, the largest mass that one point can have, is up to twice as sharp; to bound it
between nodes takes several more rules, whose cost eats up what they gain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.linalg.blas import ddot, dgemv, dnrm2

STEPS = 64  # Lanczos steps at most
SEPARATE = 1e-8  # gap above the pairs found, a share of |T|, from which on rounding mixes them little with the others
MARGIN = 1e-5  # squared overlap: well above what rounding then does to the bound
_LEFT = 1e-7  # a residual below this share of |T| ends Lanczos: the next vector would be rounding


def settled(d: NDArray, e: NDArray, rest: NDArray, largest: float) -> bool:
    """Whether no eigenvector of T among those not found yet has a squared overlap of `largest` or more.

    d (n,), e (n - 1,)  diagonal and off-diagonal of T
    rest (n, r)         the directions less their components along the eigenvectors found, which a gap of at least
                        SEPARATE sets apart from the others
    False says that the bound is not good enough, not that there is such an eigenvector.
    """
    total = float(np.sum(np.square(rest)))
    for steps in (STEPS // 4, STEPS):
        if (
            2 * total / (steps + 1) >= largest - MARGIN
        ):  # sums of neighbours, of which there are steps + 1, add up to that
            continue
        bound = overlap_bound(d, e, rest, steps)
        if bound < largest - MARGIN:
            return True
        if bound * steps > largest * STEPS:  # out of reach: it falls no faster than 1 / steps
            return False
    return False


def point_mass(weights: NDArray) -> float:
    """The most that one point can have of a measure whose Gauss rule has these weights (m,), nodes ascending."""
    padded = np.concatenate([[0.0], weights, [0.0]])
    return float(np.max(padded[:-1] + padded[1:]))


def overlap_bound(d: NDArray, e: NDArray, directions: NDArray, steps: int) -> float:
    """Upper bound on the squared overlap of any eigenvector of T (d, e) with the span of directions (n, r)."""
    return sum(_largest_mass(d, e, s, steps) for s in np.asarray(directions, np.float64).T)


def _largest_mass(d: NDArray, e: NDArray, s: NDArray, steps: int) -> float:
    total = ddot(s, s)
    if total < MARGIN**2:
        return total
    return total * point_mass(eigh_tridiagonal(*lanczos(d, e, s, steps))[1][0] ** 2)


def lanczos(d: NDArray, e: NDArray, s: NDArray, steps: int) -> tuple[NDArray, NDArray]:
    """Diagonal (m,) and off-diagonal (m - 1,) of the Lanczos matrix of T (d, e) from s, m at most `steps` and n.

    Every vector is made orthogonal to all before it, which SciPy's Lanczos does not offer without its restarts.
    """
    n = len(d)
    least = _LEFT * (np.max(np.abs(d)) + 2 * np.max(np.abs(e), initial=0.0))
    basis = np.empty((n, min(steps, n)), order="F")
    alpha: list[float] = []
    beta: list[float] = []
    q = s / dnrm2(s)
    for i in range(basis.shape[1]):
        basis[:, i] = q
        w = d * q
        w[:-1] += e * q[1:]
        w[1:] += e * q[:-1]
        alpha.append(ddot(w, q))
        w -= alpha[-1] * q
        if i:
            w -= beta[-1] * basis[:, i - 1]
        # the three terms first, then all vectors: one pass is enough
        known = basis[:, : i + 1]
        w = dgemv(-1.0, known, dgemv(1.0, known, w, trans=1), beta=1.0, y=w, overwrite_y=1)
        size = dnrm2(w)
        if size <= least:
            break
        beta.append(size)
        q = w / size
    return np.array(alpha), np.array(beta[: len(alpha) - 1])
