"""What runs on a GPU only, run here under its name: the same numbers as on the host, and plans of memory that hold."""

import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from bbp.experiments import columns
from benchmarks import gpu_large
from sims import hessian, krylov, machine
from sims.dynamics.flow import Rules
from sims.dynamics.samples import sample_descents
from sims.instance import draw, padded
from sims.operator import hessian_operator
from sims.rows import block_size, row_mesh
from sims.sampling import bytes_needed, preferred_solver, sample_point
from sims.solvers.dense import _matrix_on_device, dense_bytes, lowest_dense
from sims.solvers.krylov import solve_krylov
from sims.threefry import row_halves
from tests.sims.instances import quick_rows
from theory.model import Committee

MODEL = Committee(2, 1, 0.3)


@pytest.fixture
def on_gpu(monkeypatch):
    """A function: from here on JAX's backend has the name of a GPU."""
    return lambda: monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


@quick_rows("mesh, stored", (None, True), (row_mesh(), False), slow=[(None, False), (row_mesh(), True)])
def test_products_agree(on_gpu, mesh, stored):
    vectors = np.random.default_rng(0).normal(size=(2, 40, 3))
    host = hessian_operator(draw(MODEL, 40, 2.0, seed=1, data=False), stored=stored, mesh=mesh)(vectors)
    on_gpu()
    device = hessian_operator(draw(MODEL, 40, 2.0, seed=1, data=False), stored=stored, mesh=mesh)
    assert all(mirror is None for _, mirror in device.rows)
    np.testing.assert_allclose(device(vectors), host, rtol=1e-12, atol=1e-12)


def test_a_search_agrees(on_gpu):
    host = solve_krylov(draw(MODEL, 120, 2.5, seed=3, data=False), 4)
    on_gpu()
    device = solve_krylov(draw(MODEL, 120, 2.5, seed=3, data=False), 4)
    assert device.code is host.code
    np.testing.assert_allclose(device.values, host.values, atol=2e-6)
    np.testing.assert_allclose(device.signal.q2, host.signal.q2, atol=1e-3)


def test_drawn_data_agree(on_gpu):
    drawn = draw(MODEL, 30, 2.0, seed=5)
    host, weights = np.asarray(drawn.data), hessian.weights_of(drawn)
    on_gpu()
    device = draw(MODEL, 30, 2.0, seed=5)
    np.testing.assert_array_equal(device.data, host)
    np.testing.assert_allclose(hessian.weights_of(device), weights, rtol=1e-11, atol=1e-12)


def test_descents_agree(on_gpu):
    """All samples of a call in one batch, from their Hessians' own outliers, by one thread: what a card is given."""

    def descents():
        model, rules = Committee(2, 1, 0.7), Rules(steps=30)
        asked = {"seed": 5, "rules": rules, "start": "hessian", "eigenpairs": 3, "hessians": 3}
        return sample_descents(model, 30, 2.0, range(2), **asked)

    host = descents()
    on_gpu()
    device = descents()
    assert not np.any(device.reason)
    np.testing.assert_array_equal(device.code, host.code)
    for name in ("overlap_matrix", "loss", "eigenvalues"):
        scale = np.nanmax(np.abs(getattr(host, name)))
        np.testing.assert_allclose(
            getattr(device, name), getattr(host, name), atol=1e-8 * scale, err_msg=name
        )


def test_sizes_and_solvers_are_those_of_the_card(on_gpu):
    host = block_size(10**6, 10**4, "float32")
    on_gpu()
    assert block_size(10**6, 10**4, "float32") != host
    assert block_size(10**6, 10**7, "float64") >= machine.ROWS  # whatever its bytes
    rows = hessian_operator(draw(MODEL, 100, 10.0, dtype="float32", data=False)).rows
    kept = sum(half.nbytes for halves, _ in rows for half in halves)
    assert krylov.data_bytes(100, 1000, "float32", stored=True) == kept
    one, four = (krylov.krylov_bytes(MODEL, 100, 40.96, eigenpairs=4, devices=d) for d in (1, 4))
    shared = krylov.data_bytes(100, 4096, "float64", stored=True, mixed=False)
    assert one - four == 3 * shared / 4  # rows on each of four cards; bases are on one
    chosen = [preferred_solver(MODEL, n, 2.0, 4, "float32") for n in (200, 4000, 20_000)]
    assert chosen == ["dense", "dense", "krylov"]


@quick_rows("p, p_star", (2, 2), slow=[(1, 1)])
def test_samples_agree_and_do_not_depend_on_their_company(on_gpu, p, p_star):
    """By the device's own routines: drawing, matrix, eigenpairs, overlaps. Matrices are solved together, always as many."""
    model = Committee(p, p_star, 0.3)
    host = sample_point(model, 50, 2.5, range(3), 0)
    on_gpu()
    drawn = draw(model, 50, 2.5)
    found = lowest_dense(_matrix_on_device(drawn, hessian.weights_of(drawn)), 2)
    assert found.stats["method"] == "device eigh" and found.signal is None
    device, alone = (sample_point(model, 50, 2.5, samples, 0) for samples in (range(3), [1]))
    np.testing.assert_allclose(device.eigenvalues, host.eigenvalues, atol=1e-12)
    np.testing.assert_allclose(device.overlaps, host.overlaps, atol=1e-9)
    np.testing.assert_array_equal(device.max_overlap_rank, host.max_overlap_rank)
    assert np.all(device.status == 1) and np.all(device.residuals < 1e-12)
    np.testing.assert_array_equal(device.eigenvalues[1], alone.eigenvalues[0])
    np.testing.assert_array_equal(device.overlaps[1], alone.overlaps[0])
    asked = {"eigenpairs": 4, "dtype": "float64"}
    one = dense_bytes(model, 50, 2.5, **asked)
    assert bytes_needed(model, 50, 2.5, **asked) == machine.solved_together(50 * p, 8) * one > one


@pytest.mark.parametrize("item", [4, 8])
def test_choices_follow_from_the_data_sheet(item):
    """A slower memory moves each of them; a dense solve is left where a search is PATIENCE times as fast."""
    n = next(n for n in range(1000, 20_000, 100) if not machine.prefers_dense(2 * n, n, 2, item))
    ratio = machine.dense_seconds(2 * n, item) / machine.search_seconds(2 * n, n, 2, 8, item)
    assert machine.PATIENCE < ratio < 1.1 * machine.PATIENCE
    kept, drawn = (machine.product_seconds(10**5, 10**5, 16, item, stored=stored) for stored in (True, False))
    assert kept < drawn
    many = machine.solved_together(500, item)
    assert machine.dense_seconds(500, item, together=many) < machine.dense_seconds(500, item) / 10


@pytest.mark.parametrize(
    "stats, free",
    [({"bytes_limit": 9000, "bytes_in_use": 2000}, 7000), ({"bytes_limit": 9000}, 9000), (None, None)],
)
def test_free_memory_is_what_the_pool_of_the_card_leaves(on_gpu, monkeypatch, stats, free):
    device = SimpleNamespace(memory_stats=lambda: stats, platform="gpu", device_kind="NVIDIA H100")
    monkeypatch.setattr(jax, "devices", lambda: [device])
    on_gpu()
    assert machine.available_bytes() == free
    assert columns.device() == "gpu: NVIDIA H100"


def held(function, *shapes, static=()):
    """Bytes that XLA plans for a compiled step: arguments, results, and what it needs meanwhile."""
    plan = jax.jit(function, static_argnums=static).lower(*shapes).compile().memory_analysis()
    return plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes


@pytest.mark.parametrize("p, dtype", [(1, "float32"), (2, "float64")])
def test_the_plan_of_a_dense_solve_holds_what_xla_plans(on_gpu, p, dtype):
    on_gpu()
    n, alpha = 300, 2.0
    rows = padded(int(alpha * n))
    with jax.enable_x64(True):
        data, weights = (jax.ShapeDtypeStruct(shape, dtype) for shape in ((rows, n), (rows,)))
        build = held(hessian._block, data, weights)
        solve = held(jax.numpy.linalg.eigh, jax.ShapeDtypeStruct((p * n, p * n), dtype))
    planned = dense_bytes(Committee(p, 1, 0.3), n, alpha, eigenpairs=4, dtype=dtype)
    assert max(build, solve) < planned < 4 * max(build, solve)


def test_the_plan_of_streamed_rows_holds_what_xla_plans(on_gpu):
    on_gpu()
    n, m = 500, 4000
    size = block_size(m, n, "float32", stored=False)
    key = jax.random.key(0)
    drawn = held(lambda k: row_halves(k, np.uint32(0), size, n, "float32"), key)
    planned = krylov.data_bytes(n, m, "float32", stored=False)
    assert planned / 4 < drawn <= 1.01 * planned


@quick_rows("parts", ["product"], slow=[list(gpu_large.PARTS)])
def test_the_run_for_a_card_goes_on_where_it_was(tmp_path, capsys, parts):
    """`benchmarks/gpu_large.py` at toy sizes: every line measured over computed, and no part twice."""
    words = [
        "--tiny",
        "--out",
        str(tmp_path / "x.json"),
        *(word for part in parts for word in ("--part", part)),
    ]
    gpu_large.main(words)
    assert "failed" not in capsys.readouterr().out
    found = json.loads((tmp_path / "x.json").read_text())["parts"]
    assert list(found) == parts and all(found.values())
    assert all(line["measured"] > 0 < line["computed"] for lines in found.values() for line in lines.values())
    gpu_large.main(words)
    assert capsys.readouterr().out.count("stands in") == len(parts)
