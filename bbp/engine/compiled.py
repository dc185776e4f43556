"""JAX as the engine knows it: the programs it keeps, the device it computes on."""

from __future__ import annotations

import jax

from bbp.engine.cache import SETTINGS


def keep(directory: str) -> None:
    """Let JAX keep every program it compiles in `directory`, and find there those of earlier processes."""
    for name, value in SETTINGS.items():
        jax.config.update(name, value)
    jax.config.update("jax_compilation_cache_dir", directory)


def device() -> str:
    """The device that JAX computes on, for instance "cpu" or "gpu: NVIDIA H100"."""
    found = jax.devices()[0]
    return found.platform if found.device_kind == found.platform else f"{found.platform}: {found.device_kind}"
