"""About how many seconds one sample takes on one core: what a dry run scales to this machine by a sample timed on it.

The constants are those of docs/accuracy.md ("One dense sample against LAPACK", "Large matrices"; the machine is named there).
"""

from __future__ import annotations

DRAW = 15e-9  # a normal variate
BUILD = 35e-12  # one of the M N^2 p (p + 1) / 2 operations of the rank updates that build the matrix
DENSE = 90e-12  # (p N)^3: reduction to tridiagonal form, and what follows
CALLS = 12e-3  # whatever a dense sample of any size takes
KRYLOV = 0.23e-6  # alpha N^2 p: all products of a search with the data (p N of 2,000 to 4,000; draws not stored take longer)
SEARCH = 0.1  # whatever a search takes
LAW = 0.5e-6  # a label of a student's unit in a draw of the finite-N law
LAW_DRAW = 0.5e-3  # whatever a draw takes


def sample_seconds(p: int, n: int, alpha: float, solver: str) -> float:
    """Seconds of one sample by the solver "dense" or "krylov".

    >>> round(sample_seconds(2, 1000, 1.0, "dense"), 1), round(sample_seconds(2, 2000, 2.5, "krylov"), 1)
    (0.9, 4.8)
    """
    m = alpha * n
    if solver == "krylov":
        return SEARCH + DRAW * m * n + KRYLOV * m * n * p
    return CALLS + DRAW * m * n + BUILD * m * n**2 * p * (p + 1) / 2 + DENSE * (p * n) ** 3


def law_seconds(p: int, n: int, alpha: float, draws: int) -> float:
    """Seconds of `theory.finite_n.law.finite_law` at one alpha: by the labels it draws, and by the draw."""
    return draws * (LAW * alpha * n * p + LAW_DRAW)
