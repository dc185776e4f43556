"""What units of work free stays with the process that computes them (glibc's malloc).

By default malloc gives memory at the top of its heap back to the system, and maps every array above a size of its own: each
sample then touches fresh pages, which the kernel fills with zeros first. dask makes its workers return all at once, and lost a
third of their speed at N = 200. What is kept is what a unit has needed before, and at most `KEPT` beyond what is in use.
"""

from __future__ import annotations

import ctypes
import functools
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt(3)
KEPT = 2**28  # bytes at the top of the heap
MAPPED = 2**25  # arrays from this size on are mapped: the most that malloc takes


@functools.cache
def keep() -> bool:
    """Let this process keep what it frees; once. Whether there was anything to be set.

    >>> keep() in (True, False)
    True
    """
    setting = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return setting is not None and all([setting(MMAP_THRESHOLD, MAPPED), setting(TRIM_THRESHOLD, KEPT)])
