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
from bbp.__main__ import dispatch
said = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = dispatch(words)
    said.append((code, out.getvalue(), err.getvalue()))
out = io.StringIO()
with contextlib.redirect_stdout(out):
    exec(sys.argv[2])
said.append(out.getvalue())
print(json.dumps(said))
"""


SOLVER = """
import numpy as np
from sims import hessian
from sims.solvers import Code, Eigenpairs, Solver
from sims.solvers.dense import dense_bytes


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
FIGURE = """import numpy as np
from matplotlib.figure import Figure
from bbp.gallery import figure


def build(effort):
    x = np.arange(5.0)
    return {"x": (("x",), x), "y": (("x",), x**2)}


@figure("parabola", build)
def draw(data):
    'y = x^2'
    made = Figure()
    made.add_subplot().plot(data["x"], data["y"])
    return made
"""
HELLO = """from bbp.console import program


def main(argv=None):
    return program.program(
        "hello", lambda parser: None, lambda args: print("hello") or 0, argv, summary="Say it.", example="  bbp hello"
    )
"""
BOTH = ["sweep", *"--alpha-grid 2 --n 12 --samples 3 --activation Bell --processes 1".split()]
THEN = f"""
from bbp import join
from bbp.analysis import summary
from bbp.files import dataset
from bbp.files.variables import own_names
from bbp.experiments import models
made, old = dataset.open("x.h5"), dataset.open("{ROOT}/data/finite_size/c200.h5")
told = [*own_names(made), *own_names(summary.summarise(made))]
told = [name for name in told if name.startswith("copy_")]  # whatever observables there are beside
print("copy_spread" in old, join([made, made])["copy_spread"].shape, *told)
one, two = (dataset.open(name + ".h5") for name in ("plain", "dense"))
apart, size = (float(abs(x).max()) for x in (one.eigenvalues - two.eigenvalues, two.eigenvalues))
print(models.of(one).activation.name, apart < 1e-12, size > 0.1)
"""


FILES = {"bbp/gallery/parabola.py": FIGURE, "bbp/hello.py": HELLO, "sims/solvers/plain.py": SOLVER}
FIELDS = """    Field("copy_spread", ("sample",), words="eigenvalues kept: highest less lowest"),
    Field("copy_ipr", ("sample",), words="fourth powers of the lowest eigenvector, summed"),
"""
MEASURE = """    measures.append(Observable("copy_ipr", lambda *, vectors, **_: (vectors[:, 0] ** 4).sum(), False))
"""
SPREAD = """    columns["copy_spread"] = record["stretch"] * (found.eigenvalues[:, -1] - found.eigenvalues[:, 0])
"""
# Lines, and before which text of a file they stand.
INSERTED = (
    ("bbp/experiments/samples.py", '    Field("max_overlap_rank"', FIELDS),
    ("bbp/experiments/samples.py", "    found = sampling.sample_point(", MEASURE),
    ("bbp/experiments/samples.py", '    return columns | {"reason": found.reasons}', SPREAD),
    (
        "bbp/experiments/options.py",
        '    Option("p", 1, finite_widths,',
        '    Option("stretch", 1.0, number, "a factor"),\n',
    ),
    ("bbp/__main__.py", '    "info": "what is in', '    "hello": "say it",\n'),
    ("theory/model/activations.py", '    Activation("quadratic",', BELL),
)


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the packages with all of that, and what commands said there: (code, stdout, stderr), in one process."""
    place = tmp_path_factory.mktemp("extended")
    for name in ("bbp", "theory", "sims"):
        shutil.copytree(ROOT / name, place / name)  # bytecode included
    for name, content in FILES.items():
        (place / name).write_text(content)
    for name, text, lines in INSERTED:
        before = (place / name).read_text()
        assert before.count(text) == 1, (name, text)
        (place / name).write_text(before.replace(text, lines + text))
    (place / "x.toml").write_text("stretch = 2\n")
    sweep = ["sweep", *TINY, "--out", "x.h5"]
    commands = {
        "made": [*sweep, "--config", "x.toml"],
        "help of sweep": ["sweep", "--help"],
        "other": [*sweep, "--stretch", "3"],
        "wrong": [*sweep, "--stretch", "-1"],
        "figure": ["figures", "parabola", "--out", "out"],
        "hello": ["hello"],
        "help": ["--help"],
        "plain": [*BOTH, "--solver", "plain", "--out", "plain.h5"],
        "dense": [*BOTH, "--solver", "dense", "--out", "dense.h5"],
    }
    found = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(list(commands.values())), THEN],
        capture_output=True, text=True, cwd=place, env=os.environ | {"PYTHONPATH": str(place)},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return place, dict(zip([*commands, "then"], json.loads(found.stdout), strict=True))


def test_an_observable_and_an_option_are_one_file_each(extended):
    """Declared and computed: it is in parts, file and pooling; the option in help, TOML, check, record and computation."""
    place, said = extended
    assert said["made"][0] == 0, said["made"]
    with h5py.File(place / "x.h5") as file:
        values = file["eigenvalues"][()]
        np.testing.assert_allclose(
            file["copy_spread"][()], 2 * (values[..., -1] - values[..., 0]), rtol=1e-14
        )
        assert (file["copy_ipr"][()] > 1 / 12).all() and (file["copy_ipr"][()] <= 1).all()
        assert file["copy_spread"].attrs["long_name"].startswith("eigenvalues kept")
        assert [file["copy_spread"].dims[i].keys()[0] for i in range(3)] == ["n", "alpha", "sample"]
        assert '"stretch": 2' in file["config"].asstr()[()]
    assert "--stretch STRETCH" in said["help of sweep"][1]
    assert said["other"][0] == 2 and "stretch 2.0 there, 3.0 here" in said["other"][2]
    assert said["wrong"][0] == 2 and "stretch must be positive" in said["wrong"][2]
    drawn = "copy_spread copy_ipr copy_spread copy_ipr"  # by which they are drawn
    assert said["then"].splitlines()[0] == f"False (1, 2, 3) {drawn}"
    assert all(name in said["made"][1] for name in ("copy_spread", "copy_ipr"))  # of the closing table


def test_a_figure_is_one_file_and_a_program_one_file_and_a_line(extended):
    place, said = extended
    assert said["figure"][0] == 0 and (place / "out" / "parabola.h5").exists(), said["figure"]
    assert said["hello"][:2] == [0, "hello\n"] and "hello" in said["help"][1]


def test_a_solver_is_one_file_and_an_activation_one_row(extended):
    """The solver's pairs are those of the dense one; help names both."""
    _, said = extended
    assert said["plain"][0] == said["dense"][0] == 0, said
    assert said["then"].splitlines()[1] == "bell True True"
    assert {"plain", "bell"} <= set(said["help of sweep"][1].replace(",", "").split())
