"""Finite-N samples of the Hessian in JAX: draws, matrix, eigenpairs, overlaps. Switches JAX to 64 bits."""

import jax

jax.config.update("jax_enable_x64", True)

from sims.dynamics.run import descend  # noqa: E402  (JAX is switched first)

__all__ = ["descend"]
