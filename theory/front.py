"""What theory says of any model: its edge, outliers, threshold, spectrum along alpha, density. Routes are chosen inside.

Exact where they can be (quadratic committees with any noise), else nodes or points: `theory.answers` says what these are,
`theory.general.spectrum` which route a model takes.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theory.answers import Edge, Outlier, Spectrum
from theory.checks import ParameterError, numpy_defaults, one, ratio
from theory.exact.bulk import bulk_edge
from theory.exact.density import density as committee_density
from theory.exact.outliers import outlier as teacher_outlier
from theory.exact.weight_law import DIGITS
from theory.general.alpha_zero import alpha_zero as estimate
from theory.general.density import density as network_density
from theory.general.results import Found
from theory.general.spectrum import lowest_branch, threshold
from theory.general.spectrum import spectrum as solved
from theory.model.network import Network, network

__all__ = ["alpha_zero", "atom", "density", "edge", "outliers", "spectrum", "threshold"]


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
        value (units of the Hessian, of (p/2) H for p = inf), kind, error, route. Holds for every alpha > 0; for alpha < 1 the
        atom of mass 1 - alpha at 0 is not part of the bulk.

    Raises
    ------
    ParameterError
        Unless model is a Network and alpha one positive number.
    NotConverged
        Where no rule of averages settles.

    >>> found = edge(Network(1, 1, 1.0), 1.5)
    >>> round(found.value, 6), found.kind, found.error, found.route
    (-1.857321, 'sharp', 0.0, 'exact')
    >>> edge(Network(activation="he3", loss="squared"), 2.0).kind
    'no edge'
    """
    model = network(model)
    if _plain(model):
        return bulk_edge(model, alpha)
    return _solved(model, one("alpha", ratio("alpha", alpha))).bulk


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
    ParameterError, NotConverged
        As `edge`.

    >>> outliers(Network(1, 1, 1.0), 1.0)
    ()
    >>> [(round(o.value, 6), round(o.overlap, 6), o.multiplicity) for o in outliers(Network(1, 1, 1.0), 3.0)]
    [(-1.512028, 0.283811, 1)]
    """
    model = network(model)
    if _plain(model):
        found = teacher_outlier(model, alpha)
        return () if found is None else (found,)
    return _solved(model, one("alpha", ratio("alpha", alpha))).pulled


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
    NotConverged
        As `edge`.

    >>> spectrum(Network(1, 1, 1.0), [1.0, 2.0, 3.0]).overlap.round(4)
    array([   nan, 0.1495, 0.2838])
    """
    return lowest_branch(model, alpha)


@numpy_defaults
def density(
    model: Network,
    alpha: ArrayLike,
    values: ArrayLike,
    *,
    digits: int | None = None,
    tolerance: float | None = None,
) -> Any:
    """Bulk density of eigenvalues at `values`, per unit of the Hessian ((p/2) H for p = inf), without the `atom` at 0.

    Parameters
    ----------
    model : Network
    alpha : float
        M/N: one number, or an array that broadcasts with values for a quadratic committee without options.
    values : array of float
        Eigenvalues, any shape.
    digits : int
        8 to 15, of quadratic committees without options: see `theory.exact.density`.
    tolerance : float
        Of other models, NaN where it is not reached: see `theory.general.density`.

    Returns
    -------
    float or array
        Of the shape of values; exactly 0 outside the support.

    Raises
    ------
    ParameterError
        On unfit arguments, and for a model of which nodes are not known.

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
    rho = network_density(model, one("alpha", ratio("alpha", alpha)), values, tolerance)
    return float(rho) if rho.ndim == 0 else rho


@numpy_defaults
def atom(model: Network, alpha: ArrayLike) -> Any:
    """Mass of the eigenvalue 0, shape of alpha: 1 less alpha or the share of input directions that vary, whichever is less.

    >>> atom(Network(), 0.75)
    0.25
    """
    inputs = network(model).levels()
    varied = 1.0 if inputs is None else float(inputs[1][inputs[0] > 0].sum())
    mass = np.maximum(0.0, 1 - np.minimum(np.asarray(ratio("alpha", alpha)), varied))
    return float(mass) if mass.ndim == 0 else mass


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
    value = estimate(model, method)[0]
    return None if math.isnan(value) else value


def _plain(model: Network) -> bool:
    return model.is_quadratic and model.covariance is None


@lru_cache(maxsize=64)
def _solved(model: Network, alpha: float) -> Found:
    """Edge and outliers of one alpha, remembered: who asks for one asks for the other."""
    return solved(model, alpha)
