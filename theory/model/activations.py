"""Activations s of the networks y = mean_l s(u_l), yhat = mean_k s(lam_k): one entry of the table for each.

An entry holds s, s' and s'' as functions (x, xp) of an array and of the namespace it belongs to, numpy or jax.numpy, so
that theory and samples evaluate the same formula. A function of one's own is an `Activation` made in the same way.

What users write down by hand is checked (`departure`): f' as an integral, f(x + h) - f(x) against Gauss-Legendre on [x, x +
h]: where f' is smooth, without the loss of digits of a difference quotient. Intervals that differ are halved until f' is
resolved or the interval is short.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.special

from theory.checks import ParameterError, choice, finite, function, named, one, shown

Array = Any
_RULE = np.polynomial.legendre.leggauss(16)
_NODES: Array = np.asarray((_RULE[0] + 1) / 2, dtype=np.float64)  # of [0, 1]
_WEIGHTS: Array = np.asarray(_RULE[1] / 2, dtype=np.float64)
_INTERVALS, _HALVINGS = 20, 8
_RELATIVE, _ROUNDING, _SMALL = 1e-6, 1e-9, 1e-12  # of the integral of |f'|, of |f| here, of |f| anywhere
_CORNERS = 8  # short intervals in which f' itself may jump


def departure(
    f: Callable[[Array], Any], slope: Callable[[Array], Any], low: float, high: float
) -> float | None:
    """A point of [low, high] near which `slope` is not the derivative of f, both elementwise; None where it is everywhere.

    A slope that jumps at a few points passes where f has a corner there; one that misses a jump of f does not.

    >>> departure(np.sin, np.cos, -6.1, 5.9) is None
    True
    >>> round(departure(np.square, np.zeros_like, -1.1, 0.9), 1)
    -1.1
    """
    width = (high - low) / _INTERVALS
    left: Array = low + width * np.arange(_INTERVALS, dtype=np.float64)
    largest = steepest = 0.0
    gap: Array = np.zeros(0)
    for halving in range(_HALVINGS + 1):
        if halving:
            width /= 2
            left = np.concatenate([left, left + width])
        with np.errstate(all="ignore"):
            inside = np.asarray(slope((left[:, None] + width * _NODES).ravel())).reshape(left.size, -1)
            starts, ends = (np.asarray(f(x), dtype=np.float64) for x in (left, left + width))
            largest = max(largest, float(np.abs(starts).max()))
            steepest = max(steepest, float(np.abs(inside).max()))
            gap = np.abs(ends - starts - width * inside @ _WEIGHTS)
            allowed = _RELATIVE * width * np.abs(inside) @ _WEIGHTS + _SMALL * largest
            wrong = ~(gap <= allowed + _ROUNDING * (np.abs(starts) + np.abs(ends)))
        left, gap = left[wrong], gap[wrong]
        if not left.size:
            return None
    if left.size <= _CORNERS and np.all(gap <= width * steepest):
        return None
    return float(left[np.argmax(gap)] + width / 2)


Function = Callable[[Array, Any], Array]

_PROBE = np.array([-1.3, -0.2, 0.0, 0.7, 2.1])
_WIDE = -6.1, 5.9  # where derivatives are checked: beyond it a Gaussian has nothing
_SOFTNESS = 0.5  # standard deviation of the Gaussian that rounds the corner of the softened ReLU
_DECADES = np.geomspace(10, 1e8, 60)  # from where on values count as those at infinity
_FLAT = 1e-9  # relative rise over the last two decades below which a function has reached its end
_SLOWER = 0.5  # of the rise over the two decades before: less, and it has an end
_STATED = 1e-6  # relative distance within which the stated infimum of an activation is that of its values
_OWN = "an Activation (sims.functions.activation_of makes it of a function)"
_PARITIES = "even", "odd", "none"


@dataclass(frozen=True)
class Activation:
    """A smooth activation with its first two derivatives.

    name      how options and records call it
    value     s(x, xp), elementwise, with xp the array namespace (numpy or jax.numpy)
    first     s'(x, xp)
    second    s''(x, xp)
    parity    "even", "odd" or "none": even ones decouple teacher and student directions
    growth    the power of |x| with which |s| grows at infinity
    infimum   lower end of the values of s (-inf where there is none): what a + y may come down to
    source    hash of what it was made of, for one of one's own that a program has recorded

    Raises ParameterError where a function fails on an array or does not keep its shape, where one is not the derivative of
    the one before (the second of a ReLU, whose first jumps), or where the stated parity or infimum is not that of the values.
    Two activations are equal when name, parity, growth, infimum and source are.

    >>> cube = Activation("cube", lambda x, xp: x**3, lambda x, xp: 3 * x**2, lambda x, xp: 6 * x, "odd", 3)
    >>> float(cube.second(2.0, np))
    12.0
    """

    name: str
    value: Function = field(compare=False, repr=False)
    first: Function = field(compare=False, repr=False)
    second: Function = field(compare=False, repr=False)
    parity: str = "none"
    growth: float = 0.0
    infimum: float = -math.inf
    source: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ParameterError(f"name of an activation must be a word, got {shown(self.name)}")
        choice("parity", self.parity, _PARITIES)
        if one("growth", finite("growth", self.growth)) < 0:
            raise ParameterError(f"growth must be at least 0, got {self.growth}")
        values = {part: self._probed(part) for part in ("value", "first", "second")}["value"]
        mirrored = self.value(-_PROBE, np)
        sign = {"even": 1, "odd": -1}.get(self.parity)
        if sign and not np.allclose(mirrored, sign * values, rtol=1e-9, atol=1e-12):
            raise ParameterError(f"parity of {self.name} must be that of its values, got {self.parity!r}")
        least = min(np.min(values), np.min(self.value(np.linspace(*_WIDE, 20), np)))
        if least < self.infimum - 1e-12 * abs(self.infimum):
            raise ParameterError(
                f"infimum of {self.name} must bound its values, got {self.infimum} above {least:.6g}"
            )
        for part, of in (("first", "value"), ("second", "first")):
            self._require_derivative(part, of)

    def _require_derivative(self, part: str, of: str) -> None:
        f, slope = getattr(self, of), getattr(self, part)
        at = departure(lambda x: f(x, np), lambda x: slope(x, np), *_WIDE)
        if at is not None:
            raise ParameterError(
                f"{part} of {self.name} must be the derivative of {of}: it is not near x = {at:.3g}"
            )

    def _probed(self, part: str) -> Array:
        call = function(part, getattr(self, part))
        try:
            values = np.asarray(call(_PROBE, np))
        except Exception as error:
            raise ParameterError(
                f"{part} of {self.name} must be a function (x, xp) of an array and its namespace: {shown(error)}"
            ) from None
        if values.shape != _PROBE.shape or not np.all(np.isfinite(values)):
            raise ParameterError(f"{part} of {self.name} must keep the shape of x and be finite")
        return values


def activation(given: str | Activation, known: Iterable[Activation] = ()) -> Activation:
    """`given` itself, or the entry of that name in the table or among `known`; else ParameterError.

    >>> activation("tanh").parity
    'odd'
    """
    if isinstance(given, Activation):
        return given
    if isinstance(given, str) and given in ACTIVATIONS and not known:
        return ACTIVATIONS[given]
    names = {**ACTIVATIONS, **{entry.name: entry for entry in known}}
    return names[named("activation", given, names, _OWN)]


@lru_cache(maxsize=64)
def outputs_of(entry: Activation, unbounded: bool = False) -> tuple[float, float]:
    """Range of the values of an activation, from its values over all scales; the whole line with output noise."""
    if unbounded:
        return -math.inf, math.inf
    lowest, highest = -supremum(lambda x: -entry.value(x, np)), supremum(lambda x: entry.value(x, np))
    stated = entry.infimum
    near = math.isfinite(stated) and lowest - stated <= _STATED * (1 + abs(stated))
    return (stated if near else lowest), highest


def supremum(function: Callable[[Array], Array]) -> float:
    """Supremum of a function of x over all scales: inf where it rises by two decades of x as it did by the two before, as a
    logarithm does; where it rises by ever less, as arctan does, the rest of that series is added."""
    x = np.concatenate([-_DECADES[::-1], np.linspace(-10, 10, 401), _DECADES])
    with np.errstate(over="ignore", invalid="ignore"):
        values = function(x)
    top, nearer, near = (float(np.max(values[np.abs(x) <= reach])) for reach in (np.inf, 1e6, 1e4))
    if top == math.inf:
        return top
    rise = top - nearer
    if rise > _FLAT * (1 + abs(top)):
        if rise > _SLOWER * (nearer - near):
            return math.inf
        return top + rise * rise / (nearer - near - rise)
    at, width = float(x[np.argmax(values)]), 0.05
    while width > 1e-9:
        around = np.linspace(at - width, at + width, 21)
        values = function(around)
        at, top, width = float(around[np.argmax(values)]), max(top, float(np.max(values))), width / 4
    return top


def taken(entry: Activation, value: float) -> bool:
    """Whether an activation takes an end of its values at a finite argument: values leave it again on both sides."""
    away = np.abs(entry.value(np.linspace(-9, 9, 3601), np) - value)
    at, size = int(np.argmin(away)), 1 + abs(value)
    sides = min(np.max(away[: at + 1]), np.max(away[at:]))
    return bool(away[at] <= 1e-5 * size and sides > 1e-3 * size)


def _special(xp: Any) -> Any:
    """scipy.special, or its twin in the library of another namespace (jax.scipy.special for jax.numpy)."""
    if xp is np:
        return scipy.special
    return importlib.import_module(f"{xp.__name__.split('.')[0]}.scipy.special")


def _quadratic_second(x: Array, xp: Any) -> Array:
    return xp.full_like(x, 2.0)


def _tanh_first(x: Array, xp: Any) -> Array:
    return 1 - xp.tanh(x) ** 2


def _tanh_second(x: Array, xp: Any) -> Array:
    return -2 * xp.tanh(x) * _tanh_first(x, xp)


def _erf(x: Array, xp: Any) -> Array:
    return _special(xp).erf(x / math.sqrt(2))


def _erf_first(x: Array, xp: Any) -> Array:
    return math.sqrt(2 / math.pi) * xp.exp(-(x**2) / 2)


def _sigmoid(x: Array, xp: Any) -> Array:
    return (1 + xp.tanh(x / 2)) / 2


def _sigmoid_first(x: Array, xp: Any) -> Array:
    return _tanh_first(x / 2, xp) / 4


def _sigmoid_second(x: Array, xp: Any) -> Array:
    return _tanh_second(x / 2, xp) / 8


def _softplus(x: Array, xp: Any) -> Array:
    return xp.logaddexp(x, xp.zeros_like(x))


def _soft_relu(x: Array, xp: Any) -> Array:
    return x * _soft_relu_first(x, xp) + _SOFTNESS**2 * _soft_relu_second(x, xp)


def _soft_relu_first(x: Array, xp: Any) -> Array:
    return (1 + _special(xp).erf(x / (_SOFTNESS * math.sqrt(2)))) / 2


def _soft_relu_second(x: Array, xp: Any) -> Array:
    return xp.exp(-((x / _SOFTNESS) ** 2) / 2) / (_SOFTNESS * math.sqrt(2 * math.pi))


_TABLE = (
    Activation("quadratic", lambda x, xp: x**2, lambda x, xp: 2 * x, _quadratic_second, "even", 2, 0.0),
    Activation("tanh", lambda x, xp: xp.tanh(x), _tanh_first, _tanh_second, "odd", 0, -1.0),
    # erf(x / sqrt 2), the form whose averages over Gaussians are arc sines
    Activation("erf", _erf, _erf_first, lambda x, xp: -x * _erf_first(x, xp), "odd", 0, -1.0),
    Activation("sigmoid", _sigmoid, _sigmoid_first, _sigmoid_second, "none", 0, 0.0),
    Activation("softplus", _softplus, _sigmoid, _sigmoid_first, "none", 1, 0.0),
    # Hermite polynomials of the normal law, leading coefficient 1
    Activation("he2", lambda x, xp: x**2 - 1, lambda x, xp: 2 * x, _quadratic_second, "even", 2, -1.0),
    Activation("he3", lambda x, xp: x**3 - 3 * x, lambda x, xp: 3 * x**2 - 3, lambda x, xp: 6 * x, "odd", 3),
    # E max(0, x + xi / 2), xi ~ N(0, 1)
    Activation("softened_relu", _soft_relu, _soft_relu_first, _soft_relu_second, "none", 1, 0.0),
)
ACTIVATIONS = {entry.name: entry for entry in _TABLE}
