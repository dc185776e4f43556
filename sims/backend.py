"""What lies below a computation: JAX's settings, held for the length of a call, and SciPy's BLAS and LAPACK.

Any library of a program may change JAX's settings after `sims` is imported, and so may the environment. Of these
`jax_threefry_partitionable` gives other random bits for the same key; `jax_enable_x64` off rounds everything to float32 without
a word; `jax_default_matmul_precision` (TF32 on GPUs) and `jax_numpy_dtype_promotion` change digits; `jax_debug_nans`,
`jax_debug_infs`, `jax_debug_key_reuse`, `jax_numpy_rank_promotion`, `jax_transfer_guard`, `jax_disable_jit` and
`jax_no_tracing` stop or slow what is sound. Every public function of `sims` that reaches JAX is `pinned`: it runs under the
settings below whatever those of the program are, and leaves these as they were.

What remains the program's: device and platform, compilation caches, logging, and XLA's own flags (`XLA_FLAGS`), by which the
last bits of sums may move but no draw. `jax_random_seed_offset` has no effect either: keys are made from their words.

BLAS is SciPy's, not NumPy's, which is another copy with threads of its own that go on waiting for work, busily. Small matrices
are left to one thread: shared out to two, samples of N = 100 to 400 took 4 to 8 times as long on a machine that
others used, and 4 to 6 times the processor time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np
from scipy.linalg import get_lapack_funcs
from scipy.linalg.blas import get_blas_funcs
from threadpoolctl import ThreadpoolController

HIGHEST = jax.lax.Precision.HIGHEST  # of products where it is said at the call: no TF32 for float32 matrices
ALONE = 500  # order of a matrix up to which one thread works on it
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
    "jax_disable_jit": False,
    "jax_no_tracing": False,
}
_TRANSFERS = tuple(
    f"jax_transfer_guard_{way}" for way in ("host_to_device", "device_to_device", "device_to_host")
)


@contextmanager
def settings() -> Iterator[None]:
    """JAX under the settings of this module, in this thread, until the end of the block.

    >>> with settings():
    ...     print(jax.numpy.zeros(1).dtype)
    float64
    """
    with ExitStack() as held:
        for name, value in _HELD.items():
            held.enter_context(getattr(jax, name.removeprefix("jax_"))(value))
        held.enter_context(jax.transfer_guard("allow"))
        yield


def held() -> bool:
    """Whether these settings hold already, as in a call from another pinned function: entering them takes 30 times as long."""
    kept = all(getattr(jax.config, name) == value for name, value in _HELD.items())
    return kept and all(getattr(jax.config, name) == "allow" for name in _TRANSFERS)


def pinned(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, run under `settings`; a generator must not be, since what its caller does between items would be too."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if held():
            return function(*args, **kwargs)
        with settings():
            return function(*args, **kwargs)

    return run


@functools.cache
def blas(name: str, dtype: np.dtype) -> Callable[..., Any]:
    """The BLAS routine `name` for arrays of this type, looked up once: the search takes as long as a small product.

    >>> float(blas("dot", np.dtype("float64"))([1.0, 2.0], [3.0, 4.0]))
    11.0
    """
    return get_blas_funcs((name,), dtype=dtype)[0]


@functools.cache
def lapack(name: str, dtype: np.dtype) -> Callable[..., Any]:
    """The LAPACK routine `name` for arrays of this type."""
    return get_lapack_funcs((name,), dtype=dtype)[0]


@functools.cache
def _libraries() -> ThreadpoolController:
    """The copies of BLAS in this process, found once: NumPy and SciPy each bring one."""
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """A block in which each copy of BLAS has one thread.

    Of threads of Python in such blocks at one time the first decides, and gives back what it found (threadpoolctl).
    """
    return _libraries().limit(limits=1, user_api="blas")


def threads_for(order: int) -> AbstractContextManager[Any]:
    """`one_thread` if a matrix of this order is small."""
    return one_thread() if order <= ALONE else nullcontext()


def on_device(array: Any, dtype: Any = None) -> jax.Array:
    """An array of NumPy, which nobody changes any more, on JAX's device: `jnp.asarray` compiles a program for each shape."""
    return jax.device_put(np.asarray(array, dtype))


def power_of_two(size: float) -> float:
    """The power of two at or below `size`, by which numbers are divided without rounding; 1 for 0, NaN or infinity."""
    if not (size > 0 and math.isfinite(size)):
        return 1.0
    return math.ldexp(1.0, max(math.frexp(size)[1] - 1, -1022))
