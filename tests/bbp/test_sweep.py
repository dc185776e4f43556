"""The sweep: one command from options to a file, the same file whatever the way there."""

import functools
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray

from bbp import sweep
from bbp.analysis import summary
from bbp.console import program
from bbp.engine import run
from bbp.experiments import models
from bbp.experiments import sweep as config
from bbp.experiments.options import SOLVERS, SWEEP
from bbp.files import dataset, product, variables
from bbp.sweep import PROGRAM
from sims import sampling
from theory.exact.outliers import teacher_branch
from theory.exact.transition import bbp_threshold
from theory.model import Committee


@pytest.fixture
def out(tmp_path):
    return tmp_path / "runs" / "sweep.h5"


@pytest.fixture(scope="module")
def reference(tiny_sweep):
    """The tiny sweep, run in one go."""
    return dataset.open(tiny_sweep)


def test_the_file_is_as_contracted(bbp, tiny, out):
    said = bbp("sweep", *tiny, "--out", out, "--p", "2", "--a", "0.3", "--seed", "7")
    assert said.code == 0 and "alpha_BBP = 1.06884 (continuous)" in said.out and "N = 16" in said.out
    model = Committee(2, 1, 0.3)
    with h5py.File(out) as file:
        assert file["eigenvalues"].shape == file["overlaps"].shape == file["residuals"].shape == (2, 4, 6, 6)
        assert file["eigenvalues"].dtype == np.float64
        assert (file["status"][()] == variables.DONE).all() and file["max_overlap_rank"].shape == (2, 4, 6)
        assert (np.diff(file["eigenvalues"][()], axis=-1) >= 0).all()
        assert file["residuals"][()].max() < 1e-10 and (0 <= file["overlaps"][()]).all()
        assert file["alpha"][()].tolist() == [0.8, 1.2, 1.6, 2.0] and file["n"][()].tolist() == [12, 16]
        assert {k: file.attrs[k] for k in ("p", "p_star", "a", "seed", "dtype", "finished", "kind")} == {
            "p": 2, "p_star": 1, "a": 0.3, "seed": 7, "dtype": "float64", "finished": 1, "kind": "continuous",
        }  # fmt: skip
        assert file.attrs["alpha_bbp"] == bbp_threshold(model).alpha and file.attrs["device"] == "cpu"
        branch = teacher_branch(model, file["alpha"][()])
        for name in ("edge", "outlier", "overlap"):
            np.testing.assert_array_equal(file["theory"][name][()], getattr(branch, name))
        stored = json.loads(file["config"].asstr()[()])
        assert stored["samples"] == 6 and stored["solver"] == "auto" and stored["eigenpairs"] == 6
        assert set(json.loads(file.attrs["versions"])) >= {"bbp", "jax", "numpy", "scipy", "h5py", "python"}
    with xarray.open_dataset(out, engine="h5netcdf") as data:
        assert data.eigenvalues.sel(n=16, alpha=1.2, sample=3, eigenpair=0).shape == ()
    loaded = dataset.open(out)
    assert loaded.unit_count.sum() == 48 and (loaded.unit_seconds > 0).all()
    assert not out.with_name("sweep.h5.parts").exists() and not out.with_name("sweep.h5.bbp.lock").exists()


def test_the_table_says_what_the_file_holds(made_up):
    made = made_up()
    text = summary.table(made).splitlines()
    assert text[0] == "p=1 p*=1 a=0.5: alpha_BBP = 1.38 (continuous)"
    values = made.eigenvalues[1, 2, :, 0]
    found = summary.summarise(made)
    places = [
        summary.decimals(float(np.nanmedian(each))) for each in (found.lowest_error, found.overlap_error)
    ]
    row = f"{values.mean():.{places[0]}f} ± {values.std(ddof=1) / 2:.{places[0]}f}"
    theory = [f"{value:.{at}f}" for value, at in ((-1.8, places[0]), (-1.9, places[0]), (0.1, places[1]))]
    assert row in text[-1] and text[-1].split()[-3:] == theory
    assert text[4].split()[1] == "3" and text[4].split()[-2:] == ["-", "-"]


def test_the_table_s_digits_are_those_of_its_errors(made_up):
    """Eigenvalues a thousand times smaller are shown to three more decimals, edge and outlier too."""
    made = made_up()
    small = made.assign(
        {name: made[name] / 1000 for name in ("eigenvalues", "theory_edge", "theory_outlier")}
    )
    cells, fine = (summary.table(sweep).splitlines()[-1].split() for sweep in (made, small))
    for column in (2, 4, -3, -2):  # lowest eigenvalue and its error, edge, outlier
        assert len(fine[column].partition(".")[2]) == len(cells[column].partition(".")[2]) + 3
    assert fine[5:8] == cells[5:8]


@pytest.mark.parametrize(
    "words",
    [
        ["--block", "1", "--batch", "1"],
        ["--block", "5", "--batch", "3"],
        *(
            pytest.param(words, marks=pytest.mark.slow)
            for words in (["--block", "1"], ["--block", "6"], ["--batch", "1"])
        ),
    ],
)
def test_blocks_batches_and_the_order_of_units_change_no_number(
    bbp, tiny, out, reference, same, monkeypatch, words
):
    def shuffled(found):
        found = list(found)
        random.Random(5).shuffle(found)
        return map(run.run_unit, found)

    monkeypatch.setattr(run, "here", shuffled)
    assert bbp("sweep", *tiny, "--out", out, *words).code == 0
    same(dataset.open(out), reference)


def test_samples_do_not_depend_on_the_grid_they_are_part_of(bbp, out, reference):
    words = ["--alpha-grid", "1.2", "--n", "16", "--samples", "2", "--out", out]
    assert bbp("sweep", *words).code == 0
    one = dataset.open(out)
    np.testing.assert_array_equal(one.eigenvalues[0, 0], reference.eigenvalues[1, 1, :2])


def test_tasks_share_the_work_without_overlap_then_merge(bbp, tiny, out, reference, same, count_samples):
    early = bbp("sweep", *tiny, "--out", out, "--merge")
    assert early.code == 2 and "nothing to merge" in early.err
    for task in (3, 1):
        assert bbp("sweep", *tiny, "--out", out, "--task", f"{task}/3").code == 0
        assert not out.exists()
    early = bbp("sweep", *tiny, "--out", out, "--merge")
    assert early.code == 1 and "16 samples are missing" in early.err and not out.exists()
    assert bbp("sweep", *tiny, "--out", out, "--merge", "--partial").code == 0
    part = dataset.open(out)
    assert not part.attrs["finished"] and (part.status == variables.NOT_RUN).sum() == 16
    assert bbp("sweep", *tiny, "--out", out, "--task", "2/3").code == 0
    assert len(count_samples) == len(set(count_samples)) == 48
    assert bbp("sweep", *tiny, "--out", out, "--merge").code == 0
    same(dataset.open(out), reference)
    assert dataset.open(out).attrs["finished"]


def test_a_failed_sample_is_recorded_and_the_rest_goes_on(bbp, tiny, out, reference, same, monkeypatch):
    real = sampling.sample_point

    def sometimes(model, n, alpha, samples, seed, **options):
        if n == 16 and alpha == 1.2 and 3 in samples:
            raise FloatingPointError("no convergence\nat all")
        return real(model, n, alpha, samples, seed, **options)

    with monkeypatch.context() as patch:
        patch.setattr(sampling, "sample_point", sometimes)
        said = bbp("sweep", *tiny, "--out", out)
        again = bbp("sweep", *tiny, "--out", out)
    assert said.code == again.code == 1
    assert "1 samples failed, the first because: FloatingPointError: no convergence at all" in said.err
    broken = dataset.open(out)
    assert (
        np.argwhere(broken.status.values == variables.FAILED).tolist() == [[1, 1, 3]]
        and broken.attrs["finished"]
    )
    assert np.isnan(broken.eigenvalues[1, 1, 3]).all() and (broken.status == variables.DONE).sum() == 47
    assert bbp("sweep", *tiny, "--out", out, "--retry-failed").code == 0
    same(dataset.open(out), reference)
    assert not out.with_name("sweep.h5.parts").exists()


def test_samples_of_two_random_streams_are_never_mixed(bbp, refused, tiny, out, reference, same, monkeypatch):
    """Parts and files of another stream are refused: by name, and where a file of an older program names none."""
    assert bbp("sweep", *tiny, "--out", out, "--task", "1/2").code == 0
    with monkeypatch.context() as patch:
        patch.setattr(config, "STREAM", "threefry2x32/999")
        for words in (["--resume"], ["--task", "2/2"], ["--merge"]):
            refused("prng threefry2x32/1 there, threefry2x32/999 here", "sweep", *tiny, "--out", out, *words)
    plan = out.with_name("sweep.h5.parts") / "plan.json"
    text = plan.read_text()
    old = json.loads(text)
    for record in old["records"]:
        del record["prng"]
    plan.write_text(json.dumps(old))
    assert "prng None there" in bbp("sweep", *tiny, "--out", out, "--resume").err
    plan.write_text(text)
    assert bbp("sweep", *tiny, "--out", out, "--resume").code == 0
    same(dataset.open(out), reference)
    monkeypatch.setattr(config, "STREAM", "threefry2x32/999")
    assert "holds another sweep: prng" in bbp("sweep", *tiny, "--out", out).err


def test_shards_of_an_unknown_sweep_are_refused(bbp, refused, tiny, out):
    bbp("sweep", *tiny, "--out", out, "--task", "1/2")
    out.with_name("sweep.h5.parts").joinpath("plan.json").unlink()
    for word in ("--resume", "--task=2/2"):
        refused("holds parts but no plan.json", "sweep", *tiny, "--out", out, word)
    assert bbp("sweep", *tiny, "--out", out, "--force").code == 0


def test_a_product_of_models(bbp, out, same, monkeypatch):
    """Each along a grid of alpha of its own, here of three points."""
    monkeypatch.setattr(config, "around", functools.partial(config.around, points=3))
    small = ["sweep", "--alpha-grid", "--n", "12", "--samples", "2", "--out"]
    words = [*small, out, "--p", "1,2", "--a-grid", "0.5:1:2"]
    assert bbp(*words).code == 0
    found = product.split(dataset.open(out))
    made = [(sweep.attrs["p"], sweep.attrs["a"]) for sweep in found]
    assert made == [(1, 0.5), (1, 1.0), (2, 0.5), (2, 1.0)]
    assert [sweep.eigenvalues.shape[-1] for sweep in found] == [5, 5, 6, 6]
    assert len({tuple(sweep.alpha.values) for sweep in found}) == 4
    single = out.with_name("single.h5")
    assert bbp(*small, single, "--p", "2", "--a", "0.5").code == 0
    same(found[2], dataset.open(single))
    assert "was already finished" in bbp(*words).err


def test_target_error_stops_a_point_when_it_is_reached(bbp, out):
    words = ["--alpha-grid", "0.8:2:3", "--n", "14", "--samples", "32", "--target-error", "0.2"]
    assert bbp("sweep", *words, "--out", out).code == 0
    one = dataset.open(out)
    averages = summary.summarise(one)
    stopped = averages.samples.values < 32
    assert stopped.any() and (averages.samples % config.CHECK == 0).all() and one.attrs["finished"]
    for name in ("lowest_error", "overlap_error"):
        assert (averages[name].values[stopped] <= 0.2).all()
    other = out.with_name("other.h5")
    for task in (1, 2):
        assert bbp("sweep", *words, "--out", other, "--task", f"{task}/2", "--block", "3").code == 0
    assert bbp("sweep", *words, "--out", other, "--merge").code == 0
    np.testing.assert_array_equal(dataset.open(other).eigenvalues, one.eigenvalues)


def test_refinement_halves_the_steepest_step(bbp, tiny, out, reference):
    assert bbp("sweep", *tiny, "--refine", "1", "--out", out).code == 0
    fine = dataset.open(out)
    old = np.isin(fine.alpha, reference.alpha)
    np.testing.assert_array_equal(fine.eigenvalues[:, old], reference.eigenvalues)
    steps = np.abs(np.diff(summary.summarise(reference).overlap.values, axis=1)).argmax(axis=1)
    expected = {float(reference.alpha[i] + reference.alpha[i + 1]) / 2 for i in steps}
    np.testing.assert_allclose(sorted(expected), fine.alpha.values[~old], rtol=1e-12)
    assert (fine.status == variables.DONE).all() and np.isfinite(fine.theory_edge).all()


def test_a_toml_file_and_the_command_line_wins(bbp, tmp_path, out):
    path = tmp_path / "sweep.toml"
    path.write_text(f'alpha-grid = [0.8, 1.2]\nn = [12]\nsamples = 9\na_grid = "0.5:1:2"\nout = "{out}"\n')
    assert bbp("sweep", "--config", path, "--samples", "2", "--a", "0.7").code == 0
    one = dataset.open(out)
    assert one.sample.size == 2 and one.attrs["a"] == 0.7 and one.alpha.values.tolist() == [0.8, 1.2]


def test_a_dry_run_computes_nothing_and_says_what_the_run_would_be_refused_for(bbp, tiny, out):
    said = bbp("sweep", *tiny, "--out", out, "--dry-run")
    assert said.code == 0 and not out.parent.exists() and "refused" not in said.out
    assert all(words in said.out for words in ("24 units, 48 samples", " 0.28 GiB", "about"))
    big = bbp("sweep", "--alpha-grid", "1", "--n", "4000000", "--solver", "dense", "--out", out, "--dry-run")
    assert big.code == 0 and "would be refused on this machine" in big.out and "would fit" in big.out


def test_quiet_says_nothing_but_the_table_and_resume_starts_where_there_is_nothing(bbp, tiny, out):
    said = bbp("sweep", *tiny, "--out", out, "--quiet", "--resume")
    assert said.code == 0 and said.err == "" and "N = 12" in said.out


def test_every_option_of_the_table_is_one_of_the_command():
    parser = program.Parser(prog="x")
    sweep.add_arguments(parser)
    names = {action.dest for action in parser._actions} - {"help", "config"}
    assert names == {option.name for option in SWEEP} and set(SOLVERS) == {"auto", *sampling.SOLVERS}
    decides = {option.name for option in SWEEP if option.decides} - {"a_grid", *models.DEFAULTS}
    assert set(PROGRAM.experiment({}).records[0]) == decides | {"prng"}


WITHOUT_JAX = """
import sys
from bbp import figures, plot, sweep
for word in sys.argv[2:]:
    sweep.main([word])
plot.draw(sys.argv[1])
assert figures.main(["growth", "--out", "."]) == 0
assert plot.main(["growth.h5", "--out", "again.png", "--dpi", "20"]) == 0
assert "jax" not in sys.modules
"""


def test_help_wrong_options_and_stored_files_do_without_jax(tmp_path):
    """The figures of files, one of the gallery's too, are drawn with nothing sampled."""
    data = Path(__file__).parents[2] / "data"
    shutil.copyfile(data / "figures" / "growth.h5", tmp_path / "growth.h5")
    words = [data / "descent" / "descent_p1_a0.5_n100.h5", "--help", "--sampels=3", "--samples=0"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAX, *words], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again.png").read_bytes()[:4] == b"\x89PNG"
    assert "usage:" in done.stdout and "did you mean --samples?" in done.stderr and "got 0" in done.stderr


@pytest.mark.parametrize(("n", "p"), [(3, 2), (5, 4), (12, 1)])
def test_dimensions_too_few_for_the_law_at_finite_n(bbp, out, n, p):
    """N of p + p* and less leaves no bulk: the samples are there, the theory at finite N is not."""
    words = ["--alpha-grid", "2,4", "--n", n, "--p", p, "--samples", "1"]
    assert bbp("sweep", *words, "--out", out).code == 0
    found = dataset.open(out)
    assert np.all(np.isfinite(found.eigenvalues)) and bool(np.isfinite(found.theory_n_lowest).any()) == (
        n == 12
    )
    assert bbp("compare", out, "--draws", "4", "--repeats", "100").code == 0
