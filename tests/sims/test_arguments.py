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
from sims.density import Quadrature, lanczos_quadrature, measure_of
from sims.dynamics import starts
from sims.dynamics.flow import Rules
from sims.dynamics.methods import Descent
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
                "eigenpairs": 0, "hessians": 2, "batch": 1, "workers": 1,
            },
        ),
        "descent_bytes": (descent_bytes, {**point, "batch": 1, "records": 2, "dtype": "float64"}),
    }  # fmt: skip


ALIAS = {
    "model": "p",
    "k": "eigenpairs",
    "points": "alpha",
    "hessian": "signal",
}  # of which a line may speak instead


@pytest.fixture(scope="module")
def good_calls():
    return calls()


def test_every_bad_call_ends_in_one_line_that_names_the_argument(good_calls):
    wrong = []
    for name, (function, good) in good_calls.items():
        for argument, bad in itertools.product(good, BAD):
            said = f"{name} {argument}={bad!r:.30}"
            words = {argument.removesuffix("s"), ALIAS.get(argument, argument)}
            try:
                function(**{**good, argument: bad})
            except ParameterError as error:
                if (
                    "\n" in str(error)
                    or len(str(error)) > 400
                    or not any(word in str(error) for word in words)
                ):
                    wrong.append(f"{said}: {str(error)[:200]}")
            except Exception as error:
                wrong.append(f"{said}: {type(error).__name__} {str(error)[:90]}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


POINTS = "points must be pairs"
REFUSED = [
    ("sample_point", {"alpha": [1.0, 2.0]}, "alpha must be one number"),
    ("sample_point", {"alpha": 0.001}, "alpha N must round to at least one sample"),
    ("sample_point", {"alpha": "2"}, "alpha must be positive and finite, got '2'"),
    ("sample_point", {"n": 10.5}, "n must be an integer of at least 1, got 10.5"),
    ("sample_point", {"model": Committee(1, 31)}, "p_star must be at most N"),
    ("sample_point", {"eigenpairs": 41}, "eigenpairs must be at most p N = 40, got 41"),
    ("sample_point", {"dtype": "float16"}, "dtype must be float32 or float64, got 'float16'"),
    ("sample_point", {"solver": "magic"}, "solver must be one of auto, dense, krylov"),
    ("sample_point", {"seed": 2**63}, "seed must be below"),
    ("sample_point", {"samples": [0, -1]}, "sample must be an integer of at least 0, got -1"),
    ("sample_point", {"samples": [2**32]}, "sample must be below 4294967296"),
    ("sample_grid", {"points": []}, "points must not be empty"),
    ("sample_grid", {"points": [(MODEL, 1.0), (MODEL, -1.0)]}, "alpha must be"),
    *(("sample_grid", {"points": bad}, POINTS) for bad in ([1], [(MODEL,)], "ab", [("x", 1.0)])),
    ("sample_grid", {"points": [(MODEL, 1.0), (Committee(1), 1.0)]}, "points of a shared draw must have one p and p_star"),
    ("lowest_dense", {"hessian": np.eye(3)[:2]}, "hessian must be a square matrix"),
    ("lowest_dense", {"hessian": np.empty((0, 0))}, "hessian must be a square matrix"),
    ("lowest_dense", {"k": 4}, "k must be at most the order of the Hessian, got k = 4, order 3"),
    ("lowest_krylov", {"k": 41}, "k must be at most the order of the Hessian, got k = 41, order 40"),
    *(
        ("lowest_krylov", {"k": 6, "settings": Settings(**{name: bad})}, message)
        for name, bad, message in (
            ("block", 5, "block must be at least the number of pairs 6, got 5"),
            ("block", 10**9, "block must be at most the order 40, got 1000000000"),
            ("basis", 16, "basis must hold at least 4 blocks of 8 columns, got 16"),
            ("tol", -1.0, "tol must be positive and finite, got -1.0"),
            ("products", 1, "products must be an integer of at least 2, got 1"),
            ("seed", -1, "seed must be an integer of at least 0, got -1"),
            ("relative", 0.0, "relative must be positive and finite, got 0.0"),
        )
    ),
    ("operator", {"vectors": np.ones((2, 19, 1))}, r"vectors must have shape \(2, 20, 'k'\), got \(2, 19, 1\)"),
    ("hessian_operator", {"points": [(MODEL, 41)]}, "samples of a point must lie in 1..40, got 41"),
    ("hessian_operator", {"points": [(Committee(1), 40)]}, "points must share p = 2, p_star = 1"),
    ("measure_of", {"start": np.zeros((40, 1))}, "start must have columns of finite length above 0"),
    ("density", {"width": 0.0}, "width must be positive and finite"),
    ("sample_descents", {"start": "warm"}, "start must be one of random, hessian, spectral, overlap:M, got 'warm'"),
    ("sample_descents", {"start": "overlap:2"}, "overlap of a start must lie between -1 and 1, got 2"),
    ("sample_descents", {"start": "overlap:x"}, "start overlap:M must have a number M, got 'x'"),
    ("sample_descents", {"samples": []}, "at least one sample"),
    ("sample_descents", {"eigenpairs": 39}, r"at most p \(N - 1\) = 38"),
    *(
        ("Rules", {name: bad}, name)
        for name, bad in {
            "steps": 2**31, "records": 1, "dynamics": "newton", "loss_floor": -1.0, "accuracy": 0.2, "armijo": 0.6, "share": 1.5
        }.items()
    ),
    ("descend_batch", {"student": np.ones((2, 2, 4))}, "must fit"),
    ("spectral_directions", {"p_star": 5}, "p_star must be at most N = 4, got 5"),
    ("spectral_directions", {"preprocessing": lambda y: y * np.nan}, "finite weights"),
    ("Descent", {"step_size": 0.0}, "step_size must be positive"),
    ("Descent", {"inertia": 1.0}, "inertia must be at least 0 and below 1"),
    ("Descent", {"share": 0.0}, "share must be above 0"),
    ("Descent", {"temperature": -1.0}, "temperature must be 0 or more"),
    ("descend", {"data": "dense"}, "data must be one of matrix, deferred"),
    ("descend", {"data": "deferred", "memory": 10}, "directions of 40 x 20 data take .* none fit"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change", "message"), REFUSED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_does_not_fit_is_refused_in_one_line(good_calls, name, change, message):
    drawn = good_calls["lowest"][1]["drawn"]
    point = {"model": MODEL, "n": N, "alpha": 2.0}
    others = {
        "measure_of": (measure_of, {"operator": hessian_operator(drawn), "steps": 3}),
        "Descent": (Descent, {"step_size": 1.0}),
        "descend": (sims.descend, point),
    }
    arrays = {key: (function, given | MORE.get(key, {})) for key, (function, given) in ARRAYS.items()}
    function, given = {**arrays, **good_calls, **others}[name]
    with pytest.raises(ParameterError, match=rf"^[^\n]*{message}[^\n]*$"):
        function(**(given | change))


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
