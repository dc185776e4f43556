"""Sweeps that are killed, interrupted, or run out of disk: nothing is lost, nothing is wrong, and they say so. And how what is
missing is cut into units.
"""

import contextlib
import errno
import functools
import io
import itertools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
import xarray as xr

from bbp import sweep
from bbp.__main__ import dispatch
from bbp.engine import run
from bbp.engine.parts import Parts
from bbp.experiments import base
from bbp.files import dataset, disk
from bbp.sweep import PROGRAM
from tests.bbp.conftest import TINY
from theory import Threshold, finite

MANY = ["--alpha-grid", "0.8:2:4", "--n", "12", "--samples", "40", "--block", "1", "--quiet"]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "runs" / "sweep.h5"


@pytest.fixture(scope="module")
def processes():
    """Processes forked from one that has imported the program and computed nothing yet: quick to start, real to kill."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bbp.sweep", "bbp.engine.executors", "bbp.experiments.sweep"])
    return context


def shard_files(out):
    return list(out.with_name(out.name + ".parts").glob("*.npz"))


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_killed_at_random_moments_and_equal_to_the_uninterrupted_run(
    bbp, tmp_path, out, same, processes, kills
):
    reference, cache = out.with_name("reference.h5"), ["--cache", str(tmp_path / "cache")]
    first = processes.Process(target=dispatch, args=(["sweep", *MANY, *cache, "--out", str(reference)],))
    first.start()
    first.join()
    rng = random.Random(20)
    for _ in range(kills):
        before = len(shard_files(out))
        child = processes.Process(
            target=dispatch, args=(["sweep", *MANY, *cache, "--out", str(out), "--resume"],)
        )
        child.start()
        goal = before + rng.randrange(8)
        while child.is_alive() and len(shard_files(out)) < goal:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.02))
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL and not out.exists()
        assert len(list(Parts(out).load())) == len(shard_files(out)) >= goal
    assert bbp("sweep", *MANY, "--block", "60", "--out", out, "--resume").code == 0
    same(dataset.open(out), dataset.open(reference))
    assert sorted(path.name for path in out.parent.iterdir()) == ["reference.h5", "sweep.h5"]


def test_killed_while_the_file_is_assembled(bbp, tiny, tiny_sweep, out, same, processes):
    reference = dataset.open(tiny_sweep)
    assert bbp("sweep", *tiny, "--out", out, "--task", "1/1").code == 0
    rng = random.Random(4)
    for _ in range(4):
        child = processes.Process(
            target=dispatch, args=(["sweep", *tiny, "--quiet", "--out", str(out), "--resume"],)
        )
        child.start()
        time.sleep(rng.uniform(0, 0.2))
        child.kill()
        child.join()
        if out.exists():
            same(dataset.open(out), reference)
            out.unlink()
    assert bbp("sweep", *tiny, "--out", out, "--resume").code == 0
    same(dataset.open(out), reference)


def broken(number):
    def call(*args, **options):
        raise OSError(number, os.strerror(number), "somewhere")

    return call


class Full(io.FileIO):
    """A file that takes half of what it is given."""

    def write(self, data):
        super().write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")


# Steps of landing a file, what stands in for each, and what the message must say.
FAULTS = {
    "write": ([(disk, "open")], Full, "No space left on device"),
    "sync": ([(os, "fsync")], broken(errno.EDQUOT), "Disk quota exceeded"),
    "rename": ([(os, "replace")], broken(errno.EROFS), "Read-only file system"),
}
WRITES = 6  # the plan, four shards, the file


@contextlib.contextmanager
def failing(step, index):
    """The index-th file does not land: it fails at this step."""
    places, stand_in, _ = FAULTS[step]
    real, seen = disk.write_bytes, itertools.count()

    def land(path, data):
        with pytest.MonkeyPatch.context() as patch:
            if next(seen) == index:
                for where, name in places:
                    patch.setattr(where, name, stand_in, raising=False)
            real(path, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "write_bytes", land)
        yield


SMALL = ["--alpha-grid", "0.8,1.2", "--n", "12", "--samples", "2", "--block", "1", "--quiet"]


@pytest.fixture(scope="module")
def small_reference(tmp_path_factory):
    """The small sweep, run in one go."""
    path = tmp_path_factory.mktemp("small") / "reference.h5"
    assert sweep.main([*SMALL, "--out", str(path)]) == 0
    return dataset.open(path)


@pytest.mark.parametrize(
    ("step", "index"),
    [
        pytest.param(step, index, marks=() if index in (0, 1 + k, WRITES - 1) else pytest.mark.slow)
        for k, step in enumerate(FAULTS)  # each kind at the plan, at a shard, at the file
        for index in range(WRITES)
    ],
)
def test_a_write_that_fails_at_any_moment_is_told_and_mended(bbp, out, same, small_reference, step, index):
    with failing(step, index):
        said = bbp("sweep", *SMALL, "--out", out)
    assert said.code == 1 and FAULTS[step][-1] in said.err and said.err.count("\n") == 1 and not out.exists()
    kept = len(shard_files(out))
    assert kept == max(index - 1, 0) and (f"{kept} samples are kept" in said.err) == (kept > 0)
    assert not list(out.parent.rglob("*.tmp")) and not list(out.parent.glob("*.lock"))
    assert bbp("sweep", *SMALL, "--out", out, "--resume").code == 0
    same(dataset.open(out), small_reference)


@pytest.fixture
def mounted(tmp_path):
    """Mount a tmpfs with options, or remount it; False where this system does not let us."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True)
        return place if done.returncode == 0 else None

    yield mount
    subprocess.run(["umount", place], capture_output=True)


@pytest.fixture
def small_disk(mounted, monkeypatch, tmp_path):
    """A directory on a disk of 100 KiB, and a way to make room: a tmpfs, or where we may not mount, a counting shim."""
    place = mounted("size=100k")
    if place:
        return place, lambda: mounted("remount,size=100m")
    room = [100 * 1024]
    real = disk.write_bytes

    def land(path, data):
        if len(data) > room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        room[0] -= len(data)
        real(path, data)

    monkeypatch.setattr(disk, "write_bytes", land)
    return tmp_path, lambda: room.__setitem__(0, 10**9)


def test_a_full_disk_is_told_and_mended(bbp, tiny, tiny_sweep, same, small_disk):
    place, make_room = small_disk
    full = place / "sweep.h5"
    said = bbp("sweep", *tiny, "--out", full)
    assert said.code == 1 and "No space left on device" in said.err and said.err.count("\n") == 1
    kept = shard_files(full)
    assert 0 < len(kept) < 24 and f"{2 * len(kept)} samples are kept" in said.err and not full.exists()
    again = bbp("sweep", *tiny, "--out", full, "--resume")
    assert again.code == 1 and shard_files(full) == kept
    make_room()
    assert bbp("sweep", *tiny, "--out", full, "--resume").code == 0
    same(dataset.open(full), dataset.open(tiny_sweep))


@pytest.fixture
def read_only(mounted, tmp_path):
    """A directory that nobody, root included, can write in, holding what `fill(directory)` put there before."""

    def make(fill):
        place = mounted("size=10m")
        if place:
            fill(place)
            assert mounted("remount,ro")
            return place
        if os.geteuid() != 0:
            place = tmp_path / "locked"
            place.mkdir()
            fill(place)
            place.chmod(0o555)
            return place
        (tmp_path / "file").touch()
        return tmp_path / "file"

    return make


def test_a_directory_that_cannot_be_written(bbp, refused, tiny, tiny_sweep, read_only):
    place = read_only(lambda directory: (directory / "old.h5").write_bytes(tiny_sweep.read_bytes()))
    for words in (["new.h5"], ["deeper/new.h5"], ["old.h5", "--force"], ["new.h5", "--task", "1/2"]):
        refused("cannot write in directory", "sweep", *tiny, "--out", place / words[0], *words[1:])
    if (place / "old.h5").exists():
        assert (place / "old.h5").read_bytes() == tiny_sweep.read_bytes()
        assert bbp("sweep", *tiny, "--out", place / "old.h5").code == 0


# A shell that runs the tests in the background leaves them SIGINT ignored, which a child would inherit.
LISTENING = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("bbp.sweep", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("processes", "number", "code", "word"),
    [
        pytest.param(1, signal.SIGINT, 130, "interrupted", marks=pytest.mark.slow),
        pytest.param(1, signal.SIGTERM, 143, "terminated", marks=pytest.mark.slow),
        (2, signal.SIGTERM, 143, "terminated"),
    ],
)
def test_a_signal_stops_it_and_it_says_how_to_go_on(bbp, begin, out, processes, number, code, word):
    words = [sys.executable, "-c", LISTENING, *MANY[:-1], "--out", out, "--processes", str(processes)]
    child = begin(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while child.poll() is None and len(shard_files(out)) < 5:
        time.sleep(0.01)
    child.send_signal(number)
    printed, said = child.communicate()
    assert child.returncode == code and printed == "" and said.count("\n") == 1
    kept = len(shard_files(out))
    # A signal between the rename of a shard and its count leaves one more than was counted.
    assert any(f"{word}; {counted} samples are kept in" in said for counted in (kept - 1, kept))
    assert "--resume" in said and kept >= 5
    assert not list(out.parent.rglob("*.tmp")) and not list(out.parent.glob("*.lock"))
    assert bbp("sweep", *MANY, "--block", "60", "--out", out, "--resume").code == 0


def test_parts_that_a_killed_run_has_left_go_when_its_file_is_found(bbp, tiny, tiny_sweep, out, finished):
    """Those of another run, and of one that is at work, stay."""
    parts, again = Parts(out), ["sweep", *tiny, "--out", out]
    parts.begin(PROGRAM.experiment({"alpha_grid": "0.8:2:4", "n": "12,16", "samples": 6}))
    plan = parts.plan.read_text()
    parts.plan.write_text(plan.replace('"seed": 0', '"seed": 1'))
    assert "was already finished" in bbp(*again).err and parts.exist()
    parts.plan.write_text(plan)
    with parts.held():
        assert "was already finished" in bbp(*again).err and parts.exist()
    assert "was already finished" in bbp(*again).err and not parts.path.exists()
    assert out.read_bytes() == tiny_sweep.read_bytes()


# The programs that run experiments, in some units, and where each writes its file.
EACH = {
    f"sweep {' '.join(TINY)}": "--out",
    "descent --alpha-grid 4 --p 2 --a 0.7 --n 16 --samples 4 --steps 30 --hessians 3 --start random,hessian --block 1": "--out",
    "phase --p 1,2 --a-grid 0.1:2:3 --at-a 0.5,1 --widths 1,inf --n 100 --draws 3 --block 1": "--out",
    "compare sweep.h5 --draws 10 --repeats 100 --block 1": "--save",
}


@pytest.mark.parametrize("line", EACH, ids=lambda line: line.split()[0])
def test_every_program_goes_on_where_it_was_and_tasks_make_the_same_file(
    bbp, tmp_path, made_up, monkeypatch, line
):
    monkeypatch.chdir(tmp_path)
    dataset.write("sweep.h5", made_up())
    words, seen, real = [*line.split(), EACH[line]], [], run.run_unit

    def compute(unit, stop=99):
        if len(seen) == stop:
            raise KeyboardInterrupt
        seen.append(unit)
        return real(unit)

    monkeypatch.setattr(run, "run_unit", compute)
    # Of a diagram: most of the time. Another number at each point of it.
    monkeypatch.setattr(
        finite,
        "threshold",
        lambda model, n, draws, seed: Threshold(model.p + model.a + 1 / n, "continuous", 0.0, error=0.1),
    )
    assert bbp(*words, "whole.h5").code == 0
    number, before = len(seen), Path("whole.h5").read_bytes()
    assert "was already finished" in bbp(*words, "whole.h5").err and len(seen) == number
    assert ": seed 0 there, 1 here (--force" in bbp(*words, "whole.h5", "--seed", "1").err
    assert Path("whole.h5").read_bytes() == before

    seen.clear()
    monkeypatch.setattr(run, "run_unit", functools.partial(compute, stop=4))
    said = bbp(*words, "part.h5")
    assert said.code == 130 and "are kept in" in said.err and not Path("part.h5").exists()
    assert "--resume goes on" in bbp(*words, "part.h5").err
    assert "is not written yet" in bbp("info", "part.h5").out
    assert "seed 0 there, 1 here" in bbp(*words, "part.h5", "--resume", "--seed", "1").err
    damaged, other, *_ = sorted(Path("part.h5.parts").glob("*.npz"))
    damaged.write_bytes(other.read_bytes())
    seen.clear()
    monkeypatch.setattr(run, "run_unit", compute)
    said = bbp(*words, "part.h5", "--resume")
    assert said.code == 0 and "is damaged" in said.err and len(seen) == number - 3
    assert not Path("part.h5.parts").exists()

    for task in ("1/2", "2/2"):
        assert bbp(*words, "tasks.h5", "--task", task).code == 0 and not Path("tasks.h5").exists()
    assert bbp(*words, "tasks.h5", "--merge").code == 0
    whole, *others = (dataset.open(f"{name}.h5").drop_attrs() for name in ("whole", "part", "tasks"))
    whole = whole.drop_dims("unit", errors="ignore")
    for one in others:
        xr.testing.assert_allclose(one.drop_dims("unit", errors="ignore"), whole, rtol=1e-12)


def test_what_is_left_is_cut_into_runs():
    wanted = PROGRAM.experiment({"n": 20, "alpha_grid": "1", "samples": 5})
    plan = run.Run(wanted, block=2)
    assert [(unit.first, unit.count) for unit in plan.units()] == [
        (0, 2),
        (2, 2),
        (4, 1),
    ] and plan.left == 5


def test_a_plan_of_a_thousand_million_samples_is_small_and_quick():
    """10^6 samples at 1,000 alphas: counted without a list of them, and the first unit is there at once."""
    wanted = PROGRAM.experiment({"n": 20, "alpha_grid": "1:2:1000", "samples": 10**6})
    tracemalloc.start()
    plan = run.Run(wanted)
    assert plan.left == 10**9 and next(plan.units()).count == base.LARGEST_BLOCK
    assert {size for _, size, _ in plan.pending()} == {base.LARGEST_BLOCK}
    shared = run.Run(wanted, task=(3, 1000))
    assert abs(shared.left - 10**6) <= 1000 * base.LARGEST_BLOCK
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_units_are_cut_finer_for_many_workers():
    wanted = PROGRAM.experiment({"n": 20, "alpha_grid": "1,2", "samples": 64})
    few = list(run.Run(wanted).units())
    many = list(run.Run(wanted, parallel=4).units())
    assert len(few) == 2 and len(many) == 16 and sum(unit.count for unit in many) == 128
