"""A line for each way in which a GPU is not there, or has no room. Faked: plugin, driver, errors and device of JAX."""

import logging
from dataclasses import replace
from types import SimpleNamespace

import jax
import pytest

from bbp.console import devices, progress
from bbp.console.program import guarded
from sims import sampling
from sims.machine import exhausted
from sims.sampling import sample_point
from theory.model import Committee

EXHAUSTED = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.\nand a table"


@pytest.fixture
def machine(monkeypatch):
    """A function that makes plugin, driver and JAX_PLATFORMS as asked."""

    def made(plugin, driver, asked):
        monkeypatch.setattr(devices, "_has_plugin", lambda: plugin)
        monkeypatch.setattr(devices, "driver", lambda: driver)
        monkeypatch.setenv("JAX_PLATFORMS", asked)

    return made


@pytest.fixture
def card(monkeypatch):
    stats = {"bytes_limit": 10**9, "bytes_in_use": 10**8}
    device = SimpleNamespace(memory_stats=lambda: stats, platform="gpu", device_kind="NVIDIA H100")
    monkeypatch.setattr(jax, "devices", lambda: [device])
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def looking(words):
    """An error out of JAX's search for devices."""
    there = {"__name__": "jax._src.xla_bridge"}
    exec(f"def look(): raise RuntimeError({words!r})", there)
    return there["look"]


@pytest.mark.parametrize(
    ("plugin", "driver", "asked", "said"),
    [
        (False, True, "cuda", "(JAX_PLATFORMS=cuda); JAX has no plugin for CUDA (pip install 'hessian-bbp[gpu]')"),
        (True, False, "gpu", "(JAX_PLATFORMS=gpu); no driver of NVIDIA is loaded here (JAX_PLATFORMS=cpu asks for none)"),
        (True, True, "cuda", "(JAX_PLATFORMS=cuda); CUDA_ERROR_NO_DEVICE"),
        (False, False, "nonsense", "(JAX_PLATFORMS=nonsense); CUDA_ERROR_NO_DEVICE"),
        (False, False, "", "to compute on; CUDA_ERROR_NO_DEVICE"),
    ],
)  # fmt: skip
def test_no_device_is_a_line(machine, capsys, plugin, driver, asked, said):
    machine(plugin, driver, asked)
    code = guarded("bbp x", looking("CUDA_ERROR_NO_DEVICE"))
    err = capsys.readouterr().err
    assert code == 1 and err.count("\n") == 1 and err.startswith("bbp x: error: JAX finds no device")
    assert err.rstrip().endswith(said)


@pytest.mark.parametrize(
    ("driver", "asked", "tell", "said"),
    [
        (False, "", True, "no GPU is used: no driver of NVIDIA is loaded here (JAX_PLATFORMS=cpu asks for none)\n"),
        (True, "cuda,cpu", True, "no GPU is used: could not convert string to float: 'much'\n"),
        (True, "cuda", True, ""),
        (True, "", False, ""),
    ],
)  # fmt: skip
def test_a_plugin_that_does_not_start_is_a_line(machine, capsys, driver, asked, tell, said):
    """As from a machine without a driver, or a XLA_PYTHON_CLIENT_MEM_FRACTION that is no number."""
    machine(True, driver, asked)
    devices.heed(tell=tell)
    looks = logging.getLogger("jax._src.xla_bridge")
    with progress.messages("bbp x"):
        try:
            float("much")
        except ValueError:
            looks.exception("Jax plugin configuration error: Exception when calling initialize()")
    assert capsys.readouterr().err == (f"bbp x: {said}" if said else "")


def test_too_little_memory_of_a_card_is_a_line(card, capsys):
    def work():
        raise RuntimeError(EXHAUSTED)

    assert guarded("bbp x", work) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "17179869184 bytes were asked for" in err
    assert "900000000 of 1000000000 bytes were free" in err and "others may use the card" in err


def test_a_sample_without_room_says_what_would_fit(card, monkeypatch):
    def solve(drawn, k):
        raise RuntimeError(EXHAUSTED)

    monkeypatch.setattr(sampling, "SOLVERS", {"krylov": replace(sampling.SOLVERS["krylov"], solve=solve)})
    found = sample_point(Committee(1, 1, 1.0), 60, 2.0, [0], 0, solver="krylov")
    assert found.status[0] == 2 and found.reasons[0].startswith("the memory of NVIDIA H100 is too small")
    assert "N = 59 would fit" in found.reasons[0]


def test_other_errors_are_theirs():
    assert exhausted(RuntimeError("INTERNAL: x")) is None and devices.exhausted(ValueError("x")) is None
    assert devices.missing(ValueError("x")) is None
