"""Finite N at the edge: scale, fluctuation of the quenched edge, the smooth edge of the typical draw against quenched ones."""

import math

import numpy as np
import pytest

from theory.exact import committee_preactivations
from theory.exact.bulk import bulk_edge
from theory.exact.transition import bbp_threshold
from theory.finite.edge import alpha_bbp_typical, finite_edge, kernel_variance, pole_probability, typical_edge
from theory.finite.quenched import quenched
from theory.finite.tracy_widom import MEAN, VARIANCE
from theory.general.dyson import Dyson, scalar_edge
from theory.model import Network


def draw_edges(model, alpha, n, draws, seed):
    """Quenched edges of independent draws."""
    rng = np.random.default_rng(seed)
    data = (committee_preactivations(model, round(alpha * n), rng) for _ in range(draws))
    return np.array([Dyson(model.weights(lam, model.outputs(u)), 1 / n).edge().value for lam, u in data])


def trace_edges(model, alpha, n, draws, seed):
    """The same for p = 1, and for p > 1 with the block resolvent taken as g I."""
    rng = np.random.default_rng(seed)
    p, edges = model.p, []
    for _ in range(draws):
        lam, u = committee_preactivations(model, round(alpha * n), rng)
        y, yhat = np.mean(u**2, axis=1), np.mean(lam**2, axis=1)
        values = 2 / p * np.stack([yhat - y, 3 * yhat - y]) / (model.a + y)
        c = np.array([(p - 1) / p, 1 / p])[:, None] / n * np.ones(len(y))
        q = scalar_edge(values[c[:, 0] > 0], c[c[:, 0] > 0])
        edges.append(-q + np.sum(c * q * values / (q + values)))
    return np.array(edges)


@pytest.mark.parametrize(
    ("p", "a", "alpha", "n"),
    [
        (1, 0.5, 0.8, 1000),
        pytest.param(2, 0.3, 3.0, 600, marks=pytest.mark.slow),
        (3, 0.3, 1.0, 400),
    ],
)
def test_preactivations_move_the_edge_by_the_predicted_amount(p, a, alpha, n):
    """150 draws: the sample standard deviation of a Gaussian is within 23% of the true one at 4 sigma (1 in 15,000)."""
    model = Network(p, 1, a)
    predicted = finite_edge(model, alpha, n).edge_error
    found = draw_edges(model, alpha, n, 150, p)
    assert found.std(ddof=1) == pytest.approx(predicted, rel=0.23)
    assert abs(found.mean() - bulk_edge(model, alpha).value) < 4 * predicted / math.sqrt(150) + 20 / n


def test_kernel_variance_is_that_of_z_at_fixed_g():
    """p = 2, straight from preactivations: 400,000 of them give the variance to 1% (fourth moments are moderate here)."""
    model, g = Network(2, 2, 0.7), -0.6
    lam, u = committee_preactivations(model, 400_000, np.random.default_rng(0))
    weights = model.weights(lam, model.outputs(u))
    terms = np.trace(weights @ np.linalg.inv(np.eye(2) - g * weights), axis1=1, axis2=2) / 2
    assert kernel_variance(model, g) == pytest.approx(terms.var(), rel=0.01)


def test_scale_is_that_of_the_quenched_edge_at_large_n():
    model, n = Network(1, 1, 0.5), 100_000
    lam, u = committee_preactivations(model, 80_000, np.random.default_rng(1))
    assert quenched(model, lam, u, n).scale == pytest.approx(finite_edge(model, 0.8, n).scale, rel=0.03)


def test_sharp_and_smooth():
    sharp = finite_edge(Network(1, 1, 0.5), 0.8, 300)
    assert sharp.kind == "sharp" and sharp.lowest == sharp.edge - MEAN / sharp.scale
    assert sharp.lowest_error == pytest.approx(
        math.hypot(sharp.edge_error, math.sqrt(VARIANCE) / sharp.scale)
    )
    smooth = finite_edge(Network(1, 1, 2.0), 1.0, 10_000)
    assert smooth.kind == "smooth" and math.isnan(smooth.scale) and smooth.lowest > smooth.edge
    assert smooth.lowest == typical_edge(Network(1, 1, 2.0), 1.0, 10_000)


@pytest.mark.parametrize(("p", "a", "alpha"), [(1, 2.0, 1.0), (4, 2.0, 0.7), (2, 1.0, 0.7)])
def test_smooth_edges_of_draws_sit_where_the_typical_edge_is(p, a, alpha):
    """N = 30,000, 40 draws: between a third and a tenth of the shift from N = inf is left to N^{-1/2} terms."""
    model, n = Network(p, 1, a), 30_000
    found = trace_edges(model, alpha, n, 40, 0)
    infinite = bulk_edge(model, alpha)
    assert infinite.kind == "smooth"
    error = 4 * found.std(ddof=1) / math.sqrt(40)
    assert abs(found.mean() - typical_edge(model, alpha, n)) < error + 0.5 / math.sqrt(n)
    assert found.mean() - infinite.value > error + 0.5 / math.sqrt(n)  # N = inf itself fails the same test


def test_typical_edge_returns_to_the_edge_like_one_over_log():
    model, alpha = Network(1, 1, 2.0), 1.0
    shifts = [typical_edge(model, alpha, 10**k) - bulk_edge(model, alpha).value for k in (50, 100, 200)]
    # delta = a p_star / (2 log M) at leading order: doubling log N halves the shift, up to log log / log.
    assert shifts[0] / shifts[1] == pytest.approx(2, rel=0.15)
    assert shifts[1] / shifts[2] == pytest.approx(2, rel=0.08)


def test_typical_edge_of_a_sharp_edge():
    model = Network(1, 1, 0.5)
    assert typical_edge(model, 0.8, 10**9) == pytest.approx(bulk_edge(model, 0.8).value, rel=1e-6)


def test_typical_threshold_limits():
    continuous, discontinuous = Network(1, 1, 0.5), Network(2, 1, 1.0)
    assert alpha_bbp_typical(continuous, 10**9) == pytest.approx(bbp_threshold(continuous).alpha, rel=1e-5)
    plateau, far = alpha_bbp_typical(discontinuous, np.array([10**7, 10**200], dtype=object))
    # The continuation's alpha_0 (0.9015 in the reference values) rules every N in reach; alpha_BBP = 1.0184
    # does not.
    assert plateau == pytest.approx(0.9015, abs=5e-4)
    assert far == pytest.approx(bbp_threshold(discontinuous).alpha, rel=0.01)


def test_pole_probability_counts_data_points():
    """2e6 data points, about 16,000 beyond the pole: 5 sigma is 4%."""
    model, delta = Network(2, 2, 0.7), 0.4
    lam, u = committee_preactivations(model, 2_000_000, np.random.default_rng(3))
    y, yhat = np.mean(u**2, axis=1), np.mean(lam**2, axis=1)
    found = np.mean(delta * y > model.a + (1 + delta) * yhat)
    assert pole_probability(model, delta) == pytest.approx(found, abs=5 * math.sqrt(found / len(y)))
