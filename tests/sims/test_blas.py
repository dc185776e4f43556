"""Threads of BLAS: one for small matrices, and afterwards as many as before, whoever ends last."""

import numpy as np
import pytest

from sims import blas
from sims.dense import eigen


@pytest.fixture
def counted(monkeypatch):
    """Threads of a library that has four: what was set, in order."""
    said = [4]

    class Library:
        @staticmethod
        def scipy_openblas_get_num_threads():
            return said[-1]

        @staticmethod
        def scipy_openblas_set_num_threads(number):
            said.append(number)

    monkeypatch.setattr(blas, "_THREADS", blas._Threads(Library))
    return said


def test_small_matrices_have_one_thread_and_large_ones_all(counted):
    with blas.threads_for(100), blas.threads_for(200):
        assert counted == [4, 1]
    with blas.threads_for(blas.ALONE + 1):
        assert counted == [4, 1, 4]


def test_they_are_given_back_by_the_last_and_after_an_error(counted):
    first, second = blas.threads_for(10), blas.threads_for(10)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # as threads of Python overlap
    assert counted == [4, 1]
    second.__exit__(None, None, None)
    assert counted == [4, 1, 4]
    with pytest.raises(ZeroDivisionError), blas.threads_for(10):
        raise ZeroDivisionError
    assert counted == [4, 1, 4, 1, 4]


def test_lowest_pairs_are_found_under_it(counted):
    eigen.lowest_dense(np.eye(20), 2)
    assert counted == [4, 1, 4]


def test_a_blas_without_such_a_control_is_left_alone():
    threads = blas._Threads(object())
    threads.enter()
    threads.leave()
    assert not threads.controls


def test_the_controls_are_those_of_the_blas_in_use():
    """Where it is OpenBLAS: what is set is what is read."""
    before = [read() for read, _ in blas._THREADS.controls]
    with blas.one_thread():
        assert all(read() == 1 for read, _ in blas._THREADS.controls)
    assert [read() for read, _ in blas._THREADS.controls] == before
