"""The law of the lowest pairs at finite N: against samples that are kept in data/, and identities."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.integrate import simpson

import theory
from tests.theory.samples import lowest, orthogonal, rows
from theory import Network, bbp_threshold, bulk_edge, density, finite
from theory.checks import NotConverged
from theory.exact.density import level_overlap, overlap_density
from theory.finite.edge import AMPLITUDES, critical_amplitude
from theory.finite.law import doubt, doubts, quenched_law

DATA = Path(__file__).parents[3] / "data" / "finite_size"


@pytest.mark.parametrize(
    ("model", "alpha"),
    [
        (Network(1, 1, 1.0), 1.5),
        (Network(1, 1, 0.5), 2.5),
        (Network(2, 1, 0.3), 1.2),
        (Network(4, 2, 0.5), 3.0),
    ],
)
def test_overlaps_of_bulk_and_outlier_add_up_to_one(model, alpha):
    """The signal's measure has mass 1, with the outlier's q2 where there is one (alpha > 1: no atom)."""
    found = next(iter(theory.outliers(model, alpha)), None)
    s = np.linspace(0, 1, 3001)
    x = bulk_edge(model, alpha).value + 300 * s**2
    mass = simpson(overlap_density(model, alpha, x) * 600 * s, x=s) + (found.overlap if found else 0.0)
    assert mass == pytest.approx(1, abs=1e-3)
    inside = density(model, alpha, x) > 1e-12
    assert (
        np.all(overlap_density(model, alpha, x)[inside] > 0)
        and overlap_density(model, alpha, x[0] - 0.1) == 0
    )


def dense_pairs(model, alpha, n, samples, rng):
    """The p_star + 1 lowest eigenvalues and their overlaps (samples, p_star + 1) of dense Hessians, p = 1."""
    pairs = []
    for _ in range(samples):
        teacher, student = orthogonal(model.p_star, n, rng), rows(1, n, rng)
        x = rng.standard_normal((round(alpha * n), n)) / np.sqrt(n)
        pairs.append(lowest(model, x, student, teacher, k=model.p_star + 1))
    return np.array(pairs).transpose(1, 0, 2)


def test_law_of_three_teachers_where_the_density_is_narrow():
    """p = 1, p_star = 3, a = 0.7, alpha = 6, N = 80, a third of its threshold: 250 samples and 250 draws, means within 4
    standard errors (false alarm 2e-4 in all) of q2 of the lowest, of the three lowest and of the one above, and the lowest."""
    model, alpha, n = Network(1, 3, 0.7), 6.0, 80
    values, overlaps = dense_pairs(model, alpha, n, 250, np.random.default_rng(0))
    law = finite.law(model, alpha, n, draws=250, seed=1)
    for name, found in (
        ("lowest", values[:, 0]),
        ("overlap", overlaps[:, :3].mean(axis=1)),
        ("overlap_lowest", overlaps[:, 0]),
        ("overlap_next", overlaps[:, 3]),
    ):
        mean, error = law.mean(name)
        assert abs(mean - found.mean()) < 4 * np.hypot(error, found.std() / np.sqrt(250)), name


def test_scatter_at_fixed_preactivations_is_that_of_dense_samples():
    """p = 1, a = 0.6, alpha = 2.47, N = 100: 300 samples that share their preactivations and 400 draws of quenched_law.
    Standard deviation of the lowest eigenvalue within a fifth, 3.7 standard errors of both (false alarm 2e-4); with as many
    extreme data points as the dimension allows it is a third too large. Mean within 4 standard errors (6e-5)."""
    model, n, rng = Network(1, 1, 0.6), 100, np.random.default_rng(3)
    data = rng.standard_normal((247, 2))  # of orthogonal student and teacher
    student, teacher = np.sqrt(n) * np.eye(2, n)[:, None]
    found = np.empty(300)
    for i in range(300):
        x = np.hstack([data, rng.standard_normal((247, n - 2))]) / np.sqrt(n)
        (found[i],), _ = lowest(model, x, student, teacher)
    law = quenched_law(model, data[:, :1], data[:, 1:], n, draws=400)
    assert abs(law.lowest.std() / found.std() - 1) < 0.2
    error = np.hypot(law.lowest.std() / 20, found.std() / np.sqrt(300))
    assert abs(law.lowest.mean() - found.mean()) < 4 * error


def sampled(name, n, alpha):
    with h5py.File(DATA / name) as file:
        i = int(np.flatnonzero(file["n"][()] == n)[0])
        j = int(np.argmin(np.abs(file["alpha"][()] - alpha)))
        done = file["status"][i, j] == 1
        model = Network(int(file.attrs["p"]), int(file.attrs["p_star"]), float(file.attrs["a"]))
        return (
            model,
            float(file["alpha"][j]),
            file["eigenvalues"][i, j, done, 0],
            file["overlaps"][i, j, done, 0],
            file["max_overlap_rank"][i, j, done] == 0,
        )


@pytest.mark.parametrize(
    ("name", "n", "alpha"),
    [
        pytest.param("c200.h5", 200, 1.15, marks=pytest.mark.slow),
        ("c200.h5", 200, 1.62),
        ("d200.h5", 200, 1.2),
        ("tw.h5", 400, 0.8),
        ("smooth.h5", 200, 0.8),
    ],
)
def test_samples_follow_the_law(name, n, alpha):
    """200 to 600 samples on both sides of both transitions: means within the stated 12 % of the law (0.03 of the lowest
    eigenvalue, 0.08 in phi) plus 4 standard errors of samples and draws, scatter within a fifth. False alarm
    of a law off by just those bounds: 2e-4 for the three means of a case, 1e-3 in all; a right law has less. The scatter of a
    right law: a fifth is 2.8 standard errors of a normal law at 200 samples and draws, 3.4 at 500 (false alarm 5e-3 and 7e-4);
    0.3 in q2 is 3.0 where its kurtosis is 5 (3e-3)."""
    model, alpha, values, overlap, first = sampled(name, n, alpha)
    law = finite.law(model, alpha, n, draws=200)

    def error(values, name):
        return np.hypot(values.std() / np.sqrt(len(values)), law.mean(name)[1])

    assert abs(law.mean("overlap")[0] - overlap.mean()) < 0.12 * overlap.mean() + 4 * error(
        overlap, "overlap"
    )
    assert abs(law.mean("lowest")[0] - values.mean()) < 0.03 + 4 * error(values, "lowest")
    assert abs(law.mean("first")[0] - first.mean()) < 0.08 + 4 * np.hypot(
        0.5 / np.sqrt(len(first)), 0.5 / np.sqrt(200)
    )
    assert law.std("lowest") == pytest.approx(values.std(), rel=0.2)
    assert law.std("overlap") == pytest.approx(overlap.std(), rel=0.3)


@pytest.mark.parametrize(
    ("model", "alpha", "n"),
    [
        (Network(1, 1, 0.5), 6.0, 1000),
        pytest.param(Network(1, 1, 0.5), 3.0, 3000, marks=pytest.mark.slow),
        pytest.param(Network(2, 1, 0.3), 2.6, 3000, marks=pytest.mark.slow),
        (Network(2, 1, 0.3), 2.0, 3000),
        pytest.param(Network(2, 1, 1.5), 2.5, 3000, marks=pytest.mark.slow),
    ],
)
def test_beyond_the_threshold_the_law_tends_to_the_outlier(model, alpha, n):
    """Means over 32 draws within 4 sigma of N = inf and 1 %, the size of corrections of order 1/N (false alarm 6e-5 each)."""
    found, law = next(iter(theory.outliers(model, alpha)), None), finite.law(model, alpha, n, draws=32)
    mean, error = law.mean("overlap")
    assert abs(mean - found.overlap) < 4 * error + 0.01 * found.overlap
    if model.degeneracy == 1:  # else the lowest is that of two, split by the draw
        mean, error = law.mean("lowest")
        assert abs(mean - found.value) < 4 * error + 0.01 * abs(found.value)
    assert law.mean("informative")[0] > 0.95


@pytest.mark.parametrize(
    ("model", "n", "draws", "allowed"),
    [
        (Network(1, 1, 0.5), 1000, 200, 0.05),
        pytest.param(Network(1, 2, 0.5), 1000, 200, 0.1, marks=pytest.mark.slow),
    ],
)
def test_law_at_a_sharp_threshold_has_the_critical_amplitude(model, n, draws, allowed):
    """Draws at alpha_BBP: mean q2 within 4 standard errors and the stated correction of C n^{-1/3}, nothing fitted."""
    mean, error = finite.law(model, bbp_threshold(model).alpha, n, draws=draws).mean("overlap")
    assert abs(mean - critical_amplitude(model) * n ** (-1 / 3)) < 4 * error + allowed * mean


def test_samples_at_a_sharp_threshold_have_the_critical_amplitude():
    """Samples at the alpha nearest alpha_BBP, N = 200 and 800: 4 standard errors and 10 % (false alarm 6e-5 each)."""
    for name, n in (("c200.h5", 200), ("c800.h5", 800)):
        model, alpha, _, overlap, _ = sampled(name, n, 1.38)
        assert abs(alpha / bbp_threshold(model).alpha - 1) < 0.05
        bound = 4 * overlap.std() / np.sqrt(len(overlap)) + 0.1 * overlap.mean()
        assert abs(overlap.mean() - critical_amplitude(model) * n ** (-1 / 3)) < bound


def test_amplitudes_are_those_of_a_critical_goe():
    """c_2 from 500 matrices of order 60 within 4 standard errors and 0.05."""
    n, rng, found = 60, np.random.default_rng(0), []
    for _ in range(500):
        raw = rng.standard_normal((n, n))
        matrix = (raw + raw.T) / np.sqrt(2 * n)
        matrix[0, 0], matrix[1, 1] = matrix[0, 0] - 1, matrix[1, 1] - 1
        found.append((np.linalg.eigh(matrix)[1][:2, :2] ** 2).sum() / 2 * n ** (1 / 3))
    assert abs(np.mean(found) - AMPLITUDES[1]) < 4 * np.std(found) / np.sqrt(500) + 0.05


def test_overlaps_of_eigenvalues_add_up_to_the_density():
    """Eigenvalues 1 to 20 hold what the signal has below the 20th; three of section 11's numbers."""
    model = Network(1, 1, 0.5)
    np.testing.assert_allclose(level_overlap(model, 0.8, 400, [1, 2, 3]), [0.046, 0.020, 0.015], atol=6e-4)
    parts = level_overlap(model, 0.8, 400, np.arange(1, 21))
    assert parts.sum() == pytest.approx(
        level_overlap(model, 0.8, 20, 1), rel=1e-2
    )  # one eigenvalue of 20 is 20 of 400
    assert np.all(np.diff(parts) < 0)


@pytest.mark.parametrize(
    "model", [Network(1, 1, 1.0), pytest.param(Network(2, 1, 1.0), marks=pytest.mark.slow)]
)
def test_curves_are_smooth(model):
    """Second differences of a mean of 32 draws at steps of 0.04 in alpha, over sqrt(6) standard errors: 1 for independent
    draws; 0.24 to 0.35 (p = 2) for preactivations in order of arrival. 0.11 and 0.05 here, as draws lose extreme data points
    one at a time along alpha; below 0.15 and 0.1."""
    law = finite.law(model, np.arange(80, 160, 4) / 100, 100, draws=32)
    for name in ("overlap", "lowest"):
        mean, error = law.mean(name)
        rough = np.sqrt(np.mean(np.diff(mean, 2) ** 2) / 6) / np.mean(error)
        assert rough < (0.15 if model.p == 1 else 0.1), (name, rough)


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 0.02, 8),
        pytest.param((2, 1, 0.02, 8), marks=pytest.mark.slow),
        (5, 1, 0.02, 8),
        (1, 2, 0.3, 12),
    ],
)
def test_tiny_matrices_have_a_law_or_none(shape):
    """Draws whose bulk is too small to have eigenvalues are left out, without a warning."""
    p, p_star, a, n = shape
    law = finite.law(Network(p, p_star, a), np.linspace(0.1, 6, 24)[1::4], n, draws=10)
    assert np.any(np.isfinite(law.lowest)) and np.all((law.overlap >= 0) | np.isnan(law.overlap))


def test_several_alphas_are_each_as_alone():
    """Means have the bits of single calls, with threads too; NaN where there is no law, which is an error for one alpha."""
    model = Network(1, 1, 0.5)
    both = finite.law(model, [0.03, 3.0], 60, draws=8, threads=2)
    alone = finite.law(model, 3.0, 60, draws=8)
    for none in (
        both.lowest,
        both.mean("overlap")[0],
        both.quantile("overlap", 0.5),
        both.share_above(0.1)[0],
    ):
        assert np.all(np.isnan(none[0]))
    np.testing.assert_array_equal(both.overlap[1], alone.overlap)
    assert (both.mean("lowest")[0][1], both.std("lowest")[1]) == (
        alone.mean("lowest")[0],
        alone.std("lowest"),
    )
    with pytest.raises(NotConverged):
        finite.law(model, 0.03, 60, draws=8)


def test_reasons():
    overlap, alone = "overlap", "overlap_lowest"
    for p, p_star, a, alpha, n, of, word in (
        (5, 1, 1.0, 2.0, 200, overlap, "p = 5"),
        (1, 9, 1.0, 50.0, 200, overlap, "p* = 9"),
        (4, 4, 1.0, 8.0, 200, overlap, "p = 4, p* = 4"),
        (4, 1, 1.0, 1.4, 200, overlap, "p = 4: q2 scatters"),
        (1, 1, 1.0, 2.0, 99, overlap, "p N = 99"),
        (2, 1, 0.05, 2.0, 200, overlap, "a = 0.05"),
        (2, 1, 1.0, 0.2, 200, overlap, "alpha = 0.2"),
        (2, 4, 0.6, 14.0, 150, alone, "lowest vector alone"),
        (2, 4, 0.5, 8.0, 90, overlap, None),
        (1, 8, 2.0, 50.0, 100, overlap, None),
        (1, 1, 0.05, 0.2, 200, overlap, None),
        (3, 1, 1.0, 1.2, 200, overlap, None),
        (2, 4, 0.6, 14.0, 150, overlap, None),
        (1, 4, 0.6, 14.0, 150, alone, None),
    ):
        said = doubt(Network(p, p_star, a), alpha, n, of)
        assert said is None if word is None else word in said, (p, p_star, a, alpha, n, of, said)
    said = doubts(Network(2, 1, 1.0), [0.2, 1.0], [20, 30, 200])
    assert said.startswith("N = 20: p N = 40") and "; N = 200: p > 1 at alpha = 0.2" in said
    assert doubts(Network(1, 1, 1.0), [1.0], [200]) == ""


def test_answers_say_it():
    model = Network(1, 1, 0.5)
    for said in (
        finite.law(model, 3.0, 40, draws=4).doubt,
        finite.law(model, [3.0], 40, draws=4).doubt[0],
        finite.answer(model, alpha=3.0, n=40, draws=10).reason,
    ):
        assert said == "p N = 40 is below 100: shares can be 0.3 off"
    assert finite.law(model, 3.0, 100, draws=4).doubt is None
