"""What units give, against a table of samples; what they free stays with the process."""

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from bbp.engine.units import Field, Kind, Result, Results, Unit, compute
from bbp.files.variables import DONE, FAILED, NOT_RUN

FAULTS = """
import resource, sys
import numpy as np
from bbp.engine import units

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(2**17)  # 1 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

mapped = faults()
print(units.keep_memory(), mapped, (faults(), faults())[1])
import bbp.experiments.samples
print(*(name for name in ("xarray", "pandas", "h5py") if name in sys.modules))
"""


def test_arrays_are_not_mapped_afresh():
    """As dask sets its workers up every array of 1 MiB costs 256 pages; kept, none (a few, for Python has its own).

    And a process that only computes samples has imported nothing for files: half a second.
    """
    env = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536", "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", FAULTS], env=env, capture_output=True, text=True, check=True)
    numbers, imported = said.stdout.splitlines()
    assert imported == ""
    kept, mapped, after = numbers.split()
    if kept == "True":
        assert int(mapped) > 20 * 200 and int(after) < 100, said.stdout


def test_results_are_those_of_a_table_of_samples():
    """Units of any size in any order, some samples twice and some failed, against a dictionary of samples."""
    rng, point, number = np.random.default_rng(3), (0, 12, 0.8), 40
    found, table = Results(), {}
    for turn in range(60):
        first, count = int(rng.integers(0, 36)), int(rng.integers(1, 5))
        status = rng.choice([DONE, FAILED], count, p=[0.7, 0.3]).astype(np.int8)
        columns = {
            "status": status,
            "values": turn + np.arange(2.0 * count).reshape(count, 2),
            "reason": np.array(["x" * turn] * count, object if turn % 2 else str),  # as computed, and as read
        }
        found.add(Result(point, first, count, columns, 0.0, "", ""))
        for row in range(count):
            if table.get(first + row, (0,))[0] != DONE:
                table[first + row] = (status[row], columns["values"][row], columns["reason"][row])
        if turn == 20:
            found.forget_failures()
            table = {sample: row for sample, row in table.items() if row[0] == DONE}
        held = {"status": np.zeros(number, np.int8), "values": np.full((number, 2), np.nan)}
        held |= {"reason": np.full(number, "", object)}
        found.fill(point, number, held)
        for sample in range(number):
            status, values, reason = table.get(sample, (NOT_RUN, np.full(2, np.nan), ""))
            assert held["status"][sample] == status and held["reason"][sample] == reason
            np.testing.assert_array_equal(held["values"][sample], values)
        done = [table[sample][1] for sample in range(number) if table.get(sample, (0,))[0] == DONE]
        np.testing.assert_array_equal(
            found.first(point, number, "values").reshape(-1, 2), np.reshape(done, (-1, 2))
        )
        assert found.missing(point, number).tolist() == [s for s in range(number) if s not in table]
        assert found.samples == len(table) and found.failed == len(table) - len(done)
    assert len(found.units) == 60 and not found.any((1, 12, 0.8)) and found.has((1, 12, 0.8), 0)


def nothing(given, samples):
    return {}


def too_much(given, samples):
    return {name: np.zeros(len(samples)) for name in ("ipr", "spread")}


@pytest.mark.parametrize(
    ("compute_them", "words"),
    [(nothing, "declared, but not computed: ipr"), (too_much, "computed, but not declared: spread")],
)
def test_columns_are_those_declared_or_their_samples_fail(compute_them, words):
    kind = Kind(compute_them, (Field("ipr", ("sample",)),))
    found = compute(Unit(kind, ("here",), {}, 0, 2))
    assert found.status.tolist() == [FAILED] * 2 and np.isnan(found.columns["ipr"]).all()
    assert set(found.reason) == {f"ValueError: {words}"}


def test_samples_far_apart_take_the_memory_of_those_that_were_run():
    """As a task of a job array has them: 100 units, each a hundredth of the way from the last."""
    found, values = Results(), np.ones((10, 50))
    tracemalloc.start()
    for unit in range(100):
        columns = {"status": np.full(10, DONE, np.int8), "values": values.copy()}
        found.add(Result((0,), 1000 * unit, 10, columns, 0.0, "", ""))
    most, filled = tracemalloc.get_traced_memory()[1], {"values": np.zeros((100_000, 50))}
    tracemalloc.stop()
    assert most < 10 * 100 * values.nbytes  # and not a hundred times as much
    found.fill((0,), 100_000, filled)
    assert filled["values"].sum() == 100 * values.sum() and filled["values"][99_000:99_010].all()
