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


def has(name: str, value: Any, *parts: str) -> Any:
    """`value`, which has these attributes; else ParameterError that calls it by `name`."""
    if not all(hasattr(value, part) for part in parts):
        raise ParameterError(f"{name} must have {', '.join(parts)}, got {shown(value)}")
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


def reals(name: str, value: Any, *shape: int | None) -> Any:
    """`value` as an array of real numbers, a JAX array as it is, of the given shape (None: any length; no shape: any).

    Raises ParameterError.

    >>> reals("lam", [[1.0], [2.0]], None, 1).shape
    (2, 1)
    """
    array = value
    if not isinstance(value, jax.Array):
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, OverflowError):
            array = np.asarray(None)
    if array.dtype.kind not in "iuf":
        raise ParameterError(f"{name} must be an array of real numbers, got {shown(value)}")
    fits = len(shape) == array.ndim and all(
        want in (None, got) for want, got in zip(shape, array.shape, strict=True)
    )
    if shape and not fits:
        wanted = ", ".join("any" if want is None else str(want) for want in shape)
        raise ParameterError(f"{name} must have shape ({wanted}), got {array.shape}")
    return array


def stream_key(name: str, value: Any) -> jax.Array:
    """`value`, a key of `sims.instance` (one threefry key); else ParameterError."""
    if not (isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)):
        raise ParameterError(f"{name} must be a key from draw_key or data_key, got {shown(value)}")
    return value
