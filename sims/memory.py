"""Bytes a sample will need, bytes there are, and the refusal of what does not fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax

from sims import limits
from sims.dense.all_overlaps import STEPS
from sims.dense.eigen import WIDEST
from sims.hessian import BLOCK
from sims.instance import finite_p, padded, real_dtype, samples_of
from theory.checks import ParameterError, count
from theory.model.network import Network

ROOM = 0.9  # share of the free memory that may be planned for


def dense_bytes(model: Network, n: int, alpha: float, *, eigenpairs: int, dtype: Any = "float64") -> int:
    """Peak bytes of one dense sample at (N, alpha): the arrays it holds at once, on JAX's default platform.

    CPU: the matrix (reduced in place), a block of it, the data, some rows of them scaled, the weights, the
    sweep of `sims.dense.all_overlaps` or the basis of its bound, the vectors. GPU: the data and the weights, padded, and the
    most of three steps: blocks of the matrix (each a sum of shares, of rows scaled apart in float64), blocks beside the matrix,
    the matrix in two copies with its vectors and the workspace of syevd (2 n^2).
    """
    p, m, item = finite_p(model), samples_of(alpha, n), real_dtype(dtype).itemsize
    n, eigenpairs = count("n", n), count("eigenpairs", eigenpairs)
    order, signal = p * n, p * model.p_star
    columns = 4 * order * (eigenpairs + signal)
    if jax.default_backend() != "cpu":
        rows, blocks = padded(m), p * (p + 1) // 2 * n**2
        # as XLA splits products at alpha = 2 (`python -m benchmarks.gpu_compile --part dense`): more for longer ones
        shares = 8 if item * n**2 <= 2**18 else 4 if item * n**2 <= 2**21 else 2
        build = blocks + shares * n**2 + (rows * n if item == 8 else 0)
        steps = max(build, blocks + order**2, 5 * order**2)
        return item * (rows * n + 2 * rows * p**2 + columns + steps)
    sweeps = 8 * padded(order) * max(6 + 2 * signal, STEPS)
    block = n**2 if p > 1 else 0
    return item * (order**2 + block + (padded(m) + BLOCK) * n + columns) + 8 * m * 3 * p**2 + sweeps


def available_bytes() -> int | None:
    """Bytes free for new arrays on JAX's first device; None where the system does not say.

    GPU: the pool's limit less what is in use. CPU: what the machine, the process's control groups and its address space
    leave (`sims.limits.free_bytes`).
    """
    if jax.default_backend() != "cpu":
        stats = jax.devices()[0].memory_stats() or {}
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0) if "bytes_limit" in stats else None
    return limits.free_bytes()


def planned_bytes() -> int | None:
    """Bytes that may be planned for: ROOM of `available_bytes()`; None where the system does not say."""
    free = available_bytes()
    return None if free is None else int(ROOM * free)


def fits(need: int) -> bool:
    """Whether `need` bytes may be planned for; True where the system does not say what is free."""
    planned = planned_bytes()
    return planned is None or need <= planned


def exhausted(error: BaseException, need: Callable[[int], int] | None = None, n: int = 0) -> str | None:
    """In a line that a device's memory was too small, if that is what `error` of JAX says; else None.

    need  bytes as an increasing function of N, by which the N below `n` that fits is told
    """
    if "RESOURCE_EXHAUSTED" not in str(error):
        return None
    wanted = re.search(r"allocat\w+ ([\d.]+ ?\w*)", str(error))
    device = jax.devices()[0]
    stats = device.memory_stats() or {}
    said = f"the memory of {device.device_kind} is too small"
    if wanted:
        said += f": {wanted[1].strip()} were asked for at once"
    if "bytes_limit" in stats:
        said += f", {stats['bytes_limit'] - stats.get('bytes_in_use', 0)} of {stats['bytes_limit']} bytes were free"
    free = available_bytes()
    largest = _largest(lambda at: need(at) <= ROOM * free, n) if need is not None and free is not None else 0
    less = f"N = {largest} would fit" if largest else "a smaller N or batch, or float32, takes less"
    if device.platform == "cpu":
        return f"{said}; {less}"
    return f"{said}; {less}; others may use the card too (nvidia-smi), of which JAX takes XLA_PYTHON_CLIENT_MEM_FRACTION"


def require_fit(
    need: Callable[[int], int],
    n: int,
    p: int,
    *,
    free: int | None = None,
    dense: bool = True,
    what: str = "",
) -> None:
    """ParameterError if need(n) bytes are not free, or a dense matrix of order p n cannot be indexed.

    need  bytes as an increasing function of N, used to say which N would fit
    free  bytes to go by; default `available_bytes()`
    what  needs them, in words
    """
    free = available_bytes() if free is None else free
    widest = WIDEST.get(jax.default_backend(), WIDEST["gpu"]) if dense else None

    def possible(size: int) -> bool:
        return (free is None or need(size) <= ROOM * free) and (widest is None or p * size <= widest)

    if possible(n):
        return
    largest = _largest(possible, n)
    advice = f"N = {largest} would fit" if largest else "no N would fit"
    what = what or ("a dense Hessian" if dense else "a sample")
    what = f"{what} at N = {n}, p = {p} needs {need(n)} bytes and"
    if widest is not None and p * n > widest:
        raise ParameterError(f"{what} has order {p * n} where the routines index {widest}: {advice}")
    raise ParameterError(f"{what} {free} are free: {advice}")


def _largest(fits: Callable[[int], bool], n: int) -> int:
    """Largest size below n that fits, 0 if none does: bisection on a predicate that holds below some size."""
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
