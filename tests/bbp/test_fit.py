"""`bbp fit` and `bbp join`: laws of made-up sweeps, of the reference data, files, refusals."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import theory
from bbp import fit
from bbp.analysis.laws import SHAPES
from bbp.experiments import models
from bbp.files import dataset
from tests.bbp.conftest import made_up_sweep
from theory.checks import ParameterError
from theory.exact.bulk import bulk_edge
from theory.exact.transition import bbp_threshold
from theory.model import Committee

DATA = Path(__file__).parents[2] / "data"
SIZES = (100, 200, 400, 800, 1600)
REFERENCE = DATA / "finite_size"


def scaled(law="N^-2/3", samples=64, seed=0, noise=0.02):
    """A sweep whose lowest eigenvalue and overlap approach theory's by a law, and whose phi rises about 1.2 + 3 / N^(1/2)."""
    sweep = made_up_sweep(n=SIZES, samples=samples, whole=True)
    rng = np.random.default_rng(seed)
    n = np.array(SIZES, dtype=float)[:, None, None]
    shape = SHAPES[law](n, 0.4) * (1 + noise * rng.standard_normal((5, 3, samples)))
    theory = models.theory_along(models.of(sweep), sweep.alpha.values)
    limit = np.where(np.isfinite(theory["outlier"]), theory["outlier"], theory["edge"])[:, None]
    values = sweep.eigenvalues.values.copy() + 30
    values[..., 0] = limit + 2 * shape
    overlaps = np.zeros_like(values)
    overlaps[..., 0] = np.nan_to_num(theory["overlap"])[:, None] + 0.5 * shape
    alpha = sweep.alpha.values[:, None]
    phi = rng.random((5, 3, samples)) < 1 / (1 + np.exp(-(alpha - 1.2 - 3 / n**0.5) * n**0.5 / 5))
    grid = ("n", "alpha", "sample")
    return sweep.assign(
        eigenvalues=((*grid, "eigenpair"), values),
        overlaps=((*grid, "eigenpair"), overlaps),
        max_overlap_rank=(grid, np.where(phi, 0.0, 3.0)),
    )


def row(found, quantity, alpha=None):
    chosen = found.quantity.values == quantity
    chosen &= True if alpha is None else found.at_alpha.values == alpha
    (index,) = np.flatnonzero(chosen)
    return found.isel(row=index)


@pytest.mark.parametrize("law", ["N^-2/3", "1/log N", "N^-x"])
def test_laws_of_a_sweep_are_found_with_theory_s_limits(law):
    found = fit(scaled(law), of=["lowest", "overlap"])
    assert set(found.verdict.values) == {law}
    here = theory.outliers(Committee(1, 1, 0.5), 2.0)[0]
    for alpha, limit, overlap in (
        (0.5, bulk_edge(Committee(1, 1, 0.5), 0.5).value, 0.0),
        (2.0, here.value, here.overlap),
    ):
        lowest, q2 = row(found, "lowest", alpha), row(found, "overlap", alpha)
        assert (float(lowest.taken_limit), float(q2.taken_limit)) == pytest.approx((limit, overlap), rel=1e-9)
        for one, true in ((lowest, 2.0), (q2, 0.5)):
            each = one.sel(law=law)
            assert abs(float(each.coefficient) - true) < 4 * float(each.coefficient_error)


def test_thresholds_and_widths_of_phi():
    """Of a rise about 1.2 + 3 N^-1/2 of width 5 N^-1/2, 2,000 samples at each of ten alphas: within 4 standard errors."""
    sweep = scaled(samples=2000)
    wide = sweep.isel(alpha=[0] * 10).assign_coords(alpha=np.linspace(0.8, 2.0, 10))
    rng, n = np.random.default_rng(4), np.array(SIZES, dtype=float)[:, None, None]
    phi = rng.random((5, 10, 2000)) < 1 / (
        1 + np.exp(-(wide.alpha.values[:, None] - 1.2 - 3 / n**0.5) * n**0.5 / 5)
    )
    wide = wide.assign(max_overlap_rank=(("n", "alpha", "sample"), np.where(phi, 0.0, 3.0)))
    wide.attrs["alpha_bbp"] = 1.2
    found = fit(wide, of=["threshold", "width"])
    for quantity, true in (("threshold", 3.0), ("width", 5.0)):
        one = row(found, quantity).sel(law="N^-1/2")
        assert (
            abs(float(one.coefficient) - true) < 4 * float(one.coefficient_error)
            and float(one.p_value) > 0.001
        )


def test_a_free_limit_is_measured_and_a_given_one_is_taken():
    found = fit(scaled(), of=["overlap"], alpha=[2.0], limit="free")
    one = found.sel(law="N^-2/3").isel(row=0)
    assert np.isnan(found.taken_limit).all() and float(found.theory_limit[0]) > 0.1
    assert float(one.limit_low) < float(found.theory_limit[0]) < float(one.limit_high)
    given = fit(scaled(), of=["overlap"], alpha=2.0, limit=0.3)
    assert given.verdict.values.tolist() == [""] and given.why.values.tolist() == ["every law is rejected"]


def test_what_samples_are_too_few_for_is_said():
    """A size of 15 samples does not count; then three are left."""
    sweep = scaled()
    status = sweep.status.where((sweep.n > 200) | (sweep.sample < 15), 0)
    found = fit(sweep.assign(status=status), of=["overlap", "width"], alpha=[0.5])
    assert found.why.values[0] == "3 sizes, 4 are needed" and found.verdict.values[0] == ""
    assert found.why.values[1].startswith("0 sizes have an error")


def test_reference_data():
    """At a smooth edge 1/log N is not rejected and every fixed power is; at a sharp edge N^-2/3 is not and 1/log N is."""
    for name, stands, falls in (
        ("smooth", ["1/log N"], ["N^-1/2", "N^-2/3", "1/N"]),
        ("tw", ["N^-2/3"], ["N^-1/2", "1/log N"]),
    ):
        found = fit(sorted(REFERENCE.glob(f"{name}*.h5")), of=["lowest"])
        p = dict(zip(found.law.values, found.p_value.values[0], strict=True))
        assert min(p[law] for law in stands) > 0.01 > max(p[law] for law in falls)
        assert found.verdict.values[0] == ""  # N^-x, and 1/N at the sharp edge, describe four sizes as well


def test_the_program_prints_and_writes(bbp, tmp_path):
    out = tmp_path / "laws.h5"
    files = sorted(REFERENCE.glob("smooth*.h5"))
    said = bbp("fit", *files, "--of", "lowest,overlap", "--save", out)
    assert said.code == 0 and "not decided: 1/log N and N^-x are not rejected" in said.out
    assert "N = 200, 400, 800, 1600; limit -1.81977 (theory's)" in said.out and "rejected" in said.out
    assert max(map(len, said.out.splitlines())) <= 120
    again = dataset.open(out)
    assert again.quantity.values.tolist() == ["lowest", "overlap"] and again.attrs["format"] == "bbp-fit"
    assert bbp("fit", *files, "--out", tmp_path / "laws.png").code == 0
    assert bbp("plot", out, "--out", tmp_path / "again.pdf").code == 0
    free = bbp("fit", *files, "--of", "overlap", "--limit", "free")
    assert "limit fitted (theory: 0)" in free.out and "4 sizes, 5 are needed" in free.out
    assert bbp("info", out).code == 0 and bbp("export", out).out.startswith("row,at_alpha")


def test_thresholds_of_a_phase_diagram_have_the_limit_of_theory():
    """Each width and a is a row, p = inf, which has no finite N, none; 1/log N put in is the verdict."""
    sizes, limit = np.array([1e3, 1e4, 1e5, 1e6]), bbp_threshold(Committee(1, 1, 2.0)).alpha
    rng = np.random.default_rng(5)
    values = limit - 2 / np.log(sizes) + 1e-3 * rng.standard_normal(4)
    over = ("n", "p", "finite_a")
    table = np.stack([values, np.full(4, np.nan)], axis=1)[..., None]
    phase = xr.Dataset(
        {"alpha_bbp_n": (over, table), "alpha_bbp_n_error": (over, np.full((4, 2, 1), 1e-3))},
        {"n": sizes, "p": [1.0, np.inf], "finite_a": [2.0]},
        {"format": "bbp-phase", "p_star": 1, "config": '{"draws": 100}'},
    )
    found = fit(phase)
    assert found.verdict.values.tolist() == ["1/log N", ""] and found.taken_limit.values[0] == limit
    assert abs(float(found.coefficient.sel(law="1/log N")[0]) + 2) < 4 * float(
        found.coefficient_error.sel(law="1/log N")[0]
    )


def test_phase_diagrams_and_descents(bbp):
    with pytest.raises(ParameterError, match="no thresholds at finite N"):
        fit(xr.Dataset(attrs={"format": "bbp-phase"}))
    one = DATA / "descent" / "descent_p1_a0.5_n100.h5"
    assert "nothing has two sizes N" in bbp("fit", one).err


def test_q2_is_the_overlap(bbp):
    words = REFERENCE / "smooth.h5", REFERENCE / "smooth1600.h5", "--of"
    one, two = bbp("fit", *words, "q2"), bbp("fit", *words, "overlap")
    assert one.code == 0 and one.out == two.out


def test_the_program_joins(bbp, refused, tmp_path):
    out = tmp_path / "both.h5"
    said = bbp("join", *sorted(REFERENCE.glob("smooth*.h5")), "--out", out)
    assert said.code == 0 and "4 n, 1 alpha, 200 sample" in said.out
    assert dataset.open(out).n.values.tolist() == [200, 400, 800, 1600]
    assert bbp("join", out, "--out", out).code == 2
    for words in (["join", out, out, "--out", tmp_path / "x.h5"], ["fit", out, out], ["compare", out, out]):
        refused("is given twice", *words)
    assert "out is an HDF5 file" in bbp("join", out, "--out", tmp_path / "x.png").err
    figure = DATA / "figures" / "edge.h5"
    assert "only samples are joined" in bbp("join", figure, "--out", tmp_path / "x.h5").err
