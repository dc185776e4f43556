"""alpha_BBP, a_c, p_c and both alpha_0: reference values, closed forms, facts of the paper, bad input."""

import math

import mpmath as mp
import numpy as np
import pytest

import theory
from theory.exact.averages import Widths
from theory.exact.bulk import edge_root, outlier_root
from theory.exact.outliers import squared_overlap
from theory.exact.transition import alpha_zero_map, critical_normalisation, critical_width, threshold_map
from theory.general.spectrum import alpha_zero
from theory.model import Network


def test_tricritical_points(reference):
    for row in reference["tricritical"]:
        assert critical_normalisation(row["p"], row["p_star"]) == pytest.approx(row["a_c"], rel=1e-12)


def test_kind_changes_at_the_critical_normalisation_with_noise():
    """At any width, the infinite one included; and noise that goes away leaves a_c without it."""
    p, noise = np.array([1, 2, 30, 10**9, np.inf]), np.array([0.01, 0.3, 1.0, 4.0])[:, None]
    a_c = critical_normalisation(p, 2, noise)
    assert not np.any(threshold_map(p, 2, a_c * (1 - 1e-9), noise).discontinuous)
    assert np.all(threshold_map(p, 2, a_c * (1 + 1e-9), noise).discontinuous)
    np.testing.assert_allclose(a_c[:, -1], a_c[:, -2], rtol=1e-6)  # 1/p of it, times up to 310
    assert critical_normalisation(3, 2, 1e-9) == pytest.approx(critical_normalisation(3, 2), rel=1e-7)


def test_threshold_is_lowest_at_the_critical_normalisation():
    """At fixed p the minimum of alpha_BBP(a) sits at a_c, a kink; beyond, the curve is almost linear."""
    for p, p_star in ((1, 1), (2, 1), (4, 1), (16, 2)):
        a_c = critical_normalisation(p, p_star)
        a = a_c * (1 + np.linspace(-0.5, 1.0, 301))
        alpha = threshold_map(p, p_star, a).alpha
        assert abs(a[np.argmin(alpha)] - a_c) < 0.01 * a_c
        slope = np.diff(alpha)
        assert np.all(slope[:99] < 0) and np.all(slope[101:] > 0)
        assert np.ptp(slope[101:]) < 0.25 * slope[-1]


def test_threshold_falls_with_p_while_continuous():
    for a in (0.1, 0.5):
        found = threshold_map(np.arange(1, 80), 1, a)
        p_c = critical_width(a)
        assert np.all(np.diff(found.alpha[: p_c - 1]) < 0)
        assert np.all(found.discontinuous == (np.arange(1, 80) >= p_c))


def test_threshold_of_wide_students_rises_with_p_below_a_of_one_and_falls_above():
    """Expanding the closed form in 1/p: alpha = (p_star/2)(1 + a)(1 - (2/p)(1/(1+a)^2 - 1/(3+a)) + ...)."""
    p = np.array([200, 400, 800, 1600])
    for a, rises in ((0.2, True), (0.8, True), (1.3, False), (4.0, False)):
        alpha = threshold_map(p, 3, a).alpha
        assert np.all((np.diff(alpha) > 0) == rises)
        expected = 1.5 * (1 + a) * (1 - 2 / p * (1 / (1 + a) ** 2 - 1 / (3 + a)))
        np.testing.assert_allclose(alpha, expected, rtol=1e-3)


def test_extreme_models_are_solved_without_a_warning():
    """p to 1e9 and inf, p_star to 1e6, a from 1e-14 to 1e8, alpha from 1e-12 to 1e12 of the threshold."""
    rng = np.random.default_rng(0)
    p = np.where(rng.random(300) < 0.1, np.inf, np.floor(10 ** (9 * rng.random(300) * rng.random(300))))
    p_star = np.floor(10 ** (6 * rng.random(300) * rng.random(300)))
    a = 10 ** rng.uniform(-14, 8, 300)
    found = threshold_map(p, p_star, a)
    assert np.all(np.isfinite(found.alpha)) and np.all(found.alpha > 0.4999 * p_star)
    models = Widths.of(p, p_star, a)
    for factor in (1e-12, 0.99, 1 - 1e-9, 1 + 1e-9, 1.01, 1e12):
        alpha = found.alpha * factor
        r = outlier_root(models, alpha, edge_root(models, alpha))
        assert np.all(np.isfinite(r) == (factor > 1))
        if factor > 1:
            overlap = squared_overlap(models, alpha, r)
            assert np.all(overlap > 0) and np.all(overlap <= 1)


def test_infinite_width_closed_form():
    p_star, a = np.array([1, 2, 7, 50])[:, None], np.array([1e-4, 0.5, 30.0])
    found = threshold_map(math.inf, p_star, a)
    np.testing.assert_allclose(found.alpha, p_star * (1 + a) / 2, rtol=1e-14)
    assert np.all(found.discontinuous)
    # q2 there: U = (2/p_star)/(1+a), W = U/(1+a), V = E[y (1-y)^2]/(1+a)^2, E[y (1-y)^2] = (2/p_star)(1 + 4/p_star)
    np.testing.assert_allclose(found.jump, a / (a + 1 + 4 / p_star), rtol=1e-10)


def _difference(p, p_star, a):
    """W(1) - U(1) by plain subtraction in the working precision of mpmath."""
    half, k_star, total = mp.mpf(p) / 2, mp.mpf(2) / p_star, mp.mpf(0)
    for c, share in ((1, 1 - 1 / mp.mpf(p)), (3, 1 / mp.mpf(p))):
        rate = half / c
        if p < 10:  # E[1/(c yhat + a)^n], n = 1, 2
            first, second = (
                rate**half * a ** (half - n) * mp.hyperu(half, half + 1 - n, rate * a) for n in (1, 2)
            )
        else:
            first, second = (
                mp.quad(
                    lambda s, n=n, rate=rate: s ** (n - 1) * mp.exp(-a * s - half * mp.log1p(s / rate)),
                    [0, 1, 4, 12, 40, 120],
                )
                for n in (1, 2)
            )
        total += share * (1 - (2 * (1 + a) + k_star) * first + ((1 + a) ** 2 + k_star) * second)
    return total


@pytest.mark.parametrize(
    "p, p_star",
    [
        *((1, 1), (3, 50), (10**4, 3), (10**15, 5)),
        *(
            pytest.param(*widths, marks=pytest.mark.slow)
            for widths in ((1, 2), (2, 7), (200, 1), (10**6, 1), (10**8, 2), (10**12, 1))
        ),
    ],
)
def test_critical_normalisation_to_the_last_digit(p, p_star):
    """The difference of U and W, in 32 digits, changes sign within 2e-15 of a_c: 20 digits of it are lost at most."""
    a_c = critical_normalisation(p, p_star)
    with mp.workdps(40 if p > 10**8 else 32):
        below, above = (_difference(p, p_star, mp.mpf(a_c) * (1 + x * mp.mpf("2e-15"))) for x in (-1, 1))
    assert below > 0 > above


def test_critical_normalisation_of_any_width():
    """p a_c is constant from p = 1e16 on: 1 + 2k + (2 - k)/9 over k/2, k = 2/p_star, from W(1) = U(1) to first order."""
    for p_star in (1, 2, 50):
        k = 2 / p_star
        p = np.array([1e17, 1e30, 1e100, 1e200, 1e300])
        expected = 2 * (1 + 2 * k + (2 - k) / 9) / k
        np.testing.assert_allclose(p * critical_normalisation(p, p_star), expected, rtol=1e-15)


@pytest.mark.parametrize(
    "a, expected",
    [(1e-6, 4_999_997), (3e-9, 1_666_666_664), (1e-10, 49_999_999_997), (7e-12, 714_285_714_283)],
)
def test_critical_width_of_small_normalisations(a, expected):
    """p_c = ceil(5/a - 3.378) for p_star = 1, as a_c = 5/(p + 3.378 + O(1/p))."""
    p_c = critical_width(a)
    assert p_c == expected
    assert critical_normalisation(p_c) <= a < critical_normalisation(p_c - 1)


@pytest.mark.parametrize("p_star", [1, 3, 40])
def test_critical_width_is_the_inverse_of_the_critical_normalisation(p_star):
    p = np.array([2, 3, 7, 100, 12_345, 10**7 + 1, 10**9 + 7, 10**11 + 3])
    a_c = critical_normalisation(p, p_star)
    np.testing.assert_array_equal(critical_width(a_c * (1 + 1e-15), p_star), p)
    np.testing.assert_array_equal(critical_width(a_c * (1 - 1e-15), p_star), p + 1)
    widths = critical_width([[0.1], [0.5]], [1, 2, 3])
    assert widths.shape == (2, 3) and widths.dtype == np.int64 and widths[1, 0] == critical_width(0.5, 1)
    assert critical_width(100.0) == 1


def test_kind_at_rounding_level():
    """In steps of one bit about a_c the kind changes once, at the a_c that is returned."""
    for p, p_star in ((1, 1), (1, 2), (2, 1), (40, 7), (10**6, 1), (10**12, 5)):
        a_c = critical_normalisation(p, p_star)
        a = np.concatenate([a_c * (1 + np.arange(-20, 21) * 2.0**-53), a_c * (1 + np.arange(-9, 10) * 1e-13)])
        found = threshold_map(p, p_star, a)
        np.testing.assert_array_equal(found.discontinuous, a >= a_c)
        assert np.all(found.jump[~found.discontinuous] == 0) and np.all(found.jump >= 0)


def test_critical_normalisation_of_many():
    table = critical_normalisation([[1], [2], [1000], [math.inf]], [1, 2])
    assert table.shape == (4, 2) and np.all(table[3] == 0) and table[1, 1] == critical_normalisation(2, 2)
    assert np.all(np.diff(table, axis=0) < 0)


def test_overlap_extrapolation(reference):
    for row in reference["alpha_0_overlap"]:
        value = alpha_zero(Network(row["p"], row["p_star"], row["a"]), "overlap")
        assert value == pytest.approx(row["alpha_0"], abs=6e-4)


def test_overlap_extrapolation_is_the_tangent_of_the_branch():
    for model in (Network(2, 1, 1.0), Network(math.inf, 3, 0.4), Network(5, 2, 2.0)):
        threshold, h = theory.threshold(model), 1e-5
        at = threshold.alpha * (1 + np.array([1, 2]) * h)
        near, far = theory.spectrum(model, at).overlap
        slope = (-3 * threshold.jump + 4 * near - far) / (2 * h * threshold.alpha)  # one-sided, second order
        expected = threshold.alpha - threshold.jump / slope
        assert alpha_zero(model) == pytest.approx(expected, rel=1e-5)


def test_continuation_values():
    """Four digits known from principal values with the Dawson function, p_star = 1; no root for p = 1, a = 2."""
    assert alpha_zero(Network(2, 1, 1.0), "continuation") == pytest.approx(0.9015, abs=5e-5)
    assert alpha_zero(Network(8, 1, 0.5), "continuation") == pytest.approx(0.6712, abs=5e-5)
    assert alpha_zero(Network(1, 1, 2.0), "continuation") is None


def test_both_estimates_meet_where_the_jump_is_small():
    for p, p_star in ((1, 1), (2, 1), (16, 1), (2, 2), (3, 20), (1, 50)):
        model = Network(p, p_star, critical_normalisation(p, p_star) * 1.01)
        pair = [alpha_zero(model, method) for method in ("overlap", "continuation")]
        assert pair[0] == pytest.approx(pair[1], rel=2e-4)
        assert pair[0] < theory.threshold(model).alpha


def test_continuation_where_the_jump_vanishes():
    """At a_c itself U = W already at the end of the walk, to rounding: alpha_0 is alpha_BBP."""
    p, p_star = np.array([1, 2, 5, 16, 40])[:, None], np.array([1, 2, 7])
    a_c = critical_normalisation(p, p_star)
    for factor in (1 - 4e-16, 1, 1 + 4e-16, 1 + 1e-12):
        found = alpha_zero_map(p, p_star, a_c * factor, "continuation")
        np.testing.assert_allclose(found, threshold_map(p, p_star, a_c * factor).alpha, rtol=1e-9)


def test_continuous_models_lose_their_overlap_at_the_threshold():
    model = Network(2, 1, 0.3)
    for method in ("overlap", "continuation"):
        assert alpha_zero(model, method) == theory.threshold(model).alpha


def test_alpha_zero_map():
    p, a = np.array([1, 2, 8, math.inf])[:, None], np.array([0.5, 1.0, 2.0])
    for method in ("overlap", "continuation"):
        table = alpha_zero_map(p, 1, a, method)
        assert table.shape == (4, 3)
        for (i, j), value in np.ndenumerate(table):
            single = alpha_zero(Network(p[i, 0], 1, a[j]), method)
            assert (single is None and math.isnan(value)) or single == pytest.approx(value, rel=1e-12)


def test_alpha_zero_falls_with_p():
    """At fixed a the extrapolation is monotone decreasing in p, as the paper finds."""
    assert np.all(np.diff(alpha_zero_map(np.arange(2, 65), 1, 1.0)) < 0)


@pytest.mark.parametrize(("p", "p_star", "a"), [(3, 1, 4.0), (math.inf, 2, 2.714)])
def test_alpha_zero_is_not_below_weak_recovery(p, p_star, a):
    """The tangents are 0.473 and 0.089 there, below p_star/2, where labels hold no information."""
    assert alpha_zero(Network(p, p_star, a)) is None
