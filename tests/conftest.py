"""Shared fixtures: the table of right values that the theory must reproduce. Settings of all tests."""

import gc
import importlib
import json
import os
import signal
from pathlib import Path

import pytest

from tests import compiled

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as for what a shell runs in the background: programs would heed it too
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.set_threshold(100_000)  # while modules are imported and tests collected
if "PYTEST_XDIST_WORKER" in os.environ:
    # The processes share the cores already. Before NumPy is imported, whose BLAS looks once.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
compiled.use()  # before JAX is imported


def pytest_configure(config):
    """JAX as the tests take it, in every process that runs some: one that only hands them out does without."""
    if config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        return
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_dtype_promotion", "standard")


def pytest_sessionstart(session):
    """Before the first process starts its tests."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        compiled.tidy()


def pytest_collection_finish(session):
    """What was imported stays: the garbage collector looks at it no more, and seldom at what tests make."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session")
def reference():
    """Right values: thresholds, tricritical points, edges, outliers, overlaps, densities."""
    return json.loads((Path(__file__).parents[1] / "data" / "values.json").read_text())
