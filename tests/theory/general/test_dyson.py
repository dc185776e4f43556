"""The matrix Dyson equation against closed forms, a plain fixed point, and its own certificates."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from theory.checks import NotConverged, ParameterError
from theory.exact import committee_preactivations
from theory.general.dyson import Dyson, scalar_edge
from theory.general.spikes import SpikeBlock
from theory.model import Network


def draw(p, p_star=1, a=0.5, alpha=2.0, n=200, seed=0):
    model = Network(p, p_star, a)
    lam, u = committee_preactivations(model, round(alpha * n), np.random.default_rng(seed))
    return model.weights(lam, model.outputs(u)), u, n


def fixed_point(weights, c, z):
    """G(z) by the iteration a textbook writes down, damped; the slow twin of Dyson.solve.

    It ends where a step is below 1e-14 of G: fifty roundings, which any processor reaches.
    """
    p = weights.shape[1]
    g = np.eye(p) / z
    for _ in range(20000):
        new = np.linalg.inv(
            z * np.eye(p) - c * np.sum(weights @ np.linalg.inv(np.eye(p) - g @ weights), axis=0)
        )
        if np.abs(new - g).max() <= 1e-14 * np.abs(new).max():
            return new
        g = (g + new) / 2
    raise AssertionError("the fixed point did not settle")


@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.0])
def test_constant_weights_give_the_marchenko_pastur_edges(alpha):
    n = 100
    ones = np.ones((round(alpha * n), 1, 1))
    below = Dyson(-1.7 * ones, 1 / n).edge()
    assert below.value == pytest.approx(-1.7 * (1 + np.sqrt(alpha)) ** 2, rel=1e-13)
    # At the edge of a positive Wishart matrix, 1 <-> -1 of the same law: the lower edge when alpha > 1.
    if alpha > 1:
        assert Dyson(1.7 * ones, 1 / n).edge().value == pytest.approx(
            1.7 * (np.sqrt(alpha) - 1) ** 2, rel=1e-13
        )
    else:
        with pytest.raises(NotConverged):
            Dyson(ones, 1 / n).edge()


def test_curvature_of_the_marchenko_pastur_edge():
    # z(g) = 1/g - alpha/(1 + g) at f = -1; its edge is at g = -1/(1 + sqrt(alpha)), where z'' is elementary.
    alpha, n = 2.0, 100
    edge = Dyson(-np.ones((200, 1, 1)), 1 / n).edge()
    g = -1 / (1 + np.sqrt(alpha))
    assert edge.g[0, 0] == pytest.approx(g, rel=1e-12)
    assert edge.curvature == pytest.approx(2 / g**3 - 2 * alpha / (1 + g) ** 3, rel=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_scalar_edge_is_the_maximum_of_z(seed):
    weights, _, n = draw(1, seed=seed)
    f = weights.ravel()
    q_min = -f.min()

    def z(q):
        return -q + np.sum(q * f / (q + f)) / n

    best = minimize_scalar(
        lambda t: -z(q_min * (1 + np.exp(t))), bounds=(-12, 5), method="bounded", options={"xatol": 1e-9}
    )
    edge = Dyson(weights, 1 / n).edge()
    assert edge.value == pytest.approx(-best.fun, rel=1e-12)
    assert edge.residual < 1e-12


@pytest.mark.parametrize(("p", "a"), [(2, 0.3), (2, 1.5), (3, 0.5), (3, 3.0), (5, 1.0)])
def test_edge_is_certified(p, a):
    """Z(Q) = z I, unit spectral radius with a positive null vector: by concavity that is THE edge."""
    weights, _, n = draw(p, a=a, seed=p)
    dyson = Dyson(weights, 1 / n)
    edge = dyson.edge()
    q = edge.q
    resolvents = np.linalg.inv(q + weights)
    z = -q + np.sum(q - q @ resolvents @ q, axis=0) / n
    np.testing.assert_allclose(z, edge.value * np.eye(p), atol=1e-10)
    assert np.linalg.eigvalsh(q + weights).min() > 0
    assert np.linalg.eigvalsh(edge.null).min() > 0
    t = weights @ resolvents
    null = np.linalg.cholesky(q)
    values, vectors = np.linalg.eigh(q)
    root = (vectors * np.sqrt(values)) @ vectors.T
    null = root @ edge.null @ root
    np.testing.assert_allclose(np.einsum("mij,jk,mlk->il", t, null, t) / n, null, atol=1e-9)


@pytest.mark.parametrize("p", [2, 3])
def test_lower_bounds_lie_below_the_edge(p):
    weights, _, n = draw(p, seed=7)
    dyson = Dyson(weights, 1 / n)
    edge, rng = dyson.edge(), np.random.default_rng(1)
    for _ in range(20):
        shake = 0.2 * rng.standard_normal((p, p))
        state = dyson.state(edge.q @ (np.eye(p) * 1.3) + shake @ shake.T)
        assert state is not None and np.linalg.eigvalsh(state.z())[0] < edge.value


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("below", [0.01, 0.3, 3.0])
def test_solve_agrees_with_the_plain_fixed_point(p, below):
    weights, _, n = draw(p, n=60, seed=3)
    dyson = Dyson(weights, 1 / n)
    z = dyson.edge().value - below
    np.testing.assert_allclose(dyson.solve(z), fixed_point(weights, 1 / n, z), rtol=1e-10, atol=1e-12)


def test_solve_refuses_the_inside_of_the_spectrum():
    weights, _, n = draw(2)
    dyson = Dyson(weights, 1 / n)
    edge = dyson.edge().value
    dyson.solve(edge - 1e-6)
    with pytest.raises(ParameterError, match="left of the spectrum"):
        dyson.solve(edge + 1e-6)


def test_block_diagonal_weights_have_the_lower_of_two_edges():
    """Far from a multiple of the identity: two unrelated scalar problems in one."""
    one, two = (draw(1, a=a, seed=s)[0].ravel() for a, s in ((0.2, 1), (2.0, 2)))
    n = 200
    weights = np.zeros((400, 2, 2))
    weights[:, 0, 0], weights[:, 1, 1] = one, two
    edges = [Dyson(f[:, None, None], 1 / n).edge().value for f in (one, two)]
    assert Dyson(weights, 1 / n).edge().value == pytest.approx(min(edges), rel=1e-10)


@pytest.mark.parametrize("p", [2, 3])
def test_rotations_and_units(p):
    weights, _, n = draw(p, seed=11)
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((p, p)))[0]
    edge = Dyson(weights, 1 / n).edge()
    turned = Dyson(3.0 * rotation @ weights @ rotation.T, 1 / n).edge()
    assert turned.value == pytest.approx(3 * edge.value, rel=1e-11)
    np.testing.assert_allclose(turned.g, rotation @ edge.g @ rotation.T / 3, rtol=1e-7, atol=1e-9)
    assert turned.curvature == pytest.approx(27 * edge.curvature, rel=1e-7)


def test_coefficients_count_samples():
    """A sample with coefficient 2c is that sample twice."""
    weights, u, n = draw(2, n=80, seed=5)
    c = np.full(len(weights), 1 / n)
    c[:30] *= 2
    doubled = np.concatenate([weights, weights[:30]])
    a, b = Dyson(weights, c), Dyson(doubled, 1 / n)
    assert a.edge().value == pytest.approx(b.edge().value, rel=1e-12)
    one, two = SpikeBlock(a, u).spikes(a.edge()), SpikeBlock(b, np.concatenate([u, u[:30]])).spikes(b.edge())
    np.testing.assert_allclose(one.margins, two.margins, rtol=1e-9, atol=1e-11)


def test_curvature_is_that_of_the_branch():
    weights, _, n = draw(2, seed=2)
    dyson = Dyson(weights, 1 / n)
    edge = dyson.edge()
    steps = np.array([1e-5, 4e-5]) * abs(edge.value)
    g0 = np.trace(edge.g) / 2
    estimates = [-2 * s / (np.trace(dyson.solve(edge.value - s)) / 2 - g0) ** 2 for s in steps]
    # The first correction is of relative order sqrt(step): one Richardson step removes it.
    assert 2 * estimates[0] - estimates[1] == pytest.approx(edge.curvature, rel=2e-3)


@pytest.mark.parametrize(("p", "a", "n"), [(2, 1.0, 400), (3, 0.3, 400), (3, 1.0, 50), (8, 0.5, 100)])
def test_climbing_reaches_the_same_edge(p, a, n):
    """Cases in which Newton's method alone may wander: the climb always arrives, whatever its start."""
    for seed in range(3):
        weights, _, _ = draw(p, a=a, n=n, alpha=1.0, seed=seed)
        dyson = Dyson(weights, 1 / n)
        edge = dyson.edge()
        assert edge.residual < 1e-9
        for factor in (1.0, 4.0):
            found = dyson.climbed_edge(factor * float(np.trace(edge.q)) / p)
            assert found.value == pytest.approx(edge.value, rel=1e-12)


def test_scalar_edge_without_a_root():
    assert scalar_edge(np.zeros((1, 4)), np.ones((1, 4))) == 0
    assert scalar_edge(np.ones((1, 4)), np.full((1, 4), 0.2)) == 0
