"""Draws and solves do not depend on JAX's settings, whoever changes them after the import; threads of BLAS.

These are one for small matrices, and afterwards as many as before, whoever ends last.
"""

import threading

import jax
import numpy as np
import pytest
import threadpoolctl

from sims import backend, instance
from sims.backend import pinned
from sims.density import lanczos_quadrature
from sims.dynamics.flow import Rules
from sims.dynamics.run import descend_batch
from sims.krylov.solver import Settings, lowest_krylov
from sims.operator import hessian_operator
from sims.sampling import sample_point
from sims.solvers import dense as eigen
from theory.model import Committee

MODEL, N, ALPHA = Committee(1, 1, 1.0), 20, 1.5
OF_BLAS = {"user_api": "blas"}
LOWEST = -0.602  # to the three digits that were published with it
FLAGS = {
    "jax_enable_x64": False,
    "jax_default_prng_impl": "rbg",
    "jax_default_matmul_precision": "bfloat16",
    "jax_numpy_dtype_promotion": "strict",
    "jax_numpy_rank_promotion": "raise",
    "jax_debug_nans": True,
    "jax_debug_infs": True,
    "jax_debug_key_reuse": True,
    "jax_transfer_guard": "disallow",
    "jax_disable_jit": True,
    "jax_no_tracing": True,
}
# What changes other things is set at once; each by itself is slow.
TOGETHER = [names.split() for names in (
    "jax_enable_x64",
    "jax_default_prng_impl jax_default_matmul_precision jax_numpy_dtype_promotion jax_numpy_rank_promotion",
    "jax_debug_nans jax_debug_infs jax_debug_key_reuse jax_transfer_guard",
    "jax_disable_jit",
    "jax_no_tracing",
)]  # fmt: skip
STREAMS = {"jax_threefry_partitionable": False, "jax_random_seed_offset": 5}  # each compiles all anew
SETTINGS = [
    *({name: FLAGS[name] for name in names} for names in TOGETHER),
    *(
        pytest.param({name: value}, marks=pytest.mark.slow)
        for name, value in FLAGS.items()
        if [name] not in TOGETHER
    ),
    pytest.param(STREAMS, marks=pytest.mark.slow),
]


@pytest.fixture
def setting():
    """`jax.config.update`, undone at the end."""
    before = {}

    def update(name, value):
        before.setdefault(name, getattr(jax.config, name))
        jax.config.update(name, value)

    yield update
    for name, value in before.items():
        jax.config.update(name, value)


def draws():
    """What is drawn, and an instance."""
    drawn = instance.draw(Committee(2, 2, 0.5), 11, ALPHA, seed=3)
    small = instance.draw(MODEL, N, ALPHA)
    return [np.asarray(part) for part in (drawn.student, drawn.teacher, drawn.data)], small


def everything():
    """Numbers of every public way through sims, none of which may depend on JAX's settings; draws come first."""
    drawn, small = draws()
    operator = hessian_operator(small)
    krylov = lowest_krylov(operator, 2, settings=Settings(block=2, basis=8, mixed=False))
    lam, u = instance.preactivations(small)
    path = descend_batch(
        MODEL,
        small.data[None],
        np.pad(np.mean(u**2, axis=1), (0, len(small.data) - len(u)))[None],
        small.student[None],
        Rules(steps=5, records=3),
    )
    point = sample_point(MODEL, N, ALPHA, [0], 0)
    assert point.status[0] == 1
    return [
        *drawn,
        lam, u,
        point.eigenvalues, point.overlaps, krylov.values, np.asarray(operator(small.student[..., None])),
        lanczos_quadrature(operator, probes=2, steps=6).nodes, np.asarray(path.loss),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def right():
    return everything()


def test_the_published_value():
    assert abs(sample_point(MODEL, N, ALPHA, [0], 0).eigenvalues[0, 0] - LOWEST) < 5e-4


@pytest.mark.parametrize("settings", SETTINGS, ids=" ".join)
def test_no_setting_of_jax_changes_a_number(settings, right, setting):
    for name, value in settings.items():
        setting(name, value)
    for found, expected in zip(everything(), right, strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    for name, value in settings.items():
        assert getattr(jax.config, name) == value  # and it is left as it was


def test_no_setting_of_jax_changes_a_draw(right, setting):
    for name, value in STREAMS.items():
        setting(name, value)
    for found, expected in zip(draws()[0], right, strict=False):
        np.testing.assert_array_equal(found, expected)


def test_settings_end_with_an_exception(setting):
    setting("jax_enable_x64", False)

    @pinned
    def fail():
        assert jax.config.jax_enable_x64
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not jax.config.jax_enable_x64


def numbers():
    """Threads of each copy of BLAS in this process, as the libraries say."""
    return [
        library["num_threads"]
        for library in threadpoolctl.threadpool_info()
        if OF_BLAS.items() <= library.items()
    ]


@pytest.fixture
def three():
    """Three threads everywhere, whatever the machine has."""
    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        yield [3] * len(numbers())


def test_small_matrices_have_one_thread_and_large_ones_all(three):
    with backend.threads_for(100), backend.threads_for(200):
        assert numbers() == [1] * len(three)
    with backend.threads_for(backend.ALONE + 1):
        assert numbers() == three


def test_they_are_given_back_after_an_error(three):
    with pytest.raises(ZeroDivisionError), backend.threads_for(10):
        raise ZeroDivisionError
    assert numbers() == three


def test_threads_of_python_that_overlap_leave_all_as_it_was():
    """Of many that begin and end at any moment."""

    def work():
        for _ in range(20):
            with backend.one_thread():
                np.eye(20) @ np.eye(20)

    before = numbers()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers() == before


def test_lowest_pairs_are_found_under_it(three, monkeypatch):
    seen, real = [], eigen.blas
    monkeypatch.setattr(eigen, "blas", lambda *which: seen.append(numbers()) or real(*which))
    eigen.lowest_dense(np.eye(20), 2)
    assert all(found == [1] * len(three) for found in seen) and numbers() == three
