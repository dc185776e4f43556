"""Activations, losses and targets of one's own, from functions written with jax.numpy; derivatives by JAX."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sims.backend import pinned
from theory.checks import ParameterError, function, shown
from theory.model.activations import Activation, Target, supremum
from theory.model.losses import Loss

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

    A closed form given as `theory.model.activations.Activation` costs theory less: here each of its calls goes through JAX.

    Parameters
    ----------
    name : str
    value : function
        s(x) of one number.
    parity : str
        "even", "odd" or "none"; None: that of its values.
    growth : float
        As in `Activation`.
    infimum : float
        Of s; None: that of its values.

    Returns
    -------
    theory.model.activations.Activation

    Raises
    ------
    theory.checks.ParameterError
        Where JAX cannot differentiate the function, and as `Activation`.

    >>> float(activation_of("sech", lambda x: 1 / jnp.cosh(x)).second(0.0, np))
    -1.0
    """
    function("value", value)

    def scalar(x: jax.Array) -> jax.Array:
        return jnp.asarray(value(x), x.dtype)

    parts = _with_derivatives(name, scalar, 0, (np.zeros(1),), "one number")
    if parity is None:
        right, left = parts[0](_PROBE, np), parts[0](-_PROBE, np)
        signs = {"even": 1, "odd": -1}.items()
        alike = (word for word, sign in signs if np.allclose(left, sign * right, rtol=1e-9, atol=1e-12))
        parity = next(alike, "none")
    if infimum is None:
        infimum = -supremum(lambda x: -parts[0](x, np))
    return Activation(name, parts[0], parts[1], parts[2], parity, growth, infimum)


def loss_of(name: str, value: Callable[..., Any], *, has_a: bool = True, positive: bool = False) -> Loss:
    """The Loss of a function l(y, yhat, a) of three numbers, written with jax.numpy; l' and l'' in yhat by differentiation.

    Parameters
    ----------
    name : str
    value : function
        l(y, yhat, a), or l(y, yhat) without the parameter a.
    has_a, positive : bool
        As in `theory.model.losses.Loss`.

    Returns
    -------
    theory.model.losses.Loss

    Raises
    ------
    theory.checks.ParameterError
        Where JAX cannot differentiate the function, and as `Loss`.

    >>> one = np.ones(1)
    >>> loss_of("cosh", lambda y, yhat, a: a * jnp.cosh((yhat - y) / a)).second(one, one, 2.0, np).tolist()
    [0.5]
    """
    function("value", value)

    def scalar(y: jax.Array, yhat: jax.Array, a: jax.Array) -> jax.Array:
        return jnp.asarray(value(y, yhat, a) if has_a else value(y, yhat), yhat.dtype)

    arguments = "y, yhat and a" if has_a else "y and yhat"
    parts = _with_derivatives(name, scalar, 1, (np.ones(1), np.ones(1), 1.0), arguments)
    return Loss(name, parts[0], parts[1], parts[2], has_a, positive)


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


def _with_derivatives(
    name: str, scalar: Callable[..., jax.Array], by: int, trial: tuple[Any, ...], arguments: str
) -> tuple[Callable[..., Any], ...]:
    """The function and its two derivatives in argument `by`, each of (arrays, ..., xp); tried out on `trial`."""
    first = jax.grad(scalar, by)
    try:
        parts = tuple(_elementwise(each, by) for each in (scalar, first, jax.grad(first, by)))
        for part in parts:
            part(*trial, np)
    except ParameterError:
        raise
    except Exception as error:
        raise ParameterError(
            f"value of {shown(name)} must be a function of {arguments} that JAX can differentiate: {shown(error)}"
        ) from None
    return parts


def _elementwise(scalar: Callable[..., jax.Array], by: int) -> Callable[..., Any]:
    """(arrays, ..., xp) -> the function at every entry, in the namespace xp.

    Arrays of NumPy are filled up to lengths that are powers of two: not every shape that the averages of theory come in is
    compiled.
    """
    compiled = jax.jit(jnp.vectorize(scalar))

    @pinned
    def at(*given: Any) -> Any:
        if given[-1] is jnp:
            kind = jnp.result_type(given[by], jnp.float32)
            return compiled(*(jnp.asarray(each, kind) for each in given[:-1]))
        arrays = np.broadcast_arrays(*(np.asarray(each, np.float64) for each in given[:-1]))
        size, shape = arrays[0].size, arrays[0].shape
        rows = np.ones((len(arrays), 1 << max(size - 1, 63).bit_length()))
        rows[:, :size] = [each.ravel() for each in arrays]
        return np.asarray(compiled(*rows))[:size].reshape(shape)

    return at
