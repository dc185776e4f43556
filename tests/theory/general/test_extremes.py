"""p = inf is the limit of finite p: rare weights end the support, and samples below that threshold follow the law without."""

import math

import numpy as np
import pytest

from tests.theory.general.test_points import solved
from theory.general import Network, spectrum, threshold
from theory.general.extremes import _separate, bottom
from theory.general.isotropic import Isotropic
from theory.general.laws import infimum_of, node_law, typical_infimum
from theory.model import Activation

TANH = Network(math.inf, activation="tanh", a=2.0)
STEEPEST = 4 / (3 * math.sqrt(3))  # largest |s''| of tanh


def test_the_threshold_of_tanh_in_closed_form():
    """q is the largest l' = 2/(a - 1), at y = -1 and yhat = 1, times the largest |s''| / 2; alpha = q / max(K - X) by a
    plain sum over a grid in (u, lam)."""
    q, grid = STEEPEST, np.linspace(-9, 9, 181)
    u, lam = np.meshgrid(grid, grid, indexing="ij")
    weight = np.exp(-(u**2 + lam**2) / 2)
    weight /= weight.sum()
    y = np.tanh(u)
    f = -y / (2 + y) * -2 * np.tanh(lam) * (1 - np.tanh(lam) ** 2) / 2
    a = weight * f * q / (q + f)
    x = np.array([[np.sum(a * u * u), np.sum(a * u * lam)], [np.sum(a * u * lam), np.sum(a * lam * lam)]])
    found = threshold(TANH)
    assert found.kind == "discontinuous"
    assert abs(found.alpha - q / np.linalg.eigvalsh(np.sum(a) * np.eye(2) - x)[-1]) < 1e-9 * found.alpha


def test_rare_weights_of_many_students():
    """One student at the worst place, the others driving yhat to 1: p = 5 has that weight, and none below p = inf."""
    lam, model = np.full((1, 5), 4.0), Network(5, activation="tanh", a=2.0)
    lam[0, 0] = math.atanh(1 / math.sqrt(3))
    (explicit,) = np.linalg.eigvalsh(model.weights(lam, -np.ones(1)))[:, 0]
    found = 5 / 2 * bottom(model).value
    assert infimum_of(TANH).value < found <= 5 / 2 * explicit + 1e-9
    assert abs(infimum_of(TANH).value + STEEPEST) < 1e-12
    assert abs(typical_infimum(TANH).value + STEEPEST / 2) < 1e-9


def test_even_students_have_no_lower_weights():
    """The quadratic infimum is at y = inf for every yhat."""
    model = Network(math.inf, a=2.0, loss="normalised")
    assert infimum_of(model) == typical_infimum(model)


def test_losses_that_are_not_convex():
    """Along the sum of the students weights are lower: unbounded for quadratic ones, left out for others."""
    assert threshold(Network(math.inf, a=2.0, loss="welsch")).kind == "no edge"
    model = Network(math.inf, activation="tanh", a=0.5, loss="cauchy")
    assert threshold(model).kind == spectrum(model, 3.0).kind == "unresolved"
    assert "not convex" in threshold(model).reason


@pytest.mark.slow
def test_samples_below_the_threshold_follow_the_law_without_rare_weights():
    """p = 8, N = 150, alpha = 5, where theory at N = inf has no outlier up to 7.5(2): the teacher's share of the lowest four
    vectors is that of the law of probable weights within 5 sigma of 6 samples and 0.04 for N and p."""
    model, rng = Network(8, activation="tanh", a=2.0), np.random.default_rng(8)
    shares = np.array([solved(model, 5.0, 150, rng)[1][:4].mean() for _ in range(6)])
    law = Isotropic(node_law(TANH, 0.08, rare=False))
    (found,) = law.outliers(5.0, law.edge(5.0)[2])
    wanted = found.overlap * found.teacher_share
    assert wanted > 0.15
    assert abs(shares.mean() - wanted) < 5 * shares.std(ddof=1) / math.sqrt(6) + 0.04


def swish(share):
    def first(x, xp):
        return share(x, xp) * (1 + x * (1 - share(x, xp)))

    def second(x, xp):
        s = share(x, xp)
        return s * (1 - s) * (2 + x * (1 - 2 * s))

    return Activation("swish", lambda x, xp: x * share(x, xp), first, second, "none", 1.0, -0.2784645428)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_second_derivatives_that_overflow_far_out_are_those_that_do_not():
    """exp(x) / (1 + exp(x)) is inf / inf beyond x = 709."""
    found = []
    for share in (lambda x, xp: (1 + xp.tanh(x / 2)) / 2, lambda x, xp: xp.exp(x) / (1 + xp.exp(x))):
        model = Network(math.inf, activation=swish(share), teacher_activation="tanh", loss="welsch")
        found.append(_separate(model, (-1.0, 1.0)))
    np.testing.assert_allclose(*found, rtol=1e-9)
