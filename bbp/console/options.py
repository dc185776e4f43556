"""Options, declared once: their name, default, check and words serve command line, TOML file, help, record and check.

An `Option` either decides the numbers, and is then part of the record that a file keeps and that two runs must agree on,
or says only how they are computed. Values stay text until `checked` reads them, on the command line as in a TOML file.
"""

from __future__ import annotations

import argparse
import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbp.console import grids
from bbp.console.messages import FileError
from bbp.files import disk
from theory import checks
from theory.checks import ParameterError, shown

Read = Callable[[str, Any], Any]
FOREIGN = (
    ".txt .csv .tsv .dat .json .toml .yaml .yml .tex .md .html .log .npy .npz .pkl .py"
    " .png .pdf .svg .eps .pgf .ps .jpg .jpeg .zip .gz"
).split()  # endings of what is not HDF5
LARGEST = 2**20  # bytes of a configuration file
GROUPS = {True: "what to compute", False: "how to compute it (changes no number)"}


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


def given(
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


def integer(minimum: int = 1, most: int | None = None) -> Read:
    """A reader of one integer between `minimum` and `most`."""

    def read(name: str, value: Any) -> int:
        found = grids.integer(name, value, minimum)
        if most is not None and found > most:
            raise ParameterError(f"{name} must be at most {most}, got {shown(found)}")
        return found

    return read


def seed(name: str, value: Any) -> int:
    """A seed: an integer from 0 to 2^63 - 1."""
    return grids.seed(value)


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


def nearest(name: str, names: Sequence[str]) -> str:
    """ "; did you mean X?" for the name most like `name`, or nothing."""
    match = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {match[0]}?" if match else ""
