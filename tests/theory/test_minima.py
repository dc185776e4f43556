"""The count of minima: one known in closed form, the functional written out, slopes by differences, other code's values."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from theory.answers import Threshold
from theory.checks import ParameterError
from theory.minima import complexity, count, most_numerous, preactivation_law, reach, threshold
from theory.minima.count import Minima
from theory.minima.saddle import Nodes, Saddle, phi, tilted, towards_teacher
from theory.model import Activation, Network

LINE = Activation(
    "line", lambda x, xp: 1 * x, lambda x, xp: xp.ones_like(x), lambda x, xp: xp.zeros_like(x), "odd", 1
)
QUADRATIC = Network(a=0.5)


def least_squares_on_the_sphere(alpha: float, variance: float) -> tuple[float, float]:
    """Overlap and multiplier of the minimum of |X w - X w* - noise|^2 / 2 on |w|^2 = N, w = (H - s)^-1 (H w* + X^T noise).

    H has the Marchenko-Pastur law, E[(h^2 + variance h)/(h - s)^2] = 1, and the overlap is E[h/(h - s)]."""
    low, high = (1 - math.sqrt(alpha)) ** 2, (1 + math.sqrt(alpha)) ** 2

    def mean(f):
        def at(angle):
            h = (low + high) / 2 - (high - low) / 2 * math.cos(angle)
            return f(h) * ((high - low) / 2 * math.sin(angle)) ** 2 / (2 * math.pi * h)

        return quad(at, 0, math.pi, epsabs=1e-13, epsrel=1e-12)[0]

    s = brentq(lambda s: mean(lambda h: (h**2 + variance * h) / (h - s) ** 2) - 1, -5, low - 1e-3, xtol=1e-14)
    return mean(lambda h: h / (h - s)), s


def test_one_minimum_of_a_convex_problem_has_complexity_0():
    """A linear student of a noisy linear teacher on the sphere: O(1) minima, at one overlap."""
    model = Network(activation=LINE, loss="squared", output_noise=0.5)
    m, s = least_squares_on_the_sphere(2.0, 0.5)
    at = complexity(model, 2.0, m)
    assert at.kind == "stable"
    assert abs(at.complexity) < 1e-9
    assert at.multiplier == pytest.approx(s, abs=1e-9)


@pytest.fixture(scope="module")
def found() -> Minima:
    return complexity(QUADRATIC, 4.0, 0.3)


@pytest.fixture(scope="module")
def free() -> Minima:
    return complexity(QUADRATIC, 4.0)


@pytest.fixture(scope="module")
def stable() -> Minima:
    return complexity(QUADRATIC, 4.0, loss=0.05)


def test_complexity_is_the_functional_of_its_law(found):
    """Sigma of physics' functional of the law of preactivations, its Kullback-Leibler divergence written out."""
    alpha, s, nodes = 4.0, found.saddle, Nodes.of(QUADRATIC, 0.3, found.step)
    p, one = s.probability, 1 + s.r * nodes.weight
    kept = p > 0
    divergence = p[kept] @ (np.log(p[kept]) - nodes.log_prior[kept])
    sigma = (
        0.5 + 0.5 * math.log(1 - 0.3**2) - 0.5 * math.log(alpha * (p @ nodes.force**2)) - math.log(s.r) - 1
    )
    sigma += alpha * (p[kept] @ np.log(one[kept]) - s.r * (p @ (nodes.lam * nodes.force)) - divergence)
    assert found.complexity == pytest.approx(sigma, abs=1e-9)


@pytest.mark.parametrize("name", ["a", "r", "b", "rho"])
def test_it_is_stationary(found, name):
    """In every number, by central differences."""
    nodes = Nodes.of(QUADRATIC, 0.3, found.step)
    at = {key: getattr(found.saddle, key) for key in ("a", "r", "b", "beta", "rho")}
    step = 1e-4 * abs(at[name])
    low, high = (phi(nodes, 4.0, None, **(at | {name: at[name] + sign * step})) for sign in (-1, 1))
    assert abs(high - low) / (2 * step) * abs(at[name]) < 1e-6


def test_marginal_minima_sit_at_the_edge_of_their_own_bulk(found):
    """The Hessian's edge by the general theory of the law of preactivations: z(g) at its maximum is the multiplier."""
    law = preactivation_law(found, QUADRATIC)
    f = 2 * (3 * law.lam**2 - law.u**2) / (0.5 + law.u**2)
    g = -np.linspace(0.5, 1.5, 4001) * found.saddle.r
    g = g[g > -0.5]
    z = np.array([1 / x + 4.0 * law.probability @ (f / (1 - x * f)) for x in g])
    assert found.kind == "marginal"
    assert z.max() == pytest.approx(found.multiplier, abs=1e-6)


@pytest.mark.parametrize("a, alpha", [(1.0, 5.94), (0.5, 5.25)])
def test_marginal_minima_become_unstable_towards_the_teacher(a, alpha):
    """Where other code found them to, to the two decimals it gave."""
    model = Network(a=a)
    above = complexity(model, alpha + 0.01)
    below = complexity(model, alpha - 0.01, near=[above])
    assert below.kind == above.kind == "marginal"
    assert below.instability < 0 < above.instability


@pytest.mark.parametrize("model, alpha", [(QUADRATIC, 2.5), (Network(loss="squared"), 4.0)])
def test_preactivations_that_no_minimum_can_have_are_left_out(model, alpha):
    """r beyond 1/|inf F|, which is -2 for the one and has no bound for the other: the law keeps to 1 + r F > 0, and the edge of
    the bulk that it makes is the multiplier."""
    at = complexity(model, alpha)
    law, r = preactivation_law(at, model), at.saddle.r
    f = model.weights(law.lam[:, None], law.u**2)[:, 0, 0]
    assert at.kind == "marginal" and r > 0.5 if model == QUADRATIC else np.min(f) < -50
    assert np.max(law.probability[1 + r * f <= 0]) == 0
    kept = law.probability > 0
    p, f = law.probability[kept], f[kept]
    z = np.array([alpha * (p @ (f / (1 + x * f))) - 1 / x for x in r * np.linspace(0.8, 1, 201)])
    assert np.argmax(z) == 200 and z[-1] == pytest.approx(at.multiplier, abs=1e-8 * abs(at.multiplier))


def test_minima_without_a_bound_on_weights_at_other_nodes():
    """The complexity of intensity phase retrieval, its double integral by another rule: midpoints in lambda and u at half the
    step, where the law's numbers are given."""
    model = Network(loss="squared")
    at = complexity(model, 4.0)
    s, h = at.saddle, at.step / 2
    t = h * (np.arange(-round(9 / h), round(9 / h)) + 0.5)
    lam, u = (x.ravel() for x in np.meshgrid(t, t, indexing="ij"))
    f, force = 2 * (3 * lam**2 - u**2), 2 * lam * (lam**2 - u**2)
    one = 1 + s.r * f
    exponent = (
        -(lam**2 + u**2) / 2 - force**2 / (8 * s.a) - s.r * lam * force - s.rho * (f / one - lam * force)
    )
    weight = np.where(one > 0, one * np.exp(np.where(one > 0, exponent, -np.inf)), 0)
    value = (
        -0.5 * math.log(4 * s.a)
        - math.log(s.r)
        + 4 * math.log(weight.sum() * h**2 / (2 * math.pi))
        + s.rho / s.r
    )
    assert value == pytest.approx(at.complexity, abs=10 * at.error)
    assert at.error < 1e-4


def test_overlap_with_the_teacher_is_a_slope(found, stable):
    """1/(1 - dXi/dz) by differences along z(r), at a law that has a gap."""
    nodes, s = Nodes.of(QUADRATIC, 0.0, stable.step), stable.saddle

    def at(r: float) -> tuple[float, float]:
        f = nodes.weight
        z = 4.0 * (s.probability @ (f / (1 + r * f))) - 1 / r
        return z, stable.multiplier - towards_teacher(nodes, 4.0, replace(s, r=r))[0]

    (z0, xi0), (z1, xi1) = at(s.r * (1 - 1e-5)), at(s.r * (1 + 1e-5))
    assert towards_teacher(nodes, 4.0, s)[1] == pytest.approx(1 / (1 - (xi1 - xi0) / (z1 - z0)), rel=1e-6)
    assert at(s.r)[0] == pytest.approx(stable.multiplier, abs=1e-8)
    assert (
        found.kind == "marginal"
        and towards_teacher(Nodes.of(QUADRATIC, 0.3, found.step), 4.0, found.saddle)[1] < 1e-6
    )


def test_thresholds_are_answers_of_theory():
    at = threshold(QUADRATIC, low=5.2, high=5.3)
    assert isinstance(at, Threshold) and (at.kind, at.jump, at.until) == ("continuous", 0, math.inf)
    assert at.alpha == pytest.approx(5.2541366, abs=1e-6) and at.error < 1e-6 and at.alpha_0 == at.alpha
    below = threshold(QUADRATIC, low=4.0, high=4.5)
    assert below.kind == "none" and "stable towards" in below.reason and math.isnan(below.alpha)


def test_lower_losses_have_fewer_minima_and_then_a_gap(free, stable):
    assert stable.kind == "stable" and stable.loss == pytest.approx(0.05)
    assert stable.complexity < 0 < free.complexity


@pytest.mark.slow
def test_noise_of_the_teacher_is_one_axis_more(free):
    """Without noise the third axis changes nothing."""
    noisy = complexity(replace(QUADRATIC, noise=1e-12), 4.0)
    assert noisy.complexity == pytest.approx(free.complexity, abs=max(1e-6, 3 * noisy.error))


def test_the_most_numerous_and_the_nearest_to_the_teacher(free, monkeypatch):
    """Even students have as many at m as at -m; up to some overlap there are any. Four overlaps are looked at, not 17."""
    monkeypatch.setattr(count, "_GRID", 4)
    monkeypatch.setattr(count, "_FLAT", 1e-7)
    top = most_numerous(QUADRATIC, 4.0)
    assert top.overlap == 0 and top.complexity == pytest.approx(free.complexity, abs=1e-9)
    beside = most_numerous(QUADRATIC, 4.0, 0.1, 0.3)
    assert beside.overlap == pytest.approx(0.1, abs=1e-6) and beside.complexity < top.complexity
    m = reach(QUADRATIC, 4.0, top)
    assert complexity(QUADRATIC, 4.0, m).complexity == pytest.approx(0, abs=1e-7) and 0.3 < m < 0.6
    assert math.isnan(reach(QUADRATIC, 4.0, complexity(QUADRATIC, 4.0, 0.6)))


def test_a_readout_of_one_and_a_bias_of_0_change_nothing(free):
    read = complexity(replace(QUADRATIC, readout=(1.0,), bias=(0.0,)), 4.0)
    assert read.complexity == pytest.approx(free.complexity, abs=1e-9)
    assert complexity(replace(QUADRATIC, readout=(0.8,), bias=(0.3,)), 4.0).kind == "marginal"


def test_where_there_is_no_extremum(monkeypatch):
    """Fewer samples than dimensions: minima are not points, at the coarsest nodes already."""
    monkeypatch.setattr(count, "_STEPS", count._STEPS[:2])
    at = complexity(QUADRATIC, 0.4)
    assert at.kind == "unresolved" and math.isnan(at.complexity)
    with pytest.raises(ParameterError, match="must have a law"):
        preactivation_law(at, QUADRATIC)


def test_the_tilted_law_outside_its_range_is_nothing(free):
    nodes = Nodes.of(QUADRATIC, 0.0, 0.5)
    p, log_z = tilted(nodes, 3.0, 1e-300, 0.4, 0.0, 0.0, 0.0)
    assert np.isnan(log_z) or np.isclose(p.sum(), 1)
    assert isinstance(free.saddle, Saddle)
