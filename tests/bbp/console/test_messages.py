"""A bar on a terminal, sparse lines elsewhere, nothing when quiet; a line for each way in which a GPU is missing or full.

Faked: plugin, driver, errors and device of JAX.
"""

import io
import logging
import sys
from dataclasses import replace
from types import SimpleNamespace

import jax
import pytest

from bbp.console import messages
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
        monkeypatch.setattr(messages, "_has_plugin", lambda: plugin)
        monkeypatch.setattr(messages, "driver", lambda: driver)
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
    messages.heed_jax(tell=tell)
    looks = logging.getLogger("jax._src.xla_bridge")
    with messages.messages("bbp x"):
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
    assert exhausted(RuntimeError("INTERNAL: x")) is None and messages.no_device(ValueError("x")) is None


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def stderr(monkeypatch):
    """Put a stream in the place of stderr."""

    def put(stream):
        monkeypatch.setattr("sys.stderr", stream)
        return stream

    return put


def work(**options):
    with messages.messages("bbp x", **options), messages.Progress(4, unit="samples", done=1) as bar:
        bar.advance(1, "N=10")
        bar.grow(6)
        bar.advance(2, "N=20")


def test_a_bar_on_a_terminal(stderr):
    said = stderr(Terminal())
    work()
    assert "\r" in said.getvalue() and "4/10" in said.getvalue() and "N=20" in said.getvalue()


def test_a_bar_in_a_notebook(stderr, monkeypatch):
    shell = type("ZMQInteractiveShell", (), {"initialized": staticmethod(lambda: True)})
    kernel = type("", (), {"ZMQInteractiveShell": shell})
    monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", kernel)
    said = stderr(io.StringIO())
    work()
    assert "4/10" in said.getvalue() and "N=20" in said.getvalue()


def test_sparse_lines_elsewhere(stderr, monkeypatch):
    said = stderr(io.StringIO())
    work()
    assert said.getvalue() == ""
    monkeypatch.setattr(messages, "SPARSE_SECONDS", 0.0)
    work()
    lines = said.getvalue().splitlines()
    assert len(lines) == 2 and "\r" not in said.getvalue()
    assert lines[1].startswith("bbp x: 4/10 samples, about ") and lines[1].endswith("left, N=20")


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_nothing_when_quiet(stderr, monkeypatch, stream):
    said = stderr(stream())
    monkeypatch.setattr(messages, "SPARSE_SECONDS", 0.0)
    work(quiet=True)
    assert said.getvalue() == ""


def test_messages_have_three_levels(stderr):
    for level, expected in (({"quiet": True}, "e"), ({}, "ei"), ({"verbose": True}, "eid")):
        said = stderr(io.StringIO())
        with messages.messages("bbp x", **level):
            for number, text in ((logging.ERROR, "e"), (logging.INFO, "i"), (logging.DEBUG, "d")):
                messages.log.log(number, text)
        assert said.getvalue() == "".join(f"bbp x: {text}\n" for text in expected)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.96, "10.0 s"),
        (12.3, "12 s"),
        (60, "1 min 0 s"),
        (200, "3 min 20 s"),
        (18600, "5 h 10 min"),
    ],
)
def test_durations_in_words(seconds, words):
    assert messages.duration(seconds) == words


def test_a_broken_stderr_is_given_up(monkeypatch):
    class Broken(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Broken())
    with messages.messages("bbp x"):
        messages.log.info("one")
        messages.log.info("two")
    assert not isinstance(sys.stderr, Broken)
    sys.stderr.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a\n b", "a b"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("x" * 10**6, "x" * 98 + "..." + "x" * 98),
        ("α ± é", "α ± é"),
    ],
)
def test_a_message_is_one_plain_short_line(given, said):
    assert messages.one_line(given) == said


def test_a_long_message_keeps_its_end():
    found = messages.one_line(" ".join(["word"] * 1000) + " (--force replaces it)")
    assert len(found) <= messages.LONGEST and found.endswith("(--force replaces it)")


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
    monkeypatch.setattr(messages, "driver", lambda: False)
    assert messages.gpus() == []
    monkeypatch.setattr(messages, "driver", lambda: True)
    assert messages.gpus() == found
