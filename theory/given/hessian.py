"""The Hessian on given rows, from their covariance, the scale tau of each, and the preactivations of one draw: edge, lowest
outlier and its overlap, without the Hessian.

Rows x = sqrt(tau) Sigma^(1/2) xi / sqrt(N), xi normal (tau = 1: Gaussian inputs). Known of them, beside tau, are their
projections on some directions: the first eigenvectors of Sigma where these hold much of the variance, teacher and students. Let
b (r, N) be an orthonormal basis of the span of Sigma^(1/2) times these directions and v (M, r) the projections of xi on it. The
rest of xi is Gaussian, in N - r dimensions, and independent of the weights F. Derived here, with F' = tau F and b' the rest:

    G = (1/N) tr s (z - s kappa)^(-1)  over the eigenvalues s of b' Sigma b',    kappa = (1/N) sum F' (1 - G F')^(-1)
    (z - H)^(-1) ~ -( E + L' D L )^(-1),   E = kappa Sigma - z,   L = b Sigma^(1/2),   D = Xi - 1 (x) kappa,
    Xi = (1/N) sum v v' (x) F' (1 - G F')^(-1)

(p x p matrices kappa, G, F; Kronecker products are not written). Bulk: `theory.general.correlated`. Left of the bulk E > 0, and
H has as many eigenvalues below z as W^(1/2) D W^(1/2), W = L E^(-1) L', has below -1: outliers are where an eigenvalue m(z)
of that is -1. m falls with z. At a root, with eigenvector y and n = D W^(1/2) y, the residue along unit vectors t is (t'
E^(-1) L' n)^2 / (-dm/dz): the squared overlap.

Where no outlier leaves, the lowest eigenvalue of the bulk lies 1.2065/kappa_TW above the edge in the mean; at most at 0 where M
or the rank of Sigma is below N, and at the lowest eigenvalue of kappa Sigma. Its overlap is (d s/d m)/(pN) there, s and m the
resolvents of teacher and bulk: their change over the same length beyond the edge is taken in its place.

Sigma and the scales are those of `theory.given.covariance`. The ridge of the scales belongs to the question: in the Hessian a
row meets (kappa Sigma - z)^(-1), so ridge = -z/kappa at the edge.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.answers import Prediction
from theory.checks import NotConverged, ParameterError, finite, numpy_defaults
from theory.finite.tracy_widom import MEAN, tracy_widom_scale
from theory.general.correlated import PopulationSpectrum
from theory.general.density import Resolvent
from theory.general.dyson import Dyson
from theory.general.state import State
from theory.given.covariance import Population
from theory.model.network import Network, network

Array = NDArray[Any]

_LEAST = 1e-9  # of an eigenvalue of Sigma
_NEAR = 1e-3  # first step left of the edge, relative
_PASSES = 2  # by which the ridge of the scales becomes that of the edge
_SLOPE = 1e-4  # relative step of derivatives


@numpy_defaults
def given(
    model: Network,
    found: Population,
    rows: ArrayLike,
    student: ArrayLike,
    teacher: ArrayLike,
    y: ArrayLike | None = None,
) -> tuple[Prediction, Prediction]:
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
    tuple of two Prediction
        `lowest` is the lowest outlier, or where there is none the mean of the lowest eigenvalue of the bulk; `overlap` that of
        its eigenvector with the teacher's span. Of the outliers (k,) only the lowest is known, the others are NaN. All is NaN
        without a left edge: no negative weight, or few rows.

    Raises
    ------
    ParameterError
        On arrays that do not fit, and too few directions.

    >>> from theory.given import population
    >>> from theory.model import Inputs
    >>> rng = np.random.default_rng(0)
    >>> x, w = rng.standard_normal((90, 30)), rng.standard_normal((2, 30))
    >>> gaussian, elliptical = given(Network(), population(Inputs.of(x)), x, w[:1], w[1:])
    >>> gaussian.lowest <= 0, len(elliptical.outliers) <= 1
    (True, True)
    """
    problem = _Problem(network(model), found, rows, student, teacher, y)
    return problem.solved(scaled=False), problem.solved(scaled=True)


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
    """Density of the bulk for one draw, per unit of the Hessian, without the atom at 0.

    Parameters
    ----------
    model, found, rows, student, teacher, y
        As in `given`.
    values : array (k,)
        Eigenvalues, ascending.
    scaled : bool
        With the scales tau of the rows, or tau = 1.

    Returns
    -------
    array (k,)
        NaN where no root is found.

    Raises
    ------
    ParameterError
        As `given`.
    """
    problem = _Problem(network(model), found, rows, student, teacher, y)
    m = len(problem.f)
    f = problem.f * problem.tau(scaled)[:, None, None]
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
        preactivations = x @ weights.T / math.sqrt(self.n)
        u, lam = preactivations[:, : model.p_star], preactivations[:, model.p_star :]
        self.f = np.asarray(model.weights(lam, model.outputs(u) if y is None else y))
        self.x = found.coordinates(x)
        self.open = min(len(self.s), len(x)) < self.n  # some directions are in the null space for certain
        components = weights @ found.vectors / math.sqrt(self.n)
        taught = components[: model.p_star]  # its length, of 1, is that in the directions that vary
        # Orthonormal, times the share of a row's length that lies where the inputs vary.
        self.teacher = np.linalg.qr(taught.T)[0].T * float(np.sqrt(np.mean(np.sum(taught**2, axis=1))))
        root = np.sqrt(self.s)
        # Directions Sigma^(1/2) w: on these xi is known by the preactivations.
        mixed = components[:, k:] * root[k:]
        if len(self.s) - k - len(mixed) < 2:
            raise ParameterError(
                f"inputs must vary in more directions than p + p_star + 1, got {len(self.s)}"
            )
        # Gram-Schmidt: mixed = factor basis.
        factor = np.linalg.cholesky(mixed @ mixed.T)
        basis = np.linalg.solve(factor, mixed)
        # Preactivations less the part in the directions taken apart.
        rest = preactivations - self.x[:, :k] @ components[:, :k].T
        self.v = np.concatenate([self.x[:, :k] / root[:k], np.linalg.solve(factor, rest.T).T], axis=1)
        self.loads = np.zeros((k + len(basis), len(self.s)))
        self.loads[np.arange(k), np.arange(k)] = root[:k]
        self.loads[k:, k:] = basis * root[k:]
        # The bulk has the population spectrum of what is not known, b' Sigma b'.
        complement = np.linalg.qr(basis.T, mode="complete")[0][:, len(basis) :]
        inside = np.linalg.eigvalsh((complement.T * self.s[k:]) @ complement)
        self.spectrum = PopulationSpectrum(np.maximum(inside, _LEAST), np.full(len(inside), 1 / len(inside)))

    def tau(self, scaled: bool) -> Array:
        """Scales of the rows (M,), or 1."""
        if not scaled:
            return np.ones(len(self.f))
        # tau and the ridge depend on one another: from the mean eigenvalue on, in passes.
        ridge = float(self.found.s[self.found.apart :].mean())
        for _ in range(_PASSES):
            ridge = _Bulk(self, self.found.scales(self.x, ridge)).ridge
        return self.found.scales(self.x, ridge)

    def solved(self, scaled: bool) -> Prediction:
        """Everything, with the scales of rows or 1."""
        try:
            bulk = _Bulk(self, self.tau(scaled))
            count, z, overlap = bulk.lowest_outlier()
            outliers = np.full(count, math.nan)
            outliers[:1] = z
            if not count:
                z, overlap = bulk.lowest_eigenvalue()
        except NotConverged:
            return Prediction(math.nan)
        return Prediction(
            bulk.edge, outliers=outliers, lowest=min(z, 0.0) if self.open else z, overlap=overlap
        )


class _Bulk:
    """The equations of one draw with scales tau."""

    def __init__(self, problem: _Problem, tau: Array):
        self.problem, self.v = problem, problem.v / np.sqrt(tau)[:, None]
        self.f = problem.f * tau[:, None, None]
        inner = len(problem.spectrum.s)
        self.dyson, self.unit = Dyson(self.f, 1 / inner, population=problem.spectrum), inner / problem.n
        found = self.dyson.edge()
        state = self.dyson.state(found.q)
        assert state is not None  # it belongs to this equation
        self.state, self.edge = state, found.value * self.unit

    @property
    def ridge(self) -> float:
        """-z/kappa at the edge, as a positive number: by which rows are weighed there."""
        mean = float(np.trace(self._kappa(self._phi(self.state)))) / self.problem.p
        s = self.problem.s
        # kappa of no sign gives no ridge: one above every eigenvalue weighs all rows by their length.
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
        # Sums over samples are over N, not over the inner dimension: kappa is that of the whole matrix.
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
        # In the eigenbases of kappa and of Sigma E is diagonal: s k - z.
        k, basis = np.linalg.eigh(kappa)
        inverse = 1 / (self.problem.s[:, None] * k - z)
        each = np.stack([(loads * inverse[:, q]) @ loads.T for q in range(p)])
        w = np.einsum("qab,iq,jq->aibj", each, basis, basis).reshape(r * p, r * p)
        return np.asarray((d + d.T) / 2), np.asarray((w + w.T) / 2), inverse, basis

    def _state(self, z: float) -> State | None:
        """None inside the bulk."""
        return self.state if z == self.edge else self.dyson.state_at(z / self.unit)

    def modes(self, z: float) -> tuple[Array, Array, Array, Array] | None:
        """Eigenvalues of W^(1/2) D W^(1/2), ascending, n of the first, and E^(-1) as in `parts`; None inside the bulk."""
        if (state := self._state(z)) is None:
            return None
        d, w, inverse, basis = self.parts(z, state)
        of_w, vectors = np.linalg.eigh(w)
        root = (vectors * np.sqrt(np.maximum(of_w, 0))) @ vectors.T
        # W^(1/2) D W^(1/2) has the eigenvalues of W D, and is symmetric.
        values, y = np.linalg.eigh(root @ d @ root)
        return values, d @ root @ y[:, 0], inverse, basis

    def lowest_outlier(self) -> tuple[int, float, float]:
        """How many outliers there are, the lowest and its squared overlap with the teacher; NaN where there is none."""
        from scipy.optimize import brentq

        at_edge = self.modes(self.edge)
        assert at_edge is not None
        count = int(np.sum(at_edge[0] < -1))
        if not count:
            return 0, math.nan, math.nan

        def beyond(z: float) -> float:
            found = self.modes(z) if z < self.edge else at_edge
            return float((at_edge if found is None else found)[0][0]) + 1

        # m falls with z: leftwards until it is above -1.
        step = _NEAR * (1 + abs(self.edge))
        while beyond(self.edge - step) < 0:
            step *= 2
        z = float(brentq(beyond, self.edge - step, self.edge, xtol=1e-8 * (1 + abs(self.edge))))
        found = self.modes(z)
        if found is None:
            return count, z, 0.0  # at the edge, to rounding
        # A central difference must not reach the edge, beyond which there is no resolvent.
        h = min(_SLOPE * (1 + abs(z)), (self.edge - z) / 4)
        slope = (beyond(z + h) - beyond(z - h)) / (2 * h) if h > 0 else 0.0
        if not slope < 0:
            raise NotConverged("the lowest outlier is where nothing can be told from the edge")
        _, n, inverse, basis = found
        loads = self.problem.loads
        loaded = (n.reshape(len(loads), -1) @ basis).T @ loads  # (p, N) in kappa's basis
        met = self.problem.teacher @ (loaded.T * inverse)
        return count, z, float(np.clip(np.sum(met**2) / -slope, 0, 1))

    def lowest_eigenvalue(self) -> tuple[float, float]:
        """Mean place of the lowest eigenvalue of a bulk that nothing leaves, and its squared overlap with the teacher."""
        p, inner = self.problem.p, len(self.problem.spectrum.s)
        small = _SLOPE * (1 + abs(self.edge))
        before, here = self._traces(self.edge - small), self._traces(self.edge)
        if before is None or here is None or here[0] == before[0]:
            return self.edge, math.nan
        # z_e - z = |z''| (g - g_e)^2 / 2 at a sharp edge
        curvature = 2 * (small / self.unit) / (here[0] - before[0]) ** 2
        length = self.unit / tracy_widom_scale(p * inner, curvature)
        lowest = float(np.linalg.eigvalsh(self._kappa(self._phi(self.state)))[0])
        # Tracy-Widom mean (MEAN < 0), at most at the lowest eigenvalue of kappa Sigma
        z = min(self.edge - MEAN * length, max(lowest * float(self.problem.s[-1]), self.edge))
        # Share of the teacher over that of one eigenvalue, on a stretch as long as it lies inside
        near, far = self._traces(self.edge - length), self._traces(self.edge - 2 * length)
        if near is None or far is None:
            return z, math.nan
        share = (near[1] - far[1]) / (near[0] - far[0]) / (p * inner) * self.unit
        return z, float(np.clip(share, 0, 1))

    def _traces(self, z: float) -> tuple[float, float] | None:
        """Resolvents at z: mean over the eigenvalues of the bulk, in units of its own equation; sum over the teacher's span."""
        if (state := self._state(z)) is None:
            return None
        d, w, inverse, basis = self.parts(z, state)
        phi = self._phi(state)
        k = np.linalg.eigvalsh(self._kappa(phi)) / self.unit
        bulk = float(np.mean(1 / (z / self.unit - self.problem.spectrum.s[:, None] * k)))
        taught, loads = self.problem.teacher, self.problem.loads
        t, r, p = len(taught), len(loads), len(k)
        weighed = [taught * inverse[:, q] for q in range(p)]
        met = np.stack([each @ loads.T for each in weighed])  # (p, t, r) in kappa's basis
        ends = np.einsum("qta,iq,jq->tiaj", met, basis, basis).reshape(t * p, r * p)
        total = -sum(float(np.sum(each * taught)) for each in weighed)
        return bulk, total + float(np.sum(ends * (ends @ np.linalg.solve(np.eye(r * p) + d @ w, d).T)))
