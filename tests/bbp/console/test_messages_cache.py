"""Compiled programs: where they are kept, and that whatever else lies there is left alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bbp.console import messages

KEEPING = """
import jax
from pathlib import Path
from bbp.console import messages
messages.keep_programs(messages.cache_directory(None))
print(jax.jit(lambda x: (x * 2).sum())(jax.numpy.ones(3)))
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache directory of the user, and no variable that names another."""
    for name in ("BBP_CACHE", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hessian-bbp" / messages.processor()


def test_the_directory_is_the_users_unless_another_is_named(home, tmp_path, monkeypatch):
    mine = Path("hessian-bbp", messages.processor())  # inside whatever is named
    assert messages.cache_directory(None) == str(home) and home.is_dir()
    assert messages.cache_directory(str(tmp_path / "mine")) == str(tmp_path / "mine" / mine)
    assert messages.cache_directory("none") is None
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    assert messages.cache_directory(None) is None
    monkeypatch.setenv("BBP_CACHE", str(tmp_path / "named"))
    place = str(tmp_path / "named" / mine)
    assert messages.cache_directory(None) == place
    assert messages.keeping_environment(messages.cache_directory(None))["JAX_COMPILATION_CACHE_DIR"] == place
    monkeypatch.setenv("BBP_CACHE", "none")
    assert messages.cache_directory(None) is None and messages.keeping_environment(None) == {}


def test_what_else_is_in_a_named_directory_is_not_ours(bbp, tmp_path):
    """Files named as JAX names its programs, and what would hang a reader, in the directory and in our folder."""
    place = tmp_path / "m"
    ours = Path(messages.cache_directory(str(place)))
    (place / "thesis-cache").write_text("chapter 1")
    for folder in (place, ours):
        os.mkfifo(folder / "pipe-cache")
        (folder / "pipe-atime").touch()
    words = ["--alpha-grid", "1", "--n", "12", "--samples", "1", "--out", tmp_path / "x.h5"]
    assert bbp("sweep", *words, "--cache", place).code == 0
    assert (place / "thesis-cache").read_text() == "chapter 1"
    assert (place / "pipe-cache").is_fifo() and (place / "pipe-atime").exists()


def test_a_directory_that_cannot_be_written_is_no_error(bbp, home, tmp_path, monkeypatch):
    inside = tmp_path / "file" / "inside"
    monkeypatch.setenv("XDG_CACHE_HOME", str(inside))
    (tmp_path / "file").touch()
    assert messages.cache_directory(None) is None
    words = ["--alpha-grid", "1", "--n", "12", "--samples", "1", "--out", tmp_path / "x.h5"]
    for more in (["--dry-run"], []):
        said = bbp("sweep", *words, *more, "--cache", inside)  # told, and once, where it was asked for
        assert said.code == 0 and said.err.count("are not kept") == 1


@pytest.mark.slow
def test_two_processes_at_once_share_it_and_a_third_compiles_nothing(home):
    def start():
        words = [sys.executable, "-c", KEEPING]
        return subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    outcomes = [child.communicate(timeout=300) for child in [start(), start()]]
    kept = sorted(home.glob("*-cache"))
    outcomes.append(start().communicate(timeout=300))
    assert outcomes == [("6.0\n", "")] * 3
    assert kept and sorted(home.glob("*-cache")) == kept


def test_a_program_keeps_what_it_compiles(bbp, home, tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(messages, "keep_programs", kept.append)
    words = ["--alpha-grid", "1", "--n", "12", "--samples", "1", "--out", tmp_path / "x.h5"]
    assert bbp("sweep", *words, "--dry-run").code == bbp("sweep", *words).code == 0
    assert kept == [str(home)] * 2
    assert bbp("sweep", *words, "--force", "--cache", "none").code == 0
    assert kept[2:] == [None]
