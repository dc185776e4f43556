"""`bbp phase`: the file against the theory, its layout for other readers, bad input."""

import json
import math

import numpy as np
import pytest
import xarray

from bbp import phase, plot
from bbp.analysis.phase import discontinuous, widths
from bbp.experiments import phase as experiment
from bbp.exports.tables import tables
from bbp.files import dataset
from theory import Threshold, finite, minima
from theory.checks import NotConverged
from theory.exact.transition import bbp_threshold, critical_normalisation, critical_width
from theory.general.spectrum import alpha_zero, threshold
from theory.model import Committee
from theory.model.network import Network
from theory.path import TransitionTime

OPTIONS = ["--p", "inf,1,8", "--a-grid", "0.01,0.5,2", "--at-a", "1", "--widths", "1,4,inf"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small phase file made by the command."""
    path = tmp_path_factory.mktemp("phase") / "deeper" / "phase.h5"
    assert phase.main([*OPTIONS, "--out", str(path)]) == 0
    return path


def test_every_number_is_the_theory_s(made):
    found = dataset.open(made)
    # p = 1, a = 2: the jump is large, the continuation has no root; the overlap estimate exists
    assert math.isnan(found.alpha_0_continuation[0, 2]) and discontinuous(found)[0, 2]
    assert 0 < found.alpha_0_overlap[0, 2] < found.alpha_bbp[0, 2]
    maps = (found, widths(found))
    assert [m.p.values.tolist() for m in maps] == [[1, 8, math.inf], [1, 4, math.inf]]
    for m in maps:
        for (row, p), (column, a) in ((x, y) for x in enumerate(m.p.values) for y in enumerate(m.a.values)):
            model = Committee(p, 1, a)
            expected = bbp_threshold(model)
            assert float(m.alpha_bbp[row, column]) == pytest.approx(expected.alpha, rel=1e-12)
            assert m.kind[row, column] == expected.kind
            assert float(m.jump[row, column]) == pytest.approx(expected.jump, rel=1e-10)
            for method in ("overlap", "continuation"):
                value, root = float(m[f"alpha_0_{method}"][row, column]), alpha_zero(model, method=method)
                assert math.isnan(value) if root is None else value == pytest.approx(root, rel=1e-9)


def run(bbp, path, *words):
    """The file of `bbp phase` with these options, and what it printed."""
    said = bbp("phase", *words, "--out", path)
    return dataset.open(path), said


def test_maps_of_networks_have_every_width_and_kind(bbp, tmp_path):
    """p = inf in rows of its own; kinds without a threshold in words, in file and table; nothing is said of a_c."""
    found, said = run(
        bbp, tmp_path / "n.h5", "--noise", "0.3", "--p", "1,inf", "--a-grid", "0.5,3", "--widths", "2"
    )
    assert (
        said.code == 0
        and "noise=0.3" in said.out
        and "every a" not in said.out
        and "(continuation)" not in said.out
    )
    for row, p in enumerate(found.p.values):
        expected = [threshold(Network(p=p, a=a, noise=0.3)) for a in found.a.values]
        np.testing.assert_allclose(found.alpha_bbp[row], [each.alpha for each in expected], rtol=1e-12)
        assert found.kind[row].values.tolist() == [each.kind for each in expected]
    found, said = run(
        bbp, tmp_path / "h.h5", "--activation", "he3", "--loss", "squared", "--p", "1", "--widths", "1"
    )
    assert said.code == 0 and "no edge" in said.out and found.kind.values.tolist() == [["no edge"]]
    assert found.a.values.tolist() == found.at_a.values.tolist() == [1.0]  # the only one: this loss has none
    assert bbp("plot", tmp_path / "h.h5", "--out", tmp_path / "h.png").code == 0


def test_defaults_of_networks_are_models_that_exist(bbp, untimed):
    """Whatever the options of a model, those not given are of models that can be built."""
    for words in ("--activation tanh", "--activation erf --loss squared", "--overlap 0.4", "--covariance mp:0.5",
                  "--activation tanh --teacher-activation softplus --noise 0.2"):  # fmt: skip
        said = bbp("phase", *words.split(), "--dry-run")
        assert said.code == 0, said.err


def test_a_threshold_that_fails_is_recorded_and_said(bbp, tmp_path, monkeypatch):
    """The other rows are kept, the reason is in the file and in the message, and the exit code is 1."""
    whole = experiment.thresholds

    def broken(p, *rest):
        if p == [8.0]:
            raise NotConverged("no root in sight")
        return whole(p, *rest)

    monkeypatch.setattr(experiment, "thresholds", broken)
    found, said = run(bbp, tmp_path / "b.h5", *OPTIONS, "--processes", "1")
    assert said.code == 1 and "no root in sight" in said.err
    assert found.kind[1].values.tolist() == [""] * 3 and np.isfinite(found.alpha_bbp[[0, 2]]).all()
    assert all("no root in sight" in reason for reason in found.reason[1].values)


def test_right_values(made, reference):
    """The table of right values where it holds these models: thresholds to 1e-9."""
    found = dataset.open(made)
    compared = 0
    for row in reference["thresholds"]:
        at = (found.p.values == float(row["p"])), (found.a.values == row["a"])
        if row["p_star"] == 1 and at[0].any() and at[1].any():
            index = np.argmax(at[0]), np.argmax(at[1])
            assert float(found.alpha_bbp[index]) == pytest.approx(row["alpha"], rel=1e-9)
            assert found.kind[index] == row["kind"]
            compared += 1
    assert compared == 4


def test_tricritical_points(made):
    found = dataset.open(made)
    np.testing.assert_allclose(found.a_c[:2], [critical_normalisation(p, 1) for p in (1, 8)], rtol=1e-12)
    assert (found.a_c[2], found.alpha_c[2]) == (0.0, 0.5)
    for p, a_c, alpha_c in zip(found.p.values[:2], found.a_c.values, found.alpha_c.values, strict=False):
        assert alpha_c == pytest.approx(bbp_threshold(Committee(p, 1, a_c)).alpha, rel=1e-9)
    assert found.p_c.values.tolist() == [critical_width(a, 1) for a in found.a.values]


def test_xarray_opens_the_file_with_coordinates_and_it_says_where_it_comes_from(made):
    with xarray.open_dataset(made, engine="h5netcdf") as data:
        assert data.alpha_bbp.dims == ("p", "a") and data.a_c.dims == ("p",) and data.p_c.dims == ("a",)
        assert float(data.alpha_bbp.sel(p=math.inf, a=2.0)) == pytest.approx(1.5, rel=1e-12)
        assert str(data.kind.sel(p=1, a=0.01).values) == "continuous"
        assert data.attrs["p_star"] == 1
    with xarray.open_dataset(made, engine="h5netcdf", group="widths") as data:
        assert data.alpha_bbp.sizes == {"width": 3, "at_a": 1}
    with xarray.open_datatree(made, engine="h5netcdf") as tree:
        assert tree["widths"].alpha_bbp.sel(width=4, at_a=1.0) > 0
    found = dataset.open(made)
    given = {"p": [1, 8, "inf"], "a_grid": [0.01, 0.5, 2.0], "at_a": [1.0], "widths": [1, 4, "inf"]}
    assert dataset.config(found) == given | {"p_star": 1, "n": [], "draws": 100, "seed": 0}
    assert "numpy" in json.loads(found.attrs["versions"])
    assert found.attrs["finished"] == 1


def test_the_same_command_finds_its_file_and_shows_every_width(made, capsys):
    before = made.read_bytes()
    assert phase.main([*OPTIONS, "--out", str(made)]) == 0
    out, err = capsys.readouterr()
    assert "already" in err and "p = 1, p* = 1: continuous below a_c = 1.1087555" in out
    assert "p = inf, p* = 1: discontinuous at every a" in out
    assert "1.690416824  discontinuous" in out  # p = 1, a = 2
    assert made.read_bytes() == before


def test_another_configuration_is_refused_unless_forced(made, tmp_path, capsys):
    path = tmp_path / "phase.h5"
    path.write_bytes(made.read_bytes())
    other = ["--p", "2", *OPTIONS[2:], "--out", str(path)]
    assert phase.main(other) == 2
    assert "p 1,8,inf there, 2 here" in capsys.readouterr().err
    assert path.read_bytes() == made.read_bytes()
    assert phase.main([*other, "--force"]) == 0
    assert dataset.open(path).p.values.tolist() == [2]


def test_what_finite_n_cannot_do_fails_and_the_rest_is_kept(tmp_path, capsys):
    """p = 512 has no bulk in N = 100 dimensions, p = inf has none, and p_c at a = 1e-13 is beyond what is counted."""
    out = tmp_path / "phase.h5"
    words = "--p 1,512,inf --a-grid 1e-13,1 --at-a 1 --widths 1 --n 100 --draws 4".split()
    for _ in range(2):
        assert phase.main([*words, "--out", str(out)]) == 1
        said, found = capsys.readouterr(), dataset.open(out)
        assert "1 points failed, the first because" in said.err and "--retry-failed" in said.err
        assert "p = inf has no threshold at finite N" in said.out
    assert np.isfinite(found.alpha_bbp_n[0, :, 0]).values.tolist() == [True, False, False]
    assert [bool(text) for text in found.alpha_bbp_n_reason[0, :, 0].values] == [False, True, False]
    np.testing.assert_array_equal(found.p_c, [np.nan, 2])


def test_finite_n_thresholds_are_the_theory_s(tmp_path, capsys):
    path = tmp_path / "finite.h5"
    options = "--p 1,inf --a-grid 0.5 --at-a 0.5 --widths 1,2 --n 200,100 --draws 4".split()
    assert phase.main([*options, "--seed", "3", "--out", str(path)]) == 0
    found = dataset.open(path)
    assert found.n.values.tolist() == [100, 200] and found.finite_a.values.tolist() == [0.5]
    expected = finite.threshold(Committee(1, 1, 0.5), 200, draws=4, seed=3)
    assert float(found.alpha_bbp_n[1, 0, 0]) == pytest.approx(expected.alpha, rel=1e-12)
    assert float(found.alpha_bbp_n_error[1, 0, 0]) == pytest.approx(expected.error, rel=1e-9)
    assert np.isnan(found.alpha_bbp_n[:, 1]).all()  # p = inf has no finite N
    assert f"{expected.alpha:.6f}" in capsys.readouterr().out
    panel = plot.draw(path).axes[-1]
    np.testing.assert_array_equal(panel.containers[0].lines[0].get_ydata(), found.alpha_bbp_n[:, 0, 0])


def test_bbp_times_are_those_of_every_cell(tmp_path, capsys, monkeypatch):
    """Which is which: the theory is replaced by a number that says where it was asked."""

    def asked(model, alpha, samples, seed):
        return TransitionTime(alpha + 10 * model.a, "lost", 0.1 * seed, 3.0, 1.0)

    monkeypatch.setattr(experiment, "bbp_time", asked)
    path = tmp_path / "times.h5"
    options = ["--p", "1,inf", "--a-grid", "0.5", "--at-a", "0.5,1", "--widths", "1", "--time", "1.5,2,3"]
    assert phase.main([*options, "--seed", "3", "--out", str(path)]) == 0
    found = dataset.open(path)
    assert found.bbp_time.dims == ("p", "alpha", "at_a")
    expected = [[6.5, 11.5], [7, 12], [8, 13]]
    np.testing.assert_allclose(found.bbp_time[0], expected, rtol=1e-12)
    np.testing.assert_allclose(found.bbp_time_error[0], 0.3)
    assert np.isnan(found.bbp_time[1]).all() and set(found.bbp_time_kind.values.ravel()) == {"lost", ""}
    assert "BBP time" in capsys.readouterr().out
    panel = plot.draw(path).axes[-1]
    np.testing.assert_allclose(panel.containers[0].lines[0].get_ydata(), [11.5, 12, 13])


def test_minima_are_those_of_every_cell(tmp_path, capsys, monkeypatch):
    """Which is which in file, tables and panel: the theory is replaced by numbers that say where it was asked."""

    def counted(model, alpha):
        at = alpha + 10 * model.a
        return minima.Minima(
            at, "marginal" if model.a < 1 else "unresolved", 0.1, 0.2, 0.3, 0.4, alpha - 5, 0.5
        )

    monkeypatch.setattr(experiment, "most_numerous", counted)
    monkeypatch.setattr(experiment, "reach", lambda model, alpha, found: found.complexity / 100)
    monkeypatch.setattr(
        experiment,
        "minima_threshold",
        lambda model: Threshold(7 + model.a, "discontinuous", 0.25, error=0.125),
    )
    path = tmp_path / "minima.h5"
    options = "--p 1,2 --a-grid 0.5 --at-a 0.5,1 --widths 1 --minima 4,6 --processes 1".split()
    assert phase.main([*options, "--out", str(path)]) == 0
    found, said = dataset.open(path), capsys.readouterr().out
    assert found.minima_complexity.dims == ("minima_alpha", "at_a") and found.alpha_minima.dims == ("at_a",)
    np.testing.assert_allclose(found.minima_complexity, [[9, 14], [11, 16]])
    np.testing.assert_allclose(found.minima_reach, [[0.09, 0.14], [0.11, 0.16]])
    np.testing.assert_allclose(found.minima_instability, [[-1, -1], [1, 1]])
    numbers = "overlap", "loss", "force", "complexity_error"
    assert [float(found[f"minima_{name}"][0, 0]) for name in numbers] == [0.1, 0.2, 0.3, 0.5]
    assert found.minima_kind.values.tolist() == [["marginal", "unresolved"]] * 2
    assert (
        found.alpha_minima.values.tolist() == [7.5, 8]
        and found.alpha_minima_error.values.tolist() == [0.125] * 2
    )
    assert found.alpha_minima_kind.values.tolist() == ["discontinuous"] * 2
    assert found.alpha_minima_jump.values.tolist() == [0.25] * 2
    line = next(line for line in said.splitlines() if "7.5000" in line)
    assert line.split()[:3] == [
        "0.5",
        f"{bbp_threshold(Committee(1, 1, 0.5)).alpha:.6f}",
        f"{bbp_threshold(Committee(1, 1, 0.5)).alpha:.6f}",
    ]
    panel = plot.draw(path).axes[-1]
    np.testing.assert_array_equal(panel.lines[0].get_ydata(), found.minima_complexity[:, 1])
    np.testing.assert_array_equal(panel.lines[1].get_ydata(), found.minima_complexity[1:, 1])
    assert {"minima", "minima_thresholds"} <= set(tables(found))
