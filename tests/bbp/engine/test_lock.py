"""One run on one output; tasks beside each other; what a killed run leaves does not block."""

import subprocess
import sys

import pytest

from bbp.console.messages import FileError
from bbp.engine import run
from bbp.engine.experiment import Execution
from bbp.engine.parts import LOCK, Parts


def held(out, task=None):
    """The lock of a run, or of a task (index, count)."""
    return run._locked(Execution(out, task=task), Parts(out))


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "MOMENT", 0.05)
    return tmp_path / "x.h5"


WHOLE, ONE, TWO = None, (1, 2), (2, 2)


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [(WHOLE, WHOLE, False), (WHOLE, ONE, False), (ONE, WHOLE, False), (ONE, ONE, False), (ONE, TWO, True)],
)
def test_a_run_excludes_all_and_a_task_itself(out, first, second, both):
    with held(out, first):
        if both:
            with held(out, second):
                pass
        else:
            with pytest.raises(FileError, match="is being written by"), held(out, second):
                pass
    with held(out, second):  # and it is free afterwards
        pass
    assert not out.with_name("x.h5.parts").exists()


def test_the_refusal_names_the_other_run(bbp, tiny, out):
    with held(out):
        said = bbp("sweep", *tiny, "--out", out)
    assert said.code == 2 and said.err.count("\n") == 1 and not out.exists()
    assert "is being written by process" in said.err and "wait for it, or stop it" in said.err


HOLD = """
import os, sys
from pathlib import Path
from tests.bbp.engine.test_lock import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_killed_process_is_free(out, begin):
    words = [sys.executable, "-c", HOLD, str(out)]
    child = begin(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    with pytest.raises(FileError, match=f"process {child.pid} on"), held(out):
        pass
    child.kill()
    child.wait()
    assert (Parts(out).path / LOCK).exists()
    with held(out):
        pass
    assert not Parts(out).path.exists()


TAKE = """
import os, sys, time
from pathlib import Path
from bbp.console.messages import FileError
from bbp.engine import run
from tests.bbp.engine.test_lock import held
run.MOMENT = 0.01
out, inside, taken = Path(sys.argv[1]), Path(sys.argv[2]), 0
until = time.monotonic() + 0.5
while time.monotonic() < until:
    try:
        with held(out):
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
