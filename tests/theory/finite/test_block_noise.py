"""Quenched theory with the actual overlaps of a sample, and the block noise: against dense samples and the known variance."""

import numpy as np
import pytest

from theory.checks import ParameterError
from theory.exact.bulk import z_of_g
from theory.exact.committee import committee_labels
from theory.exact.outliers import outlier
from theory.finite.block_noise import block_covariance, draw_blocks, scattered_outliers
from theory.finite.quenched import draw_gram, quenched
from theory.model import Committee


def sample(model, alpha, n, rng):
    """Lowest eigenvalue of a dense Hessian with p = 1, and its labels and overlaps, teacher first."""
    rows = np.vstack([np.linalg.qr(rng.standard_normal((n, model.p_star)))[0].T, rng.standard_normal((1, n))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    x = rng.standard_normal((round(alpha * n), n))
    u, lam = x @ rows[:-1].T, x @ rows[-1:].T
    values = np.linalg.eigvalsh(x.T @ (model.weights(lam, model.outputs(u))[:, 0] * x) / n)
    return values[0], lam, u, rows @ rows.T


def test_large_alpha_is_unbiased():
    """p = 1, a = 1000, alpha = 700, N = 60: residuals have mean 0 within 4 standard errors (false alarm 1e-3 at 16 samples)
    and a tenth of the scatter that N = inf theory leaves."""
    model, rng = Committee(1, 1, 1000.0), np.random.default_rng(3)
    limit, left = outlier(model, 700.0).value, []
    for _ in range(16):
        found, lam, u, gram = sample(model, 700.0, 60, rng)
        left.append((found - quenched(model, lam, u, 60, gram).outliers[0], found - limit))
    left = np.array(left)
    assert abs(left[:, 0].mean()) < 4 * left[:, 0].std(ddof=1) / 4
    assert left[:, 0].std() < 0.1 * np.sqrt(np.mean(left[:, 1] ** 2))


def test_one_direction_has_the_known_variance():
    """q2^2 Var W = 2 (1 - q2)^2 |z'| / N, section by section of the derivation, for p = 1."""
    model, alpha, n = Committee(1, 2, 0.5), 14.0, 300
    found = outlier(model, alpha)
    g = np.linspace(-0.2, -0.01, 40_001)
    z = z_of_g(model, alpha, g)
    at = g[np.argmin(np.abs(z - found.value) + 1e9 * (g < g[np.argmax(z)]))]
    expected = 2 * (1 - found.overlap) ** 2 * abs(float(z_of_g(model, alpha, at, derivative=1))) / n
    covariance = block_covariance(model, alpha, at, n)
    assert found.overlap**2 * covariance[0, 0, 0, 0] == pytest.approx(expected, rel=1e-2)
    assert covariance[0, 1, 0, 1] == pytest.approx(covariance[0, 0, 0, 0] / 2, rel=1e-12)


def test_blocks_have_their_covariance():
    """10,000 draws at p = 2: variances within 6 standard errors; symmetric."""
    covariance = block_covariance(Committee(2, 1, 1.5), 4.0, -0.3, 100)
    blocks = draw_blocks(covariance, 10_000, np.random.default_rng(0))
    np.testing.assert_array_equal(blocks, blocks.transpose(0, 2, 1))
    wanted = np.einsum("abab->ab", covariance)
    np.testing.assert_allclose(blocks.var(axis=0), wanted, rtol=6 * np.sqrt(2 / 10_000))


def test_noise_splits_outliers():
    model, rng = Committee(1, 2, 0.5), np.random.default_rng(0)
    lam, u = committee_labels(model, 1400, rng)
    found = quenched(model, lam, u, 100)
    scattered = scattered_outliers(model, found, 14.0, 100, 500, rng)
    assert np.ptp(scattered.mean(axis=0)) > np.ptp(found.outliers)


def test_gram():
    model, rng = Committee(3, 2, 0.5), np.random.default_rng(0)
    gram = np.array([draw_gram(model, 50, rng) for _ in range(400)])
    np.testing.assert_allclose(np.einsum("dii->di", gram), 1, atol=1e-14)
    assert np.all(gram[:, 0, 1] == 0)
    assert np.mean(gram[:, 0, 2] ** 2) == pytest.approx(1 / 50, rel=6 * np.sqrt(2 / 400))
    lam, u = committee_labels(model, 100, rng)
    with pytest.raises(ParameterError, match="gram"):
        quenched(model, lam, u, 50, np.eye(2))
    with pytest.raises(ParameterError, match="positive definite"):
        quenched(model, lam, u, 50, 2 * np.ones((5, 5)) - np.eye(5))
