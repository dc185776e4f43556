"""How many cores this process may use: what the scheduler's mask, its control groups and Slurm allot.

joblib's and loky's cpu_count look at the root of a mounted hierarchy alone, and not at Slurm: on a node without name spaces
of groups the quota of a job, nested in others, is not seen there.
"""

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
    """Cores that may be kept busy: the least of affinity, quota of the control groups, and Slurm's; at least 1.

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
    """Those of a task where it says so, else those of the job on this node."""
    for name in ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"):
        told = os.environ.get(name, "")
        if told.isascii() and told.isdigit() and int(told):
            return int(told)
    return None


def _quota() -> int | None:
    """Cores that the least quota of this process's control groups is worth, rounded up; None without one."""
    found = [_worth(version, place) for version, place in group_directories("cpu")]
    return min((math.ceil(cores) for cores in found if cores), default=None)


def _worth(version: int, place: Path) -> float | None:
    """cpu.max of version 2, cpu.cfs_quota_us of version 1; None where there is no such file, or no limit ("max", -1)."""
    try:
        if version == 2:
            quota, period = (place / "cpu.max").read_text().split()
        else:
            quota, period = ((place / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return max(float(quota) / float(period), 0.0)
    except (OSError, ValueError, ZeroDivisionError):
        return None
