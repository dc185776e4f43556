"""Samples of every network: the Hessian against automatic differentiation; noise, covariance, overlap; extreme a."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sims import hessian, instance
from sims.dynamics.problem import whole
from sims.functions import activation_of
from sims.krylov.solver import Settings
from sims.operator import hessian_operator
from sims.rows import row_mesh
from sims.sampling import sample_grid, sample_point
from sims.signal import student_shares
from sims.threefry import row_block
from tests.sims.instances import host_draw, loss_of
from theory.checks import ParameterError
from theory.model import Committee, Target
from theory.model.network import Network
from theory.path.conditioned import force

N, ALPHA = 9, 2.5
PARTS = ("value", "first", "second")  # of an activation
MODELS = {
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


def autodiff(drawn):
    """The second derivative of the loss written out, (p N, p N)."""
    data, y = drawn.data[: drawn.m], instance.outputs(drawn)

    def flat(w):
        return loss_of(drawn.model, w.reshape(drawn.student.shape), drawn.teacher, data, y)

    return np.asarray(jax.jit(jax.hessian(flat))(drawn.student.ravel()))


def test_descents_know_readouts_and_biases():
    """Forces and differences of the loss against the theory's, which are tested against the loss written out."""
    model, rng = MODELS["readout, bias and target"], np.random.default_rng(3)
    lam, _, y = model.draw_labels(40, rng)
    change = 0.1 * rng.standard_normal(lam.shape)
    problem = whole(np.eye(40), y, model.a, hessian.functions_of(model))
    unit = problem.unit
    np.testing.assert_allclose(problem.forces(lam) * unit, force(model, lam, y), rtol=1e-12)
    drop = np.sum(model.losses(lam + change, y) - model.losses(lam, y))
    np.testing.assert_allclose(problem.drop(lam, change) * unit, drop, rtol=1e-8)


@ids
def test_matrix_and_products_are_the_second_derivative_of_the_loss(model):
    drawn = host_draw(model, N, ALPHA, seed=7)
    expected = autodiff(drawn)
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


@pytest.mark.parametrize("name", ["tanh", "levels and noise"])
def test_dense_and_matrix_free_samples_agree(name):
    model = MODELS[name]
    dense, krylov = (sample_point(model, 40, 4.0, [0, 3], 1, solver=s) for s in ("dense", "krylov"))
    assert np.all(dense.status == 1) and np.all(krylov.status == 1)
    for field in ("eigenvalues", "overlaps", "student_shares"):
        np.testing.assert_allclose(getattr(krylov, field), getattr(dense, field), atol=1e-5)


def test_the_plain_model_is_the_committee_bit_for_bit():
    """And noise, covariance and overlap of a network leave student rows, teacher and normal rows of the data as they are."""
    plain, wide = (instance.draw(m, 30, 2.0, seed=5) for m in (Committee(2, 2, 0.5), Network(2, 2, 0.5)))
    for part in ("student", "teacher", "data"):
        np.testing.assert_array_equal(getattr(plain, part), getattr(wide, part))
    loud = instance.draw(Network(2, 2, 0.5, noise=0.4, covariance="power:1"), 30, 2.0, seed=5)
    np.testing.assert_array_equal(loud.student, plain.student)
    np.testing.assert_array_equal(loud.teacher, plain.teacher)
    np.testing.assert_allclose(loud.data, np.asarray(plain.data) * loud.roots, rtol=1e-15)
    points = [sample_point(model, 30, 2.0, [1], 5) for model in (Committee(2, 2, 0.5), Network(2, 2, 0.5))]
    np.testing.assert_array_equal(points[0].eigenvalues, points[1].eigenvalues)


def test_noise_is_a_stream_of_its_own():
    """Sample mu has the same noise whatever the block, M and the other noise; its law is normal (Kolmogorov-Smirnov, 1e-5)."""
    model, key = (
        Network(1, 3, noise=0.5),
        instance.draw(Network(1, 3), 20, 5.0, seed=1, shared=True, data=False).key,
    )
    zeta, xi = instance.teacher_noise(model, key, 0, 3000)
    assert xi is None and zeta.shape == (3000, 3) and zeta.dtype == np.float64
    np.testing.assert_array_equal(instance.teacher_noise(model, key, 100, 7)[0], zeta[100:107])
    both = Network(1, 3, loss="squared", noise=0.5, output_noise=0.1)
    again, xi = instance.teacher_noise(both, key, 0, 3000)
    np.testing.assert_array_equal(again, zeta)
    rows = np.asarray(row_block(instance.data_key(key), 0, 3000, 20)) * np.sqrt(20)
    for column in (*np.asarray(zeta).T, np.asarray(xi)):
        assert stats.kstest(column, "norm").pvalue > 1e-5
        assert abs(np.corrcoef(column, rows[:, 0])[0, 1]) < 4.5 / np.sqrt(3000)
    drawn = instance.draw(model, 20, 5.0, seed=1, shared=True)
    u = instance.labels(drawn)[1]
    expected = np.mean((u + np.sqrt(0.5) * np.asarray(zeta)[: drawn.m]) ** 2, axis=1)
    np.testing.assert_allclose(instance.outputs(drawn), expected, rtol=1e-13)


@pytest.mark.parametrize("spec", ["levels:0.4@0.667,2.2@0.333", "power:1.2", "mp:0.5"])
def test_inputs_have_the_covariance(spec):
    """Column i of the inputs has variance s_i / N: a chi-squared of M degrees for each, false alarm 1e-6 a column."""
    drawn = instance.draw(Network(1, 1, covariance=spec), 12, 400.0)
    s = drawn.model.covariance.eigenvalues(12)
    assert abs(s.mean() - 1) < 1e-14
    squares = np.sum(np.square(drawn.data), axis=0) * 12 / s
    low, high = stats.chi2(drawn.m).ppf([5e-7, 1 - 5e-7])
    assert np.all((low < squares) & (squares < high))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_students_have_the_overlaps(dtype):
    eps, n = np.finfo(dtype).eps, 30
    matrix, products = ((0.5, 0.1), (-0.2, 0.3)), ((1.0, 0.4), (0.4, 1.2))
    for overlap, gram in ((0.6, None), (-1.0, None), (matrix, None), (matrix, products)):
        model = Network(2, 2, overlap=overlap, gram=gram)
        drawn = instance.draw(model, n, 2.0, dtype=dtype, data=False)
        w, t = np.asarray(drawn.student, np.float64), np.asarray(drawn.teacher, np.float64)
        np.testing.assert_allclose(w @ t.T / n, model.overlap_matrix, atol=20 * eps)
        products = w @ w.T / n
        np.testing.assert_allclose(np.diag(products), np.diag(model.gram_matrix), atol=20 * eps)
        if gram is not None:
            np.testing.assert_allclose(products, model.gram_matrix, atol=20 * eps)
    with pytest.raises(ParameterError, match="N must be at least 4"):
        instance.draw(MODELS["Gram matrix"], 3, 2.0)


def test_shares_of_teacher_and_student():
    drawn = instance.draw(Network(2, 1, overlap=0.6), 20, 2.0)
    w = np.asarray(drawn.student) / np.sqrt(20)
    t = np.asarray(drawn.teacher) / np.sqrt(20)
    basis = np.linalg.qr(np.kron(np.eye(2), w.T))[0]
    vectors = np.linalg.qr(np.random.default_rng(0).standard_normal((40, 4)))[0]
    expected = np.sum((basis.T @ vectors) ** 2, axis=0)
    np.testing.assert_allclose(student_shares([vectors], [drawn.student])[0], expected, atol=1e-12)
    along = np.kron([1.0, 0.0], t[0])[
        :, None
    ]  # a teacher direction lies in the student's span by its overlaps alone
    inside = np.linalg.lstsq(w.T, t[0], rcond=None)[0] @ w
    np.testing.assert_allclose(student_shares([along], [drawn.student])[0], [inside @ inside], atol=1e-12)
    same = instance.draw(Network(2, 1, overlap=1.0), 20, 2.0)  # both rows are the teacher
    along = np.kron([1.0, 0.0], np.asarray(same.signal)[0])[:, None]
    np.testing.assert_allclose(student_shares([along], [same.student])[0], [1.0], atol=1e-12)


def test_one_draw_serves_networks_that_differ_in_a_and_noise():
    points = [
        (Network(2, 1, a, "tanh", noise=noise), alpha)
        for a, noise, alpha in ((1.5, 0.0, 6.0), (3.0, 0.4, 4.0))
    ]
    found = sample_grid(points, 20, eigenpairs=3, seed=2, settings=Settings(tol=1e-9, basis=40))
    for (model, alpha), pairs in zip(points, found, strict=True):
        drawn = instance.draw(model, 20, alpha, seed=2, shared=True)
        np.testing.assert_allclose(pairs.values, np.linalg.eigvalsh(autodiff(drawn))[:3], atol=1e-8)
    with pytest.raises(ParameterError, match="share activation"):
        sample_grid([points[0], (Network(2, 1, activation="erf"), 3.0)], 20, eigenpairs=1)
    with pytest.raises(ParameterError, match="share covariance"):
        sample_grid([points[0], (Network(2, 1, 2.0, "tanh", covariance="mp:0.5"), 3.0)], 20, eigenpairs=1)


@pytest.mark.parametrize(
    ("dtype", "tol", "a"),
    [
        pytest.param("float64", 1e-9, 1e-60, marks=pytest.mark.slow),
        ("float64", 1e-9, 1e59),
        ("float32", 2e-5, 1e-60),
        pytest.param("float32", 2e-5, 1e38, marks=pytest.mark.slow),
        pytest.param("float64", 1e-9, 1e38, marks=pytest.mark.slow),
        pytest.param("float32", 2e-5, 1e59, marks=pytest.mark.slow),
    ],
)
def test_no_normalisation_is_too_large_or_small(a, dtype, tol):
    """a H tends to a limit as a grows, where F itself under- and its squares underflow; small a go as a = 0."""
    if a < 1 and dtype == "float32":  # |H| is then 1e8 times the lowest eigenvalues: float32 cannot hold both
        with pytest.raises(ParameterError, match="dtype must be float64 at a = 1e-60: weights span"):
            sample_point(Committee(1, 1, a), 80, 3.0, [0], 0, dtype=dtype)
        return
    model, near = Committee(1, 1, a), Committee(1, 1, 1e-14 if a < 1 else 1e14)
    scale = {model: max(a, 1.0), near: max(near.a, 1.0)}
    for solver in ("dense", "krylov"):
        found, right = (
            sample_point(m, 80, 3.0, [0], 0, dtype=dtype, solver=solver, eigenpairs=2) for m in (model, near)
        )
        assert found.status[0] == right.status[0] == 1
        exact = sample_point(near, 80, 3.0, [0], 0, dtype=dtype, solver="dense", eigenpairs=2)
        values = exact.eigenvalues * scale[near]
        np.testing.assert_allclose(
            found.eigenvalues * scale[model], values, atol=tol * np.max(np.abs(values)) * 10
        )


def test_activations_of_ones_own():
    """Derivatives by JAX are those of the closed forms, in NumPy and in JAX, and samples of both are the same."""
    x = np.linspace(-3, 3, 41)
    for name, function in (("tanh", jnp.tanh), ("softplus", jax.nn.softplus)):
        own, known = activation_of(f"own {name}", function), Network(activation=name).student
        for xp in (np, jnp):

            def all_parts(x, own=own, xp=xp):
                return [getattr(own, part)(x, xp) for part in PARTS]

            for part, found in zip(PARTS, (all_parts if xp is np else jax.jit(all_parts))(x), strict=True):
                np.testing.assert_allclose(found, getattr(known, part)(x, np), atol=1e-14)
                assert isinstance(found, np.ndarray if xp is np else jax.Array)
    sech = activation_of("sech", lambda t: 1 / jnp.cosh(t), parity="even", infimum=0.0)
    model = Network(2, 1, a=0.5, activation=sech)
    drawn = host_draw(model, N, ALPHA)
    np.testing.assert_allclose(
        hessian.dense_blas(np.asarray(drawn.data)[: drawn.m], hessian.weights_of(drawn)),
        autodiff(drawn),
        atol=1e-10,
    )
    for bad in (3, "tanh", lambda t: t[0], lambda t: np.tanh(t)):
        with pytest.raises(ParameterError) as caught:
            activation_of("bad", bad)
        assert "\n" not in str(caught.value)
