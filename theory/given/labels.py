"""The Hessian on given rows, from the labels of one draw: edge, lowest outlier and its overlap, without the Hessian.

Rows x = sqrt(tau) Sigma^(1/2) xi / sqrt(N), xi normal (tau = 1: Gaussian inputs). Known of them, beside tau, are their
projections on some directions: the first eigenvectors of Sigma where these hold much of the variance, teacher and students. Let
b (r, N) be an orthonormal basis of the span of Sigma^(1/2) times these directions and v (M, r) the projections of xi on it. The
rest of xi is Gaussian, in N - r dimensions, and independent of the weights F. Derived here, with F' = tau F and b' the rest:

    G = (1/N) tr s (z - s kappa)^(-1)  over the eigenvalues s of b' Sigma b',    kappa = (1/N) sum F' (1 - G F')^(-1)
    (z - H)^(-1) ~ -( E + L' D L )^(-1),   E = kappa Sigma - z,   L = b Sigma^(1/2),   D = Xi - 1 (x) kappa,
    Xi = (1/N) sum v v' (x) F' (1 - G F')^(-1)

(p x p matrices kappa, G, F; Kronecker products are not written). Bulk: `theory.general.levels`. Left of the bulk E > 0, and
H has as many eigenvalues below z as W^(1/2) D W^(1/2), W = L E^(-1) L', has below -1: outliers are where an eigenvalue m(z)
of that is -1. m falls with z. At a root, with eigenvector y and n = D W^(1/2) y, the residue along unit vectors t is (t'
E^(-1) L' n)^2 / (-dm/dz): the squared overlap.

Where nothing leaves, the lowest level lies 1.2065/kappa_TW above the edge in the mean (at most at 0 where M or the rank of
Sigma is below N, and at the lowest eigenvalue of kappa Sigma), and its overlap is (d s/d m)/(pN) there, s and m the
resolvents of teacher and bulk, over the same length beyond the edge (overlaps inside the bulk).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import NotConverged, ParameterError, finite, numpy_defaults
from theory.finite.tracy_widom import MEAN, tracy_widom_scale
from theory.general.density import Resolvent
from theory.general.dyson import Dyson
from theory.general.levels import Levels
from theory.general.state import State
from theory.given.population import Population
from theory.model.network import Network, network

Array = NDArray[Any]

_LEAST = 1e-9  # of an eigenvalue of Sigma
_NEAR = 1e-3  # first step left of the edge, relative
_PASSES = 2  # by which the ridge of the scales becomes that of the edge
_SLOPE = 1e-4  # relative step of derivatives


@dataclass(frozen=True)
class Given:
    """What theory says of one draw on given rows, in units of the Hessian.

    edge      left edge of the bulk
    lowest    the lowest eigenvalue: the lowest outlier, or the mean of the lowest level of the bulk
    overlap   squared overlap of its eigenvector with the teacher's span
    outliers  how many eigenvalues leave the bulk
    """

    edge: float
    lowest: float
    overlap: float
    outliers: int


@numpy_defaults
def given(
    model: Network,
    found: Population,
    rows: ArrayLike,
    student: ArrayLike,
    teacher: ArrayLike,
    y: ArrayLike | None = None,
) -> tuple[Given, Given]:
    """Edge, lowest eigenvalue and overlap predicted for one draw, for Gaussian rows (tau = 1) and for rows with scales tau.

    Parameters
    ----------
    model : Network
        Of finite p.
    found : Population
        Of the inputs.
    rows : array (M, N)
        The rows of this draw, as `Inputs.take` gives them: tr Sigma = N, x is a row over sqrt(N).
    student, teacher : arrays (p, N), (p_star, N)
        Rows of norm sqrt(N).
    y : array (M,)
        Outputs of the teacher with their noise; without it those of `model.outputs`.

    Returns
    -------
    tuple of two Given
        NaN where there is no left edge: no negative weight, or too few rows.

    Raises
    ------
    ParameterError
        On arrays that do not fit, and too few directions.

    >>> from theory.given import population
    >>> from theory.model import Inputs
    >>> rng = np.random.default_rng(0)
    >>> x, w = rng.standard_normal((90, 30)), rng.standard_normal((2, 30))
    >>> gaussian, elliptical = given(Network(), population(Inputs.of(x)), x, w[:1], w[1:])
    >>> gaussian.lowest <= 0, elliptical.outliers <= 1
    (True, True)
    """
    problem = _Problem(network(model), found, rows, student, teacher, y)
    return _or_none(lambda: problem.solved(np.ones(len(problem.f)))), _or_none(
        lambda: problem.solved(problem.tau())
    )


@numpy_defaults
def bulk_density(
    model: Network,
    found: Population,
    rows: ArrayLike,
    student: ArrayLike,
    teacher: ArrayLike,
    values: ArrayLike,
    y: ArrayLike | None = None,
    *,
    scaled: bool,
) -> Array:
    """Density of the bulk for the labels of one draw at `values` (k,), ascending, per unit of the Hessian, NaN where no root is
    found; with the scales of the rows, or tau = 1. Arguments as in `given`. The atom at 0 is left out."""
    problem = _Problem(network(model), found, rows, student, teacher, y)
    m = len(problem.f)
    f = problem.f * (problem.tau() if scaled else np.ones(m))[:, None, None]
    inputs = problem.s, np.full(len(problem.s), 1 / problem.n)
    law = Resolvent(f, np.full(m, 1 / m), m / problem.n, inputs)
    return law.densities(np.asarray(finite("values", values)))[0]


class _Problem:
    """One draw in the eigenbasis of Sigma: everything but the scales of rows."""

    def __init__(
        self,
        model: Network,
        found: Population,
        rows: ArrayLike,
        student: ArrayLike,
        teacher: ArrayLike,
        y: ArrayLike | None,
    ):
        x = np.asarray(finite("rows", rows))
        weights = np.concatenate(
            [np.asarray(finite("teacher", teacher)), np.asarray(finite("student", student))]
        )
        self.p, self.n, k, self.found = int(model.p), found.n, found.apart, found
        if x.ndim != 2 or x.shape[1] != self.n or weights.shape != (model.p_star + self.p, self.n):
            raise ParameterError(
                f"rows, student and teacher must have {self.n} columns, got shapes {x.shape}, {weights.shape}"
            )
        self.s = np.maximum(found.s, _LEAST)
        labels = x @ weights.T / math.sqrt(self.n)
        u, lam = labels[:, : model.p_star], labels[:, model.p_star :]
        self.f = np.asarray(model.weights(lam, model.outputs(u) if y is None else y))
        self.x = found.coordinates(x)
        self.open = (
            len(self.s) < self.n or len(x) < self.n
        )  # some directions are in the null space for certain
        held = weights @ found.vectors / math.sqrt(self.n)
        self.teacher = np.linalg.qr(held[: model.p_star].T)[0].T * _norm(held[: model.p_star])
        root = np.sqrt(self.s)
        mixed = held[:, k:] * root[k:]
        if len(self.s) - k - len(mixed) < 2:
            raise ParameterError(
                f"inputs must vary in more directions than p + p_star + 1, got {len(self.s)}"
            )
        factor = np.linalg.cholesky(mixed @ mixed.T)
        basis = np.linalg.solve(factor, mixed)
        rest = labels - self.x[:, :k] @ held[:, :k].T
        self.v = np.concatenate([self.x[:, :k] / root[:k], np.linalg.solve(factor, rest.T).T], axis=1)
        self.loads = np.zeros((k + len(basis), len(self.s)))
        self.loads[np.arange(k), np.arange(k)] = root[:k]
        self.loads[k:, k:] = basis * root[k:]
        complement = np.linalg.qr(basis.T, mode="complete")[0][:, len(basis) :]
        inside = np.linalg.eigvalsh((complement.T * self.s[k:]) @ complement)
        self.levels = Levels(np.maximum(inside, _LEAST), np.full(len(inside), 1 / len(inside)))

    def tau(self) -> Array:
        """Scales of the rows (M,)."""
        ridge = float(self.found.s[self.found.apart :].mean())
        for _ in range(_PASSES):
            ridge = _Bulk(self, self.found.scales(self.x, ridge)).ridge
        return self.found.scales(self.x, ridge)

    def solved(self, tau: Array) -> Given:
        """Everything, with these scales."""
        bulk = _Bulk(self, tau)
        count, z, overlap = bulk.lowest()
        if not count:
            z, overlap = bulk.lowest_level()
        return Given(bulk.edge, min(z, 0.0) if self.open else z, overlap, count)


class _Bulk:
    """The equations of one draw with scales tau."""

    def __init__(self, problem: _Problem, tau: Array):
        self.problem, self.v = problem, problem.v / np.sqrt(tau)[:, None]
        self.f = problem.f * tau[:, None, None]
        inner = len(problem.levels.s)
        self.dyson, self.unit = Dyson(self.f, 1 / inner, levels=problem.levels), inner / problem.n
        found = self.dyson.edge()
        state = self.dyson.state(found.q)
        assert state is not None  # it belongs to this equation
        self.state, self.edge = state, found.value * self.unit

    @property
    def ridge(self) -> float:
        """-z/kappa at the edge, as a positive number: by which rows are weighed there."""
        mean = float(np.trace(self._kappa(self._phi(self.state)))) / self.problem.p
        s = self.problem.s
        if mean <= 0:
            return float(1e3 * s[0])
        return float(np.clip(-self.edge / mean, 1e-3 * s.mean(), 1e3 * s[0]))

    def _phi(self, state: State) -> Array:
        """F' (1 - G F')^(-1), (M, p, p)."""
        g = -state.inverse_q
        if self.problem.p == 1:
            return self.f / (1 - g * self.f)
        return np.linalg.solve(np.eye(self.problem.p) - self.f @ g, self.f)

    def _kappa(self, phi: Array) -> Array:
        found = phi.sum(axis=0) / self.problem.n
        return np.asarray(found + found.T) / 2

    def parts(self, z: float, state: State) -> tuple[Array, Array, Array, Array]:
        """D and W (r p, r p), the inverse of E as (N, p) in the basis (p, p) of kappa, and that basis."""
        p, n, v, loads = self.problem.p, self.problem.n, self.v, self.problem.loads
        phi, r = self._phi(state), len(loads)
        kappa = self._kappa(phi)
        xi = np.empty((r, p, r, p))
        for i in range(p):
            for j in range(p):
                xi[:, i, :, j] = v.T @ (phi[:, i, j, None] * v) / n
        d = xi.reshape(r * p, r * p) - np.kron(np.eye(r), kappa)
        k, basis = np.linalg.eigh(kappa)
        inverse = 1 / (self.problem.s[:, None] * k - z)
        each = np.stack([(loads * inverse[:, q]) @ loads.T for q in range(p)])
        w = np.einsum("qab,iq,jq->aibj", each, basis, basis).reshape(r * p, r * p)
        return np.asarray((d + d.T) / 2), np.asarray((w + w.T) / 2), inverse, basis

    def modes(self, z: float, state: State | None = None) -> tuple[Array, Array, Array, Array] | None:
        """Eigenvalues of W^(1/2) D W^(1/2), ascending, n of the first, and E^(-1) as in `parts`; None inside the bulk."""
        state = self.dyson.state_at(z / self.unit) if state is None else state
        if state is None:
            return None
        d, w, inverse, basis = self.parts(z, state)
        values, vectors = np.linalg.eigh(w)
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        levels, y = np.linalg.eigh(root @ d @ root)
        return levels, d @ root @ y[:, 0], inverse, basis

    def lowest(self) -> tuple[int, float, float]:
        """How many outliers there are, the lowest and its squared overlap with the teacher; NaN where there is none."""
        from scipy.optimize import brentq

        at_edge = self.modes(self.edge, self.state)
        assert at_edge is not None
        count = int(np.sum(at_edge[0] < -1))
        if not count:
            return 0, math.nan, math.nan

        def beyond(z: float) -> float:
            found = self.modes(z) if z < self.edge else at_edge
            return float((at_edge if found is None else found)[0][0]) + 1

        step = _NEAR * (1 + abs(self.edge))
        while beyond(self.edge - step) < 0:
            step *= 2
        z = float(brentq(beyond, self.edge - step, self.edge, xtol=1e-8 * (1 + abs(self.edge))))
        found = self.modes(z)
        if found is None:
            return count, z, 0.0  # at the edge, to rounding
        h = min(_SLOPE * (1 + abs(z)), (self.edge - z) / 4)
        slope = (beyond(z + h) - beyond(z - h)) / (2 * h) if h > 0 else 0.0
        if not slope < 0:
            raise NotConverged("the lowest outlier is where nothing can be told from the edge")
        _, n, inverse, basis = found
        loaded = (
            n.reshape(len(self.problem.loads), -1) @ basis
        ).T @ self.problem.loads  # (p, N) in kappa's basis
        met = self.problem.teacher @ (loaded.T * inverse)
        return count, z, float(np.clip(np.sum(met**2) / -slope, 0, 1))

    def lowest_level(self) -> tuple[float, float]:
        """Mean place of the lowest level of a bulk that nothing leaves, and its squared overlap with the teacher."""
        p, inner = self.problem.p, len(self.problem.levels.s)
        small = _SLOPE * (1 + abs(self.edge))
        before = self._traces(self.edge - small)
        here = self._traces(self.edge, self.state)
        if before is None or here is None or here[0] == before[0]:
            return self.edge, math.nan
        curvature = 2 * (small / self.unit) / (here[0] - before[0]) ** 2
        length = self.unit / tracy_widom_scale(p * inner, curvature)
        lowest = float(np.linalg.eigvalsh(self._kappa(self._phi(self.state)))[0])
        z = min(self.edge - MEAN * length, max(lowest * float(self.problem.s[-1]), self.edge))
        near, far = self._traces(self.edge - length), self._traces(self.edge - 2 * length)
        if near is None or far is None:
            return z, math.nan
        share = (near[1] - far[1]) / (near[0] - far[0]) / (p * inner) * self.unit
        return z, float(np.clip(share, 0, 1))

    def _traces(self, z: float, state: State | None = None) -> tuple[float, float] | None:
        """Resolvents at z: mean over the levels of the bulk, in units of its own equation; sum over the teacher's span."""
        state = self.dyson.state_at(z / self.unit) if state is None else state
        if state is None:
            return None
        d, w, inverse, basis = self.parts(z, state)
        phi = self._phi(state)
        k = np.linalg.eigvalsh(self._kappa(phi)) / self.unit
        bulk = float(np.mean(1 / (z / self.unit - self.problem.levels.s[:, None] * k)))
        taught, loads = self.problem.teacher, self.problem.loads
        total = 0.0
        for q in range(len(k)):
            weighed = taught * inverse[:, q]
            total -= float(np.sum(weighed * taught))
        met = np.stack(
            [(taught * inverse[:, q]) @ loads.T for q in range(len(k))]
        )  # (p, t, r) in kappa's basis
        t, r, p = len(taught), len(loads), len(k)
        ends = np.einsum("qta,iq,jq->tiaj", met, basis, basis).reshape(t * p, r * p)
        total += float(np.sum(ends * (ends @ np.linalg.solve(np.eye(r * p) + d @ w, d).T)))
        return bulk, total


def _or_none(solved: Callable[[], Given]) -> Given:
    try:
        return solved()
    except NotConverged:
        return Given(math.nan, math.nan, math.nan, 0)


def _norm(rows: Array) -> float:
    """Length of the rows' part in the directions that vary, of 1."""
    return float(np.sqrt(np.mean(np.sum(rows**2, axis=1))))
