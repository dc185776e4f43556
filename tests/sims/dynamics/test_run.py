"""Gradient descent: derivatives against automatic differentiation, the flow against an ODE solver,
and what every step must keep.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sims import instance
from sims.dynamics import hessians
from sims.dynamics.flow import End, Rules
from sims.dynamics.problem import retract, tangent
from tests.sims.instances import descended as descend
from tests.sims.instances import (
    descents,
    hessian_product,
    host_draw,
    loss_of,
    quick_rows,
    riemannian_gradient,
)
from theory.model import Committee
from theory.model.network import Network


def problem(p=2, p_star=1, a=0.7, n=20, alpha=2.0, samples=3, seed=0):
    """Model, data, labels, students and teachers of a committee."""
    return descents(Committee(p, p_star, a), n, alpha, samples, seed)


EVERY = Rules("steps", 60, records=100_000)  # every one of 60 steps
LONG = Rules(steps=200, tolerance=1e-3)


@pytest.fixture(scope="module")
def every_step():
    """A descent with every one of its 60 steps recorded."""
    model, data, y, student, teacher = problem(p=2, p_star=2, a=0.3, alpha=3.0)
    assert EVERY.recorded_steps == tuple(range(61))
    return model, data, teacher, EVERY, descend(model, data, y, student, EVERY)


def test_norms_are_kept(every_step):
    student = np.asarray(every_step[-1].student)
    np.testing.assert_allclose(np.sum(student**2, axis=-1), student.shape[-1], rtol=1e-12)


def test_every_step_lowers_the_loss_by_armijos_share(every_step):
    model, data, teacher, rules, path = every_step
    losses = jax.jit(jax.vmap(partial(loss_of, model), (0, None, None)))
    for s in range(data.shape[0]):
        loss = np.asarray(losses(path.student[s], teacher[s], data[s]))
        np.testing.assert_allclose(path.loss[s], loss, rtol=1e-12)
        predicted = np.diff(path.time[s]) * np.asarray(path.gradient[s, :-1]) ** 2 * data.shape[-1]
        assert np.all(-np.diff(loss) >= rules.armijo * predicted * (1 - 1e-9))
        assert np.all(predicted > 0)


def test_steps_stay_below_the_inverse_of_the_largest_curvature(every_step):
    model, data, teacher, _, path = every_step
    step = np.diff(np.asarray(path.time), axis=1)
    for s in range(data.shape[0]):
        # the bound is renewed at each record, here before every step
        for r in (0, 5, 59):
            found = hessians.hessians(
                model, *(np.asarray(x) for x in (data[s], teacher[s], path.student[s, r]))
            )
            # the p normal directions of the Riemannian Hessian are lifted above its spectrum
            top = np.linalg.eigvalsh(found[1])[-1 - model.p]
            # power iteration approaches the top from below: 20 products leave a few per cent
            assert step[s, r] <= 1.1 / top


def test_records_and_limits(every_step):
    path = every_step[-1]
    np.testing.assert_array_equal(path.steps, np.broadcast_to(np.arange(61), path.steps.shape))
    np.testing.assert_array_equal(path.code, End.STEP_LIMIT)
    spaced = Rules(steps=1000, records=20).recorded_steps
    assert spaced[0] == 0 and spaced[-1] == 1000 and list(spaced) == sorted(set(spaced)) and len(spaced) <= 21


@quick_rows("p, p_star", (2, 1), (2, 2), slow=[(1, 1), (4, 2)])
def test_a_student_that_equals_the_teacher_stays(p, p_star):
    model, data, y, _, teacher = problem(p, p_star)
    student = np.tile(teacher, (1, p // p_star, 1))
    if p_star == 2:
        # the loss sees W^T W alone: any rotation of the rows among themselves is a minimum too
        c, s = np.cos(0.4), np.sin(0.4)
        turn = np.kron(np.eye(p // 2), [[c, -s], [s, c]])
        student = np.einsum("kl,sli->ski", turn, student)
    path = descend(model, data, y, student, Rules(steps=30))
    np.testing.assert_array_equal(path.code, End.CONVERGED)
    np.testing.assert_array_equal(path.steps, 0)
    np.testing.assert_allclose(path.student[:, -1], student, atol=1e-12)
    np.testing.assert_allclose(path.loss, 0, atol=1e-24)


def test_rows_of_zeros_change_nothing():
    model, data, y, student, _ = problem()
    m = int(np.sum(y[0] > 0))
    rules = Rules(steps=30)
    padded, bare = (descend(model, data[:, :k], y[:, :k], student, rules) for k in (data.shape[1], m))
    assert m < data.shape[1]
    np.testing.assert_allclose(padded.student, bare.student, atol=1e-9)


@quick_rows("group", 1, slow=[2, 3])
def test_a_sample_does_not_depend_on_its_neighbours(group):
    """Alone, by another compiled program: to rounding. In one program: bit for bit, whoever the others are."""
    model, data, y, student, _ = problem(samples=3)
    rules = Rules(steps=30)
    alone = [
        descend(model, data[s : s + 1], y[s : s + 1], student[s : s + 1], rules, group=1) for s in range(3)
    ]
    together = descend(model, data, y, student, rules, group=group)
    for s in range(3):
        np.testing.assert_allclose(together.student[s], alone[s].student[0], atol=1e-9)
    if group == 1:
        two = np.array([0, 0, 2])
        other = descend(model, data[two], y[two], student[two], rules, group=1)
        np.testing.assert_array_equal(other.student, together.student[two])


def test_a_sample_that_fails_is_named_and_leaves_the_others_alone():
    model, data, y, student, _ = problem(samples=3)
    good = descend(model, data, y, student, Rules(steps=30))
    student[1] = np.nan
    path = descend(model, data, y, student, Rules(steps=30))
    np.testing.assert_array_equal(path.code, [End.STEP_LIMIT, End.NOT_FINITE, End.STEP_LIMIT])
    np.testing.assert_array_equal(path.student[::2], good.student[::2])
    assert path.steps[1, -1] == 0


def test_a_line_search_that_finds_nothing_ends_the_descent_where_it_was():
    model, data, y, student, _ = problem()
    rules = replace(EVERY)  # its program is compiled already
    # more than the whole linear prediction: no step of a function that curves upwards can pass, and the rules
    # refuse such a number
    object.__setattr__(rules, "armijo", 2.0)
    path = descend(model, data, y, student, rules)
    np.testing.assert_array_equal(path.code, End.STALLED)
    np.testing.assert_array_equal(path.steps, 0)
    # put back on its sphere: the norm is a sum of 20 squares, each sum of n terms within n roundings in any order
    np.testing.assert_allclose(path.student[:, -1], student, rtol=(20 + 4) * np.finfo(float).eps)


def test_descent_goes_down_to_rounding_where_the_loss_does_not_vanish():
    model, data, y, student, _ = problem(p=1, n=10, alpha=1.5, samples=6, seed=5)
    path = descend(model, data, y, student, Rules(steps=20_000, tolerance=1e-12))
    np.testing.assert_array_equal(path.code, End.CONVERGED)
    assert np.sum(np.asarray(path.loss[:, -1]) > 0.01) >= 3  # of six: the others happen to reach zero loss


@pytest.mark.parametrize("a", [1e4, 1e38, 1e59])
def test_a_large_normalisation_descends_like_any_other(a):
    """As a grows a times the loss tends to a limit, and the path with it: in float32 too, where the loss itself underflows."""
    model, data, y, student, _ = problem(p=1, samples=1)
    paths = [
        descend(replace(model, a=at), *(x.astype(dtype) for x in (data, y, student)), LONG)
        for dtype, at in ((np.float32, a), (np.float64, 1e12))
    ]
    assert np.all(paths[0].code == paths[1].code) and paths[0].steps[0, -1] > 20
    np.testing.assert_allclose(paths[0].loss * a, paths[1].loss * 1e12, rtol=2e-2)
    np.testing.assert_allclose(paths[0].student[:, -1], paths[1].student[:, -1], atol=2e-2)


@quick_rows(
    "model, dynamics, steps",
    (Network(2, 1, 2.0, "tanh", noise=0.2, covariance="power:1"), "flow", 400),
    (Committee(3, 2, 1.9), "steps", 60),
    slow=[(Network(1, 1, activation="softplus", loss="squared"), "steps", 40)],
)
def test_networks_descend(model, dynamics, steps):
    """Gradient and Hessian product are derivatives of the loss written out; the recorded loss is that loss and falls."""
    drawn = host_draw(model, 12, 3.0, seed=2)
    data, y = drawn.data[: drawn.m], instance.outputs(drawn)

    def loss(w):
        return loss_of(model, w, drawn.teacher, data, y)

    def along(v):
        return loss(retract(drawn.student + tangent(drawn.student, v)))

    zero, vector = jnp.zeros_like(drawn.student), tangent(drawn.student, drawn.teacher[0] + 0 * drawn.student)
    expected, second = jax.jit(lambda v: jax.jvp(jax.grad(along), (zero,), (v,)))(vector)
    whole = tangent(drawn.student, jax.jit(jax.grad(loss))(drawn.student))
    slope, product = (jax.jit(partial(f, model=model)) for f in (riemannian_gradient, hessian_product))
    for way in (expected, whole):  # along geodesics, and projected
        np.testing.assert_allclose(slope(drawn.student, data, y), way, atol=1e-12)
    found = product(drawn.student, vector, data, data @ drawn.student.T, y)
    np.testing.assert_allclose(found, second, atol=1e-11)
    labels = np.zeros(len(drawn.data))
    labels[: drawn.m] = y
    start, rules = drawn.student[None], Rules(dynamics, steps, records=4)
    path = descend(model, drawn.data[None], labels[None], start, rules, samples=drawn.m)
    np.testing.assert_allclose(path.loss[0], jax.jit(jax.vmap(loss))(path.student[0]), rtol=1e-12)
    assert np.all(np.diff(path.loss[0]) <= 0) and path.loss[0, -1] < 0.8 * path.loss[0, 0]


def test_float32_descends_in_float32():
    model, data, y, student, _ = problem(p=1, samples=1)
    single = descend(model, *(x.astype(np.float32) for x in (data, y, student)), LONG)
    assert single.student.dtype == jnp.float32
    double = descend(model, data, y, student, LONG)
    np.testing.assert_allclose(single.student[:, :3], double.student[:, :3], atol=2e-4)
    assert np.all(np.diff(single.loss, axis=1) <= 1e-5 * single.loss[:, :-1])
