"""Tables as columns of one length: values, errors, ends of intervals, and what they are in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
ERROR, LOW, HIGH = "_error", "_low", "_high"


@dataclass(frozen=True)
class Column:
    """One column: values (rows,), their errors (rows,) or None, what it is in words, and ends of intervals (rows,) or None.

    share   whether it is a share of samples, which stands with its interval: that is not symmetric, and mean ± error would
            leave [0, 1]
    """

    name: str
    values: Values
    error: Values | None = None
    about: str = ""
    interval: tuple[Values, Values] | None = None
    share: bool = False

    @property
    def empty(self) -> bool:
        """Whether no row has a value."""
        words = self.values.dtype.kind in "OUS"
        return not np.any(self.values != "") if words else not np.any(self.values == self.values)

    @property
    def parts(self) -> dict[str, Values]:
        """Its columns of numbers by name: NAME, and NAME_error, NAME_low, NAME_high where there are any."""
        low, high = self.interval or (None, None)
        found = {"": self.values, ERROR: self.error, LOW: low, HIGH: high}
        return {self.name + end: values for end, values in found.items() if values is not None}


@dataclass(frozen=True)
class Table:
    """Columns of one length, the coordinates first."""

    name: str
    columns: tuple[Column, ...] = field(repr=False)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0].values)
