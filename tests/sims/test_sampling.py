"""Samples at one point: their values, independence of how they are asked for, refusals, failures."""

import dataclasses
import logging

import jax
import numpy as np
import pytest

import sims
from sims import hessian, instance, machine, sampling
from sims.krylov import Settings
from sims.sampling import sample_grid, sample_point
from sims.signal import student_shares
from sims.solvers import Code, dense
from tests.sims.instances import quick_rows, second_derivative
from theory.checks import ParameterError
from theory.model import Committee
from theory.model.network import Network

MODEL = Committee(2, 1, 0.3)


def matrix_of(drawn):
    """By the product of matrices that runs on a device, of rows that pad too."""
    return dense._matrix_on_device(drawn, hessian.weights_of(drawn))


def by_hand(model, n, alpha, sample, seed):
    drawn = instance.draw(model, n, alpha, sample=sample, seed=seed)
    values, vectors = np.linalg.eigh(matrix_of(drawn))
    unit = drawn.teacher / np.sqrt(n)
    q2 = np.sum(np.einsum("ln,knj->klj", unit, vectors.reshape(-1, n, vectors.shape[1])) ** 2, axis=(0, 1))
    return values, q2


@quick_rows("p, p_star", (1, 1), (3, 2), slow=[(2, 1)])
def test_samples_are_those_of_the_dense_matrix(p, p_star):
    model = Committee(p, p_star, 0.3)
    found = sample_point(model, 50, 2.5, [3, 0], 5)
    k = p * p_star + 4
    assert found.eigenvalues.shape == found.overlaps.shape == found.residuals.shape == (2, k)
    assert list(found.samples) == [3, 0] and list(found.status) == [1, 1] and found.reasons == ("", "")
    for row, sample in enumerate([3, 0]):
        values, q2 = by_hand(model, 50, 2.5, sample, 5)
        np.testing.assert_allclose(found.eigenvalues[row], values[:k], atol=1e-12)
        np.testing.assert_allclose(found.overlaps[row], q2[:k], atol=1e-9)
        assert found.max_overlap_rank[row] == np.argmax(q2)


@quick_rows(
    "batch, dtype",
    (2, "float64"),
    (5, "float32"),
    slow=[(1, "float64"), (5, "float64"), (1, "float32"), (2, "float32")],
)
def test_bits_do_not_depend_on_batch_or_company(batch, dtype):
    together = sample_point(MODEL, 80, 1.3, range(5), 1, dtype=dtype, batch=batch)
    for i in range(5):
        alone = sample_point(MODEL, 80, 1.3, [i], 1, dtype=dtype)
        for name in ("eigenvalues", "overlaps", "residuals", "max_overlap_rank"):
            np.testing.assert_array_equal(getattr(together, name)[i], getattr(alone, name)[0])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_smallest_sizes(n):
    found = sample_point(MODEL, n, 2.0, [0, 1], 0)
    assert found.eigenvalues.shape == (2, min(2 * n, 6)) and np.all(found.status == 1)
    everything = sample_point(MODEL, n, 2.0, [0, 1], 0, eigenpairs=2 * n)
    np.testing.assert_allclose(np.sum(everything.overlaps, axis=1), 2, rtol=1e-12)  # p p_star
    assert sample_point(MODEL, n, 2.0, [0], 0, eigenpairs=1).eigenvalues.shape == (1, 1)


def test_fewer_samples_than_dimensions_leave_zero_eigenvalues():
    n, m = 100, 60
    found = sample_point(MODEL, n, m / n, [0, 1], 0, eigenpairs=2 * n)
    assert np.all(found.status == 1)
    null = np.abs(found.eigenvalues) < 1e-12 * np.max(found.eigenvalues)
    np.testing.assert_array_equal(np.sum(null, axis=1), 2 * (n - m))
    assert np.max(np.ptp(found.overlaps[0][null[0]])) < 1e-15  # the null space's share, spread evenly
    np.testing.assert_allclose(np.sum(found.overlaps, axis=1), 2, rtol=1e-12)


def test_single_precision_differs_by_its_rounding(monkeypatch):
    """An instance rounded to float32 and solved there has eigenvalues within 1e-5 of those in float64."""
    exact = instance.draw(MODEL, 160, 2.5)
    rounded = dataclasses.replace(
        exact, **{name: getattr(exact, name).astype("float32") for name in ("student", "teacher", "data")}
    )
    double, single = (dense.solve_together([one], 6)[0] for one in (exact, rounded))
    assert single.vectors.dtype == np.float32
    error = np.max(np.abs(double.values - single.values))
    assert 1e-9 < error < 1e-5
    np.testing.assert_allclose(double.signal.q2, single.signal.q2, atol=1e-3)
    run = sample_point(MODEL, 160, 2.5, [0], 0, dtype="float32")
    assert np.all(run.residuals < 1e-4) and np.all(run.status == 1)


def test_a_device_that_returns_rubbish_is_found_out(monkeypatch):
    """NaN is the only sign of failure that JAX's eigh gives; vectors that are not orthonormal give none at all."""
    matrix = jax.numpy.asarray(np.diag(np.arange(30.0)) - 3.0)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for rubbish in (np.full((30, 30), np.nan), np.ones((30, 30)), np.zeros((30, 30))):
        monkeypatch.setattr(jax.numpy.linalg, "eigh", lambda h, v=rubbish: (np.arange(30.0)[None], v[None]))
        found = dense.lowest_dense(matrix, 3)
        assert found.code is Code.CONVERGED and found.stats["method"] == "tridiagonal"
        np.testing.assert_allclose(found.values, np.linalg.eigvalsh(matrix)[:3], atol=1e-12)


def test_no_compilation_for_another_alpha(caplog):
    """Values of alpha close by share the padded length; on the CPU nothing at all depends on M."""
    sample_point(MODEL, 80, 2.0, [0], 0)
    matrix_of(instance.draw(MODEL, 80, 2.0))
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for alpha in (1.95, 1.9, 1.85):
            sample_point(Committee(2, 1, 0.7), 80, alpha, [0, 1], 3)
            matrix_of(instance.draw(Committee(2, 1, alpha), 80, alpha))
        assert not [r for r in caplog.records if "Compiling" in r.message]
        sample_point(MODEL, 81, 2.0, [0], 0)
        assert [r for r in caplog.records if "Compiling" in r.message]  # the counter counts


def test_a_failed_sample_is_recorded_and_others_go_on(monkeypatch):
    honest, unlucky = dense.tridiagonal, []

    def stumbling(matrix, *rest):
        unlucky[:] = unlucky or [matrix[0, 0]]  # the first sample's, whoever it is solved with
        if matrix[0, 0] in unlucky:
            raise RuntimeError("out of luck\nand more")
        return honest(matrix, *rest)

    monkeypatch.setattr(dense, "tridiagonal", stumbling)
    found = sample_point(MODEL, 50, 2.0, [0, 1], 0)
    assert list(found.status) == [2, 1]
    assert found.reasons == ("RuntimeError: out of luck", "")
    assert np.all(np.isnan(found.eigenvalues[0])) and np.all(np.isfinite(found.eigenvalues[1]))


def test_a_sample_that_is_not_finite_says_so(monkeypatch):
    monkeypatch.setattr(hessian, "dense_blas", lambda data, weights: np.full((100, 100), np.nan))
    found = sample_point(MODEL, 50, 2.0, [0], 0)
    assert found.status[0] == 2 and found.reasons[0].startswith("invalid")


def test_what_does_not_fit_is_refused_with_what_would(monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: 10**8)

    def need(n):
        return sampling.bytes_needed(MODEL, n, 2.0, solver="dense")

    message = rf"needs {need(4000)} bytes and 100000000 are free: N = (\d+) would fit"
    with pytest.raises(ParameterError, match=message) as caught:
        sample_point(MODEL, 4000, 2.0, [0], 0, solver="dense")
    largest = int(str(caught.value).split("N = ")[-1].split()[0])
    assert need(largest) <= 0.9e8 < need(largest + 1)


def test_an_order_beyond_the_index_is_refused(monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: None)
    with pytest.raises(
        ParameterError, match=r"has order 60000 where the routines index 46340: N = 23170 would"
    ):
        sample_point(MODEL, 30_000, 2.0, [0], 0, solver="dense")


def test_public_names_agree_with_one_another():
    """Draw, matrix, lowest pairs and density of one draw, dense and matrix-free, against NumPy's eigenvalues of the matrix."""
    drawn = sims.draw(MODEL, 40, 2.5, seed=5, sample=3)
    matrix = sims.hessian(drawn)
    values, vectors = np.linalg.eigh(matrix)
    bare = sims.draw(MODEL, 40, 2.5, seed=5, sample=3, data=False)
    for found, exact in ((sims.lowest(drawn, 4), 1e-11), (sims.lowest(bare, 4), 1e-6)):
        np.testing.assert_allclose(found.values, values[:4], atol=exact)
        assert np.all(np.abs(np.sum(found.vectors * vectors[:, :4], axis=0)) > 1 - 1e-6)
    together = sims.sample(MODEL, 40, 2.5, [3], 5)
    np.testing.assert_array_equal(together.eigenvalues[0, :4], sims.lowest(drawn, 4).values)
    np.testing.assert_allclose(together.overlaps[0, :4], found.signal.q2, atol=1e-5)
    trace, error = sims.density_of_states(drawn, probes=16, steps=30).moment(1)
    assert (
        abs(trace - values.mean()) < 5 * error
    )  # five standard errors of 16 probes, t: 2e-4 with other seeds; this one is fixed
    with pytest.raises(ParameterError, match="data"):
        sims.hessian(bare)
    with pytest.raises(ParameterError, match="data"):
        sims.lowest(bare, 2, solver="dense")


def test_noise_covariance_and_overlap_leave_the_normal_rows_as_they_are():
    plain, loud = (
        instance.draw(Network(2, 2, 0.5, **more), 30, 2.0, seed=5)
        for more in ({}, {"noise": 0.4, "covariance": "power:1"})
    )
    np.testing.assert_array_equal(loud.student, plain.student)
    np.testing.assert_array_equal(loud.teacher, plain.teacher)
    np.testing.assert_allclose(loud.data, np.asarray(plain.data) * loud.roots, rtol=1e-15)


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
        np.testing.assert_allclose(pairs.values, np.linalg.eigvalsh(second_derivative(drawn))[:3], atol=1e-8)
    with pytest.raises(ParameterError, match="share activation"):
        sample_grid([points[0], (Network(2, 1, activation="erf"), 3.0)], 20, eigenpairs=1)
    with pytest.raises(ParameterError, match="share covariance"):
        sample_grid([points[0], (Network(2, 1, 2.0, "tanh", covariance="mp:0.5"), 3.0)], 20, eigenpairs=1)


@quick_rows(
    "dtype, a",
    ("float64", 1e59),
    ("float32", 1e-60),
    slow=[("float64", a) for a in (1e-60, 1e6, 1e38)] + [("float32", a) for a in (1e5, 1e38, 1e59)],
)
def test_no_normalisation_is_too_large_or_small(dtype, a):
    """a H tends to a limit as a grows, where F itself under- and its squares underflow; small a go as a = 0.

    Residuals shrink with H: by an absolute tolerance alone anything would be an eigenvector where a is large.
    """
    if a < 1 and dtype == "float32":  # |H| is then 1e8 times the lowest eigenvalues: float32 cannot hold both
        with pytest.raises(ParameterError, match="dtype must be float64 at a = 1e-60: weights span"):
            sample_point(Committee(1, 1, a), 80, 3.0, [0], 0, dtype=dtype)
        return
    near, tol = Committee(1, 1, min(max(a, 1e-14), 1e14)), 2e-5 if dtype == "float32" else 1e-9
    exact = sample_point(near, 240, 3.0, [0], 0, dtype=dtype, solver="dense", eigenpairs=240)
    every = exact.eigenvalues[0] * max(near.a, 1.0)
    for solver in ("dense", "krylov"):
        found = sample_point(Committee(1, 1, a), 240, 3.0, [0], 0, dtype=dtype, solver=solver, eigenpairs=2)
        assert found.status[0] == 1
        values, residuals = (part[0] * max(a, 1.0) for part in (found.eigenvalues, found.residuals))
        np.testing.assert_allclose(values, every[:2], atol=10 * tol * np.max(np.abs(every[:2])))
        assert np.max(residuals) <= 1.001 * np.max(np.abs(every)) * (1e-5 if dtype == "float32" else 1e-7)
