"""Routines of SciPy's BLAS and LAPACK by name and type, looked up once: the search takes as long as a small product.

SciPy's, not NumPy's, which is another copy with threads of its own that go on waiting for work, busily. Small matrices
are left to one of SciPy's threads: shared out to two, samples of N = 100 to 400 took 4 to 8 times as long on a machine that
others used, and 4 to 6 times the processor time.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, get_lapack_funcs
from scipy.linalg.blas import get_blas_funcs


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
_NAMES = [f"{before}openblas_{{}}_num_threads{after}" for before in ("scipy_", "") for after in ("", "64_")]


class _Threads:
    """The number of threads of SciPy's OpenBLAS: one while some block asks for it, whichever thread of Python it is in."""

    def __init__(self, library: Any):
        self.control = next(
            (
                (getattr(library, name.format("get")), getattr(library, name.format("set")))
                for name in _NAMES
                if hasattr(library, name.format("set"))
            ),
            None,
        )
        self.lock, self.inside, self.before = threading.Lock(), 0, 1

    def enter(self) -> None:
        """One from here on."""
        if self.control is None:
            return
        read, write = self.control
        with self.lock:
            if not self.inside:
                self.before = read()
                if self.before > 1:
                    write(1)
            self.inside += 1

    def leave(self) -> None:
        """As many as before, once all have left."""
        if self.control is None:
            return
        with self.lock:
            self.inside -= 1
            if not self.inside and self.before > 1:
                self.control[1](self.before)


_THREADS = _Threads(ctypes.CDLL(cython_blas.__file__))


@contextlib.contextmanager
def threads_for(order: int) -> Iterator[None]:
    """In this block SciPy's OpenBLAS has one thread if a matrix of this order is small; another BLAS is left as it is."""
    small = order <= ALONE
    if small:
        _THREADS.enter()
    try:
        yield
    finally:
        if small:
            _THREADS.leave()
