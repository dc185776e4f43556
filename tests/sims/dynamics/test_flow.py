"""Gradient flow by Runge, Kutta and Chebyshev: a step's polynomial, order and stability; the flow against an ODE solver."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.chebyshev import Chebyshev
from scipy.integrate import solve_ivp

from sims.dynamics.flow import DAMPING, End, Rules, chebyshev_step
from tests.sims.instances import descended as descend
from tests.sims.instances import descents, riemannian_gradient
from theory.model import Committee


def problem(p, n, alpha, samples):
    """Model, data, labels and students of a teacher of one row."""
    return descents(Committee(p, 1, 0.5), n, alpha, samples)[:4]


step = jax.jit(
    lambda rates, size, stages: chebyshev_step(
        lambda w: -rates * w, jnp.ones_like(rates), -rates, size, stages
    )
)


@pytest.mark.parametrize("stages", [2, 3, 5, 20, 200])
def test_a_step_is_the_damped_chebyshev_polynomial_and_stable(stages):
    """On dw/dt = -rate w: 1 - b T(w0) + b T(w0 + w1 z), z = -rate h, below 1 as far as 0.65 (s^2 - 1), and of second order."""
    size = 0.65 * (stages**2 - 1)
    rates = np.linspace(1e-3, 1, 300)
    found = np.asarray(step(jnp.asarray(rates), jnp.float64(size), jnp.int32(stages)))
    t = Chebyshev.basis(stages)
    w0 = 1 + DAMPING / stages**2
    w1 = t.deriv()(w0) / t.deriv(2)(w0)
    b = t.deriv(2)(w0) / t.deriv()(w0) ** 2
    np.testing.assert_allclose(found, 1 - b * t(w0) + b * t(w0 - w1 * rates * size), atol=1e-9)
    assert np.all(np.abs(found) < 1)
    small = np.array([1e-2, 5e-3])
    errors = np.asarray(step(jnp.asarray(small), jnp.float64(1), jnp.int32(stages))) - np.exp(-small)
    assert 7.5 < errors[0] / errors[1] < 8.5


def distance_from_flow(rules):
    """Root mean square of a weight's distance from gradient flow by LSODA, at the end of a descent."""
    model, data, y, student = problem(2, 15, 3.0, 1)
    path = descend(model, data, y, student, rules)
    slope = jax.jit(partial(riemannian_gradient, model=model))
    flow = solve_ivp(
        lambda _, w: -np.asarray(slope(w.reshape(2, 15), data[0], y[0])).ravel(),
        (0, float(path.time[0, -1])),
        np.asarray(student[0]).ravel(),
        method="LSODA",
        rtol=1e-9,
        atol=1e-9,
    ).y[:, -1]
    return np.sqrt(np.mean((np.asarray(path.student[0, -1]).ravel() - flow) ** 2))


@pytest.mark.parametrize("accuracy", [1e-3, 1e-5])
def test_the_flow_is_that_of_an_ode_solver_to_its_accuracy(accuracy):
    """Errors of steps add up, and shrink where the flow contracts."""
    assert distance_from_flow(Rules(steps=400, records=3, accuracy=accuracy)) < 10 * accuracy


def test_small_steps_follow_gradient_flow_to_first_order():
    """Euler's method: half the step, half the error."""
    first, second = (
        distance_from_flow(Rules("steps", round(30 / share), records=3, share=share)) for share in (0.1, 0.05)
    )
    assert first < 0.02 and 0.3 < second / first < 0.7


def test_flow_and_steps_end_at_the_same_place():
    model, data, y, student = problem(1, 12, 6.0, 3)
    both = [descend(model, data, y, student, Rules(d, 20_000, tolerance=1e-8)) for d in ("flow", "steps")]
    slope = jax.jit(partial(riemannian_gradient, model=model))
    for path in both:
        np.testing.assert_array_equal(path.code, End.CONVERGED)
        np.testing.assert_allclose(np.sum(path.student**2, axis=-1), 12, rtol=1e-12)
        assert np.all(np.diff(path.loss, axis=1) <= 1e-12 * path.loss[:, :1])
        assert np.all(np.diff(path.steps, axis=1) >= 0) and np.all(path.steps[:, -1] < 20_000)
        for s in range(3):
            norm = np.linalg.norm(slope(path.student[s, -1], data[s], y[s])) / np.sqrt(12)
            assert norm <= 1e-8 * (1 + 1e-6)
            np.testing.assert_allclose(path.gradient[s, -1], norm, rtol=1e-5)
    np.testing.assert_allclose(both[0].student[:, -1], both[1].student[:, -1], atol=1e-4)


@pytest.mark.slow
def test_where_curvatures_differ_the_flow_goes_further_with_as_many_gradients():
    """Two students of one teacher: the minimum is degenerate, the end slow. Some 10 times further; 3 is asked for."""
    model, data, y, student = problem(2, 12, 3.0, 3)
    flow, steps = (descend(model, data, y, student, Rules(d, 2000)) for d in ("flow", "steps"))
    assert np.all(flow.time[:, -1] > 3 * steps.time[:, -1]) and np.all(flow.loss[:, -1] < steps.loss[:, -1])
    assert np.all(flow.steps[:, -1] < 2000 + 220)


def test_a_floor_of_the_loss_ends_a_descent():
    model, data, y, student = problem(2, 12, 3.0, 3)
    m = int(np.sum(y[0] > 0))
    free, floored = (
        descend(model, data, y, student, Rules(steps=2000, loss_floor=floor), samples=m)
        for floor in (0.0, 1e-6)
    )
    low = np.asarray(free.loss[:, -1]) < 1e-6 * m
    assert low.any()
    np.testing.assert_array_equal(floored.code, End.CONVERGED)
    assert np.all(floored.loss[low, -1] <= 1e-6 * m) and np.all(floored.steps[low, -1] < free.steps[low, -1])
    np.testing.assert_array_equal(floored.steps[~low], free.steps[~low])
