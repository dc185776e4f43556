"""Inputs with a covariance in the matrix Dyson equation: calculus of its functions, plain twins, and the quadratic route."""

import numpy as np
import pytest

from theory import outliers
from theory.general import Network
from theory.general.correlated import PopulationSpectrum, Shift
from theory.general.dyson import Dyson
from theory.general.spikes import SpikeBlock

SPECTRUM = PopulationSpectrum(np.array([0.3, 1.2, 3.0]), np.array([0.5, 0.25, 0.1833]))
STEP = 1e-6


def _weights(p, m=60, seed=0):
    rng = np.random.default_rng(seed)
    f = rng.standard_normal((m, p, p))
    return f + f.transpose(0, 2, 1) + np.diag(np.arange(p)), rng.standard_normal((m, 2))


def _plain(weights, c, z):
    """G and kappa by damped iteration."""
    unit = np.eye(weights.shape[1])
    g = unit / z
    for _ in range(5000):
        kappa = c * np.sum(weights @ np.linalg.inv(unit - g @ weights), axis=0)
        new = sum(
            w * s * np.linalg.inv(z * unit - s * kappa) for s, w in zip(SPECTRUM.s, SPECTRUM.w, strict=True)
        )
        if np.abs(new - g).max() <= 1e-14 * np.abs(new).max():
            return new, kappa
        g = (g + new) / 2
    raise AssertionError("the fixed point did not settle")


def _numeric(function, x):
    return (function(x + STEP) - function(x - STEP)) / (2 * STEP)


def test_divided_differences():
    q, z = np.array([0.7, 1.3, 2.0]), -0.9
    shift, k, zeta = Shift(SPECTRUM, q, z), SPECTRUM.k(q, z), Shift(SPECTRUM, q, z).zeta
    np.testing.assert_allclose([SPECTRUM.y(v, z) for v in k], q, rtol=1e-13)
    assert SPECTRUM.z(k[0], q[0]) == pytest.approx(z, rel=1e-12)
    first = (k[:, None] - k + np.diag(_numeric(lambda v: SPECTRUM.k(v, z), q))) / (q[:, None] - q + np.eye(3))
    np.testing.assert_allclose(shift.first, first, rtol=1e-8)
    assert shift.second[0, 1, 2] == pytest.approx((first[0, 1] - first[1, 2]) / (q[0] - q[2]), rel=1e-12)
    assert shift.second[0, 0, 1] == pytest.approx(
        (shift.first[0, 0] - first[0, 1]) / (q[0] - q[1]), rel=1e-12
    )
    assert shift.zeta_first[0, 1] == pytest.approx((zeta[0] - zeta[1]) / (q[0] - q[1]), rel=1e-12)
    np.testing.assert_allclose(shift.fall, _numeric(lambda v: SPECTRUM.k(q, v), z), rtol=1e-8)
    np.testing.assert_allclose(
        shift.first_fall, _numeric(lambda v: Shift(SPECTRUM, q, v).first, z), rtol=1e-7
    )
    np.testing.assert_allclose(shift.zeta_fall, _numeric(lambda v: Shift(SPECTRUM, q, v).zeta, z), rtol=1e-7)


def test_derivatives_of_a_state():
    """Along a direction of Q and in z: the residual, rho, and what the spike block compares with z."""
    weights, v = _weights(3)
    dyson, z, x = (
        Dyson(weights, 4 / 60, population=SPECTRUM),
        -6.0,
        np.array([0.3, 0.2, -0.1, 0.4, 0.1, -0.2]),
    )
    state = dyson.state(9 * np.eye(3) + 0.5 * np.diag([1.0, 0.0, -1.0]) + 0.2)
    block = SpikeBlock(dyson, v)
    _, direction = block.eigenpair(state, 0, z)
    rho, e = state.top(z)
    (row, corner), (slope, tilt) = state.gradient(e, z), block.slopes(state, direction, z)

    def along(function):
        return _numeric(lambda t: function(dyson.state(state.moved(t * x))), 0.0)

    unwhitened = along(lambda s: s.root @ s.packing.matrix(s.residual(z)) @ s.root)
    wanted = -state.root @ state.packing.matrix(state.left(z) @ x) @ state.root
    np.testing.assert_allclose(unwhitened, wanted, atol=1e-6)
    np.testing.assert_allclose(_numeric(state.residual, z), -state.z_slope(z), atol=1e-7)
    assert rho > 0 and along(lambda s: s.top(z)[0]) == pytest.approx(row @ x, rel=1e-6)
    assert _numeric(lambda t: state.top(t)[0], z) == pytest.approx(corner, rel=1e-6)
    assert along(lambda s: block.eigenpair(s, 0, z)[0]) == pytest.approx(slope @ x, rel=1e-6)
    assert _numeric(lambda t: block.eigenpair(state, 0, t)[0], z) == pytest.approx(tilt, abs=1e-7)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_edges_and_resolvents(p):
    """Left of the edge the plain iteration converges to the same G; the edge is where it ends, sharp."""
    weights, _ = _weights(p, seed=p)
    dyson = Dyson(weights, 4 / 60, population=SPECTRUM)
    edge = dyson.edge()
    assert dyson.climbed_edge(float(np.trace(edge.q)) / p).value == pytest.approx(edge.value, rel=1e-10)
    g, _ = _plain(weights, 4 / 60, edge.value - 0.5)
    np.testing.assert_allclose(dyson.solve(edge.value - 0.5), g, rtol=1e-10, atol=1e-12)
    assert dyson.state_at(edge.value - 1e-7) is not None and dyson.state_at(edge.value + 1e-7) is None


def test_outliers_are_poles_of_the_resolvent():
    """D = Xi - kappa on Sigma w: det(1 - D (1 (x) H_2)) = 0, and the residue of the block of R on the w themselves."""
    weights, _ = _weights(2, seed=4)
    v = np.stack([3.0 * (weights[:, 0, 0] < -1.0), 4.0 * (weights[:, 1, 1] < -1.0)], axis=1)
    c, unit = 4 / 60, np.eye(2)
    dyson = Dyson(weights, c, population=SPECTRUM)
    found = SpikeBlock(dyson, v).spikes(dyson.edge())
    assert len(found.values) > 1

    def matrices(z):
        g, kappa = _plain(weights, c, z)
        phi = weights @ np.linalg.inv(unit - g @ weights)
        xi = c * np.einsum("mk,ml,mij->kilj", v, v, phi).reshape(4, 4)
        r = [np.linalg.inv(z * unit - s * kappa) for s in SPECTRUM.s]
        h = [np.kron(unit, np.einsum("s,sij->ij", SPECTRUM.w * SPECTRUM.s**k, r)) for k in (0, 1, 2)]
        d = xi - np.kron(unit, kappa)
        return h, d, np.linalg.inv(np.linalg.inv(d) - h[2])

    for z, overlap, x in zip(found.values, found.overlaps, found.directions, strict=True):
        far = 1e-4
        h, d, _ = matrices(z)
        assert abs(np.linalg.det(np.eye(4) - d @ h[2])) < 1e-9
        residue = 0.0
        for side in (far, -far):
            h, _, m = matrices(z + side)
            residue = residue + side * (h[0] + h[1] @ m @ h[1]) / 2
        assert np.trace(residue) == pytest.approx(overlap, rel=1e-6)
        np.testing.assert_allclose(residue, overlap * np.outer(x, x), atol=1e-6)


@pytest.mark.parametrize("a", [1e6, 1e10])
def test_outliers_next_to_0_keep_their_digits_at_large_a(a):
    """A population spectrum 1e-6 from the identity moves nothing by 1e-12; under any law a z tends to -15 like 1/a."""
    alone = outliers(Network(1, 1, a), 0.75 * a)[0]
    near = outliers(Network(1, 1, a, covariance="levels:0.999999@0.5,1.000001@0.5"), 0.75 * a)[0]
    assert near.value == pytest.approx(alone.value, rel=1e-11)
    found = outliers(Network(1, 1, a, covariance="power:0.8"), 0.75 * a)[0]
    assert (15 + a * found.value) * a == pytest.approx(189.745, rel=1e-4)
