"""What every program shares: wrong options are told with the nearest right one; idle threads sleep."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import bbp as package
from bbp.console import options, program


def test_the_nearest_name_is_offered():
    assert options.nearest("--sampels", ["--samples", "--seed"]) == "; did you mean --samples?"
    assert options.nearest("zzz", ["--samples", "--seed"]) == ""


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
