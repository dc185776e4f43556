"""What is computed, as data: a point, the kind of numbers there, and a unit of work, a block of samples of one point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from bbp.files import table
from bbp.files.table import Field

Point = tuple[Any, ...]  # of str, int and float: hashable, and the same after a trip through JSON
Columns = dict[str, NDArray[Any]]


def no_axes(given: Mapping[str, Any]) -> dict[str, int]:
    """Lengths of no axis beyond "sample"."""
    return {}


def on_cpu() -> str:
    """The device of what NumPy computes."""
    return "cpu"


@dataclass(frozen=True)
class Kind:
    """What is computed at points of one kind; sent to other processes, so its functions are those of modules.

    compute   (given, samples, **hints) -> columns by name, each (len(samples), ...); an exception fails these samples
    fields    the columns: dims ("sample", ...), each with its type and fill; `status` and `reason` are added
    sizes     given -> lengths of the axes after "sample"
    device    the device that `compute` runs on, in words
    """

    compute: Callable[..., Columns]
    fields: tuple[Field, ...]
    sizes: Callable[[Mapping[str, Any]], dict[str, int]] = no_axes
    device: Callable[[], str] = on_cpu

    @property
    def columns(self) -> tuple[Field, ...]:
        """All columns, with how each sample ended."""
        own = {field.name for field in self.fields}
        return (*self.fields, *(field for field in (table.STATUS, table.REASON) if field.name not in own))


@dataclass(frozen=True)
class Unit:
    """Samples first .. first + count - 1 of a point, with all that is needed to compute them anywhere.

    given   everything that decides the numbers, as plain data: what the part on disk states, and is checked by
    hints   how to compute, changes no number: `batch`, `threads`
    """

    kind: Kind
    point: Point
    given: Mapping[str, Any]
    first: int
    count: int
    hints: Mapping[str, Any]

    @property
    def samples(self) -> range:
        """The indices of its samples."""
        return range(self.first, self.first + self.count)
