"""What theory says of any model: edge, outliers, spectrum along alpha, BBP threshold, alpha_0.

Routes, the most exact that holds is taken (`route`):

    "exact"      quadratic students and teachers, any noise, p, p_star: one Laplace integral (`theory.exact.averages`); with a
                 covariance `theory.general.isotropic` on the same averages. Errors are 0: the digits are those of rounding
    "nodes"      G a multiple of the identity and two dimensions: p = 1, p = inf, quadratic students of any p with another
                 loss or teacher (`theory.general.laws`); steps are halved until nothing moves, the last change is the error
    "points"     everything else: the matrix Dyson equation on product rules or Sobol points (`theory.general.points`)

Kinds and units are told by `theory.answers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.answers import Edge, Found, Outlier, Spectrum, Threshold
from theory.checks import NotConverged, ParameterError, choice, numpy_defaults, one, ratio, shown
from theory.exact.bulk import edges
from theory.exact.outliers import exact_spectrum
from theory.exact.transition import alpha_zero_map, threshold_map
from theory.general.first_order import carried_by_gradient
from theory.general.isotropic import Isotropic
from theory.general.laws import infimum_of, isotropic, quadratic_law, typical_infimum
from theory.general.nodes import first_threshold, found_at, node_spectrum, node_threshold, typical_threshold
from theory.general.points import point_spectrum, point_threshold
from theory.model.network import Network, network

Array = NDArray[Any]
_FIRST_ORDER = "the first-order part carries the signal already, at every alpha"


def _exact(model: Network, alpha: float) -> Found:
    """By `theory.exact`; with a covariance `Isotropic` on the same averages."""
    if model.covariance is not None:
        return found_at(Isotropic(quadratic_law(model), model.levels()), alpha, "exact")[0]
    here = exact_spectrum(model, alpha)
    low = Outlier(float(here.outlier), float(here.overlap), multiplicity=model.degeneracy)
    return Found(Edge(float(here.edge), str(here.kind)), () if math.isnan(low.value) else (low,))


def _exact_threshold(model: Network) -> Threshold:
    if model.covariance is not None:
        return first_threshold(Isotropic(quadratic_law(model), model.levels()), "exact")[0]
    widths = model.p, model.p_star, model.a
    found = threshold_map(*widths, model.noise)
    zero = alpha_zero_map(*widths, noise=model.noise, thresholds=found)
    return Threshold(float(found.alpha), str(found.kind), float(found.jump), alpha_0=float(zero))


# Every route: the answers at one alpha, and the threshold.
_ROUTES: dict[str, tuple[Callable[[Network, float], Found], Callable[[Network], Threshold]]] = {
    "exact": (_exact, _exact_threshold),
    "nodes": (node_spectrum, node_threshold),
    "points": (point_spectrum, point_threshold),
}


def route(model: Network) -> str:
    """Which route a model takes: "exact", "nodes" or "points"."""
    model = network(model)
    if model.is_quadratic:
        return "exact"
    return "nodes" if isotropic(model) else "points"


@numpy_defaults
def edge(model: Network, alpha: float) -> Edge:
    """Left edge of the bulk of the Hessian at alpha = M/N.

    Parameters
    ----------
    model : Network
    alpha : float
        M/N, one number; many at once: `spectrum`.

    Returns
    -------
    Edge
        value (units of the Hessian, of (p/2) H for p = inf), kind, error, route; "unresolved", with the reason, where no rule
        of averages settles. Holds for every alpha > 0; for alpha < 1 the atom of mass 1 - alpha at 0 is not part of the bulk.

    Raises
    ------
    ParameterError
        Unless model is a Network and alpha one positive number.

    >>> found = edge(Network(1, 1, 1.0), 1.5)
    >>> round(found.value, 6), found.kind, found.error, found.route
    (-1.857321, 'sharp', 0.0, 'exact')
    >>> edge(Network(activation="he3", loss="squared"), 2.0).kind
    'no edge'
    """
    model, alpha = network(model), one("alpha", ratio("alpha", alpha))
    if route(model) == "exact" and model.covariance is None:  # alone: outliers take as long
        value, r = edges(model, alpha)
        return Edge(float(value), "sharp" if r > 0 else "smooth")
    return solve(model, alpha).bulk


@numpy_defaults
def outliers(model: Network, alpha: float) -> tuple[Outlier, ...]:
    """All eigenvalues left of the bulk at alpha = M/N; equal ones are one Outlier.

    Parameters
    ----------
    model, alpha
        As in `edge`.

    Returns
    -------
    tuple of Outlier
        Lowest first, () if there is none.

    Raises
    ------
    ParameterError
        As `edge`.

    >>> outliers(Network(1, 1, 1.0), 1.0)
    ()
    >>> [(round(o.value, 6), round(o.overlap, 6), o.multiplicity) for o in outliers(Network(1, 1, 1.0), 3.0)]
    [(-1.512028, 0.283811, 1)]
    """
    return solve(model, alpha).pulled


@numpy_defaults
def solve(model: Network, alpha: float) -> Found:
    """Left edge and all outliers of the Hessian of a model at alpha = M/N, in units of the Hessian ((p/2) H for p = inf).

    Parameters
    ----------
    model : Network
    alpha : float
        M/N.

    Returns
    -------
    Found
        Kind "unresolved", with the reason, where no rule of averages settles.

    Raises
    ------
    ParameterError
        Unless model is a Network and alpha one positive number.

    >>> found = solve(Network(a=2.0, noise=0.3), 6.0)
    >>> found.kind, found.outliers.round(4), found.overlaps.round(4)
    ('sharp', array([-1.2233]), array([0.383]))
    """
    return _solved(network(model), one("alpha", ratio("alpha", alpha)))


@lru_cache(maxsize=64)
def _solved(model: Network, alpha: float) -> Found:
    """Remembered: who asks for the edge asks for outliers."""
    taken = route(model)
    try:
        return _ROUTES[taken][0](model, alpha)
    except NotConverged as failure:
        return Found(Edge(math.nan, "unresolved", math.nan, taken, str(failure)))


@numpy_defaults
def threshold(model: Network) -> Threshold:
    """alpha_BBP: the smallest alpha above which an outlier that carries the teacher lies left of the bulk.

    Parameters
    ----------
    model : Network

    Returns
    -------
    Threshold
        alpha, kind, jump of the squared overlap, error, alpha_0, route and reason.

    Raises
    ------
    ParameterError
        Unless model is a Network.

    >>> found = threshold(Network(a=2.0))
    >>> found.kind, round(found.alpha, 4), round(found.jump, 4)
    ('discontinuous', 1.6904, 0.1138)
    """
    taken = route(model)
    try:
        found = _ROUTES[taken][1](model)
    except NotConverged as failure:
        return Threshold(math.nan, "unresolved", math.nan, route=taken, reason=str(failure))
    if found.kind == "none" and carried_by_gradient(model):
        return replace(found, reason=f"{found.reason}; {_FIRST_ORDER}")
    return found


@numpy_defaults
def spectrum(model: Network, alpha: ArrayLike) -> Spectrum:
    """Edge and lowest outlier along alpha: the arrays that a sweep file keeps.

    Parameters
    ----------
    model : Network
    alpha : array of float
        M/N, any shape.

    Returns
    -------
    Spectrum
        Arrays of the shape of alpha, NaN where there is no edge or no outlier.

    Raises
    ------
    ParameterError
        Unless model is a Network and every alpha positive.

    >>> spectrum(Network(1, 1, 1.0), [1.0, 2.0, 3.0]).overlap.round(4)
    array([   nan, 0.1495, 0.2838])
    """
    model, alphas = network(model), np.asarray(ratio("alpha", alpha))
    if model.is_quadratic and model.covariance is None:
        return exact_spectrum(model, alphas)
    none = Outlier(math.nan, math.nan, math.nan, math.nan, 1, math.nan, math.nan)
    rows = []
    for v in alphas.ravel():
        found = solve(model, v)
        edge, low = found.bulk, found.pulled[0] if found.pulled else none
        places = edge.value, edge.error, edge.kind, low.value, low.error
        shares = low.overlap, low.overlap_error, low.teacher_share, low.student_share
        rows.append((v, *places, *shares, edge.reason))
    columns: Any = zip(*rows, strict=True) if rows else [()] * 11
    arrays: Any = (np.array(column).reshape(alphas.shape) for column in columns)
    return replace(Spectrum(*arrays), route=route(model))


@numpy_defaults
def alpha_zero(model: Network, method: str = "overlap") -> float | None:
    """alpha_0, where a discontinuous transition would lose its overlap.

    Parameters
    ----------
    model : Network
    method : str
        "overlap": where the tangent of the overlap at alpha_BBP meets 0; "continuation": where the conditions of a sharp edge
        and of the outlier, continued beyond the smooth edge, hold together.

    Returns
    -------
    float or None
        alpha_BBP for a continuous transition, None where there is none.

    Raises
    ------
    ParameterError
        For another method.

    >>> round(alpha_zero(Network(2, 1, 1.0)), 4)
    0.9021
    """
    value = alpha_zero_estimate(model, method)[0]
    return None if math.isnan(value) else value


def alpha_zero_estimate(model: Network, method: str = "overlap") -> tuple[float, float, str]:
    """alpha_0 of a model, where a discontinuous transition would lose its overlap, with its error.

    overlap        the tangent of q2(alpha) at alpha_BBP+, followed to zero: alpha_BBP - q2 / (dq2/dalpha). Where G is g I,
                   alpha and q2 are explicit functions of q along the outlier (`theory.general.isotropic`), from
                   q_min on; elsewhere q2 is taken just above the threshold of each rule. One-sided differences in both.
    continuation   sharp edge and outlier beyond q_min. For the quadratic committee by principal values (`theory.exact`). At
                   p = inf, where weights that have no probability set q_min, beyond it lies the law without them
                   (`theory.general.extremes`), and plain averages do. Others have not been derived: NaN, with that reason.

    A continuous transition loses its overlap at alpha_BBP itself: both estimates are that.

    Parameters
    ----------
    model : Network
    method : str
        "overlap" or "continuation".

    Returns
    -------
    tuple (float, float, str)
        alpha_0, NaN where there is none; its error; why there is none, or "".

    Raises
    ------
    ParameterError
        For another method.

    >>> round(alpha_zero_estimate(Network(float("inf"), activation="tanh", a=2.0), "continuation")[0], 4)
    2.8943
    """
    model, method = network(model), choice("method", method, ("overlap", "continuation"))
    if model.is_quadratic and model.covariance is None:
        value = float(alpha_zero_map(model.p, model.p_star, model.a, method, noise=model.noise))
        if math.isnan(value):
            return value, 0.0, "no such alpha, or one below the weak-recovery limit"
        return value, 0.0, ""
    found = threshold(model)
    if found.kind != "discontinuous":
        return found.alpha, found.error, found.reason
    if method == "overlap":
        reason = "" if math.isfinite(found.alpha_0) else "the tangent reaches no alpha > 0"
        return found.alpha_0, 0.0 if reason else found.alpha_0_error, reason
    rare = math.isinf(model.p) and isotropic(model) and infimum_of(model) != typical_infimum(model)
    beyond = typical_threshold(model) if rare else None
    if beyond is None or beyond.kind != "continuous":
        return math.nan, 0.0, "averages beyond the end of the support are not known here"
    return beyond.alpha, beyond.error, ""


def model_map(model: Network, **axes: Sequence[Any]) -> Threshold:
    """alpha_BBP on the product of the given values of any parameters of a Network, the rest as in `model`.

    Parameters
    ----------
    model : Network
    axes : lists
        Values of each parameter, by its name.

    Returns
    -------
    Threshold
        Arrays of the lengths of the axes, in their order. Kind "refused" where the parameters make no model, "failed" where the
        threshold was not found, with the reason.

    Raises
    ------
    ParameterError
        Where an axis is not a parameter, or empty.

    >>> found = model_map(Network(activation="tanh"), a=[0.5, 2.0], noise=[0.0, 0.3])
    >>> found.kind.tolist()
    [['refused', 'refused'], ['continuous', 'continuous']]
    >>> found.alpha[1].round(4)
    array([2.509 , 3.1383])
    """
    model = network(model)
    names = {f.name for f in fields(Network)}
    for name, values in axes.items():
        if name not in names:
            raise ParameterError(f"axes must be among {', '.join(sorted(names))}, got {shown(name)}")
        if isinstance(values, str) or not len(values):
            raise ParameterError(f"{name} must be a list of at least one value, got {shown(values)}")
    points = [_at(model, dict(zip(axes, chosen, strict=True))) for chosen in product(*axes.values())]
    shape = tuple(len(values) for values in axes.values())

    def column(name: str) -> Any:
        return np.array([getattr(point, name) for point in points]).reshape(shape)

    finite = "n", "share", "asked"  # of finite N: at their defaults
    return Threshold(**{f.name: column(f.name) for f in fields(Threshold) if f.name not in finite})


def _at(model: Network, changes: dict[str, Any]) -> Threshold:
    try:
        changed = replace(model, **changes)
    except ParameterError as refusal:
        return Threshold(np.nan, "refused", np.nan, reason=str(refusal))
    try:
        return threshold(changed)
    except (ParameterError, NotConverged) as failure:
        return Threshold(np.nan, "failed", np.nan, reason=str(failure))
