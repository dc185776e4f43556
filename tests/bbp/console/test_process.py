"""Ctrl-C, SIGTERM, SIGHUP: at any moment of any program the exit code is the signal's, one line is said, nothing is lost.

And what else a program finds does it no harm: streams closed or small, readers that go, notebooks' settings, no device,
modules of the user's folder that are named as ours, or as Python's.
"""

import os
import random
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bbp.console import process, program
from bbp.console.messages import Progress
from bbp.files import dataset

FIRE = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "signals.py"))
SWEEP = [*FIRE["PROGRAMS"]["sweep, dense"], "--out", "x.h5", "--resume"]


@pytest.fixture(autouse=True)
def under_nohup_too():
    """These tests are about signals that are heard, and nohup has its children ignore SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("name", "after", "number"),
    [
        ("sweep, dense", 0.4, signal.SIGINT),  # while it imports
        pytest.param("sweep, dense", 0.8, signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(
            "sweep, Krylov", 2.0, signal.SIGTERM, marks=pytest.mark.slow
        ),  # while it compiles, or computes
        pytest.param("descent", 1.8, signal.SIGINT, marks=pytest.mark.slow),
        ("figures", 1.2, signal.SIGHUP),
    ],
)
def test_a_signal_at_some_moment(tmp_path, name, after, number):
    code, said = FIRE["shot"](FIRE["PROGRAMS"][name], tmp_path, after, number)
    assert not FIRE["wrong"](code, said, number), said
    assert not [*tmp_path.rglob("*.tmp")]
    # Locks stay among parts that are kept, and only there.
    assert not [lock for lock in tmp_path.rglob("*.lock") if not any(lock.parent.glob("*.npz"))]


@pytest.mark.slow
def test_a_hundred_shots():
    done = subprocess.run(
        [sys.executable, FIRE["__file__"], "100", "--processes"], capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_a_sweep_stopped_again_and_again_is_the_sweep(tmp_path, same):
    rng = random.Random(5)
    few = ["--samples", "12"]
    for _ in range(12):
        number = rng.choice([signal.SIGINT, signal.SIGTERM])
        code, said = FIRE["shot"]([*SWEEP, *few], tmp_path, rng.uniform(1.0, 6.0), number)
        assert not FIRE["wrong"](code, said, number), said
    for out in ("x.h5", "reference.h5"):
        assert (
            subprocess.run([sys.executable, "-m", *SWEEP, *few, "--out", out], cwd=tmp_path).returncode == 0
        )
    same(dataset.open(tmp_path / "x.h5"), dataset.open(tmp_path / "reference.h5"))


# A program whose pieces take for ever.
STUCK = """
import sys, time
from pathlib import Path
from bbp.console import process, program
process.begin()
process.GRACE = float(sys.argv[1])
process.NOTICE = 0.1
def work():
    with process.keeping(lambda: "3 are kept"):
        print("begun", flush=True)
        started = time.monotonic()
        while time.monotonic() - started < 60:
            time.sleep(60)
    return 0
with process.heeded("bbp x"):
    sys.exit(process.end(program.guarded("bbp x", work)))
"""


@pytest.mark.parametrize(
    ("number", "grace", "shots"),
    [
        (signal.SIGINT, "0.3", 1),
        (signal.SIGTERM, "50", 2),
        (signal.SIGHUP, "50", 2),
        pytest.param(signal.SIGINT, "50", 2, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, "0.3", 1, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, "0.3", 1, marks=pytest.mark.slow),
    ],
)
def test_what_does_not_stop_is_left_after_a_while_or_at_a_second_signal(
    begin, tmp_path, number, grace, shots
):
    heed = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = begin(
        [sys.executable, "-c", heed + STUCK, grace], cwd=tmp_path, env=env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout.readline() == "begun\n"
    for _ in range(shots):
        child.send_signal(number)
        time.sleep(0.3)
    _, said = child.communicate(timeout=120)
    word = process.WORDS[number]
    assert child.returncode == 128 + number
    assert said.splitlines()[-1] == f"bbp x: error: {word}; 3 are kept"


# A program that takes its time to say what it has kept.
SLOW = """
import os, signal, sys, time
import bbp.files.dataset
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # importing the library changes no handler
from bbp.console import process, program
process.begin()
def work():
    try:
        with process.keeping(lambda: ""):
            os.kill(os.getpid(), signal.SIGTERM)
            process.check()
    except KeyboardInterrupt:
        time.sleep(0.3)
        raise process.stopped("3 are kept") from None
with process.heeded("bbp x"):
    sys.exit(process.end(program.guarded("bbp x", work)))
"""


def test_a_program_on_its_way_out_says_what_it_keeps(tmp_path):
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", SLOW], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (143, "bbp x: error: terminated; 3 are kept\n")


def stop(number=signal.SIGINT):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "hung up"),
    ],
)
def test_called_from_python_a_signal_stops_at_the_next_piece(capsys, number, code, word):
    done = []

    def run(args):
        with Progress(5, unit="pieces") as progress:
            for piece in range(5):
                if piece == 2:
                    stop(number)
                done.append(piece)
                progress.advance()
        return 0

    before = signal.getsignal(number)
    found = program.program("x", lambda parser: None, run, [], summary="", example="")
    assert found == code and done == [0, 1, 2]
    assert capsys.readouterr().err == f"bbp x: error: {word}\n"
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("number", "shots", "code"), [(signal.SIGINT, 2, 130), (signal.SIGTERM, 1, 143)])
def test_called_from_python_a_second_signal_stops_at_once_and_one_after_the_last_piece_is_not_lost(
    capsys, number, shots, code
):
    def run(args):
        for _ in range(shots):
            stop(number)
        assert shots == 1, "went on"
        return 0

    assert program.program("x", lambda parser: None, run, [], summary="", example="") == code


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with process.heeded("bbp x"):
            stop()
            process.check()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_signals_alone():
    found = []

    def work():
        with process.heeded("bbp x"):
            found.append(signal.getsignal(signal.SIGTERM))
            process.check()

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before]


def test_a_program_takes_no_module_of_the_user_s(tmp_path):
    """Of the folder in which it is started: neither one named as ours nor as one of Python's; nor a folder without modules."""
    for name in ("theory", "sims"):
        (tmp_path / name).mkdir()
    for name in ("theory/__init__", "json", "multiprocessing", "typing", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('theirs')")
    words = "-m bbp.sweep --n 12 --alpha-grid 1 --samples 2 --workers 1 --quiet --out x.h5".split()
    # The folder stands before the package on the path, as the current directory does for `python -m`.
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "x.h5").exists()


INLINE = "module://matplotlib_inline.backend_inline"


def slow(*case):
    """A case whose kind is tested by another by default."""
    return pytest.param(*case, marks=pytest.mark.slow)


def environment(**changes):
    clean = {name: value for name, value in os.environ.items() if name not in ("MPLBACKEND", "JAX_PLATFORMS")}
    return clean | {"PYTHONPATH": os.pathsep.join(sys.path)} | changes


@pytest.fixture
def sweep_file(tmp_path, made_up, monkeypatch):
    """A sweep in the working directory."""
    monkeypatch.chdir(tmp_path)
    dataset.write("x.h5", made_up())
    return "x.h5"


def shell(line, **changes):
    """What `python -m LINE` does in a shell, redirections included: exit code, stdout, stderr."""
    done = subprocess.run(
        ["bash", "-c", f"exec {sys.executable} -m {line}"],
        capture_output=True,
        text=True,
        env=environment(**changes),
    )
    return done.returncode, done.stdout, done.stderr


DEVICE, PLOT = (
    "bbp.sweep --n 12 --samples 1 --alpha-grid 1 --out y.h5",
    "bbp.plot x.h5 --panels a --out x.png --dpi 20",
)
NO_X64 = "bbp sweep: error: JAX cannot start: invalid truth value 'banana' for environment 'JAX_ENABLE_X64'"


@pytest.mark.parametrize(
    ("line", "variables", "code", "out", "err"),
    [
        (f"{PLOT} <&- >&- 2>&-", f"MPLBACKEND={INLINE}", 0, "", ""),
        slow("bbp.info x.h5 >&-", f"MPLBACKEND={INLINE}", 0, "", ""),
        slow("bbp.info x.h5 2>&-", f"MPLBACKEND={INLINE}", 0, "alpha", ""),
        slow("bbp.info nowhere.h5 >&- 2>&-", f"MPLBACKEND={INLINE}", 2, "", ""),
        slow("bbp.info nowhere.h5 2>&-", "", 2, "", ""),
        *(
            slow(PLOT, f"MPLBACKEND={name}", 0, "wrote", "")
            for name in (INLINE, "module://nowhere", "nonsense")
        ),
        ("bbp.info x.h5 --table", "PYTHONIOENCODING=ascii", 0, "lowest eigenvalue", ""),
        slow("bbp.info x.h5 --table", "LC_ALL=POSIX PYTHONUTF8=0", 0, "lowest eigenvalue", ""),
        (DEVICE, "JAX_PLATFORMS=cuda", 1, "", "JAX finds no device to compute on (JAX_PLATFORMS=cuda)"),
        slow(DEVICE, "JAX_PLATFORMS=tpu", 1, "", "JAX finds no device to compute on (JAX_PLATFORMS=tpu)"),
        slow(
            DEVICE,
            "JAX_PLATFORMS=nonsense",
            1,
            "",
            "JAX finds no device to compute on (JAX_PLATFORMS=nonsense)",
        ),
        (DEVICE, "JAX_ENABLE_X64=banana", 2, "", NO_X64),
    ],
)
def test_what_a_shell_sets_and_closes_does_no_harm(sweep_file, line, variables, code, out, err):
    """Streams closed, a small encoding, the backend of a notebook, which is not ours; what JAX cannot do is one line."""
    found, said, told = shell(line, **dict(each.split("=") for each in variables.split()))
    assert found == code and "Traceback" not in told and "unforeseen" not in told
    assert out in said if out else said == ""
    assert err in told.splitlines()[-1] if err else told == ""
    assert code != 2 or told.count("\n") <= 1
    assert "x.png" not in line or Path("x.png").read_bytes()[:4] == b"\x89PNG"


def test_a_reader_of_messages_that_goes_away_ends_nothing(sweep_file):
    line = "bbp.phase --p 1 --a-grid 0.5 --at-a 0.5 --widths 1 --verbose --out y.h5"
    words = ["bash", "-c", f"exec {sys.executable} -m {line}"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=write, text=True, env=environment())
    os.close(write)
    assert done.returncode == 0 and "alpha_BBP" in done.stdout and Path("y.h5").exists()


def test_streams_are_prepared_once_and_again(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    process.prepare()
    process.prepare()
    print("±")
    sys.stdout.close()


FAULTS = """
import resource, sys
import numpy as np
from bbp.console import process

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(2**17)  # 1 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

mapped = faults()
print(process.keep_memory(), mapped, (faults(), faults())[1])
import bbp.engine.run, bbp.experiments.samples
print(*(name for name in ("xarray", "pandas", "h5py") if name in sys.modules))
"""


def test_arrays_are_not_mapped_afresh():
    """As dask sets its workers up every array of 1 MiB costs 256 pages; kept, none (a few, for Python has its own).

    And a process that only computes samples has imported nothing for files: half a second.
    """
    env = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536", "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", FAULTS], env=env, capture_output=True, text=True, check=True)
    numbers, imported = said.stdout.splitlines()
    assert imported == ""
    kept, mapped, after = numbers.split()
    if kept == "True":
        assert int(mapped) > 20 * 200 and int(after) < 100, said.stdout
