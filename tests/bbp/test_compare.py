"""The comparison: pooling, observables, table, file and figure, on made-up sweeps whose answers are known."""

import re

import h5py
import numpy as np
import pytest
import xarray as xr

import bbp as package
import theory.finite
from bbp import join
from bbp.analysis import comparison as comparison_mod
from bbp.analysis.comparison import COLUMNS, THEORY_N, compare, table
from bbp.analysis.summary import observables
from bbp.compare import main
from bbp.console.messages import FileError
from bbp.experiments import models
from bbp.exports.tables import tables
from bbp.files import dataset, product, variables
from bbp.plots import style
from bbp.plots import sweep as sweep_plots
from bbp.plots.sweep import figure as compare_figure
from tests.bbp.conftest import made_up_sweep
from theory.checks import ParameterError
from theory.exact.outliers import teacher_branch
from theory.exact.transition import bbp_threshold
from theory.model import Committee
from theory.model.network import Network

MODEL = Committee(1, 1, 0.5)
ALPHA = np.array([1.0, 1.2, 1.3796, 1.5, 1.65])


def made_up(n=(50, 100), alpha=ALPHA, samples=40, seed=0, model=MODEL):
    """A sweep of numbers drawn from known laws: lowest = edge + 2 N^(-2/3) + noise, phi logistic, q2 uniform noise."""
    rng, alpha, sizes = np.random.default_rng(seed), np.asarray(alpha, dtype=float), np.array(n, dtype=float)
    sweep = made_up_sweep(model, n, alpha, samples, seed, whole=True)
    branch, threshold = teacher_branch(model, alpha), bbp_threshold(model)
    shape = sweep.status.shape
    shift = 2 * sizes[:, None, None] ** (-2 / 3) + 0.01 * rng.standard_normal(shape)
    values = (branch.edge[None, :, None] + shift)[..., None] + 0.1 * np.arange(sweep.eigenpair.size)
    phi = 1 / (1 + np.exp(-(alpha - threshold.alpha)[None, :, None] * sizes[:, None, None] / 10))
    rank = np.where(rng.random(shape) < phi, 0.0, 7.0)
    overlaps = np.broadcast_to(rng.uniform(0.2, 0.4, shape)[..., None], values.shape).copy()
    drawn = {"eigenvalues": values, "overlaps": overlaps, "max_overlap_rank": rank}
    found = {name: (sweep[name].dims, each) for name, each in drawn.items()}
    found |= {f"theory_{name}": ("alpha", getattr(branch, name)) for name in ("edge", "outlier", "overlap")}
    about = {"alpha_bbp": threshold.alpha, "kind": threshold.kind, "config": "{}"}
    return sweep.drop_dims("unit").assign(found).assign_attrs(about)


def test_observables_leave_out_what_failed_or_is_unknown():
    sweep = made_up()
    sweep.status[0, 0, 0] = variables.FAILED
    sweep.max_overlap_rank[0, 0, 1] = np.nan
    found = observables(sweep)
    assert np.isnan(found.lowest[0, 0, 0]) and np.isnan(found.phi[0, 0, 0]) and np.isnan(found.phi[0, 0, 1])
    assert np.isfinite(found.lowest[0, 0, 1])
    assert float(found.gap[0, 0, 2]) == pytest.approx(0.1)


def test_joining_unites_sizes_and_drops_repeated_draws():
    small, large = made_up(n=(50,)), made_up(n=(100,), alpha=ALPHA[1:])
    again, other = made_up(n=(50,)), made_up(n=(50,), seed=1)
    merged = join([small, large, again, other])
    assert merged.n.values.tolist() == [50, 100] and merged.alpha.values.tolist() == ALPHA.tolist()
    done = (merged.status == variables.DONE).sum("sample").values
    assert done[0].tolist() == [80] * 5 and done[1].tolist() == [0, 40, 40, 40, 40]
    np.testing.assert_array_equal(merged.eigenvalues[0, :, :40], small.eigenvalues[0])
    np.testing.assert_array_equal(merged.theory_edge, small.theory_edge)
    assert join([small, made_up(model=Committee(2, 1, 0.3), alpha=[2.0])]).sizes["model"] == 2
    assert (
        merged.seed.values.tolist() == [0] * 40 + [1] * 40 and merged.draw.values.tolist() == [*range(40)] * 2
    )
    assert "seed" not in merged.attrs and join([small, large, again]).attrs["seed"] == 0
    np.testing.assert_array_equal(join([merged, other]).eigenvalues, merged.eigenvalues)


def test_models_that_name_different_things_are_joined_and_told_apart_again(tmp_path):
    """Activation, covariance, noise, an observable of one's own: of the other models as if nothing had been said of it."""
    plain = made_up(n=(50,), samples=3)
    own = models.record(Network(1, 1, 2.0, activation="erf", covariance="mp:0.5", noise=0.1))
    measured = plain.eigenvalues[..., 0] ** 2
    measured.attrs = {"observable": "mine.py:square", "source": "0"}
    other = plain.assign_attrs(own).assign(square=measured)
    for at, parts in enumerate(([other, plain], [plain, other])):
        found = join(parts)
        dataset.write(tmp_path / "both.h5", found)
        for held in (found, dataset.open(tmp_path / "both.h5")):
            assert held.activation.values.tolist() == ["erf", "quadratic"][:: 1 - 2 * at]
            assert held.noise.values.tolist() == [0.1, 0.0][:: 1 - 2 * at]
            np.testing.assert_array_equal(held.square[at], measured)
            assert held.square[1 - at].isnull().all()
            for part, again in zip(parts, product.split(held), strict=True):
                assert models.of(again) == models.of(part) and set(again) == set(part)
            assert join(product.split(held)).sizes == held.sizes
    turned = other.assign_attrs(overlap=0.5, noise=0.0)
    whole = tables(join([turned, plain.assign(theory_n_lowest=plain.eigenvalues[..., 0, 0])]))
    averages = whole["averages"]
    assert averages.activation.tolist() == ["erf"] * 5 + ["quadratic"] * 5
    assert averages.model_overlap.tolist() == [0.5] * 5 + [0.0] * 5 and "overlap" in averages
    assert whole["theory_n"].activation.unique().tolist() == ["quadratic"]
    same = join([plain, plain.assign(square=measured)])  # of one model and its draws: measured once
    np.testing.assert_array_equal(same.square, measured)
    with pytest.raises(ParameterError, match="of different sources"):
        join([other, plain.assign(square=measured.assign_attrs(source="1"))])


def test_what_would_mix_silently_is_not_joined():
    small = made_up(n=(50,), samples=3)
    for parts, message in (
        ([], "no result to join"),
        ("a.h5", "parts must be a list"),
        (small, "parts must be a list"),
        (None, "parts must be a list"),
        ([small.assign_attrs(prng="one"), small.assign_attrs(prng="two")], "different prng"),
        ([small.assign_attrs(dtype="float32"), small.assign_attrs(dtype="float64")], "different dtype"),
        (
            [small, small.assign(eigenvalues=small.eigenvalues + 1)],
            "disagree about one draw: eigenvalues at n = 50",
        ),
        ([small.drop_dims("sample")], "only samples are joined"),
    ):
        with pytest.raises(ParameterError, match=message):
            join(parts)


@pytest.fixture(scope="module")
def comparison():
    return compare(made_up(n=(50, 100, 200)), draws=3, repeats=200)


def test_comparison_finds_what_was_put_in(comparison):
    """Crossing at alpha_BBP within 4 sigma; finite-N theory near theory."""
    found = comparison_mod.crossings(comparison)
    assert [c.sizes for c in found] == [(50, 100), (100, 200)]
    for crossing in found:
        assert abs(crossing.alpha.sigmas(comparison.alpha_bbp)) < 4
    assert comparison.alpha_zero_n.values.tolist() == [50, 100, 200]
    assert np.all(np.abs(comparison.theory_n_lowest[2] - comparison.theory_edge) < 0.5)


def test_file_round_trip_and_xarray(comparison, tmp_path):
    path = tmp_path / "compare.h5"
    dataset.write(path, comparison)
    xr.testing.assert_identical(dataset.open(path).drop_attrs(deep=False), comparison.drop_attrs(deep=False))
    with xr.open_dataset(path, engine="h5netcdf") as data:
        assert data["phi_group"].dims == data["theory_n_phi_group"].dims == ("n", "alpha")


def test_files_that_call_finite_n_theory_quenched_open_as_before(comparison, tmp_path):
    path = tmp_path / "compare.h5"
    dataset.write(path, comparison)
    with h5py.File(path, "r+") as file:
        for name in [name for name in file if name.startswith("theory_n_")]:
            file.move(name, name.replace("theory_n_", "quenched_").replace("phi_group", "present"))
        assert "quenched_present" in file and "theory_n_phi_group" not in file
    back = dataset.open(path)
    for name in THEORY_N:
        np.testing.assert_array_equal(back[f"theory_n_{name}"], comparison[f"theory_n_{name}"])
    columns = set(tables(back)["observables"])
    assert {"theory_n_lowest", "theory_n_phi_group"} <= columns and not any("quenched" in c for c in columns)


def test_figure_carries_the_data(comparison):
    figure = compare_figure(comparison)
    assert len(figure.axes) == 4
    points = figure.axes[0].containers[0].lines[0].get_ydata()
    np.testing.assert_array_equal(points, comparison.lowest[0])
    handles, labels = figure.axes[0].get_legend_handles_labels()
    line = handles[labels.index("theory, colour of its $N$")]
    assert line.get_color() == style.GREY  # the colour of no N


def test_several_models_go_into_one_figure_and_are_told_apart(tmp_path, capsys):
    source = tmp_path / "two.h5"
    both = [made_up(samples=4), made_up(model=Committee(2, 1, 0.3), alpha=[2.0])]
    dataset.write(source, product.combined(both))
    words = [str(source), "--draws", "0", "--repeats", "100", "-q"]
    assert main([*words, "--out", str(tmp_path / "two.png")]) == 0
    assert capsys.readouterr().out.count(", N = infinity\nlowest eigenvalue") == 2
    named = {str(k): compare(one, draws=0, repeats=20) for k, one in enumerate(both)}
    figure = compare_figure(sweep_plots.told_apart(named))
    labels = {box.get_label() for box in figure.axes[1].containers}
    models_named = ("$p = 1$, $a = 0.5$", "$p = 2$, $a = 0.3$")
    assert labels == {f"{name}: $N = {n}$" for name in models_named for n in both[0].n.values}


def test_program(tmp_path, capsys):
    source, picture, numbers = tmp_path / "sweep.h5", tmp_path / "fig.png", tmp_path / "numbers.h5"
    dataset.write(source, made_up())
    words = [str(source), "--draws", "0", "--repeats", "100", "--out", str(picture)]
    assert main([*words, "--save", str(numbers), "-q"]) == 0
    assert "crossings of phi" in capsys.readouterr().out
    assert picture.read_bytes()[:4] == b"\x89PNG" and "theory_n_lowest" not in dataset.open(numbers)
    before = picture.read_bytes()
    assert main([str(source), "--out", str(picture)]) == 2
    assert picture.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["TWO", "--save", "fig.h5"], "holds 2 models|hold 2 models"),
        (["EMPTY"], "no finished sample"),
    ],
)
def test_bad_use(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep = made_up(samples=4)
    dataset.write("SWEEP", sweep)
    dataset.write("TWO", product.combined([sweep, made_up(model=Committee(2, 1, 0.3), alpha=[2.0])]))
    dataset.write("EMPTY", sweep.assign(status=0 * sweep.status))
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and any(part in error for part in message.split("|"))
    assert not (tmp_path / "fig.png").exists()


def test_from_python_too_a_file_holds_the_numbers_of_one_model(tmp_path):
    """It held the first one's, and nothing was said of the other; without a file there is one result a model."""
    two, out = tmp_path / "two.h5", tmp_path / "numbers.h5"
    dataset.write(two, product.combined([made_up(), made_up(model=Committee(2, 1, 0.3), alpha=[2.0])]))
    how = {"draws": 0, "repeats": 100, "progress": False}
    with pytest.raises(FileError, match=r"hold 2 models .* a file of numbers holds one"):
        package.compare(two, out=out, **how)
    assert not out.exists()
    assert [models.of(one).p for one in package.compare(two, **how)] == [1, 2]


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """A directory with a sweep of 2 x 5 points, and the options of its comparison in ten units."""
    monkeypatch.chdir(tmp_path)
    dataset.write("sweep.h5", made_up())
    return ["sweep.h5", "--draws", "10", "--repeats", "100", "--block", "1", "-q"]


def test_a_finished_comparison_is_shown_and_that_of_other_samples_refused(drawn, tmp_path, capsys):
    words = [*drawn[:-1], "--save", "numbers.h5"]
    assert main(words) == 0
    before = (tmp_path / "numbers.h5").read_bytes()
    dataset.write("copy.h5", made_up())
    assert main(["copy.h5", *words[1:]]) == 0  # the same samples under another name
    assert "already finished: nothing to compute" in capsys.readouterr().err
    dataset.write("sweep.h5", made_up(seed=3))
    assert main(words) == 2
    assert "holds another comparison: data" in capsys.readouterr().err
    assert (tmp_path / "numbers.h5").read_bytes() == before
    assert main([*words, "--force", "--dry-run"]) == 0
    assert "10 units, 10 points" in capsys.readouterr().out


def test_draws_that_fail_are_told(drawn, monkeypatch, capsys):
    def broken(*_, **__):
        raise RuntimeError("no draws today")

    monkeypatch.setattr(theory.finite, "law", broken)
    assert main([*drawn, "--save", "numbers.h5"]) == 1
    assert "10 points failed, the first because: RuntimeError: no draws today" in capsys.readouterr().err
    assert np.isnan(dataset.open("numbers.h5").theory_n_lowest).all()
    monkeypatch.undo()


def test_processes_without_a_file_are_threads(drawn, capsys, monkeypatch):
    """What is printed is the same whatever their number, which the law is told."""
    threads, law = [], theory.finite.law

    def spied(*args, **options):
        threads.append(options["threads"])
        return law(*args, **options)

    monkeypatch.setattr(theory.finite, "law", spied)
    printed = []
    for number in ("1", "3"):
        assert main([drawn[0], "--draws", "4", "--repeats", "100", "--processes", number]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and sorted(set(threads)) == [1, 3]


def network_sweep():
    """The made-up sweep under the name of a network with another loss, of which finite-N theory says nothing."""
    return made_up().assign_attrs(models.record(Network(loss="squared")))


def test_of_a_network_nothing_empty_is_shown():
    """Neither columns nor a legend of finite-N theory, and a line that says why."""
    found = compare(network_sweep(), draws=3, repeats=100)
    text = table(found)
    assert "theory_N" not in text and "phi_N" not in text and "quadratic committee only" in text
    assert "no root" not in text
    heads = [line.split() for line in text.splitlines() if line.lstrip().startswith("alpha runs")]
    assert heads and all(
        head == ["alpha", "runs", "lowest", "edge", "outlier", "q2", "q2inf", "phi"] for head in heads
    )
    legend = [entry.get_text() for entry in compare_figure(found).legends[0].get_texts()]
    assert not any("colour of its $N$" in entry for entry in legend)


def test_table_and_legend_of_a_committee_have_finite_n_theory(comparison):
    text = table(comparison)
    for words in ("alpha_BBP = 1.37962 (continuous)", "N = 200", "crossings of phi", "alpha_0:"):
        assert words in text
    assert text.count("theory_N") == 6 and "committee only" not in text
    assert max(map(len, text.splitlines())) <= COLUMNS
    narrow = table(
        comparison, 60
    ).splitlines()  # of a terminal of 60 columns: rows in two blocks, and no number is lost
    assert max(map(len, narrow)) <= 60 and sum(line.startswith(" alpha") for line in narrow) == 6
    for line in text.splitlines():
        if re.match(r" +[\d.]+ +\d+ ", line):
            assert all(word in " ".join(narrow).split() for word in line.split())
    legend = [entry.get_text() for entry in compare_figure(comparison).legends[0].get_texts()]
    assert any("colour of its $N$" in entry for entry in legend)


@pytest.mark.parametrize(
    ("found", "high", "says"),
    [
        (0.74, 1.2, "not determined (74% of bootstrap fits cross, 90% are needed)"),
        (0.97, 1.9, "not determined (its interval covers more than 50% of the grid of alpha)"),
        (0.97, 1.2, "1.1177 ± 0.0100 [1.1000, 1.2000], 97% of bootstrap fits cross"),
    ],
)
def test_a_crossing_that_says_nothing_is_said_to_be_undetermined(comparison, found, high, says):
    """The grid of alpha is 0.65 long."""
    ends = {"": 1.1177, "_error": 0.01, "_low": 1.1, "_high": high}
    made = {f"crossing_alpha{end}": ("crossing", [value]) for end, value in ends.items()}
    made |= {
        "crossing_n_small": ("crossing", [50]),
        "crossing_n_large": ("crossing", [100]),
        "crossing_found": ("crossing", [found]),
    }
    assert f"  N = 50 and 100: alpha = {says}\n" in table(
        comparison.drop_dims("crossing").assign(made), COLUMNS
    )
