"""The population spectrum and the scales that rows of a known law give."""

import numpy as np
import pytest

from theory import Inputs
from theory.given import population


def test_the_spectrum_of_few_rows_is_spread_as_that_of_sigma():
    """Eigenvalues 0.4 and 2.2 from 2.5 N rows: the second moment of Sigma to 5 %, that of the rows' own over 15 % more."""
    rng = np.random.default_rng(1)
    n = 200
    sigma = np.where(np.arange(n) < 2 * n / 3, 0.4, 2.2)
    found = population(Inputs.of(rng.standard_normal((500, n)) * np.sqrt(sigma)))
    second = np.mean(sigma**2)
    assert np.mean(found.s**2) == pytest.approx(second, rel=0.05)
    assert np.mean(found.raw**2) > 1.15 * second


def test_scales_are_those_of_the_rows():
    rng = np.random.default_rng(2)
    n, tau = 100, rng.gamma(2.0, 0.5, 400)
    inputs = Inputs.of(rng.standard_normal((400, n)) * np.sqrt(tau)[:, None], centred=False)
    found = population(inputs)
    scales = found.scales(found.coordinates(inputs.take(np.arange(400))), 0.3)
    assert np.corrcoef(np.log(scales), np.log(tau))[0, 1] > 0.95
    assert scales.mean() == pytest.approx(1)
