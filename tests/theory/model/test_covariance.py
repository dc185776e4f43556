"""Eigenvalues of the inputs' covariance as samples have them, beside the law that theory is for."""

import numpy as np
import pytest

from theory.checks import ParameterError
from theory.model.covariance import Covariance, covariance

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


def test_a_function_of_n_is_a_covariance():
    """Its law is that of the same law in words, as far as 4096 eigenvalues tell it; samples have its values."""
    mine = Covariance.of_function("mine", lambda n: 3 * (1 + 99 * (np.arange(n) + 0.5) / n)[::-1] ** -1.2)
    known = covariance("power:1.2")
    np.testing.assert_allclose(mine.eigenvalues(200), known.eigenvalues(200), rtol=1e-12)
    for power in (2, 3):
        moments = [float(w @ s**power) for s, w in (mine.law(), known.law())]
        # midpoints miss s'' / (24 N^2) of a moment: the most at the head, where s falls by 1.2 / rank a rank
        assert moments[0] == pytest.approx(moments[1], rel=power * 1e-4)
    assert len(mine.law()[0]) <= 200 and mine.law()[1].sum() == pytest.approx(1)
    two = Covariance.of_function("two", lambda n: [0.5] * (n // 2) + [1.5] * (n - n // 2))
    assert two.parameters == Covariance.of([0.5, 1.5]).parameters and two.spec == "two"
    assert not Covariance.of_function("one", np.ones).is_identity  # its name is kept
    assert not covariance(Covariance.of([1.0, 3.0])).is_identity


def test_nodes_of_many_eigenvalues_have_their_moments():
    """Gauss: all moments up to 2 nodes - 1 of the eigenvalues themselves; a smooth function as their mean."""
    values = np.sort(np.random.default_rng(0).exponential(size=4096))
    law = Covariance.of_function("drawn", lambda n: values if n == 4096 else values[:n])
    s, w = law.law()
    scaled = values / values.mean()
    for function in (np.square, lambda x: x**5, lambda x: 1 / (x + 0.3), lambda x: np.exp(-x)):
        assert w @ function(s) == pytest.approx(function(scaled).mean(), rel=1e-10)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (None, "must be a function, got None"),
        (lambda n: np.ones(n - 1), "must give N = 4096 eigenvalues, got shape (4095,)"),
        (lambda n: -np.ones(n), "finite eigenvalues of at least 0, not all 0"),
        (lambda n: np.zeros(n), "not all 0"),
        (lambda n: np.full(n, np.nan), "must give finite eigenvalues"),
        (lambda n: np.ones(n, complex), "must be real numbers"),
        (lambda n: 1 / 0, "fails at N = 4096: ZeroDivisionError"),
        (lambda n: np.random.default_rng().random(n), "the same eigenvalues at every call"),
    ],
)
def test_what_is_no_function_of_eigenvalues_is_refused(function, words):
    with pytest.raises(ParameterError) as error:
        Covariance.of_function("mine", function)
    assert words in str(error.value) and "\n" not in str(error.value)
