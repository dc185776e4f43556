"""The Hessian's matrix and products of every network, against automatic differentiation of the loss written out."""

import dataclasses

import jax
import numpy as np
import pytest

from sims import hessian
from sims.operator import hessian_operator
from sims.rows import row_mesh
from tests.sims.instances import host_draw, second_derivative
from theory.model import Target
from theory.model.network import Network

N, ALPHA = 9, 2.5
MODELS = {
    "committee": Network(3, 2, a=0.3),
    "committee of one row": Network(1, 2, a=0.3),
    "tanh": Network(2, 1, a=2.0, activation="tanh"),
    "erf, two teachers, bounded loss": Network(2, 2, a=0.7, activation="erf", loss="welsch"),
    "sigmoid, robust loss": Network(3, 1, a=0.7, activation="sigmoid", loss="cauchy"),
    "softplus, plain squared loss": Network(2, 2, activation="softplus", loss="squared"),
    "He2": Network(2, 1, a=2.0, activation="he2"),
    "He3, plain squared loss": Network(1, 1, activation="he3", loss="squared"),
    "softened ReLU": Network(2, 1, a=0.5, activation="Softened ReLU"),
    "quadratic student of a tanh teacher": Network(2, 1, a=1.5, teacher_activation="tanh"),
    "noise": Network(2, 2, a=0.5, noise=0.3),
    "noise after": Network(1, 1, loss="squared", noise=0.3, output_noise=0.2),
    "power law": Network(2, 1, a=0.5, covariance="power:1.2"),
    "levels and noise": Network(1, 1, a=0.5, noise=0.3, covariance="levels:0.4@0.667,2.2@0.333"),
    "overlap": Network(2, 1, a=1.0, overlap=0.6),
    "Gram matrix": Network(2, 2, a=1.0, overlap=((0.5, 0.1), (-0.2, 0.3)), gram=((1.0, 0.4), (0.4, 1.2))),
    "readout, bias and target": Network(
        2, 2, a=2.0, activation="tanh", readout=(1, -0.5), bias=(0.5, -0.2), noise=0.2,
        target=Target("product", lambda u, xp: xp.tanh(2 * u[..., 0] * u[..., 1]), -1.0, 1.0),
    ),
    "all": Network(2, 1, a=2.0, activation="tanh", noise=0.1, covariance="mp:0.5", overlap=-0.5),
}  # fmt: skip
# By the same weights as the matrix: with and without teachers, noise and covariance is enough.
PRODUCTS = [
    MODELS[name]
    for name in ("tanh", "noise after", "levels and noise", "Gram matrix", "readout, bias and target", "all")
]
# Second derivatives of these activations are those of theory/, tested there; the others are parts of "all" and "Gram matrix".
SLOW = (
    "power law",
    "overlap",
    "erf, two teachers, bounded loss",
    "sigmoid, robust loss",
    "He2",
    "He3, plain squared loss",
    "softened ReLU",
    "noise",
)
ids = pytest.mark.parametrize(
    "model",
    [pytest.param(m, marks=pytest.mark.slow if name in SLOW else (), id=name) for name, m in MODELS.items()],
)


@ids
def test_matrix_and_products_are_the_second_derivative_of_the_loss(model):
    drawn = host_draw(model, N, ALPHA, seed=7)
    expected = second_derivative(drawn)
    data, weights = np.asarray(drawn.data)[: drawn.m], hessian.weights_of(drawn)
    for build in (hessian.dense, hessian.dense_blas):
        np.testing.assert_allclose(build(data, weights), expected, atol=1e-10, rtol=0)
    if model not in PRODUCTS:
        return
    v = np.eye(model.p * N).reshape(model.p, N, -1)
    operators = [hessian_operator(drawn)]
    if model is MODELS["all"]:
        bare = dataclasses.replace(drawn, data=None)
        operators += [hessian_operator(bare, size=5), hessian_operator(bare, stored=False, size=5)]
        operators += [hessian_operator(bare, mesh=row_mesh(jax.devices()[:1]), size=8)]
    for made in operators:
        found = np.asarray(made(v)).reshape(expected.shape)
        np.testing.assert_allclose(found, expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("n", [1, 255, 256, 257, 600])
def test_mirror(n):
    matrix = np.asfortranarray(np.arange(n * n, dtype=float).reshape(n, n))
    expected = np.tril(matrix) + np.tril(matrix, -1).T
    np.testing.assert_array_equal(hessian._mirrored(matrix), expected)
