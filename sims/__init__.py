"""Finite-N samples of the Hessian in JAX. Switches JAX to 64 bits.

`draw` gives one teacher, student and data, `hessian` their matrix, `lowest` its lowest eigenpairs, `density_of_states` its
spectral measure. `sample` does the first and third for many samples; `descend` follows a method of first order.
"""

from typing import Any

from theory.checks import ParameterError

try:
    import jax
except ValueError as error:  # of a variable of the environment that JAX reads: JAX_ENABLE_X64=maybe
    raise ParameterError(f"JAX cannot start: {error}") from None

jax.config.update("jax_enable_x64", True)

from sims import former, hessian  # noqa: E402  (JAX is switched first)
from sims.density import density_of_states  # noqa: E402
from sims.dynamics.run import descend  # noqa: E402
from sims.instance import draw  # noqa: E402
from sims.sampling import lowest  # noqa: E402
from sims.sampling import sample_point as sample  # noqa: E402

__all__ = ["density_of_states", "descend", "draw", "hessian", "lowest", "sample"]


def __getattr__(name: str) -> Any:
    return former.SIMS.get("sims", name)
