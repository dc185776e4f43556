"""Arguments of public functions: every bad call ends in one line, a ParameterError that names the argument; the same values in
another type, arrays and whole numbers as they come, give the same result.
"""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sims
from sims import hessian, instance, signal
from sims.density import Quadrature, lanczos_quadrature
from sims.dynamics import starts
from sims.dynamics.flow import Rules
from sims.dynamics.problem import riemannian_hessian
from sims.dynamics.run import descend_batch
from sims.dynamics.samples import bytes_needed as descent_bytes
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

MODEL, N = Committee(2, 1, 1.0), 20
BAD = (
    None, "x", b"x", "", [], {}, (), -1, 0, 2.5, 1e400, float("nan"), 10**400, 1j, True, object(), [1, 2], [[1.0, "a"]],
    np.eye(2), np.array([None]), Committee(float("inf")), lambda: None,
)  # fmt: skip


def calls():
    """Public functions and good arguments, of one shape."""
    drawn = instance.draw(MODEL, N, 2.0)
    operator = hessian_operator(drawn)
    point = {"model": MODEL, "n": N, "alpha": 2.0}
    seeds = {"seed": 3, "dtype": "float64"}
    return {
        "draw": (instance.draw, {**point, **seeds, "sample": 0, "data": False, "shared": False}),
        "draw_on_host": (draw_on_host, {**point, **seeds, "samples": [0]}),
        "samples_of": (instance.samples_of, {"alpha": 2.0, "n": N}),
        "point_words": (instance.point_words, {"seed": 3, "n": N, "alpha": 2.0}),
        "preactivations": (instance.preactivations, {"instance": drawn}),
        "outputs": (instance.outputs, {"instance": drawn}),
        "sample_point": (
            sample_point,
            {**point, **seeds, "samples": [0], "eigenpairs": 2, "solver": "dense", "batch": 1, "observables": []},
        ),
        "lowest": (sims.lowest, {"drawn": drawn, "k": 2, "solver": "dense"}),
        "hessian": (sims.hessian, {"drawn": drawn}),
        "density_of_states": (sims.density_of_states, {"drawn": drawn, "probes": 2, "steps": 4, "seed": 0}),
        "bytes_needed": (
            bytes_needed,
            {**point, "eigenpairs": 2, "dtype": "float64", "solver": "dense", "batch": 1},
        ),
        "lowest_dense": (lowest_dense, {"hessian": np.eye(3), "k": 1, "signal": np.eye(3)[:, :1], "overwrite": False}),
        "lowest_krylov": (
            lowest_krylov,
            {"operator": operator, "k": 1, "degeneracy": 1, "settings": Settings(basis=64)},
        ),
        "operator": (operator, {"vectors": np.ones((2, N, 2))}),
        "hessian_operator": (hessian_operator, {"instance": drawn, "size": 16}),
        "rows_of": (rows_of, {"instance": drawn, "size": 16}),
        "lanczos_quadrature": (
            lanczos_quadrature,
            {"operator": operator, "probes": 2, "steps": 3, "seed": 0},
        ),
        "sample_grid": (
            sample_grid,
            {"points": [(MODEL, 2.0)], "n": N, "eigenpairs": 2, **seeds, "settings": Settings(basis=64)},
        ),
        "krylov_bytes": (
            krylov_bytes,
            {**point, "eigenpairs": 2, "dtype": "float64", "settings": Settings(), "sets": 1, "devices": 1},
        ),
        "dense_bytes": (dense_bytes, {**point, "eigenpairs": 2, "dtype": "float64"}),
        "preferred_solver": (preferred_solver, {**point, "k": 2, "dtype": "float64"}),
        "Rules": (
            Rules,
            {"steps": 5, "records": 3, "tolerance": 0.1, "share": 1.0, "armijo": 0.25, "power_iterations": 2},
        ),
        "sample_descents": (
            sample_descents,
            {
                **point, **seeds, "samples": [0], "start": "random", "rules": Rules(steps=2, records=2),
                "eigenpairs": 0, "hessians": 2, "batch": 1, "workers": 1, "memory": 2**30,
            },
        ),
        "descent_bytes": (descent_bytes, {**point, "batch": 1, "records": 2, "dtype": "float64"}),
    }  # fmt: skip


def test_every_bad_call_ends_in_one_line():
    wrong = []
    for name, (function, good) in calls().items():
        for argument, bad in itertools.product(good, BAD):
            said = f"{name} {argument}={bad!r:.30}"
            try:
                function(**{**good, argument: bad})
            except ParameterError as error:
                if "\n" in str(error) or len(str(error)) > 400:
                    wrong.append(f"{said}: {str(error)[:200]}")
            except Exception as error:
                wrong.append(f"{said}: {type(error).__name__} {str(error)[:90]}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


RNG = np.random.default_rng(3)


def whole(*shape):
    """Whole numbers from -3 to 3: every type holds them."""
    return RNG.integers(-3, 4, shape).astype(np.float64)


def symmetric(n):
    matrix = whole(n, n)
    return matrix + matrix.T


DATA, SIX = whole(6, 4), whole(6, 2)
ARRAYS = {
    "dense": (hessian.dense, {"data": DATA, "F": np.ones((6, 2, 2))}),
    "dense_blas": (hessian.dense_blas, {"data": DATA, "F": np.ones((6, 2, 2))}),
    "overlaps": (signal.overlaps, {"vectors": whole(8, 3), "teacher": whole(1, 4)}),
    "signal_vectors": (signal.signal_vectors, {"teacher": whole(1, 4)}),
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
    "signal_vectors": {"p": 2}, "certified_rank": {"degeneracy": 1}, "lowest_dense": {"k": 2},
    "spectral_directions": {"p_star": 1}, "outlier_directions": {"p": 2, "p_star": 1}, "student_from": {"p": 2},
    "descend_batch": {"model": MODEL, "rules": Rules(steps=2, records=2)}, "density": {"width": 1.0},
}  # fmt: skip


def forms(array):
    """The array in types that hold its values exactly."""
    yield from (array.astype(kind) for kind in (">f8", ">f4", np.float16, np.longdouble, np.int8, ">i4"))
    yield np.ma.masked_array(array, mask=False)
    yield jnp.asarray(array, jnp.float16)
    yield array.tolist()
    yield np.asfortranarray(array)[::1]


def leaves(result):
    """All numbers of a result and of its parts."""
    if dataclasses.is_dataclass(result) and not isinstance(result, Committee):
        return leaves([getattr(result, field.name) for field in dataclasses.fields(result)])
    if isinstance(result, jax.Array) and jax.dtypes.issubdtype(result.dtype, jax.dtypes.prng_key):
        return [np.asarray(jax.random.key_data(result))]
    if isinstance(result, int | float | np.number | np.ndarray | jax.Array):
        return [np.asarray(result)]
    if isinstance(result, str | dict) or not hasattr(result, "__iter__"):
        return []
    return [leaf for part in result for leaf in leaves(part)]


@pytest.mark.parametrize("name", ARRAYS)
def test_values_count_and_types_do_not(name):
    function, arrays = ARRAYS[name]
    given = {**arrays, **MORE.get(name, {})}
    right = leaves(function(**given))
    for argument, array in arrays.items():
        if not isinstance(array, np.ndarray):
            continue
        for form in forms(array):
            for found, wanted in zip(leaves(function(**{**given, argument: form})), right, strict=True):
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


def small(value):
    """Whether uint8 holds it."""
    return isinstance(value, int) and not isinstance(value, bool) and value < 256


@pytest.mark.parametrize("kind", [np.uint8, np.float64])
def test_whole_numbers_of_numpy(kind):
    """n, samples, seeds and sizes as the narrowest integers that hold them, whose products overflow, and as floats."""
    compared = 0
    for name, (function, good) in calls().items():
        given = {key: kind(value) if small(value) else value for key, value in good.items()}
        if "samples" in good:
            given["samples"] = [kind(sample) for sample in good["samples"]]
        right = leaves(function(**good))
        for found, wanted in zip(leaves(function(**given)), right, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=name)
        compared += len(right)
    assert compared > 100
