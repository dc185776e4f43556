"""What a unit of work gives, declared once: columns with their axes, type and what stands for a sample that was not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.files.variables import DONE, FAILED, NOT_RUN

__all__ = ["DONE", "FAILED", "NOT_RUN", "REASON", "STATUS", "TEXT", "Field", "over"]

TEXT = "O"  # the dtype of text, as h5py gives it


@dataclass(frozen=True)
class Field:
    """An array of a file.

    name      of the column, and of the attribute of what is loaded
    dims      names of its axes, outermost first
    dtype     "f8", "i8", "i1" or TEXT
    fill      what stands where nothing was computed
    optional  files of before it existed lack it
    words     what it is, where bbp.files.variables does not say it
    """

    name: str
    dims: tuple[str, ...]
    dtype: str = "f8"
    fill: Any = np.nan
    optional: bool = False
    words: str = ""

    @property
    def kind(self) -> str:
        """The letter of its type, as NumPy has it."""
        return np.dtype(self.dtype).kind

    def empty(self, sizes: Mapping[str, int], dims: Sequence[str] | None = None) -> NDArray[Any]:
        """An array of `fill` over its axes (or over `dims`), whose lengths are `sizes`."""
        shape = [sizes[dim] for dim in (self.dims if dims is None else dims)]
        return np.full(shape, self.fill, dtype=self.dtype)

    def check(self, values: NDArray[Any], shape: Sequence[int]) -> None:
        """ValueError unless `values` is of the declared type and of this shape."""
        kind = "O" if values.dtype.kind in "OU" else values.dtype.kind
        if kind != self.kind or (kind != "O" and values.dtype.itemsize != np.dtype(self.dtype).itemsize):
            raise ValueError(f"{self.name} is of type {values.dtype}, not {self.dtype}")
        if values.shape != tuple(shape):
            raise ValueError(f"{self.name} has shape {values.shape}, not {tuple(shape)}")


# How a sample ended, in the columns of every experiment.
STATUS = Field("status", ("sample",), "i1", NOT_RUN)
REASON = Field("reason", ("sample",), TEXT, "")


def over(outer: Sequence[str], fields: Iterable[Field]) -> tuple[Field, ...]:
    """Columns as arrays of a file: the same fields, with the axes of the points put before theirs."""
    return tuple(Field(f.name, (*outer, *f.dims), f.dtype, f.fill, f.optional, f.words) for f in fields)
