"""The product of spheres: projection, retraction, and the Riemannian Hessian against automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sims.dynamics.problem import Matrix, problem_of, retract, riemannian_hessian, row_products, tangent
from theory.model import Target
from theory.model.network import Network
from theory.path.conditioned import force

P, N = 3, 7
SUM = (N + 4) * np.finfo(float).eps  # a sum of N terms and what is done to it, in any order, by any processor


@pytest.fixture
def point():
    return retract(jax.random.normal(jax.random.key(1), (P, N)))


@pytest.fixture
def vector():
    return jax.random.normal(jax.random.key(2), (P, N))


def test_retract_puts_every_row_on_its_sphere_and_keeps_its_direction(vector):
    student = retract(1e3 * vector)
    np.testing.assert_allclose(jnp.sum(student**2, axis=1), N, rtol=SUM)
    np.testing.assert_allclose(student, vector * student[:, :1] / vector[:, :1], rtol=1e-12)


def test_tangent_is_the_orthogonal_projection(point, vector):
    projected = tangent(point, vector)
    size = float(jnp.abs(vector).max() * jnp.abs(point).max())
    np.testing.assert_allclose(row_products(point, projected), 0, atol=SUM * size)
    np.testing.assert_allclose(tangent(point, projected), projected, atol=SUM * size**2)
    # what is taken away is normal: row k of it is a multiple of w_k
    np.testing.assert_allclose(
        vector - projected, point * row_products(point, vector)[:, None], atol=SUM * size**2
    )


def smooth(w):
    """A function with no symmetry at all, so that no term of its second derivative vanishes by chance."""
    mix = jnp.arange(1.0, w.size + 1).reshape(w.shape)
    return jnp.sum(jnp.sin(mix * w)) + jnp.sum(w) ** 3 / 50 + jnp.prod(w[:, 0])


def test_riemannian_hessian_is_the_second_derivative_along_geodesics(point):
    def along(v):
        # w + v scaled back to the sphere follows the geodesic to second order for a tangent v
        return smooth(retract(point + tangent(point, v.reshape(P, N))))

    expected = jax.jit(jax.hessian(along))(jnp.zeros(P * N))
    plain = jax.jit(jax.hessian(lambda w: smooth(w.reshape(P, N))))(point.ravel())
    found = riemannian_hessian(
        *(np.asarray(x) for x in (point, jax.jit(jax.grad(smooth))(point), plain)), lift=0.0
    )
    np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(expected).max())
    np.testing.assert_array_equal(found, found.T)


def test_lift_moves_the_normal_directions_alone(point):
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((P * N, P * N))
    arguments = np.asarray(point), rng.standard_normal((P, N)), plain + plain.T
    low, high, norm = (riemannian_hessian(*arguments, lift=lift) for lift in (0.0, 1e3, None))
    values, lifted = np.linalg.eigvalsh(low), np.linalg.eigvalsh(high)
    assert np.sum(np.abs(values) < 1e-12) == P
    np.testing.assert_allclose(lifted[-P:], 1e3, rtol=1e-13)
    np.testing.assert_allclose(lifted[:-P], values[np.abs(values) > 1e-12], atol=1e-11)
    np.testing.assert_allclose(np.linalg.eigvalsh(norm)[-P:], np.linalg.norm(low), rtol=1e-12)


def test_descents_know_readouts_and_biases():
    """Forces and differences of the loss against the theory's, which are tested against the loss written out."""
    target = Target("product", lambda u, xp: xp.tanh(2 * u[..., 0] * u[..., 1]), -1.0, 1.0)
    model = Network(2, 2, 2.0, "tanh", readout=(1, -0.5), bias=(0.5, -0.2), noise=0.2, target=target)
    rng = np.random.default_rng(3)
    lam, _, y = model.draw_labels(40, rng)
    change = 0.1 * rng.standard_normal(lam.shape)
    problem = problem_of(model, Matrix(np.eye(40)), y)
    unit = problem.unit
    np.testing.assert_allclose(problem.forces(lam) * unit, force(model, lam, y), rtol=1e-12)
    drop = np.sum(model.losses(lam + change, y) - model.losses(lam, y))
    np.testing.assert_allclose(problem.drop(lam, change) * unit, drop, rtol=1e-8)
