"""What CONTRIBUTING.md says about adding things, done: in a copy of bbp/ with exactly the lines that it names."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
TINY = ["--alpha-grid", "0.8,1.2", "--n", "12", "--samples", "3"]


RUN = """
import contextlib, io, json, sys
from bbp.console import program
said = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = program.dispatch(words)
    said.append((code, out.getvalue(), err.getvalue()))
out = io.StringIO()
with contextlib.redirect_stdout(out):
    exec(sys.argv[2])
said.append(out.getvalue())
print(json.dumps(said))
"""


@pytest.fixture
def copy(tmp_path):
    """A copy of the packages, bytecode included, and two functions: one runs Python there, one commands and then Python."""
    for name in ("bbp", "theory", "sims"):
        shutil.copytree(ROOT / name, tmp_path / name)

    def call(*words):
        env = os.environ | {"PYTHONPATH": str(tmp_path)}
        found = subprocess.run(
            [sys.executable, *map(str, words)], capture_output=True, text=True, cwd=tmp_path, env=env
        )
        return found.returncode, found.stdout, found.stderr

    def bbp(*commands, then=""):
        code, printed, said = call(
            "-c", RUN, json.dumps([[str(word) for word in words] for words in commands]), then
        )
        assert code == 0, said
        return json.loads(printed)

    return tmp_path, call, bbp


def edit(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1, (path.name, old)
    path.write_text(text.replace(old, new))


def test_an_observable_is_two_places_and_an_option_one(copy):
    """Declared and computed: it is in parts, file and pooling; the option in help, TOML, check, record and computation."""
    place, _, bbp = copy
    edit(
        place / "bbp/store.py",
        "    table.STATUS,\n",
        '    Field("spread", ("sample",), optional=True, words="eigenvalues kept: highest less lowest"),\n    table.STATUS,\n',
    )
    edit(
        place / "bbp/experiments/sweep.py",
        '    return columns | {"reason": found.reasons}',
        '    spread = given["stretch"] * (found.eigenvalues[:, -1] - found.eigenvalues[:, 0])\n'
        '    return columns | {"reason": found.reasons, "spread": spread}',
    )
    edit(
        place / "bbp/experiments/options.py",
        '    Option("p", 1, finite_widths,',
        '    Option("stretch", 1.0, grids.number, "a factor"),\n    Option("p", 1, finite_widths,',
    )
    (place / "x.toml").write_text("stretch = 2\n")
    out = place / "x.h5"
    sweep = ["sweep", *TINY, "--out", out]
    again = "from bbp import store; from bbp.analysis.pool import pool; s = store.load('x.h5');"
    again += f"old = store.load('{ROOT}/data/finite_size/c200.h5'); print(old['spread'].shape == old.status.shape);"
    made, shown, other, wrong, pooled = bbp(
        [*sweep, "--config", place / "x.toml"],
        ["sweep", "--help"],
        [*sweep, "--stretch", "3"],
        [*sweep, "--stretch", "-1"],
        then=again + "print(pool([s, s])[0]['spread'].shape)",
    )
    assert made[0] == 0, made
    with h5py.File(out) as file:
        values = file["eigenvalues"][()]
        np.testing.assert_allclose(file["spread"][()], 2 * (values[..., -1] - values[..., 0]), rtol=1e-14)
        assert file["spread"].attrs["long_name"].startswith("eigenvalues kept")
        assert [file["spread"].dims[i].keys()[0] for i in range(3)] == ["n", "alpha", "sample"]
        assert '"stretch": 2' in file["config"].asstr()[()]
    assert "--stretch STRETCH" in shown[1]
    assert other[0] == 2 and "stretch 2.0 there, 3.0 here" in other[2]
    assert wrong[0] == 2 and "stretch must be positive" in wrong[2]
    assert pooled.split("\n")[:2] == ["True", "(1, 2, 3)"]


def test_a_figure_is_one_file_and_a_program_one_file_and_a_line(copy):
    place, _, bbp = copy
    (place / "bbp/gallery/parabola.py").write_text(
        "import numpy as np\n"
        "from matplotlib.figure import Figure\n"
        "from bbp.gallery.base import Entry\n\n\n"
        "def build(effort):\n    x = np.arange(5.0)\n    return {'x': (('x',), x), 'y': (('x',), x**2)}\n\n\n"
        "def draw(data):\n    figure = Figure()\n    figure.add_subplot().plot(data['x'], data['y'])\n    return figure\n\n\n"
        "ENTRY = Entry('parabola', 'y = x^2', build, draw)\n"
    )
    edit(
        place / "bbp/console/program.py",
        '    "info": "what is in',
        '    "hello": "say it",\n    "info": "what is in',
    )
    (place / "bbp/hello.py").write_text(
        "from bbp.console import program\n\n\n"
        "def main(argv=None):\n"
        "    return program.program('hello', lambda parser: None, lambda args: print('hello') or 0, argv,"
        " summary='Say it.', example='  bbp hello')\n"
    )
    made, said, shown, _ = bbp(["figures", "parabola", "--out", place / "out"], ["hello"], ["--help"])
    assert made[0] == 0 and (place / "out" / "parabola.h5").exists(), made
    assert said[:2] == [0, "hello\n"] and "hello" in shown[1]


SOLVER = """
import numpy as np
from sims import hessian
from sims.dense.eigen import Code, Eigenpairs
from sims.memory import dense_bytes
from sims.solvers import Solver


def solve(drawn, k):
    return [lowest(one, k) for one in drawn]


def lowest(one, k):
    upper = np.triu(hessian.dense_blas(np.asarray(one.data)[: one.m], hessian.weights_of(one)))
    values, vectors = np.linalg.eigh(upper + np.triu(upper, 1).T)
    return Eigenpairs(values[:k], vectors[:, :k], np.zeros(k), Code.CONVERGED)


SOLVER = Solver(solve, dense_bytes)
"""
BELL = """    Activation(
        "bell", lambda x, xp: xp.exp(-(x**2) / 2), lambda x, xp: -x * xp.exp(-(x**2) / 2),
        lambda x, xp: (x**2 - 1) * xp.exp(-(x**2) / 2), "even", 0, 0.0,
    ),
"""
BOTH = """
from bbp import store, sweep
from bbp.console import program
words = "--alpha-grid 2,4 --n 12 --samples 3 --activation Bell --processes 1".split()
for solver in ("plain", "dense"):
    assert sweep.main([*words, "--solver", solver, "--out", solver + ".h5"]) == 0
one, two = (store.load(name + ".h5") for name in ("plain", "dense"))
assert program.dispatch(["sweep", "--help"]) == 0
print(one.model.activation.name, abs(one.eigenvalues - two.eigenvalues).max() < 1e-12, abs(two.eigenvalues).max() > 0.1)
"""


def test_a_solver_is_one_file_and_an_activation_one_row(copy):
    """The solver's pairs are those of the dense one; help names both."""
    place, call, _ = copy
    (place / "sims/solvers/plain.py").write_text(SOLVER)
    edit(place / "theory/general/activations.py", "_TABLE = (\n", "_TABLE = (\n" + BELL)
    code, printed, said = call("-c", BOTH)
    assert code == 0 and printed.splitlines()[-1] == "bell True True", said
    assert {"plain", "bell"} <= set(printed.replace(",", "").split())
