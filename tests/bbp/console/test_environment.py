"""The environment a program finds: streams closed or small, readers that go, notebooks' settings, no device, little room."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bbp.console import messages, process
from bbp.files import dataset

INLINE = "module://matplotlib_inline.backend_inline"


def slow(*values):
    """Parameters of cases whose kind is tested by another by default."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


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


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param("bbp.info x.h5 >&-", 0, marks=pytest.mark.slow),
        pytest.param("bbp.info x.h5 2>&-", 0, marks=pytest.mark.slow),
        pytest.param("bbp.info nowhere.h5 >&- 2>&-", 2, marks=pytest.mark.slow),
        ("bbp.plot x.h5 --out x.png --dpi 20 <&- >&- 2>&-", 0),
    ],
)
def test_closed_streams_are_nowhere(sweep_file, line, code):
    """With the backend of a notebook in the environment as well, which is not ours."""
    found, out, err = shell(line, MPLBACKEND=INLINE)
    assert found == code and "Traceback" not in err + out and "error" not in out
    assert not line.startswith("bbp.plot") or Path("x.png").read_bytes()[:4] == b"\x89PNG"


def test_errors_do_not_go_to_another_stream(sweep_file):
    code, out, err = shell("bbp.info nowhere.h5 2>&-")
    assert (code, out, err) == (2, "", "")


@pytest.mark.parametrize(
    "encoding", [{"PYTHONIOENCODING": "ascii"}, *slow({"LC_ALL": "POSIX", "PYTHONUTF8": "0"})]
)
def test_a_small_encoding_prints_the_table_all_the_same(sweep_file, encoding):
    code, out, err = shell("bbp.info x.h5 --table", **encoding)
    assert code == 0 and err == "" and out.count("\n") > 10


@pytest.mark.parametrize("backend", slow(INLINE, "module://nowhere", "nonsense"))
def test_the_backend_of_a_notebook_is_not_ours(sweep_file, backend):
    code, out, err = shell("bbp.plot x.h5 --out x.png --dpi 20", MPLBACKEND=backend)
    assert (code, err) == (0, "") and "wrote" in out


@pytest.mark.parametrize("platform", ["cuda", *slow("tpu", "nonsense")])
def test_a_device_that_is_not_there_is_one_line(sweep_file, platform):
    code, _, err = shell("bbp.sweep --n 12 --samples 1 --alpha-grid 1 --out y.h5", JAX_PLATFORMS=platform)
    last = err.splitlines()[-1]
    assert code == 1 and "unforeseen" not in err and "Traceback" not in err
    assert f"JAX finds no device to compute on (JAX_PLATFORMS={platform})" in last


def test_a_reader_of_messages_that_goes_away_ends_nothing(sweep_file):
    line = "bbp.phase --p 1,2 --a-grid 0.5,1 --widths 1 --verbose --out y.h5"
    words = ["bash", "-c", f"exec {sys.executable} -m {line}"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=write, text=True, env=environment())
    os.close(write)
    assert done.returncode == 0 and "alpha_BBP" in done.stdout and Path("y.h5").exists()


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


def test_streams_are_prepared_once_and_again(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    process.prepare()
    process.prepare()
    print("±")
    sys.stdout.close()


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


LONG = "9" * 5000
BAD_TOML = {
    "digits": f"samples = {LONG}",
    "nested": "samples = " + "[" * 100_000,
    "nested tables": "[" + "a." * 20_000 + "b]",
    "not utf-8": b"\xff\xfe",
    "utf-16": "samples = 3".encode("utf-16"),
    "text": "hello",
    "huge float": "a = 1e999",
    "date": "seed = 2020-01-01",
    "table": "[samples]\nx = 1",
    "array of tables": "[[n]]\nx = 1",
    "dtype of a list": 'dtype = ["float64"]',
    "dtype of a table": "dtype = {x = 1}",
    "solver of a list": "solver = [1]",
    "cache of a number": "cache = 3",
    "out of a number": "out = 3",
    "true": "p = true",
}


@pytest.mark.parametrize("name", BAD_TOML)
def test_a_bad_configuration_is_one_line(bbp, tmp_path, name):
    path, content = tmp_path / "x.toml", BAD_TOML[name]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    said = bbp("sweep", "--config", path, "--dry-run")
    assert said.code == 2 and said.err.count("\n") == 1 and len(said.err) < 700, said


@pytest.mark.parametrize("make", ["fifo", "directory", "/dev/zero"])
def test_a_configuration_that_is_no_file_is_one_line(bbp, tmp_path, make):
    path = tmp_path / "x.toml"
    if make == "fifo":
        os.mkfifo(path)
    elif make == "directory":
        path.mkdir()
    else:
        path.symlink_to(make)
    said = bbp("sweep", "--config", path, "--dry-run")
    assert said.code == 2 and said.err.count("\n") == 1


def test_a_byte_order_mark_and_a_home_are_understood(bbp, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    text = 'n = 12\nsamples = 1\nalpha_grid = "1"\nout = "~/in/x.h5"\ncache = "~/kept"\n'
    (tmp_path / "x.toml").write_bytes(b"\xef\xbb\xbf" + text.encode())
    said = bbp("sweep", "--config", "x.toml")
    assert said.code == 0, said
    assert (tmp_path / "in" / "x.h5").exists() and not (tmp_path / "~").exists()


WORDS = [
    ["--dtype", "f8"],
    ["--dtype", "f4,f8"],
    ["--dtype", "(2,)f8"],
    ["--dtype", "{'names': ['a']}"],
    ["--dtype", "float64\n"],
    ["--dtype", "i4, (2,3)f8"],
    ["--config=--"],
    ["--n=--"],
    ["--out=--"],
    ["--n", LONG],
    ["--a", LONG],
    ["--seed", LONG],
    ["--samples", LONG],
    ["--p", LONG],
    ["--task", f"1/{LONG}"],
    ["--alpha-grid", f"1:2:{LONG}"],
    ["--solver", "x" * 800_000],
    ["--a", "x" * 800_000],
    ["--dtype", "x" * 800_000],
    ["--" + "x" * 100_000],
    ["--a-grid", "1:2:100001"],
    ["--a-grid", "1:2:100000", "--alpha-grid", "1"],
    ["--a", ",".join(["1"] * 1000)],
    ["--n", ",".join(map(str, range(20, 20020)))],
]


@pytest.mark.parametrize("words", WORDS, ids=lambda words: " ".join(words)[:40])
def test_a_strange_value_is_one_short_line(bbp, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    base = [] if words[0].startswith("--n") else ["--n", "12"]
    said = bbp("sweep", *base, *words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1) and len(said.err) < 800, said
    assert "unforeseen" not in said.err and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["--p", "1,2"], ["--p", "1,inf"], ["--p-star", "1,2"], ["--a", "1,2"], ["--spectrum", "1,2"]]
)
def test_a_spectrum_is_of_one_model(bbp, tmp_path, words):
    given = {"--spectrum": "1.5"} | dict([words])
    said = bbp("plot", *(word for pair in given.items() for word in pair), "--out", tmp_path / "x.png")
    assert said.code == 2 and said.err.count("\n") == 1 and not list(tmp_path.iterdir())


def test_a_variable_that_jax_refuses(tmp_path):
    code, _, err = shell(f"bbp.sweep --alpha-grid 2 --n 20 --out {tmp_path}/x.h5", JAX_ENABLE_X64="banana")
    assert code == 2 and err.splitlines() == [
        "bbp sweep: error: JAX cannot start: invalid truth value 'banana' for environment 'JAX_ENABLE_X64'"
    ]
