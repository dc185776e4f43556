"""The density against pooled eigenvalues of dense Hessians drawn here with NumPy, independently of sims."""

import math

import numpy as np
import pytest
from scipy import stats

from tests.theory.spectra import gauss
from theory import atom
from theory.exact.bulk import bulk_edge
from theory.exact.committee import committee_labels
from theory.exact.density import density
from theory.model import Committee

BINS, SAMPLES, ALARM = 12, 60, 1e-3
CASES = [
    pytest.param(Committee(1, 1, 0.7), 1.5, 300, 11, marks=pytest.mark.slow),
    (Committee(2, 1, 1.0), 0.8, 150, 12),
]


def eigenvalues(model, alpha, n, rng):
    """Eigenvalues of one Hessian, (p n,), from the labels of round(alpha n) samples."""
    m = round(alpha * n)
    lam, u = committee_labels(model, m, rng)
    f = model.weights(lam, model.outputs(u))
    x = rng.standard_normal((m, n)) / math.sqrt(n)
    blocks = [[x.T @ (f[:, k, q, None] * x) for q in range(model.p)] for k in range(model.p)]
    return np.linalg.eigvalsh(np.block(blocks))


def quantiles(model, alpha):
    """Points that cut the continuous part of the theory's spectrum into BINS equal masses, and its whole mass."""
    edge = bulk_edge(model, alpha).value
    far = 400 / (model.p * min(model.a, 1))
    small = np.geomspace(1e-6, 1, 800) * abs(edge)
    points = np.unique(np.concatenate([edge + np.linspace(0, 4, 3001) * abs(edge), -small, small, [far]]))
    points = np.concatenate([points[points >= edge], np.geomspace(4 * abs(edge), far, 400)[1:-1]])
    ends = np.sort(points)
    mass = gauss(lambda lam: density(model, alpha, lam), np.stack([ends[:-1], ends[1:]], axis=1))
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    wanted = np.linspace(0, cumulative[-1], BINS + 1)[1:-1]
    return np.interp(wanted, cumulative, ends), cumulative[-1]


def chance(spectra, size, model, alpha):
    """Probability of counts as far from the theory as these, by Hotelling's test on all bins but the last."""
    cuts, mass = quantiles(model, alpha)
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    counts = np.array([np.histogram(values, edges)[0] for values in spectra])[:, :-1]
    off = counts.mean(axis=0) - mass / BINS * size
    k, n = off.size, len(spectra)
    squared = n * off @ np.linalg.solve(np.cov(counts.T), off)
    return stats.f.sf(squared * (n - k) / (k * (n - 1)), k, n - k)


@pytest.mark.parametrize(("model", "alpha", "n", "seed"), CASES)
def test_pooled_eigenvalues_follow_the_density(model, alpha, n, seed):
    """Counts in 12 bins of equal mass over 60 matrices of side 300, against the theory's.

    Eigenvalues of one matrix repel each other and share its labels, so counts are not multinomial: their covariance is
    taken between matrices (Hotelling's T^2; the counts add up, so one bin is left out). A right density fails in 1 of
    1,000 draws. The test has to reject, with room to spare, alpha wrong by 3%.
    """
    rng = np.random.default_rng(seed)
    spectra = [eigenvalues(model, alpha, n, rng) for _ in range(SAMPLES)]
    zeros = [np.count_nonzero(np.abs(values) < 1e-9) for values in spectra]
    size = model.p * n
    assert set(zeros) == {round(atom(model, alpha) * size)}
    spectra = [values[np.abs(values) >= 1e-9] for values in spectra]
    assert chance(spectra, size, model, alpha) > ALARM
    assert chance(spectra, size, model, 0.97 * alpha) < ALARM / 10
    assert chance(spectra, size, model, 1.03 * alpha) < ALARM / 10
