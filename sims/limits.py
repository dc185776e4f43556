"""What the system leaves to this process: memory, of the machine, its control groups and its address space; and cores.

A batch system puts each job in a control group of its own, nested in others, each with a limit: what is free is the least
along the path from the process's group to the root (cgroups(7); version 1 "memory" and version 2).

Cores are what the scheduler's mask, the control groups and Slurm allot (`allotted`). joblib's and loky's cpu_count look at the
root of a mounted hierarchy alone, and not at Slurm: on a node without name spaces of groups the quota of a job, nested in
others, is not seen there.
"""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path, PurePosixPath

PROC = Path("/proc")
# version -> (limit, usage, the line of memory.stat with pages of files that the kernel drops when it needs room)
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
_UNLIMITED = 2**62  # version 1 says "no limit" by a number of about 2^63


def free_bytes() -> int | None:
    """The least of MemAvailable, what each control group on the way to the root leaves, and what RLIMIT_AS leaves.

    None where the system says nothing of it.
    """
    known = [free for free in (_system(), _groups(), _addresses()) if free is not None]
    return min(known) if known else None


def group_directories(controller: str = "memory") -> list[tuple[int, Path]]:
    """(version, directory) of each control group of this process that may limit "memory" or "cpu", innermost first."""
    found = []
    mounts = _mounts(controller)
    for line in _text(PROC / "self" / "cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        version = 2 if number == "0" and not controllers else 1
        if version == 1 and controller not in controllers.split(","):
            continue
        for root, point in mounts.get(version, []):
            inner = _inside(path, root)
            found += [(version, point / part) for part in (inner, *inner.parents)]
    return found


def _system() -> int | None:
    lines = _text(PROC / "meminfo").splitlines()
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None


def _groups() -> int | None:
    left = [free for version, place in group_directories() if (free := _left(version, place)) is not None]
    return min(left) if left else None


def _left(version: int, place: Path) -> int | None:
    """Bytes that the group at `place` leaves; None where it has no limit."""
    limit, usage, reclaimable = _FILES[version]
    bound, used = _text(place / limit).strip(), _text(place / usage).strip()
    if not (bound.isdigit() and used.isdigit()) or int(bound) > _UNLIMITED:
        return None
    stat = dict(line.split() for line in _text(place / "memory.stat").splitlines() if len(line.split()) == 2)
    dropped = stat.get(reclaimable, "0")
    return max(0, int(bound) - int(used) + (int(dropped) if dropped.isdigit() else 0))


def _addresses() -> int | None:
    """Bytes of address space left under RLIMIT_AS (ulimit -v); None where there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text(PROC / "self" / "statm").split()
    if soft == resource.RLIM_INFINITY or not pages:
        return None
    return max(0, soft - int(pages[0]) * resource.getpagesize())


def _mounts(controller: str) -> dict[int, list[tuple[str, Path]]]:
    """version -> (group at its root, where it is mounted) of the hierarchies of this controller."""
    found: dict[int, list[tuple[str, Path]]] = {}
    for line in _text(PROC / "self" / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or not kind:
            continue
        if kind[0] == "cgroup2":
            found.setdefault(2, []).append((fields[3], Path(fields[4])))
        elif kind[0] == "cgroup" and controller in kind[-1].split(","):
            found.setdefault(1, []).append((fields[3], Path(fields[4])))
    return found


def _inside(path: str, root: str) -> PurePosixPath:
    """The group `path` seen from a mount whose root is the group `root`; the mount itself where it is not below that."""
    group = PurePosixPath(path)
    if ".." in group.parts or not group.is_relative_to(root):
        return PurePosixPath(".")
    return group.relative_to(root)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


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
