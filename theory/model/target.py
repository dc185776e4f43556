"""Teachers with a function of their own, y = f*(u_1 .. u_p*): multi-index models.

A `Target` takes the place of the mean of the teacher's activations in a Network. Like an Activation it is one formula for
theory and samples, written for arrays of numpy and of jax.numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from theory.checks import ParameterError, finite, function, named, one, shown

Array = Any

_PROBES = 256  # arguments at which a target is tried


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
    are equal when all but their functions are.

    >>> product = Target("product", lambda u, xp: xp.tanh(2 * u[..., 0] * u[..., 1]), -1.0, 1.0)
    >>> product.value(np.zeros((3, 2)), np).shape
    (3,)
    """

    name: str
    value: Callable[[Array, Any], Array] = field(compare=False, repr=False)
    infimum: float = -math.inf
    supremum: float = math.inf
    attained: bool = False
    source: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ParameterError(f"name of a target must be a word, got {shown(self.name)}")
        function("value", self.value)
        low, high = self.infimum, self.supremum
        for name, end, open_end in (("infimum", low, -math.inf), ("supremum", high, math.inf)):
            if end != open_end:
                object.__setattr__(self, name, one(name, finite(name, end)))
        if not self.infimum < self.supremum:
            raise ParameterError(f"infimum of {self.name} must lie below its supremum, got {low} and {high}")

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


_OWN = "a Target (sims.functions.target_of makes it of a function)"


def target(given: str | Target, known: Iterable[Target] = ()) -> Target:
    """`given` itself, or the entry of that name among `known`; else ParameterError."""
    if isinstance(given, Target):
        return given
    names = {entry.name: entry for entry in known}
    return names[named("target", given, names, _OWN)]
