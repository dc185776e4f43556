"""alpha_bbp_finite, and the split of the labels that carries it to any N."""

import math

import numpy as np
import pytest

from theory.checks import ParameterError
from theory.exact.bulk import z_of_g
from theory.exact.committee import committee_labels
from theory.exact.outliers import outlier
from theory.exact.transition import bbp_threshold
from theory.finite import many_labels, questions
from theory.finite.extreme_labels import LabelTail
from theory.finite.law import finite_law
from theory.finite.quenched import mean_margin
from theory.finite.questions import share_at
from theory.finite.threshold import alpha_bbp_finite, margin_threshold
from theory.finite.typical import alpha_bbp_typical
from theory.general.dyson import Dyson
from theory.general.spikes import SpikeBlock
from theory.model import Committee

MODELS = [(1, 1, 0.5), (1, 2, 0.05), (2, 1, 0.3), (3, 2, 1.0), (5, 1, 0.5)]


@pytest.mark.parametrize(("p", "p_star", "a"), MODELS)
def test_quadrature_of_the_labels_that_are_not_extreme(p, p_star, a):
    """With hardly any label extreme the mean over the rest is K(g) of the N = inf theory, times the identity."""
    model = Committee(p, p_star, a)
    tail, g = LabelTail(model, 1e10, 1, 10), -0.8 * p / 2
    nodes = tail.mean
    weights = model.weights(nodes.lam, nodes.y)
    mean = np.einsum("m,mij->ij", nodes.share, weights @ np.linalg.inv(np.eye(p) - g * weights))
    np.testing.assert_allclose(mean, np.eye(p) * (z_of_g(model, 1.0, g) - 1 / g), atol=1e-6)
    assert nodes.share.sum() == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize(("p", "p_star", "a"), MODELS)
def test_extreme_labels_have_the_law_of_extreme_labels(p, p_star, a):
    """Against a million labels drawn in full, some 2,000 of them extreme in either: means at 5 sigma, counts at 6."""
    model, rng = Committee(p, p_star, a), np.random.default_rng(p)
    tail = LabelTail(model, 1e6, 2000, 10)
    lam, u = committee_labels(model, 1_000_000, rng)
    y, yhat = np.mean(u**2, axis=1), np.mean(lam**2, axis=1)
    extreme = y > tail.cut(yhat)
    drawn = tail.draw(rng).extreme
    assert abs(len(drawn.y) - extreme.sum()) < 6 * math.sqrt(4000)
    for one, two in ((y[extreme], drawn.y), (yhat[extreme], np.mean(drawn.lam**2, axis=1))):
        assert abs(one.mean() - two.mean()) < 5 * math.hypot(one.std(), two.std()) / math.sqrt(2000)
    assert np.all(drawn.y > tail.cut(np.mean(drawn.lam**2, axis=1)))
    assert np.all((drawn.share > 0) & (drawn.share < 1))


def test_every_label_counts_once():
    """Coefficients of a split sample add up to alpha = M/N."""
    tail = LabelTail(Committee(2, 1, 1.0), 2e5, 500, 1000)
    sample = tail.sample(tail.draw(np.random.default_rng(0)), 0.7, 1e5)
    assert sample.share.sum() == pytest.approx(0.7, rel=2e-3)  # the count of extreme labels fluctuates


def test_mean_margin_is_the_mean_of_the_margins():
    model, n = Committee(2, 2, 0.5), 150
    lam, u = committee_labels(model, 500, np.random.default_rng(0))
    dyson = Dyson(model.weights(lam, model.outputs(u)), 1 / n)
    edge = dyson.edge()
    expected = edge.value - np.linalg.eigvalsh(SpikeBlock(dyson, u).xi_at(edge)).mean()
    assert mean_margin(model, lam, np.mean(u**2, axis=1), 1 / n) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("p", "a"), [*(pytest.param(1, a, marks=pytest.mark.slow) for a in (0.5, 2.0)), (2, 1.0)]
)
def test_split_and_full_draws_agree(p, a):
    """Mean margin at one alpha, N = 3,000, 50 draws of each: 4 sigma (1 in 15,000). For p = 1 that is all
    there is to it."""
    model, n, draws = Committee(p, 1, a), 3000, 50
    alpha, rng = bbp_threshold(model).alpha, np.random.default_rng(p)
    tail = LabelTail(model, 1.01 * alpha * n, 400, 1000)
    split = (tail.sample(tail.draw(rng), alpha, n) for _ in range(draws))
    one = np.array([mean_margin(model, v.lam, v.y, v.share) for v in split])
    full = (committee_labels(model, round(alpha * n), rng) for _ in range(draws))
    two = np.array([mean_margin(model, lam, np.mean(u**2, axis=1), 1 / n) for lam, u in full])
    assert abs(one.mean() - two.mean()) < 4 * math.hypot(one.std(), two.std()) / math.sqrt(draws)
    assert one.std() == pytest.approx(two.std(), rel=0.6)


def test_threshold_at_large_n():
    continuous = Committee(1, 1, 0.5)
    found = margin_threshold(continuous, 10**8, draws=6, extremes=300)
    assert abs(found.alpha - bbp_threshold(continuous).alpha) < 5 * found.error < 0.01
    half = margin_threshold(continuous, 10**8, draws=6, extremes=300, of="half")
    assert half.alpha == pytest.approx(found.alpha, abs=0.01)
    assert (found.kind, found.route, math.isnan(found.jump)) == ("continuous", "draws", True)
    with pytest.raises(AttributeError, match='of="half"'):
        _ = found.half


def test_discontinuous_threshold_sits_far_below_its_limit():
    model = Committee(1, 1, 2.0)
    found = margin_threshold(model, np.array([2000, 10**8]), draws=8, extremes=300)
    assert found.alpha.shape == (2,)
    assert found.alpha[0] + 0.2 < found.alpha[1] < bbp_threshold(model).alpha - 0.2
    assert found.alpha[1] == pytest.approx(alpha_bbp_typical(model, 10**8), abs=5 * found.error[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 5}, "n must be"),
        ({"n": 100, "method": "guess"}, "method must be one of"),
        ({"n": 100, "of": "third"}, "of must be one of"),
        ({"n": 100, "draws": 1}, "draws must be"),
        ({"n": 10**6, "method": "extremes", "model": Committee(9, 1, 1.0)}, "p must be at most"),
        ({"n": 10**8, "method": "labels"}, "n must be at most"),
        ({"n": 10**6, "model": Committee(math.inf, 1, 1.0)}, "p must be finite"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ParameterError, match=message):
        margin_threshold(**{"model": Committee(1, 1, 1.0)} | arguments)


@pytest.mark.parametrize("a", [pytest.param(20.0, marks=pytest.mark.slow), 100.0])
def test_thresholds_far_below_the_limit_are_found(a):
    """Where a is large the transition at N = 300 lies far below alpha_BBP, below a fifth of it."""
    model = Committee(1, 1, a)
    found, margin = alpha_bbp_finite(model, 300, draws=10), margin_threshold(model, 300, draws=5)
    limit = bbp_threshold(model).alpha
    assert 0 < found.alpha < 0.3 * limit and found.error > 0
    assert 0 < margin.alpha < 0.3 * limit


def test_half_of_fresh_draws_have_a_positive_margin_at_half():
    """200 fresh draws at the half-point of 60: a share within 4 sigma of both (0.15) of 1/2."""
    model, n = Committee(1, 1, 2.0), 300
    half = margin_threshold(model, n, draws=60, of="half").alpha
    rng = np.random.default_rng(99)
    positive = []
    for _ in range(200):
        lam, u = committee_labels(model, round(half * n), rng)
        positive.append(mean_margin(model, lam, np.mean(u**2, axis=1), 1 / n) > 0)
    assert abs(np.mean(positive) - 0.5) < 4 * math.hypot(0.5 / math.sqrt(200), 0.5 / math.sqrt(60))


@pytest.mark.parametrize(
    "model", [Committee(2, 1, 1.5), pytest.param(Committee(1, 2, 3.0), marks=pytest.mark.slow)]
)
def test_threshold_of_several_directions_is_where_half_of_the_draws_are_informative(model):
    """Fresh draws at the threshold of 60: a share within 4 sigma of both (0.4) of 1/2; far above it most are.

    Dense samples, 200 each: 0.45 +- 0.04 and 0.57 +- 0.04 at these thresholds, 0.995 and 0.90 +- 0.02 at six times them; the
    law there, 400 draws: 0.44, 0.55, 0.985, 0.865.
    """
    found = alpha_bbp_finite(model, 100, draws=60)
    share = finite_law(model, found.alpha, 100, draws=60, seed=5).mean("informative")[0]
    assert abs(share - 0.5) < 4 * 0.5 * math.sqrt(2 / 60)
    assert finite_law(model, 6 * found.alpha, 100, draws=100).mean("informative")[0] > 0.7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 5}, "n must be"),
        ({"n": 100, "draws": 1}, "draws must be"),
    ],
)
def test_bad_input_of_the_informative_threshold(arguments, message):
    with pytest.raises(ParameterError, match=message):
        alpha_bbp_finite(Committee(1, 1, 1.0), **arguments)


@pytest.mark.parametrize(
    "model", [pytest.param(Committee(1, 1, 2.0), marks=pytest.mark.slow), Committee(2, 1, 1.0)]
)
def test_law_is_that_of_all_labels_where_few_of_them_are_drawn(model, monkeypatch):
    """N = 1,500, 0.8 alpha_BBP, 50 draws of either: means within 4 standard errors (false alarm 3e-4 a case); labels add up."""
    n, alpha = 1500, 0.8 * bbp_threshold(model).alpha
    every = finite_law(model, alpha, n, draws=50)
    monkeypatch.setattr(many_labels, "SINGLY", 1000)
    monkeypatch.setattr(many_labels, "REST", 400)
    monkeypatch.setattr(many_labels, "EXTREMES", 200)
    many_labels._tail.cache_clear()
    few = finite_law(model, alpha, n, draws=50, seed=1)
    for name in ("lowest", "overlap", "overlap_lowest", "overlap_next", "informative"):
        (one, one_error), (two, two_error) = every.mean(name), few.mean(name)
        assert abs(one - two) < 4 * math.hypot(one_error, two_error), name
    told = many_labels.drawn_labels(model, round(alpha * n), n, range(20), 0)
    numbers = told.weight.sum(axis=1) + told.nodes[2].sum()
    assert told.nodes.shape[1] > 0 and told.normals.shape[1] < alpha * n
    assert abs(numbers.mean() / (alpha * n) - 1) < 0.02  # of the extreme ones the number is drawn
    many_labels._tail.cache_clear()


def test_law_at_a_hundred_million_dimensions_is_the_outlier():
    model = Committee(1, 1, 0.5)
    found, law = outlier(model, 3.0), finite_law(model, 3.0, 10**8, draws=4)
    assert abs(law.lowest.mean() / found.value - 1) < 3e-3  # the chord at its middle
    assert abs(law.overlap.mean() - found.overlap) < 2e-3


def test_a_discontinuous_threshold_creeps_up_to_large_n():
    """p = 1, a = 2, N = 1e6, alpha_BBP = 1.69: half of the draws are informative at 1.25(2), next to none at 0.7, all at 1.5.

    Of 60 draws 9 are let pass at 0.7, where 6 of 100 were found, and 6 not informative at 1.5: 3 standard deviations."""
    seen = [
        share_at(Committee(1, 1, 2.0), alpha, 10**6, of="informative", draws=60).share for alpha in (0.7, 1.5)
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
    monkeypatch.setattr(
        questions, "finite_law", lambda model, alpha, n, draws, seed: _Logistic(alpha, draws, seed)
    )
    model = Committee(1, 1, 1.1)
    found = [alpha_bbp_finite(model, 100, draws=100, seed=seed) for seed in range(400)]
    off = np.array([math.log(one.alpha) / (one.error / one.alpha) for one in found])
    assert 0.90 < np.mean(np.abs(off) < 1.96) < 0.995
    assert abs(np.mean(off)) < 5 / math.sqrt(len(off)) + 0.1
