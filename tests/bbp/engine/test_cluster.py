"""Sweeps on several processes: the same numbers, and a killed worker costs nothing but time."""

import importlib
import os
import subprocess
import sys
import threading
import time

import psutil
import pytest

from bbp import store
from bbp.console.errors import RunError
from bbp.engine import cluster, devices
from bbp.engine.parts import Parts
from bbp.experiments import sweep as experiment

WORDS = ["--alpha-grid", "0.8:2:4", "--n", "60", "--samples", "20", "--block", "1"]


def listening(process):
    """The sockets on which others can reach a process."""
    return [socket for socket in process.net_connections() if socket.status == psutil.CONN_LISTEN]


ELSEWHERE = """
import sys
from bbp.engine import cluster
import bbp.experiments.sweep  # the scheduler unpickles units: not while it is to answer
cluster._hush()
if __name__ == "__main__":
    with cluster.local(int(sys.argv[1])) as running:
        print(running.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def elsewhere(tmp_path):
    """A function that starts a scheduler with so many workers in a process of its own: (process, address)."""
    started = []
    script = tmp_path / "elsewhere.py"
    script.write_text(ELSEWHERE)

    def start(workers):
        words = [sys.executable, script, str(workers)]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        child = subprocess.Popen(words, **pipes, text=True, env=env)
        started.append(child)
        return child, child.stdout.readline().strip()

    yield start
    for child in started:
        child.kill()
        child.communicate()


def test_a_lost_scheduler_is_no_failed_sample(bbp, tmp_path, elsewhere, same, monkeypatch):
    out, reference = tmp_path / "sweep.h5", tmp_path / "reference.h5"
    words = ["--alpha-grid", "0.8:2:4", "--n", "12", "--samples", "25", "--block", "1"]
    child, address = elsewhere(1)
    parts = out.with_name("sweep.h5.parts")

    def lose():
        while len(list(parts.glob("*.npz"))) < 5:
            time.sleep(0.01)
        # from here on: a busy machine may take longer than this to connect
        monkeypatch.setattr(cluster, "CONNECT_SECONDS", 3)
        child.kill()

    threading.Thread(target=lose, daemon=True).start()
    said = bbp("sweep", *words, "--out", out, "--scheduler", address)
    assert said.code == 1 and not out.exists(), said
    last = said.err.splitlines()[-1]
    assert "the dask scheduler is lost" in last and "samples are kept in" in last and "--resume" in last
    kept = list(Parts(out).load())
    assert len(kept) >= 5 and all((result.status == store.DONE).all() for result in kept)
    assert bbp("sweep", *words, "--out", out, "--resume").code == 0
    assert bbp("sweep", *words, "--block", "25", "--out", reference).code == 0
    same(store.load(out), store.load(reference))


def test_without_workers_a_run_ends_and_says_so(bbp, tiny, tmp_path, elsewhere, monkeypatch):
    monkeypatch.setitem(cluster.ALONE_SECONDS, "elsewhere", 1.0)
    _, address = elsewhere(0)
    said = bbp("sweep", *tiny, "--out", tmp_path / "x.h5", "--scheduler", address)
    assert said.code == 1 and "there is no worker: the run ends if none comes within 1 s" in said.err
    assert said.err.splitlines()[-1].startswith("bbp sweep: error: there was no worker for 1 s; ")


def test_too_few_open_files_are_told_before_any_worker_starts(bbp, tiny, tmp_path, monkeypatch):
    real = cluster.resource.getrlimit
    few = {cluster.resource.RLIMIT_NOFILE: (64, 128)}
    monkeypatch.setattr(cluster.resource, "getrlimit", lambda kind: few.get(kind) or real(kind))
    said = bbp("sweep", *tiny, "--out", tmp_path / "x.h5", "--workers", "3")
    assert said.code == 1 and said.err.count("\n") == 1
    assert "3 workers need about 160 open files, the limit is 128" in said.err


def test_workers_that_do_not_start_are_one_line(bbp, tiny, tmp_path, monkeypatch):
    def fails(*args):
        raise RuntimeError("Nanny failed\nto start.")

    monkeypatch.setattr(cluster, "local", fails)
    said = bbp("sweep", *tiny, "--out", tmp_path / "x.h5", "--workers", "2")
    assert said.code == 1 and said.err.count("\n") == 1
    assert "cannot start 2 workers: Nanny failed to start." in said.err


def test_what_is_no_samples_fault_stops_the_run():
    class Future:
        status = "error"

        def result(self, timeout):
            raise ModuleNotFoundError("No module named 'bbp'")

    with pytest.raises(
        RunError, match="workers cannot run a unit: ModuleNotFoundError: No module named 'bbp'"
    ):
        cluster._result(Future(), None)


@pytest.mark.slow
def test_a_worker_is_killed_and_the_sweep_ends_complete_and_equal(bbp, begin, tmp_path, same):
    reference, out = tmp_path / "reference.h5", tmp_path / "sweep.h5"
    words = [sys.executable, "-m", "bbp.sweep", *WORDS, "--workers", "2", "--out", out]
    child = begin(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    parts = out.with_name("sweep.h5.parts")
    while child.poll() is None and len(list(parts.glob("*.npz"))) < 10:
        time.sleep(0.01)
    workers = [
        process
        for process in psutil.Process(child.pid).children(recursive=True)
        if any("spawn_main" in word for word in process.cmdline())
    ]
    assert len(workers) == 2
    assert {socket.laddr.ip for process in workers for socket in listening(process)} == {"127.0.0.1"}
    assert {socket.laddr.ip for socket in listening(psutil.Process(child.pid))} == {"127.0.0.1"}
    workers[0].kill()
    assert not out.exists()
    printed, said = child.communicate(timeout=600)
    assert child.returncode == 0, said
    assert "Traceback" not in said and "alpha_BBP" in printed
    assert bbp("sweep", *WORDS, "--block", "20", "--out", reference).code == 0
    same(store.load(out), store.load(reference))
    assert not parts.exists()


def test_a_unit_that_kills_its_workers_is_recorded_as_failed():
    class Future:
        def result(self, timeout):
            raise cluster.KilledWorker("compute", "worker", 3)

    from_unit = experiment.build({"n": 12}).unit((0, 12, 1.0), 0, 2)
    found = cluster._result(Future(), from_unit)
    assert (
        found.status.tolist() == [store.FAILED] * 2
        and found.reason[0] == "each of the 4 workers that tried it died"
    )


def test_a_scheduler_out_of_reach_is_one_line(bbp, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.2)
    said = bbp("sweep", *tiny, "--out", tmp_path / "x.h5", "--scheduler", "tcp://127.0.0.1:9")
    assert said.code == 1 and said.err.count("\n") == 1 and "cannot reach a dask scheduler" in said.err


def test_without_dask_one_line_says_what_to_install(bbp, tiny, tmp_path, monkeypatch):
    real = importlib.import_module

    def without_dask(name, *args):
        if name == "bbp.engine.cluster":
            raise ModuleNotFoundError("No module named 'dask'", name="dask")
        return real(name, *args)

    monkeypatch.setattr(importlib, "import_module", without_dask)
    said = bbp("sweep", *tiny, "--out", tmp_path / "x.h5", "--workers", "2")
    assert said.code == 2 and said.err.count("\n") == 1 and "pip install 'hessian-bbp[cluster]'" in said.err


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "0,1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "0,3"}, ["0", "3"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, []),
        ({"CUDA_VISIBLE_DEVICES": "void"}, []),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,2"}, ["1"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c, 0"}, ["GPU-8932f937-d72c", "0"]),
    ],
)
def test_gpus_are_counted_without_touching_them(monkeypatch, environment, found):
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(devices, "driver", lambda: False)
    assert devices.gpus() == []
    monkeypatch.setattr(devices, "driver", lambda: True)
    assert devices.gpus() == found
