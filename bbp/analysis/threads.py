"""The threads of finite-N theory: one for each core allotted, and one of BLAS for each of these, whose matrices are small."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator


@contextlib.contextmanager
def theory_threads() -> Iterator[int]:
    """How many threads of Python there are cores for, while BLAS has one thread.

    `sims`, which knows both, brings JAX: it is imported where theory is computed, not where files are read and drawn.

    >>> with theory_threads() as threads:
    ...     threads >= 1
    True
    """
    cores, blas = (importlib.import_module(f"sims.{name}") for name in ("cores", "blas"))
    with blas.one_thread():
        yield cores.allotted()
