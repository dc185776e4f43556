"""About how many seconds one sample takes on one core: what a dry run scales to this machine by a sample timed on it.

Dense constants are fitted to processor times of samples of N = 50 to 1,000, p = 1 and 2, alpha = 1 and 2, which they meet to
7 %; the others are those of docs/accuracy.md ("Large matrices"; the machine is named there).
"""

from __future__ import annotations

CALLS = 0.19e-3  # whatever a dense sample of any size takes
DRAW = 12.5e-9  # a normal variate, copied, and its labels
BUILD = 12.5e-12  # one of the M N^2 p (p + 1) / 2 operations of the rank updates that build the matrix
SPECTRUM = 35e-9  # (p N)^2: all eigenvalues of T, overlaps of all vectors, the lowest pairs
DENSE = 34e-12  # (p N)^3: reduction to tridiagonal form
CACHED = 2000  # order up to which the matrix stays near the processor; beyond, the reduction takes three times as long
KRYLOV = 0.14e-6  # alpha N^2 p: all products of a search with the data (p N of 2,000 to 8,000; draws not stored take longer)
SEARCH = 0.2  # whatever a search takes
LAW = 1.5e-6  # a label of a student's unit in a draw of the finite-N law
LAW_DRAW = 0.5e-3  # whatever a draw takes, and for each student of several


def sample_seconds(p: int, n: int, alpha: float, solver: str) -> float:
    """Seconds of one sample by the solver "dense" or "krylov".

    >>> round(sample_seconds(2, 1000, 1.0, "dense"), 2), round(sample_seconds(2, 4000, 1.0, "krylov"), 1)
    (0.46, 4.9)
    """
    m, order = alpha * n, p * n
    if solver == "krylov":
        return SEARCH + DRAW * m * n + KRYLOV * m * n * p
    reduction = DENSE * order**3 * (1 if order <= CACHED else 3)
    return CALLS + DRAW * m * n + BUILD * m * n**2 * p * (p + 1) / 2 + SPECTRUM * order**2 + reduction


def law_seconds(p: int, n: int, alpha: float, draws: int) -> float:
    """Seconds of `theory.finite.law` at one alpha: by the labels it draws, and by the draw."""
    return draws * (LAW * alpha * n * p + LAW_DRAW * p)
