"""The p x p matrix Dyson equation in the complex plane and on the real line inside the spectrum, for any covariance.

The block resolvent that a new sample feels, G = int s (z - s kappa)^{-1} dnu(s), kappa(G) = alpha E[F (I - G F)^{-1}], is a
fixed point of a map T of {Im G < 0} into itself. Derived here: such a map has at most one fixed point inside (Earle and
Hamilton), so a root with Im G < 0 is the resolvent, at a real z too, however it was found; and a real root at a real z is it
where no eigenvalue of the derivative of T exceeds 1: z then lies outside the spectrum. Hence Newton's method may start
anywhere: at the neighbouring place with the tangent of z -> G, and where that fails, high above the axis.

    derivative of kappa along X: alpha E[A X A],           A = F (I - G F)^{-1}
    of T along d kappa:          int s^2 R d kappa R dnu,  R = (z - s kappa)^{-1}

A resolvent that is a multiple of the identity is the case p = 1 with the weights' eigenvalues.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from theory.general.symmetric import symmetric

Array = NDArray[Any]

_STEPS = 30
_CONVERGED = 1e-8  # relative change after which Newton's next one is below rounding
_REAL = 1e-9  # Im G relative to G below which a root counts as real
_HEIGHTS = np.append(
    np.geomspace(30.0, 1e-6, 36), 0.0
)  # Im z on the way down to the axis, in spectra's units


@dataclass(frozen=True)
class Point:
    """A root: z, G as coordinates (D,), and dG/dz (D,)."""

    z: complex
    g: Array
    slope: Array


class Resolvent:
    """The equation of the weights f (n, p, p), or (n,) for p = 1, with coefficients c (n,) that add up to 1, at one alpha.

    inputs  eigenvalues and probabilities of the covariance, None for the identity
    """

    def __init__(self, f: Array, c: Array, alpha: float, inputs: tuple[Array, Array] | None = None):
        f = f[:, None, None] if f.ndim == 1 else f
        self.p = f.shape[1]
        self.packing = symmetric(self.p)
        self.f = np.ascontiguousarray(f[:, self.packing.rows, self.packing.cols].T).astype(complex)
        self.c = (alpha * c).astype(complex)
        s, w = (np.ones(1), np.ones(1)) if inputs is None else inputs
        self.s, self.w = s[s > 0], w[s > 0]
        self.mean, self.square, self.mean_matrix = self._moments(f, c, alpha)
        self.scale = abs(self.mean) + (1 + alpha) * np.sqrt(self.square / alpha)

    def _moments(self, f: Array, c: Array, alpha: float) -> tuple[float, float, Array]:
        mean = np.einsum("n,nij->ij", c, f)
        return (
            alpha * float(np.trace(mean)) / self.p,
            alpha * float(c @ np.sum(f**2, axis=(1, 2))) / self.p,
            alpha * mean,
        )

    def moments(self) -> tuple[float, float]:
        """Mean of the spectrum, (1/pN) E Tr H, and of its square, the atom included.

        The second is (alpha E tr F^2 + alpha^2 tr (E F)^2 E s^2) / p.
        """
        spread = float(self.w @ self.s**2) * float(np.sum(self.mean_matrix**2)) / self.p
        return self.mean, self.square + spread

    @property
    def width(self) -> float:
        """Standard deviation of the spectrum."""
        mean, square = self.moments()
        return math.sqrt(max(square - mean**2, 0.0))

    def densities(
        self, lam: Array, start: list[Point | None] | None = None
    ) -> tuple[Array, list[Point | None]]:
        """rho at places lam (n,), ascending, NaN where no root was found, and the roots; `start`: roots near them, if known."""
        rho, points = np.full(len(lam), np.nan), []
        before: Point | None = None
        for i, place in enumerate(lam):
            point = None
            for near in (None if start is None else start[i], before):
                point = point or (None if near is None else self._from(near, complex(place)))
            point = point or self.at(complex(place))
            if point is not None:
                rho[i] = self.density(point)
                before = point
            points.append(point)
        return rho, points

    def density(self, point: Point) -> float:
        """-Im (1/pN) Tr (z - H)^{-1} / pi at a root."""
        resolvents, _ = self._resolvents(point.z, self._kappa(point.g)[0])
        trace = np.einsum("s,sii->", self.w, resolvents) / self.p
        return max(0.0, float(-trace.imag) / np.pi)

    def _from(self, near: Point, z: complex) -> Point | None:
        """The root at z from a tangent at one near it."""
        moved = near.g + near.slope * (z - near.z)
        for guess in (moved, near.g):
            found = self._newton(guess, z) if self._below(guess) else None
            if found is not None:
                return found
        return None

    def at(self, z: complex) -> Point | None:
        """The root at z, Im z >= 0, from far above it; None where Newton's method fails."""
        heights = _HEIGHTS * (self.scale + abs(z))
        g = self.packing.coordinates(np.eye(self.p) / (z + 1j * heights[0]))
        point = self._newton(g, z + 1j * heights[0])
        for height in heights[1:]:
            if point is None:
                return None
            point = self._from(point, z + 1j * height)
        return point

    def _newton(self, g: Array, z: complex) -> Point | None:
        for _ in range(_STEPS):
            kappa, inner = self._kappa(g)
            resolvents, outer = self._resolvents(z, kappa)
            image = self.packing.coordinates(np.einsum("s,sij->ij", self.w * self.s, resolvents))
            jacobian = np.eye(len(g)) - outer @ inner
            try:
                move = np.linalg.solve(jacobian, g - image)
            except np.linalg.LinAlgError:
                return None
            g = g - move
            size = np.abs(move).max()
            if not np.isfinite(size):
                return None
            if size <= _CONVERGED * np.abs(g).max():
                return self._settled(g, z)
        return None

    def _settled(self, g: Array, z: complex) -> Point | None:
        """The root with its tangent; None where it is not the resolvent."""
        kappa, inner = self._kappa(g)
        resolvents, outer = self._resolvents(z, kappa)
        map_ = outer @ inner
        size = np.abs(g).max()
        if z.imag == 0 and np.abs(g.imag).max() <= _REAL * size:
            if np.abs(np.linalg.eigvals(map_)).max() > 1 + 1e-9:
                return None
        elif not self._below(g):
            return None
        falls = np.einsum("s,sij,sjk->ik", self.w * self.s, resolvents, resolvents)
        slope = np.linalg.solve(np.eye(len(g)) - map_, -self.packing.coordinates(falls))
        return Point(z, g, slope)

    def _below(self, g: Array) -> bool:
        """Whether Im G <= 0 up to rounding."""
        top = np.linalg.eigvalsh(self.packing.matrix(g.imag))[-1] if self.p > 1 else g.imag[0]
        return bool(top <= _REAL * np.abs(g).max())

    def _kappa(self, g: Array) -> tuple[Array, Array]:
        """kappa (p, p) and its derivative (D, D) in coordinates."""
        if self.p == 1:
            a = self.f[0] / (1 - g[0] * self.f[0])
            weighted = self.c * a
            return np.array([[weighted.sum()]]), np.array([[weighted @ a]])
        q = -np.linalg.inv(self.packing.matrix(g))
        packed = q[self.packing.rows, self.packing.cols][:, None]
        inverse = cast(Array, self.packing.invert(self.f + packed))
        a = packed - self.packing.congruence(q) @ inverse
        weighted = a * self.c
        return self.packing.unpack(weighted.sum(axis=1)), self.packing.operator(weighted @ a.T)

    def _resolvents(self, z: complex, kappa: Array) -> tuple[Array, Array]:
        """(z - s kappa)^{-1} for each s, (n, p, p), and the map X -> int s^2 R X R (D, D) in coordinates."""
        if self.p == 1:
            r = (1 / (z - self.s * kappa[0, 0]))[:, None, None]
        else:
            r = np.linalg.inv(z * np.eye(self.p) - self.s[:, None, None] * kappa)
        packed = r[:, self.packing.rows, self.packing.cols].T
        return r, self.packing.operator((self.w * self.s**2 * packed) @ packed.T)
