"""Noise before the teacher's square: averages against plain quadrature over both chi-squares, limits, a checked figure."""

import math

import numpy as np
import pytest

from theory import Committee, bbp_threshold, bulk_edge, outlier, teacher_branch, threshold_map
from theory.checks import ParameterError
from theory.exact.averages import (
    Widths,
    average,
    kernel_k,
    kernel_radial,
    kernel_u,
    kernel_u_in_a,
    kernel_u_slope,
    kernel_v,
    kernel_v_slope,
    kernel_w,
    kernel_w_minus_u,
    kernel_w_minus_u_in_a,
    kernel_w_slope,
    kernel_yhat_phi,
)
from theory.exact.bulk import bulk_edge as exact_edge
from theory.exact.committee import chi_square_law
from theory.general import Network

CASES = [(1, 1, 0.7, 0.4, 0.6), (2, 3, 1.3, 1.0, 0.9), (3, 1, 0.2, 0.05, 0.3)]


@pytest.mark.parametrize(("p", "p_star", "a", "noise", "t"), CASES)
def test_averages_are_those_of_two_chi_squares(p, p_star, a, noise, t):
    (yhat, w), (clean, v) = chi_square_law(p), chi_square_law(p_star)
    weight, yhat, y = w[:, None] * v, yhat[:, None], (1 + noise) * clean
    seen = (clean + noise) / (1 + noise)
    wanted = np.zeros(5)
    for c, share in ((1, 1 - 1 / p), (3, 1 / p)):
        phi = (c * yhat - y) / (a + y) / (1 + t * (c * yhat - y) / (a + y))
        parts = phi, (t * phi) ** 2, t * (1 - seen) * phi, seen * (t * phi) ** 2, yhat * phi
        wanted += share * np.array([np.sum(weight * part) for part in parts])
    models, at, rest = Widths.of([p], p_star, a, noise), np.array([t]), np.array([1 - t])
    found = [
        v[0] for v in average([kernel_k, kernel_w, kernel_u, kernel_v, kernel_yhat_phi], models, at, rest)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
    free = average([kernel_radial], models, np.zeros(1), np.ones(1), branches=(1,))[0][0]
    assert abs(free - np.sum(weight * yhat * (yhat - y) / (a + y))) < 1e-10


@pytest.mark.parametrize(("p", "p_star", "a", "noise", "t"), CASES)
def test_slopes_are_derivatives(p, p_star, a, noise, t):
    """Central differences of step 1e-5: 1e-8 from the step, relative to second derivatives of order one."""
    h = 1e-5
    for kernel, slope in ((kernel_w, kernel_w_slope), (kernel_u, kernel_u_slope), (kernel_v, kernel_v_slope)):
        ends = np.array([t - h, t + h, t])
        low, high, _ = average([kernel], Widths.of(p, p_star, [a] * 3, noise), ends, 1 - ends)[0]
        exact = average([slope], Widths.of(p, p_star, [a] * 3, noise), ends, 1 - ends)[0][2]
        assert abs((high - low) / (2 * h) - exact) < 1e-7
    one, none = np.ones(3), np.zeros(3)
    models = Widths.of(p, p_star, np.array([a - h, a + h, a]), noise)
    for kernel, slope in ((kernel_w_minus_u, kernel_w_minus_u_in_a), (kernel_u, kernel_u_in_a)):
        (low, high, _), (*_, exact) = average([kernel, slope], models, one, none)
        assert abs((high - low) / (2 * h) * (1 + noise) - exact) < 1e-7
    w, u, difference = (v[2] for v in average([kernel_w, kernel_u, kernel_w_minus_u], models, one, none))
    assert abs(w - u - difference) < 1e-13


def test_a_figure_seen_in_samples():
    """physics: N = 600, a = 2, alpha = 6, Delta = 0.3: outlier -1.198(46), q2 0.372(10)."""
    found = outlier(Network(a=2.0, noise=0.3), 6.0)
    assert abs(found.value + 1.223) < 1e-3
    assert abs(found.overlap - 0.383) < 1e-3


def test_no_noise_is_the_committee_bit_for_bit():
    alphas = np.geomspace(0.2, 30, 9)
    for model in (Committee(1, 1, 0.5), Committee(3, 2, 2.0), Committee(math.inf, 1, 0.3)):
        plain = Network(model.p, model.p_star, model.a)
        for ours, theirs in zip(
            vars(teacher_branch(plain, alphas)).values(),
            vars(teacher_branch(model, alphas)).values(),
            strict=True,
        ):
            np.testing.assert_array_equal(ours, theirs)
        assert bbp_threshold(plain) == bbp_threshold(model)


def test_thresholds_close_the_gap():
    """At the threshold of a continuous model edge and outlier coincide; at a discontinuous one the overlap is the jump."""
    for model in (Network(1, 1, 0.1, noise=0.5), Network(2, 2, 3.0, noise=0.2)):
        found = bbp_threshold(model)
        just = found.alpha * (1 + 1e-9)
        assert abs(outlier(model, just).overlap - found.jump) < 1e-6
        assert abs(outlier(model, just).value - bulk_edge(model, just).value) < 1e-9
        assert outlier(model, found.alpha * (1 - 1e-6)) is None
    noise = np.array([0.0, 0.1, 1.0])
    found = threshold_map([[1], [math.inf]], 1, 0.5, noise)
    wanted = [[bbp_threshold(Network(p, 1, 0.5, noise=d)).alpha for d in noise] for p in (1, math.inf)]
    np.testing.assert_array_equal(found.alpha, wanted)
    assert np.all(np.diff(found.alpha[0]) > 0)
    # p = inf: 1/U(1) = (b + a b)/(b 2/p*), without Delta as long as the edge is smooth; derived here
    np.testing.assert_allclose(found.alpha[1, :2], 0.75, rtol=1e-14)


def test_wide_students_turn_continuous_with_noise():
    """p = inf: W(1) <= U(1) reads (1-b)^2 + 2/p* <= (2/p*) b (b + a b), b = 1/(1 + Delta); derived here."""
    for a, noise in ((0.3, 0.05), (0.3, 0.3), (5.0, 1.0), (5.0, 4.0)):
        b = 1 / (1 + noise)
        jumps = (1 - b) ** 2 + 2 <= 2 * b * (b + a * b)
        assert bbp_threshold(Network(math.inf, 1, a, noise=noise)).kind == (
            "discontinuous" if jumps else "continuous"
        )


def test_other_networks_are_refused():
    for model in (Network(activation="tanh", a=2.0), Network(covariance="mp:0.5"), Network(overlap=0.3)):
        with pytest.raises(ParameterError, match=r"see theory.edge"):
            exact_edge(model, 2.0)
