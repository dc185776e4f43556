"""Parts: each counts for its own point of its own run alone, and whatever else lies among them does no harm. Locks: one run
on one output, tasks beside each other, and none is left by a killed run.
"""

import io
import json
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

from bbp.console.messages import FileError
from bbp.engine import parts
from bbp.engine.parts import LOCK, Parts
from bbp.engine.run import Results, run_unit
from bbp.experiments import columns
from bbp.files import disk
from bbp.sweep import PROGRAM

OPTIONS = {"n": 12, "alpha_grid": [0.8, 1.2], "samples": 2}


@pytest.fixture
def experiment():
    return PROGRAM.experiment(OPTIONS)


@pytest.fixture(scope="module")
def computed():
    built = PROGRAM.experiment(OPTIONS)
    return [run_unit(built.unit(point, 0, 2)) for point in built.points(Results())]


@pytest.fixture
def kept(tmp_path, experiment, computed):
    """Parts with two points in them, and the files of these."""
    held = Parts(tmp_path / "x.h5")
    held.begin(experiment)
    for result in computed:
        held.save(result, experiment)
    return held, sorted(held.path.glob("*.npz"))


def rewritten(path, change):
    """The part after `change(arrays)`, sealed again: only what it says is wrong."""
    with np.load(io.BytesIO(path.read_bytes()[: -disk.LENGTH])) as data:
        arrays = {name: data[name] for name in data}
    change(arrays)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path.write_bytes(disk.sealed(buffer.getvalue()))


def told(**changes):
    def change(arrays):
        about = json.loads(str(arrays["about"]))
        about |= changes
        arrays["about"] = np.array(json.dumps(about))

    return change


def of_record(**changes):
    def change(arrays):
        about = json.loads(str(arrays["about"]))
        about["given"] |= changes
        arrays["about"] = np.array(json.dumps(about))

    return change


def column(name, values):
    return lambda arrays: arrays.__setitem__(name, values)


WRONG = {
    "another seed": (of_record(seed=5), "seed 5 there, 0 here"),
    "another alpha": (of_record(alpha=4.0), "alpha 4.0 there"),
    "another stream": (of_record(prng="other"), "prng other there"),
    "another experiment": (told(experiment="descent"), "it is of a descent"),
    "another point": (told(point=[0, 12, 0.9]), "its name and its contents differ"),
    "a model that is not": (told(point=[7, 12, 0.8]), "its name and its contents differ"),
    "more samples": (told(count=3), "its name and its contents differ"),
    "pairs": (column("eigenvalues", np.zeros((2, 4))), "eigenvalues has shape (2, 4)"),
    "dtype": (column("overlaps", np.zeros((2, 5), np.float32)), "overlaps is of type float32"),
    "status": (column("status", np.array([1, 7], np.int8)), "neither done nor failed"),
    "without a column": (lambda arrays: arrays.pop("residuals"), "residuals"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_part_of_something_else_does_not_count(kept, experiment, caplog, name):
    held, files = kept
    change, words = WRONG[name]
    rewritten(files[0], change)
    with caplog.at_level("WARNING", "bbp"):
        assert len(list(held.load(experiment))) == 1
    assert words in caplog.text and caplog.text.count("\n") == 1


def test_a_part_copied_to_another_place_does_not_count(kept, experiment, computed):
    held, (one, two) = kept
    shutil.copy(one, two)
    assert len(list(held.load(experiment))) == 1


def test_no_flipped_bit_passes_nor_half_a_part(kept, experiment, caplog):
    """Every 37th byte of a part, one bit at a time: it never counts, and nothing else happens."""
    held, (path, _) = kept
    data = path.read_bytes()
    for place in range(0, len(data), 37):
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :])
        assert len(list(held.load(experiment))) == 1, place
    path.write_bytes(data[:100])
    assert len(list(held.load(experiment))) == 1


OBSTACLES = {
    "fifo": os.mkfifo,
    "directory": os.mkdir,
    "dangling link": lambda path: os.symlink("nowhere", path),
    "link to a device": lambda path: os.symlink("/dev/zero", path),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_what_is_no_regular_file_is_skipped_and_left(bbp, tmp_path, kept, experiment, caplog, name):
    held, _ = kept
    stranger = held.path / "stranger.npz"
    OBSTACLES[name](stranger)
    with caplog.at_level("WARNING", "bbp"):
        assert len(list(held.load(experiment, set_aside=True))) == 2
    assert "part stranger.npz does not count" in caplog.text and os.path.lexists(stranger)
    said = bbp("info", tmp_path / "x.h5")
    assert said.code == 0 and "4 samples in 2 units" in said.out


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ('{"format": "bbp-sweep-parts", "version": 1, "records": []}', "is of another version of bbp"),
        ('{"format": "bbp-parts", "version": 2}', "is of another version of bbp"),
        *((text, "is no plan of a run") for text in ("{}", "[]", "3", "null", '{"records": []}')),
    ],
)
def test_plans_of_an_older_program_or_of_none_are_told_in_a_line(bbp, refused, tmp_path, plan, words):
    """As the first version's plan and names; discarded by --force."""
    held, run = Parts(tmp_path / "x.h5"), ["--n", "12", "--alpha-grid", "1", "--samples", "1"]
    held.path.mkdir()
    held.plan.write_text(plan)
    (held.path / "m000-n0000012-a3ff0000000000000-s0000000-1.npz").write_bytes(b"old")
    for command in (["sweep", *run, "--out", held.out, "--resume"], ["info", held.out]):
        refused(f"plan.json' {words} (--force", *command)
    assert bbp("sweep", *run, "--out", held.out, "--force").code == 0 and not held.path.exists()


def test_parts_of_other_library_versions_are_named_in_the_file(bbp, tmp_path, monkeypatch):
    out, words = (
        tmp_path / "x.h5",
        ["--n", "12", "--alpha-grid", "1", "--samples", "4", "--block", "2", "--quiet"],
    )
    other = columns._versions() | {"jax": "0.1"}
    with monkeypatch.context() as patch:
        patch.setattr(columns, "_versions", lambda: other)
        assert bbp("sweep", *words, "--out", out, "--task", "1/2").code == 0
    assert bbp("sweep", *words, "--out", out, "--resume").code == 0
    with h5py.File(out) as file:
        (named,) = json.loads(file.attrs["other_versions"])
        assert named == other and json.loads(file.attrs["versions"]) != other
    assert bbp("sweep", *words, "--out", out, "--force").code == 0
    with h5py.File(out) as file:
        assert "other_versions" not in file.attrs


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "MOMENT", 0.05)
    return tmp_path / "x.h5"


WHOLE, ONE, TWO = None, (1, 2), (2, 2)


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [(WHOLE, WHOLE, False), (WHOLE, ONE, False), (ONE, WHOLE, False), (ONE, ONE, False), (ONE, TWO, True)],
)
def test_a_run_excludes_all_and_a_task_itself(out, first, second, both):
    with Parts(out).held(first):
        if both:
            with Parts(out).held(second):
                pass
        else:
            with pytest.raises(FileError, match="is being written by"), Parts(out).held(second):
                pass
    with Parts(out).held(second):  # and it is free afterwards
        pass
    assert not out.with_name("x.h5.parts").exists()


@pytest.mark.parametrize("name", sorted(OBSTACLES.keys() - {"directory"}))
def test_what_is_no_directory_in_the_place_of_parts_is_told(tmp_path, name):
    """At once: a link to nothing was waited for without end."""
    held = Parts(tmp_path / "x.h5")
    OBSTACLES[name](held.path)
    with pytest.raises(FileError, match=r"x\.h5\.parts' is not a directory"), held.held():
        pass
    assert os.path.lexists(held.path)


def test_the_refusal_names_the_other_run(bbp, tiny, out):
    with Parts(out).held():
        said = bbp("sweep", *tiny, "--out", out)
    assert said.code == 2 and said.err.count("\n") == 1 and not out.exists()
    assert "is being written by process" in said.err and "wait for it, or stop it" in said.err


HOLD = """
import os, sys
from pathlib import Path
from bbp.engine.parts import Parts
with Parts(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_killed_process_is_free(out, begin):
    words = [sys.executable, "-c", HOLD, str(out)]
    child = begin(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    with pytest.raises(FileError, match=f"process {child.pid} on"), Parts(out).held():
        pass
    child.kill()
    child.wait()
    assert (Parts(out).path / LOCK).exists()
    with Parts(out).held():
        pass
    assert not Parts(out).path.exists()


TAKE = """
import os, sys, time
from pathlib import Path
from bbp.console.messages import FileError
from bbp.engine import parts
from bbp.engine.parts import Parts
parts.MOMENT = 0.01
out, inside, taken = Path(sys.argv[1]), Path(sys.argv[2]), 0
until = time.monotonic() + 0.25
while time.monotonic() < until:
    try:
        with Parts(out).held():
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL))  # FileExistsError where another is inside
            taken += 1
            inside.unlink()
    except FileError:
        pass
print(taken)
"""


def test_there_is_one_holder(out, tmp_path, begin):
    """Three processes take and leave the lock, and its folder, as often as they can."""
    words = [sys.executable, "-c", TAKE, str(out), str(tmp_path / "inside")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    outcomes = [
        child.communicate(timeout=120) for child in [begin(words, **pipes, text=True) for _ in range(3)]
    ]
    assert all(errors == "" and int(taken) > 0 for taken, errors in outcomes), outcomes
