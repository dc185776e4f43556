"""bbp descent: one command to one file that others can open; what is refused; recovery worked out of made-up outcomes."""

import dataclasses
import json

import h5py
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from bbp import join, plot
from bbp.analysis import recovery
from bbp.analysis.recovery import table
from bbp.descent import PROGRAM
from bbp.engine.run import Run
from bbp.experiments import descent, models
from bbp.experiments.descent import COLUMNS
from bbp.files import dataset, variables
from bbp.plots import descent as descent_plots
from bbp.plots import layout
from sims.dynamics.flow import End, Rules
from sims.dynamics.samples import sample_descents
from sims.instance import STREAM
from theory.checks import ParameterError
from theory.exact.transition import bbp_threshold
from theory.model import Committee, Network

TINY = "--alpha-grid 1,4 --p 2 --a 0.7 --n 16 --samples 3 --steps 30 --hessians 3".split()


@pytest.fixture
def out(tmp_path):
    return tmp_path / "descent.h5"


@pytest.fixture(scope="module")
def tiny_run():
    """The configuration TINY asks for, and its descents."""
    wanted = {
        "p": 2, "p_star": 1, "a": 0.7, "alpha_grid": [1.0, 4.0], "n": [16], "samples": 3, "seed": 0, "prng": STREAM,
        "start": ["random", "hessian", "spectral"], "steps": 30, "records": 40, "hessians": 3, "eigenpairs": 4,
        "dtype": "float64", "dynamics": "flow", "loss_floor": 0.0, "theory": False,
    }  # fmt: skip
    given = {name: value for name, value in wanted.items() if name != "prng"}
    return wanted, Run(PROGRAM.experiment(given)).in_memory()


def test_the_file_holds_the_descents_and_opens_anywhere(bbp, out, tiny_run):
    said = bbp("descent", *TINY, "--out", out)
    assert (
        said.code == 0
        and "alpha_BBP = 0.927055 (continuous)" in said.out
        and "N = 16, start spectral" in said.out
    )
    wanted, expected = tiny_run
    found = dataset.open(out)
    assert dataset.config(found) == wanted
    for name in (column.name for column in COLUMNS):
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    with h5py.File(out) as file:
        assert json.loads(file["config"].asstr()[()]) == wanted
        assert {k: file.attrs[k] for k in ("p", "p_star", "a", "seed", "dtype", "finished", "kind", "threshold")} == {
            "p": 2, "p_star": 1, "a": 0.7, "seed": 0, "dtype": "float64", "finished": 1, "kind": "continuous",
            "threshold": 0.5,
        }  # fmt: skip
        assert file.attrs["alpha_bbp"] == bbp_threshold(Committee(2, 1, 0.7)).alpha
        assert set(json.loads(file.attrs["versions"])) >= {"bbp", "jax", "numpy", "scipy", "h5py", "python"}
    with xr.open_dataset(out, engine="h5netcdf") as data:
        assert data.m2.dims == ("n", "start", "alpha", "sample", "step")
        np.testing.assert_array_equal((data.overlap_matrix**2).max(("student_row", "teacher_row")), data.m2)
        assert (
            float(data.m2.sel(n=16, alpha=4.0, sample=1, step=30).isel(start=0)) == found.m2[0, 0, 1, 1, -1]
        )
        assert data.overlaps.sel(eigenpair=0, hessian_step=0).isel(frame=1).shape == (1, 3, 2, 3)
    again = bbp("descent", *TINY, "--out", out, "--threshold", "0.9")  # which is the table's alone
    assert again.code == 0 and "was already finished" in again.err and "above 0.9" in again.out


def test_the_numbers_are_those_of_the_library(tiny_run):
    _, found = tiny_run
    direct = sample_descents(
        Committee(2, 1, 0.7), 16, 4.0, [2], start="hessian", rules=Rules(steps=30), eigenpairs=4, hessians=3
    )
    np.testing.assert_array_equal(found.overlap_matrix[0, 1, 1, 2], direct.overlap_matrix[0])
    np.testing.assert_array_equal(found.eigenvalues[0, 1, 1, 2], direct.eigenvalues[0])
    np.testing.assert_array_equal(found.hessian_step, direct.recorded_steps[direct.hessian_records])
    assert np.all(found.status == variables.DONE)


def test_a_failed_descent_is_counted_and_the_file_still_written(bbp, out, monkeypatch):
    real = descent.sample_descents

    def failing(*arguments, **options):
        found = real(*arguments, **options)
        reason, code = found.reason.copy(), found.code.copy()
        reason[1], code[1] = "loss or gradient not finite", End.NOT_FINITE
        return dataclasses.replace(found, reason=reason, code=code)

    monkeypatch.setattr(descent, "sample_descents", failing)
    said = bbp("descent", *TINY, "--start", "random", "--out", out)
    assert said.code == 1 and "2 samples failed, the first because: loss or gradient not finite" in said.err
    assert dataset.open(out).status[0, 0, :, 1].values.tolist() == [variables.FAILED] * 2


def made_up(ends, starts=0.01, alphas=(1.0, 2.0, 3.0)) -> xr.Dataset:
    """Descents at p = p* = 1, N = 100 whose final m2 is `ends` (alpha, sample)."""
    ends = np.asarray(ends, dtype=np.float64)
    m2 = np.stack([np.full_like(ends, starts), ends], axis=-1)[None, None]
    shape = m2.shape[:4]
    grid = ("n", "start", "alpha", "sample")
    path = (*grid, "step")
    found = {name: (path, m2) for name in ("m2", "projection", "loss", "gradient")}
    found |= {
        "time": (path, np.broadcast_to([0.0, 5.0], m2.shape)),
        "steps_taken": (path, np.broadcast_to([0, 10], m2.shape)),
    }
    pairs = (*grid, "hessian_step", "frame", "eigenpair")
    found |= {name: (pairs, np.zeros((*shape, 0, 1, 0))) for name in ("eigenvalues", "overlaps")}
    found |= {"overlap_matrix": ((*path, "student_row", "teacher_row"), np.sqrt(m2)[..., None, None])}
    found |= {
        "status": (grid, np.ones(shape, np.int8)),
        "code": (grid, np.zeros(shape)),
        "reason": (grid, np.full(shape, "", object)),
    }
    axes = {
        "n": [100],
        "start": ["random"],
        "alpha": list(alphas),
        "sample": range(shape[3]),
        "step": [0, 10],
        "frame": ["plain"],
    }
    axes |= {"hessian_step": np.zeros(0, dtype=int), "eigenpair": np.arange(0)}
    about = models.record(Committee(1, 1, 1.0)) | {
        "alpha_bbp": 1.5,
        "kind": "continuous",
        "format": "bbp-descent",
    }
    return xr.Dataset(found, axes, about)


def test_recovery_of_made_up_outcomes():
    """Fractions 0, 1/4, 3/4 cross one half at 2.5."""
    ends = np.tile([0.0, 0.02], (3, 20))
    ends[1, :10], ends[2, :30] = 0.9, 0.95
    seen = recovery.recovery(made_up(ends), 100, "random")
    assert seen.success.values.tolist() == [0.0, 0.25, 0.75]
    assert abs(seen.midpoint - 2.5) < 0.05  # of a logistic curve through them
    # delta method: the fractions' binomial errors over the slope 1/2 a unit of alpha
    expected = np.sqrt(2 * 0.25 * 0.75 / 40 / 4) / 0.5
    assert seen.midpoint_error == pytest.approx(expected, rel=0.25)
    assert seen.onset == 2.0
    strict = recovery.recovery(made_up(ends), 100, "random", threshold=0.92)
    assert strict.success.values.tolist() == [0.0, 0.0, 0.75]


def test_no_crossing_is_nan_and_missing_samples_are_left_out():
    nothing = recovery.recovery(made_up(np.tile([0.0, 0.02], (3, 4))), 100, "random")
    everything = recovery.recovery(made_up(np.full((3, 8), 0.99)), 100, "random")
    assert np.isnan(nothing.midpoint) and np.isnan(nothing.onset)
    assert np.isnan(everything.midpoint) and everything.onset == 1.0
    ends = np.full((3, 8), 0.9)
    ends[0] = 0.01
    ends[:, 2] = np.nan
    seen = recovery.recovery(made_up(ends), 100, "random")
    assert seen.success.values.tolist() == [0.0, 1.0, 1.0] and abs(seen.midpoint - 1.5) < 1e-3
    with pytest.raises(ParameterError, match="start must be one of random, got 'hessian'"):
        recovery.recovery(made_up(ends), 100, "hessian")
    with pytest.raises(ParameterError, match="threshold must be below 1"):
        recovery.recovery(made_up(ends), 100, "random", threshold=1.0)


@pytest.mark.parametrize(("p", "p_star"), [(1, 1), (2, 1), (3, 2)])
def test_chance_is_the_mean_largest_square_of_normals(p, p_star):
    """4 standard errors of 200,000 draws: false alarm 6e-5."""
    drawn = np.max(np.random.default_rng(0).standard_normal((200_000, p * p_star)) ** 2, axis=1)
    assert abs(100 * recovery.chance(p, p_star, 100) - drawn.mean()) < 4 * drawn.std() / np.sqrt(200_000)
    assert recovery.chance(1, 1, 50) == pytest.approx(1 / 50, rel=1e-6)


def test_mean_in_time_interpolates_each_sample():
    time = np.array([[0.0, 1.0, 100.0], [0.0, 2.0, 50.0], [0.0, 0.0, 0.0]])
    common, mean = descent_plots.mean_in_time(
        time, np.where(time > 0, 3 + np.log(np.maximum(time, 1e-9)), 0.5)
    )
    np.testing.assert_allclose(common, [0, 1.5, 75, 100])
    # sample 1 runs from 1 to 100, sample 2 from 2 to 50, and each keeps its ends beyond them
    np.testing.assert_allclose(
        mean[1:], [3 + np.log(pair).sum() / 2 for pair in ((1.5, 2), (75, 50), (100, 50))]
    )
    assert mean[0] == 0.5
    assert descent_plots.mean_in_time(time[2:], time[2:])[0].size == 0


@pytest.mark.parametrize("width", ["single", pytest.param("double", marks=pytest.mark.slow)])
def test_figures_of_a_file(bbp, out, tiny_run, width):
    dataset.write(out, tiny_run[1])
    said = bbp("plot", out, "--out", out.with_suffix(f".{width}.png"), "--width", width, "--dpi", "60")
    assert said.code == 0
    figure = plot.draw(out, width=width)
    assert isinstance(figure, Figure) and len(figure.axes) == 3
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "random start" in labels and any("alpha_" in label for label in labels)
    points = figure.axes[0].containers
    assert len(points) == 3
    drawn = np.asarray(points[0].lines[0].get_ydata(), dtype=np.float64)
    np.testing.assert_allclose(drawn, tiny_run[1].m2[0, 0, :, :, -1].mean("sample"))
    several = descent_plots.figure({"one": tiny_run[1], "two": made_up(np.full((3, 4), 0.5))}, width=width)
    assert len(several.axes) == 2 and len(several.axes[1].containers) == 2


def test_descents_of_several_models_are_told_and_drawn_one_by_one(bbp, refused, out, tiny_run):
    one = tiny_run[1]
    other = one.assign_attrs(models.record(Network(2, 1, 2.0, activation="erf")))
    dataset.write(out, join([one, other]))
    said = bbp("info", out)
    assert said.code == 0 and all(word in said.out.split() for word in ("erf", "quadratic"))
    png = out.with_suffix(".png")
    refused("holds 2 models", "plot", out, "--out", png)
    assert bbp("plot", out, "--out", png, "--model", "1", "--dpi", "60").code == 0


def test_theory_along_the_way_is_drawn_as_far_as_all_samples_have_it(tiny_run):
    """Edges where no outlier is, lowest eigenvalues where told; labels fitted at the last record end the curve there."""
    found = tiny_run[1]
    shape, dims = found.eigenvalues.shape[:5], found.eigenvalues.dims[:5]
    edge, outlier = np.full(shape, -1.0), np.full(shape, np.nan)
    outlier[..., 1] = -1.5
    fitted = edge.copy()
    fitted[..., 0, 2] = np.nan
    theory = {"conditioned_edge": edge, "conditioned_lowest": np.fmin(outlier, edge), "quenched_edge": fitted}
    theory |= {"quenched_outlier": np.full(shape, np.nan)}
    made = found.assign({name: (dims, each) for name, each in theory.items()})
    figure = descent_plots.descent_figure(made)
    curves = figure.axes[3].get_lines()
    of_path, of_labels = (line.get_ydata() for line in curves[1:3])
    assert len(figure.axes) == 4 and of_path[0] == -1 and -1.5 <= of_path.min() < -1.2
    assert len(of_labels) < len(of_path) and np.all(of_labels == -1)
    assert len(descent_plots.descent_figure(found).axes) == 3


def test_theory_and_starts_at_an_overlap_are_in_the_file(bbp, out):
    asked = ["--p", "1", "--a", "0.5", "--n", "40", "--alpha-grid", "3", "--samples", "2", "--steps", "40"]
    more = ["--start", "overlap:0.3,random", "--theory", "--records", "6", "--hessians", "2"]
    assert bbp("descent", *asked, *more, "--out", out).code == 0
    with h5py.File(out) as file:
        assert set(file["conditioned"]) == {"edge", "lowest", "lowest_error", "overlap", "overlap_error"}
        told, found = file["conditioned/lowest"][...], file["eigenvalues"][..., 0, 0]
        assert told.shape == found.shape and np.all(np.isfinite(told))
        assert np.all(np.abs(told - found) < 5 * file["conditioned/lowest_error"][...])
        np.testing.assert_allclose(file["m2"][0, 0, 0, :, 0], 0.09, rtol=1e-9)
        assert file["start"].asstr()[...].tolist() == ["overlap:0.3", "random"]


def test_a_legend_has_as_many_columns_as_fit():
    short, long = ["one"] * 8, ["start at the spectral estimate, before"] * 8
    assert layout.fitting_columns(short, 4, 7.0) == 4 and layout.fitting_columns(short[:3], 4, 7.0) == 3
    assert layout.fitting_columns(long, 4, 7.0) == 2 and layout.fitting_columns(long, 4, 2.0) == 1


def test_the_table_has_intervals_and_counts_apart_what_still_moves():
    """Shares of 1 and 0 stay within [0, 1]. Descents that ran out of steps below the threshold make two midpoints of one."""
    made = made_up(np.repeat([[0.0], [0.9], [0.9]], 28, axis=1))
    assert "1.00 [0.88, 1.00]" in table(made) and "0.00 [0.00, 0.12]" in table(made)
    assert "half of the samples recover at alpha = 1." in table(made) and "if none does" not in table(made)
    made.code[0, 0, 1:, :3] = End.STEP_LIMIT  # recovered: whether they still move changes nothing
    assert "if none does" not in table(made)
    made = made_up(np.repeat([[0.0], [0.0], [0.9]], 28, axis=1))
    made.code[0, 0, 1, 4:] = End.STEP_LIMIT
    seen = recovery.recovery(made, 100, "random")
    assert seen.moving.values.tolist() == [0, 24 / 28, 0]
    assert seen.elsewhere.values.tolist() == [1, 4 / 28, 0]
    assert seen.midpoint_if_moving_recover < 2 < seen.midpoint
    said = table(made)
    assert (
        "if all do that still moved after 10 steps,\n" in said
        and "if none does: --steps gives them more" in said
    )


def test_bars_of_shares_are_their_intervals():
    """No bar of a share leaves [0, 1], and none is of length 0 at both ends; a line joins the shares."""
    seen = recovery.recovery(made_up(np.repeat([[0.0], [0.9], [0.9]], 28, axis=1)), 100, "random")
    drawn = descent_plots.success_points(Figure().subplots(), seen, index=0, label="share")
    ends = np.array([segment[:, 1] for segment in drawn.lines[2][0].get_segments()])
    np.testing.assert_allclose(ends, np.stack([seen.success_low, seen.success_high], axis=1), atol=1e-12)
    assert ends.min() >= 0 and ends.max() <= 1 and np.all(np.diff(ends) > 0.1)
    assert drawn.lines[0].get_linestyle() == "-"
