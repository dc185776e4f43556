"""Dense samples against the theory of N = inf: outlier and squared overlap of committees, at transitions of both kinds;
lowest eigenvalue and shares of six networks; bulk densities.

Statistics of committees: the mean over S samples of the p p_star lowest eigenvalues, and of their q2, against the theory's
value. The allowed difference is 4.5 standard errors (false alarm 7e-6 a comparison, 1e-4 for these, were the seeds free)
and a bias of order 1/N: at most 3/N on eigenvalues and 7/N on q2, the largest measured at N = 100 being 2.8 +- 1.4 and
5.4 +- 0.5. Eigenvalues of one sample scatter by O(N^{-1/2}) because of its preactivations.
"""

import math

import numpy as np
import pytest

from sims.sampling import sample_point
from tests.sims.instances import quick_rows
from theory import outliers
from theory.general import Network, density, spectrum
from theory.model import Committee


def assert_near(values, theory, bias):
    values = np.asarray(values)
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean() - theory) < 4.5 * error + bias


def signal_means(model, n, alpha, samples, seed=1):
    """Mean over the p p_star lowest pairs of eigenvalue and q2, each (samples,)."""
    found = sample_point(model, n, alpha, range(samples), seed, eigenpairs=model.degeneracy)
    assert np.all(found.status == 1)
    return found.eigenvalues.mean(axis=1), found.overlaps.mean(axis=1)


@quick_rows(
    "p, p_star, a, alpha, n, samples",
    (1, 1, 0.5, 3.0, 100, 120),
    (2, 2, 0.3, 5.0, 100, 40),
    slow=[
        *((2, 1, 0.3, 2.5, n, 120) for n in (100, 200)),
        *((2, 1, 1.0, 2.0, n, 100) for n in (100, 200)),
        (1, 1, 0.5, 3.0, 200, 120),
        (2, 2, 0.3, 5.0, 200, 80),
    ],
)
def test_outlier_and_overlap(reference, p, p_star, a, alpha, n, samples):
    key = {"p": p, "p_star": p_star, "a": a, "alpha": alpha}
    point = next(q for q in reference["points"] if key.items() <= q.items())
    values, q2 = signal_means(Committee(p, p_star, a), n, alpha, samples)
    assert_near(values, point["outlier"], 3 / n)
    assert_near(q2, point["overlap"], 7 / n)
    assert values.mean() < point["edge"]


@quick_rows("n", 100, slow=[200])
def test_outlier_and_overlap_beyond_a_discontinuous_transition(n):
    """p = 1, a = 2: the transition is at alpha = 1.690, with a jump of the overlap."""
    model = Committee(1, 1, 2.0)
    theory = outliers(model, 3.0)[0]
    values, q2 = signal_means(model, n, 3.0, 120)
    assert_near(values, theory.value, 3 / n)
    assert_near(q2, theory.overlap, 7 / n)


def test_overlap_fades_below_the_transition():
    """p = 2, a = 1, alpha = 0.5 < 0.97: no outlier; q2 of the lowest pairs falls with N, by more than 4.5 sigma."""
    model = Committee(2, 1, 1.0)
    assert outliers(model, 0.5) == ()
    small, large = (signal_means(model, n, 0.5, 100)[1] for n in (40, 120))
    error = math.hypot(small.std(), large.std()) / math.sqrt(100)
    assert small.mean() - large.mean() > 4.5 * error and large.mean() < small.mean() / 1.5


def test_rank_of_the_largest_overlap():
    """Far above the transition it is that of the outlier; below, it spreads over the spectrum."""
    above = sample_point(Committee(1, 1, 0.5), 100, 6.0, range(40), 0).max_overlap_rank
    below = sample_point(Committee(1, 1, 0.5), 100, 0.2, range(40), 0).max_overlap_rank
    assert np.mean(above == 0) > 0.8
    assert np.mean(below == 0) < 0.6 and len(set(below)) > 5 and np.all((below >= 0) & (below < 100))


@pytest.mark.slow
def test_outlier_and_overlap_at_a_thousand(reference):
    """N = 1000, p = 2, a = 0.3, alpha = 2.5: outlier -0.9664, q2 0.3832, from 24 samples."""
    values, q2 = signal_means(Committee(2, 1, 0.3), 1000, 2.5, 24)
    for name, seen in (("outlier", values), ("q2", q2)):
        print(f"{name} {seen.mean():.4f} +- {seen.std(ddof=1) / math.sqrt(24):.4f}")
    assert_near(values, -0.9664, 3 / 1000)
    assert_near(q2, 0.3832, 7 / 1000)


MODELS = {
    "tanh": (Network(a=3.0, activation="tanh"), 6.0),
    "sigmoid": (Network(a=1.0, activation="sigmoid"), 6.0),
    "noise": (Network(a=2.0, noise=0.3), 6.0),
    "two levels": (Network(a=0.5, noise=0.3, covariance="levels:0.4@2,2.2@1"), 4.0),
    "Marchenko-Pastur": (Network(a=0.5, covariance="mp:0.5"), 4.0),
    "overlap": (Network(a=1.0, overlap=0.8), 5.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_lowest_eigenvalue_and_shares(name):
    """16 samples at N = 500, fixed seed: the lowest eigenvalue and its squared overlaps with teacher and student within 4.1
    standard errors (15 degrees of freedom: false-alarm rate 1e-3 each, 2e-2 for all 18) and a bias of (3 |value| + 1)/N."""
    (model, alpha), n, samples = MODELS[name], 500, 16
    found = spectrum(model, alpha)
    drawn = sample_point(model, n, alpha, range(samples), seed=7)
    pairs = (
        (found.outliers[0], drawn.eigenvalues[:, 0]),
        (found.overlaps[0] * found.teacher_share[0], drawn.overlaps[:, 0]),
        (found.overlaps[0] * found.student_share[0], drawn.student_shares[:, 0]),
    )
    for theory, values in pairs:
        error = values.std(ddof=1) / np.sqrt(samples)
        assert abs(values.mean() - theory) < 4.1 * error + (3 * abs(theory) + 1) / n


@quick_rows(
    "model, places",
    (Network(a=2.0, covariance="levels:0.4@2,2.2@1"), (1.0, 3.0)),
    (Network(2, a=2.0, activation="tanh"), (-0.6, 0.2, 0.6)),
    slow=[(Network(a=2.0, activation="tanh"), (-0.2, 0.25, 1.4))],
)
def test_dense_samples_have_the_density(model, places):
    """24 samples of N = 150, windows of 0.2: 4 sigma of samples and 3 % for N and width (false alarm 3e-4 in all)."""
    values = sample_point(model, 150, 6.0, range(24), 0, eigenpairs=150 * int(model.p)).eigenvalues
    for place, rho in zip(places, density(model, 6.0, places), strict=True):
        found = (np.abs(values - place) < 0.1).mean(axis=1) / 0.2
        assert abs(found.mean() - rho) < 4 * found.std() / np.sqrt(24) + 0.03 * rho
