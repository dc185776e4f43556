"""Checks of arguments of sims' public functions beside those of `theory.checks`: one line each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import jax
import numpy as np

from theory.checks import ParameterError, count, shown

T = TypeVar("T")


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
