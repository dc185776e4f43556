"""The grammar of grids and lists; configurations in TOML."""

import math
import os

import numpy as np
import pytest

from bbp.console import options
from bbp.experiments.options import SWEEP
from bbp.sweep import PROGRAM
from theory.checks import ParameterError


def test_grids_have_both_ends_and_logarithmic_ones_equal_ratios():
    assert options.numbers("alpha", "0.5:2:4") == (0.5, 1.0, 1.5, 2.0)
    assert options.numbers("alpha", "0.1:0.3:3") == options.numbers("alpha", "0.1,0.2,0.3")
    points = np.array(options.numbers("a", "0.01:3:60:log"))
    assert (len(points), points[0], points[-1]) == (60, 0.01, 3.0)
    np.testing.assert_allclose(points[1:] / points[:-1], 300 ** (1 / 59), rtol=1e-11)


def test_lists_and_single_numbers():
    assert options.numbers("a", "2,0.5") == (0.5, 2.0)
    assert options.numbers("a", 1) == (1.0,) and options.numbers("a", [1, 0.5]) == (0.5, 1.0)
    assert options.integers("p", "4,1,2") == (4, 1, 2)
    assert options.widths("p", "1,inf") == (1, math.inf)


def test_the_default_grid_is_centred():
    points = options.around(1.1348541263816159)
    assert points[len(points) // 2] == 1.13485 and len(points) == 11
    np.testing.assert_allclose(np.diff(points), 1.13485 / 10, rtol=1e-4)


def test_anything_else_is_refused_in_one_line(subtests):
    """Of numbers, and of whole ones."""
    texts = (
        "|x|1:2|1:2:3:4|2:1:3|1:2:1|1:1:3|0:1:3|-1:1:3|1:2:0|1:2:-3|1:2:2.5|1:2:3:lin|nan|inf|1,,2|1,1|1:inf:3|nan:2:3"
        "|1:2:1e12|1:2:x|0|-1|1;2|0x10|1:2:3:|:|1:2:3:log:"
    ).split("|")
    numbers = *texts, True, [], None, [1, "x"], [True], {"start": 1}, [[1]]
    whole = "0", "1.5", "1,1", "x", "", "inf", True, None, -1, [1, 1]
    for read, values in ((options.numbers, numbers), (options.integers, whole)):
        for value in values:
            with subtests.test(value=value), pytest.raises(ParameterError, match=r"^alpha\b[^\n]*$"):
                read("alpha", value)


@pytest.fixture
def toml(tmp_path):
    """A function that writes a configuration."""

    def write(content):
        path = tmp_path / "sweep.toml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_toml_file_has_the_names_of_the_options(toml):
    path = toml(
        'alpha-grid = "0.5:2:4"\np = [1, 2]\np_star = 1\na = 0.5\nsamples = 8\nout = "x.h5"\nworkers = 2\n'
    )
    given = options.read_toml(path, SWEEP)
    assert given["alpha_grid"] == "0.5:2:4" and given["out"] == "x.h5"
    built = PROGRAM.experiment(given)
    assert [model.p for model in built.models] == [1, 2] and built.alphas[0] == (0.5, 1.0, 1.5, 2.0)


BAD_TOML = {
    "sampels = 3": "unknown key 'sampels'; did you mean samples?",
    "alpha-gird = 3": "unknown key 'alpha-gird'; did you mean alpha_grid?",
    "resume = true": "unknown key 'resume'",
    "p-star = 1\np_star = 2": "given twice",
    "[sweep]\np = 1": "unknown key 'sweep'",
    "p = ": "is not TOML",
    "samples = " + "9" * 5000: "is not TOML",
    "samples = " + "[" * 100_000: "is not TOML",
    "[" + "a." * 20_000 + "b]": "",
    b"\xff\xfe": "is not TOML",
    "samples = 3".encode("utf-16"): "is not TOML",
    "hello": "is not TOML",
    "a = 1e999": "a must be",
    "seed = 2020-01-01": "seed must be",
    "[samples]\nx = 1": "samples must be",
    "[[n]]\nx = 1": "n must be",
    'dtype = ["float64"]': "dtype must be",
    "dtype = {x = 1}": "dtype must be",
    "solver = [1]": "solver must be",
    "cache = 3": "cache must be",
    "out = 3": "out must be",
    "p = true": "p must be",
}


@pytest.mark.parametrize(("content", "message"), BAD_TOML.items(), ids=lambda text: str(text[:20]))
def test_a_bad_configuration_is_one_line(refused, toml, content, message):
    said = refused("", "sweep", "--config", toml(content), "--dry-run")
    assert len(said.err) < 700 and message in said.err, said


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")], ids=["fifo", "folder", "device"]
)
def test_a_configuration_that_is_no_file_is_one_line(refused, tmp_path, make):
    make(tmp_path / "x.toml")
    refused("", "sweep", "--config", tmp_path / "x.toml", "--dry-run")


def test_a_byte_order_mark_and_a_home_are_understood(bbp, toml, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    text = 'n = 12\nsamples = 1\nalpha_grid = "1"\nout = "~/in/x.h5"\ncache = "~/kept"\n'
    said = bbp("sweep", "--config", toml(b"\xef\xbb\xbf" + text.encode()))
    assert said.code == 0, said
    assert (tmp_path / "in" / "x.h5").exists() and not (tmp_path / "~").exists()
