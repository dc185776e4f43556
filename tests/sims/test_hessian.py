"""The Hessian's matrix against automatic differentiation of the loss written out."""

import jax
import numpy as np
import pytest

from sims import hessian, instance
from tests.sims.instances import loss_of
from theory.model import Committee


@pytest.fixture(scope="module", params=[(p, p_star) for p in (1, 2, 3) for p_star in (1, 2)], ids=str)
def drawn(request):
    p, p_star = request.param
    return instance.draw(Committee(p, p_star, 0.3), 9, 2.5, seed=7)


def test_matrix_is_the_second_derivative_of_the_loss(drawn):
    def flat(w):
        return loss_of(drawn.model, w.reshape(drawn.student.shape), drawn.teacher, drawn.data)

    expected = jax.jit(jax.hessian(flat))(drawn.student.ravel())
    for build in (hessian.dense, hessian.dense_blas):
        np.testing.assert_allclose(
            build(drawn.data[: drawn.m], hessian.weights_of(drawn)), expected, atol=1e-10, rtol=0
        )


def test_weights_agree_with_the_model(drawn):
    lam, u = instance.labels(drawn)
    functions, y = hessian.functions_of(drawn.model), np.mean(np.square(u), axis=1)
    d, c, g = hessian.weight_parts(functions, drawn.model.a, lam, y, np)
    parts = d[:, :, None] * np.eye(lam.shape[1]) + c[:, None, None] * g[:, :, None] * g[:, None, :]
    np.testing.assert_allclose(parts, drawn.model.weights(lam, drawn.model.outputs(u)), atol=1e-13)


@pytest.mark.parametrize("n", [1, 255, 256, 257, 600])
def test_mirror(n):
    matrix = np.asfortranarray(np.arange(n * n, dtype=float).reshape(n, n))
    expected = np.tril(matrix) + np.tril(matrix, -1).T
    np.testing.assert_array_equal(hessian._mirrored(matrix), expected)
