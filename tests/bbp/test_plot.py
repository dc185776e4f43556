"""`bbp plot`: the right figure for each file, formats, and refusals."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from bbp import plot
from bbp.analysis import spectrum
from bbp.analysis.comparison import compare
from bbp.analysis.phase import widths
from bbp.analysis.summary import FINE, theory_curves
from bbp.console.messages import FileError
from bbp.experiments import models
from bbp.files import dataset
from bbp.plots import phase as phase_plots
from bbp.plots import spectrum as spectrum_plots
from bbp.plots import style
from bbp.plots import sweep as sweep_plots
from sims import sampling
from theory import general
from theory.checks import ParameterError
from theory.exact.outliers import teacher_branch
from theory.model import Committee
from theory.model.network import Network

MODEL = Committee(2, 1, 0.3)
SIGNATURES = {"png": b"\x89PNG\r\n", "pdf": b"%PDF-", "svg": b"<?xml"}


def lines(ax):
    """The lines of an axes by label."""
    return {line.get_label(): line for line in ax.get_lines()}


def test_a_sweep_s_points_are_the_lowest_eigenvalue_and_the_overlap_of_the_degenerate_group(sweep_file):
    """p p* = 2: q2 of the two lowest eigenvectors averaged, then over the samples that are done; a failed one is left out."""
    sweep = dataset.open(sweep_file)
    values, overlaps = plot.draw(sweep_file).axes
    for ax, array, size in ((values, sweep.eigenvalues, 1), (overlaps, sweep.overlaps, 2)):
        points = ax.containers[0].lines[0].get_xydata()
        np.testing.assert_array_equal(points[:, 0], sweep.alpha)
        good = np.delete(array[0, 0], 1, axis=0)  # sample 1 of the first point failed
        assert points[0, 1] == pytest.approx(good[:, :size].mean())
        assert points[2, 1] == pytest.approx(float(array[0, 2, :, :size].mean()))
    following = values.containers[1].lines[0].get_ydata()
    assert following[2] == pytest.approx(float(sweep.eigenvalues[0, 2, :, 2].mean()))
    assert [c.get_label() for c in overlaps.containers] == ["samples, $N = 20$", "samples, $N = 40$"]


def test_a_sweep_s_curves_are_the_theory(sweep_file):
    sweep = dataset.open(sweep_file)
    values, overlaps = plot.draw(sweep_file).axes
    edge = lines(values)[r"left edge, $N = \infty$"]
    alpha = edge.get_xdata()
    branch = teacher_branch(MODEL, alpha)
    np.testing.assert_array_equal(edge.get_ydata(), branch.edge)
    (curve,) = [line for label, line in lines(overlaps).items() if label.startswith("outlier")]
    np.testing.assert_array_equal(curve.get_ydata(), np.nan_to_num(branch.overlap))
    assert alpha[0] < sweep.alpha[0] and alpha[-1] > sweep.alpha[-1]
    (mark,) = [line for label, line in lines(overlaps).items() if "BBP" in label]
    assert mark.get_xdata()[0] == sweep.alpha_bbp and "continuous" in mark.get_label()


def test_the_curve_jumps_at_a_discontinuous_threshold(made_up):
    """q2 goes from 0 to the jump between two neighbouring points of the curve at alpha_BBP."""
    model = Committee(2, 1, 1.5)
    threshold = 1.322937607089938
    sweep = made_up(model).assign_attrs(alpha_bbp=threshold, kind="discontinuous")
    curves = theory_curves(sweep)
    at = np.searchsorted(curves.alpha, threshold)
    assert curves.alpha[at] - curves.alpha[at - 1] < 1e-8
    assert curves.theory_overlap[at - 1] == 0 and curves.theory_overlap[at] > 0.05


def test_the_curves_of_a_network_start_at_its_threshold(made_up):
    """tanh, p = 1, a = 50: alpha_BBP = 1.81 lies between two points of the file, from which no straight line is drawn."""
    model, alpha = Network(activation="tanh", a=50.0), np.array([1.57, 2.06, 2.54])
    alpha_bbp, kind = models.transition(model)
    along = models.theory_along(model, alpha)
    theory = {f"theory_{name}": ("alpha", along[name]) for name in ("edge", "outlier", "overlap")}
    own = models.record(model) | {"alpha_bbp": alpha_bbp, "kind": kind}
    sweep = made_up(MODEL, alphas=alpha).assign(theory).assign_attrs(own)
    curves = theory_curves(sweep)
    below, above = curves.alpha < alpha_bbp, curves.alpha > alpha_bbp
    assert curves.alpha.size == FINE["nodes"] + 2 and np.all(curves.theory_overlap[below] == 0)
    assert np.all(np.isnan(curves.theory_outlier[below])) and np.all(
        np.isfinite(curves.theory_outlier[above])
    )
    assert curves.alpha[above][0] - alpha_bbp < 1e-6 and curves.theory_overlap[above][0] < 1e-6
    sampled = models.theory_along(model, curves.alpha.values[-1:])
    assert curves.theory_overlap[-1] == sampled["overlap"][0]  # with the teacher, as samples have it


def test_what_is_not_drawn_is_not_in_the_legend(made_up):
    """Squared loss: no a, no edge, hence no theory; a legend of it would send the reader looking."""
    none = {f"theory_{name}": ("alpha", np.full(3, np.nan)) for name in ("edge", "outlier", "overlap")}
    model = models.record(Network(loss="squared")) | {"alpha_bbp": np.nan, "kind": "no edge"}
    sweep = made_up(Committee(1, 1, 1.0)).assign(none).assign_attrs(model)
    figure = sweep_plots.figure(sweep)
    legend = [entry.get_text() for entry in figure.legends[0].get_texts()]
    assert legend == [f"{what}, $N = {n}$" for n in (20, 40) for what in ("samples", r"$\lambda_{2}$")]
    titles = [ax.get_title(loc="right").replace("\n", " ") for ax in figure.axes]
    assert titles == [
        "$p = 1$, $p^* = 1$, squared loss",
        r"no left edge at $N = \infty$: no outlier, no threshold",
    ]
    assert models.words(models.of(sweep)) == "p=1 p*=1 loss=squared"


@pytest.mark.parametrize(("kind", "step"), [("continuous", [0.0]), ("discontinuous", [0.0, np.nan])])
def test_curves_that_take_long_are_the_file_s_with_the_threshold(made_up, monkeypatch, kind, step):
    """Linear between points, 0 up to alpha_BBP, where the outlier starts at the edge; a jump leaves a gap."""
    monkeypatch.setattr("bbp.analysis.summary.route", lambda model: "points")
    own = {"edge": [-3.0, -2.0, -1.0], "outlier": [np.nan, -2.5, -2.0], "overlap": [np.nan, 0.1, 0.2]}
    theory = {f"theory_{name}": ("alpha", values) for name, values in own.items()}
    sweep = made_up(MODEL, alphas=(1.0, 2.0, 3.0)).assign(theory).assign_attrs(alpha_bbp=1.5, kind=kind)
    curves, many = theory_curves(sweep), len(step)
    np.testing.assert_array_equal(curves.alpha, [1.0, *[1.5] * many, 2.0, 3.0])
    np.testing.assert_array_equal(curves.theory_outlier, [np.nan, *[-2.5] * many, -2.5, -2.0])
    np.testing.assert_array_equal(curves.theory_overlap, [0.0, *step, 0.1, 0.2])
    nothing = "alpha", np.full(3, np.nan)
    silent = sweep.assign(theory_edge=nothing, theory_outlier=nothing)
    assert np.isnan(theory_curves(silent).theory_overlap[0])  # no edge: nothing is said of the overlap


def test_one_alpha_and_one_sample_can_be_drawn(tmp_path, made_up):
    path = tmp_path / "one.h5"
    dataset.write(path, made_up(MODEL).isel(n=[0], alpha=[1], sample=[3]))
    assert plot.main([str(path), "--out", str(tmp_path / "one.png")]) == 0


def test_a_phase_diagram_tells_kinds_apart(phase_file):
    main, cut = plot.draw(phase_file).axes
    solid, dashed, point = main.get_lines()[:3]
    assert point.get_xdata()[0] == pytest.approx(1.108755500145637, rel=1e-9)
    assert solid.get_xdata()[-1] == point.get_xdata()[0] == dashed.get_xdata()[0]
    infinite = [line for line in main.get_lines() if line.get_color() == style.BLACK]
    np.testing.assert_allclose(infinite[1].get_ydata(), (1 + infinite[1].get_xdata()) / 2, rtol=1e-12)
    shown = lines(cut)
    jumps = [line for label, line in shown.items() if label.endswith("discontinuous")]
    np.testing.assert_array_equal(jumps[0].get_xdata(), [2, 4])
    zero = [line for label, line in shown.items() if label.endswith("overlap")]
    assert np.isnan(zero[0].get_ydata()[0]) and zero[0].get_ydata()[1] == pytest.approx(0.902, abs=1e-3)


def test_no_text_overlaps_and_legends_stay_off_the_data(sweep_file, phase_file, arranged):
    """Axis labels, titles and legends of each figure at both widths: their boxes do not meet, nor lie on a panel."""
    for path in (sweep_file, phase_file):
        for width in style.WIDTHS:
            figure = plot.draw(path, width=width)
            FigureCanvasAgg(figure).draw()
            boxes = []
            for ax in figure.axes:
                texts = [ax.xaxis.label, ax.yaxis.label, ax.title, ax._left_title, ax._right_title]
                boxes += [text.get_window_extent() for text in texts if text.get_text()]
            legends = [*figure.legends, *(ax.get_legend() for ax in figure.axes if ax.get_legend())]
            boxes += [legend.get_window_extent() for legend in legends]
            for index, box in enumerate(boxes):
                # Half a point of tolerance: the box of a text includes empty descenders.
                shrunk = box.padded(-0.5)
                assert not any(shrunk.overlaps(other.padded(-0.5)) for other in boxes[:index])
                assert not any(shrunk.overlaps(ax.get_window_extent().padded(-0.5)) for ax in figure.axes)
                assert box.x0 >= 0 and box.y0 >= 0
                assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1


@pytest.mark.parametrize("form", SIGNATURES)
def test_formats(sweep_file, tmp_path, form, capsys):
    out = tmp_path / "deeper" / f"figure.{form.upper()}"
    assert plot.main([str(sweep_file), "--out", str(out)]) == 0
    assert out.read_bytes().startswith(SIGNATURES[form])
    assert capsys.readouterr().out == f"wrote {out}\n"


@pytest.mark.parametrize("form", ["svg", "eps"])
def test_the_same_file_gives_the_same_bytes_without_dates(sweep_file, form):
    one, two = (plot.render(plot.draw(sweep_file, width="single"), form, 50) for _ in range(2))
    assert one == two and b"Date" not in one


def test_size_in_pixels_and_default_name(sweep_file, tmp_path):
    path = tmp_path / "copy.h5"
    path.write_bytes(sweep_file.read_bytes())
    assert plot.main([str(path), "--dpi", "100", "--width", "single"]) == 0
    with Image.open(tmp_path / "copy.png") as image:
        assert image.width == 340


def test_an_existing_picture_is_kept_unless_forced(sweep_file, tmp_path, capsys):
    out = tmp_path / "figure.png"
    out.write_text("mine")
    assert plot.main([str(sweep_file), "--out", str(out)]) == 2
    assert "exists" in capsys.readouterr().err and out.read_text() == "mine"
    assert plot.main([str(sweep_file), "--out", str(out), "--force"]) == 0
    assert out.read_bytes().startswith(SIGNATURES["png"])


def test_a_picture_is_told_to_be_none_of_our_files(tmp_path, capsys):
    """Not that it would be replaced by its own picture, which is what it is named after."""
    (tmp_path / "s.png").write_bytes(SIGNATURES["png"])
    assert plot.main([str(tmp_path / "s.png")]) == 2
    assert "s.png' is not an HDF5 file" in capsys.readouterr().err


def test_model_is_for_sweeps(phase_file):
    with pytest.raises(ParameterError, match="bbp-phase file"):
        plot.draw(phase_file, model=0)
    with pytest.raises(FileError, match="bbp-phase file, not a bbp-sweep file"):
        dataset.open(phase_file, dataset.SWEEP)


def test_spectrum_of_a_model(tmp_path):
    found = spectrum.of_model(MODEL, 2.5)
    assert found.lam[0] == found.edge.value and found.outliers[0].value < found.edge.value
    assert abs(np.trapezoid(found.rho, found.lam) - spectrum.MASS) < 0.01
    out = tmp_path / "spectrum.svg"
    assert plot.main(["--spectrum", "2.5", "--p", "2", "--a", "0.3", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(SIGNATURES["svg"])


def test_spectrum_of_a_network(tmp_path, capsys):
    """Edge and outliers are those of theory; without an edge the bulk begins with its density; no density, no picture."""
    model = Network(a=2.0, activation="tanh", covariance="power:1")
    found, theory = spectrum.of_model(model, 6.0), general.spectrum(model, 6.0)
    assert (found.edge.value, found.outliers[0].value) == (theory.edge, theory.outliers[0])
    assert len(found.outliers) == len(theory.outliers)
    assert 0.9 < np.trapezoid(found.rho, found.lam) < 1
    out = tmp_path / "spectrum.svg"
    assert plot.main(["--spectrum", "3", "--loss", "squared", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(SIGNATURES["svg"])
    wide = ["--spectrum", "3", "--p", "inf", "--p-star", "2", "--activation", "tanh", "--a", "2"]
    assert plot.main([*wide, "--out", str(tmp_path / "none.svg")]) == 2
    assert "p must be finite" in capsys.readouterr().err
    assert not (tmp_path / "none.svg").exists()


def test_spectrum_of_a_sweep_pools_the_largest_n(sweep_file):
    sweep = dataset.open(sweep_file)
    pool = spectrum.pool_of(sweep, 1.0)
    np.testing.assert_array_equal(pool.eigenvalues, sweep.eigenvalues[1, 1])
    assert (pool.n, pool.size, pool.total) == (40, 80, 320)
    assert pool.complete_below == sweep.eigenvalues[1, 1, :, -1].min()
    whole = spectrum.Pool(np.zeros((2, 80)), 40, 80)
    assert whole.complete_below == np.inf
    third = sweep.assign_coords(alpha=[0.5, 1 / 3, 2.0])
    np.testing.assert_array_equal(spectrum.pool_of(third, 0.333333).eigenvalues, pool.eigenvalues)
    drawn = spectrum.of_sweep(sweep, 1.0)
    low, high = np.sort(pool.eigenvalues[:, -1])[0] - 2.0, pool.eigenvalues.max()
    ax = Figure().subplots()
    spectrum_plots.spectrum_panel(ax, drawn, low, high)  # bars end where not all eigenvalues are known
    (bars,) = (label for label in ax.get_legend_handles_labels()[1] if "samples" in label)
    assert bars.endswith(rf"6 lowest of 80 eigenvalues (cut at $\lambda = {pool.complete_below:.3g}$)")


def test_a_curve_of_alpha_0_that_ends_is_told_above_its_panel(phase_file):
    lines = widths(dataset.open(phase_file))
    ax = Figure().subplots()
    phase_plots.widths_panel(ax, lines.assign(alpha_0_continuation=np.nan * lines.alpha_0_continuation), 0)
    assert ax.get_title(loc="right") == r"no $\alpha_0$ by continuation at $p = 2$ to $4$"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_zero_modes_are_told_in_every_precision(dtype):
    """At alpha = 0.25 three quarters of the eigenvalues are exactly 0 and leave rounding behind; the rest is 0.25."""
    model, n, alpha = Committee(1, 1, 1.0), 60, 0.25
    points = [sampling.sample_point(model, n, alpha, [i], 0, eigenpairs=n, dtype=dtype) for i in range(3)]
    values, residuals = (
        np.concatenate([getattr(q, f) for q in points]) for f in ("eigenvalues", "residuals")
    )
    pool = spectrum.Pool(values, n, n, residuals, float(np.finfo(dtype).eps))
    assert np.mean(~pool.null) == 0.25
    pool = spectrum.Pool(
        values[:, :12], n, n, residuals[:, :12], float(np.finfo(dtype).eps)
    )  # the lowest alone
    np.testing.assert_array_equal(pool.null, np.abs(values[:, :12]) < 1e-4)


def test_bins_of_a_histogram_are_as_fine_as_the_sample_allows():
    """12 eigenvalues a bin on average, between 12 and 48 bins; those outside the window and of the atom do not count; no bin
    beyond what is known of every sample."""
    for inside, bins in ((10, 12), (12 * 20, 20), (10_000, 48)):
        values = np.concatenate([np.linspace(0.1, 1, inside), np.zeros(300), np.full(500, 7.0)])[None, :]
        pool = spectrum.Pool(values, 10, values.size)
        ends, heights = pool.histogram(0, 1, per_bin=12, fewest=12, most=48)
        assert len(heights) == bins == len(ends) - 1
        assert heights @ np.diff(ends) == pytest.approx(inside / values.size)
    lowest = spectrum.Pool(np.linspace(0.01, 0.5, 50)[None, :], 10, 100)
    ends, heights = lowest.histogram(0, 1, per_bin=5, fewest=10, most=10)
    assert ends.tolist() == pytest.approx(np.linspace(0, 0.5, 6).tolist()) and len(heights) == 5


def test_an_alpha_without_samples_has_no_spectrum(made_up):
    sweep = made_up(MODEL)
    nothing = sweep.assign(status=0 * sweep.status)
    with pytest.raises(ParameterError, match="finished samples"):
        spectrum.pool_of(nothing, 1.0)


def test_a_comparison_is_drawn(tmp_path, made_up):
    path = tmp_path / "compare.h5"
    dataset.write(path, compare(made_up(MODEL), draws=0, repeats=20))
    lowest = plot.draw(path, width="single").axes[0]
    assert "lowest eigenvalue" in lowest.get_ylabel() and len(lowest.containers) == 2
