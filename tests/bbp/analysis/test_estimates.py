"""Intervals hold what they should, by simulation: samples at two places, shares, and the shipped descents."""

from pathlib import Path

import numpy as np
import pytest

from bbp.analysis.estimates import FEWEST, bootstrap, fraction
from bbp.files import dataset

DESCENTS = sorted((Path(__file__).parents[3] / "data" / "descent").glob("*.h5"))


def at_two_places(rng, n, share, scatter):
    """Samples near 0.95 and near 0.01, and their mean."""
    far = rng.random(n) < share
    return np.where(far, 0.95, 0.01) + scatter * rng.standard_normal(n), 0.95 * share + 0.01 * (1 - share)


@pytest.mark.parametrize(("share", "scatter"), [(0.7, 0.02), (0.9, 0.0), (0.9, 0.02)])
@pytest.mark.parametrize("n", [16, 24])
def test_intervals_of_samples_at_two_places_cover(share, scatter, n):
    """300 intervals of 95 %: at least 90 % hold the mean (4 sigma below 95 %: false alarm 3e-5), and none leaves the range."""
    rng = np.random.default_rng(n)
    hits = 0
    for _ in range(300):
        values, mean = at_two_places(rng, n, share, scatter)
        found = bootstrap(values, rng, repeats=100, bounds=(0, 1.2))
        hits += found.low <= mean <= found.high
        assert 0 <= found.low <= found.value <= found.high <= 1.2
    assert hits >= 270


def test_samples_without_scatter_have_no_interval_but_within_bounds():
    """Of 16 ones, Wilson's lower end is 0.806."""
    rng, ones = np.random.default_rng(0), np.ones(FEWEST)
    assert np.isnan(bootstrap(ones, rng).low) and bootstrap(ones, rng).error == 0
    found = bootstrap(ones, rng, bounds=(0, 1))
    assert found.low == pytest.approx(16 / (16 + 1.959964**2), abs=1e-6) and found.high == 1


def test_the_interval_of_a_share_stays_in_0_and_1_and_holds_its_value():
    for n in range(1, 120):
        for hits in {0, 1, n // 3, n - 1, n}:
            found = fraction(np.arange(n) < hits)
            assert 0 <= found.low <= found.value <= found.high <= 1


def test_intervals_of_the_shipped_descents_are_within_what_m2_can_be():
    """Means of final m2, most samples near 1 and the others near 0."""
    rng = np.random.default_rng(0)
    for path in DESCENTS[:3]:
        for row in dataset.open(path).m2.values[0, 0, :, :, -1]:
            each = bootstrap(row, rng, bounds=(0, 1))
            assert 0 <= each.low <= each.value <= each.high <= 1 and each.high - each.low < 0.5
