"""Routines of SciPy's BLAS and LAPACK by name and type, looked up once: the search takes as long as a small product.

SciPy's, not NumPy's, which is another copy with threads of its own that go on waiting for work, busily. Small matrices
are left to one thread: shared out to two, samples of N = 100 to 400 took 4 to 8 times as long on a machine that
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
from numpy.linalg import _umath_linalg
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
    """The number of threads of copies of OpenBLAS: one while some block asks for it, in whichever thread of Python."""

    def __init__(self, *libraries: Any):
        self.controls = [control for library in libraries if (control := _control(library))]
        self.lock, self.inside, self.before = threading.Lock(), 0, [1] * len(self.controls)

    def enter(self) -> None:
        """One from here on."""
        with self.lock:
            if not self.inside:
                self.before = [read() for read, _ in self.controls]
                self._set([1] * len(self.controls))
            self.inside += 1

    def leave(self) -> None:
        """As many as before, once all have left."""
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self._set(self.before)

    def _set(self, numbers: list[int]) -> None:
        for (_, write), before, number in zip(self.controls, self.before, numbers, strict=True):
            if before > 1:
                write(number)


def _control(library: Any) -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """What reads and what sets the number of threads of a library; None where it is no OpenBLAS."""
    for name in _NAMES:
        if hasattr(library, name.format("set")):
            return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


# a name is looked for in what a module is linked with too; NumPy and SciPy each bring a copy
_THREADS = _Threads(*(ctypes.CDLL(module.__file__) for module in (cython_blas, _umath_linalg)))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """In this block each copy of OpenBLAS has one thread; another BLAS is left as it is."""
    _THREADS.enter()
    try:
        yield
    finally:
        _THREADS.leave()


def threads_for(order: int) -> contextlib.AbstractContextManager[None]:
    """`one_thread` if a matrix of this order is small."""
    return one_thread() if order <= ALONE else contextlib.nullcontext()
