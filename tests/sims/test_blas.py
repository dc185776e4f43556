"""Threads of BLAS: one for small matrices, and afterwards as many as before, whoever ends last."""

import threading

import numpy as np
import pytest
import threadpoolctl

from sims import blas
from sims.dense import eigen

OF_BLAS = {"user_api": "blas"}


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
    with blas.threads_for(100), blas.threads_for(200):
        assert numbers() == [1] * len(three)
    with blas.threads_for(blas.ALONE + 1):
        assert numbers() == three


def test_they_are_given_back_after_an_error(three):
    with pytest.raises(ZeroDivisionError), blas.threads_for(10):
        raise ZeroDivisionError
    assert numbers() == three


def test_threads_of_python_that_overlap_leave_all_as_it_was():
    """Of many that begin and end at any moment."""

    def work():
        for _ in range(20):
            with blas.one_thread():
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
