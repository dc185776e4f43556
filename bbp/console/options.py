"""Options, declared once: their name, default, check and words serve command line, TOML file, help, record and check.

An `Option` either decides the numbers, and is then part of the record that a file keeps and that two runs must agree on,
or says only how they are computed. Values stay text until `checked` reads them, on the command line as in a TOML file.

Readers of values, (name, value) -> what is meant, know grids and lists of numbers:

    0.5:2:16        16 points from 0.5 to 2, both ends included
    0.01:3:60:log   60 points, equally spaced in the logarithm
    0.5,1,2         these points
"""

from __future__ import annotations

import argparse
import difflib
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bbp.console.messages import FileError
from bbp.files import disk
from theory import checks
from theory.checks import ParameterError, count, positive, shown, width

Read = Callable[[str, Any], Any]
FOREIGN = (
    ".txt .csv .tsv .dat .json .toml .yaml .yml .tex .md .html .log .npy .npz .pkl .py"
    " .png .pdf .svg .eps .pgf .ps .jpg .jpeg .zip .gz"
).split()  # endings of what is not HDF5
LARGEST = 2**20  # bytes of a configuration file
GROUPS = {True: "what to compute", False: "how to compute it (changes no number)"}
GRAMMAR = "START:STOP:COUNT (linear, both ends included), START:STOP:COUNT:log, or a comma list"
MOST_POINTS = 100_000  # of one grid or list
SEEDS = 2**63  # beyond, a seed does not fit the integers of the files
DIGITS = 12


@dataclass(frozen=True)
class Option:
    """One option.

    name      as in records and TOML files; the command line writes it --with-dashes
    default   the value where it is not given, in the form a user would write
    read      (name, value) -> the checked value; ParameterError on a bad one. None is not given, where that is the default
    words     what it is, for --help; the default is added to them
    decides   whether it decides the numbers
    metavar   what stands for the value in --help
    flag      present or not, without a value
    empty     the value of an option that may be given without one
    alias     it is another name of this option
    """

    name: str
    default: Any
    read: Read
    words: str
    decides: bool = True
    metavar: str | None = None
    flag: bool = False
    empty: Any = None
    alias: str = ""

    @property
    def written(self) -> str:
        """As the command line writes it: --p-star."""
        return "--" + self.name.replace("_", "-")


def add(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Give the parser these options, and --config."""
    options = list(options)
    parser.add_argument("--config", metavar="FILE.toml", help="options by name; the command line wins")
    for decides, title in GROUPS.items():
        group = parser.add_argument_group(title)
        for option in options:
            if option.decides == decides:
                _add(group, option)


def _add(group: Any, option: Option) -> None:
    said = "" if option.default is None or option.flag else f" (default {option.default})"
    help = f"{option.words}{said}".replace("%", "%%")
    if option.flag:
        group.add_argument(option.written, action="store_true", help=help, default=argparse.SUPPRESS)
        return
    more: dict[str, Any] = {"nargs": "?", "const": option.empty} if option.empty is not None else {}
    group.add_argument(option.written, metavar=option.metavar, help=help, default=argparse.SUPPRESS, **more)


def asked(
    args: argparse.Namespace, options: Sequence[Option], rivals: Sequence[tuple[str, str]] = ()
) -> dict[str, Any]:
    """Options of the configuration file, overridden by those of the command line (also by their `rivals`)."""
    names = {option.name for option in options}
    typed = {name: value for name, value in vars(args).items() if name in names}
    stored = read_toml(args.config, options) if getattr(args, "config", None) is not None else {}
    for one, other in (*rivals, *((b, a) for a, b in rivals)):
        if one in typed:
            stored.pop(other, None)
    return stored | typed


def read_toml(path: str | Path, options: Sequence[Option]) -> dict[str, Any]:
    """The options in a TOML file; keys are the long option names, with - or _. FileError, ParameterError."""
    names = [option.name for option in options if not option.flag and option.name != "task"]
    try:
        # utf-8-sig: a byte-order mark is skipped
        stored = tomllib.loads(disk.read_bytes(path, LARGEST).decode("utf-8-sig"))
    except FileError as error:
        raise FileError(f"cannot read the configuration: {error}") from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # no UTF-8, no TOML, an integer of 10^4 digits, deep nesting
        raise FileError(f"{str(path)!r} is not TOML: {error}") from None
    found: dict[str, Any] = {}
    for key, value in stored.items():
        name = key.replace("-", "_")
        if name not in names:
            raise ParameterError(f"{str(path)!r}: unknown key {key!r}{nearest(name, names)}")
        if name in found:
            raise ParameterError(f"{str(path)!r}: key {key!r} is given twice")
        found[name] = value
    return found


def checked(
    options: Iterable[Option], values: Mapping[str, Any], *, decides: bool | None = None
) -> dict[str, Any]:
    """Every option's checked value by name, defaults filled in; ParameterError on a bad one."""
    chosen = [option for option in options if decides is None or option.decides == decides]
    found: dict[str, Any] = {}
    for option in chosen:
        value = values.get(option.name, option.default)
        if option.alias:
            if values.get(option.name) is not None:
                if option.alias in values:
                    raise ParameterError(
                        f"{option.alias} and {option.name} are two names of one thing: give one of them"
                    )
                found[option.alias] = option.read(option.name, value)
        else:
            left = value is None and option.default is None
            found[option.name] = value if left else option.read(option.name, value)
    return found


def decisive(options: Iterable[Option], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of checked settings those that decide the numbers."""
    return {option.name: settings[option.name] for option in options if option.decides and not option.alias}


def nearest(name: str, names: Sequence[str]) -> str:
    """ "; did you mean X?" for the name most like `name`, or nothing."""
    match = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {match[0]}?" if match else ""


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


def one_width(name: str, value: Any) -> int | float:
    """One layer width; else ParameterError."""
    found, *more = widths(name, value)
    if more:
        raise ParameterError(f"{name} must be one width, got {shown(value)}")
    return found


def integer(minimum: int = 1, most: int | None = None) -> Read:
    """A reader of one integer between `minimum` and `most`."""

    def read(name: str, value: Any) -> int:
        found = count(name, _number(name, value), minimum)
        if most is not None and found > most:
            raise ParameterError(f"{name} must be at most {most}, got {shown(found)}")
        return found

    return read


def seed(name: str, value: Any) -> int:
    """A seed: an integer from 0 to 2^63 - 1; else ParameterError."""
    found = integer(0)(name, value)
    if found >= SEEDS:
        raise ParameterError(f"{name} must be below 2^63, got {shown(found)}")
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
    if points > MOST_POINTS:
        raise ParameterError(f"{name} must have at most {MOST_POINTS} points, got {points}")
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
    if len(items) > MOST_POINTS:
        raise ParameterError(f"{name} must have at most {MOST_POINTS} entries, got {len(items)}")
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


def choice(*names: str) -> Read:
    """A reader of one of these words."""

    def read(name: str, value: Any) -> str:
        try:
            return checks.choice(name, value, names)
        except ParameterError as error:
            near = nearest(shown(value), names)
            raise ParameterError(f"{error}{near}") from None

    return read


def text(name: str, value: Any) -> str:
    """Text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ParameterError(f"{name} must be text, got {shown(value)}")
    return value


def truth(name: str, value: Any) -> bool:
    """A flag: true or false."""
    return checks.flag(name, value)


def path(name: str, value: Any) -> Path:
    """A file to write."""
    return disk.destination(value, name)


def data_file(name: str, value: Any) -> Path:
    """A file for HDF5; ParameterError for a name whose ending says that it is something else."""
    found = disk.destination(value, name)
    if found.suffix.lower() in FOREIGN:
        raise ParameterError(
            f"{name} is an HDF5 file and must not end in {found.suffix}, got {shown(str(value))}"
        )
    return found


def directory(name: str, value: Any) -> str:
    """The name of a directory, ~ filled in."""
    found = disk.home(text(name, value))
    if "\0" in value or (found.exists() and not found.is_dir()):
        raise ParameterError(f"{name} must be the name of a directory, got {shown(value)}")
    return str(found)
