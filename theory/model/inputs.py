"""Inputs of one's own: a matrix whose rows are samples, in the place of Gaussian rows.

Rows are taken as they are but for two things: the mean of the columns is subtracted, unless told, and all entries are divided
by one number, so that the mean square entry is 1 (tr Sigma = N). A matrix may lie in a file that is mapped into memory: only
the rows that are asked for are read, and mean, scale and checks are those of evenly spaced rows where there are many. The
digest is that of all rows, up to 4 GiB of them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.checks import ParameterError, flag, shown

Array = NDArray[np.float64]

# Rows that stand for all of them: the larger of this number and so many for each column
_FEW, _PER_COLUMN = 2**16, 64
_READ = 2**22  # entries read at once
_DIGESTED, _COPIED = 2**32, 2**30  # bytes of rows that are digested whole, and of arrays that are copied
_LEAST, _LARGEST = 1e-140, 1e140  # of entries, so that squares do not under- or overflow


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows x of one's own, made by `Inputs.of`; equal where name, digest and centring are.

    name     what it is called in tables and records: the path of a file
    source   shape, whether centred, and a digest of dtype, shape and all rows (of more than 4 GiB, those that stand for all)
    rows     (M0, N) real numbers as they were given, an array or a map of a file
    mean     (N,) subtracted from every row; None: not centred
    scale    divides every entry after that
    """

    name: str
    source: str
    rows: Any = field(repr=False)
    mean: Array | None = field(repr=False)
    scale: float

    @classmethod
    def of(cls, rows: ArrayLike, *, name: str = "inputs", centred: bool = True) -> Inputs:
        """Inputs with these rows (M0, N), samples along the first axis.

        Parameters
        ----------
        rows : array (M0, N)
            Integers or floats. An array up to 1 GiB is copied; a `numpy.memmap` is not, and is read whole for the digest alone.
        name : str
            For tables and records.
        centred : bool
            Subtract the mean of every column.

        Returns
        -------
        Inputs

        Raises
        ------
        ParameterError
            Unless rows is a matrix of finite real numbers with at least two rows and two columns, not all of them constant.

        >>> Inputs.of(np.arange(12).reshape(6, 2)).shape
        (6, 2)
        """
        found = _matrix(name, rows)
        if found is rows and not isinstance(rows, np.memmap) and rows.nbytes <= _COPIED:
            found = rows.copy()  # what is changed afterwards is not what was looked at
        centred, (count, n) = flag("centred", centred), found.shape
        made = cls(name, "", found, None, 1.0)
        total, square, spread = np.zeros(n), 0.0, np.zeros(n)
        first = made._read(np.arange(1))[0]
        digest = hashlib.sha256(f"{found.dtype.str} {found.shape}".encode())
        whole = found.nbytes <= _DIGESTED
        for index in made._chunks(np.arange(count)) if whole else ():
            digest.update(np.ascontiguousarray(found[index[0] : index[-1] + 1]).data)
        for index in made._chunks(made.typical):
            if not whole:
                digest.update(np.ascontiguousarray(found[index]).data)
            read = made._read(index)
            if (largest := float(np.abs(read).max())) > _LARGEST:
                raise ParameterError(f"{name} must have entries of at most {_LARGEST:g}, got {largest:g}")
            total += read.sum(axis=0) / len(made.typical)
            spread = np.maximum(spread, np.abs(read - first).max(axis=0))
        if not np.any(spread > 0):
            raise ParameterError(f"{name} must have rows that differ, got {count} equal ones")
        mean = total if centred else None
        for index in made._chunks(made.typical):
            read = made._read(index) if mean is None else made._read(index) - mean
            square += float(np.sum(read**2))
        scale = math.sqrt(square / (len(made.typical) * n))
        if not scale > _LEAST:
            raise ParameterError(
                f"{name} must have entries that differ by more than {_LEAST:g}, got {scale:g}"
            )
        source = f"{count} x {n}, {'centred' if centred else 'not centred'}, sha256 {digest.hexdigest()[:16]}"
        return cls(name, source, found, mean, scale)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows there are, and the input dimension N."""
        return int(self.rows.shape[0]), int(self.rows.shape[1])

    @property
    def count(self) -> int:
        """M0, how many rows there are."""
        return self.shape[0]

    @property
    def n(self) -> int:
        """The input dimension N."""
        return self.shape[1]

    @property
    def centred(self) -> bool:
        """Whether the mean of every column is subtracted."""
        return self.mean is not None

    @property
    def typical(self) -> NDArray[np.int64]:
        """Indices of the rows that stand for all: all of them, or evenly spaced ones where there are many."""
        kept = min(self.count, max(_FEW, _PER_COLUMN * self.n))
        return np.arange(kept, dtype=np.int64) * self.count // kept

    @property
    def words(self) -> str:
        """Name, shape and whether centred, in words."""
        return f"{self.name} ({self.count} x {self.n}, {'centred' if self.centred else 'not centred'})"

    def take(self, index: ArrayLike) -> Array:
        """Rows of these indices, (m, N) with tr Sigma = N: divide by sqrt(N) for x. ParameterError on entries not finite."""
        read = self._read(np.asarray(index))
        if self.mean is not None:
            read -= self.mean
        read /= self.scale
        return read

    def blocks(self, index: NDArray[np.int64]) -> Iterator[Array]:
        """Rows of these indices as `take` gives them, some at a time."""
        return (self.take(some) for some in self._chunks(index))

    def require(self, m: int, n: int) -> None:
        """ParameterError unless m rows of n entries can be drawn without replacement."""
        if n != self.n:
            raise ParameterError(f"n must be {self.n}, the number of columns of {self.name}, got {n}")
        if m > self.count:
            raise ParameterError(
                f"alpha must be at most {self.count / n:.6g}: {self.name} has {self.count} rows, and alpha N is {m}"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inputs) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, str, bool]:
        return self.name, self.source, self.centred

    def _chunks(self, index: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        return np.array_split(index, -(-len(index) * self.n // _READ))

    def _read(self, index: NDArray[np.int64]) -> Array:
        order = np.argsort(index, kind="stable")  # a file is read in its own order
        found = np.empty((len(index), self.n))
        found[order] = self.rows[index[order]]
        if not np.all(np.isfinite(found)):
            row = int(index[np.flatnonzero(~np.isfinite(found).all(axis=1))[0]])
            raise ParameterError(f"{self.name} must hold finite numbers, got NaN or infinity in row {row}")
        return found


def inputs(given: Any) -> Inputs:
    """`given` itself if it is an Inputs; else ParameterError."""
    if not isinstance(given, Inputs):
        raise ParameterError(f"inputs must be an Inputs, such as Inputs.of(X), got {shown(given)}")
    return given


def _matrix(name: str, rows: Any) -> Any:
    """The matrix of real numbers that `rows` is, without a copy where it is an array already."""
    if np.ma.is_masked(rows):
        raise ParameterError(f"{name} must have no masked entries")
    if hasattr(rows, "toarray"):
        raise ParameterError(f"{name} must be a dense matrix, got a sparse one (X.toarray() makes it dense)")
    try:
        found = rows if isinstance(rows, np.ndarray) else np.asarray(rows)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{name} must be a matrix (rows, N) of numbers, got rows of different lengths"
        ) from None
    if found.dtype.kind not in "biuf":
        raise ParameterError(f"{name} must hold real numbers, got entries of type {found.dtype}")
    if found.ndim != 2:
        raise ParameterError(f"{name} must be a matrix (rows, N), one sample a row, got shape {found.shape}")
    if min(found.shape) < 2:
        raise ParameterError(f"{name} must have at least 2 rows and 2 columns, got shape {found.shape}")
    return found
