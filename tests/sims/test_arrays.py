"""Arrays and whole numbers as they come: the same values in another type give the same result, or one line says no."""

import jax.numpy as jnp
import numpy as np
import pytest

from sims import hessian, instance, signal
from sims.density import Quadrature, measure_of
from sims.dynamics import starts
from sims.dynamics.flow import Rules
from sims.dynamics.problem import riemannian_hessian
from sims.dynamics.run import descend_batch
from sims.dynamics.samples import sample_descents
from sims.instance import draw_on_host
from sims.krylov import krylov_bytes
from sims.krylov.solver import Settings, lowest_krylov
from sims.operator import hessian_operator
from sims.rows import rows_of
from sims.sampling import bytes_needed, preferred_solver, sample_grid, sample_point
from sims.solvers.dense import dense_bytes, lowest_dense
from sims.solvers.krylov import certified_rank
from theory.checks import ParameterError
from theory.model import Committee

MODEL = Committee(2, 1, 1.0)
RNG = np.random.default_rng(3)


def whole(*shape):
    """Whole numbers from -3 to 3: every type holds them."""
    return RNG.integers(-3, 4, shape).astype(np.float64)


def symmetric(n):
    matrix = whole(n, n)
    return matrix + matrix.T


DATA, SIX = whole(6, 4), whole(6, 2)
CALLS = {
    "dense": (hessian.dense, {"data": DATA, "F": np.ones((6, 2, 2))}),
    "dense_blas": (hessian.dense_blas, {"data": DATA, "F": np.ones((6, 2, 2))}),
    "overlaps": (signal.overlaps, {"vectors": whole(8, 3), "teacher": whole(1, 4)}),
    "signal_vectors": (signal.signal_vectors, {"teacher": whole(1, 4)}),
    "gap": (signal.gap, {"values": np.arange(4.0)}),
    "certified_rank": (certified_rank, {"q2": np.array([0.0, 1.0])}),
    "lowest_dense": (lowest_dense, {"hessian": symmetric(6), "signal": np.eye(6)[:, :2]}),
    "spectral_matrix": (starts.spectral_matrix, {"data": DATA, "y": np.arange(1.0, 7)}),
    "spectral_directions": (starts.spectral_directions, {"data": DATA, "y": np.arange(1.0, 7)}),
    "outlier_directions": (starts.outlier_directions, {"vectors": whole(8, 3)}),
    "student_from": (starts.student_from, {"directions": np.eye(4)[:1], "other": np.eye(4)[:2]}),
    "signed": (starts.signed, {"model": MODEL, "data": DATA, "y": np.arange(6.0), "student": whole(2, 4)}),
    "riemannian_hessian": (
        riemannian_hessian,
        {"student": np.ones((2, 4)), "gradient": whole(2, 4), "hessian": symmetric(8)},
    ),
    "descend_batch": (descend_batch, {"data": whole(1, 6, 4), "y": np.arange(6.0)[None], "student": np.ones((1, 2, 4))}),
    "density": (Quadrature(whole(2, 3), np.full((2, 3), 1 / 3)).density, {"x": np.arange(3.0)}),
    "fraction_below": (Quadrature(whole(2, 3), np.full((2, 3), 1 / 3)).fraction_below, {"x": np.arange(3.0)}),
}  # fmt: skip
MORE = {
    "signal_vectors": {"p": 2}, "gap": {"degeneracy": 1}, "certified_rank": {"degeneracy": 1}, "lowest_dense": {"k": 2},
    "spectral_directions": {"p_star": 1}, "outlier_directions": {"p": 2, "p_star": 1}, "student_from": {"p": 2},
    "descend_batch": {"a": 1.0, "rules": Rules(steps=2, records=2)}, "density": {"width": 1.0},
}  # fmt: skip


def forms(array):
    """The array in types that hold its values exactly."""
    yield from (array.astype(kind) for kind in (">f8", ">f4", np.float16, np.longdouble, np.int8, ">i4"))
    yield np.ma.masked_array(array, mask=False)
    yield jnp.asarray(array, jnp.float16)
    yield array.tolist()
    yield np.asfortranarray(array)[::1]


def numbers(result):
    """All numbers of a result, float64 arrays."""
    if hasattr(result, "values") and hasattr(result, "vectors"):
        result = result.values, result.residuals
    parts = result if isinstance(result, tuple | list) else [result]
    return [np.asarray(part, np.float64) for part in parts]


@pytest.mark.parametrize("name", CALLS)
def test_values_count_and_types_do_not(name):
    function, arrays = CALLS[name]
    given = {**arrays, **MORE.get(name, {})}
    right = numbers(function(**given))
    for argument, array in arrays.items():
        if not isinstance(array, np.ndarray):
            continue
        for form in forms(array):
            for found, wanted in zip(numbers(function(**{**given, argument: form})), right, strict=True):
                # float32 where that came: big-endian float32 is float64 of the same values
                np.testing.assert_allclose(
                    found, wanted, rtol=1e-12, atol=1e-12, err_msg=f"{argument} {form!r:.60}"
                )
        masked = np.ma.masked_array(array, mask=np.arange(array.size).reshape(array.shape) == 0)
        with pytest.raises(ParameterError, match="masked"):
            function(**{**given, argument: masked})
        with pytest.raises(ParameterError):
            function(**{**given, argument: array.astype(complex)})


def test_shapes_that_do_not_fit():
    for bad in (
        lambda: signal.overlaps(np.ones(8), np.ones((1, 4))),
        lambda: signal.overlaps(np.ones((7, 2)), np.ones((1, 4))),
        lambda: hessian.dense(np.ones((3, 4)), np.ones((2, 1, 1))),
        lambda: hessian.dense(np.ones((3, 4)), np.ones((3, 2, 1))),
        lambda: hessian.dense_blas(np.ones(4), np.ones((3, 2, 2))),
    ):
        with pytest.raises(ParameterError, match="must"):
            bad()


def test_whole_numbers_of_numpy():
    """n, samples, seeds and sizes as the narrowest integers that hold them."""
    grid = {"settings": Settings(basis=64), "seed": 2}
    for kind in (np.uint8, np.float64):
        n, two = kind(60), kind(2)
        found, wanted = sample_point(MODEL, n, 2.5, [kind(0)], kind(3)), sample_point(MODEL, 60, 2.5, [0], 3)
        np.testing.assert_array_equal(found.eigenvalues, wanted.eigenvalues)
        found = sample_grid([(MODEL, 2.5)], n, eigenpairs=two, **grid)
        np.testing.assert_array_equal(
            found[0].values, sample_grid([(MODEL, 2.5)], 60, eigenpairs=2, **grid)[0].values
        )
        drawn, same = instance.draw(MODEL, n, 2.5, seed=two), instance.draw(MODEL, 60, 2.5, seed=2)
        np.testing.assert_array_equal(drawn.data, same.data)
        np.testing.assert_array_equal(
            next(draw_on_host(MODEL, n, 2.5, [two])).data, next(draw_on_host(MODEL, 60, 2.5, [2])).data
        )
        rows, exact = (rows_of(drawn, size=kind(64)), rows_of(drawn, size=64))
        np.testing.assert_array_equal(rows.stored[1][0], exact.stored[1][0])
        operator = hessian_operator(same)
        np.testing.assert_array_equal(lowest_krylov(operator, two).values, lowest_krylov(operator, 2).values)
        start = np.eye(120)[:, :1]
        np.testing.assert_array_equal(
            measure_of(operator, start, two).nodes, measure_of(operator, start, 2).nodes
        )
        rules = Rules(steps=kind(2), records=two)
        np.testing.assert_array_equal(
            sample_descents(MODEL, n, 2.5, [kind(1)], two, rules=rules).overlap_matrix,
            sample_descents(MODEL, 60, 2.5, [1], 2, rules=Rules(steps=2, records=2)).overlap_matrix,
        )
        for bytes_of in (bytes_needed, dense_bytes, krylov_bytes):
            assert bytes_of(MODEL, kind(100), 2.5, eigenpairs=two) == bytes_of(MODEL, 100, 2.5, eigenpairs=2)
        assert preferred_solver(MODEL, n, 2.5, two) == preferred_solver(MODEL, 60, 2.5, 2)
