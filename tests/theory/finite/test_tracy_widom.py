"""Tracy-Widom beta = 1: published moments and quantiles, Painleve II, and the determinant's own convergence."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import airy

from theory.finite import tracy_widom
from theory.finite.tracy_widom import (
    MEAN,
    VARIANCE,
    tracy_widom_cdf,
    tracy_widom_pdf,
    tracy_widom_quantile,
    tracy_widom_sf,
)


@pytest.fixture(scope="module")
def density():
    """The density on a grid that the trapezoid rule integrates to rounding."""
    s = np.arange(-10.5, 13.0, 0.1)
    return s, tracy_widom_pdf(s)


def test_published_moments(density):
    """Bornemann, Math. Comp. 79 (2010) 871, table 4: mean, variance, skewness, excess kurtosis."""
    s, f = density
    mass = 0.1 * f
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    mean = mass @ s
    assert mean == pytest.approx(-1.2065335745820, abs=1e-11)
    variance = mass @ (s - mean) ** 2
    assert variance == pytest.approx(1.607781034581, abs=1e-10)
    assert mass @ (s - mean) ** 3 / variance**1.5 == pytest.approx(0.29346452408, abs=1e-9)
    assert mass @ (s - mean) ** 4 / variance**2 - 3 == pytest.approx(0.1652429384, abs=1e-9)
    assert (MEAN, VARIANCE) == pytest.approx((mean, variance), abs=1e-10)


def test_against_painleve_ii():
    """F1(s) = exp(-(1/2) int_s^inf (q + (x - s) q^2) dx), q'' = x q + 2 q^3, q ~ Ai: another route altogether.

    The Hastings-McLeod solution is unstable under integration to the left; from 8 to -3.5 its error stays below 1e-9.
    """

    def rhs(x, v):
        q, dq, _, integral_q2, _ = v
        return [dq, x * q + 2 * q**3, -q, -(q**2), -integral_q2]

    x = np.linspace(8, 40, 20001)
    ai, dai = airy(8.0)[:2]
    tail = airy(x)[0]
    step = x[1] - x[0]
    start = [ai, dai, *(np.trapezoid(v, dx=step) for v in (tail, tail**2, (x - 8) * tail**2))]
    points = np.array([2.0, 0.0, -1.0, -2.0, -3.0, -3.5])
    path = solve_ivp(rhs, (8, -3.5), start, t_eval=points, method="DOP853", rtol=1e-13, atol=1e-18).y
    np.testing.assert_allclose(
        tracy_widom_cdf(points), np.exp(-(path[2] + path[4]) / 2), rtol=3e-8, atol=1e-9
    )


def test_shapes_and_identities():
    s = np.array([[-4.0, -1.0], [0.5, 6.0]])
    cdf, sf, pdf = tracy_widom_cdf(s), tracy_widom_sf(s), tracy_widom_pdf(s)
    assert cdf.shape == sf.shape == pdf.shape == (2, 2)
    np.testing.assert_allclose(cdf + sf, 1, atol=1e-14)
    h = 1e-4
    np.testing.assert_allclose((tracy_widom_cdf(s + h) - tracy_widom_cdf(s - h)) / (2 * h), pdf, atol=1e-8)
    assert isinstance(tracy_widom_cdf(0.0), float)
    assert tracy_widom_quantile(tracy_widom_cdf(0.3)) == pytest.approx(0.3, abs=1e-10)


def test_far_tails():
    # 1 - F1(s) -> exp(-(2/3) s^{3/2}) / (4 sqrt(pi) s^{3/4}), half the trace of the kernel at leading order.
    s = 30.0
    leading = np.exp(-2 / 3 * s**1.5) / (4 * np.sqrt(np.pi) * s**0.75)
    assert tracy_widom_sf(s) == pytest.approx(leading, rel=0.02)
    # log F1(-s) -> -s^3/24 - s^{3/2}/(3 sqrt 2) - log(s)/16 + tau (Baik, Buckingham, DiFranco 2008); tau
    # cancels here.
    rest = [s**3 / 24 + s**1.5 / (3 * np.sqrt(2)) + np.log(s) / 16 for s in (6, 8)]
    logs = np.log(tracy_widom_cdf([-6, -8])) + rest
    assert logs[0] == pytest.approx(logs[1], abs=0.02)
    assert tracy_widom_cdf(-1e6) == pytest.approx(0, abs=1e-60) and tracy_widom_cdf(1e6) == 1


def test_more_nodes_change_nothing(monkeypatch):
    s = np.array([-6.0, -3.0, 0.0, 3.0])
    values = tracy_widom_cdf(s)
    few = tracy_widom._legendre
    monkeypatch.setattr(tracy_widom, "_legendre", lambda nodes: few(nodes + 24))
    np.testing.assert_allclose(tracy_widom_cdf(s), values, atol=2e-14)


@pytest.mark.parametrize("s", [9.1, 11.3, 12.9, 13.9, 16.0])
def test_the_far_right_against_a_longer_interval(s):
    """The determinant on (0, 14) with 90 nodes: a relative 2e-12, where an interval that ends at Ai(15) is off by 1e-4."""
    x, w = np.polynomial.legendre.leggauss(90)
    x, root = 7 * (1 + x), np.sqrt(7 * w)
    kernel = airy(x[:, None] + x + s)[0] * np.outer(root, root)
    exact = -np.expm1(np.sum(np.log1p(-np.linalg.eigvalsh(kernel))))
    assert tracy_widom_sf(s) == pytest.approx(exact, rel=2e-12, abs=0)
