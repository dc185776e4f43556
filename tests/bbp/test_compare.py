"""The comparison: pooling, observables, table, file and figure, on made-up sweeps whose answers are known."""

import signal
import subprocess
import sys
from dataclasses import replace

import h5py
import numpy as np
import pytest
import xarray

from bbp import store, sweep
from bbp.analysis import comparison as comparison_mod
from bbp.analysis import comparison_file
from bbp.analysis.bootstrap import Estimate, bootstrap
from bbp.analysis.comparison import THEORY_N, compare
from bbp.analysis.comparison_table import table
from bbp.analysis.finite_size import Crossing, ShiftFit
from bbp.analysis.observables import observables
from bbp.analysis.pool import SEVERAL, pool
from bbp.compare import main
from bbp.engine.parts import Parts
from bbp.exports.tables import tables
from bbp.files import table as fields
from bbp.plots import style
from bbp.plots.compare import compare_figure
from theory.checks import ParameterError
from theory.exact.outliers import teacher_branch
from theory.exact.transition import bbp_threshold
from theory.model import Committee
from theory.model.network import Network

MODEL = Committee(1, 1, 0.5)
ALPHA = np.array([1.0, 1.2, 1.3796, 1.5, 1.65])


def made_up(n=(50, 100), alpha=ALPHA, samples=40, seed=0, model=MODEL):
    """A sweep of numbers drawn from known laws: lowest = edge + 2 N^(-2/3) + noise, phi logistic, q2 uniform noise."""
    rng = np.random.default_rng(seed)
    alpha = np.asarray(alpha, dtype=float)
    shape = len(n), len(alpha), samples
    branch, threshold = teacher_branch(model, alpha), bbp_threshold(model)
    pairs = int(model.degeneracy) + 4
    shift = 2 * np.array(n, dtype=float)[:, None, None] ** (-2 / 3) + 0.01 * rng.standard_normal(shape)
    lowest = branch.edge[None, :, None] + shift
    values = lowest[..., None] + 0.1 * np.arange(pairs)
    phi = 1 / (1 + np.exp(-(alpha - threshold.alpha)[None, :, None] * np.array(n)[:, None, None] / 10))
    rank = np.where(rng.random(shape) < phi, 0, 7)
    overlaps = np.broadcast_to(rng.uniform(0.2, 0.4, shape)[..., None], values.shape).copy()
    return store.Sweep(
        model=model,
        alpha_bbp=threshold.alpha,
        kind=threshold.kind,
        n=np.array(n),
        alpha=alpha,
        sample=np.arange(samples),
        eigenpair=np.arange(pairs),
        eigenvalues=values,
        overlaps=overlaps,
        residuals=np.zeros_like(values),
        max_overlap_rank=rank,
        status=np.full(shape, store.DONE, dtype=np.int8),
        reason=np.full(shape, "", dtype=object),
        edge=branch.edge,
        outlier=branch.outlier,
        overlap=branch.overlap,
        attributes={"seed": seed, "finished": 1},
    )


def test_observables_leave_out_what_failed_or_is_unknown():
    sweep = made_up()
    sweep.status[0, 0, 0] = store.FAILED
    sweep.max_overlap_rank[0, 0, 1] = -1
    found = observables(sweep)
    assert np.isnan(found.lowest[0, 0, 0]) and np.isnan(found.phi[0, 0, 0]) and np.isnan(found.phi[0, 0, 1])
    assert np.isfinite(found.lowest[0, 0, 1])
    assert found.gap[0, 0, 2] == pytest.approx(0.1)


def test_the_files_compared_are_never_replaced(tmp_path, capsys):
    given = tmp_path / "sweep.h5"
    options = ["--alpha-grid", "1,2", "--n", "20", "--samples", "3", "--out", str(given), "-q"]
    assert sweep.main(options) == 0
    before = given.read_bytes()
    for option, name in (("--save", "sweep.h5"), ("--save", "link.h5")):
        if name == "link.h5":
            (tmp_path / name).symlink_to(given)
        assert main([str(given), option, str(tmp_path / name), "--force", "--draws", "0"]) == 2
        assert "is what is read here" in capsys.readouterr().err
    assert given.read_bytes() == before


def test_bootstrap_error_of_a_mean_is_its_standard_error():
    """Six numbers, 20,000 replicates: within 2 % of s / sqrt(n) (4 sigma of the replicates' own noise)."""
    values = np.array([0.3, 1.2, -0.4, 0.9, 2.0, 0.1])
    found = bootstrap(values, np.random.default_rng(0), repeats=20_000)
    assert found.error == pytest.approx(values.std(ddof=1) / np.sqrt(6), rel=0.02)


def test_pooling_unites_sizes_and_drops_repeated_draws():
    small, large = made_up(n=(50,)), made_up(n=(100,), alpha=ALPHA[1:])
    again, other = made_up(n=(50,)), made_up(n=(50,), seed=1)
    (merged,) = pool([small, large, again, other])
    assert merged.n.tolist() == [50, 100] and merged.alpha.tolist() == ALPHA.tolist()
    done = (merged.status == store.DONE).sum(axis=-1)
    assert done[0].tolist() == [80] * 5 and done[1].tolist() == [0, 40, 40, 40, 40]
    np.testing.assert_array_equal(merged.eigenvalues[0, :, :40], small.eigenvalues[0])
    np.testing.assert_array_equal(merged.edge, small.edge)
    assert len(pool([small, made_up(model=Committee(2, 1, 0.3), alpha=[2.0])])) == 2
    assert merged.attributes["seed"] == SEVERAL and pool([small, large, again])[0].attributes["seed"] == 0
    with pytest.raises(ParameterError, match="no sweep"):
        pool([])


@pytest.fixture(scope="module")
def comparison():
    return compare(made_up(n=(50, 100, 200)), draws=3, repeats=200)


def test_comparison_finds_what_was_put_in(comparison):
    """Crossing at alpha_BBP within 4 sigma; every shift prefers N^(-2/3) decisively; finite-N theory near theory."""
    assert [c.sizes for c in comparison.crossings] == [(50, 100), (100, 200)]
    for crossing in comparison.crossings:
        assert abs(crossing.alpha.sigmas(comparison.alpha_bbp)) < 4
    assert {kind for _, kind, _ in comparison.shifts} == {"sharp"}
    for _, _, fit in comparison.shifts:
        assert fit.preferred == "power" and fit.decisive
        assert fit.coefficient["power"] == pytest.approx(2, rel=0.05)
    assert list(comparison.alpha_zero_sampled) == [50, 100, 200]
    assert np.all(np.abs(comparison.theory_n.lowest[2] - comparison.edge) < 0.5)


def test_table_shows_every_part(comparison):
    text = table(comparison)
    for words in (
        "alpha_BBP = 1.37962 (continuous)",
        "N = 200",
        "crossings of phi",
        "power law preferred",
        "alpha_0:",
    ):
        assert words in text


def test_file_round_trip_and_xarray(comparison, tmp_path):
    path = tmp_path / "compare.h5"
    comparison_file.save(path, comparison, draws=3)
    back = comparison_file.load(path)
    assert back.model == comparison.model and back.kind == comparison.kind
    np.testing.assert_array_equal(back.measured["gap"]["error"], comparison.measured["gap"]["error"])
    np.testing.assert_array_equal(back.theory_n.overlap, comparison.theory_n.overlap)
    for name in (
        "crossings",
        "shifts",
        "alpha_zero_sampled",
        "alpha_zero",
    ):  # as text: NaN equals itself there
        assert repr(getattr(back, name)) == repr(getattr(comparison, name))
    with xarray.open_dataset(path, engine="h5netcdf") as data:
        assert data["phi_group"].dims == data["theory_n_phi_group"].dims == ("n", "alpha")


def test_files_that_call_finite_n_theory_quenched_open_as_before(comparison, tmp_path, monkeypatch):
    path = tmp_path / "compare.h5"
    named = tuple(replace(field, path=field.before or field.path) for field in comparison_file.FIELDS)
    monkeypatch.setattr(comparison_file, "FIELDS", named)
    comparison_file.save(path, comparison, draws=3)
    monkeypatch.undo()
    with h5py.File(path) as file:
        assert "quenched_present" in file and "theory_n_phi_group" not in file
    for name in THEORY_N:
        back, told = (getattr(each.theory_n, name) for each in (comparison_file.load(path), comparison))
        np.testing.assert_array_equal(back, told)
    (exported,) = (table for table in tables(path) if table.name == "observables")
    columns = {column.name for column in exported.columns}
    assert {"theory_n_lowest", "theory_n_phi_group"} <= columns and not any("quenched" in c for c in columns)


def test_figure_carries_the_data(comparison):
    figure = compare_figure(comparison)
    assert len(figure.axes) == 4
    points = figure.axes[0].containers[0].lines[0].get_ydata()
    np.testing.assert_array_equal(points, comparison.measured["lowest"]["value"][0])
    handles, labels = figure.axes[0].get_legend_handles_labels()
    line = handles[labels.index("finite-$N$ theory, colour of its $N$")]
    assert line.get_color() == style.GREY  # the colour of no N


def test_program(tmp_path, capsys):
    source, picture, numbers = tmp_path / "sweep.h5", tmp_path / "fig.png", tmp_path / "numbers.h5"
    store.save(source, [made_up()])
    assert main([str(source), "--draws", "0", "--out", str(picture), "--save", str(numbers), "-q"]) == 0
    assert "crossings of phi" in capsys.readouterr().out
    assert picture.read_bytes()[:4] == b"\x89PNG" and comparison_file.load(numbers).theory_n is None
    before = picture.read_bytes()
    assert main([str(source), "--out", str(picture)]) == 2
    assert picture.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.h5"], "missing.h5"),
        (["SWEEP", "--draws", "-1"], "draws must be an integer"),
        (["SWEEP", "--draws", "x"], "draws must be a number"),
        (["SWEEP", "--repeats", "5"], "repeats must be an integer"),
        (["SWEEP", "--out", "fig.bmp"], "must end in .png"),
        (["TWO", "--out", "fig.png"], "holds 2 models|hold 2 models"),
        (["EMPTY"], "no finished sample"),
        (["SWEEP", "--resume"], "--resume needs --save FILE.h5: draws are kept beside that file"),
        (["SWEEP", "--dry-run"], "--dry-run needs --save FILE.h5: it lists the pieces of work kept beside"),
    ],
)
def test_bad_use(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep = made_up(samples=4)
    store.save("SWEEP", [sweep])
    store.save("TWO", [sweep, made_up(model=Committee(2, 1, 0.3), alpha=[2.0])])
    store.save("EMPTY", [replace(sweep, status=np.zeros_like(sweep.status))])
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and any(part in error for part in message.split("|"))
    assert not (tmp_path / "fig.png").exists()


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """A directory with a sweep of 2 x 5 points, and the options of its comparison in ten units."""
    monkeypatch.chdir(tmp_path)
    store.save("sweep.h5", [made_up()])
    return ["sweep.h5", "--draws", "10", "--repeats", "100", "--block", "1", "-q"]


def same(one, two):
    one, two = (comparison_file.load(path) for path in (one, two))
    for name in comparison_file.THEORY_N:
        np.testing.assert_array_equal(getattr(one.theory_n, name), getattr(two.theory_n, name), err_msg=name)
    np.testing.assert_array_equal(one.measured["lowest"]["low"], two.measured["lowest"]["low"])
    assert repr((one.crossings, one.shifts, one.config)) == repr((two.crossings, two.shifts, two.config))
    assert one.finished and two.finished


DIES = """
import os, signal, sys
from bbp import compare
from bbp.engine.parts import Parts

def save(self, result, experiment, real=Parts.save, left=[int(sys.argv[1])]):
    real(self, result, experiment)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

Parts.save = save
compare.main(sys.argv[2:])
"""


def test_killed_while_it_draws_and_equal_to_the_uninterrupted(drawn, tmp_path):
    assert main([*drawn, "--save", "whole.h5"]) == 0
    assert np.isfinite(comparison_file.load("whole.h5").theory_n.lowest).all()
    words = [*drawn, "--save", "part.h5"]
    killed = subprocess.run([sys.executable, "-c", DIES, "4", *words])
    parts = Parts(tmp_path / "part.h5").path
    assert killed.returncode == -signal.SIGKILL and not (tmp_path / "part.h5").exists()
    kept = {path: path.stat().st_mtime_ns for path in parts.glob("*.npz")}
    assert len(kept) == 4
    assert main(words) == 2  # an unfinished run is not written over
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parts, "discard", lambda self: None)
        assert main([*words, "--resume"]) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept and len(list(parts.glob("*.npz"))) == 10
    same("part.h5", "whole.h5")


def test_tasks_and_merge_give_the_same_comparison(drawn, tmp_path):
    (tmp_path / "options.toml").write_text('draws = 10\nrepeats = 100\nblock = 2\nsave = "merged.h5"\n')
    own = ["sweep.h5", "--config", "options.toml", "-q"]
    assert [main([*own, "--task", f"{i}/2"]) for i in (1, 2)] == [0, 0]
    assert main([*own, "--merge"]) == 0
    assert main([*drawn, "--save", "whole.h5"]) == 0
    same("merged.h5", "whole.h5")


def test_a_finished_comparison_is_shown_and_that_of_other_samples_refused(drawn, tmp_path, capsys):
    words = [*drawn[:-1], "--save", "numbers.h5"]
    assert main(words) == 0
    before = (tmp_path / "numbers.h5").read_bytes()
    store.save("copy.h5", [made_up()])
    assert main(["copy.h5", *words[1:]]) == 0  # the same samples under another name
    assert "already finished: nothing to compute" in capsys.readouterr().err
    store.save("sweep.h5", [made_up(seed=3)])
    assert main(words) == 2
    assert "holds another comparison: data" in capsys.readouterr().err
    assert (tmp_path / "numbers.h5").read_bytes() == before
    assert main([*words, "--force", "--dry-run"]) == 0
    assert "10 units, 10 points" in capsys.readouterr().out
    for option in ("--resume", "--dry-run", "--merge"):
        assert main(["sweep.h5", option]) == 2
        assert f"{option} needs --save FILE.h5" in capsys.readouterr().err


def test_draws_that_fail_are_told(drawn, monkeypatch, capsys):
    def broken(*_, **__):
        raise RuntimeError("no draws today")

    monkeypatch.setattr("bbp.analysis.comparison.finite_curve", broken)
    assert main([*drawn, "--save", "numbers.h5"]) == 1
    assert "10 points failed, the first because: RuntimeError: no draws today" in capsys.readouterr().err
    assert np.isnan(comparison_file.load("numbers.h5").theory_n.lowest).all()
    monkeypatch.undo()


def test_a_file_of_before_its_columns_had_types(tmp_path):
    """Version 0.1 wrote columns without rows as numbers of any type: they are read."""
    path = tmp_path / "old.h5"
    comparison_file.save(path, compare(made_up(n=(50,)), draws=0, repeats=100))
    column = next(field for field in comparison_file.FIELDS if field.name == "crossing_n_small")
    old = {field.name: replace(field, dtype="f8") for field in comparison_file.FIELDS if field is column}
    with pytest.MonkeyPatch.context() as patch:
        given = tuple(old.get(field.name, field) for field in comparison_file.FIELDS)
        patch.setattr(comparison_file, "FIELDS", given)
        real = fields.add

        def add(group, field, values, scales):
            real(group, field, np.asarray(values, dtype=float) if field.name in old else values, scales)

        patch.setattr(fields, "add", add)
        comparison_file.save(path, compare(made_up(n=(50,)), draws=0, repeats=100))
    assert comparison_file.load(path).crossings == []


def test_processes_without_a_file_are_threads(drawn, capsys, monkeypatch):
    """What is printed is the same whatever their number, which the law is told."""
    threads, law = [], comparison_mod.finite_curve

    def spied(*args, **options):
        threads.append(options["threads"])
        return law(*args, **options)

    monkeypatch.setattr(comparison_mod, "finite_curve", spied)
    printed = []
    for number in ("1", "3"):
        assert main([drawn[0], "--draws", "4", "--repeats", "100", "--processes", number]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and sorted(set(threads)) == [1, 3]


def network_sweep():
    """The made-up sweep under the name of a tanh network, of which finite-N theory says nothing."""
    return replace(made_up(), model=Network(activation="tanh", a=50.0))


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
    assert not any("finite-$N$" in entry for entry in legend)


def test_table_and_legend_of_a_committee_have_finite_n_theory(comparison):
    text = table(comparison)
    assert text.count("theory_N") == 6 and "committee only" not in text
    assert max(map(len, text.splitlines())) <= 100
    legend = [entry.get_text() for entry in compare_figure(comparison).legends[0].get_texts()]
    assert any("finite-$N$" in entry for entry in legend)


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
    crossing = Crossing((50, 100), Estimate(1.1177, 0.01, 1.1, high), found)
    assert f"  N = 50 and 100: alpha = {says}\n" in table(replace(comparison, crossings=[crossing]))


def test_an_exponent_smaller_than_its_error_is_left_out(comparison):
    laws = dict.fromkeys(("power", "logarithm"), 1.0)
    for error, says in ((0.25, "on 1 degree, free exponent -3.255 ± 0.250\n"), (22.958, "on 1 degree\n")):
        fit = ShiftFit(laws, laws, laws, "power", False, -3.255, error, 1)
        assert says in table(replace(comparison, shifts=[(0.5, "sharp", fit)]))
