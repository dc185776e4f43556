"""Starts of gradient descent from eigenvectors: the Hessian's own outliers, and the classical spectral method.

Both give an estimate of the span of the teacher, an orthonormal (p_star, N), and from it a student. Rows k and
k + p_star of a student wider than the teacher would start equal and, the loss being symmetric in its rows, stay
equal for ever; `spread` sets them apart.

Eigenvectors have no sign, and a loss that is not even in a student row has one: `signed` takes the sign of lower loss.

The weighted covariance sum_mu T(y^mu) x^mu x^mu^T, its sources, its choices of T (`optimal` by default) and its
theory at N = inf are those of theory.general.spectral_methods.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sims.checks import reals
from theory.checks import ParameterError, count, function
from theory.general.spectral_methods import optimal
from theory.model.network import Network, network

Array = NDArray[np.float64]
OPTIMAL = optimal()


def spectral_matrix(data: Array, y: Array, preprocessing: Callable[[Array], Array] = OPTIMAL) -> Array:
    """sum_mu T(y^mu) x^mu x^mu^T (N, N), symmetric; data (M, N), y (M,)."""
    data = reals("data", data, None, None)
    y = reals("y", y, len(data))
    data, y = np.asarray(data), np.asarray(y)
    return (data * reals("T(y)", function("preprocessing", preprocessing)(y), len(data))[:, None]).T @ data


def spectral_directions(
    data: Array,
    y: Array,
    p_star: int,
    preprocessing: Callable[[Array], Array] = OPTIMAL,
    *,
    end: str = "top",
) -> Array:
    """The estimate of the teacher's span by the spectral method: orthonormal (p_star, N), the strongest first.

    data (M, N), y (M,); preprocessing maps labels to weights T(y); end "top" or "lowest" says at which end of the spectrum
    the teacher shows (top for an increasing T, lowest for the weights of a Hessian). Raises ParameterError.
    """
    n = reals("data", data, None, None).shape[1]
    p_star = count("p_star", p_star)
    if end not in ("top", "lowest"):
        raise ParameterError(f'end must be "top" or "lowest", got {end!r}')
    if p_star > n:
        raise ParameterError(f"p_star must be at most N = {n}, got {p_star}")
    sign = 1.0 if end == "lowest" else -1.0
    matrix = sign * spectral_matrix(data, y, preprocessing)
    if not np.all(np.isfinite(matrix)):
        raise ParameterError("preprocessing must give finite weights for every label")
    _, vectors = scipy.linalg.eigh(matrix, subset_by_index=[0, p_star - 1])
    return vectors.T


def outlier_directions(vectors: Array, p: int, p_star: int) -> Array:
    """Each student row's estimate of its share of the teacher's span from the Hessian's outlier eigenvectors:
    (p, N), unit rows.

    vectors  (pN, J) eigenvectors of the p p_star lowest eigenvalues, block-major (k N + i).

    Ideally they span e_k (x) w*_l, in an unknown basis. Block k of all of them (N, J) has the teacher's span as
    its p_star leading left singular vectors; all blocks side by side give one common estimate d_l. Row k is
    d_l, l = k mod p_star, seen by block k alone (projected on its leading singular vectors), so that rows of
    equal l differ by their blocks' own errors.
    """
    vectors, p, p_star = reals("vectors", vectors, None, None), count("p", p), count("p_star", p_star)
    n = vectors.shape[0] // p
    blocks = vectors.reshape(p, n, -1)
    common = np.linalg.svd(np.concatenate(list(blocks), axis=1), full_matrices=False)[0][:, :p_star]
    rows = np.empty((p, n))
    for k, block in enumerate(blocks):
        own = np.linalg.svd(block, full_matrices=False)[0][:, :p_star]
        row = own @ (own.T @ common[:, k % p_star])
        rows[k] = row / np.linalg.norm(row)
    return rows


def student_from(directions: Array, p: int, other: Array, *, spread: float = 0.1) -> Array:
    """A student (p, N), rows of norm sqrt(N): row k along direction k mod (number of directions).

    directions  (d, N) unit rows; other (p, N) a student drawn at random, which sets repeated rows apart: they
                have the share `spread`^2 / (1 + spread^2) of their squared norm (about) along it. Students with
                p <= d are the directions themselves.
    """
    directions, p = reals("directions", directions, None, None), count("p", p)
    d, n = directions.shape
    other = reals("other", other, p, n)
    rows = directions[np.arange(p) % d]
    if p > d:
        rows = rows + spread * other / np.linalg.norm(other, axis=-1, keepdims=True)
    return rows * (np.sqrt(n) / np.linalg.norm(rows, axis=-1, keepdims=True))


def signed(model: Network, data: Array, y: Array, student: Array) -> Array:
    """The student (p, N) with each row in turn turned round where that lowers the loss; data (M, N), y (M,).

    Where the loss is even in a row, as in the committee's, nothing is turned: both losses are the same number.
    """
    data = np.asarray(reals("data", data, None, None))
    y, wide = np.asarray(reals("y", y, len(data))), network(model)
    found = np.array(reals("student", student, None, data.shape[1]))
    lam = data @ found.T
    least = float(np.sum(wide.losses(lam, y)))
    for k in range(len(found)):
        lam[:, k] *= -1
        other = float(np.sum(wide.losses(lam, y)))
        if other < least:
            found[k], least = -found[k], other
        else:
            lam[:, k] *= -1
    return found


def spectral_refusal(model: Network) -> str:
    """Why the spectral method's optimal weights do not suit a model; empty where they do.

    T(y) = 1 - 1/y are the weights of the outputs y = mean_l u_l^2 of inputs N(0, 1/N), whatever the student and the loss are.
    """
    wide = network(model)
    known = {
        "a quadratic teacher": wide.teacher.name == "quadratic" and wide.target is None,
        "no noise": wide.noise == 0 and wide.output_noise == 0,
        "inputs without covariance": wide.covariance is None and wide.inputs is None,
    }
    missing = [name for name, holds in known.items() if not holds]
    return f"start spectral weighs labels optimally for {missing[0]}: not this model's" if missing else ""
