"""Wrong arguments, odd numbers and wrong files: exit code 2, one line, no traceback, nothing written or overwritten."""

import argparse
import functools
import importlib
import io
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import bbp as package
from bbp.__main__ import COMMANDS
from bbp.console import program
from bbp.console.messages import FileError
from bbp.files import dataset, disk
from tests.bbp.conftest import made_up_sweep

PROGRAMS = sorted(path.stem for path in Path(package.__file__).parent.glob("*.py") if path.stem in COMMANDS)

NUMBERS = ["", *"-1 0 nan inf -inf x 1e999 1,1 1,,2 1;2 0x10 None 1+1j 1e-400".split()]
LONG = "9" * 5000
COUNTS = ["-1", "0", "1.5", "nan", "inf", "x", "", "-0", "1e-3", "true"]
GRIDS = "1:2 1:2:3:4 2:1:3 1:2:1 0:1:3 -1:1:3 1:2:0 1:2:2.5 1:2:3:lin : 1:2:x nan:2:3 1:inf:3 1:2:1e12 1:1:5".split()
SWEEP = [
    *(["--a", value] for value in NUMBERS),
    *(["--alpha-grid", value] for value in [*NUMBERS, *GRIDS]),
    *(["--a-grid", value] for value in GRIDS),
    *([option, value] for option in ("--n", "--samples", "--p-star") for value in COUNTS),
    *(["--p", value] for value in [*COUNTS, "1,1"]),
    *(
        [option, value]
        for option in ("--block", "--batch", "--workers", "--eigenpairs")
        for value in COUNTS[:6]
    ),
    *(["--seed", value] for value in ("-1", "1.5", "x", "", "9223372036854775808", "nan")),
    *(["--refine", value] for value in ("-1", "0.5", "x", "1000000")),
    *(["--target-error", value] for value in ("0", "-0.1", "nan", "x", "")),
    *(["--task", value] for value in ("0/3", "4/3", "1", "1/0", "-1/3", "a/b", "1/2/3", "", "1.0/2", "²/3")),
    *(["--dtype", value] for value in ("float16", "int32", "x", "", "complex128", "f8", "f4,f8", "(2,)f8")),
    *(["--dtype", value] for value in ("{'names': ['a']}", "float64\n", "i4, (2,3)f8", "x" * 800_000)),
    *([option, LONG] for option in ("--n", "--a", "--seed", "--samples", "--p")),
    *([f"{option}=--"] for option in ("--config", "--n", "--out")),
    *(["--out", value] for value in ("", ".", "a\0b", "file/x.h5", "file")),
    *(["--config", value] for value in ("nowhere.toml", ".")),
    *(["--scheduler", value] for value in ("", "bad://x:1")),
    *(["--solver", value] for value in ("Dense", "lapack", "")),
    *(["--locking", value] for value in ("maybe", "", "1")),
    ["--p", "2", "--eigenpairs", "5"],
    ["--n", "3"],
    ["--n", "2", "--p-star", "3"],
    ["--n", "10", "--alpha-grid", "0.01"],
    ["--a", "1", "--a-grid", "1:2:3"],
    ["--covariance", "levels:1@0.5,2@0.6"],
    ["--activation", "he3", "--a", "6"],
    ["--sampels", "3"],
    ["--sample", "3"],
    ["positional"],
    ["--alpha-grid", "1", "2"],
    ["--n"],
    ["--quiet", "--verbose"],
    ["--task", "1/2", "--merge"],
    ["--task", "1/2", "--workers", "2"],
    ["--task", "1/2", "--force"],
    ["--task", "1/2", "--refine", "1"],
    ["--task", "1/2", "--retry-failed"],
    ["--workers", "2", "--scheduler", "tcp://x:1"],
    ["--partial"],
    ["--merge"],
    ["--merge", "--force"],
    ["--task", f"1/{LONG}"],
    ["--alpha-grid", f"1:2:{LONG}"],
    ["--solver", "x" * 800_000],
    ["--a", "x" * 800_000],
    ["--" + "x" * 100_000],
    ["--a-grid", "1:2:100001"],
    ["--a-grid", "1:2:100000", "--alpha-grid", "1"],
    ["--a", ",".join(["1"] * 1000)],
    ["--n", ",".join(map(str, range(20, 20020)))],
]
OTHERS = [
    [],
    ["swep"],
    ["--frobnicate"],
    ["info"],
    ["info", "nowhere.h5"],
    ["info", "."],
    ["info", "file"],
    ["info", "file", "more"],
    ["info", "--jsno", "file"],
    ["plot"],
    ["plot", "nowhere.h5"],
    ["plot", "file"],
    ["phase", "--frobnicate"],
    ["phase", "--a-grid", "1e-300,1"],
    ["phase", "--at-a", "1e70"],
    ["phase", "--p", "2", "--minima", "2,3"],
    ["descent", "--theory", "--covariance", "mp:0.5", "--n", "12", "--alpha-grid", "2"],
    ["compare", "file", "--draws", "1"],
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with one file in it, that must look the same after."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    before = tree(tmp_path)
    yield tmp_path
    assert tree(tmp_path) == before


def tree(directory):
    return {path: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def test_bad_sweeps_are_refused(bbp, here, subtests):
    for words in SWEEP:
        with subtests.test(words=str(words)[:60]):
            base = [] if words[0].startswith("--n") else ["--n", "12"]
            said = bbp("sweep", *words, *base)
            assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said
            assert said.err.startswith("bbp sweep: error: ") and len(said.err) < 800
            assert "unforeseen" not in said.err


def test_bad_commands_are_refused(bbp, here, subtests):
    for words in OTHERS:
        with subtests.test(words=words):
            said = bbp(*words)
            assert (said.code, said.out) == (2, "") and (said.err.count("\n") == 1 or not words), said


@functools.cache
def good_bytes():
    sweep = made_up_sweep(n=(8,), alphas=(1.0, 2.0), samples=2, whole=True)
    return disk.sealed(dataset.packed(sweep.drop_dims("unit").assign_attrs(config="{}")))


def good(path):
    """A file that loads: the smallest sweep of made-up numbers."""
    path.write_bytes(good_bytes())
    return path.read_bytes()


def cut(length):
    return lambda path: path.write_bytes(good(path)[:length])


def written(text):
    return lambda path: path.write_bytes(text)


def foreign(path):
    with h5py.File(path, "w") as file:
        file["eigenvalues"] = np.zeros(3)


def edited(change):
    """The good file after `change(file)` by another program, which drops the checksum: only the layout is wrong."""

    def make(path):
        buffer = io.BytesIO(good(path))
        with h5py.File(buffer, "r+") as file:
            change(file)
        path.write_bytes(buffer.getvalue())

    return make


def without(name):
    return edited(lambda file: file.__delitem__(name))


def without_attribute(name):
    return edited(lambda file: file.attrs.__delitem__(name))


def attribute(name, value):
    return edited(lambda file: file.attrs.__setitem__(name, value))


def replaced(name, value):
    def change(file):
        del file[name]
        file[name] = value

    return edited(change)


FILES = {
    "nowhere": lambda path: None,
    "directory": lambda path: path.mkdir(),
    "fifo": os.mkfifo,
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path),
    "empty": written(b""),
    "text": written(b"alpha,q2\n1,0.5\n"),
    "json": written(b"{}"),
    "png": written(b"\x89PNG\r\n\x1a\n" + bytes(100)),
    "zeros": written(bytes(5000)),
    "hdf5 signature": written(b"\x89HDF\r\n\x1a\n"),
    "hdf5 signature and zeros": written(b"\x89HDF\r\n\x1a\n" + bytes(5000)),
    "netcdf3": written(b"CDF\x01" + bytes(100)),
    **{f"first {length} bytes": cut(length) for length in (1, 7, 8, 9, 96, 500, 2000, 5000, -1, -100, -3000)},
    "foreign hdf5": foreign,
    "of another format": attribute("format", "bbp-other"),
    "format of no text": attribute("format", 3),
    "newer": attribute("format_version", dataset.VERSION + 1),
    "older": attribute("format_version", dataset.VERSION - 1),
    "version of text": attribute("format_version", "one"),
    **{
        f"without {name}": without(name)
        for name in ("eigenvalues", "alpha", "status", "theory", "theory/edge")
    },
    **{f"without {name}": without(name) for name in ("reason", "config", "eigenpair")},
    **{f"without attribute {name}": without_attribute(name) for name in ("format", "p", "a", "kind")},
    "overlaps of another shape": replaced("overlaps", np.zeros((1, 2, 3, 5))),
    "status of one axis": replaced("status", np.zeros(4, np.int8)),
    "edge of another length": replaced("theory/edge", np.zeros(7)),
    "eigenvalues a group": edited(
        lambda file: (file.__delitem__("eigenvalues"), file.create_group("eigenvalues"))
    ),
    "eigenvalues of text": replaced("eigenvalues", np.array([b"x"])),
    "config no json": replaced("config", "{"),
    "p of text": attribute("p", "one"),
    "models many": attribute("models", 10**9),
    "models of text": attribute("models", "many"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_refused(bbp, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    path = Path("bad.h5")
    FILES[name](path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(FileError, match=r"^[^\n]*bad\.h5[^\n]*$"):
        dataset.open(path)
    for words in (
        ["info", path, "--table"],
        ["plot", path],
        ["export", path],
        ["sweep", "--n", "12", "--samples", "1", "--out", path],
    ):
        if words[0] == "sweep" and name == "nowhere":
            continue
        said = bbp(*words)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said
        assert "bad.h5" in said.err and len(said.err) < 400
    assert (path.read_bytes() if path.is_file() else None) == before
    assert [item.name for item in tmp_path.iterdir()] == ["bad.h5"] * os.path.lexists(path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_teaches_with_an_example(bbp, name):
    said = bbp(name, "--help")
    assert said.code == 0 and said.err == ""
    assert f"\n  bbp {name} " in said.out.partition("example:")[2]
    assert bbp(name, "--version").out.startswith("bbp ")


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_option_has_help(name):
    parser = argparse.ArgumentParser()
    importlib.import_module(f"bbp.{name}").add_arguments(parser)
    assert [action.dest for action in parser._actions if not action.help] == []


def test_the_program_says_what_it_has(bbp):
    said = bbp("--help")
    assert said.code == 0 and all(f"  {name} " in said.out for name in COMMANDS)
    assert bbp("--version").out.startswith("bbp ")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["-m", "bbp", "sweep", "--n", "x"], 2),
        (["-m", "bbp.info", "nowhere.h5"], 2),
        (["-m", "bbp", "--version"], 0),
    ],
)
def test_real_processes_answer_with_the_same_codes(here, words, code):
    root = Path(package.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(root)}
    )
    assert done.returncode == code and (done.stdout + done.stderr).count("\n") == 1
    assert bool(done.stderr) == (code != 0)


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    path = tmp_path / "x.h5"
    good(path)
    words = [sys.executable, "-m", "bbp.info", path]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        said = child.stderr.read()
    assert (said, child.returncode) == (b"", program.BROKEN_PIPE)


def test_a_bug_is_one_line_unless_verbose(capsys):
    def broken():
        raise ZeroDivisionError("oh\nno")

    assert program.guarded("bbp x", broken) == 1
    said = capsys.readouterr().err
    assert said == "bbp x: error: unforeseen ZeroDivisionError: oh no (--verbose shows the traceback)\n"
    assert program.guarded("bbp x", broken, verbose=True) == 1
    assert "Traceback" in capsys.readouterr().err


ONE = "--samples 1 --alpha-grid 2 --n 20"
DESCENT = "descent --alpha-grid 1,4 --p 2 --a 0.7 --n 16 --samples 3"
DATA = Path(__file__).parents[2] / "data"
SAMPLES = DATA / "finite_size" / "c200.h5"
LAWS = " ".join(["fit", *(str(DATA / "finite_size" / f"smooth{n}.h5") for n in ("", 1600))])
SAID = {
    f"sweep {ONE} --p 1e300": "p must be below 2^31 to draw samples, got 1e+300",
    f"sweep {ONE} --p-star 1e39": "p_star must be at most n",
    f"sweep {ONE} --eigenpairs 1e299": "are to be kept",
    "sweep --alpha-grid 1 --n 4000000 --solver dense": "would fit",
    "sweep --samples 1 --alpha-grid 2 --n 1e299": "alpha N must be below 2^32 samples",
    "sweep --samples 1 --alpha-grid 1e100 --n 20": "alpha N must be below 2^32 samples",
    f"sweep {ONE} --dry-run --batch 1e299": "batch must be at most 1000000",
    f"sweep {ONE} --dry-run --block 1e18": "block must be at most 1000000",
    f"sweep {ONE} --dry-run --processes 1e18": "processes must be at most 10000",
    f"sweep {ONE} --dry-run --workers 1e18": "workers must be at most 10000",
    f"descent {ONE} --p 1e300": "p must be below 2^31 to draw samples, got 1e+300",
    f"descent {ONE} --steps 1e300": "steps must be at most 2147483647",
    f"descent {ONE} --records 1e300": "records must be at most 1000000",
    f"descent {ONE} --dry-run --threads 1e18": "threads must be at most 10000",
    f"{DESCENT} --p inf": "p must be finite to sample, got inf",
    f"{DESCENT} --p 1,2": "p must be one finite width",
    f"{DESCENT} --start random,hesian": "did you mean hessian?",
    f"{DESCENT} --start random,random": "start names one start twice",
    f"{DESCENT} --steps 0": "steps must be an integer of at least 1",
    f"{DESCENT} --records 1": "records must be an integer of at least 2",
    f"{DESCENT} --eigenpairs 31": "eigenpairs must be at most p (n - 1) = 30, got 31 at n = 16",
    f"{DESCENT} --threshold 1": "threshold must be below 1",
    f"{DESCENT} --alpha-grid 0.001:1:3": "at least one sample",
    f"{DESCENT} --n 1000000": "a descent at N = 1000000, p = 2 needs",
    f"{DESCENT} --p-star 17": "p_star must be at most n",
    "descent --observable mine.py:f": "observables are of sweeps",
    "phase --observable mine.py:f": "observables are of sweeps",
    "phase --p-star 1e39": "p_star must be below 2^63 to be written",
    "phase --dry-run --draws 1e18": "draws must be at most 1000000",
    "phase --dry-run --time 1e18": "time must be at most 100",
    "phase --minima 4 --p-star 2 --dry-run": "p = p* = 1",
    "phase --minima 4 --p-star 2 --p inf --dry-run": "p = p* = 1",
    "phase --minima 4 --covariance mp:0.5 --dry-run": "without covariance",
    "phase --minima 4 --overlap 0.2 --dry-run": "without overlap",
    "phase --minima 0 --dry-run": "minima must be positive",
    "quantile --n 1e299 --alpha 3": "alpha N must be below 2^63 samples",
    "quantile --n 40 --alpha 1e100": "alpha N must be below 2^63 samples",
    "quantile --n 40 --alpha 1e12": "a draw of labels at alpha = 1e+12, N = 40 takes 8.2e+06 GiB",
    "quantile --alpha 1e12 --share 0.5": "a draw of labels at alpha = 1e+12, N = 60 takes 1.23e+07 GiB",
    "quantile --n 1e19 --share 0.5": "alpha N must be below 2^63 samples",
    "quantile --n 40 --alpha 2 --draws 1e300": "draws must be at most 1000000",
    "quantile --n 40 --alpha 2 --seed 1e300": "seed must be below 2^63",
    "figures spectral --n 1e300": "n must be at most 1000000",
    "figures spectral --samples 1e18": "samples must be at most 1000000",
    "plot --out x.png --spectrum 1.5 --p 1,2": "p must be one width",
    "plot --out x.png --spectrum 1.5 --p 1,inf": "p must be one width",
    "plot --out x.png --spectrum 1.5 --p-star 1,2": "p_star must be a number",
    "plot --out x.png --spectrum 1.5 --a 1,2": "a must be a number",
    "plot --out x.png --spectrum 1,2": "spectrum must be a number",
    f"fit {DATA}/finite_size/c200.h5 --limit 1e300": "limit must be at most",
    f"{LAWS} --of nonsense": "of must be among lowest, overlap, threshold, width",
    f"{LAWS} --of ,": "of must be among",
    f"{LAWS} --alpha 3": "alpha must be of the file (0.8), got 3.0",
    f"{LAWS} --alpha x": "alpha must be a number",
    f"{LAWS} --limit nan": "limit must be finite",
    f"{LAWS} --limit inf": "limit must be finite",
    f"{LAWS} --limit x": "limit must be theory, free or a number",
    f"{LAWS} --model 1": "model must be an index below 1",
    f"{LAWS} --seed -1": "seed must be an integer",
    f"{LAWS} --save x.png": "save must end in .h5",
    f"plot {SAMPLES} --out f.jpg": "out must end in .png, .pdf, .svg, .eps or .pgf, got 'f.jpg'",
    f"plot {SAMPLES} --out f": "out must end in .png, .pdf, .svg, .eps or .pgf",
    f"plot {SAMPLES} --out f.png --dpi 0": "dpi must lie between 10 and 2400",
    f"plot {SAMPLES} --out f.png --dpi x": "invalid float value: 'x'",
    f"plot {SAMPLES} --out f.png --width wide": "invalid choice: 'wide'",
    f"plot {SAMPLES} --out f.png --p 2": "p is for a spectrum without FILE",
    f"plot {SAMPLES} --out f.png --model 3": "none has index 3",
    f"plot {SAMPLES} --out f.png --spectrum 7": "spectrum must be an alpha of the sweep",
    f"plot {SAMPLES} --out f.png --spectrum -1": "spectrum must be positive and finite",
    "plot": "FILE or --spectrum ALPHA must be given",
    "plot --out f.png": "FILE or --spectrum ALPHA must be given",
    "plot --spectrum 1": "out must be given",
    f"export {SAMPLES} --table theories": "no table 'theories'; did you mean theory?; there are averages",
    f"export {SAMPLES} --digits 0": "digits must be",
    f"export {SAMPLES} --csv --json": "not allowed with",
    f"export {SAMPLES} --list --out x": "out is for a table",
    f"export {SAMPLES} --columns alpha,lowst": "no column 'lowst'; did you mean lowest?; averages has n, alpha, samples",
    f"export {SAMPLES} --columns n,lowest_error": "'lowest_error' comes with its value",
    f"export {SAMPLES} --columns n,n": "columns names n twice",
    f"export {SAMPLES} --list --columns n": "columns is for a table",
    f"export {SAMPLES} --csv --out x.tex": "out ends in .tex, but --csv is asked for",
    "compare missing.h5": "missing.h5",
    f"compare {SAMPLES} --draws -1": "draws must be an integer",
    f"compare {SAMPLES} --draws x": "draws must be a number",
    f"compare {SAMPLES} --repeats 5": "repeats must be an integer",
    f"compare {SAMPLES} --out fig.bmp": "must end in .png",
    f"compare {SAMPLES} --resume": "--resume needs --save FILE.h5: draws are kept beside that file",
    f"compare {SAMPLES} --dry-run": "--dry-run needs --save FILE.h5: it lists the pieces of work kept beside",
    f"compare {SAMPLES} --merge": "--merge needs --save FILE.h5",
    "phase --p 0": "p must be an integer of at least 1 or inf, got 0",
    "phase --p 1,x": "p must be a number, got 'x'",
    "phase --p-star inf": "p_star must be an integer of at least 1, got inf",
    "phase --a-grid 0:1:5": "a must be positive and finite, got 0",
    "phase --a-grid 1:2:3:lag": "a must be START:STOP:COUNT",
    "phase --at-a nan": "at_a must be positive and finite, got nan",
    "phase --widths 1,1": "widths lists 1 twice",
    "phase --n 5": "n must be an integer of at least 100, got 5",
    "phase --n 1e30": "n must be at most 1e+12, got 1e+30",
    "phase --n 100 --draws 1": "draws must be an integer of at least 2, got 1",
    "phase --pp 1": "unrecognised argument '--pp'",
    "phase --noise 0.3 --n 1000": "thresholds at finite N",
    "phase --overlap 0.3 --p inf": "overlap must be 0",
    "phase --activation tanh --a-grid 2 --at-a 2 --p inf --p-star 2": "p must be finite",
    "figures phy": "did you mean phi?",
    "figures phi --n 0": "n must be an integer",
    "figures phi --n a,b": "n must be",
    "figures phi --samples 1": "samples must be an integer of at least 2",
    "figures phi --seed -1": "seed must be an integer",
    "figures phi --format bmp": "invalid choice",
    "quantile --n 60": "give two of",
    "quantile --n 60 --alpha 1 --share 0.5": "give two of",
    "quantile --n 60 --share 1.5": "share must lie between",
    "quantile --n 60 --share 0.5 --q2 2": "q2 must lie between",
    "quantile --n 60 --share 0.5 --of phi": "of must be one of",
    "quantile --n 60 --share 0.5 --p inf": "p must be finite",
    "quantile --n 60 --share 0.5 --p 1,2": "p must be one width",
    "quantile --n x --share 0.5": "n must be",
    "quantile --activation tanh": "no --activation here: finite-N theory is for the quadratic committee only",
    "quantile --noise=0.1": "no --noise here: finite-N theory is for the quadratic committee only",
    f"sweep {ONE} --activation relu": "activation must be one of",
    f"sweep {ONE} --loss l1": "loss must be one of",
    f"sweep {ONE} --noise -1": "noise must be 0 or more and finite, got '-1'",
    f"sweep {ONE} --noise 1e999": "noise must be 0 or more and finite",
    f"sweep {ONE} --overlap 2": "overlap must be a number from -1 to 1",
    f"sweep {ONE} --covariance wishart:2": "covariance",
    f"sweep {ONE} --covariance file:nowhere.txt": "covariance: no such file: 'nowhere.txt'",
    f"sweep {ONE} --activation tanh --a 0.5": "needs a + y > 0",
    f"sweep {ONE} --loss squared --a 2": "a must be left at 1",
    "descent --activation tanh --a 2 --start spectral": "start spectral weighs labels optimally for a quadratic teacher",
    "explore --no-browser --port 70000": "at most 65535",
    "explore --no-browser --port x": "port must be a number",
    "explore --no-browser --origin http://a": "origin must be HOST:PORT",
    "explore --no-browser --origin *:80": "origin must be HOST:PORT",
    "explore --no-browser nowhere.h5": "nowhere.h5",
    "explore --no-browser --force": "--force is for --export",
    "explore --export x.html --port 80": "it takes no --port",
    "explore --export x.html --no-browser": "it takes no --no-browser",
    "explore --export nowhere/x.html": "there is no folder",
    "explore --no-browser --host 203.0.113.7": "cannot be opened",
}


@pytest.mark.parametrize("words", SAID, ids=lambda words: words.replace(str(DATA), "data")[:60])
def test_what_was_wrong_is_said_in_one_short_line(bbp, here, words):
    said = bbp(*words.split())
    (line,) = said.err.splitlines()
    assert (said.code, said.out) == (2, "") and SAID[words] in line and len(line) < 300, said


def test_finite_theory_wants_room(bbp, monkeypatch):
    """A control group of 200 MB, and a question that takes 264."""
    asked = ["quantile", "--n", "3000", "--p", "4", "--alpha", "200"]
    monkeypatch.setattr("bbp.quantile.available_bytes", lambda: 200 * 10**6)
    found = bbp(*asked)
    assert found.code == 2 and "takes 0.246 GiB, and 0.186 are free" in found.err
