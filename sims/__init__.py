"""Finite-N samples of the Hessian in JAX: draws, matrix, eigenpairs, overlaps. Switches JAX to 64 bits."""

from theory.checks import ParameterError

try:
    import jax
except ValueError as error:  # of a variable of the environment that JAX reads: JAX_ENABLE_X64=maybe
    raise ParameterError(f"JAX cannot start: {error}") from None

jax.config.update("jax_enable_x64", True)

from sims.dynamics.run import descend  # noqa: E402  (JAX is switched first)

__all__ = ["descend"]
