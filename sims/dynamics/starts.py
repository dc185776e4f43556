"""Starts of gradient descent: the drawn student, a given overlap, eigenvectors, or a function of one's own.

Eigenvectors are the Hessian's own outliers, or those of the classical spectral method. Both give an estimate of the span of
the teacher, an orthonormal (p_star, N), and from it a student. Rows k and k + p_star of a student wider than the teacher would
start equal and, the loss being symmetric in its rows, stay equal for ever; `spread` sets them apart.

Eigenvectors have no sign, and a loss that is not even in a student row has one: `signed` takes the sign of lower loss.

The weighted covariance sum_mu T(y^mu) x^mu x^mu^T, its sources, its choices of T (`optimal` by default) and its
theory at N = inf are those of theory.general.spectral_methods.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sims.checks import finite_p, reals
from sims.dynamics.hessians import lowest_plain
from sims.instance import Instance
from theory.checks import ParameterError, count, function, one, shown
from theory.general.spectral_methods import optimal
from theory.model.network import Network, network

Array = NDArray[np.float64]
Start = Callable[
    ..., Array
]  # (instance, data (M, N), y (M,)) -> student (p, N); it may want the sample's number as sample=
OPTIMAL = optimal()


def spectral_matrix(data: Array, y: Array, preprocessing: Callable[[Array], Array] = OPTIMAL) -> Array:
    """sum_mu T(y^mu) x^mu x^mu^T (N, N), symmetric; data (M, N), y (M,)."""
    data = reals("data", data, None, None)
    y = reals("y", y, len(data))
    data, y = np.asarray(data), np.asarray(y)
    return (data * reals("T(y)", function("preprocessing", preprocessing)(y), len(data))[:, None]).T @ data


def spectral_directions(
    data: Array, y: Array, p_star: int, preprocessing: Callable[[Array], Array] = OPTIMAL
) -> Array:
    """The estimate of the teacher's span by the spectral method: orthonormal (p_star, N), the strongest first.

    data (M, N), y (M,); preprocessing maps labels to weights T(y), of which the teacher shows at the top of the spectrum (with
    -T where it shows at the lowest end, as with the weights of a Hessian). Raises ParameterError.
    """
    n = reals("data", data, None, None).shape[1]
    p_star = count("p_star", p_star)
    if p_star > n:
        raise ParameterError(f"p_star must be at most N = {n}, got {p_star}")
    matrix = -spectral_matrix(data, y, preprocessing)
    if not np.all(np.isfinite(matrix)):
        raise ParameterError("preprocessing must give finite weights for every label")
    return scipy.linalg.eigh(matrix, subset_by_index=[0, p_star - 1])[1].T


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

    Parameters
    ----------
    model : Network

    Returns
    -------
    str
        In a line.
    """
    wide = network(model)
    known = {
        "a quadratic teacher": wide.teacher.name == "quadratic" and wide.target is None,
        "no noise": wide.noise == 0 and wide.output_noise == 0,
        "inputs without covariance": wide.covariance is None and wide.inputs is None,
    }
    missing = [name for name, holds in known.items() if not holds]
    return f"start spectral weighs labels optimally for {missing[0]}: not this model's" if missing else ""


def random_start(instance: Instance, data: Array, y: Array) -> Array:
    """The student of the draw: uniform on the product of spheres, or at the overlaps with the teacher that the model gives."""
    return np.asarray(instance.student)


def hessian_start(instance: Instance, data: Array, y: Array) -> Array:
    """From the p p_star lowest eigenvectors of the plain Hessian at the drawn student (outliers, above alpha_BBP).

    For any model: where outliers mix directions of teacher and student, the start is what the lowest eigenvectors know.
    """
    model, student = instance.model, np.asarray(instance.student)
    p, wanted = student.shape[0], min(student.size, student.shape[0] * model.p_star)
    vectors = lowest_plain(instance, student, y, wanted).vectors
    directions = outlier_directions(vectors, p, model.p_star)
    return signed(model, data, y, directions * np.sqrt(instance.n))


def overlap_start_with(overlap: float) -> Start:
    """A start with rows w_k = m w*_(k mod p_star) + sqrt(1 - m^2) times the drawn row without its part on the teacher."""
    m = one("overlap", overlap)
    if not abs(m) <= 1:
        raise ParameterError(f"overlap of a start must lie between -1 and 1, got {m:g}")

    def start(instance: Instance, data: Array, y: Array) -> Array:
        teacher, rows = np.asarray(instance.teacher, np.float64), np.asarray(instance.student, np.float64)
        n = teacher.shape[1]
        rows = rows - rows @ teacher.T @ teacher / n
        rows *= np.sqrt(n) / np.linalg.norm(rows, axis=1, keepdims=True)
        return m * teacher[np.arange(len(rows)) % len(teacher)] + math.sqrt(1 - m**2) * rows

    return start


def own_start(name: str, value: Callable[..., Array]) -> Start:
    """A start by a function of one's own, called with teacher=, student=, data=, y= and sample=, the number of the sample.

    It gives a student (p, N), whose rows are scaled to norm sqrt(N). Where it fails, or gives anything else, the sample fails.

    Parameters
    ----------
    name : str
        In messages.
    value : function
        Gives an array (p, N).

    Returns
    -------
    function
        A start, as `start_of` takes it.
    """

    def start(instance: Instance, data: Array, y: Array, *, sample: int) -> Array:
        drawn = np.asarray(instance.student, np.float64)
        try:
            given = value(teacher=np.asarray(instance.teacher), student=drawn, data=data, y=y, sample=sample)
            found = np.asarray(given, np.float64)
        except ParameterError:
            raise
        except Exception as error:
            raise ParameterError(f"{name} fails: {type(error).__name__}: {shown(str(error))}") from None
        if found.shape != drawn.shape:
            raise ParameterError(f"{name} must give a student of shape {drawn.shape}, got {found.shape}")
        sizes = np.linalg.norm(found, axis=1, keepdims=True)
        if not np.all(np.isfinite(sizes) & (sizes > 0)):
            raise ParameterError(f"{name} must give finite rows that are not 0")
        return found * (np.sqrt(found.shape[1]) / sizes)

    return start


def spectral_start(instance: Instance, data: Array, y: Array) -> Array:
    """From the directions of the spectral method with its optimal weights."""
    directions = spectral_directions(data, y, instance.model.p_star)
    student = student_from(directions, finite_p(instance.model), np.asarray(instance.student))
    return signed(instance.model, data, y, student)


STARTS: dict[str, Start] = {
    "random": random_start,  # and "overlap:M", which is made of M
    "hessian": hessian_start,
    "spectral": spectral_start,
}


def start_of(start: str | Start) -> Start:
    """The start that this names, or is; ParameterError if none."""
    if callable(start):
        try:
            inspect.signature(start).bind(None, None, None, **named(start, 0))
        except (TypeError, ValueError):
            raise ParameterError(
                f"start must be a function (instance, data, y) or one of {', '.join(STARTS)}, got {shown(start)}"
            ) from None
        return start
    if isinstance(start, str) and start.startswith("overlap:"):
        text = start.removeprefix("overlap:")
        try:
            m = float(text)
        except ValueError:
            raise ParameterError(f"start overlap:M must have a number M, got {shown(text)}") from None
        return overlap_start_with(m)
    if not isinstance(start, str) or start not in STARTS:
        raise ParameterError(f"start must be one of {', '.join(STARTS)}, overlap:M, got {shown(start)}")
    return STARTS[start]


def named(start: Start, sample: int) -> dict[str, int]:
    """The number of the sample, for a start that takes it."""
    return {"sample": sample} if "sample" in inspect.signature(start).parameters else {}


def used_by(start: object, instance: Instance, y: Array) -> tuple[Array, Array] | None:
    """What a start has used of the data: forces (M, b), and vectors (c, N) that it was made of; None where that is not known,
    as of a function. H v = lambda v says v = X' (F X v) / lambda: forces like those of a descent."""
    drawn, data = (
        np.asarray(instance.student, np.float64),
        np.asarray(instance.data, np.float64)[: instance.m],
    )
    if start == "spectral":
        directions = spectral_directions(data, y, instance.model.p_star)
        return OPTIMAL(y)[:, None] * (data @ directions.T), np.concatenate([drawn, directions])
    if start == "hessian":
        wanted = min(drawn.size, len(drawn) * instance.model.p_star)
        vectors = lowest_plain(instance, drawn, y, wanted).vectors.T.reshape(-1, *drawn.shape)
        weights = instance.model.weights(data @ drawn.T, y)
        used = [np.einsum("mij,mj->mi", weights, data @ vector.T) for vector in vectors]
        return np.concatenate(used, axis=1), np.concatenate([drawn, *vectors])
    return (np.empty((len(data), 0)), drawn[:0]) if isinstance(start, str) else None
