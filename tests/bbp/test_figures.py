"""The gallery: every figure builds, lands in a file that others open, is drawn, and is not computed twice."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray

import theory.finite
from bbp import gallery
from bbp.analysis.phase import discontinuous
from bbp.experiments.phase import thresholds
from bbp.figures import main
from bbp.files import dataset
from bbp.gallery import ENTRIES, Effort, Entry, descent, finite_size, inputs, minima, overlaps, recovery, save
from bbp.gallery import thresholds as diagrams
from bbp.gallery.thresholds import as_arrays, as_map
from theory.path import TransitionTime

SMALL = ["--n", "16,24", "--samples", "2"]
PNG = b"\x89PNG"


# Grids and draws of a few points in place of the figures' own, and stand-ins for what takes seconds.
COARSE = {
    overlaps: {
        "CURVE_POINTS": 4, "ACTIVATED_ALPHA": np.array([1.0, 10.0]), "DRAWS": 4, "LAW_POINTS": 3,
        "SPECTRAL_ALPHA": np.linspace(0.3, 4, 9),
    },
    inputs: {
        "SETS": {"normal": lambda: np.random.default_rng(0).standard_normal((60, 16))}, "ALPHA": (2.0,)
    },
    descent: {
        "DESCENT_ALPHA": np.array([0.75, 6.0]), "WIDTHS": (2,), "STEPS": 60, "RECORDS": 2,
        "CASES": ((1, 2.0), (1, 2.0)), "TIMES": (0.0, 0.02), "METHODS": dict(list(descent.METHODS.items())[:2]),
        "bbp_time": lambda model, alpha, samples, scramblings: TransitionTime(0.5, "lost", 0.1, 3.0, 1.0),
    },
    finite_size: {"SIZES": np.array([100, 300]), "DRAWS": 4},
    theory.finite: {"threshold": lambda model, n, draws, seed: SimpleNamespace(alpha=2 - 1 / n, error=0.1)},
    recovery: {
        "QUICK": (recovery.Case(1, 2.0, 24, 0.2, 0.1, 2), recovery.Case(2, 2.0, 24, 0.2, 0.1, 2)),
        "ALPHA": {2: (1.2, 2.2)},
        "bbp_time": lambda model, alpha, **options: SimpleNamespace(time=0.1 * alpha),
    },
    minima: {
        "ALPHA": (4.0,), "ENDS": (4.0,), "FLOW_A": (0.5,), "HALF_ALPHA": (1.5, 3.0), "STEPS": 40,
        "OVERLAP": np.array([0.0, 0.3]), "SHARE": np.array([0.9, 1.0, 1.1]), "NORMALISATIONS": np.array([0.5, 2.0]),
        "threshold": lambda model: SimpleNamespace(alpha=5 + model.a),
        "bbp_time": lambda model, alpha, **options: SimpleNamespace(kind="lost" if alpha < 5 else "none"),
    },
    diagrams: {
        "STUDENTS": (1, np.inf), "ACTIVATIONS": ("tanh", "softplus"), "QUADRATIC_WIDTHS": (1, np.inf),
        "NORMALISATIONS": np.geomspace(0.02, 3, 20), **dict.fromkeys(("NOISE", "EXPONENT", "OVERLAP"), np.array([0.0, 0.5])),
    },
}  # fmt: skip
# What they leave out that is of another kind than what they keep.
WHOLE = [
    (module, name, getattr(module, name))
    for module, names in (
        (descent, ["WIDTHS"]),
        (recovery, ["ALPHA"]),
        (diagrams, ["STUDENTS", "ACTIVATIONS", "QUADRATIC_WIDTHS"]),
    )
    for name in names
]


@pytest.fixture
def coarse(monkeypatch):
    """The same is computed and drawn, at a tenth of it."""
    for module, values in COARSE.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ENTRIES))
def test_every_figure_as_it_is_arranged(name, coarse, arranged, tmp_path):
    """Warnings are errors: none that its parts do not find room."""
    assert main([name, *SMALL, "--out", str(tmp_path), "-q"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["descent", "recovery", "what-survives"])
def test_figures_with_all_their_widths_activations_and_alphas(name, coarse, monkeypatch, tmp_path):
    for module, what, value in WHOLE:
        monkeypatch.setattr(module, what, value)
    assert main([name, *SMALL, "--out", str(tmp_path), "-q"]) == 0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "thresholds-two-teachers" else name
        for name in ENTRIES
    ],
)
def test_every_figure(name, coarse, tmp_path, capsys):
    assert main([name, *SMALL, "--out", str(tmp_path), "-q"]) == 0
    picture, data = tmp_path / f"{name}.png", tmp_path / f"{name}.h5"
    assert picture.read_bytes()[:4] == PNG
    assert "computed in" in capsys.readouterr().out
    with xarray.open_dataset(data, engine="h5netcdf") as opened:
        assert opened.attrs["figure"] == name and len(opened.data_vars) >= 1


def test_data_are_computed_once_and_those_of_other_options_refused(tmp_path, capsys):
    assert main(["underparametrised", "--out", str(tmp_path), "-q"]) == 0
    before = (tmp_path / "underparametrised.h5").read_bytes()
    assert main(["underparametrised", "--out", str(tmp_path), "-q"]) == 0
    assert "data were there" in capsys.readouterr().out
    assert main(["underparametrised", "--out", str(tmp_path), "--seed", "1"]) == 2
    assert "other options" in capsys.readouterr().err
    path = tmp_path / "underparametrised.h5"
    arrays = {name: (values.dims, values.values) for name, values in dataset.open(path).variables.items()}
    save(path, ENTRIES["underparametrised"], arrays, Effort(mode="paper"), 1.0)
    before = path.read_bytes()
    assert main(["underparametrised", "--out", str(tmp_path), "-q"]) == 0  # none given: those of the file
    assert "data were there, of mode = paper" in capsys.readouterr().out
    assert (tmp_path / "underparametrised.h5").read_bytes() == before


def test_one_failure_does_not_stop_the_others(tmp_path, capsys, monkeypatch):
    def broken(effort):
        raise FloatingPointError("made to fail")

    monkeypatch.setitem(ENTRIES, "alpha-zero", Entry("alpha-zero", "", broken, diagrams.alpha_zero.draw))
    assert main(["alpha-zero", "underparametrised", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "alpha-zero failed: FloatingPointError: made to fail" in said.err
    assert (tmp_path / "underparametrised.png").exists() and not (tmp_path / "alpha-zero.h5").exists()


def test_map_round_trip(tmp_path):
    found = thresholds((1, 4), 1, (0.5, 2.0))
    entry = Entry("x", "", dict, lambda data: None)
    gallery.save(tmp_path / "x.h5", entry, as_arrays(found, "cut_"), Effort(), 0.0)
    data, config = gallery.load(tmp_path / "x.h5")
    back = as_map(data, "cut_")
    np.testing.assert_array_equal(back.alpha_bbp, found.alpha_bbp)
    np.testing.assert_array_equal(discontinuous(back), discontinuous(found))
    assert config == gallery.config(entry, Effort())


def test_effort_overrides():
    assert Effort().sizes([1], [2]) == (1,) and Effort("paper").sizes([1], [2]) == (2,)
    assert Effort(n=(5,)).sizes([1], [2]) == (5,) and Effort(samples=3).count(1, 2) == 3


def test_variance_ratio():
    arrays = {"x_measured": np.array([1.0, 3.0]), "x_predicted": np.array([1.5, 2.5])}
    assert finite_size.ratio(arrays | {"x_limit": np.float64(2.0)}, "x") == pytest.approx(0.25)
