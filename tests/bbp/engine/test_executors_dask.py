"""Sweeps on a dask scheduler: the same numbers, and an end in one line whatever becomes of it and its workers."""

import os
import subprocess
import sys
import threading
import time

import psutil
import pytest

from bbp.console.messages import RunError
from bbp.engine import executors
from bbp.engine.parts import Parts
from bbp.files import dataset, variables

WORDS = ["--alpha-grid", "0.8:2:4", "--n", "12", "--samples", "25", "--block", "1"]
ELSEWHERE = """
import logging, sys
import distributed
import bbp.experiments.sweep  # the scheduler unpickles units: not while it is to answer
for name in ("distributed", "tornado", "asyncio"):
    logging.getLogger(name).disabled = True
if __name__ == "__main__":
    near = {"host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50}
    workers = int(sys.argv[1])
    if workers:
        cluster = distributed.LocalCluster(workers, threads_per_worker=1, memory_limit=sys.argv[2], **near)
    else:
        cluster = distributed.SpecCluster(scheduler={"cls": distributed.Scheduler, "options": {"host": "127.0.0.1"}})
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def elsewhere(tmp_path):
    """A function that starts a scheduler with so many workers in a process of its own: (process, address)."""
    started = []
    script = tmp_path / "elsewhere.py"
    script.write_text(ELSEWHERE)

    def start(workers, memory="0"):
        words = [sys.executable, script, str(workers), memory]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        child = subprocess.Popen(words, **pipes, text=True, env=env)
        started.append(child)
        return child, child.stdout.readline().strip()

    yield start
    for child in started:
        family = psutil.Process(child.pid).children(recursive=True) if child.poll() is None else []
        child.kill()
        child.communicate()
        for process in family:
            process.kill()


def test_a_worker_dies_and_then_the_scheduler_and_nothing_is_lost(
    bbp, tmp_path, elsewhere, same, monkeypatch
):
    out, reference = tmp_path / "sweep.h5", tmp_path / "reference.h5"
    child, address = elsewhere(2)
    parts = out.with_name("sweep.h5.parts")

    def lose():
        while len(list(parts.glob("*.npz"))) < 5:
            time.sleep(0.01)
        family = psutil.Process(child.pid).children(recursive=True)
        next(one for one in family if any("spawn_main" in word for word in one.cmdline())).kill()
        while len(list(parts.glob("*.npz"))) < 20:
            time.sleep(0.01)
        # from here on: a busy machine may take longer than this to connect
        monkeypatch.setattr(executors, "CONNECT_SECONDS", 3)
        child.kill()

    threading.Thread(target=lose, daemon=True).start()
    said = bbp("sweep", *WORDS, "--out", out, "--scheduler", address)
    assert said.code == 1 and not out.exists(), said
    last = said.err.splitlines()[-1]
    assert "is lost" in last and "samples are kept in" in last and "--resume" in last
    kept = list(Parts(out).load())
    assert len(kept) >= 20 and all((part["columns"]["status"] == variables.DONE).all() for part in kept)
    assert bbp("sweep", *WORDS, "--out", out, "--resume").code == 0
    assert bbp("sweep", *WORDS, "--block", "25", "--out", reference).code == 0
    same(dataset.open(out), dataset.open(reference))


def test_without_workers_a_run_waits_as_long_as_it_is_told(bbp, tiny, tmp_path, elsewhere):
    _, address = elsewhere(0)
    said = bbp("sweep", *tiny, "--out", tmp_path / "x.h5", "--scheduler", address, "--wait", "1")
    assert said.code == 1 and "there is no worker: the run ends if that lasts 1 s" in said.err
    assert said.err.splitlines()[-1].startswith("bbp sweep: error: there is no worker, for 1 s; ")


def worker(status="running", memory=380_000_000):
    return {"status": status, "memory_limit": memory}


class Scheduler:
    """A client whose scheduler has these workers, one set of them at each look."""

    scheduler = type("", (), {"identity": None})

    def __init__(self, *looks):
        self.looks = iter(looks)

    def sync(self, ask, callback_timeout):
        return {"workers": next(self.looks)}


def test_workers_short_of_memory_end_the_run_in_one_line(caplog):
    """Paused for good at 80 % of their limit."""
    looks = [{"a": worker()}, {"a": worker("paused")}, {"a": worker("paused")}]
    watch = executors.watched(Scheduler(*looks), 0)
    with caplog.at_level("WARNING", "bbp"):
        watch(False)
        watch(False)
    words = "every worker is paused for want of memory (limit 380 MB: --memory-limit of dask worker)"
    assert words in caplog.text
    time.sleep(0.01)
    with pytest.raises(RunError) as raised:
        watch(False)
    assert str(raised.value) == f"{words}, for 0 s"


def test_a_scheduler_out_of_reach_is_one_line(bbp, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "CONNECT_SECONDS", 0.2)
    said = bbp("sweep", *tiny, "--out", tmp_path / "x.h5", "--scheduler", "tcp://127.0.0.1:9")
    assert said.code == 1 and said.err.count("\n") == 1 and "cannot reach a dask scheduler" in said.err


def test_without_dask_one_line_says_what_to_install(refused, tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    words = "sweep", *tiny, "--out", tmp_path / "x.h5", "--scheduler", "tcp://127.0.0.1:9"
    refused("pip install 'hessian-bbp[cluster]'", *words)
