"""The Hessian of the loss in the student weights: weights F, dense matrix.

Source: Annesi, Bocchi, Cammarota, arXiv 2510.18435, section 2 (the loss), differentiated twice; for any network with outputs
y and yhat = sum_k c_k s(lam_k + b_k), c = 1/p and b = 0 unless given, and a loss l(y, yhat) of derivatives l', l'' in yhat:

    H_{qq'} = sum_mu F^mu_{qq'} x^mu x^mu^T
    F = diag(l' c s''(lam + b)) + l'' (c s'(lam + b)) (c s'(lam + b))^T = diag(d) + l'' g g^T

Of the committee, s = x^2 and l = (y - yhat)^2 / (2 (a + y)): F = (2/p) [ (2/p) lam lam^T + (yhat - y) I ] / (a + y).

The pN x pN matrix is ordered block-major: index k N + i is component i of student row k. The module is also the function
`hessian`: `sims.hessian(sims.draw(...))`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from sims.backend import HIGHEST, blas, pinned
from sims.checks import of_type, reals
from sims.instance import Instance, preactivations_inside, teacher_noise
from theory.checks import NORMALISATIONS, ParameterError
from theory.model.network import Network, network

BLOCK = 256  # rows in one symmetric rank update
GENERAL = 128  # N up to which a block is one general product: the fixed costs of symmetric updates are a third of theirs
TILE = 128  # of a matrix that is transposed
_ABOVE = np.triu(np.ones((TILE, TILE), bool), 1)


def form(model: Network) -> Network:
    """What a compiled program has to know of a model: its functions alone, whatever a, noise and the law of the inputs are.

    Networks of one form are equal, and share the program. Raises ParameterError on what is no model.

    >>> form(Network(a=0.3, noise=0.1)) == form(Network(a=2.0, covariance="mp:0.5"))
    True
    """
    # The largest a suits every teacher and every positive loss.
    a = NORMALISATIONS[1] if network(model).rule.has_a else 1.0
    model = replace(model, a=a, noise=0.0, output_noise=0.0)
    return replace(model, covariance=None, inputs=None, overlap=0.0, gram=None)


def weights_of(instance: Instance) -> NDArray[np.float64]:
    """Weights F (M, p, p) of an instance on the host in float64, noise of the teacher included."""
    return weights_together([instance])[0]


@pinned
def weights_together(drawn: Sequence[Instance]) -> NDArray[np.float64]:
    """`weights_of` of each instance, of one model and M: (instances, M, p, p); what is done sample by sample is done once for
    all of them."""
    both = [preactivations_inside(one) for one in drawn]
    lam, u = (np.concatenate(parts) for parts in zip(*both, strict=True))
    wide = drawn[0].model
    zeta = xi = None
    if wide.noise or wide.output_noise:
        noise = [teacher_noise(one.model, one.key, 0, one.m) for one in drawn]
        zeta, xi = (None if parts[0] is None else np.concatenate(parts) for parts in zip(*noise, strict=True))
    found = np.asarray(wide.weights(lam, wide.outputs(u, zeta, xi)))
    return found.reshape(len(drawn), -1, *found.shape[1:])


@pinned
def dense(data: ArrayLike, F: ArrayLike) -> jax.Array:
    """The Hessian (pN, pN) from data (M, N) and weights F (M, p, p), by products of matrices on JAX's device.

    Blocks k <= k' only: F is symmetric. On the CPU `dense_blas` does it in half the operations. Raises ParameterError on
    arrays that do not fit.

    >>> dense(jnp.ones((5, 3)), jnp.ones((5, 2, 2))).shape
    (6, 6)
    """
    rows, weights = _rows_and_weights(data, F)
    p = weights.shape[-1]
    # a program each: of several in one program XLA writes all scaled rows out before it multiplies, on a GPU
    blocks = {(k, j): _block(rows, weights[:, k, j]) for k in range(p) for j in range(k, p)}
    return _joined(blocks) if p > 1 else blocks[0, 0]


def _rows_and_weights(data: Any, F: Any) -> tuple[Any, Any]:
    """Data (M, N) and weights F (M, p, p) that fit, as arrays; else ParameterError."""
    data = reals("data", data, None, None)
    F = reals("F", F, len(data), None, None)
    if F.shape[1] != F.shape[2]:
        raise ParameterError(f"F must have shape (M, p, p), got {F.shape}")
    return data, F


@jax.jit
def _block(data: jax.Array, f: jax.Array) -> jax.Array:
    """X^T diag(f) X, symmetric to the bit."""
    block = jnp.matmul(data.T, f[:, None] * data, precision=HIGHEST)
    # The product is symmetric to rounding only.
    return (block + block.T) / 2


@jax.jit
def _joined(blocks: dict[tuple[int, int], jax.Array]) -> jax.Array:
    """The matrix of blocks k <= j."""
    p = 1 + max(k for k, _ in blocks)
    return jnp.block([[blocks[min(k, j), max(k, j)] for j in range(p)] for k in range(p)])


def hessian(drawn: Instance) -> NDArray:
    """The Hessian of one draw, as a matrix on the host.

    Parameters
    ----------
    drawn : Instance
        Of `sims.draw`, with its data.

    Returns
    -------
    NDArray (pN, pN)
        In the units of the loss and the dtype of the draw, symmetric.

    Raises
    ------
    theory.checks.ParameterError
        For a draw without data.

    >>> from sims.instance import draw
    >>> from theory.model import Network
    >>> hessian(draw(Network(p=2), 12, 2.5)).shape
    (24, 24)
    """
    if of_type("drawn", drawn, Instance).data is None:
        raise ParameterError("the draw must hold its data for a matrix: draw(..., data=True)")
    return dense_blas(np.asarray(drawn.data)[: drawn.m], weights_of(drawn))


def dense_blas(data: NDArray, F: NDArray) -> NDArray:
    """The Hessian (pN, pN) on the host, column-major, from data (M, N) and weights F (M, p, p); symmetric, to rounding where
    N is small.

    Each block X^T diag(f) X is symmetric: rows of positive and of negative weight go to one symmetric rank
    update each (syrk), half the operations of a general product, which small ones are nevertheless faster by.

    Parameters
    ----------
    data : array (M, N)
        Rows of inputs.
    F : array (M, p, p)
        Symmetric weights of each row, as from `weights_of`.

    Returns
    -------
    array (pN, pN)
        In the units of F and the dtype of the data; index k N + i is coordinate i of student k.

    Raises
    ------
    theory.checks.ParameterError
        On arrays that do not fit.
    """
    data, F = (np.asarray(array) for array in _rows_and_weights(data, F))
    p, n = F.shape[-1], data.shape[1]
    gram, scaled = np.empty((n, n), data.dtype, order="F"), np.empty((min(BLOCK, len(data)), n), data.dtype)
    made = _by_products if n <= GENERAL else _by_updates
    if p == 1:
        return made(data, F[:, 0, 0], gram, scaled)
    hessian = np.empty((p * n, p * n), data.dtype, order="F")
    for k in range(p):
        for j in range(k + 1):
            block = made(data, F[:, k, j], gram, scaled)
            hessian[k * n : (k + 1) * n, j * n : (j + 1) * n] = block
            if j < k:
                hessian[j * n : (j + 1) * n, k * n : (k + 1) * n] = block.T
    return hessian


def _by_products(data: NDArray, f: NDArray, gram: NDArray, scaled: NDArray) -> NDArray:
    """X^T diag(f) X, weights f (M,), in gram (N, N); scaled (up to BLOCK, N) is scratch."""
    gemm, f = blas("gemm", data.dtype), f.astype(data.dtype, copy=False)
    for start in range(0, len(data), BLOCK):
        rows = data[start : start + BLOCK]
        block = np.multiply(rows, f[start : start + BLOCK, None], out=scaled[: len(rows)])
        # transposes are column-major: no copy
        gram = gemm(1.0, block.T, rows.T, beta=float(start > 0), c=gram, trans_b=1, overwrite_c=1)
    return gram


def _by_updates(data: NDArray, f: NDArray, gram: NDArray, scaled: NDArray) -> NDArray:
    """The same by the weights' sign."""
    syrk = blas("syrk", data.dtype)
    gram[:] = 0
    # syrk takes no weights: rows are scaled by their roots, and the sign is the factor of the update.
    root = np.sqrt(np.abs(f)).astype(data.dtype, copy=False)
    for sign in (1.0, -1.0):
        (rows,) = (sign * f > 0).nonzero()
        for start in range(0, len(rows), BLOCK):
            some = rows[start : start + BLOCK]
            block = scaled[: len(some)]  # a block of rows at a time, scaled in the cache
            data.take(some, axis=0, out=block, mode="clip")  # clip: "raise" would go through a buffer
            block *= root[some, None]
            # block.T is (N, rows), column-major: no copy
            gram = syrk(sign, block.T, beta=1.0, c=gram, lower=1, overwrite_c=1)
    return _mirrored(gram)


def _mirrored(lower: NDArray) -> NDArray:
    """The symmetric matrix whose lower triangle is given, in its place, by tiles."""
    n = len(lower)
    # Tiles stay in the cache, where a whole row of a column-major matrix would take a line of it for each entry.
    for j in range(0, n, TILE):
        corner = lower[j : j + TILE, j : j + TILE]
        np.copyto(corner, corner.T, where=_ABOVE[: len(corner), : len(corner)])
        for i in range(j + TILE, n, TILE):
            lower[j : j + TILE, i : i + TILE] = lower[i : i + TILE, j : j + TILE].T
    return lower


sys.modules[__name__].__class__ = type("Hessian", (ModuleType,), {"__call__": staticmethod(hessian)})
