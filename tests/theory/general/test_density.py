"""Bulk density of networks: mass and moments, the equation itself, and the quadratic committee by other routes."""

import math

import numpy as np
import pytest

import theory
from theory.general import Network, density, density_curve, spectrum
from theory.general.density import Resolvent
from theory.general.laws import weight_nodes


def _integrated(law, centre, powers, places=401):
    """int lam^k rho: trapezoid in v with lam = centre + width sinh(v) / 20, over 60 widths either side."""
    v = np.linspace(-1, 1, places) * math.asinh(20 * 60)
    lam = centre + law.width * np.sinh(v) / 20
    rho = law.densities(lam)[0]
    assert np.all(np.isfinite(rho))
    return [np.sum(lam**k * rho * np.cosh(v)) * law.width / 20 * (v[1] - v[0]) for k in powers]


@pytest.mark.parametrize(
    ("model", "alpha"),
    [
        (Network(a=2.0, activation="tanh", noise=0.3), 3.0),
        (Network(loss="squared"), 3.0),
        (Network(math.inf, a=2.0, activation="erf"), 4.0),
        pytest.param(Network(2, a=1.0, covariance="levels:0.4@2,2.2@1"), 2.0, marks=pytest.mark.slow),
        (Network(1, a=2.0, activation="tanh", covariance="power:1"), 6.0),
    ],
    ids=["tanh", "unbounded below", "wide", "covariance", "tanh and covariance"],
)
def test_mass_and_moments(model, alpha):
    """Traces of the weights: E tr F, E tr F^2, for any covariance."""
    law = Resolvent(*weight_nodes(model, 0.16, 0.1), alpha, model.levels())
    found = _integrated(law, law.mean + 0.01 * law.width, (0, 1, 2))
    mean, square = law.moments()
    np.testing.assert_allclose(found, [1, mean, square], rtol=3e-3, atol=1e-3 * law.width)


def test_mass_and_moments_of_matrices():
    """Weights of rank 1 and more whose mean is no multiple of the identity, and levels of inputs."""
    rng = np.random.default_rng(1)
    v = rng.standard_normal((40, 2))
    f = v[:, :, None] * v[:, None, :] - rng.uniform(0, 1, 40)[:, None, None] * np.diag([1.0, 0.5])
    law = Resolvent(f, np.full(40, 1 / 40), 4.0, (np.array([0.5, 1.5]), np.full(2, 0.5)))
    found = _integrated(law, law.mean + 0.01 * law.width, (0, 1, 2), 1001)
    np.testing.assert_allclose(found, [1, *law.moments()], rtol=3e-3, atol=1e-3 * law.width)


def test_the_root_is_the_fixed_point():
    """Plain iteration of the map far from the axis, each weight inverted by itself, at p = 3 with two levels."""
    rng = np.random.default_rng(0)
    f = rng.standard_normal((200, 3, 3))
    f = f + f.transpose(0, 2, 1)
    s, w, z, alpha = np.array([0.5, 1.5]), np.array([0.5, 0.5]), 1.0 + 8.0j, 0.7
    g = np.eye(3) / z
    for _ in range(300):
        kappa = alpha * np.mean(f @ np.linalg.inv(np.eye(3) - g @ f), axis=0)
        g = sum(wi * si * np.linalg.inv(z * np.eye(3) - si * kappa) for si, wi in zip(s, w, strict=True))
    law = Resolvent(f, np.full(200, 1 / 200), alpha, (s, w))
    found = law.at(z)
    np.testing.assert_allclose(law.packing.matrix(found.g), g, rtol=0, atol=1e-13)
    step = 1e-5
    np.testing.assert_allclose((law.at(z + step).g - law.at(z - step).g) / (2 * step), found.slope, atol=1e-9)


@pytest.mark.parametrize(("p", "error"), [(1, 1e-9), (2, 2e-4)])
def test_the_committee_by_the_general_routes(p, error):
    """A Gram matrix given takes the model off the exact route, without changing it."""
    model, lam = Network(p, a=2.0, gram=np.eye(p)), np.array([-9.0, -0.3, 0.5, 1.5, 3.0])
    assert not model.is_committee
    exact = theory.density(theory.Network(p, 1, 2.0), 6.0, lam)
    assert exact[0] == 0 < exact[2]
    np.testing.assert_allclose(density(model, 6.0, lam), exact, rtol=0, atol=error)


def test_curves():
    """The mass asked for, from the edge on; atoms; known spectra are not computed again; a curve of the exact density."""
    for model, alpha in ((Network(a=2.0, activation="tanh"), 0.6), (Network(covariance="mp:2", a=2.0), 4.0)):
        curve = density_curve(model, alpha, 100, mass=0.8)
        assert curve.lam[0] >= curve.spectrum.edge > curve.lam[0] - 1e-2
        assert abs(np.trapezoid(curve.rho, curve.lam) / (1 - curve.atom) - 0.8) < 0.04
    assert abs(curve.atom - 0.5) < 1e-12
    known = spectrum(Network(a=2.0), 4.0)
    curve = density_curve(Network(a=2.0), 4.0, 20, known=known)
    assert curve.spectrum is known
    np.testing.assert_array_equal(curve.rho, theory.density(theory.Network(1, 1, 2.0), 4.0, curve.lam))


@pytest.mark.parametrize(
    "p, p_star, a, alpha",
    [(3, 1000, 8e3, 1.0), (8, 10, 3e3, 0.02), (math.inf, 3, 16.0, 0.999), (2, 1, 0.3, 2.5)],
)
def test_committees_with_a_peak(p, p_star, a, alpha):
    """Places suffice for trapezoids where the density has a narrow peak or no bound beside 0: these gave twice the mass."""
    curve = density_curve(Network(p, p_star, a), alpha, mass=0.97)
    assert abs(np.trapezoid(curve.rho, curve.lam) / (1 - curve.atom) - 0.97) < 0.03
