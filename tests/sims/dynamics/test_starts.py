"""Starts from eigenvectors: exact where the eigenvectors are, and the spectral method's overlap against its theory."""

import numpy as np
import pytest

from sims import instance
from sims.dynamics.starts import outlier_directions, spectral_directions, spectral_matrix, student_from
from tests.sims.instances import quick_rows
from theory.general.spectral_methods import optimal, spectral_outlier, subset
from theory.model import Committee


def rotation(size, rng):
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


@pytest.mark.parametrize(("p", "p_star"), [(1, 1), (3, 1), (2, 2), (3, 2), (1, 2)])
def test_outliers_that_span_the_signal_space_give_the_teacher_in_any_basis(p, p_star):
    rng = np.random.default_rng(p + 10 * p_star)
    n = 12
    teacher = rotation(n, rng)[:p_star]
    vectors = np.kron(np.eye(p), teacher.T) @ rotation(p * p_star, rng)
    rows = outlier_directions(vectors, p, p_star)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-13)
    np.testing.assert_allclose(np.sum((rows @ teacher.T) ** 2, axis=1), 1, rtol=1e-12)
    # rows 0 .. p_star - 1 are different directions of the span
    kept = rows[: min(p, p_star)]
    np.testing.assert_allclose(kept @ kept.T, np.eye(len(kept)), atol=1e-12)


def test_outlier_rows_see_their_own_block():
    rng = np.random.default_rng(0)
    teacher, n, p = rotation(30, rng)[0], 30, 2
    vectors = np.linalg.qr(np.kron(np.eye(p), teacher[:, None]) + 0.1 * rng.standard_normal((p * n, p)))[0]
    rows = outlier_directions(vectors, p, 1)
    assert np.all((rows @ teacher) ** 2 > 0.6)
    assert abs(rows[0] @ rows[1]) < 0.999


def test_spectral_matrix_is_the_weighted_covariance():
    rng = np.random.default_rng(1)
    data, y = rng.standard_normal((15, 6)), rng.chisquare(1, 15)
    expected = sum(t * np.outer(x, x) for t, x in zip(1 - 1 / y, data, strict=True))
    np.testing.assert_allclose(
        spectral_matrix(data, y), expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max()
    )


def test_any_preprocessing():
    rng = np.random.default_rng(2)
    data, y = rng.standard_normal((60, 8)), rng.chisquare(1, 60)
    top = spectral_directions(data, y, 2, subset(1.0))
    _, vectors = np.linalg.eigh(spectral_matrix(data, y, subset(1.0)))
    np.testing.assert_allclose(np.abs(np.sum(top * vectors[:, [-1, -2]].T, axis=1)), 1, rtol=1e-10)


@quick_rows("p_star", 2, slow=[1])
def test_overlap_of_the_spectral_method_is_the_theorys(p_star):
    """N = 400, 12 samples at alpha = 2 p_star. Tolerance 4 standard errors (6e-5 false alarms) plus 0.02 for finite N."""
    alpha, n = 2.0 * p_star, 400
    theory = spectral_outlier(optimal(), alpha, p_star).overlap
    found = []
    for sample in range(12):
        drawn = instance.draw(Committee(1, p_star, 1.0), n, alpha, seed=3, sample=sample)
        data, signal = np.asarray(drawn.data)[: drawn.m], np.asarray(drawn.signal)
        y = np.mean((data @ np.asarray(drawn.teacher).T) ** 2, axis=1)
        directions = spectral_directions(data, y, p_star)
        np.testing.assert_allclose(directions @ directions.T, np.eye(p_star), atol=1e-10)
        found.append(np.mean(np.sum((directions @ signal.T) ** 2, axis=1)))
    assert abs(np.mean(found) - theory) < 4 * np.std(found, ddof=1) / np.sqrt(12) + 0.02


def test_students_are_the_directions_and_repeats_are_set_apart():
    rng = np.random.default_rng(4)
    directions, other = rotation(9, rng)[:2], rng.standard_normal((5, 9))
    exact = student_from(directions, 2, other[:2])
    np.testing.assert_allclose(exact, 3 * directions, rtol=1e-14)
    apart = student_from(directions, 5, other, spread=0.1)
    np.testing.assert_allclose(np.sum(apart**2, axis=1), 9, rtol=1e-13)
    along = np.sum(apart * directions[[0, 1, 0, 1, 0]], axis=1) / 3
    assert np.all(along > 0.98) and np.all(along < 1)
    assert np.linalg.matrix_rank(apart) == 5
