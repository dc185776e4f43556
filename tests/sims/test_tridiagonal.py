"""The bound on overlaps of eigenvectors not found, against all of them; ranks settled by it against eigh."""

import numpy as np
import pytest
from scipy.linalg import eigh

from sims import sampling, tridiagonal
from sims.signal import signal_vectors
from sims.solvers import Code
from sims.solvers import dense as eigen
from tests.sims.instances import dense_hessian, host_draw, quick_rows
from theory.model import Committee


@pytest.fixture(autouse=True)
def bounded(monkeypatch):
    """The bound is asked at every order, not only at large ones."""
    monkeypatch.setattr(eigen, "BOUNDED", 0)


def wishart(n, rng):
    factor = rng.standard_normal((2 * n, n))
    return 7.0 * factor.T @ (np.sign(rng.standard_normal(2 * n) + 0.5)[:, None] * factor) / n


def spiked(n, rng):
    """One direction of the signal pulled out below."""
    return wishart(n, rng) - 50.0 * np.outer(np.eye(n)[0], np.eye(n)[0])


def low_rank(n, rng):
    factor = rng.standard_normal((n // 2, n))
    return factor.T @ factor


def degenerate(n, rng):
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return basis @ np.diag(np.sort(np.arange(n) % 3 - 1.0)) @ basis.T


def diagonal(n, rng):
    """Directions of the axes are eigenvectors."""
    return np.diag(rng.standard_normal(n))


def tails(n, rng):
    """Eigenvalues over ten decades: Lanczos converges at their ends."""
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return basis @ np.diag(10.0 ** rng.uniform(-8, 2, n)) @ basis.T


KINDS = [wishart, spiked, low_rank, degenerate, diagonal, tails]


def directions(n, r, rng, axes):
    return np.eye(n)[:, :r] if axes else np.linalg.qr(rng.standard_normal((n, r)))[0]


def tridiagonal_of(matrix, signal):
    """T and the directions in its basis; its eigenvalues and vectors."""
    found = tridiagonal.tridiagonal(np.array(matrix, order="F"), 1.0, signal)
    d, e = found.d, found.e
    return d, e, found.rotated, *np.linalg.eigh(np.diag(d) + np.diag(e, -1) + np.diag(e, 1))


def test_the_gauss_rule_of_three_points():
    """T = [[0, 1], [1, 0]] and a third axis apart: masses 1/2 at 1 and -1, both held by the rule of two steps."""
    d, e = np.array([0.0, 0.0, 5.0]), np.array([1.0, 0.0])
    s = np.array([[2.0], [0.0], [0.0]])
    alpha, beta = tridiagonal.lanczos(d, e, s[:, 0], 3)
    np.testing.assert_allclose(alpha, [0, 0], atol=1e-15)  # ended by the invariant subspace
    np.testing.assert_allclose(beta, [1])
    assert tridiagonal.overlap_bound(d, e, s, 3) == pytest.approx(4.0)  # two neighbours of 2 each
    assert tridiagonal.overlap_bound(d, e, s, 1) == pytest.approx(4.0)
    assert tridiagonal.overlap_bound(d, e, np.zeros((3, 2)), 3) == 0


@pytest.mark.parametrize("axes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 150])
def test_no_overlap_outside_the_lowest_is_above_the_bound(n, kind, axes):
    """Of every eigenvector and of the mean over its degenerate space, for any number of steps and of vectors taken off."""
    rng = np.random.default_rng(n)
    for _ in range(8 if n < 150 else 2):
        r = min(n, 2)
        d, e, rotated, _, vectors = tridiagonal_of(kind(n, rng), directions(n, r, rng, axes))
        all_q2 = np.sum((vectors.T @ rotated) ** 2, axis=1)
        for k in {0, 1, min(6, n), n - 1, n}:
            rest = rotated - vectors[:, :k] @ (vectors[:, :k].T @ rotated)
            largest = np.max(all_q2[k:], initial=0.0)
            for steps in (1, 2, 16, 64, 200):
                assert largest <= tridiagonal.overlap_bound(d, e, rest, steps) + 1e-8
            if k < n and all_q2[k:].size:
                assert not tridiagonal.settled(d, e, rest, largest)


def test_lanczos_keeps_its_vectors_orthogonal():
    """The rule of n steps has the eigenvalues of T for nodes, though some are found long before the last step."""
    rng = np.random.default_rng(4)
    d, e, rotated, values, _ = tridiagonal_of(spiked(100, rng), directions(100, 1, rng, False))
    alpha, beta = tridiagonal.lanczos(d, e, rotated[:, 0], 200)
    assert len(alpha) == 100 and len(beta) == 99
    nodes = np.linalg.eigvalsh(np.diag(alpha) + np.diag(beta, -1) + np.diag(beta, 1))
    np.testing.assert_allclose(nodes, values, atol=1e-12 * np.max(np.abs(values)))


def rounding(values):
    """Error of a squared overlap where eigenvalues that are no degenerate space come as near as these do."""
    unit, gaps = np.finfo(float).eps * np.max(np.abs(values)), np.diff(values)
    return 1e-10 + 10 * unit / np.min(gaps, where=gaps > 4 * unit, initial=np.inf)


@pytest.mark.parametrize("axes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "n, ks", [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (40, [1, 6, 20, 39, 40]), (150, [6])]
)
def test_rank_and_overlaps_are_those_of_the_whole_spectrum(monkeypatch, n, ks, kind, axes):
    rng = np.random.default_rng(n)
    matrix, signal = kind(n, rng), directions(n, min(n, 2), rng, axes)
    for k in ks:
        with monkeypatch.context() as patch:
            patch.setattr(eigen, "settled", lambda *args: False)
            slow = eigen.lowest_dense(matrix, k, signal)
        fast = eigen.lowest_dense(matrix, k, signal)
        assert fast.code is slow.code is Code.CONVERGED
        np.testing.assert_allclose(fast.signal.q2, slow.signal.q2, atol=rounding(np.linalg.eigvalsh(matrix)))
        np.testing.assert_array_equal(fast.values, slow.values)
        spread = slow.signal.every
        assert spread[fast.signal.rank] > np.max(spread) - 1e-5  # equal but for ties
        if k == n:
            assert fast.signal.every is None


@quick_rows(
    "p, p_star, n, alpha, settles, samples",
    (2, 1, 120, 2.5, True, 6),
    (2, 1, 120, 0.8, False, 6),
    (2, 2, 80, 8.0, None, 6),
    (3, 2, 60, 0.2, None, 6),
    slow=[
        *((2, 1, n, 2.5, True, samples) for n, samples in ((200, 6), (400, 2))),
        *((2, 1, n, 0.8, False, samples) for n, samples in ((200, 6), (400, 2))),
        (2, 2, 150, 8.0, None, 6),
    ],
)
def test_hessians_on_both_sides_of_the_threshold(p, p_star, n, alpha, settles, samples):
    """Settled without the whole spectrum well above the threshold and not below; the same answers as eigh on both sides."""
    model, k = Committee(p, p_star, 0.3), p * p_star + sampling.MARGIN
    for sample in range(samples):
        drawn = host_draw(model, n, alpha, sample=sample)
        matrix, signal = dense_hessian(drawn), signal_vectors(drawn.teacher, p)
        values, vectors = eigh(matrix)
        q2 = np.sum((vectors.T @ signal) ** 2, axis=1)
        found = eigen.lowest_dense(matrix, k, signal)
        null = np.abs(values) < 1e-10
        q2[null] = np.mean(q2[null]) if np.any(null) else 0
        np.testing.assert_allclose(found.signal.q2, q2[:k], atol=1e-9)
        assert q2[found.signal.rank] > np.max(q2) - 1e-9
        if settles is not None:
            assert (found.signal.every is None) is settles
            assert (found.signal.rank < k) or not settles


def test_neighbours_too_near_are_not_settled():
    """The last pair and the one above it in one space: its overlap is a mean over both, so the whole spectrum is found."""
    signal = np.eye(30)[:, :1]
    values = np.arange(30.0)
    values[3] = values[2]
    found = eigen.lowest_dense(np.diag(values)[::-1, ::-1], 3, signal[::-1])
    assert found.signal.every is not None and found.signal.rank == 0
    found = eigen.lowest_dense(np.diag(values)[::-1, ::-1], 4, signal[::-1])
    assert found.signal.every is None and found.signal.rank == 0
