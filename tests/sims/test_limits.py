"""Control groups, machine and address space: the least of what they leave."""

import subprocess
import sys

import pytest

from sims import limits

JOB = "/slurm/job_7/step_0"


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A made-up /proc and its mounted control groups: `system(version, path, files)`, directory -> file -> text."""

    def make(version, path, files, root="/"):
        groups, proc = tmp_path / "groups", tmp_path / "proc"
        (proc / "self").mkdir(parents=True)
        (proc / "meminfo").write_text("MemTotal:  20 kB\nMemAvailable:    9 kB\n")
        lines = {1: f"3:cpu,cpuacct:/other\n4:memory:{path}\n0::/\n", 2: f"0::{path}\n"}
        (proc / "self" / "cgroup").write_text(lines[version])
        kinds = {1: "cgroup cgroup rw,memory", 2: "cgroup2 cgroup2 rw"}
        mounts = f"31 23 0:28 / /sys rw - tmpfs tmpfs rw\n32 31 0:29 {root} {groups} rw - {kinds[version]}\n"
        (proc / "self" / "mountinfo").write_text(mounts)
        for place, texts in files.items():
            (groups / place).mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                (groups / place / name).write_text(text)
        monkeypatch.setattr(limits, "PROC", proc)

    return make


def one(limit, used):
    return {"memory.limit_in_bytes": f"{limit}\n", "memory.usage_in_bytes": f"{used}\n"}


def two(limit, used):
    return {"memory.max": f"{limit}\n", "memory.current": f"{used}\n"}


@pytest.mark.parametrize(
    ("version", "path", "files", "left"),
    [
        (2, "/", {"": two(1000, 400)}, 600),
        (2, JOB, {"": two("max", 8000), "slurm/job_7": two(1000, 400)}, 600),
        (2, JOB, {"slurm/job_7/step_0": two("max", 1), "slurm": two(5000, 4900)}, 100),
        (2, JOB, {"slurm/job_7/step_0": two(900, 100), "slurm/job_7": two(1000, 950)}, 50),
        (2, JOB, {"slurm/job_7": two(1000, 400) | {"memory.stat": "anon 100\ninactive_file 300\n"}}, 900),
        (2, "/", {"": two("max", 400)}, 9 * 1024),
        (1, JOB, {"slurm/job_7": one(1000, 400), "": one(2**63 - 4096, 1)}, 600),
        (1, JOB, {"slurm/job_7": one(1000, 900) | {"memory.stat": "total_inactive_file 300\n"}}, 400),
        (1, "/", {"": one(1000, 2000)}, 0),
        (1, "/", {}, 9 * 1024),
    ],
)
def test_the_least_along_the_path_counts(system, version, path, files, left):
    system(version, path, files)
    assert limits.free_bytes() == left


def test_in_a_container_the_mount_shows_a_part_of_the_tree(system):
    system(2, JOB, {"step_0": two(1000, 400)}, root="/slurm/job_7")
    assert limits.free_bytes() == 600


def test_of_a_group_outside_the_mount_the_mount_itself_counts(system):
    system(2, "/../elsewhere", {"": two(1000, 400)})
    assert limits.free_bytes() == 600


def test_address_space_counts():
    bound = 3 * 2**30
    code = f"""
import resource
from sims import limits
resource.setrlimit(resource.RLIMIT_AS, ({bound}, {bound}))
print(limits.free_bytes())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 0 < int(done.stdout) < bound, done.stderr
