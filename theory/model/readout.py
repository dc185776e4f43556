"""How students make one output: yhat = sum_k c_k s(lam_k + b_k), c the readout and b the biases, None for 1/p and 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from theory.checks import ParameterError, finite

Array = Any


def shifted(lam: Array, bias: tuple[float, ...] | None, xp: Any) -> Array:
    """Arguments of the students' activations: preactivations lam (..., p) with their biases."""
    return lam if bias is None else lam + xp.asarray(bias, dtype=lam.dtype)


def weighed(values: Array, readout: tuple[float, ...] | None, xp: Any) -> Array:
    """Values (..., p) times the readout, 1/p without one."""
    return values / values.shape[-1] if readout is None else values * xp.asarray(readout, dtype=values.dtype)


def read(values: Array, readout: tuple[float, ...] | None, xp: Any) -> Array:
    """Their sum (...), the mean of values without a readout."""
    return xp.mean(values, axis=-1) if readout is None else xp.sum(weighed(values, readout, xp), axis=-1)


def student_numbers(name: str, value: Any, p: float, usual: float) -> tuple[float, ...] | None:
    """A number for each student as a tuple; None for what they are without it."""
    if value is None:
        return None
    if math.isinf(p):
        raise ParameterError(f"{name} must not be given for p = inf")
    array = np.asarray(finite(name, value))
    if array.shape != (p,):
        raise ParameterError(f"{name} must be one number for each of {p} students, got shape {array.shape}")
    return None if np.all(array == usual) else tuple(array.tolist())
