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
from functools import cached_property
from typing import Any

import numpy as np
import scipy.special

from theory.checks import ParameterError, choice, entry, finite, function, one, shown, word

Array = Any
_RULE = np.polynomial.legendre.leggauss(16)
_NODES: Array = np.asarray((_RULE[0] + 1) / 2, dtype=np.float64)  # of [0, 1]
_WEIGHTS: Array = np.asarray(_RULE[1] / 2, dtype=np.float64)
_INTERVALS, _HALVINGS = 20, 8  # of the range at first, and how often those that differ are halved
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
            # f(x + h) - f(x) less the integral of the slope
            gap = np.abs(ends - starts - width * inside @ _WEIGHTS)
            allowed = _RELATIVE * width * np.abs(inside) @ _WEIGHTS + _SMALL * largest
            wrong = ~(gap <= allowed + _ROUNDING * (np.abs(starts) + np.abs(ends)))
        left, gap = left[wrong], gap[wrong]
        if not left.size:
            return None
    # Few short intervals, each off by no more than a jump of the slope makes: corners of f.
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
_PROBES = 256  # arguments at which a target is tried


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
    Two activations are equal when their functions are the same objects, and all else is equal.

    >>> cube = Activation("cube", lambda x, xp: x**3, lambda x, xp: 3 * x**2, lambda x, xp: 6 * x, "odd", 3)
    >>> float(cube.second(2.0, np))
    12.0
    """

    name: str
    value: Function = field(hash=False, repr=False)
    first: Function = field(hash=False, repr=False)
    second: Function = field(hash=False, repr=False)
    parity: str = "none"
    growth: float = 0.0
    infimum: float = -math.inf
    source: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        word("name of an activation", self.name)
        choice("parity", self.parity, ("even", "odd", "none"))
        if one("growth", finite("growth", self.growth)) < 0:
            raise ParameterError(f"growth must be at least 0, got {self.growth}")
        if np.ndim(self.infimum) or self.infimum != -math.inf:
            one("infimum", finite("infimum", self.infimum))
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

    @cached_property
    def reach(self) -> tuple[float, float]:
        """Lowest and highest value, from the values over all scales."""
        lowest, highest = -supremum(lambda x: -self.value(x, np)), supremum(lambda x: self.value(x, np))
        stated = self.infimum
        near = math.isfinite(stated) and lowest - stated <= _STATED * (1 + abs(stated))
        return (stated if near else lowest), highest

    def attains(self, end: float) -> bool:
        """Whether an end of the values is taken at a finite argument: values leave it again on both sides."""
        away = np.abs(self.value(np.linspace(-9, 9, 3601), np) - end)
        at, size = int(np.argmin(away)), 1 + abs(end)
        sides = min(np.max(away[: at + 1]), np.max(away[at:]))
        return bool(away[at] <= 1e-5 * size and sides > 1e-3 * size)


@dataclass(frozen=True)
class Target:
    """The teacher's outputs as a continuous function of all its preactivations.

    name      how records call it
    value     f*(u, xp) of u (..., p_star), of shape (...), with xp the array namespace (numpy or jax.numpy)
    infimum   lower end of the values, -inf where there is none
    supremum  upper end of the values, inf where there is none
    attained  whether finite ends are values at finite u (u_1^2 has its infimum at 0, tanh none): decides smooth edges
    source    hash of what it was made of, for one of one's own that a program has recorded

    Raises ParameterError on ends in the wrong order; `tried` where the function is not one of these arguments. Two targets
    are equal when their functions are the same object, and all else is equal.

    >>> product = Target("product", lambda u, xp: xp.tanh(2 * u[..., 0] * u[..., 1]), -1.0, 1.0)
    >>> product.value(np.zeros((3, 2)), np).shape
    (3,)
    """

    name: str
    value: Callable[[Array, Any], Array] = field(hash=False, repr=False)
    infimum: float = -math.inf
    supremum: float = math.inf
    attained: bool = False
    source: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        word("name of a target", self.name)
        function("value", self.value)
        low, high = self.infimum, self.supremum
        for name, end, open_end in (("infimum", low, -math.inf), ("supremum", high, math.inf)):
            if np.ndim(end) or end != open_end:
                object.__setattr__(self, name, one(name, finite(name, end)))
        if not self.infimum < self.supremum:
            raise ParameterError(f"infimum of {self.name} must lie below its supremum, got {low} and {high}")

    @property
    def reach(self) -> tuple[float, float]:
        """Lower and upper end of the values."""
        return self.infimum, self.supremum

    def attains(self, end: float) -> bool:
        """Whether an end of the values is one, at finite u."""
        return self.attained

    def tried(self, p_star: int) -> Target:
        """Itself, tried on p_star preactivations. Raises ParameterError where values have another shape, are not finite, or
        lie outside the stated ends. A function that is known by name alone (it has an attribute `absent`) is left at that."""
        if hasattr(self.value, "absent"):
            return self
        u = np.random.default_rng(0).standard_normal((_PROBES, p_star))
        try:
            values = np.asarray(self.value(u, np), dtype=np.float64)
        except Exception as error:
            raise ParameterError(
                f"value of {self.name} must be a function (u, xp) of u (..., {p_star}) and its namespace: {shown(error)}"
            ) from None
        if values.shape != u.shape[:1] or not np.all(np.isfinite(values)):
            raise ParameterError(f"value of {self.name} must be one finite number for each u of {p_star}")
        low, high = float(values.min()), float(values.max())
        spare = 1e-12 * max(abs(low), abs(high))
        if low < self.infimum - spare or high > self.supremum + spare:
            raise ParameterError(
                f"infimum and supremum of {self.name} must bound its values, got {self.infimum} and {self.supremum} "
                f"for values from {low:.6g} to {high:.6g}"
            )
        return self


def activation(given: str | Activation, known: Iterable[Activation] = ()) -> Activation:
    """`given` itself, or the entry of that name in the table or among `known`.

    Parameters
    ----------
    given : str or Activation
    known : iterable of Activation
        Further entries.

    Returns
    -------
    Activation

    Raises
    ------
    ParameterError
        On an unknown name.

    >>> activation("tanh").parity
    'odd'
    """
    own = "an Activation (sims.functions.activation_of makes it of a function)"
    return entry("activation", given, Activation, (*_TABLE, *known), own)


def target(given: str | Target, known: Iterable[Target] = ()) -> Target:
    """`given` itself, or the entry of that name among `known`; else ParameterError."""
    return entry("target", given, Target, known, "a Target (sims.functions.target_of makes it of a function)")


def supremum(function: Callable[[Array], Array]) -> float:
    """Supremum of a function of x over all scales: inf where it rises by two decades of x as it did by the two before, as a
    logarithm does; where it rises by ever less, as arctan does, the rest of that series is added.

    Parameters
    ----------
    function : function
        (n,) -> (n,).

    Returns
    -------
    float
        inf where there is none.
    """
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
        # The rest of a geometric series of rises
        return top + rise * rise / (nearer - near - rise)
    at, width = float(x[np.argmax(values)]), 0.05
    while width > 1e-9:
        around = np.linspace(at - width, at + width, 21)
        values = function(around)
        at, top, width = float(around[np.argmax(values)]), max(top, float(np.max(values))), width / 4
    return top


# ---- how students make one output: yhat = sum_k c_k s(lam_k + b_k), None for c = 1/p and b = 0 ----


def shifted(lam: Array, bias: tuple[float, ...] | None, xp: Any) -> Array:
    """Arguments of the activations: preactivations lam (..., p) with the biases (p,); here and below xp is numpy or
    jax.numpy."""
    return lam if bias is None else lam + xp.asarray(bias, dtype=lam.dtype)


def weighed(values: Array, readout: tuple[float, ...] | None, xp: Any) -> Array:
    """Values (..., p) of the students times the readout (p,)."""
    return values / values.shape[-1] if readout is None else values * xp.asarray(readout, dtype=values.dtype)


def read(values: Array, readout: tuple[float, ...] | None, xp: Any) -> Array:
    """The output yhat (...): the sum of weighed values (..., p), their mean without a readout."""
    return xp.mean(values, axis=-1) if readout is None else xp.sum(weighed(values, readout, xp), axis=-1)


# ---- the table ----


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
