"""Inputs of any covariance in the p x p matrix Dyson equation, left of the spectrum.

Inputs x = Sigma^{1/2} xi / sqrt(N) have the population spectrum nu, of eigenvalues s with int s dnu = 1; students and
teachers are isotropic in the eigenbasis, so preactivations keep their joint law. Derived here, with
kappa = sum c F (I - G F)^{-1} and Q = -G^{-1}:

    R_s(z) = (z - s kappa)^{-1},  G = int s R_s dnu:   Q = y_z(kappa),  y_z(k) = 1 / int s/(s k - z) dnu,

a function of the matrix kappa. y_z grows and is operator concave (a harmonic mean), so its inverse k_z is operator convex. The
equation is kappa(Q) = k_z(Q), where Sigma = I has k_z(q) = q + z. As kappa is operator concave, `theory.general.dyson` holds
as it stands: the edge is the largest z with kappa(Q) - k_z(Q) >= 0 for some admissible Q; there the spectral radius of L
against the derivative of k_z is 1. In the eigenbasis of Q derivatives of a matrix function are divided differences (Daleckii
and Krein), here sums over s: with q = 1/int s/(s k - z), M_ab = int s^2/((s k_a - z)(s k_b - z)) and M_abc alike,

    k[a, b] = 1/(q_a q_b M_ab),      k[a, b, c] = -y[a, b, c] k[a, b] k[b, c] k[a, c],
    y[a, b, c] = q_a q_b q_c M_ab M_ac - q_b q_c M_abc.

Spikes: with v = w.x for a direction w, x = Sigma w v / sqrt(N) + rest. So spike vectors v pull by Xi - kappa along the
directions Sigma w, Xi = sum c (v v^T) (x) F (I - G F)^{-1}, and outliers are where the block

    B(z) = zeta_z(Q) - Xi,   zeta_z(q) = k_z(q) - 1/n_z(q),   n_z(q) = int s^2/(s k_z(q) - z) dnu

is singular; Sigma = I has zeta = z. B grows with z, so outliers are counted at the edge: with A_s = -R_s, n = int s^2 A_s, and
kappa falling by D >= 0, 1/n - kappa falls by at least n^{-1} (int s^3 A_s D A_s) n^{-1} - D >= 0 (Cauchy and Schwarz, as
int s dnu = 1). The residue at a null vector x gives the squared overlap |Q^{-1} n_z(Q)^{-1} x|^2 / (x^T B' x) with the w.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from theory.general.state import State

Array = NDArray[Any]

_STEPS = 200  # of a Newton iteration that climbs: convergence is monotone, not always fast
_EPS = 4 * np.finfo(float).eps


@dataclass(frozen=True)
class PopulationSpectrum:
    """Population spectrum: eigenvalues s (n,) > 0 of the covariance, probabilities w (n,), those of s = 0 left out."""

    s: Array
    w: Array

    @classmethod
    def of(cls, inputs: tuple[Array, Array] | None) -> PopulationSpectrum | None:
        """From `Network.levels`; None for the identity."""
        return None if inputs is None else cls(inputs[0][inputs[0] > 0], inputs[1][inputs[0] > 0])

    def y(self, k: float, z: float) -> float:
        """y_z(k), 0 where some s k <= z."""
        d = self.s * k - z
        return 0.0 if d.min() <= 0 else float(1 / (self.w @ (self.s / d)))

    def k(self, q: Array, z: float) -> Array:
        """k_z(q) for q (p,) > 0: concave y_z lets Newton's method climb from the left, that is from where y_z <= q.

        y_z is a harmonic mean of k - z/s: at most the arithmetic one, and at most any one of its terms.
        """
        ratios, total = z / self.s, self.w.sum()
        at = np.argmax(ratios)
        k = np.maximum(total * q + self.w @ ratios / total, ratios[at] + self.w[at] * q)
        for _ in range(_STEPS):
            d = self.s[:, None] * k - z
            m = self.w @ (self.s[:, None] / d)
            # dy/dk = int s^2/(s k - z)^2 / m^2 with y = 1/m
            move = (q - 1 / m) * m**2 / (self.w @ (self.s[:, None] / d) ** 2)
            # The climb is monotone: a step back is rounding.
            k = k + np.maximum(move, 0.0)
            if np.all(move <= _EPS * (np.abs(k) + abs(z))):
                break
        return k

    def z(self, k: float, q: float) -> float:
        """The z with y_z(k) = q."""
        from scipy.optimize import brentq

        top = float(np.min(self.s * k))
        # y falls to 0 as z rises to the lowest s k, and grows without bound the other way.
        far = q
        while self.y(k, top - far) < q:
            far *= 4
        return top - brentq(lambda d: self.y(k, top - d) - q, 0.0, far, xtol=1e-300, rtol=_EPS)


class Shift:
    """k_z, zeta_z and their divided differences on eigenvalues q (p,) of Q at one z."""

    def __init__(self, population: PopulationSpectrum, q: Array, z: float):
        self.s, self.w, self.q = population.s[:, None], population.w, q
        self.k = population.k(q, z)
        self.d = 1 / (self.s * self.k - z)

    def _sum(self, power: int, *indices: str) -> Array:
        """int s^power prod of d over the named indices: M_ab is _sum(2, "a", "b")."""
        names = ",".join(f"s{index}" for index in indices)
        out = "".join(dict.fromkeys(indices))
        weights = self.w * self.s[:, 0] ** power
        return np.einsum(f"s,{names}->{out}", weights, *[self.d] * len(indices))

    @cached_property
    def first(self) -> Array:
        """k[a, b], (p, p)."""
        return 1 / (self.q[:, None] * self.q * self._sum(2, "a", "b"))

    @cached_property
    def second(self) -> Array:
        """k[a, b, c], (p, p, p)."""
        q, m = self.q, self._sum(2, "a", "b")
        y = np.einsum("a,b,c,ab,ac->abc", q, q, q, m, m) - np.einsum(
            "b,c,abc->abc", q, q, self._sum(3, "a", "b", "c")
        )
        return -y * np.einsum("ab,bc,ac->abc", self.first, self.first, self.first)

    @cached_property
    def fall(self) -> Array:
        """dk/dz at fixed q, (p,)."""
        return self._sum(1, "a", "a") / self._sum(2, "a", "a")

    @cached_property
    def first_fall(self) -> Array:
        """d k[a, b] / dz at fixed q, (p, p)."""
        # k_a and z both move in d_a = 1 / (s k_a - z); the same of b by symmetry.
        lost = self._sum(3, "a", "a", "b") * self.fall[:, None] - self._sum(2, "a", "a", "b")
        return (lost + lost.T) / (self.q[:, None] * self.q * self._sum(2, "a", "b") ** 2)

    @cached_property
    def n(self) -> Array:
        """n_z(q), (p,)."""
        return self._sum(2, "a")

    @property
    def zeta(self) -> Array:
        """zeta_z(q), (p,)."""
        return self.k - 1 / self.n

    @property
    def zeta_first(self) -> Array:
        """zeta[a, b], (p, p)."""
        return self.first * (1 - self._sum(3, "a", "b") / (self.n[:, None] * self.n))

    @property
    def zeta_fall(self) -> Array:
        """d zeta / dz at fixed q, (p,)."""
        fall = self._sum(2, "a", "a") - self._sum(3, "a", "a") * self.fall
        return self.fall + fall / self.n**2


class CorrelatedState(State):
    """The sums at one Q for inputs of a given population spectrum."""

    population: PopulationSpectrum
    _shift: tuple[float, Shift] | None = None

    def shift(self, z: float) -> Shift:
        """The functions of Q at z; the last is kept."""
        if self._shift is None or self._shift[0] != z:
            self._shift = z, Shift(self.population, self.eigen[0], z)
        return self._shift[1]

    def _turned(self, matrix: Array) -> Array:
        """Coordinates (d,) of a matrix given in the eigenbasis of Q."""
        return self.coordinates(self.eigen[1] @ matrix @ self.eigen[1].T)

    def residual(self, z: float) -> Array:
        """Q^{-1/2} (kappa - k_z(Q)) Q^{-1/2} as coordinates (d,)."""
        return self.coordinates(self.mean) - self._turned(np.diag(self.shift(z).k / self.eigen[0]))

    def centre(self) -> float:
        """z from traces: exact where all matrices are multiples of the identity."""
        p = len(self.q)
        return self.population.z(float(np.trace(self.z() + self.q)) / p, float(np.trace(self.q)) / p)

    def bound(self) -> float:
        """The largest z with kappa - k_z(Q) >= 0, by bracketing and Brent: a lower bound of the edge."""
        from scipy.optimize import brentq

        def smallest(z: float) -> float:
            return float(np.linalg.eigvalsh(self.matrix(self.residual(z)))[0])

        start = self.centre()
        width = 1e-6 * (abs(start) + float(np.trace(self.q)))
        # From the trace equation outwards, in growing steps
        low = high = start
        while smallest(low) < 0:
            low, width = low - width, 4 * width
        while smallest(high) > 0:
            high, width = high + width, 4 * width
        return low if low == high else float(brentq(smallest, low, high, rtol=1e-14))

    def metric(self, z: float) -> Array:
        """The derivative of whitened k_z(Q), (d, d)."""
        vectors, basis = self.eigen[1], self.packing.basis
        # Daleckii and Krein: k[a, b] X_ab in the eigenbasis of Q, where the factors of whitening cancel.
        inside = self.shift(z).first * (vectors.T @ basis @ vectors)
        turned = vectors @ inside @ vectors.T
        whole = self.packing.flat @ turned.reshape(len(basis), -1).T
        return whole if self.span is None else self.span.T @ whole @ self.span

    def left(self, z: float) -> Array:
        """(d, d): less the derivative of the whitened residual in Q. Positive definite left of the edge."""
        return self.metric(z) - self.map

    def z_slope(self, z: float) -> Array:
        """Less the derivative of the whitened residual in z, coordinates (d,)."""
        return self._turned(np.diag(self.shift(z).fall / self.eigen[0]))

    def top(self, z: float) -> tuple[float, Array]:
        """Largest rho with L E = rho M E, M the metric at z, and E (d,), its trace positive; rho = 1 at the edge."""
        # L against the derivative of k_z, which takes the place of I
        values, vectors = eigh(self.map, self.metric(z))
        e = vectors[:, -1]
        return float(values[-1]), e if e @ self.unit > 0 else -e

    def gradient(self, e: Array, z: float) -> tuple[Array, float]:
        """Derivatives of rho: along whitened X as coordinates (d,), and in z."""
        shift, vectors = self.shift(z), self.eigen[1]
        inner = vectors.T @ self.matrix(e) @ vectors
        rho = float(e @ self.map @ e)
        # The metric moves with Q too: second divided differences.
        second = np.einsum("abc,b,ac,ab->bc", shift.second, self.eigen[0], inner, inner)
        row = super().gradient(e, z)[0] - rho * self._turned(second + second.T)
        return row, -rho * float(np.sum(shift.first_fall * inner**2))

    def pull(self, z: float) -> Array | None:
        """z - zeta_z(Q), (p, p), by which Xi - zeta differs from Xi - z."""
        vectors = self.eigen[1]
        return (vectors * (z - self.shift(z).zeta)) @ vectors.T

    def pull_slope(self, c: Array, z: float) -> tuple[Array | float, float]:
        """Derivatives of <c, z - zeta_z(Q)>, c (p, p): along whitened X as coordinates (d,), and in z."""
        shift, vectors, root = self.shift(z), self.eigen[1], np.sqrt(self.eigen[0])
        inner = vectors.T @ c @ vectors
        # dQ = Q^(1/2) X Q^(1/2) moves zeta_z(Q) by its divided differences.
        row = -self._turned(root[:, None] * root * shift.zeta_first * inner)
        return row, float(np.diag(inner) @ (1 - shift.zeta_fall))

    def loaded(self, z: float, x: Array) -> Array:
        """x (..., k, p) on the spike block as it lies on the spike directions: x N^{-1} Q^{-1}."""
        vectors = self.eigen[1]
        return x @ (vectors / (self.eigen[0] * self.shift(z).n)) @ vectors.T
