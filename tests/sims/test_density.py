"""Stochastic Lanczos quadrature against the whole spectrum, its error bar against the errors made."""

import numpy as np
import pytest

from sims.density import Quadrature, lanczos_quadrature, measure_of
from sims.operator import hessian_operator
from tests.sims.instances import Matrix, dense_hessian, host_draw, quick_rows, with_spectrum
from theory.checks import ParameterError
from theory.exact.bulk import bulk_edge
from theory.model import Committee

MODEL = Committee(p=2, p_star=1, a=0.3)


@pytest.fixture(scope="module")
def case():
    instance = host_draw(MODEL, 120, 1.2, seed=8)
    return hessian_operator(instance), np.linalg.eigvalsh(dense_hessian(instance))


@pytest.fixture(scope="module")
def found(case):
    return lanczos_quadrature(case[0], probes=32, steps=60)


def smoothed(eigenvalues, x, width):
    gauss = np.exp(-(((x[:, None] - eigenvalues) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
    return np.mean(gauss, axis=1)


def test_density_within_its_error_of_the_whole_spectrum(case, found):
    # 21 points, 32 probes: each within 4.5 standard errors (Student t, 31 degrees: 1e-4 a point, 2e-3 in all)
    x = np.linspace(-2, 3, 21)
    mean, error = found.density(x, 0.3)
    exact = smoothed(case[1], x, 0.3)
    assert np.all(np.abs(mean - exact) < 4.5 * error)
    assert np.max(error[exact > 0.05] / exact[exact > 0.05]) < 0.1


@quick_rows("steps", 20, slow=[40])
def test_the_error_bar_is_the_error(steps):
    # scaled errors of 60 independent estimates at one point have mean square 1; sd of that mean square about
    # 0.21 with 15 degrees of freedom each: bounds at 4 sigma
    instance = host_draw(MODEL, 40, 1.2, seed=8)
    exact = smoothed(np.linalg.eigvalsh(dense_hessian(instance)), np.array([-0.5]), 0.3)[0]
    large = lanczos_quadrature(hessian_operator(instance), probes=60 * 16, steps=steps, seed=5)
    each = [Quadrature(large.nodes[i::60], large.weights[i::60]).density(-0.5, 0.3) for i in range(60)]
    square = np.mean([((mean - exact) / error) ** 2 for mean, error in each])
    assert 0.3 < square < 1.95


def test_moments_are_traces(case, found):
    for power in (0, 1, 2, 3):
        mean, error = found.moment(power)
        assert abs(mean - np.mean(case[1] ** power)) < 4.5 * error + 1e-12
    below, error = found.fraction_below(np.array([0.0, 100.0]))
    assert abs(below[0] - np.mean(case[1] < 0)) < 4.5 * error[0] + 0.01  # and some of the weight of one node
    assert np.isclose(below[1], 1)


def test_enough_steps_are_exact_for_the_measure_of_a_vector(case):
    operator, eigenvalues = case
    start = np.random.default_rng(1).standard_normal((operator.order, 2))
    measure = measure_of(operator, start, operator.order)
    assert np.allclose(np.sum(measure.weights, axis=1), 1)
    assert np.allclose(measure.nodes[0], eigenvalues, atol=1e-8)


def test_edge_of_the_theory_bounds_the_density():
    operator = hessian_operator(host_draw(MODEL, 400, 1.2, seed=2))
    quadrature = lanczos_quadrature(operator, probes=4, steps=80)
    edge = float(bulk_edge(MODEL, 1.2).value)
    # at N = 400 the p p_star = 2 outliers and an edge moved by the preactivations (std about 0.1) are all there is outside
    below, _ = quadrature.fraction_below(edge - 0.5)
    inside, _ = quadrature.fraction_below(edge + 0.3)
    assert below <= 3 / 800
    assert inside > 0.01


def test_the_atom_is_treated_by_itself():
    """alpha = 0.5: half of the eigenvalues are 0, and the shares on both sides of them are those of the whole spectrum."""
    model = Committee(1, 1, 0.5)
    drawn = host_draw(model, 400, 0.5, seed=2)
    operator, values = hessian_operator(drawn), np.linalg.eigvalsh(dense_hessian(drawn))
    assert operator.atom == 0.5
    found = lanczos_quadrature(operator, probes=16, steps=60)
    assert np.allclose(np.sum(found.weights, axis=1), 1) and np.all(np.sum(found.nodes == 0, axis=1) == 1)
    x = np.array([-0.5, -0.1, -0.01, 0.0, 0.01, 0.1, 1.0])
    mean, error = found.fraction_below(x)
    exact = np.mean(values[:, None] < np.where(x == 0, -1e-9, x), axis=0)
    # 16 probes of 400 entries: standard error sqrt(2 F (1 - F) / 6400), 0.008 at most; 3 of it. The stated error holds half of
    # the weights of the neighbours too, of which 60 nodes have a few per cent each
    assert np.max(np.abs(mean - exact)) < 0.025
    assert np.all(np.abs(mean - exact) < error) and np.max(error) < 0.07
    plain, _ = lanczos_quadrature(operator, probes=16, steps=60, atom=0.0).fraction_below(-0.01)
    assert abs(plain - exact[2]) > 10 * abs(
        mean[2] - exact[2]
    )  # what a rule that does not know of the atom makes of it


@quick_rows("steps", 82, slow=[79, 200])
def test_a_rank_below_the_number_of_steps(steps):
    """80 of 400 eigenvalues are not 0: the steps come to an end at 81, and what they found does not depend on how many
    more were allowed."""
    drawn = host_draw(Committee(1, 1, 1e-3), 400, 0.2, seed=1)
    operator, values = hessian_operator(drawn), np.linalg.eigvalsh(dense_hessian(drawn))
    found = lanczos_quadrature(operator, probes=8, steps=steps)
    assert np.all(np.sum(found.nodes == 0, axis=1) == 1)
    # 8 probes, Student t of 7 degrees: 5 standard errors are passed once in 600
    mean, error = found.moment(1)
    assert abs(mean - np.mean(values)) < 5 * error < np.mean(values) * 3
    below, error = found.fraction_below(np.array([-1e-6, 0.01]))
    exact = np.mean(values[:, None] < [-1e-6, 0.01], axis=0)
    # shares of 8 probes of 400 entries: sqrt(F (1 - F) 2 / 3200), 0.01 at most
    assert np.all(np.abs(below - exact) < 0.03) and np.all(error < 0.05)
    if steps > 81:
        same = lanczos_quadrature(operator, probes=8, steps=81)
        assert np.allclose(found.moment(1)[0], same.moment(1)[0], rtol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e155, 1e-155, -1e155])
def test_few_levels_at_any_scale(scale):
    """c 1, a projector on 20 of 60 dimensions, 0, 10 levels and a null space: each rule is its probe's whole measure."""
    few = np.linspace(1, 3, 10)
    for values, atom in ((np.ones(60), 0.0), (np.ones(20), 2 / 3), (np.zeros(1), 0.5), (few, 0.5)):
        known = np.append(values, np.zeros(60 - len(values)))
        operator = Matrix(with_spectrum(known * scale)[0])
        found = lanczos_quadrature(operator, probes=32, steps=20, atom=atom)
        assert np.all(found.whole) and np.isfinite(found.nodes).all()
        gaps = np.min(np.abs(found.nodes[:, :, None] / scale - known), axis=2)[found.weights > 1e-12]
        assert np.max(gaps) < 1e-9  # nodes of any weight are eigenvalues
        x = np.array([-0.5, 0.5, 0.9, 1.1, 2.5])
        share, _ = found.fraction_below(x * abs(scale))
        # 32 probes of 60 entries: 5 standard deviations of sqrt(2 F (1 - F) / 1920)
        assert np.all(np.abs(share - np.mean(known * np.sign(scale) < x[:, None], axis=1)) < 0.081)
    multiple = Matrix(np.eye(60) * scale)
    alone = lanczos_quadrature(multiple, probes=2, steps=20)
    assert np.isclose(alone.moment(1)[0] / scale, 1, rtol=1e-12)
    with pytest.raises(ParameterError, match="atom must be 0 where the matrix has no null space"):
        lanczos_quadrature(multiple, probes=2, steps=20, atom=0.5)
