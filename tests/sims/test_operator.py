"""H V without H: against the dense matrix, in every layout of the data; one compilation for a sweep."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sims.dynamics.flow import Rules
from sims.dynamics.run import descend_batch
from sims.hessian import dense_blas
from sims.instance import draw, outputs
from sims.operator import hessian_operator
from sims.rows import block_size, rows_of
from tests.sims.instances import Case, dense_hessian, quick_rows
from theory.model import Activation, Committee, Loss, Network, Target

N = 40


def vectors(case, k=5, dtype=np.float64):
    return np.random.default_rng(3).standard_normal((case.p, case.n, k)).astype(dtype)


LAYOUTS = [{}, {"size": 17}, {"stored": False}]
WIDTHS = [(1, 1), (3, 2), (17, 1), (2, 1), (4, 3)]
QUICK = [(3, 2, layout, "float64") for layout in LAYOUTS] + [
    (1, 1, {}, "float64"),
    (17, 1, {"size": 17}, "float64"),
    (2, 1, {}, "float32"),
    (2, 1, {"stored": False}, "float32"),
]
EVERY = [(*widths, layout, "float64") for widths in WIDTHS for layout in LAYOUTS]


@quick_rows("p, p_star, layout, dtype", *QUICK, slow=[row for row in EVERY if row not in QUICK])
def test_every_layout_is_the_dense_matrix(p, p_star, layout, dtype):
    """To the rounding of the dtype."""
    case = Case(N, p, p_star, 0.3, 3.7, 4, 1)
    instance, v = case.instance(dtype), vectors(case, dtype=dtype)
    found, hessian = np.asarray(hessian_operator(instance, **layout)(v)), dense_hessian(instance)
    exact = (hessian @ v.reshape(p * N, -1)).reshape(v.shape)
    scale = np.linalg.norm(hessian, 2) * np.max(np.linalg.norm(v, axis=(0, 1)))
    assert found.dtype == dtype
    assert np.max(np.linalg.norm(found - exact, axis=(0, 1))) < 8 * np.finfo(dtype).eps * scale


def test_rows_drawn_when_needed_are_the_stored_rows():
    instance = draw(Committee(), N, 3.0, seed=2, data=False)
    reference = draw(Committee(), N, 3.0, seed=2).data[:120]
    for size in (7, 128, 1000):
        for rows in (rows_of(instance, stored=stored, size=size) for stored in (True, False)):
            data = np.concatenate([np.asarray(block) for block, _ in rows])[:120]
            # rows are bits of their own key, in blocks of any size
            assert np.array_equal(data, reference)


def test_lowered_is_the_operator_in_float32():
    case = Case(N, 2, 1, 0.3, 3.7, 4, 1)
    operator, v = hessian_operator(case.instance()), vectors(case)
    lowered = operator.lowered()
    assert lowered.dtype == np.float32
    assert lowered.lowered() is lowered
    full = np.asarray(operator(v))
    assert np.max(np.abs(np.asarray(lowered(v)) - full)) < 1e-5 * np.max(np.abs(full))
    assert hessian_operator(case.instance(), stored=False).lowered() is None


def test_sets_on_shared_data_are_the_single_hessians():
    instance = draw(Committee(p=2, a=0.3), N, 4.0, seed=5, shared=True)
    points = [(Committee(p=2, a=a), m) for a, m in ((0.3, 160), (0.3, 90), (2.0, 33))]
    operator = hessian_operator(instance, size=50, points=points)
    v = np.random.default_rng(0).standard_normal((3, 2, N, 4))
    found = np.asarray(operator(v))
    data = np.asarray(instance.data)
    lam, u = data @ np.asarray(instance.student).T, data @ np.asarray(instance.teacher).T
    for (model, m), one, product in zip(points, v, found, strict=True):
        hessian = dense_blas(data[:m], model.weights(lam[:m], model.outputs(u[:m])))
        assert np.allclose(product.reshape(80, 4), hessian @ one.reshape(80, 4), atol=1e-12)
    some = operator.product([2, 0], [jnp.asarray(_interleaved(v[i])) for i in (2, 0)])
    for i, product in zip((2, 0), some, strict=True):
        product = product * operator.units[i]
        assert np.allclose(product, _interleaved(found[i]), atol=1e-12)
        assert np.allclose(operator.ordered(product).reshape(2, N, 4), found[i], atol=1e-12)


def _interleaved(block):
    """(p, N, k) -> (p N, k), rows i p + q: the order in which the solver keeps vectors."""
    return np.transpose(block, (1, 0, 2)).reshape(2 * N, -1)


def test_one_compilation_serves_every_alpha():
    compiled = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    v = np.ones((2, N, 4))
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for i, alpha in enumerate(np.linspace(3.0, 9.0, 16)):
            instance = draw(Committee(p=2, a=0.3 + alpha), N, float(alpha), data=False)
            np.asarray(hessian_operator(instance, size=64)(v))
            if i == 0:
                first = len(compiled)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert first > 0
    assert len(compiled) == first


def test_blocks_of_rows_come_in_few_sizes():
    """Nine in each octave of M while one block holds all, a few near the largest beyond; one step compiles for each."""
    assert len({block_size(m, 4000, np.float64) for m in range(2048, 8000, 10)}) <= 18
    assert len({block_size(m, 10**5, np.float64) for m in range(10**5, 2 * 10**5, 100)}) <= 3
    assert len({block_size(m, 4000, np.float64, stored=False) for m in range(4000, 8000, 10)}) <= 3
    assert len({block_size(m, 50, np.float64) for m in range(1, 2000)}) <= 30


def tanh_of(c):
    def slope(x, xp):
        return c * (1 - xp.tanh(c * x) ** 2)

    def second(x, xp):
        return -2 * c * xp.tanh(c * x) * slope(x, xp)

    return Activation("mine", lambda x, xp: xp.tanh(c * x), slope, second, "odd", 0.0, -1.0)


def loss_of(c):
    return Loss(
        "mine",
        lambda y, yhat, a, xp: c * (y - yhat) ** 2,
        lambda y, yhat, a, xp: -2 * c * (y - yhat),
        lambda y, yhat, a, xp: 2 * c + 0 * y,
    )


def target_of(c):
    return Target("mine", lambda u, xp: xp.sin(c * u[..., 0]))


@pytest.mark.parametrize("own, of", [("activation", tanh_of), ("loss", loss_of), ("target", target_of)])
def test_functions_that_change_under_one_name_are_the_new_ones(own, of):
    """As in a notebook, whose cell is run again."""
    seen = []
    for c in (1.0, 2.0):
        model = Network(**({"activation": "tanh", "loss": "squared"} | {own: of(c)}))
        instance = draw(model, N, 3.0, seed=1)
        dense = dense_hessian(instance)
        found = np.asarray(hessian_operator(instance)(np.eye(N)[None]))[0]
        np.testing.assert_allclose(found, dense, atol=1e-12 * np.linalg.norm(dense, 2))
        data, y, student = (
            np.asarray(instance.data)[: instance.m],
            outputs(instance),
            np.asarray(instance.student),
        )
        path = descend_batch(model, data[None], y[None], student[None], Rules(steps=2, records=2))
        here = model.rule.value(y, model.student_outputs(data @ student.T), model.a, np)
        np.testing.assert_allclose(path.loss[0, 0], np.sum(here), rtol=1e-12)
        seen.append(dense)
    assert not np.allclose(*seen)
