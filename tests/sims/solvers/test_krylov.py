"""The matrix-free path behind `sample_point`, its layouts, its memory, and shared grids."""

import functools

import numpy as np
import pytest

from sims.hessian import dense_blas
from sims.instance import draw, preactivations
from sims.krylov import Plan, Settings, data_bytes, krylov_bytes, solver_bytes
from sims.krylov.solver import lowest_krylov
from sims.operator import hessian_operator
from sims.sampling import bytes_needed, preferred_solver, sample_grid, sample_point
from sims.signal import signal_vectors
from sims.solvers import Code
from sims.solvers import krylov as large
from sims.solvers.krylov import bounded_rank, certified_rank, stores
from tests.sims.instances import quick_rows
from theory import Inputs, Network
from theory.checks import ParameterError
from theory.model import Committee

MODEL = Committee(p=2, p_star=1, a=0.3)
N = 120


def test_auto_is_dense_while_that_is_quick(monkeypatch):
    assert preferred_solver(MODEL, 400, 1.2, 6) == "dense"
    assert preferred_solver(MODEL, 20_000, 1.2, 6) == "krylov"
    monkeypatch.setattr("sims.machine.available_bytes", lambda: 1 << 20)
    assert preferred_solver(MODEL, 400, 1.2, 6) == "krylov"


def test_a_sample_that_cannot_fit_is_refused_with_what_would(monkeypatch):
    monkeypatch.setattr("sims.machine.available_bytes", lambda: 64 << 20)
    with pytest.raises(ParameterError, match=r"needs \d+ bytes and 67108864 are free: N = \d+ would fit"):
        sample_point(MODEL, 100_000, 1.2, [0], 0, solver="krylov")


def test_bytes_grow_with_everything_they_should():
    base = krylov_bytes(MODEL, 10_000, 1.2, eigenpairs=6, dtype="float32")
    assert base > 4 * 12_000 * 10_000
    assert krylov_bytes(MODEL, 10_000, 2.4, eigenpairs=6, dtype="float32") > base
    assert krylov_bytes(MODEL, 10_000, 1.2, eigenpairs=6, dtype="float64") > 1.9 * base
    assert krylov_bytes(MODEL, 10_000, 1.2, eigenpairs=6, dtype="float32", sets=4) > base
    assert krylov_bytes(MODEL, 10_000, 1.2, eigenpairs=6, dtype="float32", stored=False) < base
    assert bytes_needed(MODEL, 10_000, 1.2, solver="krylov", dtype="float32") > 0


def test_bytes_cover_the_arrays_held():
    plan = Plan.of(240, np.dtype("float64"), 4, 2, Settings(basis=96))
    operator = hessian_operator(draw(MODEL, N, 3.0, data=False))
    held = sum(block.nbytes + mirror.nbytes for block, mirror in operator.rows)
    assert data_bytes(N, operator.rows.m, "float64", stored=True) == held
    assert solver_bytes(240, plan, "float64") > 2 * 8 * 240 * 96


@pytest.mark.parametrize(
    ("q2", "degeneracy", "rank"),
    [
        ([0.6, 0.1], 1, 0),  # at most 0.3 is left for any other
        ([0.1, 0.6], 1, 1),
        ([0.4, 0.1], 1, -1),  # 0.5 may sit in one other vector
        ([0.9, 0.8], 2, 0),
        ([0.5, 0.5, 0.2], 2, -1),
        ([0.9, 0.9], 3, -1),  # more than one whole vector is left, but none has more than 1
        ([], 1, -1),
    ],
)
def test_certified_rank(q2, degeneracy, rank):
    assert certified_rank(np.array(q2), degeneracy) == rank


ROWS = np.random.default_rng(0).standard_normal((400, 24)) * np.linspace(0.5, 1.5, 24)
# model, N, alpha, whether ranks are found: above the threshold, and left open below
SAMPLES = [  # p N = 240, as most here: most is compiled once
    (MODEL, 120, 2.5, True),
    (MODEL, 120, 0.8, False),
    (Network(1, 1, a=0.5, noise=0.3, covariance="levels:0.4@0.667,2.2@0.333"), 40, 4.0, None),
    (Network(2, 1, 0.5, inputs=Inputs.of(ROWS)), 24, 3.0, None),
]
MORE = [
    (Network(2, 2, 0.3), 150, 8.0, True),
    (Network(1, 1, 0.3), 300, 4.0, True),
    (Network(3, 1, 0.3), 100, 3.0, True),
    (Network(2, 1, 2.0, "tanh"), 40, 4.0, None),
]


@functools.cache
def of_krylov(model, n, alpha):
    return sample_point(model, n, alpha, [0, 1], 3, solver="krylov")


@quick_rows("model, n, alpha, settled", *SAMPLES, slow=MORE)
def test_krylov_samples_are_the_dense_samples(model, n, alpha, settled):
    """A rank that is given is the dense one."""
    dense, krylov = sample_point(model, n, alpha, [0, 1], 3, solver="dense"), of_krylov(model, n, alpha)
    assert krylov.solver == "krylov" and np.all(dense.status == 1) and np.all(krylov.status == 1)
    # residuals of 1e-6: values to their square over the gaps (above 1e-3), q2 to residual over gap; small ones are solved whole
    assert np.max(np.abs(krylov.eigenvalues - dense.eigenvalues)) < 1e-8
    for name in ("overlaps", "student_shares"):
        assert np.max(np.abs(getattr(krylov, name) - getattr(dense, name))) < (2e-3 if n > 60 else 1e-5)
    known = krylov.max_overlap_rank >= 0
    assert np.array_equal(krylov.max_overlap_rank[known], dense.max_overlap_rank[known])
    assert settled is None or np.any(known) == settled


def test_rows_are_drawn_again_where_memory_is_short(monkeypatch):
    expected = of_krylov(MODEL, N, 2.5)
    monkeypatch.setattr(large, "stores", lambda *_: False)
    found = sample_point(MODEL, N, 2.5, [0], 3, solver="krylov")
    np.testing.assert_allclose(found.eigenvalues[0], expected.eigenvalues[0], rtol=0, atol=1e-9)


@quick_rows("p, p_star, n, alpha", (1, 1, 8, 0.25), (3, 3, 3, 1.2), slow=[(1, 1, 4, 0.25), (2, 1, 4, 0.5)])
def test_degenerate_spaces_have_their_mean_and_no_rank_of_their_own(p, p_star, n, alpha):
    """A null space (M < N), one cut off by the last pair, and p_star = N, where every q2 is 1."""
    model = Committee(p=p, p_star=p_star, a=0.1)
    for sample in range(3):
        dense, krylov = (
            sample_point(model, n, alpha, [sample], 0, solver=solver) for solver in ("dense", "krylov")
        )
        rank = krylov.max_overlap_rank[0]
        assert rank in (-1, dense.max_overlap_rank[0])
        if krylov.eigenvalues.shape[1] == p * n:
            np.testing.assert_allclose(krylov.overlaps, dense.overlaps, atol=1e-6)


def test_the_bound_settles_what_the_sum_does_not():
    model, n, alpha = Committee(p=2, a=0.3), 120, 2.5
    drawn = draw(model, n, alpha, seed=1, data=False)
    pairs = large.solve_krylov(drawn, 6)
    q2, operator = pairs.signal.q2, hessian_operator(drawn)
    signal = signal_vectors(drawn.teacher, 2)
    assert certified_rank(q2, 2) == -1
    assert bounded_rank(operator, pairs.vectors, q2, signal) == np.argmax(q2) == pairs.signal.rank
    # all but the leading vector found: it is in the rest, and the bound sees it
    others = np.arange(6) != np.argmax(q2)
    assert bounded_rank(operator, pairs.vectors[:, others], q2[others], signal) == -1
    # nothing left: the signal lies in what was found
    assert bounded_rank(operator, signal, np.array([1.0, 1.0]), signal) == 0


def test_a_shared_grid_is_its_single_points():
    points = [(Committee(p=2, a=a), alpha) for a, alpha in ((0.3, 1.2), (1.0, 1.5), (0.3, 0.7))]
    grid = sample_grid(points, N, eigenpairs=3, seed=4, settings=Settings(tol=1e-8))
    assert all(pairs.code is Code.CONVERGED for pairs in grid)
    drawn = draw(MODEL, N, 1.5, seed=4, shared=True)
    lam, u = preactivations(drawn)
    for i, (model, alpha) in enumerate(points):
        m = round(alpha * N)
        hessian = dense_blas(np.asarray(drawn.data)[:m], model.weights(lam[:m], model.outputs(u[:m])))
        assert np.allclose(grid[i].values, np.linalg.eigvalsh(hessian)[:3], rtol=0, atol=1e-9)
        assert np.all((grid[i].signal.q2 >= 0) & (grid[i].signal.q2 <= 1))


@pytest.mark.slow
def test_a_shared_grid_without_stored_rows_is_the_same():
    points = [(MODEL, alpha) for alpha in (0.9, 1.2)]
    settings = Settings(tol=1e-6)
    stored = sample_grid(points, N, eigenpairs=3, settings=settings)
    drawn = sample_grid(points, N, eigenpairs=3, settings=settings, stored=False)
    for one, other in zip(stored, drawn, strict=True):
        assert np.allclose(one.values, other.values, rtol=0, atol=1e-9)


def test_one_point_of_a_grid_may_fail_alone():
    points = [(MODEL, 1.2), (MODEL, 0.6)]
    grid = sample_grid(points, N, eigenpairs=2, settings=Settings(products=5))
    assert all(pairs.code is Code.NOT_CONVERGED and np.all(np.isfinite(pairs.values)) for pairs in grid)
    operator = hessian_operator(
        draw(MODEL, N, 1.2, data=False, shared=True), points=[(MODEL, 144), (MODEL, 72)]
    )
    with pytest.raises(ParameterError, match="operator of one set, got 2"):
        lowest_krylov(operator, 2)
    assert stores(MODEL, N, 1.2, 2, "float64")
