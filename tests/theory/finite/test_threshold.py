"""Questions to the law: thresholds, shares and their errors."""

import math
import sys

import numpy as np
import pytest

from theory import Network, bbp_threshold
from theory.checks import NotConverged
from theory.finite.law import law
from theory.finite.threshold import answer, threshold


def test_questions_answer_one_another():
    model = Network(1, 1, 0.5)
    found = answer(model, n=60, share=0.6, draws=40)
    assert answer(model, alpha=found.alpha, n=60, draws=40).share == pytest.approx(0.6, abs=0.05)
    assert found.error > 0
    with pytest.raises(NotConverged):
        answer(model, alpha=0.3, share=0.99, q2=0.9, draws=4)


@pytest.mark.parametrize("a", [pytest.param(20.0, marks=pytest.mark.slow), 100.0])
def test_thresholds_far_below_the_limit_are_found(a):
    """Where a is large the transition at N = 100 lies far below alpha_BBP, below a fifth of it, and few draws have an edge."""
    model = Network(1, 1, a)
    found = threshold(model, 100, draws=10)
    limit = bbp_threshold(model).alpha
    assert 0 < found.alpha < 0.3 * limit and found.error > 0


@pytest.mark.parametrize(
    "model", [pytest.param(Network(2, 1, 1.5), marks=pytest.mark.slow), Network(1, 2, 3.0)]
)
def test_threshold_of_several_directions_is_where_half_of_the_draws_are_informative(model):
    """Fresh draws at the threshold of 60: a share within 4 sigma of both (0.4) of 1/2; far above it most are.

    Dense samples, 200 each: 0.45 +- 0.04 and 0.57 +- 0.04 at these thresholds, 0.995 and 0.90 +- 0.02 at six times them; the
    law there, 400 draws: 0.44, 0.55, 0.985, 0.865.
    """
    found = threshold(model, 100, draws=60)
    share = law(model, found.alpha, 100, draws=60, seed=5).mean("informative")[0]
    assert abs(share - 0.5) < 4 * 0.5 * math.sqrt(2 / 60)
    assert law(model, 6 * found.alpha, 100, draws=100).mean("informative")[0] > 0.7


def test_a_discontinuous_threshold_creeps_up_to_large_n():
    """p = 1, a = 2, N = 1e6, alpha_BBP = 1.69: half of the draws are informative at 1.25(2), next to none at 0.7, all at 1.5.

    Of 60 draws 9 are let pass at 0.7, where 6 of 100 were found, and 6 not informative at 1.5: 3 standard deviations."""
    seen = [
        answer(Network(1, 1, 2.0), alpha=alpha, n=10**6, of="informative", draws=60).share
        for alpha in (0.7, 1.5)
    ]
    assert seen[0] <= 9 / 60 and seen[1] >= 54 / 60


class _Logistic:
    """Draws that each become informative at an alpha of their own, of a logistic law in log alpha about 1."""

    def __init__(self, alpha, draws, seed):
        own = np.random.default_rng(seed).logistic(0.0, 0.25, draws)
        self.held, self.draws = float(np.mean(own < math.log(alpha))), draws

    def share_above(self, q2, of):
        return self.held, 0.0


def test_the_error_of_a_threshold_holds(monkeypatch):
    """1.96 errors hold the alpha of half in 95 % of 400 sets of 100 draws; 5 sigma of a binomial are 5 % (1e-6)."""
    drawn = lambda model, alpha, n, draws, seed: _Logistic(alpha, draws, seed)  # noqa: E731
    monkeypatch.setattr(sys.modules[threshold.__module__], "law", drawn)
    model = Network(1, 1, 1.1)
    found = [threshold(model, 100, draws=100, seed=seed) for seed in range(400)]
    off = np.array([math.log(one.alpha) / (one.error / one.alpha) for one in found])
    assert 0.90 < np.mean(np.abs(off) < 1.96) < 0.995
    assert abs(np.mean(off)) < 5 / math.sqrt(len(off)) + 0.1
