"""Spectral methods of weak recovery: the largest eigenvalue of D = sum_mu T(y^mu) x^mu x^mu^T and its overlap.

The case p = 1, F = T(y) of the general equation: labels y = mean_l u_l^2 of a quadratic teacher of width p_star,
inputs x ~ N(0, I_N / N), alpha = M / N. The top eigenvector is informative once its eigenvalue leaves the bulk on the
right. Sources: Lu and Li, arXiv 1702.06435; Mondelli and Montanari, arXiv 1708.05932 (trimmed and optimal
preprocessing); for p_star > 1 the same derivation with E[u_l^2 | y] = y, whose weak-recovery threshold is
1 / E[(y - 1)^2] = p_star / 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from theory.answers import Edge, Outlier, Threshold
from theory.checks import ParameterError, count, finite, function, numpy_defaults, one, positive, ratio, shown
from theory.general.isotropic import Isotropic, given_law
from theory.general.quadrature import chi_square_law

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Preprocessing:
    """A function T(y) of the label: it maps (n,) to (n,), bounded by `supremum`; it jumps or kinks at `breaks`.

    Raises ParameterError unless `function` can be called, `supremum` is a number (inf where there is none, which the
    spectral functions then refuse) and `breaks` are positive.
    """

    name: str
    function: Callable[[Array], Array]
    supremum: float
    breaks: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        function("function", self.function)
        try:
            unbounded = np.ndim(self.supremum) == 0 and float(self.supremum) == np.inf
        except (TypeError, ValueError, OverflowError):
            unbounded = False
        supremum = np.inf if unbounded else one("supremum", finite("supremum", self.supremum))
        object.__setattr__(self, "supremum", supremum)
        object.__setattr__(self, "breaks", tuple(np.atleast_1d(positive("breaks", self.breaks)).tolist()))

    def __call__(self, y: Array) -> Array:
        return self.function(np.asarray(y, dtype=np.float64))


def optimal() -> Preprocessing:
    """T = 1 - 1/y: the weak-recovery threshold p_star / 2, and the largest overlap at every alpha above it.

    Mondelli and Montanari, arXiv 1708.05932; uniform optimality: Luo, Alghamdi and Lu, arXiv 1811.04420.

    Returns
    -------
    Preprocessing

    >>> round(spectral_threshold(optimal(), p_star=2).alpha, 6)
    1.0
    """
    return Preprocessing("optimal", lambda y: 1 - 1 / y, 1.0)


def optimal_at(alpha: float, p_star: int = 1) -> Preprocessing:
    """Bounded preprocessing for one alpha > p_star / 2: T = (y - 1) / (y + sqrt(2 alpha / p_star) - 1).

    Mondelli and Montanari, arXiv 1708.05932, equation for T*_delta, with delta_u = p_star / 2.

    Parameters
    ----------
    alpha : float
        M/N, above p_star / 2.
    p_star : int
        Width of the teacher.

    Returns
    -------
    Preprocessing

    Raises
    ------
    ParameterError
        On any other alpha.

    >>> optimal_at(2.0).name
    'optimal_at(2)'
    """
    alpha, p_star = one("alpha", positive("alpha", alpha)), count("p_star", p_star)
    shift = np.sqrt(2 * alpha / p_star) - 1
    if shift <= 0:
        raise ParameterError(
            f"alpha must exceed p_star / 2 = {p_star / 2} for this preprocessing, got {alpha}"
        )
    return Preprocessing(f"optimal_at({alpha:g})", lambda y: (y - 1) / (y + shift), 1.0)


def trimmed(cut: float = 3.0) -> Preprocessing:
    """T = y for y < cut, else 0 (trimmed spectral initialisation).

    Parameters
    ----------
    cut : float
        Positive.

    Returns
    -------
    Preprocessing

    Raises
    ------
    ParameterError
        Unless cut is one positive number.

    >>> trimmed(3.0)(np.array([1.0, 4.0])).tolist()
    [1.0, 0.0]
    """
    cut = one("cut", positive("cut", cut))
    return Preprocessing(f"trimmed({cut:g})", lambda y: np.where(y < cut, y, 0.0), cut, (cut,))


def subset(cut: float = 1.0) -> Preprocessing:
    """T = 1 for y > cut, else 0: the samples with the largest labels.

    Parameters
    ----------
    cut : float
        Positive.

    Returns
    -------
    Preprocessing

    Raises
    ------
    ParameterError
        Unless cut is one positive number.

    >>> subset(1.0)(np.array([0.5, 4.0])).tolist()
    [0.0, 1.0]
    """
    cut = one("cut", positive("cut", cut))
    return Preprocessing(f"subset({cut:g})", lambda y: np.where(y > cut, 1.0, 0.0), 1.0, (cut,))


@numpy_defaults
def preprocessing_law(method: Preprocessing, p_star: int = 1) -> Isotropic:
    """Equations of (-T(y), y): right edges and outliers of D are minus the left ones of this law.

    Parameters
    ----------
    method : Preprocessing
    p_star : int
        Width of the teacher.

    Returns
    -------
    Isotropic

    Raises
    ------
    ParameterError
        Where T is unbounded above (D then has no right edge) or exceeds its stated supremum.

    >>> preprocessing_law(optimal()).edge(2.0)[1]
    'sharp'
    """
    if not isinstance(method, Preprocessing):
        raise ParameterError(f"method must be a Preprocessing, got {shown(method)}")
    if not np.isfinite(method.supremum):
        raise ParameterError(f"preprocessing {method.name} is unbounded above: its bulk has no right edge")
    y, probability = chi_square_law(count("p_star", p_star), method.breaks)
    values = np.asarray(finite(f"preprocessing {method.name}", method(y)))
    if values.shape != y.shape or np.any(values > method.supremum):
        raise ParameterError(f"preprocessing {method.name} must map (n,) to (n,) below {method.supremum}")
    # E[u_l^2 | y] = y is what the spike has in place of 1; -T turns a right edge into a left one.
    return given_law(-values, y, probability, -method.supremum, p_star)


@numpy_defaults
def spectral_edge(method: Preprocessing, alpha: float, p_star: int = 1) -> Edge:
    """Right edge of the bulk of D.

    Parameters
    ----------
    method : Preprocessing
    alpha : float
        M/N.
    p_star : int
        Width of the teacher.

    Returns
    -------
    Edge

    Raises
    ------
    ParameterError
        Unless alpha is one positive number, and as `preprocessing_law`.
    NotConverged
        Where the edge is not found.

    >>> round(float(spectral_edge(trimmed(), 2.0).value), 6)
    6.111446
    """
    value, kind, _ = preprocessing_law(method, p_star).edge(one("alpha", ratio("alpha", alpha)))
    return Edge(-value, kind, route="nodes")


@numpy_defaults
def spectral_outlier(method: Preprocessing, alpha: float, p_star: int = 1) -> Outlier | None:
    """The p_star-fold outlier of D right of the bulk, with its squared overlap with the teacher space; or None.

    Parameters
    ----------
    method, alpha, p_star
        As in `spectral_edge`.

    Returns
    -------
    Outlier or None

    Raises
    ------
    ParameterError, NotConverged
        As `spectral_edge`.

    >>> round(float(spectral_outlier(optimal(), 2.0).overlap), 6)
    0.638881
    >>> spectral_outlier(optimal(), 0.4) is None
    True
    """
    law, alpha = preprocessing_law(method, p_star), one("alpha", ratio("alpha", alpha))
    found = law.outliers(alpha, law.edge(alpha)[2])
    return Outlier(-found[0].value, found[0].overlap, multiplicity=p_star) if found else None


@numpy_defaults
def spectral_threshold(method: Preprocessing, p_star: int = 1) -> Threshold | None:
    """Smallest alpha at which the outlier leaves the bulk of D, its kind and the overlap just above; or None.

    Parameters
    ----------
    method : Preprocessing
    p_star : int
        Width of the teacher.

    Returns
    -------
    Threshold or None

    Raises
    ------
    ParameterError
        As `preprocessing_law`.

    >>> round(float(spectral_threshold(optimal()).alpha), 6)
    0.5
    """
    found = preprocessing_law(method, p_star).thresholds(0)
    return replace(found[0][0], route="nodes") if found else None
