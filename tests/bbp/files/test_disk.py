"""What is written: through links, never over an input or another output, refused before any work; and what is read."""

import os
from pathlib import Path

import pytest

from bbp.console.messages import FileError
from bbp.files import dataset, disk
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
@pytest.mark.parametrize("what", ["dangling link", "directory", "fifo", "link to a directory"])
def test_what_cannot_be_an_output_is_refused_before_any_work(refused, here, program, what):
    place = here / f"out{suffix(program)}"
    (here / "folder").mkdir()
    if what == "directory":
        place.mkdir()
    elif what == "fifo":
        os.mkfifo(place)
    else:
        place.symlink_to("folder" if "directory" in what else "nowhere")
    before = sorted(here.rglob("*"))
    refused("", *words(program, "out", "--force"))
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("name", ["in.png", "link.png", "hard.png", "./sub/../in.png"])
def test_an_input_is_never_the_output(refused, here, name):
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
        refused("it would be replaced", *given, "--force")
    assert (here / "in.png").read_bytes() == before


def test_two_outputs_are_never_one_file_and_numbers_never_replace_what_is_compared(refused, here):
    both = ["compare", "in.h5", "--save", "x.png", "--out", "./x.png"]
    refused("save is an HDF5 file and must not end in .png", *both)
    assert not (here / "x.png").exists()
    (here / "x.h5").write_text("mine")
    (here / "x.png").symlink_to("x.h5")
    refused("out and save are one file", "compare", "in.h5", "--save", "x.h5", "--out", "x.png", "--force")
    assert (here / "x.h5").read_text() == "mine"
    (here / "link.h5").symlink_to("in.h5")
    before = (here / "in.h5").read_bytes()
    for name in ("in.h5", "link.h5"):
        refused("is what is read here", "compare", "in.h5", "--save", name, "--force")
    assert (here / "in.h5").read_bytes() == before


def test_home_is_filled_in(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert disk.destination("~/x.h5") == tmp_path / "x.h5"
    assert disk.destination("~nobody-here/x.h5") == Path("~nobody-here/x.h5")


@pytest.mark.parametrize("value", ["", "a\0b", 3, None, "x" * 300])
def test_what_is_no_name_is_refused(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=r"^(out must|.*name too long)[^\n]*$"):
        disk.destination(value)


@pytest.mark.parametrize("seed", ["1e30", str(2**63), "-1", "0.5"])
@pytest.mark.parametrize("program", ["sweep", "descent", "phase", "compare"])
def test_a_seed_too_large_leaves_nothing_behind(refused, here, program, seed):
    refused("seed must be", *words(program, "out", "--seed", seed))
    assert [path.name for path in here.iterdir()] == ["in.h5"]


def test_what_a_killed_run_left_half_written_goes_and_all_else_stays(bbp, here, monkeypatch):
    """Of the target of a run, and among its parts; what others call temporary stays."""

    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *args, **how: None)
        patch.setattr(os, "replace", killed)
        for name in ("run.h5", "other.h5"):
            with pytest.raises(KeyboardInterrupt):
                disk.write_bytes(here / name, b"half")
    assert len(list(here.glob(".bbp-*.tmp"))) == 2
    (here / ".run-backup.tmp").mkdir()
    (here / ".bbp-notes.tmp").write_text("mine")
    (here / "run.h5.parts").mkdir()
    (here / "run.h5.parts" / "notes.txt").write_text("mine")
    assert bbp(*words("phase", "run")).code == 0
    left = {path.name for path in here.iterdir()}
    assert len(left) == 6 and {".bbp-notes.tmp", ".run-backup.tmp", "run.h5", "run.h5.parts"} < left
    assert (here / "run.h5.parts" / "notes.txt").read_text() == "mine"


def test_outputs_are_apart_under_any_name(tmp_path):
    with pytest.raises(FileError):
        disk.require_apart({"out": tmp_path / "a", "save": tmp_path / "." / "a"})


@pytest.mark.parametrize("make", ["fifo", "directory", "large", "dangling", "loop", "device", "nothing"])
def test_what_is_no_regular_file_of_its_size_is_one_line(tmp_path, make):
    path = tmp_path / "x"
    if make == "fifo":
        os.mkfifo(path)
    elif make == "directory":
        path.mkdir()
    elif make == "large":
        path.write_bytes(bytes(2000))
    elif make != "nothing":
        path.symlink_to({"dangling": "nowhere", "loop": path, "device": "/dev/zero"}[make])
    with pytest.raises(FileError, match=r"^[^\n]+$"):
        disk.read_bytes(path, 1000)
