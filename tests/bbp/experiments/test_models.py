"""Any model in the programs: options, records, files, refusals."""

import re

import h5py
import numpy as np
import pytest

from bbp.analysis.summary import observables
from bbp.experiments import models
from bbp.files import dataset, variables
from theory import Committee
from theory.checks import ParameterError
from theory.general import ACTIVATIONS, LOSSES
from theory.general.spectrum import solve
from theory.model.network import Network

SWEEP = ["sweep", "--alpha-grid", "2,4", "--n", "20", "--samples", "2"]


@pytest.mark.parametrize(
    "model",
    [
        Committee(2, 1, 0.5),
        Network(a=2.0, noise=0.3),
        Network(p=2, a=2.0, activation="tanh"),
        Network(activation="tanh", teacher_activation="erf", loss="squared"),
        Network(covariance="power:1.2", overlap=0.0),
        Network(overlap=0.4),
    ],
)
def test_a_record_makes_the_same_model(model):
    record = models.record(model)
    assert models.build(record) == model
    plain = model.is_committee
    assert (set(record) == {"p", "p_star", "a"}) == plain


def test_names_of_activations_and_losses_are_those_of_the_help(bbp):
    """One list, read whatever the capitals: He2, he2, "Softened ReLU"."""
    words = set(re.findall(r"\w+", bbp("sweep", "--help").out))
    assert {*ACTIVATIONS, *LOSSES} <= words
    for name, written in {
        "he2": "He2",
        "he3": "HE3",
        "softened_relu": "softened-ReLU",
        "tanh": "Tanh",
    }.items():
        assert models.activation("activation", written) == name
        assert Network(p=2, activation=written, loss="squared").record()["activation"] == name
    assert models.loss("loss", "Squared") == "squared"


def test_the_overlap_of_theory_is_that_of_the_samples():
    """With the teacher's directions, where students and teacher share an outlier too (tests/sims has it against samples)."""
    model, alpha = Network(a=50.0, activation="tanh"), np.array([1.0, 6.0])
    found, along = solve(model, 6.0), models.theory_along(model, alpha)
    assert 0 < found.teacher_share[0] < 0.5
    np.testing.assert_allclose(
        along["overlap"], [np.nan, found.overlaps[0] * found.teacher_share[0]], rtol=1e-8
    )
    np.testing.assert_allclose(
        along["student_share"][1], found.overlaps[0] * found.student_share[0], rtol=1e-8
    )


@pytest.mark.parametrize(
    ("options", "kind", "held"),
    [
        pytest.param(["--noise", "0.3", "--a", "2"], "discontinuous", {"noise": 0.3}, marks=pytest.mark.slow),
        (["--activation", "tanh", "--a", "2"], "continuous", {"activation": "tanh"}),
        pytest.param(["--loss", "squared"], "no edge", {"loss": "squared"}, marks=pytest.mark.slow),
        pytest.param(
            ["--covariance", "levels:0.4@0.667,2.2@0.333", "--a", "0.5"],
            "continuous",
            {},
            marks=pytest.mark.slow,
        ),
        pytest.param(["--overlap", "0.4"], "discontinuous", {"overlap": 0.4}, marks=pytest.mark.slow),
    ],
)
def test_sweeps_of_networks(bbp, tmp_path, options, kind, held):
    out = tmp_path / "s.h5"
    said = bbp(*SWEEP, *options, "--out", out)
    assert said.code == 0, said.err
    sweep = dataset.open(out)
    assert sweep.kind == kind and np.all(sweep.status == variables.DONE)
    assert np.isnan(sweep.alpha_bbp) == (kind == "no edge")
    with h5py.File(out) as file:
        for name, value in held.items():
            assert file.attrs[name] == value
        assert file["theory/teacher_share"].shape == (2,) and "student_shares" in file
    again = bbp(*SWEEP, *options, "--out", out)
    assert again.code == 0  # it is finished, and of the same model
    other = bbp(*SWEEP, "--out", out)
    assert other.code == 2 and "holds another sweep" in other.err
    assert bbp("plot", out, "--out", tmp_path / "s.png").code == 0
    assert bbp("compare", out, "--out", tmp_path / "c.png", "--repeats", "100").code == 0
    assert bbp("info", out).code == 0


def test_eigenvalues_of_a_file_are_levels(bbp, tmp_path):
    (tmp_path / "sigma.txt").write_text("0.5 0.5, 1.5\n1.5")
    out = tmp_path / "s.h5"
    assert bbp(*SWEEP, "--covariance", f"file:{tmp_path / 'sigma.txt'}", "--out", out).code == 0
    assert models.of(dataset.open(out)).covariance.spec == "levels:0.5@0.5,1.5@0.5"


def test_a_configuration_file_names_the_model(bbp, tmp_path):
    (tmp_path / "c.toml").write_text('noise = 0.3\na = 2.0\nalpha_grid = "2,4"\nn = 20\nsamples = 1\n')
    assert bbp("sweep", "--config", tmp_path / "c.toml", "--out", tmp_path / "s.h5").code == 0
    assert models.of(dataset.open(tmp_path / "s.h5")) == Network(a=2.0, noise=0.3)


def test_descents_and_phases_of_networks(bbp, tmp_path):
    words = [
        "--p",
        "1",
        "--alpha-grid",
        "4",
        "--n",
        "20",
        "--samples",
        "2",
        "--steps",
        "40",
        "--eigenpairs",
        "0",
    ]
    said = bbp("descent", *words, "--activation", "tanh", "--a", "2", "--out", tmp_path / "d.h5")
    assert said.code == 0 and "start random" in said.out and "start hessian" in said.out, said.err
    assert "start spectral" not in said.out
    grid = ["--p", "1", "--a-grid", "1,2", "--at-a", "1", "--widths", "1", "--out", tmp_path / "p.h5"]
    assert bbp("phase", *grid, "--noise", "0.3").code == 0
    with h5py.File(tmp_path / "p.h5") as file:
        assert np.all(file["alpha_bbp"][()] > 1)


@pytest.mark.slow
def test_phases_of_students_that_mix(bbp, tmp_path):
    grid = ["--p", "2", "--a-grid", "2", "--at-a", "2", "--widths", "1", "--out", tmp_path / "mixed.h5"]
    assert bbp("phase", *grid, "--activation", "tanh").code == 0
    with h5py.File(tmp_path / "mixed.h5") as file:
        assert abs(file["alpha_bbp"][0, 0] - 3.48473) < 1e-4


def test_eigenvalues_of_a_file_with_a_mark_comments_and_a_home(bbp, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "sigma.txt").write_bytes("\ufeff# eigenvalues\n0.5, 0.5 # of Sigma\n2 1\n".encode())
    assert models.inputs("covariance", "file:~/sigma.txt") == "levels:0.5@0.5,1@0.25,2@0.25"


def test_a_covariance_that_samples_do_not_have(bbp, tmp_path, untimed):
    words = "sweep --alpha-grid 2 --covariance power:3 --n 40 --dry-run --out".split()
    told = bbp(*words, tmp_path / "x.h5")
    assert told.code == 0 and "the eigenvalues drawn differ from the law that theory is for by" in told.err
    assert "of its eigenvalues is 0" not in told.err
    for law, share in (("mp:100", "0.99"), ("levels:0@0.5,2@0.5", "0.5"), ("mp:0.5", "")):
        words = f"sweep --covariance {law} --alpha-grid 2 --n 100 --dry-run --out".split()
        said = bbp(*words, tmp_path / "y.h5").err
        assert f"a share {share} of its eigenvalues is 0" in said if share else "eigenvalues is 0" not in said
    lost = bbp(
        "sweep", "--covariance", "levels:0.9@0.996,25.9@0.004", "--n", "100", "--out", tmp_path / "x.h5"
    )
    assert lost.code == 2 and "for no coordinate of a sample at N = 100: N must be 250 or more" in lost.err


def test_readouts_and_biases_in_programs(bbp, tmp_path, monkeypatch):
    """The sweep file holds them as text; theory beside samples is that of the network, q2 that of the lowest vector alone."""
    known, real = {}, models.theory_along  # by points it takes a second: once for each model

    def recalled(model, alpha):
        key = model, alpha.tobytes()
        return known[key] if key in known else known.setdefault(key, real(model, alpha))

    monkeypatch.setattr(models, "theory_along", recalled)
    monkeypatch.setattr(models, "transition", lambda model: (np.nan, "no edge"))  # by points it takes seconds
    options = "--p 2 --activation tanh --loss squared --readout=1,-0.5 --bias 0.2,0 --alpha-grid 4".split()
    path = tmp_path / "s.h5"
    assert bbp(*SWEEP, *options, "--out", str(path)).code == 0
    model = Network(2, activation="tanh", loss="squared", readout=(1, -0.5), bias=(0.2, 0))
    found = dataset.open(path)
    assert models.of(found) == model
    assert (found.readout, found.bias) == ("1.0,-0.5", "0.2,0.0")
    np.testing.assert_allclose(found.theory_edge, models.theory_along(model, np.array([4.0]))["edge"])
    np.testing.assert_array_equal(observables(found).overlap, found.overlaps[..., 0])
    refused = bbp(*SWEEP, *options[2:], "--out", str(tmp_path / "t.h5"))
    assert refused.code == 2 and "readout must be one number for each of 1 students" in refused.err
    with pytest.raises(ParameterError, match="readout must be a number for each student"):
        models.student_numbers("readout", "1,x")
