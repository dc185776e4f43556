"""Grids and lists of numbers as the command line and configuration files write them.

0.5:2:16        16 points from 0.5 to 2, both ends included
0.01:3:60:log   60 points, equally spaced in the logarithm
0.5,1,2         these points
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from theory.checks import ParameterError, count, positive, shown, width

GRAMMAR = "START:STOP:COUNT (linear, both ends included), START:STOP:COUNT:log, or a comma list"
LARGEST = 100_000  # points of one grid or list
SEEDS = 2**63  # beyond, a seed does not fit the integers of the files
DIGITS = 12


def numbers(name: str, value: Any) -> tuple[float, ...]:
    """Positive numbers, in rising order, from a grid "0.5:2:16", a list "0.5,1", a number, or a sequence of numbers.

    Points of a grid are rounded to 12 significant digits: the same grid is the same numbers on every machine, and
    0.1:0.3:3 is 0.1,0.2,0.3. Raises ParameterError (one line) on anything else, and on a number given twice.
    """
    if isinstance(value, str) and ":" in value:
        points = _grid(name, value)
    else:
        points = [_number(name, item) for item in _items(name, value)]
    points = sorted(_positive(name, points))
    _refuse_repeats(name, points)
    return tuple(points)


def integers(name: str, value: Any, minimum: int = 1) -> tuple[int, ...]:
    """Integers of at least `minimum`, in the order given, from "1,2,4", a number, a sequence; else ParameterError."""
    whole = tuple(count(name, _number(name, item), minimum) for item in _items(name, value))
    _refuse_repeats(name, sorted(whole))
    return whole


def widths(name: str, value: Any) -> tuple[int | float, ...]:
    """Layer widths (integers of at least 1, or inf) in the order given; else ParameterError."""
    found = tuple(width(name, _number(name, item)) for item in _items(name, value))
    _refuse_repeats(name, sorted(found))
    return found


def integer(name: str, value: Any, minimum: int = 1) -> int:
    """One integer of at least `minimum`; else ParameterError."""
    return count(name, _number(name, value), minimum)


def seed(value: Any) -> int:
    """A seed: an integer from 0 to 2^63 - 1; else ParameterError."""
    found = integer("seed", value, 0)
    if found >= SEEDS:
        raise ParameterError(f"seed must be below 2^63, got {shown(found)}")
    return found


def number(name: str, value: Any) -> float:
    """One positive number; else ParameterError."""
    return positive(name, _number(name, value))


def real(name: str, value: Any) -> float:
    """One number of any sign, inf where it is beyond all floats; else ParameterError."""
    try:
        return float(_number(name, value))
    except OverflowError:
        return math.inf


def around(centre: float, points: int = 11, spread: float = 0.5) -> tuple[float, ...]:
    """The default grid: `points` points from (1 - spread) to (1 + spread) times `centre`.

    Rounded to 6 significant digits, beyond which a computed centre may differ between machines.
    """
    return tuple(rounded(centre * factor, 6) for factor in np.linspace(1 - spread, 1 + spread, points))


def _grid(name: str, text: str) -> list[float]:
    parts = text.split(":")
    if len(parts) not in (3, 4) or (len(parts) == 4 and parts[3] != "log"):
        raise ParameterError(f"{name} must be {GRAMMAR}, got {shown(text)}")
    start, stop = (positive(name, _number(name, part)) for part in parts[:2])
    points = count(f"{name}: the count", _number(name, parts[2]))
    if points > LARGEST:
        raise ParameterError(f"{name} must have at most {LARGEST} points, got {points}")
    if (points == 1) != (start == stop) or start > stop:
        raise ParameterError(
            f"{name} must run from a smaller to a larger number in 2 points or more, got {shown(text)}"
        )
    space = np.geomspace if len(parts) == 4 else np.linspace
    return [rounded(point, DIGITS) for point in space(start, stop, points)]


def rounded(value: float, digits: int = DIGITS) -> float:
    """`value` to so many significant digits."""
    return float(f"{value:.{digits}g}")


def _positive(name: str, points: Sequence[int | float]) -> list[float]:
    """The points as floats, all at once; one by one where one is wrong, or an integer that only a message can name."""
    try:
        return positive(name, np.array(points, dtype=np.float64)).tolist()
    except (ParameterError, OverflowError):
        return [positive(name, point) for point in points]


def _items(name: str, value: Any) -> Sequence[Any]:
    items = (
        value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    )
    if not items:
        raise ParameterError(f"{name} must not be empty")
    if len(items) > LARGEST:
        raise ParameterError(f"{name} must have at most {LARGEST} entries, got {len(items)}")
    return items


def _number(name: str, item: Any) -> int | float:
    """A number from text or from a typed value; integers stay integers."""
    if isinstance(item, int | float) and not isinstance(item, bool):
        return item
    if isinstance(item, str):
        for kind in (int, float):
            try:
                return kind(item)
            except ValueError:
                continue
    raise ParameterError(f"{name} must be a number, got {shown(item)}")


def _refuse_repeats(name: str, ordered: Sequence[float]) -> None:
    for one, two in pairwise(ordered):
        if one == two or (math.isinf(one) and math.isinf(two)):
            raise ParameterError(f"{name} lists {one!r} twice")
