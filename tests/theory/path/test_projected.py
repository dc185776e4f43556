"""Projected samples: every sum against one dense matrix of all samples, derivatives against differences."""

import numpy as np
import pytest
from scipy.optimize import brentq

from theory.model import Network
from theory.path.projected import ProjectedDyson, ProjectedSpikes

M, R, N, K = 40, 4, 15, 3


def problem(p, seed=0):
    """Weights, orthonormal forces and vectors of a random problem."""
    rng = np.random.default_rng(seed)
    model = Network(p, 1, 0.5)
    lam, _, y = model.draw_labels(M, rng)
    forces = np.linalg.qr(rng.standard_normal((M, R)))[0]
    return model.weights(lam, y), forces, rng.standard_normal((M, K))


def compressed(weights, forces, q):
    """C = ((Q + F)_P)^{-1} (M p, M p), written out on a basis of the complement of the forces."""
    p = weights.shape[1]
    basis = np.kron(np.linalg.svd(forces.T)[2][R:].T, np.eye(p))
    whole = np.zeros((M, p, M, p))
    whole[np.arange(M), :, np.arange(M)] = weights + q
    return basis @ np.linalg.inv(basis.T @ whole.reshape(M * p, M * p) @ basis) @ basis.T


@pytest.mark.parametrize("p", [1, 2, 3])
def test_sums_are_those_of_one_dense_weight(p):
    weights, forces, v = problem(p)
    dyson = ProjectedDyson(weights, 1 / N, forces)
    q = 6 * np.eye(p) + 0.3
    state, c = dyson.state(q), compressed(weights, forces, q)
    partial = np.einsum("iaib->ab", c.reshape(M, p, M, p))
    np.testing.assert_allclose(state.z(), -q + ((M - R) * q - q @ partial @ q) / N, rtol=0, atol=1e-12)
    loaded = np.einsum("mij,mk->mikj", weights, v).reshape(M * p, K * p)
    plain = np.einsum("ij,mk->mikj", np.eye(p), v).reshape(M * p, K * p)
    xi = (plain.T @ loaded - loaded.T @ c @ loaded) / N
    block = ProjectedSpikes(dyson, v)
    np.testing.assert_allclose(block.xi(state), xi, rtol=0, atol=1e-12)
    # derivatives along every whitened direction
    x = np.random.default_rng(1).standard_normal((1, K, p))
    _, e = state.top(0.0)
    gradient, slope, step = state.gradient(e, 0.0)[0], block.slope(state, x), 1e-5
    for direction in np.eye(len(gradient)):
        ahead, behind = (dyson.state(state.moved(s * step * direction)) for s in (1, -1))
        change = (ahead.top(0.0)[0] - behind.top(0.0)[0]) / (2 * step)
        assert gradient @ direction == pytest.approx(change, abs=1e-8)
        levels = [x.ravel() @ block.xi(near) @ x.ravel() for near in (ahead, behind)]
        assert slope @ direction == pytest.approx((levels[0] - levels[1]) / (2 * step), rel=1e-6)
        moved = state.residual(0.3) - (state.left(0.3) @ direction) * step
        assert np.allclose(_rewhitened(state, ahead, 0.3), moved, atol=1e-8)


def _rewhitened(state, other, z):
    """The residual of another state, whitened as in `state`."""
    root = np.linalg.inv(state.root)
    return state.coordinates(root @ (other.z() - z * np.eye(len(root))) @ root)


@pytest.mark.parametrize("aligned", [False, True])
def test_one_student_is_the_law_of_eigenvalues_of_the_projected_weights(aligned):
    """p = 1: edge and outliers from all eigenvalues of P D P. Aligned: a force is the sample of the lowest weight, and the edge
    lies beyond the pole that this sample would make."""
    weights, forces, v = problem(1, 3)
    if aligned:
        lowest = int(np.argmin(weights[:, 0, 0]))
        weights[lowest] = -40.0
        forces = np.linalg.qr(np.column_stack([np.eye(M)[lowest], forces[:, 1:]]))[0]
    d = weights[:, 0, 0]
    v[:, 0] *= np.where((d < 0) & (d > -10), 3.0, 0.1)  # a direction that leaves
    basis = np.linalg.svd(forces.T)[2][R:].T
    values, vectors = np.linalg.eigh(basis.T @ (d[:, None] * basis))
    c, total = vectors.T @ basis.T @ (d[:, None] * v), v.T @ (d[:, None] * v)

    def z_of(q):
        return -q + np.sum(q * values / (q + values)) / N

    def margins(q):
        return z_of(q) - np.linalg.eigvalsh((total - (c.T / (q + values)) @ c) / N)

    pole = -values[0]
    q = brentq(lambda q: np.sum((values / (q + values)) ** 2) / N - 1, pole * (1 + 1e-9), 100 * pole)
    dyson = ProjectedDyson(weights, 1 / N, forces)
    edge, block = dyson.edge(), ProjectedSpikes(dyson, v)
    assert edge.value == pytest.approx(z_of(q), rel=1e-9)
    assert (edge.q[0, 0] < -d.min()) == aligned
    found = block.spikes(edge)
    np.testing.assert_allclose(np.sort(found.margins), np.sort(margins(q)), rtol=1e-5, atol=1e-7)
    assert len(found.values) >= 1
    at = brentq(lambda q: margins(q)[0], q, 1e3 * q, xtol=1e-13)
    assert found.values[0] == pytest.approx(z_of(at), rel=1e-9)


def test_a_q_beyond_the_projected_weights_is_refused():
    weights, forces, _ = problem(2)
    dyson = ProjectedDyson(weights, 1 / N, forces)
    assert dyson.state(-np.eye(2)) is None and dyson.state(1e-3 * np.eye(2)) is None
