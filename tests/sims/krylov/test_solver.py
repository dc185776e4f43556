"""Block Krylov against dense eigh: no missing and no false pairs. tests/README.md states the oracles."""

import numpy as np
import pytest

from sims.krylov import FLOOR, Settings
from sims.krylov.solver import lowest_krylov
from sims.operator import hessian_operator
from sims.solvers import Code
from tests.sims.instances import (
    Case,
    Matrix,
    dense_hessian,
    projector_error,
    quick_rows,
    random_cases,
    with_spectrum,
)

SMALL = random_cases([(1, 1), (1, 4), (2, 1), (2, 3), (3, 2)], 2, seed=11)
MIDDLE = random_cases([(240, 1), (120, 2), (80, 3), (60, 4)], 3, seed=12)
QUICK = [SMALL[0], SMALL[6], MIDDLE[0], MIDDLE[3], MIDDLE[9]]
SINGLE = random_cases([(60, 4), (240, 1)], 2, seed=13)


WIDTHS = [1, 2, 3, 4]
WHOLE_RANGE = [
    *random_cases([(n, p) for n in (1, 2, 3) for p in WIDTHS], 3, seed=14),
    *random_cases([(n, p) for n in (10, 40, 120) for p in WIDTHS], 8, seed=15),
    *random_cases([(n, p) for n in (250, 500) for p in WIDTHS], 6, seed=16),
    *random_cases([(1000, p) for p in WIDTHS], 5, seed=17),
]  # 200 instances


def check_against_dense(case, dtype="float64", tol=1e-8, settings=None):
    """The lowest k pairs are those of dense eigh, each once, vectors in the right spaces.

    float64: values to 1e-8. float32: values to 16 eps |H|, the error stated in docs/large_n.md, against the float64
    eigenvalues of the float32 data.
    """
    instance = case.instance(dtype)
    hessian = dense_hessian(instance)
    values, vectors = np.linalg.eigh(hessian)
    norm = max(abs(values[0]), abs(values[-1]))
    if settings is None:  # a small basis: the Krylov path with restarts even at small orders
        settings = Settings(tol=tol, block=14, basis=84)
    found = lowest_krylov(
        hessian_operator(instance), case.k, degeneracy=case.p * case.p_star, settings=settings
    )
    rounding = float(np.finfo(dtype).eps) * norm
    accuracy = 1e-8 if dtype == "float64" else 16 * rounding
    assert found.code is Code.CONVERGED, found.stats
    assert np.max(np.abs(found.values - values[: case.k])) <= accuracy
    true = np.linalg.norm(hessian @ found.vectors - found.vectors * found.values, axis=0)
    assert np.max(true) <= found.stats["tol"] + 4 * rounding
    assert np.max(np.abs(true - found.residuals)) <= 8 * rounding
    skew = found.vectors.T @ found.vectors - np.eye(case.k)
    assert np.max(np.abs(skew)) <= 100 * np.finfo(dtype).eps
    # Davis-Kahan: outside the eigenvectors within `width` a vector has at most residual / (width - error)
    width = 1e-3 * norm
    outside = projector_error(found.values, found.vectors.astype(np.float64), values, vectors, width)
    assert outside <= 2 * (np.max(true) + accuracy) / width


@quick_rows("case", *QUICK, slow=[case for case in SMALL + MIDDLE if case not in QUICK])
def test_float64_is_dense_eigh(case):
    check_against_dense(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", SINGLE, ids=str)
def test_float32_is_dense_eigh_to_its_error(case):
    check_against_dense(case, "float32", tol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tol"), [("float64", 1e-8), ("float32", 1e-5)])
@pytest.mark.parametrize("case", WHOLE_RANGE, ids=str)
def test_two_hundred_instances(case, dtype, tol):
    check_against_dense(case, dtype, settings=Settings(tol=tol))


@quick_rows("n", 2, 20, slow=[1, 3])
def test_every_pair_of_small_hessians(n):
    for k in range(1, 2 * n + 1) if n < 20 else [40]:
        check_against_dense(Case(n, 2, 1, 0.3, 2.0 if n < 20 else 1.2, 5, k), settings=Settings())


def test_mixed_precision_meets_the_tolerance_in_float64():
    check_mixed = Case(120, 2, 1, 0.3, 1.2, 7, 6)
    instance = check_mixed.instance()
    hessian = dense_hessian(instance)
    for tol in (1e-4, 1e-6):
        found = lowest_krylov(hessian_operator(instance), 6, settings=Settings(tol=tol, block=14, basis=84))
        assert found.code is Code.CONVERGED
        assert found.stats["products_float32"] > 0
        assert found.vectors.dtype == np.float64
        true = np.linalg.norm(hessian @ found.vectors - found.vectors * found.values, axis=0)
        assert np.max(true) <= tol
        assert np.max(np.abs(found.values - np.linalg.eigvalsh(hessian)[:6])) <= tol**2 / 1e-3 + 1e-12


SPECTRA = {
    **{f"{c} copies": np.concatenate([np.full(c, -1.0), np.linspace(0.0, 30.0, 240 - c)]) for c in (2, 5, 8)},
    "neighbours": np.concatenate([[-1.2, -1.2 + 1e-7, -1.0], np.linspace(-0.9, 50.0, 237)]),
    # the Krylov space of any block is exhausted after two steps, the rest is a null space of dimension 237
    "rank 3": np.concatenate([[-2.0, -1.0], np.zeros(237), [5.0]]),
    "zero": np.zeros(240),
}


@pytest.mark.parametrize(
    ("name", "scale"),
    [*((name, 1.0) for name in SPECTRA), *(("neighbours", scale) for scale in (1e-155, 1e-6, 1e6, 1e155))],
)
def test_no_pair_of_a_spectrum_is_missed(name, scale):
    """No copy of a degenerate one, no invariant space that ends the search, and in no unit of the matrix."""
    spectrum = SPECTRA[name]
    matrix, q = with_spectrum(spectrum * scale)
    found = lowest_krylov(Matrix(matrix), 8, settings=Settings(tol=1e-8 * scale, basis=64))
    assert found.code is Code.CONVERGED
    np.testing.assert_allclose(found.values / scale, spectrum[:8], rtol=0, atol=1e-9)
    assert np.max(np.abs(found.vectors.T @ found.vectors - np.eye(8))) < 1e-12
    near = spectrum - spectrum[0] < 1e-3
    if np.sum(near) <= 8:  # the lowest space is whole
        space, member = found.vectors[:, near[:8]], q[:, near]
        assert np.linalg.norm(space @ space.T - member @ member.T) < 1e-6


@pytest.mark.parametrize(
    ("exponent", "dtype"),
    [
        (-300, "float64"),
        (-160, "float64"),
        (160, "float64"),
        (-36, "float32"),
        (-20, "float32"),
        (30, "float32"),
    ],
)
def test_no_false_convergence_at_the_ends_of_the_numbers(exponent, dtype):
    """Squares of such numbers underflow or overflow: the result is right, or not called converged."""
    scale = 10.0**exponent
    spectrum = np.linspace(-1.0, 30.0, 240)
    matrix, _ = with_spectrum(spectrum)
    with np.errstate(all="ignore"):
        # where it converges it does so within 60 products
        settings = Settings(tol=1e-4 * scale, block=8, basis=64, mixed=False, products=200)
        found = lowest_krylov(Matrix((matrix * scale).astype(dtype)), 4, settings=settings)
    if found.code is Code.CONVERGED:
        assert np.allclose(found.values / scale, spectrum[:4], atol=1e-3)


def test_products_are_counted_over_both_precisions():
    matrix, _ = with_spectrum(np.linspace(0, 100, 240))
    for products in (2, 3, 6, 11, 40):
        found = lowest_krylov(Matrix(matrix), 8, settings=Settings(products=products, basis=64, tol=1e-5))
        assert found.stats["products"] + found.stats.get("products_float32", 0) <= products


def test_a_tolerance_at_rounding_is_met_after_many_restarts():
    """Rounding of hundreds of products is in Q and T: the search begins anew from what it found."""
    values = np.repeat(np.linspace(-1, 1, 48), 5)[:120]
    for seed in (0, 2):
        small, _ = with_spectrum(values, seed)
        matrix = np.kron(np.eye(2), small)
        found = lowest_krylov(
            Matrix(matrix), 8, settings=Settings(block=8, basis=96, tol=1e-30, products=1500)
        )
        assert found.code is Code.CONVERGED, found.stats
        assert np.allclose(found.values, np.sort(np.tile(values, 2))[:8], atol=1e-12)


def test_best_pairs_when_products_run_out():
    matrix, _ = with_spectrum(np.linspace(0, 100, 240))
    found = lowest_krylov(Matrix(matrix), 8, settings=Settings(products=6, basis=64))
    assert found.code is Code.NOT_CONVERGED
    assert found.stats["products"] <= 6
    true = np.linalg.norm(matrix @ found.vectors - found.vectors * found.values, axis=0)
    assert np.allclose(true, found.residuals, atol=1e-10)
    assert np.max(found.residuals) > found.stats["tol"]


def test_a_matrix_that_is_not_finite_is_reported():
    matrix, _ = with_spectrum(np.linspace(0, 1, 240))
    matrix[3, 4] = np.nan
    found = lowest_krylov(Matrix(matrix), 8, settings=Settings(basis=64))
    assert found.code is Code.INVALID
    assert np.all(np.isnan(found.values))


def test_a_tolerance_below_rounding_is_raised_and_said():
    matrix, _ = with_spectrum(np.linspace(-1, 100, 240))
    found = lowest_krylov(Matrix(matrix), 2, settings=Settings(tol=1e-16, basis=96))
    assert found.code is Code.CONVERGED
    assert 1e-16 < found.stats["tol"] <= FLOOR * np.finfo(float).eps * 101
    assert np.max(found.residuals) <= found.stats["tol"]


def test_results_do_not_depend_on_block_or_basis():
    operator = hessian_operator(Case(120, 2, 1, 0.3, 1.2, 9, 4).instance())
    results = [
        lowest_krylov(operator, 4, settings=Settings(block=block, basis=basis, seed=seed))
        for block, basis, seed in ((14, 84, 0), (8, 64, 2))
    ]
    for found in results:
        assert np.allclose(found.values, results[0].values, rtol=0, atol=1e-10)
