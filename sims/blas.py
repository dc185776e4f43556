"""Routines of SciPy's BLAS and LAPACK by name and type, looked up once: the search takes as long as a small product.

SciPy's, not NumPy's, which is another copy with threads of its own that go on waiting for work, busily. Small matrices
are left to one thread: shared out to two, samples of N = 100 to 400 took 4 to 8 times as long on a machine that
others used, and 4 to 6 times the processor time.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs
from scipy.linalg.blas import get_blas_funcs
from threadpoolctl import ThreadpoolController


@functools.cache
def blas(name: str, dtype: np.dtype) -> Callable[..., Any]:
    """The BLAS routine `name` for arrays of this type.

    >>> float(blas("dot", np.dtype("float64"))([1.0, 2.0], [3.0, 4.0]))
    11.0
    """
    return get_blas_funcs((name,), dtype=dtype)[0]


@functools.cache
def lapack(name: str, dtype: np.dtype) -> Callable[..., Any]:
    """The LAPACK routine `name` for arrays of this type."""
    return get_lapack_funcs((name,), dtype=dtype)[0]


ALONE = 500  # order of a matrix up to which one thread works on it


@functools.cache
def _libraries() -> ThreadpoolController:
    """The copies of BLAS in this process, found once: NumPy and SciPy each bring one."""
    return ThreadpoolController()


def one_thread() -> contextlib.AbstractContextManager[Any]:
    """A block in which each copy of BLAS has one thread.

    Of threads of Python in such blocks at one time the first decides, and gives back what it found (threadpoolctl).
    """
    return _libraries().limit(limits=1, user_api="blas")


def threads_for(order: int) -> contextlib.AbstractContextManager[Any]:
    """`one_thread` if a matrix of this order is small."""
    return one_thread() if order <= ALONE else contextlib.nullcontext()
