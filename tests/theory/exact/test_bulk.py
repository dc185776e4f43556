"""The left edge and z(g) on the real axis: identities, limits, every alpha from 1e-6 to 1e12, bad input; Newton on arrays."""

import math

import numpy as np
import pytest

import theory
from theory.checks import NotConverged
from theory.exact import committee_preactivations
from theory.exact.bulk import edge_resolvent, edges, newton, riemannian_shift, z_of_g
from theory.model import Network

MODELS = [
    Network(1, 1, 0.5),
    Network(2, 1, 1e-4),
    Network(3, 2, 1000.0),
    Network(16, 50, 0.1),
    Network(math.inf, 1, 1.0),
]
ALPHAS = np.geomspace(1e-6, 1e12, 37)
INF = np.full(3, np.inf)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_edge_is_where_z_turns(model):
    values, r = edges(model, ALPHAS)
    g_min = -1.0 if math.isinf(model.p) else -model.p / 2
    g, sharp = g_min / (1 + r), r > 0
    assert sharp.any() and np.all(sharp == (g > g_min)) and np.all(g[~sharp] == g_min)
    assert np.all(np.diff(sharp.astype(int)) >= 0)  # smooth at small alpha, sharp from some alpha on
    np.testing.assert_allclose(values, z_of_g(model, ALPHAS, g), rtol=1e-9)
    slope = z_of_g(model, ALPHAS, g, derivative=1)
    assert np.all(np.abs(slope * g**2)[sharp] < 1e-9) and np.all(slope[~sharp] < 0)
    assert np.all(z_of_g(model, ALPHAS, g, derivative=2)[sharp] < 0)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_edge_is_the_largest_z_reached(model):
    """z < edge for g on a dense grid of the walk: the maximum of z(g) over [g_min, 0) is the edge itself."""
    g_min = -1.0 if math.isinf(model.p) else -model.p / 2
    grid = g_min * np.concatenate([np.geomspace(1e-8, 0.5, 300), 1 - np.geomspace(1e-9, 0.5, 300)])
    for alpha in (0.01, 1.0, 7.0, 1e4):
        edge = theory.edge(model, alpha)
        assert np.all(z_of_g(model, alpha, grid) <= edge.value + 1e-12 * abs(edge.value))


def test_edge_is_negative_up_to_alpha_one_and_positive_for_many_samples():
    for model in MODELS:
        values, r = edges(model, ALPHAS)
        assert np.all(values[ALPHAS <= 1] < 0)
        assert values[-1] > 0 and r[-1] > 0


def test_few_samples_leave_the_smallest_weight():
    """alpha -> 0: the edge tends to g_min^-1 = -2/p, the infimum of the weights."""
    for model in MODELS:
        limit = -1.0 if math.isinf(model.p) else -2 / model.p
        assert theory.edge(model, 1e-9).value == pytest.approx(limit, rel=1e-5 if model.a < 0.01 else 1e-8)


def test_many_samples_concentrate_on_the_mean_weight():
    """alpha -> inf: edge/alpha tends to E[f] (p = inf, p_star = 2: (1 + a) e^a E1(a) - 1 exactly), up to alpha^(-1/2)."""
    a = 1.0
    mean = (1 + a) * 0.596347362323194 - 1  # e E1(1), the Euler-Gompertz constant
    assert theory.edge(Network(math.inf, 2, a), 1e12).value / 1e12 == pytest.approx(mean, abs=1e-5)


def test_infinite_width_smooth_edge_is_minus_one():
    """At t = 1, p = inf, phi = (1 - y)/(1 + a) has mean 0: the edge is -1 for all alpha below (1 + a)^2 p_star/2."""
    model = Network(math.inf, 3, 0.5)
    found = theory.spectrum(model, [0.1, 1.0, 1.5 * 1.5**2 * (1 - 1e-9), 1.5 * 1.5**2 * (1 + 1e-6)])
    np.testing.assert_allclose(found.edge[:3], -1, rtol=1e-14)
    assert list(found.kind) == ["smooth"] * 3 + ["sharp"]


def test_derivatives_of_z():
    model, g, h = Network(3, 2, 0.4), np.array([-0.2, -0.9, -1.4]), 1e-5
    for order in (1, 2):
        above, below = (z_of_g(model, 1.7, g + d, order - 1) for d in (h, -h))
        np.testing.assert_allclose((above - below) / (2 * h), z_of_g(model, 1.7, g, order), rtol=1e-7)


def test_riemannian_shift_is_the_radial_gradient():
    """w_k . dL/dw_k / N, k = 1, of 10^6 drawn labels (5 standard errors: false alarm 6e-7), and the p = inf closed form."""
    model, alpha = Network(3, 2, 0.4), 1.7
    lam, u = committee_preactivations(model, 10**6, np.random.default_rng(3))
    y, yhat = np.mean(u**2, axis=1), np.mean(lam**2, axis=1)
    sample = -alpha * lam[:, 0] * (2 / 3) * lam[:, 0] * (yhat - y) / (0.4 + y)
    assert abs(sample.mean() - riemannian_shift(model, alpha)) < 5 * sample.std() / 1000
    gompertz = 0.596347362323194  # e E1(1) = E[1/(1 + y)] for p_star = 2
    np.testing.assert_allclose(
        riemannian_shift(Network(math.inf, 2, 1.0), [1.0, 3.0]), [1 - 2 * gompertz, 3 - 6 * gompertz]
    )


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_an_edge_is_that_of_the_model_whatever_was_done_to_an_answer(shape):
    model, alpha = Network(2, 1, 0.7), np.full(shape, 2.0)
    right = theory.edge(model, 2.0)
    found, (value, r) = theory.spectrum(model, alpha), edges(model, alpha)
    for given in (found.edge, value, r):
        given[...] = -99.0
    assert theory.edge(model, 2.0) == right
    assert theory.spectrum(model, alpha).edge == theory.spectrum(model, [2.0, 3.0]).edge[0] == right.value
    assert edge_resolvent(model, 2.0) > -1  # of r, which is at least 0


def test_shapes():
    model = Network(2, 1, 0.3)
    values, r = edges(model, [[0.5, 1.0], [2.0, 4.0]])
    assert values.shape == r.shape == (2, 2)
    single = theory.edge(model, 2.0)
    assert isinstance(single.value, float) and isinstance(single.kind, str)
    assert (single.value, edge_resolvent(model, 2.0)) == (values[1, 0], -1 / (1 + r[1, 0]))
    assert z_of_g(model, [1.0, 2.0, 3.0], [[-0.1], [-0.2]]).shape == (2, 3)


def test_roots_of_many_problems_at_once():
    target = np.array([1e-9, 0.3, 1e6])
    found = newton(lambda v, i: (target[i] - v**3, -3 * v**2), np.ones(3), np.zeros(3), INF)
    np.testing.assert_allclose(found, np.cbrt(target), rtol=1e-14)


def test_only_what_has_not_converged_is_evaluated():
    seen = []

    def function(v, index):
        seen.append(index.size)
        return np.where(index == 0, 1 - v, np.exp(-v) - 1e-12), np.where(index == 0, -1.0, -np.exp(-v))

    found = newton(function, np.array([0.5, 0.5, 0.5]), np.zeros(3), INF)
    np.testing.assert_allclose(found, [1, 12 * np.log(10), 12 * np.log(10)], rtol=1e-12)
    assert seen[0] == 3 and seen[-1] == 2


def test_the_bracket_holds_where_newton_would_leave_it():
    """arctan: Newton from far away diverges; the slope is also useless (0) left of the kink."""
    found = newton(
        lambda v, i: (-np.arctan(v - 3), -1 / (1 + (v - 3) ** 2)),
        np.array([40.0]),
        np.zeros(1),
        np.array([100.0]),
    )
    assert found[0] == pytest.approx(3, rel=1e-14)
    flat = newton(
        lambda v, i: (np.where(v < 2, 1.0, 3 - v), np.where(v < 2, 0.0, -1.0)),
        np.ones(1),
        np.zeros(1),
        INF[:1],
    )
    assert flat[0] == pytest.approx(3, rel=1e-14)


def test_rounding_does_not_send_it_back_and_forth_between_the_ends():
    """Near a small root of a function of order 1 values are a bit or two, and Newton steps lead from end to end."""
    start, bit = 3.01179386e-13, 4.4408921e-16
    found = newton(
        lambda v, i: (np.where(v < 3.02e-13, bit, -bit), np.full(1, -0.24991332)),
        np.array([start]),
        np.zeros(1),
        np.array([0.02]),
    )
    assert found[0] == pytest.approx(3.02e-13, abs=2e-15)


def test_nothing_to_solve():
    assert newton(lambda v, i: (v, v), np.empty(0), np.empty(0), np.empty(0)).size == 0


def test_giving_up_carries_the_best_estimate():
    with pytest.raises(NotConverged, match="1 of 1 roots not found in 3 steps") as failure:
        newton(lambda v, i: (1e6 - v**3, -3 * v**2), np.ones(1), np.zeros(1), INF[:1], steps=3)
    assert failure.value.best.shape == (1,) and failure.value.best[0] > 1
