"""Activations of one's own: derivatives by JAX, and samples of networks that have them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sims import hessian
from sims.functions import activation_of
from tests.sims.instances import host_draw, second_derivative
from theory.checks import ParameterError
from theory.model.network import Network

PARTS = ("value", "first", "second")  # of an activation


def test_activations_of_ones_own():
    """Derivatives by JAX are those of the closed forms, in NumPy and in JAX, and samples of both are the same."""
    x = np.linspace(-3, 3, 41)
    for name, function in (("tanh", jnp.tanh), ("softplus", jax.nn.softplus)):
        own, known = activation_of(f"own {name}", function), Network(activation=name).student
        for xp in (np, jnp):

            def all_parts(x, own=own, xp=xp):
                return [getattr(own, part)(x, xp) for part in PARTS]

            for part, found in zip(PARTS, (all_parts if xp is np else jax.jit(all_parts))(x), strict=True):
                np.testing.assert_allclose(found, getattr(known, part)(x, np), atol=1e-14)
                assert isinstance(found, np.ndarray if xp is np else jax.Array)
    sech = activation_of("sech", lambda t: 1 / jnp.cosh(t), parity="even", infimum=0.0)
    model = Network(2, 1, a=0.5, activation=sech)
    drawn = host_draw(model, 9, 2.5)
    np.testing.assert_allclose(
        hessian.dense_blas(np.asarray(drawn.data)[: drawn.m], hessian.weights_of(drawn)),
        second_derivative(drawn),
        atol=1e-10,
    )
    for bad in (3, "tanh", lambda t: t[0], lambda t: np.tanh(t)):
        with pytest.raises(ParameterError) as caught:
            activation_of("bad", bad)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "bad", "words"),
    [
        *(("name", bad, "name of an activation must be") for bad in (3, "", None)),
        *(("parity", bad, "parity must be one of") for bad in ("x", 3)),
        ("parity", "even", "parity of own must be that of its values"),
        *(("growth", bad, "growth must be") for bad in (-1.0, "x", None, np.ones(2))),
        *(("infimum", bad, "infimum must be") for bad in ("x", [], 10**400, np.ones(3), float("nan"))),
        ("infimum", -0.5, "infimum of own must bound its values"),
    ],
    ids=str,
)
def test_an_argument_that_does_not_fit_is_told_in_a_line(argument, bad, words):
    """Of a function that JAX does take: each is refused for its own sake."""
    with pytest.raises(ParameterError, match=rf"^{words}[^\n]*$"):
        activation_of(**{"name": "own", "value": jnp.tanh, argument: bad})
