"""Units on processes of this machine and on given executors: the same numbers, no orphans, a killed process costs its unit.
Compiled programs are kept by default, where the user says, within bounds, and whole.
"""

import concurrent.futures
import dataclasses
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from bbp.console import messages
from bbp.console.messages import RunError
from bbp.console.options import checked
from bbp.engine import executors
from bbp.engine.run import Unit, run_unit
from bbp.experiments import program as programs
from bbp.experiments import sweep
from bbp.experiments.options import SWEEP
from bbp.files import dataset, variables
from bbp.sweep import PROGRAM as SWEEPS
from sims import machine
from tests.bbp.engine.pool_units import COMPUTATION, Unreadable
from theory.checks import ParameterError

PATHS = os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])


@pytest.fixture
def units(tmp_path):
    """A function that makes units of two samples each."""

    def make(number, **changes):
        record = {"folder": str(tmp_path), "dies": [], "times": 0} | changes
        return [Unit(COMPUTATION, (0,), record, 2 * i, 2, {}) for i in range(number)]

    return make


@pytest.fixture(scope="module")
def pool():
    """Two processes for all tests of this module, which some of them kill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "7")
        with executors.Processes(2) as processes:
            yield processes


def test_every_unit_comes_back_once_from_processes_of_one_thread(pool, units):
    results = list(executors.results(pool, units(7)))
    assert list(executors.results(pool, [])) == []
    assert sorted(result.first for result in results) == [*range(0, 14, 2)]
    for result in results:
        np.testing.assert_array_equal(result.columns["values"], [[result.first, 1], [result.first + 1, 1]])


def test_a_unit_is_tried_again_and_one_that_kills_every_process_has_failed(pool, units, monkeypatch):
    monkeypatch.setattr(executors, "TRIES", 2)  # a process each
    again = list(executors.results(pool, units(3, dies=[2], times=1)))
    lost = list(executors.results(pool, units(3, dies=[4], times=99)))
    assert all((result.status == variables.DONE).all() for result in again) and len(again) == 3
    by_first = {result.first: result for result in lost}
    assert (by_first[4].status == variables.FAILED).all()
    assert set(by_first[4].reason) == {f"each of the {executors.TRIES} processes that tried it died"}
    assert all((by_first[first].status == variables.DONE).all() for first in (0, 2))


def test_a_process_that_dies_costs_no_other_its_unit(pool, units, tmp_path):
    """Unit 1 is long; its process computes it once, while the other's dies."""
    short, long = units(2, dies=[0], times=1)
    long = dataclasses.replace(long, record=long.record | {"dies": [], "seconds": 1})
    assert len(list(executors.results(pool, [short, long]))) == 2
    assert len(list(tmp_path.glob("began-2*"))) == 1 and len(list(tmp_path.glob("0-*"))) == 1


def test_what_is_no_samples_fault_stops_the_run(units):
    with executors.Processes(1) as pool, pytest.raises(RunError, match="processes cannot run a unit"):
        list(executors.results(pool, units(1, folder=Unreadable())))


def test_processes_that_do_not_start_are_one_line(units, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with executors.Processes(1) as pool, pytest.raises(RunError, match="ended before it was ready"):
        list(executors.results(pool, units(1)))


HOSTILE = "raise SystemExit('a module of the current directory was run')"


def test_neither_what_the_environment_prints_nor_modules_of_the_folder_come_between(
    units, tmp_path, monkeypatch
):
    """A sitecustomize that prints, as clusters have; json.py and others where the program was started."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("print('welcome to the cluster ' * 1000, flush=True)")
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("json", "theory", "numpy", "pickle", "multiprocessing", "loky"):
        (folder / f"{name}.py").write_text(HOSTILE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), PATHS]))
    monkeypatch.chdir(folder)
    with executors.Processes(1) as pool:
        assert len(list(executors.results(pool, units(2)))) == 2


def other_version(unit):
    """The result of a worker on which another version is installed."""
    result = run_unit(unit)
    return dataclasses.replace(result, made=result.made | {"bbp": "0.1.9", "stream": "philox/1"})


class Elsewhere(concurrent.futures.ThreadPoolExecutor):
    """An executor some of whose workers are others."""

    def __init__(self, work):
        super().__init__(1)
        self.work = iter(work)

    def submit(self, fn, /, *args):
        return super().submit(next(self.work), *args)


def test_a_result_of_another_version_or_stream_is_refused(units, caplog):
    with caplog.at_level("WARNING", "bbp"):
        good = list(executors.results(Elsewhere([other_version, run_unit, run_unit]), units(2)))
        bad = list(executors.results(Elsewhere([other_version] * executors.TRIES), units(1)))
    assert all((result.status == variables.DONE).all() for result in good) and len(good) == 2
    assert (bad[0].status == variables.FAILED).all()
    assert "has bbp 0.1.9 there" in bad[0].reason[0] and "refused" in bad[0].reason[0]
    assert "bbp 0.1.9 there" in caplog.text


def test_what_is_no_result_is_told_in_a_line(units):
    with pytest.raises(RunError, match="gives int where"):
        list(executors.results(Elsewhere([lambda unit: 3]), units(1)))
    first, _ = units(2)
    with pytest.raises(RunError, match="result of another unit"):  # else it is asked for again and again
        list(executors.results(Elsewhere([lambda unit: run_unit(first)] * 2), units(2)))


def test_streams_are_compared_where_there_are_any(units):
    unit = units(1)[0]
    drawing = dataclasses.replace(unit, computation=dataclasses.replace(COMPUTATION, drawn=True))
    assert "stream unknown there" in executors._foreign(run_unit(unit), drawing)
    assert not executors._foreign(run_unit(drawing), drawing)


PROGRAM = """
import sys
from bbp.console import process
from bbp.engine import executors
from bbp.engine.run import Unit
from tests.bbp.engine.pool_units import COMPUTATION
record = {"folder": sys.argv[1], "dies": [], "times": 0, "seconds": float(sys.argv[2])}
process.GRACE = float(sys.argv[3])
kept = []
with process.heeded("program"), executors.Processes(2) as pool:
    try:
        for result in executors.results(pool, [Unit(COMPUTATION, (0,), record, i, 1, {}) for i in range(9)]):
            kept.append(result.first)
    except process.Interrupted as stop:
        print(stop.word, sorted(kept))
"""


@pytest.fixture
def program(begin, tmp_path):
    """A function that starts the program, on units of some seconds, and waits until so many have begun."""

    def start(seconds, grace, wait):
        words = [sys.executable, "-c", PROGRAM, str(tmp_path), str(seconds), str(grace)]
        env = os.environ | {"PYTHONPATH": PATHS}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        child = begin(words, **pipes, text=True, env=env, start_new_session=True)
        while child.poll() is None and len(list(tmp_path.glob("began-*"))) < wait:
            time.sleep(0.01)
        return child

    return start


@pytest.mark.parametrize(
    "number, said",
    [(signal.SIGKILL, ""), pytest.param(signal.SIGINT, "interrupted []\n", marks=pytest.mark.slow)],
)
def test_processes_end_with_their_program(program, number, said):
    """The program alone is hit, in the midst of units that do not end by themselves."""
    child = program(60, 0.1, 2)
    workers = psutil.Process(child.pid).children(recursive=True)
    assert len(workers) >= 2
    child.send_signal(number)
    assert child.communicate(timeout=300)[0] == said
    assert not psutil.wait_procs(workers, timeout=60)[1]


@pytest.mark.parametrize(
    ("number", "said"),
    [pytest.param(signal.SIGINT, "interrupted", marks=pytest.mark.slow), (signal.SIGTERM, "terminated")],
)
def test_a_signal_loses_no_unit_that_was_begun(program, tmp_path, number, said):
    """Whether it is sent to the program alone or, as batch systems do, to all its processes."""
    child = program(0.5, 50, 3)
    os.killpg(child.pid, number)
    printed, errors = child.communicate(timeout=300)
    begun = sorted(int(path.name.removeprefix("began-")) for path in tmp_path.glob("began-*"))
    assert len(begun) < 9 and printed == f"{said} {begun}\n"
    assert "Traceback" not in errors and "resource_tracker" not in errors


def test_a_sweep_in_two_processes_has_the_same_bits(bbp, tmp_path, same):
    words = ["--alpha-grid", "0.8,1.6", "--n", "24", "--p", "2", "--samples", "6", "--block", "2"]
    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    assert bbp("sweep", *words, "--out", one, "--processes", "1").code == 0
    assert bbp("sweep", *words, "--out", two, "--workers", "2").code == 0
    same(dataset.open(one), dataset.open(two))


@pytest.fixture
def chosen(monkeypatch):
    """A function: processes of a sweep with these options on a machine of eight cores."""
    monkeypatch.setattr(machine, "allotted", lambda: 8)

    def choose(wanted=None, **asked):
        how = checked(SWEEP, asked)
        return programs.planned(SWEEPS.experiment(asked), how | {"processes": wanted}).parallel

    return choose


def test_as_many_processes_as_pay(chosen, monkeypatch):
    large = {"samples": 1000, "n": "200", "alpha_grid": "1,2"}
    monkeypatch.setattr(machine, "free_bytes", lambda: 10**12)
    assert chosen(**large) == 8
    assert chosen(**large | {"samples": 2}) == 1  # over before they have started
    assert chosen(wanted=3, **large | {"samples": 2}) == 3
    assert chosen(**large | {"n": "4000"}) == 1  # a matrix keeps all cores busy
    assert chosen(**large | {"solver": "krylov"}) == 1
    assert chosen(**large | {"samples": 5, "n": "2000", "alpha_grid": "1"}) == 5  # no more than samples
    monkeypatch.setattr(machine, "free_bytes", lambda: 3.5 * programs.PROCESS_BYTES)
    assert chosen(**large) == 3  # each has an interpreter and its modules in memory
    monkeypatch.setattr(messages, "gpus", lambda: ["0"])
    assert chosen(**large) == 1
    with pytest.raises(ParameterError, match="--workers gives each its own"):
        chosen(wanted=2, **large)


def test_no_more_processes_than_fit_in_memory(chosen, monkeypatch):
    def fits(self, hints, processes):
        if processes > 3:
            raise ParameterError("too large")

    monkeypatch.setattr(sweep.SweepExperiment, "check_memory", fits)
    assert chosen(samples=1000, n="200") == 3


def test_there_is_a_gpu_for_each(refused, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(messages, "gpus", lambda: ["0", "1"])
    words = "sweep", *tiny, "--out", tmp_path / "x.h5", "--workers", "3"
    refused("workers must be at most 2, one for each GPU, got 3", *words)


def test_a_process_each_has_its_gpu():
    with executors.Processes(2, gpus=["3", "5", "7"]) as pool:
        seen = [pool.submit(os.getenv, "CUDA_VISIBLE_DEVICES") for _ in range(2)]
        assert [future.result() for future in seen] == ["3", "5"]


def test_what_runs_no_units_or_forks_is_refused():
    with pytest.raises(ParameterError, match=r"executor must be a concurrent.futures.Executor, got 3"):
        executors.usable(3)
    fork, spawn = map(multiprocessing.get_context, ("fork", "spawn"))
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=fork) as pool:
        with pytest.raises(ParameterError, match="executor must not fork"):
            programs.obtain(
                SWEEPS.experiment({"alpha": [1.0], "n": [20], "samples": 1}),
                checked(SWEEP, {}) | {"executor": pool},
                "",
            )
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        assert executors.usable(pool) is pool
