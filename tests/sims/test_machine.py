"""Cores, memory and GPU: the least of what the system leaves, and the estimates against what a sample really takes."""

import os
import tracemalloc

import jax
import numpy as np
import pytest

from sims import machine, threefry, tridiagonal
from sims.dynamics import samples
from sims.krylov import solver
from sims.sampling import bytes_needed, sample_point
from sims.solvers.dense import dense_bytes
from theory.checks import ParameterError
from theory.model import Committee

JOB = "/slurm/job_7/step_0"


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A made-up /proc and its control groups, 16 cores, no Slurm: `system(version, path, files)`, files by place and name."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16))
    for name in ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"):
        monkeypatch.delenv(name, raising=False)

    def make(version, path, files):
        groups, proc = tmp_path / "groups", tmp_path / "proc"
        (proc / "self").mkdir(parents=True)
        (proc / "meminfo").write_text("MemTotal:  20 kB\nMemAvailable:    9 kB\n")
        lines = {1: f"3:cpu,cpuacct:{path}\n4:memory:{path}\n0::/unified\n", 2: f"0::{path}\n"}
        (proc / "self" / "cgroup").write_text(lines[version])
        for place, texts in files.items():
            for controller in ("cpu", "memory") if version == 1 else ("",):
                (groups / controller / place).mkdir(parents=True, exist_ok=True)
                for name, text in texts.items():
                    (groups / controller / place / name).write_text(f"{text}\n")
        monkeypatch.setattr(machine, "PROC", proc)
        monkeypatch.setattr(machine, "GROUPS", groups)

    return make


def held_one(limit, used):
    return {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": used}


def held_two(limit, used):
    return {"memory.max": limit, "memory.current": used}


@pytest.mark.parametrize(
    ("version", "path", "files", "left"),
    [
        (2, "/", {"": held_two(1000, 400)}, 600),
        (2, JOB, {"": held_two("max", 8000), "slurm/job_7": held_two(1000, 400)}, 600),
        (2, JOB, {"slurm/job_7/step_0": held_two("max", 1), "slurm": held_two(5000, 4900)}, 100),
        (2, JOB, {"slurm/job_7/step_0": held_two(900, 100), "slurm/job_7": held_two(1000, 950)}, 50),
        (2, JOB, {"slurm/job_7": held_two(1000, 400) | {"memory.stat": "anon 100\ninactive_file 300"}}, 900),
        (2, "/", {"": held_two("max", 400)}, 9 * 1024),
        (2, "/../elsewhere", {"": held_two(1000, 400)}, 600),  # outside of what is mounted here
        (1, JOB, {"slurm/job_7": held_one(1000, 400), "": held_one(2**63 - 4096, 1)}, 600),
        (1, JOB, {"slurm/job_7": held_one(1000, 900) | {"memory.stat": "total_inactive_file 300"}}, 400),
        (1, "/", {"": held_one(1000, 2000)}, 0),
        (1, "/", {}, 9 * 1024),
    ],
)
def test_the_least_memory_along_the_path_counts(system, version, path, files, left):
    system(version, path, files)
    assert machine.free_bytes() == left


def quota_one(quota):
    return {"cpu.cfs_quota_us": quota, "cpu.cfs_period_us": 100000}


def quota_two(quota):
    return {"cpu.max": f"{quota} 100000"}


@pytest.mark.parametrize(
    ("version", "files", "expected"),
    [
        (2, {}, 16),
        (2, {"job/step": quota_two("max")}, 16),
        (2, {"job/step": quota_two(250000)}, 3),
        (2, {"job": quota_two(400000), "job/step": quota_two("max")}, 4),
        (2, {"": quota_two(50000), "job": quota_two(400000)}, 1),
        (
            1,
            {"job": quota_one(400000), "job/step": quota_one(-1)},
            4,
        ),  # with a unified hierarchy beside it: hybrid
        (1, {"job/step": quota_one(-1)}, 16),
    ],
)
def test_cores_are_the_least_quota_on_the_way_to_the_root(system, version, files, expected):
    system(version, "/job/step", files)
    assert machine.allotted() == expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"SLURM_CPUS_ON_NODE": "4"}, 4),
        ({"SLURM_CPUS_ON_NODE": "8", "SLURM_CPUS_PER_TASK": "2"}, 2),
        ({"SLURM_CPUS_PER_TASK": "many"}, 16),
    ],
)
def test_slurm_says_how_many(system, monkeypatch, told, expected):
    system(2, "/", {})
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert machine.allotted() == expected


def test_threads_are_as_many_as_cores_are_allotted(monkeypatch):
    class Seen(Exception):
        pass

    def pool(threads):
        raise Seen(threads)

    for module in (samples, solver):
        monkeypatch.setattr(module, "allotted", lambda: 3)
        monkeypatch.setattr(module, "ThreadPoolExecutor", pool)
    monkeypatch.setattr(samples, "_batch", lambda *_: {})
    with pytest.raises(Seen, match="3"):
        samples.sample_descents(Committee(), 20, 2.0, range(4))
    for searches, threads in ((2, 2), (5, 3)):
        with pytest.raises(Seen, match=str(threads)):
            solver.drive(None, None, [iter([None]) for _ in range(searches)])


@pytest.mark.parametrize("p, n, dtype", [(2, 300, "float64"), (1, 600, "float32")])
def test_the_estimate_is_an_upper_bound_and_not_far(p, n, dtype):
    """Peak of NumPy's memory in one sample."""
    model = Committee(p, 1, 0.3)
    sample_point(model, n, 1.5, [0], 0, dtype=dtype)
    tracemalloc.start()
    sample_point(model, n, 1.5, [0], 0, dtype=dtype)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    estimate = bytes_needed(model, n, 1.5, dtype=dtype)
    assert estimate / 2 < peak < estimate


def test_what_xla_plans_for_a_dense_sample_on_the_host():
    """A call that draws takes a few MiB whatever N; the sweep over the spectrum, what the estimate has for it."""

    def held(function, *arguments):
        plan = function.__wrapped__.lower(*arguments).compile().memory_analysis()
        return plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes

    n, order = 1000, 2048
    with jax.enable_x64(True):
        rows = threefry.rows_in_call(n)
        words = np.zeros((rows, 2), np.uint32)
        assert 8 * rows * n < held(threefry._rows, words, words[:, 0], n, "float64") < 5 * 2**20
        row = np.zeros((1, order))
        sweep = held(tridiagonal._sweep, row, row, row[None], row)
    assert sweep < 8 * order * tridiagonal.STEPS  # as in `dense_bytes`


def test_free_memory_of_this_system():
    free = machine.available_bytes()
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < free <= total


def test_unknown_memory_refuses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "PROC", tmp_path)
    assert machine.available_bytes() is None
    machine.require_fit(lambda n: 2**60 * n, 10, 1)


def test_nothing_fits(monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: 5)
    with pytest.raises(ParameterError, match="needs 100 bytes and 5 are free: no N would fit"):
        machine.require_fit(lambda n: 10 * n, 10, 1)
    monkeypatch.setattr(machine, "available_bytes", lambda: 200)
    machine.require_fit(lambda n: 10 * n, 10, 1)


def test_estimates_grow():
    sizes = [dense_bytes(Committee(2), n, 1.5, eigenpairs=4) for n in range(1, 400)]
    assert sizes == sorted(sizes)
    assert dense_bytes(Committee(2), 300, 1.5, eigenpairs=4, dtype="float32") < sizes[299]
