"""One policy for what is written: through links, never over an input or another output, refused before any work."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bbp.console.errors import FileError
from bbp.files import atomic, dataset, outputs
from theory.checks import ParameterError

PHASE = ["phase", "--p", "1", "--a-grid", "0.5,1", "--at-a", "0.5", "--widths", "1"]
PROGRAMS = {
    "sweep": ["sweep", "--n", "12", "--samples", "1", "--alpha-grid", "1", "--out", "OUT.h5"],
    "descent": [
        *["descent", "--n", "12", "--samples", "1", "--alpha-grid", "2", "--steps", "5", "--records", "2"],
        *["--start", "random", "--eigenpairs", "0", "--out", "OUT.h5"],
    ],
    "phase": [*PHASE, "--out", "OUT.h5"],
    "compare": ["compare", "in.h5", "--draws", "0", "--repeats", "100", "--save", "OUT.h5"],
    "compare's figure": ["compare", "in.h5", "--draws", "0", "--repeats", "100", "--out", "OUT.png"],
    "export": ["export", "in.h5", "--out", "OUT.csv"],
    "plot": ["plot", "in.h5", "--dpi", "20", "--out", "OUT.png"],
}


@pytest.fixture
def here(tmp_path, monkeypatch, made_up):
    monkeypatch.chdir(tmp_path)
    dataset.write("in.h5", made_up())
    return tmp_path


def words(program, out, *more):
    return [word.replace("OUT", out) for word in PROGRAMS[program]] + list(more)


def suffix(program):
    return PROGRAMS[program][-1].removeprefix("OUT")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_link_is_written_through(bbp, here, program):
    (here / "disk").mkdir()
    target, link = here / "disk" / f"real{suffix(program)}", here / f"link{suffix(program)}"
    target.write_text("old")
    link.symlink_to(target)
    said = bbp(*words(program, "link", "--force"))
    assert said.code == 0, said
    assert link.is_symlink() and target.read_bytes() != b"old" and not target.is_symlink()
    assert sorted(path.name for path in here.iterdir()) == sorted(["disk", "in.h5", link.name])
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("what", ["dangling link", "directory", "fifo", "link to a directory", "long name"])
def test_what_cannot_be_an_output_is_refused_before_any_work(bbp, here, program, what):
    name = "x" * 240 if what == "long name" else "out"
    place = here / f"{name}{suffix(program)}"
    (here / "folder").mkdir()
    if what == "directory":
        place.mkdir()
    elif what == "fifo":
        os.mkfifo(place)
    elif what != "long name":
        place.symlink_to("folder" if "directory" in what else "nowhere")
    before = sorted(here.rglob("*"))
    said = bbp(*words(program, name, "--force"))
    assert said.code == 2 and said.err.count("\n") == 1, said
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("name", ["in.png", "link.png", "hard.png", "./sub/../in.png"])
def test_an_input_is_never_the_output(bbp, here, name):
    """A sweep that somebody has called in.png, under several names."""
    (here / "sub").mkdir()
    (here / "in.h5").rename(here / "in.png")
    (here / "link.png").symlink_to("in.png")
    (here / "hard.png").hardlink_to(here / "in.png")
    before = (here / "in.png").read_bytes()
    for given in (
        ["plot", "in.png", "--out", name],
        ["plot", "in.png"],
        ["compare", "in.png", "--out", name],
    ):
        said = bbp(*given, "--force")
        assert said.code == 2 and "it would be replaced" in said.err and said.err.count("\n") == 1, said
    assert (here / "in.png").read_bytes() == before


def test_two_outputs_are_never_one_file(bbp, here):
    said = bbp("compare", "in.h5", "--save", "x.png", "--out", "./x.png")
    assert said.code == 2 and "save is an HDF5 file and must not end in .png" in said.err
    assert not (here / "x.png").exists()
    (here / "x.h5").write_text("mine")
    (here / "x.png").symlink_to("x.h5")
    said = bbp("compare", "in.h5", "--save", "x.h5", "--out", "x.png", "--force")
    assert said.code == 2 and "out and save are one file" in said.err
    assert (here / "x.h5").read_text() == "mine"


def test_home_is_filled_in(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert outputs.destination("~/x.h5") == tmp_path / "x.h5"
    assert outputs.destination("~nobody-here/x.h5") == Path("~nobody-here/x.h5")


@pytest.mark.parametrize("value", ["", "a\0b", 3, None, "x" * 300, "é" * 120])
def test_what_is_no_name_is_refused(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=r"^out must [^\n]*$"):
        outputs.destination(value)


@pytest.mark.parametrize("seed", ["1e30", str(2**63), "-1", "0.5"])
@pytest.mark.parametrize("program", ["sweep", "descent", "phase", "compare"])
def test_a_seed_too_large_leaves_nothing_behind(bbp, here, program, seed):
    said = bbp(*words(program, "out", "--seed", seed))
    assert said.code == 2 and said.err.count("\n") == 1 and "seed must be" in said.err
    assert [path.name for path in here.iterdir()] == ["in.h5"]


FOREIGN = [
    ".run-backup.tmp",
    ".run.h5.0123456789ab.tmp",
    ".bbp-notes.tmp",
    "run.h5.1-of-2.lock",
    ".probe.x.tmp",
]


def test_only_what_is_ours_and_left_over_is_swept(bbp, here):
    """Leftovers of killed runs of any target go; a file being written, and whatever others call temporary, stays."""
    (here / ".run-backup.tmp").mkdir()
    (here / ".run-backup.tmp" / "precious").write_text("mine")
    for name in FOREIGN[1:]:
        (here / name).write_text("mine")
    left = atomic.temporary(here / "other.h5")
    left.write_text("half")
    doomed = atomic.temporary(here / "run.h5.parts")
    doomed.mkdir()
    linked = atomic.temporary(here / "linked")
    linked.symlink_to("in.h5")
    code = """
import sys, time
from pathlib import Path
from bbp.files import atomic
atomic._link = lambda name, path, data: (print(name, flush=True), time.sleep(60))
atomic.create(Path(sys.argv[1]), b"x")
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    writer = subprocess.Popen(
        [sys.executable, "-c", code, here / "live"], stdout=subprocess.PIPE, text=True, env=env
    )
    live = Path(writer.stdout.readline().strip())
    assert bbp(*words("phase", "run")).code == 0
    assert live.exists() and not left.exists() and not doomed.exists()
    writer.kill()
    writer.communicate()
    assert bbp(*words("phase", "run", "--force")).code == 0
    assert not live.exists()
    assert linked.is_symlink() and (here / ".run-backup.tmp" / "precious").read_text() == "mine"
    assert all((here / name).read_text() == "mine" for name in FOREIGN[1:])


def test_without_locks_age_tells_what_is_left_over(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "fcntl", None)
    old, new = atomic.temporary(tmp_path / "old"), atomic.temporary(tmp_path / "new")
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (time.time() - 2 * atomic.STALE_SECONDS,) * 2)
    atomic.sweep_leftovers(tmp_path)
    assert new.exists() and not old.exists()


@pytest.mark.parametrize("lacking", ["link", "flock"])
def test_files_are_made_once_on_lesser_file_systems(tmp_path, monkeypatch, lacking):
    def fails(*args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(*((os, "link") if lacking == "link" else (atomic.fcntl, "flock")), fails)
    atomic.create(tmp_path / "plan", b"first")
    with pytest.raises(FileExistsError):
        atomic.create(tmp_path / "plan", b"second")
    assert (tmp_path / "plan").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]


def test_names_of_ours_are_unmistakable(tmp_path):
    for name in ("x.h5", "y" * 250, "é.h5"):
        path = atomic.temporary(tmp_path / name)
        assert re.fullmatch(r"\.bbp-[0-9a-f]{8}-[0-9a-f]{12}\.tmp", path.name) and path.parent == tmp_path
    with pytest.raises(FileError):
        outputs.require_apart({"out": tmp_path / "a", "save": tmp_path / "." / "a"})
