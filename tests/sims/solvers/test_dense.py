"""Dense eigenpairs and overlaps, of the lowest and of the whole spectrum, against NumPy's eigh."""

import jax
import numpy as np
import pytest

from sims import tridiagonal
from sims.solvers import Code
from sims.solvers import dense as eigen
from theory.checks import ParameterError


def matrix_of(n, rng, dtype=np.float64, rank=None):
    """Symmetric (n, n) of both signs, of a scale that is not 1."""
    factor = rng.standard_normal((rank or 2 * n, n))
    signs = np.sign(rng.standard_normal(len(factor)) + 0.5)
    return (7.0 * factor.T @ (signs[:, None] * factor) / n).astype(dtype)


def directions_of(n, r, rng, dtype=np.float64):
    return np.linalg.qr(rng.standard_normal((n, r)))[0].astype(dtype)


def assert_projectors_agree(left, right, atol):
    np.testing.assert_allclose(left @ left.T, right @ right.T, atol=atol)


@pytest.fixture(params=[0, eigen.BOUNDED], ids=["by bisection", "all values"])
def whole(monkeypatch, request):
    """Overlaps of the whole spectrum are always found, on either way to the lowest pairs."""
    monkeypatch.setattr(eigen, "BOUNDED", request.param)
    monkeypatch.setattr(eigen, "settled", lambda *args: False)


def three_values(n, rng):
    """Many repeated eigenvalues: T splits into blocks."""
    basis = directions_of(n, n, rng)
    return basis @ np.diag(np.sort(np.arange(n) % 3 - 1.0)) @ basis.T


def exact(matrix, signal):
    """Values, vectors and squared overlaps by NumPy, these with their mean in every degenerate space."""
    values, vectors = np.linalg.eigh(matrix)
    starts, lengths = tridiagonal.groups(values, 1e-10)
    return (
        values,
        vectors,
        tridiagonal.group_means(np.sum((vectors.T @ signal) ** 2, axis=1), starts, lengths),
    )


# order, rank (0: twice the order, None: three values), pairs, directions, seed
CASES = [
    *((n, 0, k, min(n, 2), n + k) for n, k in ((1, 1), (2, 1), (2, 2), (3, 2), (40, 1), (40, 40), (65, 65))),
    *((n, 0, k, 2, n + k) for n, k in ((150, 6), (600, 5))),
    *((n, n // 2, n // 2, 3, n) for n in (60, 300)),
    # with these seeds neighbours of one space come out 5 to 7 roundings apart, by one kernel of OpenBLAS or another
    *((n, None, min(n, 5), 2, seed) for n, seed in ((3, 3), (100, 100), (100, 2), (100, 3), (100, 7))),
    *((150, 0, 2, r, r) for r in (1, 8, 9, 19)),
]  # fmt: skip


# both ways to the lowest pairs of T, and the fallback, which is slow
WAYS = [
    *((bounded, eigen.lowest_dense, *case) for bounded in (0, eigen.BOUNDED) for case in CASES),
    *((0, eigen._whole, *case) for case in CASES if case[0] <= 150),
]


@pytest.mark.parametrize("bounded, solve, n, rank, k, r, seed", WAYS)
def test_pairs_and_overlaps_agree_with_numpy(monkeypatch, bounded, solve, n, rank, k, r, seed):
    """In a degenerate space, a null space too, the projector is what counts: its share is spread evenly."""
    monkeypatch.setattr(eigen, "BOUNDED", bounded)
    monkeypatch.setattr(eigen, "settled", lambda *args: False)
    rng = np.random.default_rng(seed)
    matrix = three_values(n, rng) if rank is None else matrix_of(n, rng, rank=rank)
    signal = directions_of(n, r, rng)
    values, vectors, q2 = exact(matrix, signal)
    found = solve(matrix, k, signal)
    scale = np.max(np.abs(values))
    assert found.code is Code.CONVERGED
    assert found.stats["method"] == ("eigh" if solve is eigen._whole else "tridiagonal")
    np.testing.assert_allclose(found.values, values[:k], atol=1e-13 * scale)
    if k == n or values[k] - values[k - 1] > 1e-10:  # the last space is whole
        assert_projectors_agree(found.vectors, vectors[:, :k], 1e-9)
    np.testing.assert_allclose(found.signal.every, q2, atol=1e-9)
    np.testing.assert_allclose(np.sum(found.signal.every), r, rtol=1e-10)
    np.testing.assert_array_equal(found.signal.q2, found.signal.every[:k])
    assert found.signal.every[found.signal.rank] == np.max(found.signal.every)
    assert np.all(found.residuals < 1e-12 * scale)


def test_single_precision_is_single_throughout(whole):
    rng = np.random.default_rng(5)
    matrix, signal = matrix_of(400, rng), directions_of(400, 2, rng)
    found = eigen.lowest_dense(matrix.astype(np.float32), 6, signal.astype(np.float32))
    exact = eigen.lowest_dense(matrix, 6, signal)
    scale = np.max(np.abs(np.linalg.eigvalsh(matrix)))
    assert found.vectors.dtype == np.float32 and found.code is Code.CONVERGED
    np.testing.assert_allclose(found.values, exact.values, atol=2e-6 * scale)
    np.testing.assert_allclose(found.signal.every, exact.signal.every, atol=1e-3)
    assert np.max(np.abs(found.values - exact.values)) > 1e-9  # it did run in float32


def test_the_sweep_meets_stemr_where_pivots_vanish():
    """A tridiagonal matrix with d = 0: x = 0 is an eigenvalue and makes the first pivot vanish exactly."""
    n = 257
    d, e = np.zeros(n), np.ones(n - 1)
    s = directions_of(n, 2, np.random.default_rng(3))
    found = tridiagonal.spectra_overlaps([(d, e, s, 1e-15)])[0]
    values, overlaps = found
    x = np.arange(1, n + 1) * np.pi / (n + 1)
    modes = np.sqrt(2 / (n + 1)) * np.sin(np.outer(np.arange(1, n + 1), x))
    np.testing.assert_allclose(values, np.sort(2 * np.cos(x)), atol=1e-13)
    expected = np.sum((modes.T @ s) ** 2, axis=1)[np.argsort(2 * np.cos(x))]
    np.testing.assert_allclose(overlaps, expected, atol=1e-11)


def test_matrix_is_kept_unless_given_up():
    rng = np.random.default_rng(6)
    matrix = np.asfortranarray(matrix_of(30, rng))
    before = matrix.copy()
    eigen.lowest_dense(matrix, 3)
    np.testing.assert_array_equal(matrix, before)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_gets_a_code(bad):
    matrix = np.eye(70)
    matrix[3, 4] = matrix[4, 3] = bad
    found = eigen.lowest_dense(matrix, 2)
    assert found.code is Code.INVALID and np.all(np.isnan(found.values))


def test_wrong_pairs_are_told(monkeypatch):
    """A library that returns rotated vectors is found out, and the whole matrix is solved again."""
    honest = eigen.eigh_tridiagonal

    def crooked(*args, **kwargs):
        found = honest(*args, **kwargs)
        return (found[0], found[1][::-1]) if isinstance(found, tuple) else found

    monkeypatch.setattr(eigen, "eigh_tridiagonal", crooked)
    found = eigen.lowest_dense(matrix_of(30, np.random.default_rng(0)), 3)
    assert found.code is Code.CONVERGED and found.stats["method"] == "eigh"


@pytest.mark.parametrize("platform, n", [("cpu", 46_341), ("gpu", 26_701)])
def test_orders_beyond_the_index_are_refused(monkeypatch, platform, n):
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    eigen.check_order(n - 1)
    with pytest.raises(ParameterError, match=f"p N = {n}"):
        eigen.check_order(n)


def test_a_failed_sum_rule_is_not_hidden(whole, monkeypatch):
    """Overlaps that do not add up are found again from LAPACK's vectors, not patched."""
    rng = np.random.default_rng(8)
    matrix, signal = matrix_of(150, rng), directions_of(150, 2, rng)
    expected = eigen.lowest_dense(matrix, 2, signal).signal.every
    honest = tridiagonal._swept
    monkeypatch.setattr(tridiagonal, "_swept", lambda *args: honest(*args) * 1.001)
    np.testing.assert_allclose(eigen.lowest_dense(matrix, 2, signal).signal.every, expected, atol=1e-10)
    monkeypatch.setattr(tridiagonal, "_swept", lambda *args: np.full(150, np.nan))
    np.testing.assert_allclose(eigen.lowest_dense(matrix, 2, signal).signal.every, expected, atol=1e-10)


@pytest.mark.parametrize(
    "dtype, scale",
    [("float64", s) for s in (1e-300, 1e-200, 1e-100, 1e100, 1e300)]
    + [("float32", s) for s in (1e-30, 1e30)],
)
def test_no_scale_of_the_matrix_loses_anything(dtype, scale):
    """Squares of entries under- or overflow; values, residuals and overlaps are those of the matrix of scale 1, scaled."""
    rng = np.random.default_rng(9)
    matrix, signal = matrix_of(60, rng), directions_of(60, 2, rng)
    plain = eigen.lowest_dense(matrix.astype(dtype), 4, signal.astype(dtype))
    found = eigen.lowest_dense((matrix * scale).astype(dtype), 4, signal.astype(dtype))
    eps = np.finfo(dtype).eps
    assert found.code is plain.code is Code.CONVERGED
    np.testing.assert_allclose(
        found.values / scale, plain.values, atol=60 * eps * np.max(np.abs(plain.values))
    )
    np.testing.assert_allclose(found.signal.q2, plain.signal.q2, atol=1e4 * eps)
    assert found.signal.rank == plain.signal.rank
    assert np.all(found.residuals / scale < 60 * 50 * eps * np.linalg.norm(matrix))


def test_a_power_of_two_changes_no_bit():
    matrix = matrix_of(60, np.random.default_rng(9))
    found, plain = eigen.lowest_dense(matrix * 2.0**-700, 4), eigen.lowest_dense(matrix, 4)
    np.testing.assert_array_equal(found.values, plain.values * 2.0**-700)
    np.testing.assert_array_equal(found.vectors, plain.vectors)


def test_the_bound_on_orthonormality_grows_with_the_order():
    """LAPACK's vectors of neighbours miss orthogonality by a part of n eps; columns that miss it by more are told."""
    n = 800
    vectors = np.eye(n)[:, :2]
    for skew, code in ((7e-13, Code.CONVERGED), (1e-10, Code.INACCURATE)):
        vectors[0, 1] = skew
        rows, one = vectors.T[None], np.ones(1)
        (checked,) = eigen._checked(np.zeros((1, 2)), rows, 0 * rows, one, one, "none", [None])
        assert checked.code is code and checked.stats["orthonormality"] == skew


@pytest.mark.parametrize("n, number", [(40, 3), (100, 9), (150, 6), (300, 2)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bits_do_not_depend_on_company(n, number, dtype):
    """Several matrices solved together, one of them split exactly, one of low rank, one not finite: each as alone."""
    rng = np.random.default_rng(n)
    matrices = [matrix_of(n, rng, dtype, rank=n // 2 if i == 1 else None) for i in range(number)]
    matrices[0] = np.diag(np.arange(n)).astype(dtype)
    matrices[-1][0, 0] = np.nan
    signals = [directions_of(n, 2, rng, dtype) for _ in matrices]
    alone = [eigen.lowest_dense(m, 5, s) for m, s in zip(matrices, signals, strict=True)]
    together = eigen.lowest_together([matrix.copy(order="F") for matrix in matrices], 5, signals)
    assert [found.code for found in together][-1] is Code.INVALID
    for one, other in zip(alone, together, strict=True):
        assert one.code is other.code
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.vectors, other.vectors)
        if one.signal is not None:
            np.testing.assert_array_equal(one.signal.every, other.signal.every)


def test_a_matrix_that_fails_costs_its_company_nothing(monkeypatch):
    """LAPACK gives up on one of three: that one is solved by the whole matrix, the others as alone."""
    rng = np.random.default_rng(8)
    matrices, signals = [matrix_of(60, rng) for _ in range(3)], [directions_of(60, 1, rng) for _ in range(3)]
    alone = [eigen.lowest_dense(matrix, 3, signal) for matrix, signal in zip(matrices, signals, strict=True)]
    honest, unlucky = tridiagonal.all_values, []

    def stumbling(d, e):
        unlucky[:] = unlucky or [d[0]]
        if d[0] in unlucky:
            raise np.linalg.LinAlgError("sterf returned 1")
        return honest(d, e)

    monkeypatch.setattr(tridiagonal, "all_values", stumbling)
    together = eigen.lowest_together([matrix.copy(order="F") for matrix in matrices], 3, signals)
    assert [found.stats["method"] for found in together] == ["eigh", "tridiagonal", "tridiagonal"]
    np.testing.assert_allclose(together[0].values, alone[0].values, atol=1e-12)
    for one, other in zip(alone[1:], together[1:], strict=True):
        np.testing.assert_array_equal(one.values, other.values)
