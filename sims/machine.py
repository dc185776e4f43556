"""What a process may use: cores, memory, and a GPU. What does not fit in memory is refused.

A batch system puts each job in a control group of its own, nested in others, each with limits of memory and processor time:
what counts is the least along the path from the process's group to the root (cgroups(7), both versions). psutil does not
look at groups, and the cpu_count of joblib and loky at the outermost alone, and not at Slurm.

The GPU that choices are made for is a card of 80 GB, whatever card is there: choices, and with them the order of sums, are then
the same on all. Figures are those of its data sheet, computed and not measured; bytes moved are those that XLA's programs ask
for when they are compiled for it (`python -m benchmarks.gpu_compile`). Rows are kept wherever they fit: a product reads kept
rows twice, and rows that are drawn are drawn and written besides (`product_seconds`).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import jax

from theory.checks import ParameterError

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
# limit, usage, and the line of memory.stat with pages of files that the kernel drops when it needs room
_MEMORY = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
# Environment of a process that computes on one core, read before NumPy and JAX start their threads. NPROC is XLA's.
ONE_CORE = {
    name: "1"
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NPROC")
}
ROOM = 0.9  # share of the free memory that may be planned for
# largest n: n^2 within 31 bits; the workspace of cuSOLVER's syevd likewise
WIDEST = {"cpu": 46_340, "gpu": 26_700}


def allotted() -> int:
    """Cores that may be kept busy: the least of affinity, quota of the control groups, and Slurm's; at least 1.

    Returns
    -------
    int
        Cores of this process, whatever the machine has.

    >>> allotted() >= 1
    True
    """
    known: list[float] = [
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ]
    for place in _groups("cpu"):
        quota = _text(place / "cpu.max").split()  # of version 2, "max" without limit; version 1 says -1
        quota = quota or [_text(place / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
        if len(quota) == 2 and all(number.isdigit() for number in quota) and int(quota[1]):
            known.append(math.ceil(int(quota[0]) / int(quota[1])))
    # of a task where Slurm says so, else of the job on this node
    told = (os.environ.get(name, "") for name in ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"))
    known += [int(number) for number in told if number.isascii() and number.isdigit() and int(number)][:1]
    return max(1, int(min(known)))


def free_bytes() -> int | None:
    """The least of MemAvailable and what each control group on the way to the root leaves; None where neither is reported.

    Returns
    -------
    int or None
        Bytes of this machine's memory, without a GPU's.
    """
    lines = _text(PROC / "meminfo").splitlines()
    known = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    known += [left for place in _groups("memory") if (left := _left(place)) is not None]
    return min(known, default=None)


def _groups(controller: str) -> Iterator[Path]:
    """Directories of the control groups of this process that may limit "memory" or "cpu", innermost first."""
    for line in _text(PROC / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            root = GROUPS / controller if controllers else GROUPS
            inner = PurePosixPath(path.lstrip("/"))
            yield from (root / part for part in (inner, *inner.parents))


def _left(place: Path) -> int | None:
    """Bytes that the group at `place` leaves; None where it has no limit."""
    for limit, usage, reclaimable in _MEMORY:
        bound, used = _text(place / limit).strip(), _text(place / usage).strip()
        if bound.isdigit() and used.isdigit():
            found = re.search(rf"^{reclaimable} (\d+)$", _text(place / "memory.stat"), re.MULTILINE)
            return max(0, int(bound) - int(used) + (int(found[1]) if found else 0))
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def available_bytes() -> int | None:
    """Bytes free for new arrays on JAX's first device; None where the system does not say.

    GPU: the pool's limit less what is in use. CPU: `free_bytes`.

    Returns
    -------
    int or None
        Bytes.
    """
    if jax.default_backend() != "cpu":
        stats = jax.devices()[0].memory_stats() or {}
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0) if "bytes_limit" in stats else None
    return free_bytes()


def planned_bytes() -> int | None:
    """Bytes that may be planned for: ROOM of `available_bytes()`; None where the system does not say."""
    free = available_bytes()
    return None if free is None else int(ROOM * free)


def fits(need: int) -> bool:
    """Whether `need` bytes may be planned for; True where the system does not say what is free."""
    planned = planned_bytes()
    return planned is None or need <= planned


def require_fit(
    need: Callable[[int], int],
    n: int,
    p: int,
    *,
    dense: bool = True,
    what: str = "",
) -> None:
    """ParameterError if need(n) bytes are not free, or a dense matrix of order p n cannot be indexed.

    need  bytes as an increasing function of N, used to say which N would fit
    what  needs them, in words
    """
    free = available_bytes()
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


def _largest(fits: Callable[[int], bool], n: int) -> int:
    """Largest size below n that fits, 0 if none does: bisection on a predicate that holds below some size."""
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class Card(NamedTuple):
    """As published: bytes; bytes a second; operations a second in float32 and float64 (a multiplication and an addition are
    two), and on integers of 32 bits."""

    memory: float
    bandwidth: float
    single: float
    double: float
    integer: float

    def rate(self, item: int) -> float:
        """Operations a second on numbers of so many bytes."""
        return self.single if item == 4 else self.double


CARDS = {
    "h100": Card(80e9, 3.35e12, 67e12, 34e12, 16.7e12),
    "h200": Card(141e9, 4.8e12, 67e12, 34e12, 16.7e12),
}
CARD = CARDS["h100"]

# Assumed: seconds from one small kernel to the next, and of the host between two products of a search
LAUNCH, STEP = 5e-6, 1e-3
KERNELS = 12  # of a product with one block of rows, as compiled
COLUMN = 4  # kernels for a column of a matrix that is reduced to tridiagonal form
PRODUCTS = 150  # of a search, as at N = 4,000 (docs/accuracy.md)
VARIATE = 127  # operations for a normal variate, most of them on integers, as compiled
PATIENCE = 4  # times as long as a search that a dense solve may take, for its ranks: some 4 on a CPU too, at p N = 4,000
# matrices solved together at most: the host's work on a sample then takes longer than the card's
TOGETHER = 32

# of a block of rows: its kernels take ten times as long as they wait for one another
BLOCK_BYTES = 1 << round(10 * KERNELS * LAUNCH * CARD.bandwidth / 2 - 1).bit_length()

ROWS = 768  # of a block at least: vectors are read and written beside it, 16 columns of them for 9 % of its bytes


def product_seconds(
    m: int, n: int, columns: int, item: int, *, stored: bool = True, card: Card = CARD
) -> float:
    """Of H V for V (n, columns) with data (m, n) of `item` bytes a number: what the slowest of memory and arithmetic takes."""
    numbers = m * n
    reading = 2 * numbers * item / card.bandwidth
    drawing = 0.0 if stored else max(numbers * item / card.bandwidth, numbers * VARIATE / card.integer)
    return max(reading, 4 * numbers * columns / card.rate(item)) + drawing


def search_seconds(
    m: int, n: int, p: int, block: int, item: int, *, stored: bool = True, card: Card = CARD
) -> float:
    """Of the lowest pairs by block Krylov: products, one pass over half of the basis for four of them, the host."""
    basis = PRODUCTS * block / 2
    passes = 2 * p * n * basis * item / 4 / card.bandwidth
    return PRODUCTS * (product_seconds(m, n, p * block, item, stored=stored, card=card) + passes + STEP)


def dense_seconds(order: int, item: int, *, together: int = 1, card: Card = CARD) -> float:
    """Of all eigenpairs of one of `together` matrices: the reduction reads what is left of a matrix for each of its columns,
    which wait for one another; the rest are 4 n^3 operations in products of matrices."""
    reading = item * order**3 / 3 / card.bandwidth
    return max(reading, _waits(order) / together) + 4 * order**3 / card.rate(item)


def solved_together(order: int, item: int) -> int:
    """How many matrices are solved together: a power of two, until reading them takes as long as their columns wait.

    >>> [solved_together(order, 8) for order in (100, 500, 1000, 2000, 8000)]
    [32, 32, 16, 4, 1]
    """
    most = int(_waits(order) * CARD.bandwidth / (item * order**3 / 3))
    return 1 << min(max(1, most), TOGETHER).bit_length() - 1


def prefers_dense(m: int, n: int, p: int, item: int) -> bool:
    """Whether a dense solve is fast enough to be worth its ranks.

    >>> prefers_dense(8000, 4000, 2, 8), prefers_dense(20_000, 10_000, 2, 8)
    (True, False)
    """
    return dense_seconds(p * n, item) <= PATIENCE * search_seconds(m, n, p, 8, item)


def _waits(order: int) -> float:
    return COLUMN * LAUNCH * order
