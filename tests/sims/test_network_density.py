"""Bulk density of networks against samples."""

import numpy as np
import pytest

from sims.sampling import sample_point
from theory.general import Network, density


@pytest.mark.parametrize(
    ("model", "places"),
    [
        pytest.param(Network(a=2.0, activation="tanh"), (-0.2, 0.25, 1.4), marks=pytest.mark.slow),
        (Network(a=2.0, covariance="levels:0.4@2,2.2@1"), (1.0, 3.0)),
        (Network(2, a=2.0, activation="tanh"), (-0.6, 0.2, 0.6)),
    ],
)
def test_dense_samples_have_the_density(model, places):
    """24 samples of N = 150, windows of 0.2: 4 sigma of samples and 3 % for N and width (false alarm 3e-4 in all)."""
    values = sample_point(model, 150, 6.0, range(24), 0, eigenpairs=150 * int(model.p)).eigenvalues
    for place, rho in zip(places, density(model, 6.0, places), strict=True):
        found = (np.abs(values - place) < 0.1).mean(axis=1) / 0.2
        assert abs(found.mean() - rho) < 4 * found.std() / np.sqrt(24) + 0.03 * rho
