"""What the theory uses of `scipy.optimize`, `.interpolate` and `.stats`, imported when first called: that takes long."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def brentq(function: Callable[..., float], low: float, high: float, **options: Any) -> float:
    """`scipy.optimize.brentq`: a root between low and high, where the function has different signs.

    >>> round(brentq(lambda x: x**2 - 2, 0, 2), 6)
    1.414214
    """
    return float(_optimize().brentq(function, low, high, **options))


def minimize(function: Callable[..., float], start: Any, **options: Any) -> Any:
    """`scipy.optimize.minimize`."""
    return _optimize().minimize(function, start, **options)


def minimize_scalar(function: Callable[..., float], **options: Any) -> Any:
    """`scipy.optimize.minimize_scalar`."""
    return _optimize().minimize_scalar(function, **options)


def root(function: Callable[..., Any], start: Any, **options: Any) -> Any:
    """`scipy.optimize.root`."""
    return _optimize().root(function, start, **options)


def cubic_spline(x: Any, y: Any, **options: Any) -> Any:
    """`scipy.interpolate.CubicSpline`.

    >>> float(cubic_spline([0, 1, 2, 3], [0, 1, 8, 27])(1.5).round(9))
    3.375
    """
    return _interpolate().CubicSpline(x, y, **options)


def monotone_cubic(x: Any, y: Any) -> Any:
    """`scipy.interpolate.PchipInterpolator`."""
    return _interpolate().PchipInterpolator(x, y)


def sobol(dimensions: int, rng: Any, level: int) -> Any:
    """`scipy.stats.qmc.Sobol`: 2^level scrambled points (2^level, dimensions) of the unit cube."""
    return importlib.import_module("scipy.stats.qmc").Sobol(dimensions, rng=rng).random_base2(level)


def _interpolate() -> Any:
    return importlib.import_module("scipy.interpolate")


def _optimize() -> Any:
    return importlib.import_module("scipy.optimize")
