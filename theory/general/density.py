"""Bulk density of the Hessian of any network: rho(lambda) = -Im (1/pN) Tr (lambda + i0 - H)^{-1} / pi.

The complex Dyson equation (`theory.general.resolvent`) on the nodes of the model's route: those of `theory.general.laws`
where G is a multiple of the identity, clouds of `theory.general.clouds` elsewhere. Places are solved again on finer and finer
nodes until rho moves by less than a tolerance; roots on one set of nodes are where Newton's method starts on the next. Weights
need no lower bound. Where the model is the quadratic committee the exact density is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import ParameterError, count, finite, numpy_defaults, one, positive, ratio
from theory.exact.density import density as committee_density
from theory.general.clouds import Cloud, dimensions, fit, product_cloud, sobol_cloud
from theory.general.laws import isotropic, weight_nodes
from theory.general.resolvent import Point, Resolvent
from theory.general.results import Found
from theory.general.spectrum import spectrum
from theory.model.network import Network, network

Array = NDArray[Any]
Nodes = Callable[[], tuple[Array, Array]]

_LINES = (
    (0.16, 0.1),
    (0.11, 0.1),
    (0.08, 0.1),
    (0.057, 1e-3),
    (0.03, 0.1),
)  # steps and radii of the rules, in turn
_PRODUCTS = 0.35, 0.25, 0.2, 0.16  # steps of product rules
_SOBOL = (0, 12), (1, 13), (2, 14)  # scrambling and log2 of the points
_CUBATURE, _PRODUCT, _POINTS = (
    1e-6,
    1e-3,
    1e-2,
)  # steady: change of rho relative to rho and 1/(width of the spectrum)
_DRAWN, _KEPT = (
    1e-3,
    0.03,
)  # the same, for a curve to be drawn: aimed at, and kept where the finest nodes do no better
_PRODUCT_DIMENSIONS = 3
_LOOK = 40  # places of the first look at a curve, on either side
_SMALLEST, _FARTHEST = 1e-3, 30.0  # of their distances, in standard deviations of the spectrum


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
def density(model: Network, alpha: float, lam: ArrayLike, tolerance: float | None = None) -> Array:
    """Bulk density rho(lam), shape of lam, per unit of the Hessian ((p/2) H for p = inf), without the `atom` at 0.

    tolerance  NaN stands where the last two sets of nodes differ by more than this times rho + 1/(width of the spectrum), as
               they may next to lam = 0 for alpha <= 1, or where Newton's method fails. None: 1e-6 where G is a multiple of the
               identity, 1e-3 for students that mix in up to three dimensions, 1e-2 in more. The quadratic committee has all
    Raises ParameterError for a model that is none or has no nodes (p = inf with an output noise or several teachers that are
    not quadratic), an alpha that is not positive and lam not finite.

    >>> density(Network(a=2.0, activation="tanh"), 6.0, [0.725]).round(3)
    array([0.371])
    """
    model, alpha = network(model), one("alpha", ratio("alpha", alpha))
    values = np.asarray(finite("lam", lam), float)
    if model.is_committee:
        return np.asarray(committee_density(model, alpha, values))
    limit = _tolerance(model) if tolerance is None else one("tolerance", positive("tolerance", tolerance))
    rho, moved = _settled(model, alpha, values.ravel(), limit)
    return np.where(moved <= limit, rho, np.nan).reshape(values.shape)


def atom(model: Network, alpha: float) -> float:
    """Mass of the eigenvalue 0: 1 less alpha or the share of input directions that vary, whichever is less.

    >>> atom(Network(activation="tanh", a=2.0), 0.75)
    0.25
    """
    model, alpha = network(model), one("alpha", ratio("alpha", alpha))
    inputs = model.levels()
    varied = 1.0 if inputs is None else float(inputs[1][inputs[0] > 0].sum())
    return max(0.0, 1 - min(alpha, varied))


@numpy_defaults
def density_curve(
    model: Network,
    alpha: float,
    points: int = 200,
    mass: float = 0.9,
    known: Found | None = None,
) -> DensityCurve:
    """The density from the left edge to where `mass` of the bulk is reached, at about `points` places.

    Half of the places crowd at the edge, where rho rises like a square root, half lie at equal shares of the mass. Weights
    unbounded below have no edge: the curve then starts where 1e-2 of the mass is reached. Places are steady to 1e-3 (see
    `density`), 1e-2 where Sobol points are needed, and 3e-2 next to lam = 0 for alpha <= 1.
    known  the `spectrum` at alpha, if the caller has it
    Raises ParameterError as `density` and `spectrum`, and unless points >= 10 and 0 < mass < 1.

    >>> curve = density_curve(Network(a=2.0, activation="tanh"), 6.0, points=60)
    >>> bool(0.85 < np.trapezoid(curve.rho, curve.lam) < 0.95)
    True
    """
    model, alpha, points = network(model), one("alpha", ratio("alpha", alpha)), count("points", points, 10)
    mass = one("mass", finite("mass", mass))
    if not 0 < mass < 1:
        raise ParameterError(f"mass must lie between 0 and 1, got {mass}")
    found = spectrum(model, alpha) if known is None else known
    zero = atom(model, alpha)
    lam = _places(
        Resolvent(*next(_nodes(model))(), alpha, model.levels()), found.edge, points, mass, 1 - zero
    )
    if model.is_committee:
        rho, moved = density(model, alpha, lam), np.zeros(len(lam))
    else:
        rho, moved = _settled(model, alpha, lam, max(_DRAWN, _tolerance(model)))
    good = np.isfinite(rho) & (moved <= _KEPT)
    return DensityCurve(lam[good], rho[good], zero, found)


def _places(rough: Resolvent, edge: float, points: int, mass: float, bulk: float) -> Array:
    """Where to look: by a first look on rough nodes at distances in geometric progression."""
    mean, far = rough.mean, rough.width * np.geomspace(_SMALLEST, _FARTHEST, _LOOK)
    bounded = math.isfinite(edge)
    look = np.concatenate([mean - far, [mean], mean + far, edge + far if bounded else []])
    look = np.unique(look[look > edge] if bounded else look)
    rho = np.nan_to_num(rough.densities(look)[0])
    held = np.concatenate([[0.0], np.cumsum(np.diff(look) * (rho[1:] + rho[:-1]) / 2)])
    held *= bulk / max(held[-1], 1e-300)
    rising = np.concatenate([[True], np.diff(held) > 0])

    def reached(share: Array) -> Array:
        return np.interp(share, held[rising], look[rising])

    half = np.linspace(0, 1, points // 2 + 1)
    start = 0.0 if bounded else 1e-2
    shares = reached(bulk * (start + (mass - start) * half))
    crowded = (
        edge + (shares[-1] - edge) * half[1:] ** 2
        if bounded
        else np.linspace(shares[0], shares[-1], len(half))
    )
    places = np.unique(np.concatenate([shares, crowded]))
    return places[places != 0]


def _nodes(model: Network) -> Iterator[Nodes]:
    """Sets of nodes, weights and their probabilities, finer and finer."""
    if isotropic(model):
        yield from (partial(weight_nodes, model, *rule) for rule in _LINES)
        return
    fit(model)
    if dimensions(model) <= _PRODUCT_DIMENSIONS:
        yield from (partial(_points, product_cloud, model, h) for h in _PRODUCTS)
    else:
        yield from (partial(_points, sobol_cloud, model, *at) for at in _SOBOL)


def _points(cloud: Callable[..., Cloud], *arguments: Any) -> tuple[Array, Array]:
    found = cloud(*arguments)
    return found.f, found.probability


def _tolerance(model: Network) -> float:
    if isotropic(model):
        return _CUBATURE
    fit(model)
    return _PRODUCT if dimensions(model) <= _PRODUCT_DIMENSIONS else _POINTS


def _settled(model: Network, alpha: float, lam: Array, tolerance: float) -> tuple[Array, Array]:
    """rho at places (n,) on finer and finer nodes until it moves by less than the tolerance, and by how much it moved."""
    order = np.argsort(lam)
    rho, moved = np.full(len(lam), np.nan), np.full(len(lam), np.inf)
    roots: list[Point | None] = [None] * len(lam)
    for nodes in _nodes(model):
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
