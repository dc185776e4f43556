"""Bootstrap and finite-size scaling on made-up samples whose answer is known."""

import numpy as np
import pytest

from bbp.analysis.bootstrap import bootstrap, bootstrap_fraction, from_replicates, wilson
from bbp.analysis.finite_size import alpha_zero_sampled, logit_fit, phi_crossing, shift_law
from theory.checks import ParameterError


def test_bootstrap_of_a_mean_has_the_textbook_error():
    """Error of a bootstrap with 4000 repeats against s/sqrt(n): its own relative noise is 1/sqrt(8000) = 1.1 %; 5 sigma."""
    rng = np.random.default_rng(0)
    values = np.append(rng.normal(3, 2, 400), np.nan)
    found = bootstrap(values, rng, repeats=4000)
    textbook = np.nanstd(values) / np.sqrt(400)
    assert found.value == pytest.approx(np.nanmean(values))
    assert found.error == pytest.approx(textbook, rel=0.056)
    assert found.low < found.value < found.high
    assert found.sigmas(found.value - found.error) == pytest.approx(1)


def test_bootstrap_interval_covers():
    """95 % intervals of 300 experiments: coverage between 0.89 and 0.98 (5 sigma of a binomial is 0.063)."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        found = bootstrap(rng.exponential(1.0, 60), rng, repeats=300)
        covered += found.low <= 1.0 <= found.high
    assert 0.87 < covered / 300 < 0.99


def test_bootstrap_of_few_samples():
    rng = np.random.default_rng(2)
    assert np.isnan(bootstrap([], rng).value)
    single = bootstrap([2.0, np.nan], rng)
    assert single.value == 2.0 and np.isnan(single.error)
    assert np.isnan(from_replicates(1.0, [np.nan] * 50).error)
    with pytest.raises(ParameterError, match="values must have shape"):
        bootstrap(np.ones((2, 2)), rng)


def test_fraction_without_spread_keeps_an_interval():
    rng = np.random.default_rng(3)
    none = bootstrap_fraction(np.zeros(40), rng)
    assert (
        none.value == 0 and none.low == 0 and none.high == pytest.approx(1.96**2 / (40 + 1.96**2), rel=1e-3)
    )
    assert none.error > 0
    assert wilson(0.5, 100, 1.0)[0] == pytest.approx(0.5 - 0.5 * 0.1 / np.sqrt(1.01), rel=1e-12)


def test_logit_fit_recovers_its_own_coefficients():
    x = np.linspace(-0.5, 0.5, 9)
    beta = np.array([0.3, 2.0, -1.0])
    trials = np.full(9, 1e7)
    phi = 1 / (1 + np.exp(-(beta[0] + beta[1] * x + beta[2] * x**2)))
    assert logit_fit(x, trials * phi, trials) == pytest.approx(beta, rel=1e-5)


def _curves(alpha, centre, widths, samples, rng):
    curves = []
    for width in widths:
        phi = 1 / (1 + np.exp(-(alpha - centre) / width + 0.4))
        curves.append((rng.random((len(alpha), samples)) < phi[:, None]).astype(float))
    return curves


def test_crossing_is_found_within_its_error():
    """Two logistic curves that cross at 1.38: within 4 sigma of it (false alarm 6e-5), with an error small enough to tell."""
    rng = np.random.default_rng(4)
    alpha = np.linspace(1.1, 1.7, 9)
    found = phi_crossing(
        alpha, tuple(_curves(alpha, 1.38, (0.15, 0.07), 400, rng)), (400, 800), rng, repeats=200
    )
    assert found.found > 0.95
    assert found.alpha.error < 0.03
    assert abs(found.alpha.sigmas(1.38)) < 4


def test_crossing_of_parallel_curves_is_not_found():
    alpha = np.linspace(1.0, 2.0, 9)
    rng = np.random.default_rng(5)
    phi = 1 / (1 + np.exp(-(alpha - 1.5) / 0.1))
    small, large = (
        (rng.random((9, 4000)) < p[:, None]).astype(float) for p in (phi, np.clip(phi - 0.05, 0, 1))
    )
    found = phi_crossing(alpha, (small, large), (400, 800), rng, repeats=100)
    assert found.found < 0.9


@pytest.mark.parametrize("law", ["power", "logarithm"])
def test_shift_law_tells_the_laws_apart(law):
    n = np.array([100.0, 200, 400, 800, 1600])
    truth = {"power": 3 * n ** (-2 / 3), "logarithm": 0.3 / np.log(n)}[law]
    error = 0.01 * truth
    rng = np.random.default_rng(6)
    found = shift_law(n, truth + error * rng.standard_normal(5), error)
    assert found.preferred == law and found.decisive and found.degrees == 4
    assert found.chi2[law] < 20  # 4 degrees of freedom: false alarm 5e-4
    if law == "power":
        assert abs(found.exponent - 2 / 3) < 5 * found.exponent_error


def test_alpha_zero_of_a_straight_line():
    """q2 = 0.4 (alpha - 0.9) with noise: within 4 sigma."""
    rng = np.random.default_rng(7)
    alpha = np.linspace(1.1, 1.3, 5)
    overlaps = 0.4 * (alpha - 0.9)[:, None] + 0.02 * rng.standard_normal((5, 200))
    found = alpha_zero_sampled(alpha, overlaps, rng)
    assert abs(found.sigmas(0.9)) < 4 and found.error < 0.05


def test_bad_input():
    rng = np.random.default_rng(8)
    with pytest.raises(ParameterError, match="at least four"):
        phi_crossing([1, 2], (np.ones((2, 3)),) * 2, (1, 2), rng)
    with pytest.raises(ParameterError, match="increasing"):
        phi_crossing([1, 2, 3, 4], (np.ones((4, 3)),) * 2, (2, 2), rng)
    with pytest.raises(ParameterError, match="at least two sizes"):
        shift_law([100], [1.0], [0.1])
    with pytest.raises(ParameterError, match="errors positive"):
        shift_law([100, 200], [1.0, 0.5], [0.1, 0.0])
    with pytest.raises(ParameterError, match="alpha"):
        alpha_zero_sampled([1.0], np.ones((1, 3)), rng)
