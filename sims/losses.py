"""Losses of one's own, with derivatives by JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sims.activations import on_host
from sims.pinned import pinned
from theory.checks import ParameterError, function, shown
from theory.model.losses import Loss


def loss_of(name: str, value: Callable[..., Any], *, has_a: bool = True, positive: bool = False) -> Loss:
    """The Loss of a function l(y, yhat, a) of three numbers, written with jax.numpy; l' and l'' in yhat by differentiation.

    Without the parameter a (has_a False) it is a function l(y, yhat) of two. has_a, positive as in `theory.model.losses.Loss`,
    which checks them. Raises ParameterError where JAX cannot differentiate the function.

    >>> one = np.ones(1)
    >>> loss_of("cosh", lambda y, yhat, a: a * jnp.cosh((yhat - y) / a)).second(one, one, 2.0, np).tolist()
    [0.5]
    """
    function("value", value)

    def scalar(y: jax.Array, yhat: jax.Array, a: jax.Array) -> jax.Array:
        return jnp.asarray(value(y, yhat, a) if has_a else value(y, yhat), yhat.dtype)

    first = jax.grad(scalar, 1)
    try:
        parts = _elementwise(scalar), _elementwise(first), _elementwise(jax.grad(first, 1))
        for part in parts:
            part(np.ones(1), np.ones(1), 1.0, np)
    except ParameterError:
        raise
    except Exception as error:
        arguments = "y, yhat and a" if has_a else "y and yhat"
        raise ParameterError(
            f"value of {shown(name)} must be a function of {arguments} that JAX can differentiate: {shown(error)}"
        ) from None
    return Loss(name, parts[0], parts[1], parts[2], has_a, positive)


def _elementwise(scalar: Callable[..., jax.Array]) -> Callable[[Any, Any, Any, Any], Any]:
    """(y, yhat, a, xp) -> the function at every entry, in the namespace xp."""
    compiled = jax.jit(jnp.vectorize(scalar))

    @pinned
    def at(y: Any, yhat: Any, a: Any, xp: Any) -> Any:
        if xp is not jnp:
            return on_host(compiled, y, yhat, a)
        kind = jnp.result_type(yhat, jnp.float32)
        return compiled(*(jnp.asarray(each, kind) for each in (y, yhat, a)))

    return at
