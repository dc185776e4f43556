"""Sweeps on several processes: the same numbers, and a killed worker costs nothing but time."""

import importlib
import subprocess
import sys
import time

import psutil
import pytest

from bbp import store
from bbp.engine import cluster, devices
from bbp.experiments import sweep as experiment

WORDS = ["--alpha-grid", "0.8:2:4", "--n", "60", "--samples", "40", "--block", "1"]


def test_a_worker_is_killed_and_the_sweep_ends_complete_and_equal(bbp, tmp_path, same):
    reference, out = tmp_path / "reference.h5", tmp_path / "sweep.h5"
    words = [sys.executable, "-m", "bbp.sweep", *WORDS, "--workers", "2", "--out", out]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    parts = out.with_name("sweep.h5.parts")
    while child.poll() is None and len(list(parts.glob("*.npz"))) < 10:
        time.sleep(0.01)
    workers = [
        process
        for process in psutil.Process(child.pid).children(recursive=True)
        if any("spawn_main" in word for word in process.cmdline())
    ]
    assert len(workers) == 2
    workers[0].kill()
    assert not out.exists()
    printed, said = child.communicate(timeout=600)
    assert child.returncode == 0, said
    assert "Traceback" not in said and "alpha_BBP" in printed
    assert bbp("sweep", *WORDS, "--out", reference).code == 0
    same(store.load(out), store.load(reference))
    assert not parts.exists()


def test_a_unit_that_kills_its_workers_is_recorded_as_failed():
    class Future:
        def result(self):
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
    ],
)
def test_gpus_are_counted_without_touching_them(monkeypatch, environment, found):
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert devices.gpus() == found
