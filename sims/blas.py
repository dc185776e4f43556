"""Routines of SciPy's BLAS and LAPACK by name and type, looked up once: the search takes as long as a small product.

SciPy's, not NumPy's, which is another copy with threads of its own that go on waiting for work, busily.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs
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
