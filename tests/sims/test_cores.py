"""Cores: what is allotted, and that threads are as many, not as many as the machine has."""

import pytest

from sims import limits
from sims.descent import samples
from sims.krylov import solver


@pytest.fixture
def groups(monkeypatch, tmp_path):
    """A function that makes up this process's control groups, `groups(version, path, files)`, on 16 cores without Slurm."""
    monkeypatch.setattr(limits, "_affinity", lambda: 16)
    for name in ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"):
        monkeypatch.delenv(name, raising=False)

    def make(version, path, files):
        proc, mount = tmp_path / "proc", tmp_path / "groups"
        (proc / "self").mkdir(parents=True, exist_ok=True)
        lines = {1: f"3:cpu,cpuacct:{path}\n4:memory:/elsewhere\n0::/unified\n", 2: f"0::{path}\n"}
        (proc / "self" / "cgroup").write_text(lines[version])
        kind = {1: "cgroup cgroup rw,cpu,cpuacct", 2: "cgroup2 cgroup2 rw"}[version]
        more = f"33 31 0:30 / {tmp_path / 'unified'} rw - cgroup2 cgroup2 rw\n" if version == 1 else ""
        (proc / "self" / "mountinfo").write_text(f"32 31 0:29 / {mount} rw - {kind}\n{more}")
        for place, texts in files.items():
            (mount / place).mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                (mount / place / name).write_text(f"{text}\n")
        monkeypatch.setattr(limits, "PROC", proc)

    return make


def one(quota):
    return {"cpu.cfs_quota_us": quota, "cpu.cfs_period_us": 100000}


def two(quota):
    return {"cpu.max": f"{quota} 100000"}


@pytest.mark.parametrize(
    ("version", "files", "expected"),
    [
        (2, {}, 16),
        (2, {"job/step": two("max")}, 16),
        (2, {"job/step": two(250000)}, 3),
        (2, {"job": two(400000), "job/step": two("max")}, 4),
        (2, {"": two(50000), "job": two(400000)}, 1),
        (1, {"job": one(400000), "job/step": one(-1)}, 4),  # with a unified hierarchy beside it: hybrid
        (1, {"job/step": one(-1)}, 16),
    ],
)
def test_cores_are_the_least_quota_on_the_way_to_the_root(groups, version, files, expected):
    groups(version, "/job/step", files)
    assert limits.allotted() == expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"SLURM_CPUS_ON_NODE": "4"}, 4),
        ({"SLURM_CPUS_ON_NODE": "8", "SLURM_CPUS_PER_TASK": "2"}, 2),
        ({"SLURM_CPUS_PER_TASK": "many"}, 16),
    ],
)
def test_slurm_says_how_many(groups, monkeypatch, told, expected):
    groups(2, "/", {})
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert limits.allotted() == expected


def test_threads_are_as_many_as_cores_are_allotted(monkeypatch):
    monkeypatch.setattr(samples, "allotted", lambda: 3)
    assert samples._workers(None, 100) == 3

    class Seen(Exception):
        pass

    def pool(threads):
        raise Seen(threads)

    monkeypatch.setattr(solver, "allotted", lambda: 3)
    monkeypatch.setattr(solver, "ThreadPoolExecutor", pool)
    for searches, threads in ((2, 2), (5, 3)):
        try:
            solver.drive(None, None, [iter([None]) for _ in range(searches)])
        except Seen as seen:
            assert seen.args == (threads,)
        else:
            raise AssertionError("no threads were asked for")
