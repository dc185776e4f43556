"""Rows over 1, 2, 4 and 8 devices (the CPU split by XLA, in a process of its own): the same Hessian, the same pairs."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json
import sys
import jax
import numpy as np
from sims.instance import draw
from sims.krylov.solver import Settings, lowest_krylov
from sims.operator import hessian_operator
from sims.rows import row_mesh
from theory.model import Committee

assert jax.device_count() == 8
instance = draw(Committee(p=2, a=0.3), 60, 2.5, seed=3, data=False)
v = np.random.default_rng(0).standard_normal((2, 60, 4))
one = hessian_operator(instance)
product = np.asarray(one(v))
settings = Settings(tol=1e-9, basis=60)
values = lowest_krylov(one, 4, settings=settings).values
rows = []
for number, stored, solved in json.loads(sys.argv[1]):
    operator = hessian_operator(instance, mesh=row_mesh(jax.devices()[:number]), stored=stored, size=16)
    found = lowest_krylov(operator, 4, settings=settings) if solved else None
    data = np.concatenate([np.asarray(block) for block, _ in operator.rows])[: instance.m]
    reference = np.concatenate([np.asarray(block) for block, _ in one.rows])[: instance.m]
    rows.append({
        "devices": number,
        "same_data": bool(np.array_equal(data, reference)),
        "product": float(np.max(np.abs(np.asarray(operator(v)) - product))),
        "values": float(np.max(np.abs(found.values - values))) if solved else 0.0,
        "code": int(found.code) if solved else 0,
    })
lowered = hessian_operator(instance, mesh=row_mesh()).lowered()
difference = float(np.max(np.abs(np.asarray(lowered(v.astype(np.float32))) - product)))
searched = all(solved for *_, solved in json.loads(sys.argv[1]))
single = lowest_krylov(lowered, 4, settings=Settings(basis=60)).values if searched else values
from sims import sampling
many = sampling.sample_point(Committee(p=2, a=0.3), 60, 2.5, [0], 3, solver="krylov", eigenpairs=4)
excess = np.max(np.abs(many.eigenvalues[0] - values) - many.residuals[0])
done = int(many.status[0])
single = float(np.max(np.abs(single - values)))
print(json.dumps({"excess": float(excess), "done": done, "rows": rows, "single": single, "difference": difference}))
"""


# devices, whether rows are stored, whether the lowest pairs are computed too
MIXED = [(2, False, False), (8, True, False)]  # pairs on eight are those of the sample
ALL = [(number, stored, True) for number in (1, 2, 4, 8) for stored in (False, True)]


@pytest.mark.parametrize("layouts", [MIXED, pytest.param(ALL, marks=pytest.mark.slow)], ids=["mixed", "all"])
def test_results_do_not_depend_on_the_number_of_devices(layouts):
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(layouts)],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout)
    assert [row["devices"] for row in result["rows"]] == [number for number, *_ in layouts]
    for row in result["rows"]:
        assert row["same_data"], row
        assert row["product"] < 1e-12, row
        assert row["values"] < 1e-10, row
        assert row["code"] == 0, row
    # 150 terms of size 10 and less in each of the product's sums
    assert 0 < result["difference"] < 1e-3 and result["single"] < 1e-4
    # a sample on eight devices, and the pairs of the same draw on one: within the residuals that are written beside it
    assert result["done"] == 1 and result["excess"] <= 1e-9
