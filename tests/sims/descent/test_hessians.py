"""The Hessians along a path: against jax.hessian, and against the power of the theory at the start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sims import hessian
from sims.descent import hessians
from sims.dynamics.sphere import retract, tangent
from tests.sims.instances import host_draw
from theory.checks import ParameterError
from theory.model import Committee
from theory.model.network import Network


@pytest.fixture(
    scope="module", params=[pytest.param((1, 1, 0.5), marks=pytest.mark.slow), (3, 2, 1.3)], ids=str
)
def drawn(request):
    p, p_star, a = request.param
    return host_draw(Committee(p, p_star, a), 10, 3.0, seed=2)


def arrays(drawn):
    return np.asarray(drawn.data)[: drawn.m], np.asarray(drawn.teacher)


def test_both_hessians_are_second_derivatives_anywhere_on_the_path(drawn):
    data, teacher = arrays(drawn)
    student = retract(drawn.student + 0.7 * drawn.teacher[0])
    plain, riemannian = hessians.hessians(drawn.model, data, teacher, np.asarray(student))

    def flat(w):
        return hessian.loss(drawn.model, w.reshape(student.shape), teacher, data)

    def along(v):
        return flat(retract(student + tangent(student, v.reshape(student.shape))))

    scale = np.abs(plain).max()
    np.testing.assert_allclose(plain, jax.jit(jax.hessian(flat))(student.ravel()), atol=1e-12 * scale)
    values = np.linalg.eigvalsh(jax.jit(jax.hessian(along))(jnp.zeros(student.size)))
    inside = np.delete(values, np.argsort(np.abs(values))[: student.shape[0]])
    found = np.linalg.eigvalsh(riemannian)
    # the p normal directions are lifted above everything else
    np.testing.assert_allclose(found[: inside.size], inside, atol=1e-12 * scale)
    assert np.all(found[inside.size :] > 0) and np.ptp(found[inside.size :]) < 1e-11 * scale


def test_lowest_pairs_are_those_of_the_whole_spectrum(drawn):
    data, teacher = arrays(drawn)
    students = np.stack([np.asarray(drawn.student), np.asarray(retract(drawn.student + drawn.teacher[0]))])
    p, n = students.shape[1:]
    found = hessians.lowest_along(drawn, students, 3)
    assert found.eigenvalues.shape == found.overlaps.shape == (2, 2, 3)
    signal = np.kron(np.eye(p), teacher / np.sqrt(n))
    for t, student in enumerate(students):
        for frame, matrix in enumerate(hessians.hessians(drawn.model, data, teacher, student)):
            values, vectors = np.linalg.eigh(matrix)
            np.testing.assert_allclose(
                found.eigenvalues[t, frame], values[:3], atol=1e-12 * np.abs(values).max()
            )
            expected = np.sum((signal @ vectors[:, :3]) ** 2, axis=0)
            np.testing.assert_allclose(found.overlaps[t, frame], expected, atol=1e-8)


def test_more_pairs_than_the_tangent_space_has_are_refused(drawn):
    student = np.asarray(drawn.student)[None]
    most = student.shape[1] * 9
    hessians.lowest_along(drawn, student, most)
    with pytest.raises(ParameterError, match=f"at most p \\(N - 1\\) = {most}, got {most + 1}"):
        hessians.lowest_along(drawn, student, most + 1)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(Committee(2, 1, 0.7), marks=pytest.mark.slow),
        Network(2, 1, 2.0, "tanh", noise=0.2, covariance="mp:0.5"),
    ],
)
def test_without_the_matrices_the_pairs_are_the_same(model):
    """Plain and Riemannian, by products alone, at a student far from the drawn one."""
    drawn = host_draw(model, 80, 3.0, seed=4)
    student = np.asarray(retract(drawn.student + 0.7 * drawn.teacher[0]))
    dense, free = (hessians.lowest_along(drawn, student[None], 3, dense=dense) for dense in (True, False))
    np.testing.assert_allclose(free.eigenvalues, dense.eigenvalues, atol=1e-8)
    np.testing.assert_allclose(free.overlaps, dense.overlaps, atol=1e-5)
