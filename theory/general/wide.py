"""Infinitely many students: the limit p -> inf of theory at N = inf, and the weights that have no probability there.

yhat, a mean of p independent outputs, tends to a number as p grows, and the averages with it. The support of the weights does
not: a student at the worst place of s'' while all others drive yhat to an end of its range has a probability of exp(-O(p)),
not 0, and the left edge at N = inf ends where Q + F first becomes singular for ANY weight. So derived here, in units of
(p/2) H with F = diag(d) + (c/p) s'(lam) s'(lam)^T, d = l' s'' / 2, c = l'' / 2:

* For c >= 0 one student alone gives the infimum of F as p -> inf: that of l'(y, yhat) s''(x) / 2 over all y, all yhat
  between the ends of s and all x. It factorises into the ranges of l' and s''.
* For c < 0 a weight may be lower along the sum of the students; a mean of two kinds of them is searched.

Where this infimum lies below that of the weights of yhat = E s (tanh, erf; not the quadratic one, whose infimum is at
y -> inf for every yhat), thresholds of finite p tend to the one with this end of the support: tanh, a = 2: 3.48, 4.70, 5.67,
6.8, 7.5(2), 8.2(3) at p = 2, 3, 4, 6, 8, 12 and 9.3730 at p = inf. Samples have such weights only from N = exp(O(p)) on:
before, they follow the law without them (`typical_floor`), whose threshold is 2.8943.

Along the sum of the students the rank-one part of F is no small part of it. For c >= 0 it only adds to H, as a matrix and for
every draw, so that neither the edge nor the lowest outlier, those of the directions across the sum, depend on it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.general.floor import Floor, floor
from theory.general.lowest import lowest
from theory.model.activations import Activation
from theory.model.network import Network

Array = NDArray[Any]

_LOWER = 1e-9  # relative distance by which rare weights must lie below the others to count
_MOST = 20.0  # logarithm of the odds of one kind of students against the other


def rare_floor(model: Network, typical: Floor, outputs: tuple[float, float]) -> Floor:
    """The infimum of all weights of a model of p = inf, given that of weights with yhat at its mean and the range of y."""
    if not math.isfinite(typical.value):
        return typical
    value = _separate(model, outputs) if convex(model, outputs) else _together(model, outputs)
    if not value < typical.value - _LOWER * abs(typical.value):
        return typical
    return Floor(value, math.nan, math.nan, "far")


def convex(model: Network, outputs: tuple[float, float]) -> bool:
    """Whether l'' >= 0 for all outputs of teacher and students."""
    found = floor(_of_outputs(model, lambda y, yhat: model.rule.second(y, yhat, model.a, np)), outputs)
    return found.value >= -1e-12


def _of_outputs(model: Network, function: Any) -> Any:
    """A function of (y, yhat) as one of (x, y) with yhat = s(x): all values between the ends of s are taken."""

    def weight(x: Array, y: Array) -> Array:
        x, y = np.broadcast_arrays(x, y)
        with np.errstate(all="ignore"):
            return np.asarray(function(y, model.student.value(x, np)), float)

    return weight


def _separate(model: Network, outputs: tuple[float, float]) -> float:
    """The infimum of l' s'' / 2 over independent y, yhat and x: at a corner of the ranges of l' and s''."""
    first = _of_outputs(model, lambda y, yhat: model.rule.first(y, yhat, model.a, np))
    slopes = floor(first, outputs).value, -floor(lambda x, y: -first(x, y), outputs).value
    bends = _range(model.student)
    corners = [0.0 if bend == 0 else slope * bend / 2 for slope in slopes for bend in bends]
    return min(corners)


def _range(entry: Activation) -> tuple[float, float]:
    """Infimum and supremum of s''."""

    def second(x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return entry.second(x, np) + 0.0 * y

    none = (0.0, 0.0)
    return floor(second, none).value, -floor(lambda x, y: -second(x, y), none).value


def _together(model: Network, outputs: tuple[float, float]) -> float:
    """The infimum of F over students of two kinds, in any proportion."""
    student, rule, a = model.student, model.rule, model.a

    def shares(v: Array) -> Array:
        first = 1 / (1 + np.exp(-np.clip(v[:, 2], -_MOST, _MOST)))
        return np.stack([first, 1 - first], axis=1)

    def mean(v: Array) -> Array:
        return np.sum(shares(v) * student.value(v[:, :2], np), axis=1)

    def smallest(v: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            yhat = mean(v)
            along = np.sqrt(shares(v)) * student.first(v[:, :2], np)
            f = rule.second(y, yhat, a, np)[:, None, None] / 2 * along[:, :, None] * along[:, None, :]
            f = f + (rule.first(y, yhat, a, np)[:, None] * student.second(v[:, :2], np) / 2)[
                :, None
            ] * np.eye(2)
        bad = ~np.all(np.isfinite(f), axis=(1, 2))
        f[bad] = 0.0
        return np.where(bad, np.inf, np.linalg.eigvalsh(f)[:, 0])

    return lowest(smallest, 3, outputs, mean).value
