"""Density of eigenvalues without diagonalising: stochastic Lanczos quadrature, with its error bar.

For a random unit vector v the measure sum_i (v . v_i)^2 delta(x - lambda_i) is, on average over v, the density
of eigenvalues; s Lanczos steps from v give its Gauss quadrature, exact for polynomials of degree 2 s - 1
(Golub and Meurant, Matrices, Moments and Quadrature, 2010; Ubaru, Chen and Saad, SIAM J. Matrix Anal. Appl.
38, 1075 (2017)). Several probe vectors advance together, one pass over the data a step, with full
reorthogonalisation of each against its own past. The scatter between probes gives the error. Unlike
the kernel polynomial method no bound of the spectrum is needed, and the long right tail costs no resolution
at the left edge.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh_tridiagonal

from sims.checks import has
from sims.krylov.solver import OPERATOR, BlockOperator
from sims.pinned import pinned
from theory.checks import ParameterError, count, finite, positive

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Quadrature:
    """Gauss quadratures of the spectral measure, one for each probe.

    nodes    (probes, steps) in units of the Hessian, ascending
    weights  (probes, steps), at least 0, adding up to 1 for each probe
    """

    nodes: Array
    weights: Array

    def average(self, values: ArrayLike) -> tuple[Array, Array]:
        """Mean over the spectrum of a function given at the nodes, (..., probes, steps), and standard error."""
        return _mean(np.sum(self.weights * np.asarray(values), axis=-1))

    def density(self, x: ArrayLike, width: float) -> tuple[Array, Array]:
        """Density of eigenvalues at x, smoothed by a Gaussian of standard deviation `width`, and its standard error.

        The error is that of the probes alone; a width below the spacing of the nodes shows single nodes.
        """
        x, width = np.asarray(finite("x", x)), positive("width", width)
        scaled = (x[..., None, None] - self.nodes) / width
        return self.average(np.exp(-(scaled**2) / 2) / (width * math.sqrt(2 * math.pi)))

    def fraction_below(self, x: ArrayLike) -> tuple[Array, Array]:
        """Share of the eigenvalues below x, and its standard error.

        Of a probe's own measure the share below a node lies between the weights before it and these and its
        own (Chebyshev, Markov, Stieltjes): the middle is taken at the nodes, straight lines between them.
        """
        x = np.asarray(finite("x", x))
        middle = np.cumsum(self.weights, axis=1) - self.weights / 2
        each = [np.interp(x, t, f, left=0, right=1) for t, f in zip(self.nodes, middle, strict=True)]
        return _mean(np.stack(each, axis=-1))

    def moment(self, power: int) -> tuple[Array, Array]:
        """Mean of lambda^power over the spectrum, and its standard error."""
        return self.average(self.nodes ** count("power", power, minimum=0))


def _mean(each: Array) -> tuple[Array, Array]:
    """Mean over probes (the last axis) and its standard error, NaN for one probe."""
    if each.shape[-1] == 1:
        return each[..., 0], np.full(each.shape[:-1], np.nan)
    return np.mean(each, axis=-1), np.std(each, axis=-1, ddof=1) / math.sqrt(each.shape[-1])


@pinned
def lanczos_quadrature(
    operator: BlockOperator, *, probes: int = 8, steps: int = 100, seed: int = 0
) -> Quadrature:
    """The spectral measure of an operator of one set from random unit vectors.

    probes  vectors: the error falls as 1 / sqrt(probes p N)
    steps   Lanczos steps, at most the order: resolution is about the width of the spectrum over steps,
            finer towards its ends

    >>> from sims.instance import draw
    >>> from sims.operator.operator import hessian_operator
    >>> from theory.model import Committee
    >>> operator = hessian_operator(draw(Committee(2, 1, 1.0), 12, 2.5, seed=1))
    >>> lanczos_quadrature(operator, probes=2, steps=6).nodes.shape
    (2, 6)
    """
    probes, steps = count("probes", probes), count("steps", steps)
    if has("operator", operator, *OPERATOR).sets != 1:
        raise ParameterError(f"lanczos_quadrature wants an operator of one set, got {operator.sets}")
    start = np.random.default_rng(count("seed", seed, 0)).standard_normal((operator.order, probes))
    return measure_of(operator, start, min(steps, operator.order))


@pinned
def measure_of(operator: BlockOperator, start: ArrayLike, steps: int) -> Quadrature:
    """The spectral measures of given vectors (order, probes), rows in the operator's order, each normalised."""
    start = np.asarray(start)
    vectors = jnp.asarray(start / np.linalg.norm(start, axis=0), operator.dtype)
    past = jnp.zeros((steps, *vectors.shape), operator.dtype)
    diagonal, beside = [], []
    for step in range(steps):
        (product,) = operator.product([0], [vectors])
        past, vectors, along, length = _advance(past, vectors, product, step)
        diagonal.append(np.asarray(along, dtype=np.float64))
        beside.append(np.asarray(length, dtype=np.float64))
    pairs = [
        eigh_tridiagonal(d, e[:-1]) for d, e in zip(np.array(diagonal).T, np.array(beside).T, strict=True)
    ]
    unit = operator.units[0]
    return Quadrature(np.array([v for v, _ in pairs]) * unit, np.array([s[0] ** 2 for _, s in pairs]))


@functools.partial(jax.jit, donate_argnums=0)
def _advance(
    past: jax.Array, vectors: jax.Array, product: jax.Array, step: jax.Array | int
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """One Lanczos step of every probe: the past (steps, n, probes) with `vectors`, the vectors to follow, T's entries."""
    past = jax.lax.dynamic_update_index_in_dim(past, vectors, step, axis=0)
    along = jnp.sum(vectors * product, axis=0)
    size = jnp.linalg.norm(product, axis=0)
    for _ in range(2):
        overlap = jnp.einsum("jnq,nq->jq", past, product, precision=jax.lax.Precision.HIGHEST)
        product -= jnp.einsum("jnq,jq->nq", past, overlap, precision=jax.lax.Precision.HIGHEST)
    length = jnp.linalg.norm(product, axis=0)
    # an invariant space: T falls apart, and what follows has weight zero
    length = jnp.where(length > 100 * jnp.finfo(past.dtype).eps * size, length, 0)
    return past, jnp.where(length > 0, product / jnp.where(length > 0, length, 1), 0), along, length
