"""Progress and messages: a bar on a terminal, sparse lines elsewhere, nothing when quiet. The environment programs run in."""

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bbp as package
from bbp.console import program, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def stderr(monkeypatch):
    """Put a stream in the place of stderr."""

    def put(stream):
        monkeypatch.setattr("sys.stderr", stream)
        return stream

    return put


def work(**options):
    with program.messages("bbp x", **options), program.Progress(4, unit="samples", done=1) as bar:
        bar.advance(1, "N=10")
        bar.grow(6)
        bar.advance(2, "N=20")


def test_a_bar_on_a_terminal(stderr):
    said = stderr(Terminal())
    work()
    assert "\r" in said.getvalue() and "4/10" in said.getvalue() and "N=20" in said.getvalue()


def test_a_bar_in_a_notebook(stderr, monkeypatch):
    shell = type("ZMQInteractiveShell", (), {"initialized": staticmethod(lambda: True)})
    kernel = type("", (), {"ZMQInteractiveShell": shell})
    monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", kernel)
    said = stderr(io.StringIO())
    work()
    assert "4/10" in said.getvalue() and "N=20" in said.getvalue()


def test_sparse_lines_elsewhere(stderr, monkeypatch):
    said = stderr(io.StringIO())
    work()
    assert said.getvalue() == ""
    monkeypatch.setattr(progress, "SPARSE_SECONDS", 0.0)
    work()
    lines = said.getvalue().splitlines()
    assert len(lines) == 2 and "\r" not in said.getvalue()
    assert lines[1].startswith("bbp x: 4/10 samples, about ") and lines[1].endswith("left, N=20")


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_nothing_when_quiet(stderr, monkeypatch, stream):
    said = stderr(stream())
    monkeypatch.setattr(progress, "SPARSE_SECONDS", 0.0)
    work(quiet=True)
    assert said.getvalue() == ""


def test_messages_have_three_levels(stderr):
    for options, expected in (({"quiet": True}, "e"), ({}, "ei"), ({"verbose": True}, "eid")):
        said = stderr(io.StringIO())
        with program.messages("bbp x", **options):
            for level, text in ((logging.ERROR, "e"), (logging.INFO, "i"), (logging.DEBUG, "d")):
                program.log.log(level, text)
        assert said.getvalue() == "".join(f"bbp x: {text}\n" for text in expected)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.96, "10.0 s"),
        (12.3, "12 s"),
        (60, "1 min 0 s"),
        (200, "3 min 20 s"),
        (18600, "5 h 10 min"),
    ],
)
def test_durations_in_words(seconds, words):
    assert program.duration(seconds) == words


def test_the_nearest_name_is_offered():
    assert program.nearest("--sampels", ["--samples", "--seed"]) == "; did you mean --samples?"
    assert program.nearest("zzz", ["--samples", "--seed"]) == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--a", "1"], "unrecognised argument '--a'; did you mean --a-grid or --at-a?"),
        (["--sampels", "1"], "unrecognised argument '--sampels'; did you mean --samples?"),
        (["--a-grid", "-1:2:5", "-2"], "unrecognised argument '-2'"),
    ],
)
def test_wrong_options_are_told_with_all_that_may_be_meant(words, says, capsys):
    parser = program.Parser("bbp x")
    for option in ("--a-grid", "--at-a", "--samples"):
        parser.add_argument(option, nargs="?")
    with pytest.raises(SystemExit):
        parser.parse_args(words)
    assert says in capsys.readouterr().err
    assert parser.parse_args(["--a-grid", "-1:2:5", "--at-a"]).a_grid == "-1:2:5"


@pytest.mark.parametrize("given", [None, "26"])
def test_idle_threads_of_the_blas_sleep_soon_unless_told_otherwise(given):
    """In a fresh interpreter and in a process spawned by it, and set before NumPy loads the library that reads it."""
    code = """
import multiprocessing, os, sys
import bbp
assert "numpy" not in sys.modules
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(os.environ["OPENBLAS_THREAD_TIMEOUT"], *pool.map(os.getenv, ["OPENBLAS_THREAD_TIMEOUT"]))
"""
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    env |= {"PYTHONPATH": str(Path(package.__file__).parents[1])}
    env |= {} if given is None else {"OPENBLAS_THREAD_TIMEOUT": given}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout.split() == [given or "20"] * 2, done.stderr
