"""Density of eigenvalues without diagonalising: stochastic Lanczos quadrature, with its error bar.

For a random unit vector v the measure sum_i (v . v_i)^2 delta(x - lambda_i) is, on average over v, the density
of eigenvalues; s Lanczos steps from v give its Gauss quadrature, exact for polynomials of degree 2 s - 1
(Golub and Meurant, Matrices, Moments and Quadrature, 2010; Ubaru, Chen and Saad, SIAM J. Matrix Anal. Appl.
38, 1075 (2017)). Several probe vectors advance together, one pass over the data a step, with full
reorthogonalisation of each against its own past. The scatter between probes gives the error. Unlike
the kernel polynomial method no bound of the spectrum is needed, and the long right tail costs no resolution
at the left edge.

An atom of known mass A at 0 (alpha < 1: the Hessian's null space, 1 - alpha of its order) is treated by itself. A Gauss rule
puts a node near 0 and gives it the atom and some of what lies on both sides; on which side of 0 it falls is chance. Here the
last entry of T is changed so that 0 is a node (Golub 1973, the rule with one prescribed node). Its weight is the atom's share
of the probe, which scatters about A, and the rest e of the node: the mean of e over probes is the mean weight less A, the atom
is given A, and the other weights of every probe are scaled to 1 - A, which takes the scatter of the atom's share out of the
estimate.

Where the vectors reached from a probe span an invariant space of fewer dimensions than steps (a rank below their number, a
multiple of the identity) the steps end there and the rule is the measure itself: its nodes are eigenvalues, 0 among them where
there is a null space. The end is known by an entry beside the diagonal that is rounding of the norm of T, not of the product at
hand, which is itself small in a null space. The rows of a table of nodes are filled up with the last node at weight 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh_tridiagonal

from sims.backend import HIGHEST, on_device, pinned, power_of_two
from sims.checks import of_type, reals
from sims.instance import Instance
from sims.operator import HessianOperator, hessian_operator, one_set
from theory.checks import ParameterError, count, finite, one, positive

Array = NDArray[np.float64]
ROUNDING = 100  # lengths below so many eps of |T| are none
NULL = 10  # eigenvalues below so many of these are 0


@dataclass(frozen=True)
class Quadrature:
    """Gauss quadratures of the spectral measure, one for each probe.

    nodes    (probes, steps) in units of the Hessian, ascending; the last one is repeated where a rule has fewer
    weights  (probes, steps), at least 0, adding up to 1 for each probe; 0 at repeated nodes
    atom     known mass at 0, contained in the weight of the node that is 0 exactly; 0: none
    whole    (probes,) whether the rule is all of its probe's measure: the steps met the end of an invariant space
    """

    nodes: Array
    weights: Array
    atom: float = 0.0
    whole: NDArray[np.bool_] | None = None

    def average(self, values: ArrayLike) -> tuple[Array, Array]:
        """Mean over the spectrum of a function given at the nodes, (..., probes, steps), and standard error."""
        return _mean(np.sum(self.weights * np.asarray(values), axis=-1))

    def density(self, x: ArrayLike, width: float) -> tuple[Array, Array]:
        """Density of eigenvalues at x, smoothed by a Gaussian of standard deviation `width`, and its standard error.

        The error is that of the probes alone; a width below the spacing of the nodes shows single nodes.
        """
        x, width = np.asarray(finite("x", x)), positive("width", width)
        with np.errstate(over="ignore", under="ignore"):  # far from a node
            scaled = (x[..., None, None] - self.nodes) / width
            return self.average(np.exp(-(scaled**2) / 2) / (width * math.sqrt(2 * math.pi)))

    def fraction_below(self, x: ArrayLike) -> tuple[Array, Array]:
        """Share of the eigenvalues below x, and its error.

        Of a probe's own measure the share below a node lies between the weights before it and these and its own, and between
        two nodes it lies within half of their weights about the middle (Chebyshev, Markov, Stieltjes; a known atom counts as
        known): the middle is taken, straight lines between nodes; a rule that is whole has steps at its nodes. The error is
        the standard error over probes and the mean half width of these bounds, added in squares.
        """
        x = np.asarray(finite("x", x))
        whole = np.zeros(len(self.nodes), bool) if self.whole is None else self.whole
        found = [
            _steps_below(x, t, w) if every else _share_below(x, t, w, self.atom)
            for t, w, every in zip(self.nodes, self.weights, whole, strict=True)
        ]
        mean, error = _mean(np.stack([share for share, _ in found], axis=-1))
        return mean, np.hypot(error, np.mean([half for _, half in found], axis=0))

    def moment(self, power: int) -> tuple[Array, Array]:
        """Mean of lambda^power over the spectrum, and its standard error; infinite beyond the range of float64."""
        power, unit = count("power", power, minimum=0), power_of_two(float(np.max(np.abs(self.nodes))))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            mean, error = self.average((self.nodes / unit) ** power)
            # The power of the unit comes last: only the result may overflow.
            scale = np.float64(unit) ** power
            return mean * scale, error * scale


def _steps_below(x: Array, nodes: Array, weights: Array) -> tuple[Array, Array]:
    """The share of one probe's whole measure below x (...), and the half width of its bounds: none."""
    share = np.concatenate([[0.0], np.cumsum(weights)])[np.searchsorted(nodes, x)]
    return share, np.zeros_like(share)


def _share_below(x: Array, nodes: Array, weights: Array, atom: float) -> tuple[Array, Array]:
    """The share of one probe's measure below x (...), and the half width of its bounds there."""
    rest = weights.copy()
    if atom:
        at = int(np.argmin(np.abs(nodes)))
        rest[at] = max(rest[at] - atom, 0.0)
    middle = np.cumsum(rest) - rest / 2
    share = np.interp(x, nodes, middle, left=0, right=float(np.sum(rest))) + atom * (x > 0)
    last = np.searchsorted(nodes, x) - 1  # the node before x
    sides = np.concatenate([[0.0], rest, [0.0]])
    return share, (sides[last + 1] + sides[last + 2]) / 2


def _mean(each: Array) -> tuple[Array, Array]:
    """Mean over probes (the last axis) and its standard error, NaN for one probe."""
    if each.shape[-1] == 1:
        return each[..., 0], np.full(each.shape[:-1], np.nan)
    return np.mean(each, axis=-1), np.std(each, axis=-1, ddof=1) / math.sqrt(each.shape[-1])


@pinned
def lanczos_quadrature(
    operator: HessianOperator,
    *,
    probes: int = 8,
    steps: int = 100,
    seed: int = 0,
    atom: float | None = None,
) -> Quadrature:
    """The spectral measure of an operator of one set from random unit vectors.

    probes  vectors: the error falls as 1 / sqrt(probes p N)
    steps   Lanczos steps, at most the order: resolution is about the width of the spectrum over steps,
            finer towards its ends
    atom    mass at 0 that is known; None: what the operator knows (`HessianOperator.atom`)

    >>> from sims.instance import draw
    >>> from sims.operator import hessian_operator
    >>> from theory.model import Network
    >>> operator = hessian_operator(draw(Network(2, 1, 1.0), 12, 2.5, seed=1))
    >>> lanczos_quadrature(operator, probes=2, steps=6).nodes.shape
    (2, 6)
    """
    probes, steps = count("probes", probes), count("steps", steps)
    order = one_set(operator).order
    start = np.random.default_rng(count("seed", seed, 0)).standard_normal((order, probes))
    steps = min(steps, order)
    atom = operator.atom if atom is None else one("atom", finite("atom", atom))
    if not 0 <= atom < 1:
        raise ParameterError(f"atom must be at least 0 and below 1, got {atom}")
    if not atom or steps < 3:
        return measure_of(operator, start, steps)
    found = _rules(operator, start, steps, _with_node_at_zero)
    at = np.argmax(np.where(found.nodes == 0, found.weights, -1.0), axis=1)[:, None]
    held = np.take_along_axis(found.weights, at, axis=1)
    excess = max(float(np.mean(held)) - atom, 0.0)  # of the node at 0, not of the atom
    # Each probe's other weights add up to 1 - A: how much of the null space it happens to have no longer counts.
    scale = (1 - atom) / (1 - held + excess)
    weights = found.weights * scale
    np.put_along_axis(weights, at, atom + excess * scale, axis=1)
    return replace(found, weights=weights, atom=atom)


def density_of_states(drawn: Instance, *, probes: int = 8, steps: int = 100, seed: int = 0) -> Quadrature:
    """The spectral measure of the Hessian of one draw, without its matrix.

    Parameters
    ----------
    drawn : Instance
        Of `sims.draw`, with its data or without.
    probes, steps, seed : int
        As in `lanczos_quadrature`.

    Returns
    -------
    Quadrature
        Nodes and weights; its `density(x, width)` is the smoothed density of eigenvalues and its error.

    Raises
    ------
    theory.checks.ParameterError
        On an unfit argument.

    >>> from sims.instance import draw
    >>> from theory.model import Network
    >>> found = density_of_states(draw(Network(p=2), 12, 2.5), probes=2, steps=6)
    >>> round(float(found.fraction_below(1e9)[0]), 9)
    1.0
    """
    return lanczos_quadrature(
        hessian_operator(of_type("drawn", drawn, Instance)), probes=probes, steps=steps, seed=seed
    )


@pinned
def measure_of(operator: HessianOperator, start: ArrayLike, steps: int) -> Quadrature:
    """The spectral measures of given vectors (order, probes), rows in the operator's order, each normalised.

    Raises ParameterError on vectors of another shape and of length 0.
    """
    start = reals("start", start, one_set(operator).order, None, dtype=np.float64)
    largest = np.max(np.abs(start), axis=0)
    if not (np.all(largest > 0) and np.all(np.isfinite(largest))):
        raise ParameterError("start must have columns of finite length above 0")
    # First by the largest entry: squares, of which lengths are made, could under- or overflow.
    return _rules(operator, start / largest, count("steps", steps), _plain_rule)


def _rules(
    operator: HessianOperator, start: Array, steps: int, solve: Callable[..., tuple[Array, Array]]
) -> Quadrature:
    """Rules of given vectors; solve (d, e, rounding) -> nodes, weights from the entries of T, d (m,) and e (m,), the last
    of e that of the step to come, 0 at the end of an invariant space; rounding is that of the operator's norm."""
    steps = min(steps, operator.order)
    vectors = on_device(start / np.linalg.norm(start, axis=0), operator.dtype)
    past = jnp.zeros((steps, *vectors.shape), operator.dtype)
    diagonal, beside = [], []
    for step in range(steps):
        (product,) = operator.product([0], [vectors])
        past, vectors, along, length = _advance(past, vectors, product, step)
        diagonal.append(np.asarray(along, dtype=np.float64))
        beside.append(np.asarray(length, dtype=np.float64))
    unit = operator.units[0]
    nodes, weights, whole = [], [], []
    for d, e in zip(np.array(diagonal).T, np.array(beside).T, strict=True):
        rounding = ROUNDING * float(np.finfo(operator.dtype).eps) * float(max(np.max(np.abs(d)), np.max(e)))
        ends = np.flatnonzero(e <= rounding)
        # What follows an end is direction made of rounding: not the probe's.
        m = int(ends[0]) + 1 if len(ends) else steps
        whole.append(bool(len(ends)))
        t, w = solve(d[:m], np.where(e[:m] <= rounding, 0.0, e[:m]), rounding)
        nodes.append(np.pad(t, (0, steps - len(t)), mode="edge"))
        weights.append(np.pad(w, (0, steps - len(w))))
    return Quadrature(np.array(nodes) * unit, np.array(weights), whole=np.array(whole))


def _plain_rule(d: Array, e: Array, rounding: float) -> tuple[Array, Array]:
    nodes, vectors = eigh_tridiagonal(d, e[:-1])
    return nodes, vectors[0] ** 2


def _with_node_at_zero(d: Array, e: Array, rounding: float) -> tuple[Array, Array]:
    """The rule of T (d, e) with the last entry of d such that 0 is an eigenvalue: e^2 (T_{m-1}^{-1})_last.

    That entry is infinite where T_{m-1} has an eigenvalue 0 already: the rule is then that of T_{m-1}. At the end of an
    invariant space the rule is the measure itself, with the null space at one of its nodes; ParameterError if there is none.
    """
    if e[-1] > 0:
        values, vectors = eigh_tridiagonal(d[:-1], e[:-2])
        if np.any(np.abs(values) <= rounding):
            d, e = d[:-1], e[:-1]
        else:
            d = np.append(d[:-1], np.sum((e[-2] * vectors[-1]) ** 2 / values))
    nodes, vectors = eigh_tridiagonal(d, e[:-1])
    weights = vectors[0] ** 2
    near = np.abs(nodes) <= NULL * rounding  # rounding may share the null space out among several
    if e[-1] == 0 and not np.any(near):
        raise ParameterError("atom must be 0 where the matrix has no null space")
    near[np.argmin(np.abs(nodes))] = True
    first = np.flatnonzero(near)[0]
    at_zero = np.sum(weights[near])
    near[first] = False
    nodes[first], weights[first] = 0.0, at_zero
    return nodes[~near], weights[~near]


@functools.partial(jax.jit, donate_argnums=0)
def _advance(
    past: jax.Array, vectors: jax.Array, product: jax.Array, step: jax.Array | int
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """One Lanczos step of every probe: the past (steps, n, probes) with `vectors`, the vectors to follow, T's entries."""
    past = jax.lax.dynamic_update_index_in_dim(past, vectors, step, axis=0)
    along = jnp.sum(vectors * product, axis=0)
    # Twice: beside a short rest what the first pass leaves of known vectors is not small.
    for _ in range(2):
        overlap = jnp.einsum("jnq,nq->jq", past, product, precision=HIGHEST)
        product -= jnp.einsum("jnq,jq->nq", past, overlap, precision=HIGHEST)
    length = jnp.linalg.norm(product, axis=0)
    return past, jnp.where(length > 0, product / jnp.where(length > 0, length, 1), 0), along, length
