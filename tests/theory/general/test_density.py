"""Bulk density of networks: against the density of the quadratic committee."""

import math

import numpy as np
import pytest

import theory
from theory.general import Network, density


@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_quadratic_committee(p):
    lam = np.array([0.5, 1.5, 3.0])
    exact = theory.density(theory.Committee(p, 1, 2.0), 6.0, lam)
    assert np.max(exact) > 1e-3
    np.testing.assert_allclose(density(Network(p=p, a=2.0), 6.0, lam), exact, rtol=0, atol=1e-8)


def test_matrix_g_is_refused():
    with pytest.raises(theory.ParameterError, match="matrix G"):
        density(Network(p=2, activation="tanh"), 6.0, 1.0)
