"""Losses l(y, yhat) of one sample with their first two derivatives in yhat: one entry of the table for each.

The Hessian of sum_mu l(y, yhat) has the weight F = l'' grad yhat grad yhat^T + l' Hess yhat. As for activations the
functions take the array namespace, here (y, yhat, a, xp); y and yhat are arrays of one shape, a is the one
parameter of the loss, called the normalisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from theory.checks import ParameterError, entry, function, shown, word
from theory.model.activations import departure

Array = Any
Function = Callable[[Array, Array, Any, Any], Array]

_PROBE = np.array([0.1, 0.4, 1.0, 2.5]), np.array([0.3, 0.2, 1.5, 0.6])
_WIDE = 0.13, 1.97  # of yhat, where derivatives are checked
_CHECKED = (0.1, 1.0), (1.0, 0.4), (2.5, 2.0)  # y and a


@dataclass(frozen=True)
class Loss:
    """A loss of one sample.

    name      how options and records call it
    value     l(y, yhat, a, xp), elementwise
    first     dl/dyhat
    second    d2l/dyhat2
    has_a     whether the loss has the parameter a
    positive  whether it is defined only where a + y > 0
    source    hash of what it was made of, for one of one's own that a program has recorded

    Raises ParameterError where a function fails or does not keep the shape of y, or where one is not the derivative of the one
    before. Two losses are equal when their functions are the same objects, and all else is equal.
    """

    name: str
    value: Function = field(hash=False, repr=False)
    first: Function = field(hash=False, repr=False)
    second: Function = field(hash=False, repr=False)
    has_a: bool = True
    positive: bool = False
    source: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        word("name of a loss", self.name)
        for part in ("value", "first", "second"):
            call = function(part, getattr(self, part))
            try:
                shape = np.shape(call(*_PROBE, 1.0, np))
            except Exception as error:
                raise ParameterError(
                    f"{part} of {self.name} must be a function (y, yhat, a, xp): {shown(error)}"
                ) from None
            if shape != _PROBE[0].shape:
                raise ParameterError(f"{part} of {self.name} must keep the shape of y, got {shape}")
        for part, of in (("first", "value"), ("second", "first")):
            for y, a in _CHECKED:
                self._require_derivative(part, of, y, a if self.has_a else 1.0)

    def _require_derivative(self, part: str, of: str, y: float, a: float) -> None:
        f, slope = getattr(self, of), getattr(self, part)
        at = departure(
            lambda yhat: f(np.full_like(yhat, y), yhat, a, np),
            lambda yhat: slope(np.full_like(yhat, y), yhat, a, np),
            *_WIDE,
        )
        if at is not None:
            where = f"yhat = {at:.3g} (y = {y:g}, a = {a:g})"
            raise ParameterError(
                f"{part} of {self.name} must be the derivative of {of} in yhat: it is not near {where}"
            )


def loss(given: str | Loss, known: Iterable[Loss] = ()) -> Loss:
    """`given` itself, or the entry of that name in the table or among `known`.

    Parameters
    ----------
    given : str or Loss
    known : iterable of Loss
        Further entries.

    Returns
    -------
    Loss

    Raises
    ------
    ParameterError
        On an unknown name.

    >>> loss("normalised").positive
    True
    """
    own = "a Loss (sims.functions.loss_of makes it of a function)"
    return entry("loss", given, Loss, (*_TABLE, *known), own)


def _square(y: Array, yhat: Array, a: Any, xp: Any) -> Array:
    return ((yhat - y) / a) ** 2


_TABLE = (
    # (y - yhat)^2 / (2 (a + y)), arXiv 2510.18435
    Loss(
        "normalised",
        lambda y, yhat, a, xp: (y - yhat) ** 2 / (2 * (a + y)),
        lambda y, yhat, a, xp: (yhat - y) / (a + y),
        lambda y, yhat, a, xp: 1 / (a + y),
        positive=True,
    ),
    Loss(
        "squared",
        lambda y, yhat, a, xp: (y - yhat) ** 2 / 2,
        lambda y, yhat, a, xp: yhat - y,
        lambda y, yhat, a, xp: xp.ones_like(yhat),
        has_a=False,
    ),
    # (a^2 / 2) log(1 + (y - yhat)^2 / a^2): its slope is bounded
    Loss(
        "cauchy",
        lambda y, yhat, a, xp: a**2 / 2 * xp.log1p(_square(y, yhat, a, xp)),
        lambda y, yhat, a, xp: (yhat - y) / (1 + _square(y, yhat, a, xp)),
        lambda y, yhat, a, xp: (1 - _square(y, yhat, a, xp)) / (1 + _square(y, yhat, a, xp)) ** 2,
    ),
    # (a^2 / 2) (1 - exp(-(y - yhat)^2 / a^2)): it is bounded itself
    Loss(
        "welsch",
        lambda y, yhat, a, xp: a**2 / 2 * -xp.expm1(-_square(y, yhat, a, xp)),
        lambda y, yhat, a, xp: (yhat - y) * xp.exp(-_square(y, yhat, a, xp)),
        lambda y, yhat, a, xp: (1 - 2 * _square(y, yhat, a, xp)) * xp.exp(-_square(y, yhat, a, xp)),
    ),
)
LOSSES = {entry.name: entry for entry in _TABLE}
