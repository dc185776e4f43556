"""How many cores this process may use: what the scheduler's mask, its control groups and Slurm allot."""

from __future__ import annotations

import math
import os
from pathlib import Path

from sims.limits import group_directories

# Environment of a process that computes on one core, read before NumPy and JAX start their threads. NPROC is XLA's.
ONE_CORE = {
    name: "1"
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NPROC")
}


def allotted() -> int:
    """Cores that may be kept busy: the least of affinity, quota of the control groups, and SLURM_CPUS_PER_TASK; at least 1.

    >>> allotted() >= 1
    True
    """
    known = [_affinity(), _quota(), _slurm()]
    return max(1, min(number for number in known if number is not None))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _slurm() -> int | None:
    told = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return int(told) if told.isascii() and told.isdigit() and int(told) else None


def _quota() -> int | None:
    """Cores that the least quota of this process's control groups is worth (cpu.max), rounded up; None without one."""
    found = [cores for version, place in group_directories() if version == 2 and (cores := _worth(place))]
    return math.ceil(min(found)) if found else None


def _worth(place: Path) -> float | None:
    try:
        quota, period = (place / "cpu.max").read_text().split()
        return float(quota) / float(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        return None
