"""Extreme data points and those that stand for the rest: their law, and that of all data points where few are drawn."""

import math

import numpy as np
import pytest

import theory
from theory import finite
from theory.exact import committee_preactivations
from theory.exact.bulk import z_of_g
from theory.exact.transition import bbp_threshold
from theory.finite import draw, large_n
from theory.finite.large_n import SplitLaw
from theory.model import Network

MODELS = [(1, 1, 0.5), (1, 2, 0.05), (2, 1, 0.3), (3, 2, 1.0), (5, 1, 0.5)]


@pytest.mark.parametrize(("p", "p_star", "a"), MODELS)
def test_quadrature_of_the_data_points_that_are_not_extreme(p, p_star, a):
    """With hardly any data point extreme the mean over the rest is K(g) of the N = inf theory."""
    model = Network(p, p_star, a)
    tail, g = SplitLaw(model, 1e10, 1, 10), -0.8 * p / 2
    yhat, y, share = tail.nodes
    low, high = ((2 / p) * (c * yhat - y) / (a + y) for c in (1, 3))
    mean = share @ ((p - 1) * low / (1 - g * low) + high / (1 - g * high)) / p
    assert mean == pytest.approx(z_of_g(model, 1.0, g) - 1 / g, abs=1e-6)
    assert tail.mass == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize(("p", "p_star", "a"), MODELS)
def test_extreme_data_points_have_the_law_of_extreme_data_points(p, p_star, a):
    """Against a million data points drawn in full, some 2,000 of them extreme in either: means at 5 sigma, counts at 6."""
    model, rng = Network(p, p_star, a), np.random.default_rng(p)
    tail = SplitLaw(model, 1e6, 2000, 10)
    lam, u = committee_preactivations(model, 1_000_000, rng)
    y, yhat = np.mean(u**2, axis=1), np.mean(lam**2, axis=1)
    extreme = y > tail.cut(yhat)
    own_lam, own_y, arrival = tail.extreme(rng)
    own_yhat = np.mean(own_lam**2, axis=1)
    assert abs(len(own_y) - extreme.sum()) < 6 * math.sqrt(4000)
    for one, two in ((y[extreme], own_y), (yhat[extreme], own_yhat)):
        assert abs(one.mean() - two.mean()) < 5 * math.hypot(one.std(), two.std()) / math.sqrt(2000)
    assert np.all(own_y > tail.cut(own_yhat))
    assert np.all((arrival > 0) & (arrival < 1))


@pytest.mark.parametrize(
    "model", [pytest.param(Network(1, 1, 2.0), marks=pytest.mark.slow), Network(2, 1, 1.0)]
)
def test_law_is_that_of_all_data_points_where_few_of_them_are_drawn(model, monkeypatch):
    """N = 1,500, 0.8 alpha_BBP, 50 draws of either: means within 4 standard errors (false alarm 3e-4); weights add up."""
    n, alpha = 1500, 0.8 * bbp_threshold(model).alpha
    every = finite.law(model, alpha, n, draws=50)
    monkeypatch.setattr(draw, "SINGLY", 1000)
    monkeypatch.setattr(large_n, "REST", 400)
    monkeypatch.setattr(large_n, "EXTREMES", 200)
    large_n._tail.cache_clear()
    few = finite.law(model, alpha, n, draws=50, seed=1)
    for name in ("lowest", "overlap", "overlap_lowest", "overlap_next", "informative"):
        (one, one_error), (two, two_error) = every.mean(name), few.mean(name)
        assert abs(one - two) < 4 * math.hypot(one_error, two_error), name
    told, *_ = draw.draw_preactivations(model, round(alpha * n), n, range(20), 0)
    numbers = told.weight.sum(axis=1)
    assert told.lam.shape[1] < told.weight.shape[1] and told.lam.shape[1] < alpha * n
    assert abs(numbers.mean() / (alpha * n) - 1) < 0.02  # of the extreme ones the number is drawn
    large_n._tail.cache_clear()


def test_law_at_a_hundred_million_dimensions_is_the_outlier():
    model = Network(1, 1, 0.5)
    found, law = theory.outliers(model, 3.0)[0], finite.law(model, 3.0, 10**8, draws=4)
    assert abs(law.lowest.mean() / found.value - 1) < 3e-3  # the chord at its middle
    assert abs(law.overlap.mean() - found.overlap) < 2e-3
