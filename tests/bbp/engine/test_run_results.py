"""What units gave, against a table of samples."""

import tracemalloc

import numpy as np

from bbp.engine.run import Result, Results
from bbp.files.variables import DONE, FAILED


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
        kept = turn % 4 > 0  # with samples that failed; else these are to be tried again
        found.add(Result(point, first, count, columns), failed=kept)
        for row in range(count):
            if table.get(first + row, (0,))[0] != DONE and (kept or status[row] == DONE):
                table[first + row] = (status[row], columns["values"][row], columns["reason"][row])
        held = found.at(point, number)
        assert held["sample"].tolist() == sorted(table)
        for row, sample in enumerate(held["sample"]):
            status, values, reason = table[sample]
            assert held["status"][row] == status and held["reason"][row] == reason
            np.testing.assert_array_equal(held["values"][row], values)
        done = [table[sample][1] for sample in range(number) if table.get(sample, (0,))[0] == DONE]
        np.testing.assert_array_equal(
            found.done(point, number, "values").reshape(-1, 2), np.reshape(done, (-1, 2))
        )
        few = int(rng.integers(0, number))
        lacking = [sample for start, stop in found.lacking(point, few) for sample in range(start, stop)]
        assert lacking == [sample for sample in range(few) if sample not in table]
        assert found.samples == len(table) and found.failed == len(table) - len(done)
    assert len(found.units) == 60
    other = (1, 12, 0.8)
    assert not len(found.at(other, number)["sample"]) and found.lacking(other, 5) == [(0, 5)]
    assert found.lacking(other, 0) == []


def test_samples_far_apart_take_the_memory_of_those_that_were_run():
    """As a task of a job array has them: 100 units, each a hundredth of the way from the last."""
    found, values = Results(), np.ones((10, 50))
    tracemalloc.start()
    for unit in range(100):
        columns = {"status": np.full(10, DONE, np.int8), "values": values.copy()}
        found.add(Result((0,), 1000 * unit, 10, columns))
    held = found.at((0,), 100_000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10 * 100 * values.nbytes  # and not a hundred times as much
    assert held["values"].shape == (1000, 50) and held["values"].all()
    assert held["sample"][-10:].tolist() == list(range(99_000, 99_010))
    assert found.lacking((0,), 2010) == [(10, 1000), (1010, 2000)]
