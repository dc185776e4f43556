"""Units side by side on this machine: the same numbers, no orphans, and a killed process costs nothing but time."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from bbp import store
from bbp.console.errors import RunError
from bbp.console.options import checked
from bbp.engine import door, estimate, pool
from bbp.engine.unit import Unit
from bbp.experiments import sweep
from bbp.experiments.options import SWEEP
from tests.bbp.engine.pool_units import KIND, Unreadable
from theory.checks import ParameterError


@pytest.fixture
def units(tmp_path):
    """A function that makes units of two samples each."""

    def make(number, **given):
        given = {"folder": str(tmp_path), "dies": [], "times": 0} | given
        return [Unit(KIND, (0,), given, 2 * i, 2, {}) for i in range(number)]

    return make


def test_every_unit_comes_back_once_from_processes_of_one_thread(units, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    before = psutil.Process().children()
    with pool.pool(2) as run:
        results = list(run(units(7)))
        assert list(run([])) == []
        results += run(units(1))  # another round, by the same processes
    assert sorted(result.first for result in results) == sorted([*range(0, 14, 2), 0])
    for result in results:
        np.testing.assert_array_equal(result.columns["values"], [[result.first, 1], [result.first + 1, 1]])
    assert set(psutil.Process().children()) <= set(before)


def test_a_unit_is_tried_again_and_one_that_kills_every_process_has_failed(units):
    with pool.pool(2) as run:
        again = list(run(units(3, dies=[2], times=1)))
        lost = list(run(units(3, dies=[4], times=99)))
    assert all((result.status == store.DONE).all() for result in again) and len(again) == 3
    by_first = {result.first: result for result in lost}
    assert (by_first[4].status == store.FAILED).all()
    assert set(by_first[4].reason) == {f"each of the {pool.TRIES} processes that tried it died"}
    assert all((by_first[first].status == store.DONE).all() for first in (0, 2))


def test_processes_that_do_not_start_are_one_line(units, monkeypatch):
    monkeypatch.setattr(pool, "START", "raise SystemExit(3)")
    with pytest.raises(RunError, match=r"ended before it was ready \(exit code 3\)"), pool.pool(1) as run:
        list(run(units(1)))


def test_what_is_no_samples_fault_stops_the_run(units):
    strange = units(1, folder=Unreadable())
    with pytest.raises(RunError, match="cannot run a unit: ZeroDivisionError"), pool.pool(1) as run:
        list(run(strange))


PROGRAM = """
import sys
from bbp.console import signals
from bbp.engine import pool
from bbp.engine.unit import Unit
from tests.bbp.engine.pool_units import KIND
given = {"folder": "", "dies": [], "times": 0, "seconds": 60}
signals.GRACE = 0.1  # Units do not end by themselves
with signals.heeded("program"), pool.pool(2) as run:
    print("started", flush=True)
    try:
        list(run([Unit(KIND, (0,), given, i, 1, {}) for i in range(4)]))
    except signals.Interrupted as stop:
        print(type(stop).__name__)
"""


@pytest.mark.parametrize(
    "number, said",
    [(signal.SIGKILL, ""), pytest.param(signal.SIGINT, "Interrupted\n", marks=pytest.mark.slow)],
)
def test_processes_end_with_their_program(begin, number, said):
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])}
    words = [sys.executable, "-c", PROGRAM]
    child = begin(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    assert child.stdout.readline() == "started\n"
    workers = psutil.Process(child.pid).children()
    assert len(workers) == 2
    child.send_signal(number)
    assert child.communicate(timeout=300)[0] == said
    assert not psutil.wait_procs(workers, timeout=60)[1]


STOPPED = """
import sys
from bbp.console import signals
from bbp.engine import pool
from bbp.engine.unit import Unit
from tests.bbp.engine.pool_units import KIND
given = {"folder": sys.argv[1], "dies": [], "times": 0, "seconds": 0.5}
kept = []
with signals.heeded("program"), pool.pool(2) as run:
    try:
        for result in run([Unit(KIND, (0,), given, i, 1, {}) for i in range(9)]):
            kept.append(result.first)
    except signals.Interrupted as stop:
        print(stop.word, sorted(kept))
"""


@pytest.mark.parametrize(
    ("number", "said"),
    [
        pytest.param(signal.SIGINT, "interrupted", marks=pytest.mark.slow),
        (signal.SIGTERM, "terminated"),
    ],
)
def test_a_signal_loses_no_unit_that_was_begun(begin, tmp_path, number, said):
    """Whether it is sent to the program alone or, as batch systems do, to all its processes."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])}
    words = [sys.executable, "-c", STOPPED, str(tmp_path)]
    child = begin(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env, start_new_session=True
    )
    while child.poll() is None and len(list(tmp_path.glob("began-*"))) < 3:
        time.sleep(0.01)
    os.killpg(child.pid, number)
    printed = child.communicate(timeout=300)[0]
    begun = sorted(int(path.name.removeprefix("began-")) for path in tmp_path.glob("began-*"))
    assert len(begun) < 9 and printed == f"{said} {begun}\n"


def test_a_sweep_in_two_processes_has_the_same_bits(bbp, tmp_path, same):
    words = ["--alpha-grid", "0.8,1.6", "--n", "24", "--p", "2", "--samples", "6", "--block", "2"]
    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    assert bbp("sweep", *words, "--out", one, "--processes", "1").code == 0
    assert bbp("sweep", *words, "--out", two, "--processes", "2").code == 0
    same(store.load(one), store.load(two))


@pytest.fixture
def chosen(monkeypatch):
    """A function: processes of a sweep with these options on a machine of eight cores."""
    monkeypatch.setattr(estimate, "allotted", lambda: 8)

    def choose(wanted=None, **given):
        settings = checked(SWEEP, given)
        return estimate.side_by_side(sweep.build(given), door.execution(settings), wanted).processes

    return choose


def test_as_many_processes_as_pay(chosen, monkeypatch):
    large = {"samples": 1000, "n": "200", "alpha_grid": "1,2"}
    assert chosen(**large) == 8
    assert chosen(**large | {"samples": 2}) == 1  # over before they have started
    assert chosen(wanted=3, **large | {"samples": 2}) == 3
    assert chosen(**large | {"n": "4000"}) == 1  # a matrix keeps all cores busy
    assert chosen(**large | {"solver": "krylov"}) == 1
    assert chosen(**large | {"samples": 5, "n": "2000", "alpha_grid": "1"}) == 5  # no more than samples
    monkeypatch.setattr(estimate, "gpus", lambda: ["0"])
    assert chosen(**large) == 1
    with pytest.raises(ParameterError, match="--workers gives each its own"):
        chosen(wanted=2, **large)


def test_no_more_processes_than_fit_in_memory(chosen, monkeypatch):
    def fits(self, hints, processes):
        if processes > 3:
            raise ParameterError("too large")

    monkeypatch.setattr(sweep.SweepExperiment, "check_memory", fits)
    assert chosen(samples=1000, n="200") == 3
