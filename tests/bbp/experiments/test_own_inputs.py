"""Inputs of one's own through sweep, resume, other processes, files, tables and figures."""

import cloudpickle
import numpy as np
import pytest
from matplotlib.figure import Figure

import bbp as package
from bbp.analysis import comparison
from bbp.experiments import models, own
from bbp.files import dataset
from bbp.plots.sweep import figure as compare_figure
from bbp.sweep import PROGRAM
from theory import Network, ParameterError

N = 20


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).standard_normal((100, N)))
    return "x.npy"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    np.save(folder / "x.npy", np.random.default_rng(0).standard_normal((100, N)))
    path = folder / "sweep.h5"
    made = package.sweep(
        inputs=str(folder / "x.npy"), alpha=[1.0, 5.0], samples=4, out=path, processes=1, progress=False
    )
    return made, dataset.open(path)


def test_the_file_has_rows_verdict_and_reason(found):
    for sweep in found:
        assert sweep.n.values.tolist() == [N]
        assert sweep.attrs["inputs"].endswith("x.npy")
        assert sweep.attrs["inputs_source"].startswith(f"100 x {N}, centred, sha256 ")
        kinds, why = sweep.theory_n_verdict.values, sweep.theory_n_why.values
        assert set(kinds.ravel()) <= {"Gaussian", "elliptical", "neither"} and all(map(len, why.ravel()))
        none = kinds == "neither"
        assert np.array_equal(np.isnan(sweep.theory_n_lowest.values), none)
        assert np.isnan(sweep.theory_edge).all() and np.isfinite(sweep.given_lowest).all()
    assert models.of(found[1]) == models.of(found[0])


def test_table_and_figure_say_the_verdict(found):
    text = PROGRAM.experiment({}).table(found[1])
    assert f"100 x {N}, centred" in text
    assert all(f"{kind}" in text for kind in found[1].theory_n_verdict.values.ravel())
    figure = package.plot.draw(found[1])
    assert isinstance(figure, Figure)
    words = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    kinds = set(found[1].theory_n_verdict.values.ravel())
    assert any("neither" in word for word in words) == ("neither" in kinds)


def test_an_array_needs_no_file_and_gives_the_same(found, rows):
    x = np.load(rows)
    inputs = package.inputs(x)
    made = package.sweep(Network(inputs=inputs), alpha=[1.0, 5.0], samples=4, progress=False)
    np.testing.assert_array_equal(made.eigenvalues, found[0].eigenvalues)
    np.testing.assert_array_equal(made.theory_n_verdict, found[0].theory_n_verdict)


def test_changed_rows_are_no_resume(rows, tmp_path):
    options = {"inputs": rows, "alpha": [1.0], "samples": 1, "out": tmp_path / "s.h5", "progress": False}
    package.sweep(**options)
    x = np.load(rows)
    np.save(rows, x + np.eye(100, N))
    own._seen.clear()
    with pytest.raises(ParameterError, match="inputs_source"):
        package.sweep(**options, resume=True)
    with pytest.raises(ParameterError, match="this needs the inputs"):
        models.of(dataset.open(tmp_path / "s.h5")).inputs.take([0])


def test_a_file_goes_to_other_processes_by_its_name(rows):
    text = own.read("inputs", rows)
    packed = cloudpickle.dumps(text)
    assert len(packed) < 500
    assert cloudpickle.loads(packed).entry == text.entry
    held = own.read("inputs", np.load(rows))
    assert cloudpickle.loads(cloudpickle.dumps(held)).entry.take([3]).shape == (1, N)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": [6.0]}, "alpha must be at most 5"),
        ({"alpha": [1.0], "n": 30}, "n must be 20"),
        ({"alpha": [1.0], "covariance": "mp:0.5"}, "covariance must be None"),
        ({"alpha": [1.0], "p_star": 21}, "p_star|p p"),
    ],
)
def test_what_does_not_fit_the_rows_is_refused(rows, options, words):
    with pytest.raises(ParameterError, match=words):
        package.sweep(inputs=rows, samples=1, progress=False, **options)


def test_descents_take_them_without_theory_and_phase_diagrams_do_not(rows):
    found = package.descent(
        inputs=rows, p=1, alpha=[2.0], samples=1, start="random", steps=20, eigenpairs=0, progress=False
    )
    assert found.attrs["inputs"] == rows and np.isfinite(found.loss.values).any()
    with pytest.raises(ParameterError, match="theory along a descent"):
        package.descent(inputs=rows, p=1, alpha=[2.0], samples=1, theory=True, progress=False)
    with pytest.raises(ParameterError, match="without covariance"):
        package.descent(inputs=rows, p=1, alpha=[2.0], samples=1, start="spectral", progress=False)
    with pytest.raises(ParameterError, match="inputs must be left out"):
        package.phase(inputs=rows, progress=False)


def test_a_comparison_shows_theory_with_its_verdict_and_no_other(found):
    compared = comparison.compare(found[1], draws=2, repeats=100)
    kinds = found[1].theory_n_verdict.values
    assert compared.theory_n_verdict.values.tolist() == kinds.tolist()
    figure = compare_figure(compared)
    words = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert not any("not known to hold" in word or "scatter" in word for word in words)
    assert any("neither" in word for word in words) == ("neither" in set(kinds.ravel()))
