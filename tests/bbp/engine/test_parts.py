"""Parts: each counts for its own point of its own run alone, and whatever else lies among them does no harm."""

import io
import json
import os
import shutil

import h5py
import numpy as np
import pytest

from bbp.engine import tasks
from bbp.engine.parts import Parts
from bbp.engine.tasks import Results, compute
from bbp.files import disk
from bbp.sweep import PROGRAM

GIVEN = {"n": 12, "alpha_grid": [0.8, 1.2], "samples": 2}


@pytest.fixture
def experiment():
    return PROGRAM.experiment(GIVEN)


@pytest.fixture(scope="module")
def computed():
    built = PROGRAM.experiment(GIVEN)
    return [compute(built.unit(point, 0, 2)) for point in built.points(Results())]


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


def given(**changes):
    def change(arrays):
        about = json.loads(str(arrays["about"]))
        about["given"] |= changes
        arrays["about"] = np.array(json.dumps(about))

    return change


def column(name, values):
    return lambda arrays: arrays.__setitem__(name, values)


WRONG = {
    "another seed": (given(seed=5), "seed 5 there, 0 here"),
    "another alpha": (given(alpha=4.0), "alpha 4.0 there"),
    "another stream": (given(prng="other"), "prng other there"),
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


def test_no_flipped_bit_passes(kept, experiment, caplog):
    """Every 37th byte of a part, one bit at a time: it never counts, and nothing else happens."""
    held, (path, _) = kept
    data = path.read_bytes()
    for place in range(0, len(data), 37):
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :])
        assert len(list(held.load(experiment))) == 1, place


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


def test_parts_of_an_older_program_are_refused_in_one_line(bbp, tmp_path):
    """The first version's plan and names: told, and discarded by --force."""
    out, words = tmp_path / "x.h5", ["--n", "12", "--alpha-grid", "1", "--samples", "1"]
    old = out.with_name("x.h5.parts")
    old.mkdir()
    (old / "plan.json").write_text('{"format": "bbp-sweep-parts", "version": 1, "records": []}')
    (old / "m000-n0000012-a3ff0000000000000-s0000000-1.npz").write_bytes(b"old")
    for command in (["sweep", *words, "--out", out, "--resume"], ["info", out]):
        said = bbp(*command)
        assert said.code == 2 and said.err.count("\n") == 1 and "of another version of bbp" in said.err
    assert bbp("sweep", *words, "--out", out, "--force").code == 0 and not old.exists()


def test_parts_of_other_library_versions_are_named_in_the_file(bbp, tmp_path, monkeypatch):
    out, words = (
        tmp_path / "x.h5",
        ["--n", "12", "--alpha-grid", "1", "--samples", "4", "--block", "2", "--quiet"],
    )
    other = tasks._versions() | {"jax": "0.1"}
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "_versions", lambda: other)
        assert bbp("sweep", *words, "--out", out, "--task", "1/2").code == 0
    assert bbp("sweep", *words, "--out", out, "--resume").code == 0
    with h5py.File(out) as file:
        (named,) = json.loads(file.attrs["other_versions"])
        assert named == other and json.loads(file.attrs["versions"]) != other
    assert bbp("sweep", *words, "--out", out, "--force").code == 0
    with h5py.File(out) as file:
        assert "other_versions" not in file.attrs
