"""Checks of arguments at the public boundary: one line that says what was wanted and what was given.

Each takes the argument's name, for the message, and its value. It returns the value in the type that its first line states,
or raises ParameterError.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

LARGEST = 1e300  # of a whole number: beyond it floats overflow
TEACHERS = 1e40  # of p_star: thresholds grow like its square
RATIOS = 1e100  # of alpha = M/N, whose square must not overflow
# Decorates public functions: NumPy's defaults for floating-point errors, whatever the caller has set by np.seterr.
numpy_defaults = np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")

NORMALISATIONS = 1e-100, 1e60  # between which the averages over preactivations neither overflow nor underflow


class ParameterError(ValueError):
    """An argument the caller can mend; one line, like "alpha must be positive and finite, got -1.0"."""


class NotConverged(RuntimeError):
    """An iterative solve that ran out of steps; `best` carries its best estimate so far."""

    def __init__(self, message: str, best: Any = None):
        super().__init__(message)
        self.best = best


def positive(name: str, value: Any) -> Any:
    """`value` as float (or float64 array of its shape), all positive and finite; else ParameterError."""
    return _array(name, value, lambda v: (v > 0) & np.isfinite(v), "positive and finite")


def finite(name: str, value: Any) -> Any:
    """`value` as float (or float64 array of its shape), all finite; else ParameterError."""
    return _array(name, value, np.isfinite, "finite")


def real(name: str, value: Any) -> np.ndarray:
    """`value` as float64 array, however it comes (big-endian, narrow, a list); ParameterError if it is masked or no numbers."""
    return np.asarray(_array(name, value, lambda v: True, "real numbers"))


def upper_half_plane(name: str, value: Any) -> Any:
    """`value` as complex128 (or array of its shape), Im > 0 and 1e-300 <= |value| <= 1e300; else ParameterError."""

    def accept(z: Any) -> Any:
        with np.errstate(all="ignore"):
            return (z.imag > 0) & (np.abs(z) >= 1 / LARGEST) & (np.abs(z) <= LARGEST)

    wanted = "complex, finite and not 0, with positive imaginary part"
    return _array(name, value, accept, wanted, "iufcO", np.complex128)


def one(name: str, value: Any) -> float:
    """`value`, checked by another function of this module, as float; ParameterError if it is an array."""
    if np.ndim(value):
        raise ParameterError(f"{name} must be one number here, got an array of shape {np.shape(value)}")
    return float(value)


def ratio(name: str, value: Any) -> Any:
    """A ratio alpha = M/N as float (or float64 array of its shape): positive, at most 1e100; else ParameterError."""
    value = positive(name, value)
    if np.any(np.asarray(value) > RATIOS):
        raise ParameterError(f"{name} must be at most {RATIOS:g}, got {np.max(value):g}")
    return value


def normalisation(name: str, value: Any) -> Any:
    """a as float (or float64 array of its shape): from 1e-100 to 1e60; else ParameterError."""
    low, high = NORMALISATIONS
    array = np.asarray(positive(name, value))
    outside = array[(array < low) | (array > high)]
    if outside.size:
        raise ParameterError(f"{name} must lie between {low:g} and {high:g}, got {outside.flat[0]:g}")
    return float(array) if array.ndim == 0 else array


def variance(name: str, value: Any) -> Any:
    """A variance as float (or float64 array of its shape): from 0 to 1e60; else ParameterError."""
    return _array(name, value, lambda v: (v >= 0) & (v <= NORMALISATIONS[1]), "a variance from 0 to 1e60")


def broadcast(**arrays: Any) -> tuple[Any, ...]:
    """The named arrays broadcast against one another; ParameterError where their shapes do not allow it."""
    try:
        return tuple(np.broadcast_arrays(*arrays.values()))
    except ValueError:
        *most, last = arrays
        names = f"{', '.join(most)} and {last}"
        shapes = ", ".join(str(np.shape(v)) for v in arrays.values())
        raise ParameterError(f"{names} must broadcast, got shapes {shapes}") from None


def choice(name: str, value: Any, options: Iterable[str]) -> str:
    """`value`, one of the strings `options`; else ParameterError."""
    if not isinstance(value, str) or value not in options:
        raise ParameterError(f"{name} must be one of {', '.join(options)}, got {shown(value)}")
    return value


def named(name: str, value: Any, options: Iterable[str], own: str = "") -> str:
    """The string among `options` that `value` writes, whatever its capitals, spaces and hyphens; else ParameterError.

    own   how one's own is made: told where `value` is no name, but a function, or says where one lies

    >>> named("activation", "Softened ReLU", ["tanh", "softened_relu"])
    'softened_relu'
    """
    written = {_folded(option): option for option in options}
    found = written.get(_folded(value), "")
    if not found and own and (not written or not isinstance(value, str) or ":" in value):
        names = f"one of {', '.join(written.values())}, or " if written else ""
        raise ParameterError(f"{name} must be {names}{own}, got {shown(value)}")
    return found or choice(name, value, options)


def entry(name: str, given: Any, kind: type, entries: Iterable[Any], own: str) -> Any:
    """`given` itself where it is of this kind, or the one of `entries` that has its name; else ParameterError, as `named`."""
    if isinstance(given, kind):
        return given
    names = {each.name: each for each in entries}
    return names[named(name, given, names, own)]


def word(name: str, value: Any) -> str:
    """`value`, a text that is not empty; else ParameterError."""
    if not isinstance(value, str) or not value.strip():
        raise ParameterError(f"{name} must be a word, got {shown(value)}")
    return value


def _folded(value: Any) -> str:
    return str(value).lower().replace(" ", "_").replace("-", "_")


def flag(name: str, value: Any) -> bool:
    """`value`, True or False; else ParameterError."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def function(name: str, value: Any) -> Any:
    """`value`, which can be called; else ParameterError."""
    if not callable(value):
        raise ParameterError(f"{name} must be a function, got {shown(value)}")
    return value


def generator(name: str, value: Any) -> np.random.Generator:
    """`value`, a NumPy random generator; else ParameterError."""
    if not isinstance(value, np.random.Generator):
        raise ParameterError(f"{name} must be a numpy.random.Generator, got {shown(value)}")
    return value


def count(name: str, value: Any, minimum: int = 1, largest: float = LARGEST) -> int:
    """`value` as int, at least `minimum`, at most `largest`; else ParameterError.

    2.0 counts as 2; True and "2" do not count.
    """
    number = _whole(value)
    if number is None or number < minimum:
        raise ParameterError(f"{name} must be an integer of at least {minimum}, got {shown(value)}")
    if number > largest:
        raise ParameterError(f"{name} must be at most {largest:g}, got {shown(number)}")
    return number


def width(name: str, value: Any) -> int | float:
    """A layer width: an integer from 1 to 1e300, or math.inf; else ParameterError."""
    if isinstance(value, float | np.floating) and math.isinf(value) and value > 0:
        return math.inf
    number = _whole(value)
    if number is None or number < 1:
        raise ParameterError(f"{name} must be an integer of at least 1 or inf, got {shown(value)}")
    return count(name, value)


def widths(name: str, value: Any, infinite: bool = True, largest: float = LARGEST) -> Any:
    """Layer widths as float64 (array or float): whole numbers from 1 to `largest`, inf only if
    allowed; else ParameterError."""
    wanted = "an integer of at least 1" + (" or inf" if infinite else "")
    value = _array(name, value, lambda v: (v >= 1) & (v == np.rint(v)) & (np.isfinite(v) | infinite), wanted)
    array = np.asarray(value)
    if np.any(np.isfinite(array) & (array > largest)):
        raise ParameterError(f"{name} must be at most {largest:g}, got {np.max(array[np.isfinite(array)]):g}")
    return value


def shown(value: Any) -> str:
    """`value` as a message shows it: in one line, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # an integer of more digits than Python prints, or too deep a nest
        text = f"{type(value).__name__} too long to print"
    return text if len(text) <= 60 else text[:57] + "..."


def _whole(value: Any) -> int | None:
    given = isinstance(value, bool | np.bool_ | str | bytes) or np.ma.is_masked(value)
    if given or getattr(value, "shape", ()) != ():
        return None
    try:
        return operator.index(value)
    except TypeError:
        pass
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if math.isfinite(number) and number == int(number) else None


def _array(
    name: str, value: Any, accept: Any, wanted: str, kinds: str = "iuf", dtype: Any = np.float64
) -> Any:
    """`value` as a number or an array of a type, of NumPy kinds that are taken for it, all of them accepted."""
    if np.ma.is_masked(value):
        raise ParameterError(f"{name} must have no masked entries, got {shown(value)}")
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            value = float(value)  # NumPy has no dtype for large ones
        if isinstance(value, str | bytes | bool) or np.asarray(value).dtype.kind not in kinds:
            raise TypeError
        array = np.asarray(value, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be {wanted}, got {shown(value)}") from None
    good = accept(array)
    if not np.all(good):
        culprit = value if array.ndim == 0 else array[~good].flat[0].item()
        raise ParameterError(f"{name} must be {wanted}, got {culprit!r}")
    return array.item() if array.ndim == 0 else array
