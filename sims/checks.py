"""Checks of arguments of sims' public functions beside those of `theory.checks`, and numbers made of them: one line each.

Where float32 does not resolve the low end of a Hessian it is refused, for all samples of a point alike. Derived here: rounding
moves eigenvalues by a few eps |H|, and the Krylov solver accepts residuals down to FLOOR eps |H|, within which, by Weyl's
inequality, every value it calls an eigenvalue has one. |H| is that of the label of largest weight, |H| <= 2 max |F| (measured:
0.9 to 1.9 of it, rows having |x|^2 near 1), while the lowest eigenvalues are of the size of the most negative weight f. So
their relative error is at most

    2 FLOOR eps max |F| / f

which grows without bound where a is small: labels y near 0 weigh up to 1/a. It is to be at most ERROR; the errors themselves
are some hundred times smaller. The largest of the weights that a run of samples meets is that of DRAWS times its data points,
drawn here from their law in a stream of its own, so that no sample is judged by itself: leaving out those of large weights
would bias what remains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar

import jax
import numpy as np

from theory.checks import ParameterError, count, one, positive, shown
from theory.model.network import Network, network

T = TypeVar("T")
WORD = 2**32  # how many numbers a word of a key tells apart
FLOOR = 10.0  # residuals below FLOOR eps |H| are rounding
ERROR = 0.1  # of the lowest eigenvalues in float32, by the bound
DRAWS = 64  # samples whose weights are looked at
MOST = 2**21  # preactivations drawn at most
_WIDEST = 2**31


def of_type(name: str, value: Any, kind: type[T]) -> T:
    """`value`, an instance of `kind`; else ParameterError.

    >>> of_type("rules", 3, int)
    3
    """
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        raise ParameterError(f"{name} must be {article} {kind.__name__}, got {shown(value)}")
    return value


def indices(name: str, values: Any) -> list[int]:
    """`values`, whole numbers of at least 0 in a row, as a list; else ParameterError."""
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        raise ParameterError(f"{name} must be a list of sample numbers, got {shown(values)}")
    try:
        listed = list(values)
    except TypeError:  # an array without axes
        raise ParameterError(f"{name} must be a list of sample numbers, got {shown(values)}") from None
    return [count(name.removesuffix("s"), value, minimum=0) for value in listed]


def reals(name: str, value: Any, *shape: int | None, dtype: Any = None) -> Any:
    """`value` as an array of real numbers of the given shape (None: any length; no shape: any), ready for JAX and LAPACK.

    The one conversion of arrays as they come: float32 and float64 stay what they are, JAX arrays stay on their device, all
    else (whole numbers, half and extended precision, the other byte order, masked arrays without masked entries) becomes
    float64 in the machine's byte order, by value; with `dtype` a NumPy array of that. Raises ParameterError, masked entries,
    complex and boolean numbers included.

    >>> reals("lam", [[1.0], [2.0]], None, 1).shape
    (2, 1)
    >>> reals("lam", np.array([100, 100], np.int8)).dtype
    dtype('float64')
    """
    array = value
    if np.ma.is_masked(value):
        raise ParameterError(f"{name} must have no masked entries, got {shown(value)}")
    if not isinstance(value, jax.Array):
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, OverflowError):
            array = np.asarray(None)
    if not (jax.dtypes.issubdtype(array.dtype, np.floating) or array.dtype.kind in "iu"):
        raise ParameterError(f"{name} must be an array of real numbers, got {shown(value)}")
    fits = len(shape) == array.ndim and all(
        want in (None, got) for want, got in zip(shape, array.shape, strict=True)
    )
    if shape and not fits:
        wanted = ", ".join("any" if want is None else str(want) for want in shape)
        raise ParameterError(f"{name} must have shape ({wanted}), got {array.shape}")
    if dtype is not None:
        return np.asarray(array, dtype)
    kept = array.dtype in (np.float32, np.float64) and array.dtype.isnative
    return array if kept else array.astype(np.float64)


def real_dtype(dtype: Any) -> np.dtype:
    """`dtype` as np.dtype, float32 or float64; else ParameterError."""
    try:
        name = np.dtype(dtype).name
    except (TypeError, ValueError, OverflowError, SyntaxError):
        name = ""
    if dtype is None or name not in ("float32", "float64"):
        raise ParameterError(f"dtype must be float32 or float64, got {shown(dtype)}")
    return np.dtype(name)


def below(name: str, value: int, bound: int) -> int:
    """`value`, a whole number from 0 to bound - 1; else ParameterError."""
    number = count(name, value, minimum=0)
    if number >= bound:
        raise ParameterError(f"{name} must be below {bound}, got {shown(value)}")
    return number


def samples_of(alpha: float, n: int) -> int:
    """Number of samples M = round(alpha N); ParameterError if alpha or N is unfit or M would be 0.

    Parameters
    ----------
    alpha : float
        M / N.
    n : int
        Input dimension N.

    Returns
    -------
    int
        M.

    Raises
    ------
    theory.checks.ParameterError

    >>> samples_of(2.5, 13)
    32
    """
    alpha, n = one("alpha", positive("alpha", alpha)), count("n", n)
    if alpha * n >= WORD:
        raise ParameterError(f"alpha N must be below 2^32 samples, got alpha = {alpha!r}, N = {shown(n)}")
    m = round(alpha * n)
    if m < 1:
        raise ParameterError(f"alpha N must round to at least one sample, got alpha = {alpha!r}, N = {n}")
    return m


def finite_p(model: Network) -> int:
    """The student's width as an int; ParameterError for p = inf, and for what is no model.

    Parameters
    ----------
    model : Network

    Returns
    -------
    int

    Raises
    ------
    theory.checks.ParameterError
    """
    if math.isinf(network(model).p):
        raise ParameterError("p must be finite to draw samples, got inf")
    if model.p >= _WIDEST:
        raise ParameterError(f"p must be below 2^31 to draw samples, got {model.p:g}")
    return int(model.p)


def weight_spread(model: Network, m: int) -> float:
    """Largest weight over the most negative one among DRAWS m data points (MOST preactivations); inf without a negative one.

    >>> from theory.model import Network
    >>> weight_spread(Network(1, 1, 1.0), 100) < 100 < weight_spread(Network(1, 1, 1e-3), 100)
    True
    """
    wide, p = network(model), finite_p(model)
    lam, y = wide.draw_labels(min(DRAWS * m, MOST // (p + model.p_star)), np.random.default_rng(0))[::2]
    d, c, g = wide.weight_parts(lam, y)
    along = c * np.sum(g**2, axis=-1)
    largest = np.max(np.max(np.abs(d), axis=-1) + np.abs(along))
    lowest = np.min(d) if p > 1 and np.all(along >= 0) else np.min(np.min(d, axis=-1) + along)
    return float(largest / -lowest) if lowest < 0 else math.inf


def require_resolved(model: Network, n: int, alpha: float, dtype: Any) -> None:
    """ParameterError if `dtype` is float32 and does not resolve the lowest eigenvalues at (N, alpha).

    Where no weight is negative there is nothing to compare with, and nothing is refused.
    """
    if real_dtype(dtype) != np.float32:
        return
    most = ERROR / (2 * FLOOR * float(np.finfo(np.float32).eps))
    spread = weight_spread(model, samples_of(alpha, n))
    if math.isfinite(spread) and spread > most:
        raise ParameterError(
            f"dtype must be float64 at a = {model.a:g}: weights span a factor of {spread:.2g},"
            f" and float32 resolves the lowest eigenvalues up to one of {most:.2g}"
        )
