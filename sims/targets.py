"""Targets of one's own, y = f*(u_1, .., u_p*), from plain functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sims.pinned import pinned
from theory.checks import ParameterError, function, shown
from theory.model.target import Target


def target_of(name: str, value: Callable[..., Any]) -> Target:
    """The Target of a function of p_star numbers, written with jax.numpy.

    Parameters
    ----------
    name : str
    value : f(u_1, .., u_p*) of numbers, or f(*u).

    Returns
    -------
    Target
        Without ends: what theory says is then "no edge" where a large output makes weights unbounded. A `Target` states them.

    Raises
    ------
    ParameterError
        Where the function is not one of so many numbers.

    >>> float(target_of("product", lambda u, v: jnp.tanh(2 * u * v)).value(np.array([1.0, -0.5]), np).round(6))
    -0.761594
    """
    function("value", value)
    kinds = [each.kind for each in inspect.signature(value).parameters.values()]
    several = inspect.Parameter.VAR_POSITIONAL in kinds
    if not kinds or inspect.Parameter.KEYWORD_ONLY in kinds:
        raise ParameterError(f"target {shown(name)} must be a function of p_star numbers")
    compiled = jax.jit(lambda parts: jnp.vectorize(value)(*parts))

    @pinned
    def at(u: Any, xp: Any) -> Any:
        parts = u.shape[-1]
        if not several and parts != len(kinds):
            raise ParameterError(f"it takes {len(kinds)} numbers, and p_star is {parts}")
        array = jnp.asarray(u, jnp.result_type(u, jnp.float32) if xp is jnp else jnp.float64)
        found = compiled([array[..., i] for i in range(parts)])
        return found if xp is jnp else np.asarray(found, dtype=np.float64)

    return Target(name, at)
