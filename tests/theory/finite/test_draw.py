"""Preactivations of a draw: their law, whatever the batch, which are extreme, and overlaps of students."""

import numpy as np
import pytest
from scipy.special import gammainc, gammaincc
from scipy.stats import kstest

from theory.finite.draw import EXTREMES, coupled_data, draw, gram_factor, lengths
from theory.model import Network


def test_preactivations_are_independent_normal_variables():
    """400 draws of 50 data points: means of an entry's square, of a product of two of a data point, and of the square of their
    mean are those of independent variables within 4 standard errors; r is chi-square (Kolmogorov-Smirnov, 1e-3). False alarm
    1.2e-3."""
    directions, arrivals = coupled_data(3, 50, range(400), 0)
    data = directions * lengths(3, arrivals[:, :-1], arrivals[:, -1:])
    square = data**2
    total = square.sum(axis=2)
    means = (
        square.mean(axis=(1, 2)),
        (square[..., 0] * square[..., 2]).mean(axis=1),
        total.mean(axis=1) ** 2 / 9,
    )
    for found, wanted in zip(means, (1, 1, 1 + 2 / 3 / 50), strict=True):
        assert abs(found.mean() - wanted) < 4 * found.std() / 20
    assert kstest(total.ravel(), "chi2", args=(3,)).pvalue > 1e-3


@pytest.mark.parametrize("width", [2, 3, 9])
def test_lengths_of_preactivations_have_the_law_of_chi_square(width):
    """P(r' > r) is the share of the total that has arrived, over twenty orders of magnitude."""
    share = np.append(np.geomspace(1e-20, 0.5, 60), 1 - np.geomspace(0.5, 1e-9, 60))
    root = lengths(width, share[None], 1.0)[0, :, 0]
    np.testing.assert_allclose(gammaincc(width / 2, root**2 / 2), share, rtol=2e-8)
    np.testing.assert_allclose(gammainc(width / 2, root**2 / 2), -np.expm1(np.log(share)), rtol=2e-8)


def test_extreme_data_points_are_the_most_negative_and_draws_do_not_depend_on_the_batch():
    model = Network(2, 1, 1.5)
    one, two = draw(model, 150, 100, range(2), 0), draw(model, 150, 100, range(1, 2), 0)
    extremes = one.extremes[0]
    assert 1 < extremes <= 8 < EXTREMES and one.data.n[0] == 100 - 3 - extremes  # N / 12 at the most
    ours = slice(0, 2 * two.v.shape[2])
    if one.extremes[1] == one.extremes.max():
        np.testing.assert_array_equal(one.extreme[1][ours, ours], two.extreme[0])
    np.testing.assert_array_equal(one.couplings[1][:, :3], two.couplings[0][:, :3])
    ranked = np.sort(one.whole.f[0][0])
    assert (
        one.data.f[0][0].min() > ranked[extremes // 2]
    )  # those among N data points are taken: nearly the same
    assert np.sum(one.data.f[0][0] == 0) == extremes
    assert np.linalg.eigvalsh(one.extreme).min() < -0.8


def test_gram():
    model, rng = Network(3, 2, 0.5), np.random.default_rng(0)
    factors = np.array([gram_factor(model, 50, rng) for _ in range(400)])
    gram = factors @ factors.transpose(0, 2, 1)
    np.testing.assert_allclose(np.einsum("dii->di", gram), 1, atol=1e-14)
    assert np.all(gram[:, 0, 1] == 0)
    assert np.mean(gram[:, 0, 2] ** 2) == pytest.approx(1 / 50, rel=6 * np.sqrt(2 / 400))
