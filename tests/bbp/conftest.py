"""Fixtures of the programs' tests: made-up sweeps, and a way to call a command and see what it said."""

import dataclasses
import json
import os
import shutil
import subprocess

import numpy as np
import pytest
import xarray as xr
from matplotlib.backends import backend_ps
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser

from bbp.__main__ import dispatch
from bbp.analysis import summary
from bbp.engine import run
from bbp.experiments import models, program, sweep
from bbp.files import dataset, variables
from bbp.files.variables import DONE, FAILED, NOT_RUN
from bbp.plots import style
from sims.instance import STREAM
from theory.model import Committee

TINY = ["--alpha-grid", "0.8:2:4", "--n", "12,16", "--samples", "6", "--block", "2"]


@pytest.fixture(scope="session", autouse=True)
def remembered_theory():
    """Theory at finite N, a function of model, N, alpha and seed alone, is computed once for all sweeps of one grid.

    Half of a tiny sweep's time, though by few draws. `theory.finite` has tests of its own. Curves of networks are coarse.
    """
    known, real = {}, sweep.finite_theory

    def recall(model, n, alpha, seed):
        key = model, tuple(n), alpha.tobytes(), seed
        if key not in known:
            known[key] = real(model, n, alpha, seed)
        return {name: values.copy() for name, values in known[key].items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "finite_theory", recall)
        patch.setattr(summary, "MOST_DRAWS", summary.FEWEST_DRAWS)
        patch.setitem(summary.FINE, "nodes", 12)
        yield


@pytest.fixture(scope="session", autouse=True)
def disks_are_not_waited_for():
    """What is written is there for all processes at once; only a loss of power would tell, and no test has one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


ARRANGED = "figure.constrained_layout.use"
SETTLE = style.settle_ticks


@pytest.fixture(scope="session", autouse=True)
def figures_are_not_arranged():
    """Panels and ticks stay where matplotlib puts them at first: to move them apart is half of the time of a figure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(style._PAPER, ARRANGED, False)
        patch.setattr(style, "settle_ticks", lambda figure: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def pictures_are_quick():
    """Figures say the same formulas at the same sizes: matplotlib would parse them for each, a quarter of a figure's time.

    And for every EPS it would draw all glyphs of each font to see how large they are, most of its time: fonts say it too.
    What nobody looks at has a sixteenth of the points.
    """
    known, real, save = {}, MathTextParser._parse_cached.__wrapped__, Figure.savefig

    def parsed(self, *how):
        key = self._output_type, *how
        if key not in known:
            known[key] = real(self, *how)
        return known[key]

    def bounded(font):
        return tuple(getattr(font["head"], end) for end in ("xMin", "yMin", "xMax", "yMax"))

    def saved(figure, *args, dpi="figure", **options):
        return save(figure, *args, dpi=75 if dpi == 300 else dpi, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MathTextParser, "_parse_cached", parsed)
        patch.setattr(backend_ps, "_bounds", bounded)
        patch.setattr(Figure, "savefig", saved)
        yield


@pytest.fixture
def arranged(monkeypatch):
    """Figures as users see them."""
    monkeypatch.setitem(style._PAPER, ARRANGED, True)
    monkeypatch.setattr(style, "settle_ticks", SETTLE)


@pytest.fixture
def tiny():
    """Options of a sweep of 2 x 4 points, 6 samples each, in 24 units."""
    return list(TINY)


@pytest.fixture(scope="session")
def tiny_sweep(tmp_path_factory):
    """The file of the tiny sweep, run in one go."""
    path = tmp_path_factory.mktemp("tiny") / "reference.h5"
    assert dispatch(["sweep", *TINY, "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="session")
def sweep_file(tmp_path_factory):
    """A made-up sweep of p = 2, a = 0.3."""
    path = tmp_path_factory.mktemp("made") / "sweep.h5"
    dataset.write(path, made_up_sweep(Committee(2, 1, 0.3)))
    return path


@pytest.fixture(scope="session")
def phase_file(tmp_path_factory):
    """A phase diagram of two widths and five a, and a cut of four widths."""
    path = tmp_path_factory.mktemp("made") / "phase.h5"
    words = "phase --p 1,inf --a-grid 0.1:3:5:log --at-a 1 --widths 1,2,4,inf --quiet --out".split()
    assert dispatch([*words, str(path)]) == 0
    return path


@pytest.fixture
def finished(out, tiny_sweep):
    """A copy of that file under the name `out`."""
    out.parent.mkdir(exist_ok=True)
    shutil.copyfile(tiny_sweep, out)
    return out


@dataclasses.dataclass
class Said:
    code: int
    out: str
    err: str


@pytest.fixture
def bbp(capsys):
    """Call `bbp COMMAND ...` in this process: exit code, stdout, stderr. There is never a traceback."""

    def call(*words):
        capsys.readouterr()
        code = dispatch([str(word) for word in words])
        said = Said(code, *capsys.readouterr())
        assert "Traceback" not in said.err
        return said

    return call


@pytest.fixture
def refused(bbp):
    """Require that `bbp COMMAND ...` ends with exit code 2 and one line that has these words."""

    def require(words, *command):
        said = bbp(*command)
        assert said.code == 2 and words in said.err and said.err.count("\n") == 1, said
        return said

    return require


@pytest.fixture
def untimed(monkeypatch):
    """A dry run says what it says of its options alone: no sample is timed."""
    monkeypatch.setattr(program, "_seconds", lambda experiment, point: (1e-3, 0.0))


@pytest.fixture
def begin():
    """`subprocess.Popen`, whose process ends with the test: one left over would be found, unclosed, in whichever comes next."""
    children = []

    def start(*args, **options):
        children.append(subprocess.Popen(*args, **options))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe:
                pipe.close()


@pytest.fixture
def count_samples(monkeypatch):
    """A list that gets (n, alpha, sample) of every sample computed."""
    seen = []
    real = run.run_unit

    def run_unit(unit):
        seen.extend((*unit.point, sample) for sample in unit.samples)
        return real(unit)

    monkeypatch.setattr(run, "run_unit", run_unit)
    return seen


SAMPLED = ("eigenvalues", "overlaps", "residuals", "max_overlap_rank", "status", "reason")


@pytest.fixture
def same():
    """Assert that two sweeps hold the same numbers, bit for bit; where and when they were computed may differ."""

    def check(one, two):
        for name in ("p", "p_star", "a", "kind", "alpha_bbp"):
            assert one.attrs[name] == two.attrs[name]
        theory = "theory_edge", "theory_outlier", "theory_overlap"
        for name in ("n", "alpha", "sample", "eigenpair", *SAMPLED, *theory):
            np.testing.assert_array_equal(one[name], two[name], err_msg=name)

    return check


@pytest.fixture
def made_up():
    """The function `made_up_sweep`."""
    return made_up_sweep


@pytest.fixture(scope="module")
def made_up_module():
    """One made-up sweep, for all tests of a module."""
    return made_up_sweep()


def made_up_sweep(model=None, n=(20, 40), alphas=(0.5, 1.0, 2.0), samples=4, seed=0, whole=False):
    """A sweep of arbitrary numbers in right shapes; one sample has failed and one is missing, unless it is `whole`."""
    model = model or Committee(1, 1, 0.5)
    rng = np.random.default_rng(seed)
    pairs = int(model.degeneracy) + 4
    shape = (len(n), len(alphas), samples, pairs)
    status = np.full(shape[:3], DONE, dtype=np.int8)
    reason = np.full(shape[:3], "", dtype=object)
    if not whole:
        status[0, 0, 1], status[0, 1, 2] = FAILED, NOT_RUN
        reason[0, 0, 1] = "eigensolver: no convergence é"
    values = np.sort(rng.normal(size=shape), axis=-1)
    values[status != DONE] = np.nan
    overlaps = np.where(status[..., None] == DONE, rng.uniform(size=shape), np.nan)
    grid = ("n", "alpha", "sample")
    found = xr.Dataset(
        {
            "eigenvalues": ((*grid, "eigenpair"), values),
            "overlaps": ((*grid, "eigenpair"), overlaps),
            "residuals": ((*grid, "eigenpair"), np.full(shape, 1e-14)),
            "max_overlap_rank": (grid, rng.integers(0, 9, size=shape[:3]).astype(float)),
            "status": (grid, status),
            "reason": (grid, reason),
            "theory_edge": ("alpha", np.resize([-2.2, -2.1, -1.8], len(alphas))),
            "theory_outlier": ("alpha", np.resize([np.nan, np.nan, -1.9], len(alphas))),
            "theory_overlap": ("alpha", np.resize([np.nan, np.nan, 0.1], len(alphas))),
            "unit_seconds": ("unit", np.array([0.1, 0.2])),
            "unit_host": ("unit", np.array(["one", "two"], dtype=object)),
        },
        {
            "n": list(n),
            "alpha": list(alphas),
            "sample": range(samples),
            "eigenpair": range(pairs),
            "unit": range(2),
        },
    )
    config = json.dumps({"samples": samples, "long": "x" * 100_000})
    about = {"alpha_bbp": 1.38, "kind": "continuous", "seed": seed, "dtype": "float64", "device": "cpu"}
    about |= {"prng": STREAM, "finished": int(whole), "format": "bbp-sweep", "config": config}
    return variables.described(found.assign_attrs(models.record(model) | about))
