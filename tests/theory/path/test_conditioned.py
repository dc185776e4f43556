"""Theory of the Hessian given what a method has used: without forces, against redrawn data, after methods of many kinds."""

import numpy as np
import pytest

from tests.theory.samples import lowest, on_spheres, orthogonal
from theory.finite.quenched import quenched
from theory.model import Network
from theory.path import closure, conditioned, force
from theory.path.deferred import Deferred


def start(model, n, alpha, rng):
    """Data (M, n), teacher (p_star, n) and students (p, n) at the model's overlaps."""
    q = orthogonal(int(model.p) + model.p_star, n, rng)
    x = rng.standard_normal((round(alpha * n), n)) / np.sqrt(n)
    return x, q[: model.p_star], model.mixing() @ q


@pytest.mark.parametrize("p", [1, 2])
def test_without_forces_it_is_quenched_theory(p):
    """At a start that overlaps with the teacher, too: the gram of the rows says it to both."""
    model, n = Network(p, 1, 0.5, overlap=0.3), 200
    x, teacher, w = start(model, n, 4.0, np.random.default_rng(p))
    both = np.vstack([teacher, w])
    old = quenched(Network(p, 1, 0.5), x @ w.T, x @ teacher.T, n, both @ both.T / n)
    new = conditioned(model, closure(x, teacher, w), outliers=1)
    assert new.edge == pytest.approx(old.edge, rel=1e-9)
    assert new.scale == pytest.approx(old.scale, rel=1e-9)
    assert new.outliers[0] == pytest.approx(old.outliers[0], rel=1e-9)
    assert new.overlaps[0] == pytest.approx(old.overlaps[0], rel=1e-8)
    np.testing.assert_allclose(new.margins[: len(old.margins)], old.margins, rtol=1e-8, atol=1e-10)


def redrawn(x, used, known, times, rng):
    """Data that are `x` on the span of the rows `known` and on the forces used, and fresh elsewhere."""
    basis = np.linalg.svd(known, full_matrices=False)
    basis = basis[2][basis[1] > 1e-10 * basis[1][0]]
    assert len(basis) == used.images.shape[1]
    for _ in range(times):
        fresh = rng.standard_normal(x.shape) / np.sqrt(x.shape[1])
        fresh -= used.forces @ (used.forces.T @ fresh)
        yield x @ basis.T @ basis + fresh - fresh @ basis.T @ basis


def test_law_is_that_of_data_drawn_again():
    """What is not known is drawn again 60 times, and the Hessian diagonalised: the slow twin of theory and of its law at n.

    p = 1 and 2 after a descent, n = 100 and 60. Means within 4 standard errors (false alarm 1e-4 each, were theory exact) and
    0.25 standard deviations of the samples, for what is of higher order in 1/n; standard deviations within a factor 1.6.
    """
    for p, n, a, alpha in ((1, 100, 0.5, 4.0), (2, 60, 1.0, 4.0)):
        rng = np.random.default_rng(p)
        model = Network(p, 1, a, overlap=0.3)
        x, teacher, w0 = start(model, n, alpha, rng)
        y, w, forces = model.outputs(x @ teacher.T), w0, []
        for _ in range(20):
            forces.append(force(model, x @ w.T, y))
            w = on_spheres(w - 0.01 * forces[-1].T @ x)
        used = closure(x, teacher, w, forces, w0)
        theory = conditioned(model, used)
        known = np.vstack([teacher, w, w0, used.forces.T @ x])
        pairs = [lowest(model, again, w, teacher) for again in redrawn(x, used, known, 60, rng)]
        values, overlaps = np.array(pairs)[:, :, 0].T
        for mean, spread, found in (
            (theory.lowest, theory.lowest_error, values),
            (theory.overlap, theory.overlap_error, overlaps),
        ):
            bound = (4 / np.sqrt(60) + 0.25) * found.std()
            assert abs(mean - found.mean()) < bound
            assert found.std() / 1.6 < spread < 1.6 * found.std()


def methods(model, x, y, w0, rng):
    """Points, forces and further vectors of descent, momentum, half batches and Langevin."""
    step, many = 0.01, 25

    def run(masked=False, inertia=0.0, noise=0.0):
        w, v, forces, others = w0, 0 * w0, [], [w0]
        for _ in range(many):
            used = force(model, x @ w.T, y)
            if masked:
                used = used * (rng.random((len(x), 1)) < 0.5) * 2
            forces.append(used)
            v = inertia * v - step * used.T @ x
            kick = noise * np.sqrt(step) * rng.standard_normal(w.shape)
            w = on_spheres(w + v + kick)
            if noise:
                others.append(kick)
        return w, forces, np.vstack(others)

    return run(), run(inertia=0.5), run(masked=True), run(noise=0.3)


def test_every_method_of_first_order_is_followed():
    """Descent, momentum, half batches and Langevin from overlap 0.3, n = 250, two samples each: lowest eigenvalue less
    predicted, in the theory's own standard deviations, has mean square below 2.5 over the 8 (chi-square: false alarm 0.01, on
    fixed seeds); quenched theory's is 3 times as large."""
    model, n = Network(1, 1, 0.5, overlap=0.3), 250
    new, old = [], []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x, teacher, w0 = start(model, n, 5.0, rng)
        for w, forces, others in methods(model, x, model.outputs(x @ teacher.T), w0, rng):
            (found,), _ = lowest(model, x, w, teacher)
            theory = conditioned(model, closure(x, teacher, w, forces, others))
            without = conditioned(model, closure(x, teacher, w, (), others))
            new.append((found - theory.lowest) / theory.lowest_error)
            old.append((found - without.lowest) / theory.lowest_error)
    assert np.mean(np.square(new)) < 2.5
    assert np.mean(np.square(old)) > 3 * np.mean(np.square(new))


def critical(model, x, y, w):
    """A critical point on the sphere (1, n), by descent and then Newton's method; None where that does not settle."""
    n = w.shape[1]
    for _ in range(1500):
        w = on_spheres(w - 0.02 * force(model, x @ w.T, y).T @ x)
    for _ in range(30):
        gradient = (force(model, x @ w.T, y).T @ x)[0]
        along = gradient @ w[0] / n
        tangent = gradient - along * w[0]
        if np.linalg.norm(tangent) < 1e-9 * np.linalg.norm(gradient):
            return w
        h = x.T @ (model.weights(x @ w.T, y)[:, 0] * x) - along * np.eye(n)
        project = np.eye(n) - w.T @ w / n
        step = np.linalg.solve(project @ h @ project + w.T @ w / n, tangent)
        w = on_spheres(w - step * min(1.0, 0.3 * np.sqrt(n) / np.linalg.norm(step)))
    return None


def test_a_critical_point_is_one_force():
    """sum f x = 0 along the sphere closes with teacher and student alone: data drawn again keep the point critical, and their
    lowest eigenvalue has theory's mean within 4 standard errors and 0.25 standard deviations. n = 80, alpha = 2."""
    model, n, rng = Network(1, 1, 1.0), 80, np.random.default_rng(0)
    x, teacher, w = start(model, n, 2.0, rng)
    y = model.outputs(x @ teacher.T)
    w = critical(model, x, y, w)
    own = force(model, x @ w.T, y)
    used = closure(x, teacher, w, [own])
    assert (used.images.shape[1], used.forces.shape[1]) == (2, 1)
    values = []
    for again in redrawn(x, used, np.vstack([teacher, w]), 40, rng):
        gradient = (own.T @ again)[0]
        assert np.linalg.norm(gradient - (gradient @ w[0] / n) * w[0]) < 1e-8 * np.linalg.norm(gradient)
        values.append(lowest(model, again, w, teacher)[0])
    theory = conditioned(model, used)
    assert abs(theory.lowest - np.mean(values)) < (4 / np.sqrt(40) + 0.25) * np.std(values)


def test_data_without_a_matrix_are_as_good():
    """The state of deferred decisions after a descent is what theory takes; its matrix, filled up, is a sample."""
    model, n, m = Network(1, 1, 0.5, overlap=0.3), 120, 480
    rng = np.random.default_rng(5)
    _, teacher, w0 = start(model, n, 0.1, rng)
    data = Deferred(m, n, rng, dtype=np.float64)
    y, w, forces = model.outputs(data.push(teacher)), w0, []
    for _ in range(20):
        forces.append(force(model, data.push(w), y))
        w = on_spheres(w - 0.01 * data.pull(forces[-1]))
    used = closure(data, teacher, w, forces, w0)
    x = data.push(np.eye(n))
    np.testing.assert_allclose(used.lam, x @ w.T, atol=1e-6)
    whole = conditioned(model, closure(x, teacher, w, forces, w0))
    theory = conditioned(model, used)
    assert theory.lowest == pytest.approx(whole.lowest, abs=1e-5)
    assert abs(lowest(model, x, w, teacher)[0] - theory.lowest) < 4 * theory.lowest_error


def test_an_own_activation_with_noise_of_labels():
    """tanh students of p = 2: the labels are given, for the noise in them is not known to theory otherwise."""
    model, n, rng = Network(2, 1, 3.0, "tanh", noise=0.2, overlap=0.4), 150, np.random.default_rng(2)
    x, teacher, w = start(model, n, 5.0, rng)
    y = model.outputs(x @ teacher.T, rng.standard_normal((len(x), 1)))
    forces = []
    for _ in range(5):
        forces.append(force(model, x @ w.T, y))
        w = on_spheres(w - 0.3 * forces[-1].T @ x)
    theory = conditioned(model, closure(x, teacher, w, forces), y)
    assert abs(lowest(model, x, w, teacher, y=y)[0] - theory.lowest) < 4 * theory.lowest_error
    assert theory.student_overlaps.shape == (len(theory.outliers), 2)
    assert np.all(theory.student_overlaps <= theory.residues[:, None] + 1e-12)
