"""The Laplace quadrature against plain averages, by other formulas and other rules; noise before the teacher's square."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import dawsn, expi, gammaln

import theory
from theory import Network, threshold_map
from theory.exact import averages
from theory.exact.averages import (
    Widths,
    average,
    continued,
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
from theory.general.quadrature import chi_square_law

# Some 200 positive terms, each with a few roundings of exp and log1p: 14 roundings of the sum at random, three times that.
SUM = 45 * np.finfo(float).eps
KERNELS = [kernel_k, kernel_w, kernel_u, kernel_v, kernel_w_slope, kernel_u_slope, kernel_v_slope]
HARD = Widths.of(
    [1, 1, 2, 3, 64, 512, math.inf, 2e6, 1, 512], [1, 50, 1, 2, 1, 50, 3, 1, 400, 1],
    [1e-6, 0.3, 1.0, 1e3, 1e-4, 0.5, 2.0, 0.3, 1e-4, 1e-4],
)  # fmt: skip


def everywhere(value):
    t = np.full(HARD.shape, value)
    return HARD, t, 1 - t


@pytest.mark.parametrize("t", [1.0, 0.999999, 0.9, 0.4, 1e-3])
def test_halving_the_step_changes_nothing(t, monkeypatch):
    coarse = average(KERNELS, *everywhere(t))
    monkeypatch.setitem(averages._STEP, np.dtype(np.float64), averages._STEP[np.dtype(np.float64)] / 2)
    for kernel, a, b in zip(KERNELS, coarse, average(KERNELS, *everywhere(t)), strict=True):
        signed = kernel in (kernel_k, kernel_u_slope)
        np.testing.assert_allclose(a, b, rtol=2e-13 if signed else SUM, atol=1e-15 if signed else 0)


@pytest.mark.parametrize("t", [1.0, 0.9, 0.05])
def test_extended_precision_refines_double(t):
    double = average([kernel_w, kernel_u, kernel_v], *everywhere(t))
    models, t, _ = everywhere(np.longdouble(t))
    for a, b in zip(double, average([kernel_w, kernel_u, kernel_v], models, t, 1 - t), strict=True):
        assert b.dtype == np.longdouble
        np.testing.assert_allclose(a, b.astype(float), rtol=SUM)


def test_wide_students_approach_the_limit():
    """Differences from p = inf fall like 1/p: by 10 for a factor 10, within 1%."""
    t = np.array([0.6])
    limit = average(KERNELS, Widths.of([math.inf], 2, 0.4), t, 1 - t)
    near, far = (average(KERNELS, Widths.of([p], 2, 0.4), t, 1 - t) for p in (1e5, 1e4))
    for x, y, z in zip(near, far, limit, strict=True):
        assert (y - z) / (x - z) == pytest.approx(10, rel=0.01)


def principal_values(p, p_star, a, t):
    """W, U and V at t > 1: over y in closed form (p_star = 1: Dawson, 2: exponential integral), over yhat by quad."""

    def simple_and_double(pole):
        """PV E[1/(y - pole)] and its derivative in the pole, the finite part of E[1/(y - pole)^2]."""
        if p_star == 1:
            x = math.sqrt(pole / 2)
            f = dawsn(x)
            return -f / x, (f / x**2 - (1 - 2 * x * f) / x) * (1 / (4 * x))
        value = -math.exp(-pole) * expi(pole)
        return value, -value - 1 / pole

    def moments(c, x):
        pole, n = (a + c * t * x) / (t - 1), c * x
        first, second = simple_and_double(pole)
        # phi = (n - y)/D with D = -(t-1)(y - pole): phi = (1 - (n - pole)/(y - pole))/(t-1).
        k = n - pole
        phi = (1 - k * first) / (t - 1)
        y_phi = (1 - k * (1 + pole * first)) / (t - 1)
        phi2 = (1 - 2 * k * first + k**2 * second) / (t - 1) ** 2
        y_phi2 = (1 - 2 * k * (1 + pole * first) + k**2 * (first + pole * second)) / (t - 1) ** 2
        return t * t * phi2, t * (phi - y_phi), t * t * y_phi2

    top = 12 if p_star == 1 else 6  # beyond: below 1e-22
    norm = 2 * math.exp((p / 2) * math.log(p / 2) - gammaln(p / 2))

    def mixed(i, s):
        """Integrand in s, yhat = s^2, over the branches."""
        inner = (1 - 1 / p) * moments(1, s * s)[i] + moments(3, s * s)[i] / p
        return norm * s ** (p - 1) * math.exp(-p * s * s / 2) * inner

    return [
        quad(lambda s, i=i: mixed(i, s), 0, top, epsabs=1e-11, epsrel=1e-11, limit=400)[0] for i in range(3)
    ]


@pytest.mark.parametrize(
    "p, p_star, a, t",
    [(2, 1, 1.0, 1.1), (8, 1, 0.5, 1.02), (3, 2, 2.0, 1.5), (1, 1, 2.0, 3.0), (4, 2, 0.7, 1.2)],
)
def test_continuation_is_the_principal_value(p, p_star, a, t):
    model, at = Widths.of([p], p_star, a), np.array([t])
    found = continued([kernel_w, kernel_u, kernel_v], model, at, 1 - at)
    for value, right in zip(found, principal_values(p, p_star, a, t), strict=True):
        assert value[0] == pytest.approx(right, rel=1e-8, abs=1e-9)


def test_continuation_agrees_with_the_real_axis_below_one():
    moderate = HARD.take(np.flatnonzero(HARD.a > 0.1))
    t = np.full(moderate.shape, 0.8)
    for a, b in zip(
        continued(KERNELS, moderate, t, 1 - t), average(KERNELS, moderate, t, 1 - t), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10)


NOISY = [(1, 1, 0.7, 0.4, 0.6), (2, 3, 1.3, 1.0, 0.9), (3, 1, 0.2, 0.05, 0.3), (8, 5, 0.05, 0.0, 0.7)]
CLEAN = [(1, 50, 0.3, 0.0, 0.4), (512, 50, 0.5, 0.0, 0.97), (math.inf, 3, 2.0, 0.0, 0.97)]


@pytest.mark.parametrize(("p", "p_star", "a", "noise", "t"), NOISY)
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


@pytest.mark.parametrize(("p", "p_star", "a", "noise", "t"), NOISY + CLEAN)
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
    found = theory.outliers(Network(a=2.0, noise=0.3), 6.0)[0]
    assert abs(found.value + 1.223) < 1e-3
    assert abs(found.overlap - 0.383) < 1e-3


def test_thresholds_close_the_gap():
    """At the threshold of a continuous model edge and outlier coincide; at a discontinuous one the overlap is the jump."""
    for model in (Network(1, 1, 0.1, noise=0.5), Network(2, 2, 3.0, noise=0.2)):
        found = theory.threshold(model)
        just = found.alpha * (1 + 1e-9)
        assert abs(theory.outliers(model, just)[0].overlap - found.jump) < 1e-6
        assert abs(theory.outliers(model, just)[0].value - theory.edge(model, just).value) < 1e-9
        assert theory.outliers(model, found.alpha * (1 - 1e-6)) == ()
    noise = np.array([0.0, 0.1, 1.0])
    found = threshold_map([[1], [math.inf]], 1, 0.5, noise)
    wanted = [[theory.threshold(Network(p, 1, 0.5, noise=d)).alpha for d in noise] for p in (1, math.inf)]
    np.testing.assert_array_equal(found.alpha, wanted)
    assert np.all(np.diff(found.alpha[0]) > 0)
    # p = inf: 1/U(1) = (b + a b)/(b 2/p*), without Delta as long as the edge is smooth; derived here
    np.testing.assert_allclose(found.alpha[1, :2], 0.75, rtol=1e-14)


def test_wide_students_turn_continuous_with_noise():
    """p = inf: W(1) <= U(1) reads (1-b)^2 + 2/p* <= (2/p*) b (b + a b), b = 1/(1 + Delta); derived here."""
    for a, noise in ((0.3, 0.05), (0.3, 0.3), (5.0, 1.0), (5.0, 4.0)):
        b = 1 / (1 + noise)
        jumps = (1 - b) ** 2 + 2 <= 2 * b * (b + a * b)
        assert theory.threshold(Network(math.inf, 1, a, noise=noise)).kind == (
            "discontinuous" if jumps else "continuous"
        )
