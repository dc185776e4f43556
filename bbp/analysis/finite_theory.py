"""Finite-N theory beside the samples of a sweep: means over draws and the scatter of one draw, at a bounded cost."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.finite.law import FiniteCurve, finite_curve, has_bulk
from theory.model import Network

Array = NDArray[np.float64]

MOST_DRAWS, FEWEST_DRAWS = 100, 12
LABELS = 5_000_000  # drawn in all for one model: some seconds
NAMES = ("lowest", "lowest_error", "lowest_std", "overlap", "overlap_error", "overlap_std", "informative")


def finite_theory(model: Network, n: Sequence[int], alpha: Array, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Fields of theory_n by name, each (n, alpha): see theory.finite.law.FiniteCurve; NaN where it would take too long.

    And `draws` (n,), how many they are means over: 0 where left out.

    Draws are as many as LABELS allow, MOST_DRAWS at the most; sizes for which not even FEWEST_DRAWS are possible are left out.
    """
    found: dict[str, NDArray[Any]] = {name: np.full((len(n), len(alpha)), np.nan) for name in NAMES}
    found["draws"] = np.zeros(len(n), np.int64)
    for i, size in enumerate(n):
        draws = draws_of(model, n, alpha, size)
        if not draws or not has_bulk(model, size):
            continue
        with theory_threads() as threads:
            curve: FiniteCurve = finite_curve(model, alpha, size, draws=draws, seed=seed, threads=threads)
        found["draws"][i] = draws
        for name in NAMES:
            found[name][i] = getattr(curve, name)
    return found


def draws_of(model: Network, n: Sequence[int], alpha: Array, size: int) -> int:
    """Draws for N = size, one of n; 0 where it would take too long."""
    labels = float(np.sum(alpha)) * size * (int(model.p) + model.p_star) * len(n)
    draws = min(MOST_DRAWS, int(LABELS / labels))
    return draws if draws >= FEWEST_DRAWS else 0


@contextlib.contextmanager
def theory_threads() -> Iterator[int]:
    """How many threads of Python there are cores for, while BLAS has one thread.

    `sims`, which knows both, brings JAX: it is imported where theory is computed, not where files are read and drawn.

    >>> with theory_threads() as threads:
    ...     threads >= 1
    True
    """
    backend, machine = (importlib.import_module(f"sims.{name}") for name in ("backend", "machine"))
    with backend.one_thread():
        yield machine.allotted()
