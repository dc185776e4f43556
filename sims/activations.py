"""Activations of one's own, with derivatives by JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sims.pinned import pinned
from theory.checks import ParameterError, function, shown
from theory.model.activations import Activation, supremum

_PROBE = np.linspace(0.01, 6.0, 600)  # where a parity is looked for


def activation_of(
    name: str,
    value: Callable[[Any], Any],
    *,
    parity: str | None = None,
    growth: float = 0.0,
    infimum: float | None = None,
) -> Activation:
    """The Activation of a function s(x) of one number, written with jax.numpy; s' and s'' by automatic differentiation.

    parity, growth, infimum as in `theory.model.activations.Activation`, which checks them; parity and infimum are those of its
    values unless given. A closed form given there costs theory less: here each of its calls goes through JAX. Raises
    ParameterError where JAX cannot differentiate the function.

    >>> float(activation_of("sech", lambda x: 1 / jnp.cosh(x)).second(0.0, np))
    -1.0
    """
    function("value", value)

    def scalar(x: jax.Array) -> jax.Array:
        return jnp.asarray(value(x), x.dtype)

    first = jax.grad(scalar)
    try:
        parts = _elementwise(scalar), _elementwise(first), _elementwise(jax.grad(first))
        for part in parts:
            part(np.zeros(1), np)
    except ParameterError:
        raise
    except Exception as error:
        raise ParameterError(
            f"value of {shown(name)} must be a function of one number that JAX can differentiate: {shown(error)}"
        ) from None
    if parity is None:
        right, left = parts[0](_PROBE, np), parts[0](-_PROBE, np)
        signs = {"even": 1, "odd": -1}.items()
        alike = (word for word, sign in signs if np.allclose(left, sign * right, rtol=1e-9, atol=1e-12))
        parity = next(alike, "none")
    if infimum is None:
        infimum = -supremum(lambda x: -parts[0](x, np))
    return Activation(name, parts[0], parts[1], parts[2], parity, growth, infimum)


def _elementwise(scalar: Callable[[jax.Array], jax.Array]) -> Callable[[Any, Any], Any]:
    """(x, xp) -> the function at every entry of x, in the namespace xp."""
    compiled = jax.jit(jnp.vectorize(scalar))

    @pinned
    def at(x: Any, xp: Any) -> Any:
        return (
            compiled(jnp.asarray(x, jnp.result_type(x, jnp.float32))) if xp is jnp else on_host(compiled, x)
        )

    return at


def on_host(compiled: Callable[..., jax.Array], *given: Any) -> Any:
    """An elementwise function of arrays of NumPy, which broadcast: compiled for lengths that are powers of two, not for every
    shape that the averages of theory come in."""
    arrays = np.broadcast_arrays(*(np.asarray(each, np.float64) for each in given))
    size, shape = arrays[0].size, arrays[0].shape
    length = 1 << max(size - 1, 63).bit_length()
    rows = np.ones((len(arrays), length))
    rows[:, :size] = [each.ravel() for each in arrays]
    return np.asarray(compiled(*rows))[:size].reshape(shape)
