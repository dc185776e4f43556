"""Data drawn as they are asked for, against the one matrix that all answers turn out to be products with."""

import numpy as np
import pytest
from scipy import stats

from theory.checks import NotConverged, ParameterError
from theory.path.deferred import Deferred, bytes_needed

M, N = 30, 20


def asked(data, rounds, rng, width=2):
    """Questions that depend on the answers, as those of a method do, and what was answered: (vectors, X v), (forces, X' f)."""
    pushes, pulls, v = [], [], rng.standard_normal((width, data.n))
    for _ in range(rounds):
        answer = data.push(v)
        pushes.append((v, answer))
        force = np.tanh(2 * answer) + 0.1
        back = data.pull(force)
        pulls.append((force, back))
        v = 0.5 * v + back
    return pushes, pulls


def revealed(data):
    """The whole matrix (M, N): its products with every unit vector."""
    return data.push(np.eye(data.n, dtype=data.dtype))


@pytest.mark.parametrize(("dtype", "digits"), [("float64", 1e-12), ("float32", 3e-5)])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_all_answers_are_products_with_one_matrix(dtype, digits, width):
    rng = np.random.default_rng(3)
    data = Deferred(M, N, rng, dtype=dtype, tolerance=1e-6 if dtype == "float32" else 1e-12)
    pushes, pulls = asked(data, 4, rng, width)
    assert data.defect() < digits
    x = revealed(data)
    for v, answer in pushes:
        assert np.allclose(answer, x @ v.T, atol=digits * np.linalg.norm(v))
    for f, back in pulls:
        assert np.allclose(back, f.T @ x, atol=digits * np.linalg.norm(f))
    assert data.k == N  # and nothing is new any more
    assert np.allclose(data.push(pushes[0][0]), pushes[0][1], atol=digits * 10)


def test_the_matrix_is_gaussian_whatever_was_asked():
    """Entries independent N(0, 1/N) in 100 draws: Kolmogorov-Smirnov for the entries, chi-square for their squares, and
    Kolmogorov-Smirnov for the columns' products; false alarms 1e-4, 2e-4 and 1e-4."""
    rng = np.random.default_rng(4)
    drawn = []
    for _ in range(100):
        data = Deferred(M, N, rng, dtype=np.float64)
        asked(data, 3, rng)
        drawn.append(revealed(data) * np.sqrt(N))
    x = np.array(drawn)
    assert stats.kstest(x.ravel(), "norm").pvalue > 1e-4
    assert stats.chi2.sf(np.sum(x**2), x.size) > 1e-4 < stats.chi2.cdf(np.sum(x**2), x.size)
    cross = np.einsum("smi,smj->sij", x, x)[:, *np.triu_indices(N, 1)]  # mean 0, variance M
    assert stats.kstest(np.sum(cross, axis=1) / np.sqrt(M * cross.shape[1]), "norm").pvalue > 1e-4


@pytest.mark.parametrize("tolerance", [1e-3, 1e-1])
def test_the_tolerance_is_a_rounding_of_the_questions(tolerance):
    """What is left out of an answer is X times a part of the vector shorter than the tolerance; |X| <= 2 + sqrt(M / N) here."""
    rng = np.random.default_rng(5)
    data, start = Deferred(M, N, rng, dtype=np.float64, tolerance=tolerance), rng.standard_normal(N)
    side = rng.standard_normal(N)
    vectors = [start + s * side for s in np.linspace(0, 4 * tolerance, 40)]
    answers = [data.push(v[None])[:, 0] for v in vectors]
    assert data.k == 2  # a slow path is not lost: what is left out joins R when it is long enough
    x = revealed(data)
    for v, answer in zip(vectors, answers, strict=True):
        assert np.linalg.norm(answer - x @ v) <= tolerance * np.linalg.norm(v) * (2 + np.sqrt(M / N))


def test_resumes_bit_for_bit():
    data = Deferred(M, N, np.random.default_rng(6), directions=8)
    asked(data, 2, np.random.default_rng(7), width=1)
    other = Deferred.resumed(data.state(), directions=30)
    later = np.random.default_rng(8).standard_normal((3, N))
    assert np.array_equal(data.push(later), other.push(later))
    assert data.nbytes == other.nbytes == 4 * (M + N) * (data.k + data.r)


def test_too_many_directions_leave_the_state_as_it_was():
    data = Deferred(M, N, np.random.default_rng(6), directions=3, dtype=np.float64)
    first = data.push(np.eye(N)[:2])
    with pytest.raises(NotConverged, match="directions = 3"):
        data.push(np.eye(N)[2:5])
    assert np.array_equal(first, data.push(np.eye(N)[:2]))
    assert Deferred.resumed(data.state(), directions=9).push(np.eye(N)[2:5]).shape == (M, 3)


def test_refuses_in_one_line():
    rng = np.random.default_rng(0)
    need, data = bytes_needed(3000, 1000, 50), Deferred(M, N, rng)
    assert Deferred(3000, 1000, rng, directions=50, memory=need).k == 0
    known = Deferred(M, N, rng)
    known.push(np.eye(N)[:2])
    for call, words in (
        (
            lambda: Deferred(3000, 1000, rng, directions=50, memory=need - 1),
            r"50 directions of 3000 x 1000 .* 49 fit",
        ),
        (lambda: Deferred(3000, 1000, rng, memory=0), "none fit"),
        (lambda: Deferred(3, 3, rng, tolerance=2.0), "tolerance must be below 1"),
        (lambda: Deferred(3, 3, rng, dtype=np.int32), "dtype must be float32 or float64"),
        (lambda: data.push(np.ones((1, N + 1))), r"vectors must be \(b, 20\)"),
        (lambda: data.push(np.full((1, N), np.nan)), "vectors must be finite"),
        (lambda: Deferred.resumed(known.state(), directions=1), "directions must be at least the 2"),
    ):
        with pytest.raises(ParameterError, match=words):
            call()
