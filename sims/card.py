"""The GPU that choices are made for: figures of its data sheet, and what follows from them. Computed, not measured on a card.

A card of 80 GB, whatever card is there: choices, and with them the order of sums, are then the same on all. Bytes moved are
those that XLA's programs ask for when they are compiled for it (`python -m benchmarks.gpu_compile`). On a CPU nothing here is
used.

Rows are kept wherever they fit: a product reads kept rows twice, and rows that are drawn are drawn and written besides
(`product_seconds`).
"""

from __future__ import annotations

from typing import NamedTuple


class Card(NamedTuple):
    """As published: bytes; bytes a second; operations a second in float32 and float64 (a multiplication and an addition are
    two), and on integers of 32 bits."""

    memory: float
    bandwidth: float
    single: float
    double: float
    integer: float

    def rate(self, item: int) -> float:
        """Operations a second on numbers of so many bytes."""
        return self.single if item == 4 else self.double


CARDS = {
    "h100": Card(80e9, 3.35e12, 67e12, 34e12, 16.7e12),
    "h200": Card(141e9, 4.8e12, 67e12, 34e12, 16.7e12),
}
CARD = CARDS["h100"]

# Assumed: seconds from one small kernel to the next, and of the host between two products of a search
LAUNCH, STEP = 5e-6, 1e-3
KERNELS = 12  # of a product with one block of rows, as compiled
COLUMN = 4  # kernels for a column of a matrix that is reduced to tridiagonal form
PRODUCTS = 150  # of a search, as at N = 4,000 (docs/accuracy.md)
VARIATE = 127  # operations for a normal variate, most of them on integers, as compiled
PATIENCE = 4  # times as long as a search that a dense solve may take, for its ranks: some 4 on a CPU too, at p N = 4,000
TOGETHER = (
    32  # matrices solved together at most: the host's work on a sample then takes longer than the card's
)

# of a block of rows: its kernels take ten times as long as they wait for one another
BLOCK_BYTES = 1 << round(10 * KERNELS * LAUNCH * CARD.bandwidth / 2 - 1).bit_length()

ROWS = 768  # of a block at least: vectors are read and written beside it, 16 columns of them for 9 % of its bytes


def product_seconds(
    m: int, n: int, columns: int, item: int, *, stored: bool = True, card: Card = CARD
) -> float:
    """Of H V for V (n, columns) with data (m, n) of `item` bytes a number: what the slowest of memory and arithmetic takes."""
    numbers = m * n
    reading = 2 * numbers * item / card.bandwidth
    drawing = 0.0 if stored else max(numbers * item / card.bandwidth, numbers * VARIATE / card.integer)
    return max(reading, 4 * numbers * columns / card.rate(item)) + drawing


def search_seconds(
    m: int, n: int, p: int, block: int, item: int, *, stored: bool = True, card: Card = CARD
) -> float:
    """Of the lowest pairs by block Krylov: products, one pass over half of the basis for four of them, the host."""
    basis = PRODUCTS * block / 2
    passes = 2 * p * n * basis * item / 4 / card.bandwidth
    return PRODUCTS * (product_seconds(m, n, p * block, item, stored=stored, card=card) + passes + STEP)


def dense_seconds(order: int, item: int, *, together: int = 1, card: Card = CARD) -> float:
    """Of all eigenpairs of one of `together` matrices: the reduction reads what is left of a matrix for each of its columns,
    which wait for one another; the rest are 4 n^3 operations in products of matrices."""
    reading = item * order**3 / 3 / card.bandwidth
    return max(reading, _waits(order) / together) + 4 * order**3 / card.rate(item)


def solved_together(order: int, item: int) -> int:
    """How many matrices are solved together: a power of two, until reading them takes as long as their columns wait.

    >>> [solved_together(order, 8) for order in (100, 500, 1000, 2000, 8000)]
    [32, 32, 16, 4, 1]
    """
    most = int(_waits(order) * CARD.bandwidth / (item * order**3 / 3))
    return 1 << min(max(1, most), TOGETHER).bit_length() - 1


def prefers_dense(m: int, n: int, p: int, item: int) -> bool:
    """Whether a dense solve is fast enough to be worth its ranks.

    >>> prefers_dense(8000, 4000, 2, 8), prefers_dense(20_000, 10_000, 2, 8)
    (True, False)
    """
    return dense_seconds(p * n, item) <= PATIENCE * search_seconds(m, n, p, 8, item)


def _waits(order: int) -> float:
    return COLUMN * LAUNCH * order
