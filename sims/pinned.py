"""JAX's settings on which a draw or a solve depends, held for the length of a call.

Any library of a program may change JAX's settings after `sims` is imported, and so may the environment. Of these
`jax_threefry_partitionable` gives other random bits for the same key; `jax_enable_x64` off rounds everything to float32 without
a word; `jax_default_matmul_precision` (TF32 on GPUs) and `jax_numpy_dtype_promotion` change digits; `jax_debug_nans`,
`jax_debug_infs`, `jax_debug_key_reuse`, `jax_numpy_rank_promotion`, `jax_transfer_guard`, `jax_disable_jit` and
`jax_no_tracing` stop or slow what is sound. Every public function of `sims` that reaches JAX is `pinned`: it runs under the
settings below whatever those of the program are, and leaves these as they were.

What remains the program's: device and platform, compilation caches, logging, and XLA's own flags (`XLA_FLAGS`), by which the
last bits of sums may move but no draw. `jax_random_seed_offset` has no effect either: keys are made from their words.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import ParamSpec, TypeVar

import jax

HIGHEST = jax.lax.Precision.HIGHEST  # of products where it is said at the call: no TF32 for float32 matrices
P = ParamSpec("P")
R = TypeVar("R")
_HELD = {
    "jax_enable_x64": True,
    "jax_default_matmul_precision": "highest",
    "jax_threefry_partitionable": True,
    "jax_default_prng_impl": "threefry2x32",
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_debug_key_reuse": False,
    "jax_transfer_guard_host_to_device": "allow",
    "jax_transfer_guard_device_to_device": "allow",
    "jax_transfer_guard_device_to_host": "allow",
    "jax_disable_jit": False,
    "jax_no_tracing": False,
}


@contextmanager
def settings() -> Iterator[None]:
    """JAX under the settings of this module, in this thread, until the end of the block.

    >>> with settings():
    ...     print(jax.numpy.zeros(1).dtype)
    float64
    """
    with ExitStack() as held:
        for setting in (
            jax.enable_x64(True),
            jax.threefry_partitionable(True),
            jax.default_prng_impl("threefry2x32"),
            jax.default_matmul_precision("highest"),
            jax.numpy_dtype_promotion("standard"),
            jax.numpy_rank_promotion("allow"),
            jax.debug_nans(False),
            jax.debug_infs(False),
            jax.debug_key_reuse(False),
            jax.transfer_guard("allow"),
            jax.disable_jit(False),
            jax.no_tracing(False),
        ):
            held.enter_context(setting)
        yield


def held() -> bool:
    """Whether these settings hold already, as in a call from another pinned function: entering them takes 30 times as long."""
    return all(getattr(jax.config, name) == value for name, value in _HELD.items())


def pinned(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, run under `settings`; a generator must not be, since what its caller does between items would be too."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if held():
            return function(*args, **kwargs)
        with settings():
            return function(*args, **kwargs)

    return run
