"""Programs from Python: the same numbers as from the shell, to a file or in memory, on any executor, and resumed."""

import concurrent.futures
import inspect
import os
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest

import bbp as package
from bbp.console.messages import FileError
from bbp.console.process import Interrupted
from bbp.engine import run
from bbp.files import dataset
from theory.checks import ParameterError
from theory.model import Committee

HOW = {"alpha": np.array([0.8, 1.6]), "n": [12, 16], "samples": 4, "progress": False}


@pytest.fixture(scope="module")
def from_shell(tmp_path_factory):
    """The file of the same sweep made by the program."""
    out = tmp_path_factory.mktemp("shell") / "x.h5"
    words = ["--alpha-grid", "0.8,1.6", "--n", "12,16", "--samples", "4", "--p", "2", "--a", "0.5"]
    assert package.sweep.main([*words, "--quiet", "--out", str(out)]) == 0
    return out


# Lowest eigenvalues of these samples (n, alpha, sample) as the engine before this one stored them.
LOWEST = [
    [
        [-0.489007358465, -1.15030402558, -0.530110273886, -0.792720609976],
        [-1.01865699901, -2.5373153256, -0.189476071014, -0.386262123272],
    ],
    [
        [-1.01800535168, -1.3182895124, -0.967396816663, -0.178040621008],
        [-1.15022337997, -0.697352432917, -0.935500187251, -0.765361283801],
    ],
]


def test_the_samples_are_those_of_the_engine_before(from_shell):
    with h5py.File(from_shell) as file:
        np.testing.assert_allclose(file["eigenvalues"][..., 0], LOWEST, rtol=1e-9)


@pytest.fixture
def equal(tmp_path, from_shell, same):
    """Assert that a file holds the program's numbers."""

    def check(path):
        same(dataset.open(path), dataset.open(from_shell))

    return check


def test_a_model_makes_the_file_of_its_options(tmp_path, equal, from_shell):
    out = tmp_path / "x.h5"
    package.sweep(Committee(2, 1, 0.5), out=out, **HOW)
    equal(out)
    package.sweep(p=2, a=0.5, out=out, **HOW)  # which finds it finished
    package.sweep(Committee(2, 1, 0.5), out=from_shell, **HOW)
    with pytest.raises(ParameterError, match="holds another sweep: samples 4 there, 5 here"):
        package.sweep(Committee(2, 1, 0.5), out=out, **HOW | {"samples": 5})


def test_any_executor_and_no_file(tmp_path, equal):
    out = tmp_path / "x.h5"
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        package.sweep(Committee(2, 1, 0.5), out=out, executor=threads, block=1, **HOW)
    equal(out)
    before = set(tmp_path.iterdir())
    assert package.sweep(Committee(2, 1, 0.5), **HOW) is not None
    assert set(tmp_path.iterdir()) == before


class Stopping(concurrent.futures.ThreadPoolExecutor):
    """Ctrl-C comes after so many units."""

    def __init__(self, units):
        super().__init__(1)
        self.units = units
        self.window = 1

    def submit(self, fn, /, *args):
        if not self.units:
            os.kill(os.getpid(), signal.SIGINT)
        self.units -= 1
        return super().submit(fn, *args)


@pytest.mark.parametrize("keep", [True, False])
def test_an_interrupt_keeps_what_is_done(tmp_path, equal, count_samples, keep):
    out = tmp_path / "x.h5"
    how = HOW | {"block": 2}
    place = {"out": out} if keep else {}
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match="samples are kept in"):
        package.sweep(Committee(2, 1, 0.5), executor=Stopping(3), **place, **how)
    assert signal.getsignal(signal.SIGINT) is before
    count_samples.clear()
    more = {"resume": True} if keep else {}
    package.sweep(Committee(2, 1, 0.5), processes=1, **place, **more, **how)
    assert 0 < len(count_samples) <= 10  # of 16
    if keep:
        equal(out)
    assert not run._interrupted


class Client:
    """As dask's: its own submit is none of an executor, which it makes."""

    submit = None

    def __init__(self, executor):
        self.executor = executor

    def get_executor(self, *, pure):
        assert pure is False  # else units that look alike would be computed once
        return self.executor


def test_a_client_of_dask_is_an_executor(tmp_path, equal):
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        package.sweep(Committee(2, 1, 0.5), out=tmp_path / "x.h5", executor=Client(threads), **HOW)
    equal(tmp_path / "x.h5")


def test_options_that_go_together_with_nothing_are_told():
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        cases = [
            ({"executor": concurrent.futures.ThreadPoolExecutor}, "not the class"),
            ({"executor": Client}, "not the class"),
            ({"executor": threads, "processes": 1}, "executor and processes exclude each other"),
            ({"executor": threads, "workers": 2}, "executor and workers exclude each other"),
            ({"executor": threads, "scheduler": "tcp://x:1"}, "executor and scheduler exclude each other"),
            ({"resume": True}, "resume=True needs out"),
            ({"force": True}, "force=True needs out"),
            ({"retry_failed": True}, "retry_failed=True needs out"),
            ({"partial": True}, "^partial=True is for --merge"),
        ]
        for options, words in cases:
            with pytest.raises(ParameterError, match=words):
                package.sweep(Committee(2, 1, 0.5), **HOW | options)


def test_messages_write_options_as_python_does(tmp_path):
    """What is told of an unfinished run, and of a file of another one; the name of a file stays as it is."""
    out = tmp_path / "a --force.h5"
    with pytest.raises(Interrupted, match="the same call with resume=True goes on"):
        package.sweep(Committee(2, 1, 0.5), executor=Stopping(3), out=out, **HOW | {"block": 2})
    with pytest.raises(FileError, match="resume=True goes on with it, force=True starts afresh") as told:
        package.sweep(Committee(2, 1, 0.5), out=out, **HOW)
    assert "a --force.h5" in str(told.value)
    package.sweep(Committee(2, 1, 0.5), out=out, resume=True, **HOW)
    with pytest.raises(FileError, match=r"\(force=True replaces it\)"):
        package.sweep(Committee(2, 1, 0.5), out=out, seed=1, **HOW)


def nothing(values):
    """no number"""
    return np.nan * values


def test_an_observable_that_is_no_number_is_told(capsys):
    package.sweep(Committee(2, 1, 0.5), observable=nothing, **HOW | {"progress": True})
    assert "nothing is NaN in every sample" in capsys.readouterr().err


def test_the_other_programs_are_functions_too(tmp_path, from_shell):
    quiet = {"progress": False}
    assert package.phase(p="1,2", a_grid=[0.5, 1.0], widths=1, at_a=0.5, **quiet) is not None
    assert (
        package.descent(
            p=1, alpha=2.0, n=12, samples=1, steps=5, records=2, start="random", eigenpairs=0, **quiet
        )
        is not None
    )
    assert package.compare(from_shell, draws=2, repeats=100, **quiet) is not None


def test_modules_are_functions_whatever_was_imported_first():
    code = """
import sys, bbp
assert not {"jax", "xarray", "numpy", "scipy"} & set(sys.modules)
first = bbp.sweep
import bbp.sweep
from bbp import sweep, phase
assert first is sweep is bbp.sweep and callable(sweep) and callable(phase) and sweep.main
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert list(inspect.signature(package.sweep).parameters)[:3] == ["model", "alpha", "n"]


SCRIPT = """
import sys
import bbp
found = bbp.sweep(p=1, alpha=[1.0], n=12, samples=4, block=1, processes=2, progress=False, out=sys.argv[1])
print("done")
"""


@pytest.mark.slow
def test_a_script_needs_no_guard(tmp_path):
    """Processes do not run the program that started them."""
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, tmp_path / "script.py", tmp_path / "x.h5"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert (done.stdout, done.stderr) == ("done\n", "")
