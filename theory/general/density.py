"""Bulk density of the Hessian of any network: rho(lambda) = -Im (1/pN) Tr (lambda + i0 - H)^{-1} / pi.

Nodes are those of the model's route: of `theory.general.laws` where G is a multiple of the identity, rules of
`theory.general.cubature` elsewhere. Places are solved again on finer and finer nodes until rho moves by less than a tolerance;
roots on one set of nodes are where Newton's method starts on the next. Weights need no lower bound. Where the model is the
quadratic committee `theory.exact.density` is taken.

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
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.answers import Found
from theory.checks import ParameterError, count, finite, numpy_defaults, one, positive, ratio
from theory.exact.density import committee_density, looked_at
from theory.exact.weight_law import DIGITS
from theory.general.cubature import Cubature, dimensions, product_rule, require_finite_width, sobol_rule
from theory.general.laws import isotropic, weight_nodes
from theory.general.spectrum import solve
from theory.general.state import symmetric
from theory.model.network import Network, network

Array = NDArray[Any]
Nodes = Callable[[], tuple[Array, Array]]

# steps and radii of the rules of a line, in turn; steps of product rules; scrambling and log2 of Sobol points
_LINES = (0.16, 0.1), (0.11, 0.1), (0.08, 0.1), (0.057, 1e-3), (0.03, 0.1)
_PRODUCTS = 0.35, 0.25, 0.2, 0.16
_SOBOL = (0, 12), (1, 13), (2, 14)
# steady: change of rho relative to rho and 1/(width of the spectrum)
_CUBATURE, _PRODUCT, _POINTS = 1e-6, 1e-3, 1e-2
_DRAWN, _KEPT = 1e-3, 0.03  # the same of a curve: aimed at, and kept where the finest nodes do no better
_PRODUCT_DIMENSIONS = 3  # of the average, up to which product rules are taken
_LOOK = 40  # places of the first look at a curve, on either side
_SMALLEST, _FARTHEST = 1e-3, 30.0  # of their distances, in standard deviations of the spectrum

_STEPS = 30  # of Newton's method, at the most
_CONVERGED = 1e-8  # relative change after which Newton's next one is below rounding
_REAL = 1e-9  # Im G relative to G below which a root counts as real
_HEIGHTS = np.append(np.geomspace(30.0, 1e-6, 36), 0.0)  # Im z on the way down, in spectra's units


@dataclass(frozen=True)
class Root:
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
        mean = np.einsum("n,nij->ij", c, f)
        self.mean, self.mean_matrix = alpha * float(np.trace(mean)) / self.p, alpha * mean
        self.square = alpha * float(c @ np.sum(f**2, axis=(1, 2))) / self.p
        # Size of the spectrum, from its mean and spread: it says how high "far above the axis" is.
        self.scale = abs(self.mean) + (1 + alpha) * np.sqrt(self.square / alpha)

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
        self, lam: Array, start: list[Root | None] | None = None
    ) -> tuple[Array, list[Root | None]]:
        """rho at places lam (n,), ascending, NaN where no root was found, and the roots; `start`: roots near them, if known."""
        rho, points = np.full(len(lam), np.nan), []
        before: Root | None = None
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

    def density(self, point: Root) -> float:
        """-Im (1/pN) Tr (z - H)^{-1} / pi at a root."""
        resolvents, _ = self._resolvents(point.z, self._kappa(point.g)[0])
        trace = np.einsum("s,sii->", self.w, resolvents) / self.p
        return max(0.0, float(-trace.imag) / np.pi)

    def _from(self, near: Root, z: complex) -> Root | None:
        """The root at z from a tangent at one near it."""
        # Along the tangent; where that leaves Im G < 0, from the neighbour itself.
        moved = near.g + near.slope * (z - near.z)
        for guess in (moved, near.g):
            found = self._newton(guess, z) if self._below(guess) else None
            if found is not None:
                return found
        return None

    def at(self, z: complex) -> Root | None:
        """The root at z, Im z >= 0, from far above it; None where Newton's method fails."""
        heights = _HEIGHTS * (self.scale + abs(z))
        # Far above the axis G = 1/z.
        g = self.packing.coordinates(np.eye(self.p) / (z + 1j * heights[0]))
        point = self._newton(g, z + 1j * heights[0])
        for height in heights[1:]:
            if point is None:
                return None
            point = self._from(point, z + 1j * height)
        return point

    def _newton(self, g: Array, z: complex) -> Root | None:
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

    def _settled(self, g: Array, z: complex) -> Root | None:
        """The root with its tangent; None where it is not the resolvent."""
        kappa, inner = self._kappa(g)
        resolvents, outer = self._resolvents(z, kappa)
        map_ = outer @ inner
        size = np.abs(g).max()
        # A real root outside the spectrum: the derivative of T tells whether it is the resolvent.
        if z.imag == 0 and np.abs(g.imag).max() <= _REAL * size:
            if np.abs(np.linalg.eigvals(map_)).max() > 1 + 1e-9:
                return None
        elif not self._below(g):
            return None
        falls = np.einsum("s,sij,sjk->ik", self.w * self.s, resolvents, resolvents)
        slope = np.linalg.solve(np.eye(len(g)) - map_, -self.packing.coordinates(falls))
        return Root(z, g, slope)

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
        # A = Q - Q (Q + F)^(-1) Q with Q = -G^(-1), whose imaginary part is definite: every pivot is away from 0.
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


@dataclass(frozen=True)
class DensityCurve:
    """Bulk density along the axis.

    lam, rho (n,)  places, ascending, and density there, without places where it is not known
    atom           mass of the eigenvalue 0
    spectrum       edge and outliers, kind "no edge" where the weights are unbounded below
    """

    lam: Array
    rho: Array
    atom: float
    spectrum: Found


@numpy_defaults
def density(
    model: Network,
    alpha: ArrayLike,
    values: ArrayLike,
    tolerance: float | None = None,
    *,
    digits: int | None = None,
) -> Any:
    """Bulk density of eigenvalues at `values`, per unit of the Hessian ((p/2) H for p = inf), without the `atom` at 0.

    Of a quadratic committee it is relative to rounding, down to 1e-290: see `theory.exact.density.committee_density`.

    Parameters
    ----------
    model : Network
    alpha : float
        M/N: one number, or an array that broadcasts with values for a quadratic committee without options.
    values : array of float
        Eigenvalues, any shape.
    tolerance : float
        Not of a quadratic committee, whose density has all digits. NaN stands where the last two sets of nodes differ by more
        than this times rho + 1/(width of the spectrum), as they may next to 0 for alpha <= 1, or where Newton's method fails.
        None: 1e-6 where G is a multiple of the identity, 1e-3 for students that mix in up to three dimensions, else 1e-2.
    digits : int
        8 to 15, of the averages of quadratic committees without options. With 9 the first call for a model takes a quarter of
        the time; measured over models, the error is then 1e-9 of the largest density, 1e-5 at worst (a sharp edge magnifies
        it), and an exponentially small density keeps fewer digits.

    Returns
    -------
    float or array
        Of the shape of values; exactly 0 outside the support.

    Raises
    ------
    ParameterError
        On unfit arguments, and for a model without nodes (p = inf with an output noise or several teachers that are not
        quadratic).

    >>> density(Network(1, 1, 1.0), 1.5, [-5.0, 0.5]).round(6)
    array([0.      , 0.191582])
    """
    model = network(model)
    if model.is_committee:
        if tolerance is not None:
            raise ParameterError(
                "tolerance must be left out for a quadratic committee: its density has all digits"
            )
        return committee_density(model, alpha, values, digits=DIGITS if digits is None else digits)
    if digits is not None:
        raise ParameterError(
            "digits must be left out for this model: tolerance says how steady its density is"
        )
    at, places = one("alpha", ratio("alpha", alpha)), np.asarray(finite("values", values), float)
    limit = _rules(model)[0] if tolerance is None else one("tolerance", positive("tolerance", tolerance))
    found, moved = _settled(model, at, places.ravel(), limit)
    rho = np.where(moved <= limit, found, np.nan).reshape(places.shape)
    return float(rho) if rho.ndim == 0 else rho


@numpy_defaults
def atom(model: Network, alpha: ArrayLike) -> Any:
    """Mass of the eigenvalue 0: 1 less alpha or the share of input directions that vary, whichever is less.

    Parameters
    ----------
    model : Network
    alpha : float or array
        M/N.

    Returns
    -------
    float or array
        Of the shape of alpha.

    Raises
    ------
    ParameterError
        Unless alpha is positive.

    >>> atom(Network(), 0.75)
    0.25
    """
    inputs = network(model).levels()
    varied = 1.0 if inputs is None else float(inputs[1][inputs[0] > 0].sum())
    mass = np.maximum(0.0, 1 - np.minimum(np.asarray(ratio("alpha", alpha)), varied))
    return float(mass) if mass.ndim == 0 else mass


@numpy_defaults
def density_curve(
    model: Network,
    alpha: float,
    points: int = 200,
    mass: float = 0.9,
    known: Found | None = None,
    *,
    digits: int | None = None,
) -> DensityCurve:
    """The density from the left edge to where `mass` of the bulk is reached, at about `points` places.

    Half of the places crowd at the edge, where rho rises like a square root, half lie at equal shares of the mass. Weights
    unbounded below have no edge: the curve then starts where 1e-2 of the mass is reached. Places are steady to 1e-3 (see
    `density`), 1e-2 where Sobol points are needed, and 3e-2 next to lam = 0 for alpha <= 1.

    Parameters
    ----------
    model : Network
    alpha : float
        M/N.
    points : int
        About how many places, at least 10.
    mass : float
        Share of the bulk, between 0 and 1.
    known : Found
        What `theory.general.spectrum` found at alpha, if the caller has it.
    digits : int
        As in `density`.

    Returns
    -------
    DensityCurve

    Raises
    ------
    ParameterError
        On unfit arguments, and as `density`.

    >>> curve = density_curve(Network(a=2.0, activation="tanh"), 6.0, points=60)
    >>> bool(0.85 < np.trapezoid(curve.rho, curve.lam) < 0.95)
    True
    """
    model, alpha, points = network(model), one("alpha", ratio("alpha", alpha)), count("points", points, 10)
    mass = one("mass", finite("mass", mass))
    if not 0 < mass < 1:
        raise ParameterError(f"mass must lie between 0 and 1, got {mass}")
    found = solve(model, alpha) if known is None else known
    lam = curve_places(model, alpha, found.edge, points, mass, digits)
    if model.is_committee:
        rho, moved = density(model, alpha, lam, digits=digits), np.zeros(len(lam))
    else:
        rho, moved = _settled(model, alpha, lam, max(_DRAWN, _rules(model)[0]))
    good = np.isfinite(rho) & (moved <= _KEPT)
    return DensityCurve(lam[good], rho[good], float(atom(model, alpha)), found)


def curve_places(
    model: Network, alpha: float, edge: float, points: int, mass: float, digits: int | None = None
) -> Array:
    """Places (n,) of a `density_curve`, ascending, from the left edge on, NaN where there is none."""
    bulk = 1 - float(atom(model, alpha))
    if not model.is_committee:
        rough = Resolvent(*_rules(model)[1][0](), alpha, model.levels())
        return _places(*_look(rough, edge, bulk), edge, points, mass, bulk)
    look, rho = looked_at(model, alpha, digits or DIGITS)
    # Half of those of the look are about what is in reach of the mass.
    lam = _places(look, rho, edge, max(points - len(look) // 2, points // 2), mass, bulk)
    # Those of the look too: equal shares of the mass may be too few beside 0, where the density may have no bound.
    return np.union1d(lam, look[(look < lam[-1]) & (look != 0)])


def _look(rough: Resolvent, edge: float, bulk: float) -> tuple[Array, Array]:
    """Places in geometric progression on either side of the mean, and from the edge on, with the density on rough nodes, scaled
    to the mass of the bulk."""
    mean, far = rough.mean, rough.width * np.geomspace(_SMALLEST, _FARTHEST, _LOOK)
    bounded = math.isfinite(edge)
    look = np.concatenate([mean - far, [mean], mean + far, edge + far if bounded else []])
    look = np.unique(look[look > edge] if bounded else look)
    rho = np.nan_to_num(rough.densities(look)[0])
    return look, rho * bulk / max(float(np.trapezoid(rho, look)), 1e-300)


def _places(look: Array, rho: Array, edge: float, points: int, mass: float, bulk: float) -> Array:
    """Where to draw the density, given a first look at it: half at equal shares of the mass, half crowding at the edge."""
    below = np.concatenate([[0.0], np.cumsum(np.diff(look) * (rho[1:] + rho[:-1]) / 2)])
    rising = np.concatenate([[True], np.diff(below) > 0])
    bounded, most = math.isfinite(edge), min(bulk, float(below[-1]))

    def reached(share: Array) -> Array:
        return np.interp(share, below[rising], look[rising])

    half = np.linspace(0, 1, points // 2 + 1)
    start = 0.0 if bounded else 1e-2
    shares = reached(most * (start + (mass - start) * half))
    even = np.linspace(shares[0], shares[-1], len(half))
    # rho ~ (lambda - edge)^(1/2): even steps in the root
    crowded = edge + (shares[-1] - edge) * half[1:] ** 2 if bounded else even
    places = np.unique(np.concatenate([shares, crowded]))
    # Not at the atom.
    return places[places != 0]


def _rules(model: Network) -> tuple[float, list[Nodes]]:
    """The tolerance of a model, and sets of nodes, weights and their probabilities, finer and finer."""
    if isotropic(model):
        return _CUBATURE, [partial(weight_nodes, model, *rule) for rule in _LINES]
    require_finite_width(model)
    if dimensions(model) <= _PRODUCT_DIMENSIONS:
        return _PRODUCT, [partial(_points, product_rule, model, h) for h in _PRODUCTS]
    return _POINTS, [partial(_points, sobol_rule, model, *at) for at in _SOBOL]


def _points(rule: Callable[..., Cubature], *arguments: Any) -> tuple[Array, Array]:
    found = rule(*arguments)
    return found.f, found.probability


def _settled(model: Network, alpha: float, lam: Array, tolerance: float) -> tuple[Array, Array]:
    """rho at places (n,) on finer and finer nodes until it moves by less than the tolerance, and by how much it moved."""
    order = np.argsort(lam)
    rho, moved = np.full(len(lam), np.nan), np.full(len(lam), np.inf)
    roots: list[Root | None] = [None] * len(lam)
    for nodes in _rules(model)[1]:
        rest = [i for i in order if not moved[i] <= tolerance]
        if not rest:
            break
        law = Resolvent(*nodes(), alpha, model.levels())
        found, fresh = law.densities(lam[rest], [roots[i] for i in rest])
        moved[rest] = np.abs(found - rho[rest]) / (np.abs(found) + 1 / law.width)
        rho[rest] = found
        for i, root in zip(rest, fresh, strict=True):
            roots[i] = root
    return rho, moved
