"""Spectral methods: thresholds in closed form, and one Monte Carlo check of eigenvalue and overlap."""

import numpy as np
import pytest
from scipy.linalg import eigh

from theory.general.spectral_methods import (
    optimal,
    optimal_at,
    spectral_edge,
    spectral_outlier,
    spectral_threshold,
    subset,
    trimmed,
)


@pytest.mark.parametrize("p_star", [1, 2, 3, 10, 50])
def test_optimal_reaches_weak_recovery(p_star):
    found = spectral_threshold(optimal(), p_star)
    assert found.alpha == pytest.approx(p_star / 2, rel=1e-12)
    outlier = spectral_outlier(optimal(), p_star, p_star)  # alpha = p_star: above it
    assert outlier.value == pytest.approx(1, rel=1e-12)  # sup T itself, whatever alpha


@pytest.mark.parametrize("p_star", [1, 2, 5])
@pytest.mark.parametrize("ratio", [1.2, 2.0, 4.0])
def test_optimal_at_threshold_in_closed_form(p_star, ratio):
    """T/(1 - T) = (y - 1)/r with r = sqrt(alpha_d/alpha_c): alpha E[(y - 1)^2]/r = 1, so alpha^2 = alpha_c alpha_d."""
    designed = ratio * p_star / 2
    found = spectral_threshold(optimal_at(designed, p_star), p_star)
    assert found.kind == "discontinuous"
    assert found.alpha == pytest.approx(np.sqrt(designed * p_star / 2), rel=1e-12)


@pytest.mark.parametrize("cut", [0.7, 1.0 - 1e-9, 1.0, 1.0 + 1e-9, 2.0])
def test_subset_in_closed_form(cut):
    """p_star = 2, y ~ Exp(1): T = 1 with P = e^-cut and E[s | T = 1] = 1 + cut, a spiked covariance of alpha P samples.

    Threshold alpha P = 1/cut^2, edge (1 + sqrt(alpha P))^2; the root of either lies on a node of the walk at cut = 1
    and at alpha P = 1.
    """
    share = np.exp(-cut)
    found = spectral_threshold(subset(cut), 2)
    assert found.kind == "continuous" and found.alpha == pytest.approx(1 / (share * cut**2), rel=1e-12)
    for alpha in (0.3 / share, 1 / share, 5.0 / share):
        edge = spectral_edge(subset(cut), alpha, 2)
        assert edge.kind == "sharp"
        assert edge.value == pytest.approx((1 + np.sqrt(alpha * share)) ** 2, rel=1e-12)


def test_subset_edge_on_a_node():
    edge = spectral_edge(subset(np.log(2)), 2.0, 2)
    assert edge.kind == "sharp" and edge.value == pytest.approx(4, rel=1e-13)


def test_no_preprocessing_beats_the_optimum():
    for method in (trimmed(4.0), trimmed(9.0), subset(2.0), subset(4.0), optimal_at(0.6)):
        assert spectral_threshold(method).alpha > 0.5


@pytest.mark.parametrize("alpha", [0.6, 1.0, 3.0])
def test_optimal_has_the_largest_overlap_at_every_alpha(alpha):
    best = spectral_outlier(optimal(), alpha).overlap
    for method in (optimal_at(alpha), optimal_at(1.5), subset(2.0), trimmed(6.0)):
        other = spectral_outlier(method, alpha)
        assert other is None or other.overlap < best


@pytest.mark.parametrize("method", [subset(2.0), trimmed(6.0), optimal_at(3.0)], ids=lambda m: m.name)
def test_samples(method):
    """Dense samples at N = 300, alpha = 3, 12 draws: mean eigenvalue and overlap within 5 sigma plus a 3/N bias.

    Two-sided, 11 degrees of freedom: false-alarm rate below 1e-3 per comparison, six comparisons, fixed seed.
    """
    n, alpha, draws = 300, 3.0, 12
    rng = np.random.default_rng(5)
    values, overlaps = [], []
    for _ in range(draws):
        x = rng.standard_normal((round(alpha * n), n))
        y = x[:, 0] ** 2  # the teacher is the first axis, by rotation invariance
        eigenvalues, vectors = eigh((x.T * method(y)) @ x / n, subset_by_index=[n - 1, n - 1])
        values.append(eigenvalues[-1])
        overlaps.append(vectors[0, -1] ** 2)
    theory = spectral_outlier(method, alpha)
    for sample, wanted in ((values, theory.value), (overlaps, theory.overlap)):
        error = np.std(sample, ddof=1) / np.sqrt(draws)
        assert abs(np.mean(sample) - wanted) < 5 * error + 3 / n
    assert theory.value > spectral_edge(method, alpha).value
