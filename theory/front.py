"""What theory says of any model: its edge, outliers, threshold, spectrum along alpha, density. Routes are chosen inside.

Exact where they can be (quadratic committees with any noise), else nodes or points: `theory.answers` says what these are,
`theory.general.spectrum` which route a model takes.
"""

from __future__ import annotations

import math
from functools import lru_cache

from theory.answers import Edge, Outlier
from theory.checks import numpy_defaults, one, ratio
from theory.exact.bulk import bulk_edge
from theory.exact.outliers import outlier as teacher_outlier
from theory.general.density import atom, density
from theory.general.results import Found
from theory.general.spectrum import alpha_zero as estimate
from theory.general.spectrum import solve, spectrum, threshold
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
    return solve(model, alpha)
