"""Eigenvalues of the inputs' covariance as samples have them, beside the law that theory is for."""

import numpy as np
import pytest

from theory.checks import ParameterError
from theory.model.covariance import covariance

RARE = "levels:0.9@0.996,25.9@0.004"


@pytest.mark.parametrize(
    ("spec", "n", "said"),
    [
        (RARE, 100, "covariance has eigenvalue 25.9, share 0.004, for no coordinate of a sample at N = 100: N must be 250"),
        ("levels:0.1@0.001,1@0.999", 400, "eigenvalue 0.10009, share 0.001, for no coordinate of a sample at N = 400"),
        ("mp:100", 40, "eigenvalues above 0, share 0.01, for no coordinate of a sample at N = 40: N must be 100"),
    ],
)  # fmt: skip
def test_samples_that_would_be_of_another_law_are_refused(spec, n, said):
    with pytest.raises(ParameterError, match=said):
        covariance(spec).eigenvalues(n)
    least = int(said.split("must be ")[1]) if "must be" in said else 1000
    assert np.isclose(np.mean(covariance(spec).eigenvalues(least)), 1)


@pytest.mark.parametrize("spec", [RARE, "power:1.2", "mp:0.5", "mp:3", "levels:0.5@0.6,1.75@0.4"])
def test_the_distance_is_that_of_sorted_eigenvalues(spec):
    """Against as many quantiles of the law as a sample of a million has: moments of which meet those of its nodes."""
    law, n = covariance(spec), 250
    fine = law.eigenvalues(1_000_000)
    nodes, weights = law.law()
    assert np.isclose(np.mean(fine**2), weights @ nodes**2, rtol=1e-3)
    plain = np.mean(np.abs(np.repeat(law.eigenvalues(n), 4000) - fine))
    assert law.distance(n) == pytest.approx(plain, rel=0.02, abs=1e-12)


def test_the_distance_falls_with_n_and_tells_the_long_tailed():
    for spec in ("power:1.2", "mp:0.5", "levels:0.37@0.7,2.47@0.3"):
        assert covariance(spec).distance(1600) < 0.4 * covariance(spec).distance(401) < 0.01
    for spec in ("power:10@1e6", "power:2@1e6", "mp:30"):
        assert covariance(spec).distance(40) > 0.2
