"""Bytes: what is free, and the estimate against what a sample really takes."""

import os
import tracemalloc

import jax
import numpy as np
import pytest

from sims import host_draws, limits, memory
from sims.dense import all_overlaps
from sims.sampling import bytes_needed, sample_point
from theory.checks import ParameterError
from theory.model import Committee


@pytest.mark.parametrize("p, n, dtype", [(2, 300, "float64"), (1, 600, "float32")])
def test_the_estimate_is_an_upper_bound_and_not_far(p, n, dtype):
    """Peak of NumPy's memory in one sample."""
    model = Committee(p, 1, 0.3)
    sample_point(model, n, 1.5, [0], 0, dtype=dtype)
    tracemalloc.start()
    sample_point(model, n, 1.5, [0], 0, dtype=dtype)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    estimate = bytes_needed(model, n, 1.5, dtype=dtype)
    assert estimate / 2 < peak < estimate


def test_what_xla_plans_for_a_dense_sample_on_the_host():
    """A call that draws takes a few MiB whatever N; the sweep over the spectrum, what the estimate has for it."""

    def held(function, *arguments):
        plan = function.__wrapped__.lower(*arguments).compile().memory_analysis()
        return plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes

    n, order = 1000, 2048
    with jax.enable_x64(True):
        rows = host_draws.rows_in_call(n)
        words = np.zeros((rows, 2), np.uint32)
        assert 8 * rows * n < held(host_draws._rows, words, words[:, 0], n, "float64") < 5 * 2**20
        row = np.zeros((1, order))
        sweep = held(all_overlaps._sweep, row, row, row[None], row)
    assert sweep < 8 * order * memory.STEPS  # as in `dense_bytes`


def test_free_memory_of_this_system():
    free = memory.available_bytes()
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < free <= total


def test_unknown_memory_refuses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "PROC", tmp_path)
    assert memory.available_bytes() is None
    memory.require_fit(lambda n: 2**60 * n, 10, 1)


def test_nothing_fits():
    with pytest.raises(ParameterError, match="needs 100 bytes and 5 are free: no N would fit"):
        memory.require_fit(lambda n: 10 * n, 10, 1, free=5)
    memory.require_fit(lambda n: 10 * n, 10, 1, free=200)


def test_estimates_grow():
    sizes = [memory.dense_bytes(Committee(2), n, 1.5, eigenpairs=4) for n in range(1, 400)]
    assert sizes == sorted(sizes)
    assert memory.dense_bytes(Committee(2), 300, 1.5, eigenpairs=4, dtype="float32") < sizes[299]
