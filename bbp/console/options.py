"""Options, declared once: their name, default, check and words serve command line, TOML file, help, record and check.

An `Option` either decides the numbers, and is then part of the record that a file keeps and that two runs must agree on,
or says only how they are computed. Values stay text until `checked` reads them, on the command line as in a TOML file.

A `Program` is a command and a function of Python at once, made of a table of options and what builds an experiment from them.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bbp.console import grids, program, signals
from bbp.console.errors import FileError, RunError
from bbp.files import disk
from theory import checks
from theory.checks import ParameterError, shown

Read = Callable[[str, Any], Any]
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
    found: dict[str, Any] = {}
    for key, value in table(path).items():
        name = key.replace("-", "_")
        if name not in names:
            raise ParameterError(f"{str(path)!r}: unknown key {key!r}{program.nearest(name, names)}")
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
            near = program.nearest(shown(value), names)
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
    """A file to write (bbp.files.outputs)."""
    return disk.destination(value, name)


def directory(name: str, value: Any) -> str:
    """The name of a directory, ~ filled in."""
    found = disk.home(text(name, value))
    if "\0" in value or (found.exists() and not found.is_dir()):
        raise ParameterError(f"{name} must be the name of a directory, got {shown(value)}")
    return str(found)


LARGEST = 2**20  # bytes: options take a few lines


def table(path: str | Path) -> dict[str, Any]:
    """The top table of the TOML file at `path`; a byte-order mark is skipped. FileError, one line, if it is not one."""
    try:
        text = disk.read_bytes(path, LARGEST).decode("utf-8-sig")
        return tomllib.loads(text)
    except FileError as error:
        raise FileError(f"cannot read the configuration: {error}") from None
    except RecursionError:
        raise FileError(f"{str(path)!r} is not TOML that is read here: it is nested too deeply") from None
    except ValueError as error:  # no UTF-8, no TOML, or an integer of thousands of digits
        raise FileError(f"{str(path)!r} is not TOML: {error}") from None


@dataclass(frozen=True)
class Program:
    """A program `bbp NAME` that runs what `build(given)` of `bbp.experiments.NAME` makes of its options.

    options   the table
    rivals    pairs of options of which the one on the command line wins over the other in a TOML file
    summary, example   of --help
    elsewhere          options of other programs, and why they are not here
    """

    name: str
    options: Sequence[Option]
    summary: str
    example: str
    rivals: Sequence[tuple[str, str]] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The options, from their table."""
        add(parser, self.options)
        for name, why in self.elsewhere.items():
            if isinstance(parser, program.Parser):
                parser.elsewhere([f"--{name}"], why)

    def run(self, args: argparse.Namespace) -> int:
        """Carry out the command; 0 done, 1 if samples failed."""
        values = given(args, self.options, self.rivals)
        how = checked(self.options, values)
        experiment, engine = self._made(values)
        return engine.carry_out(experiment, how)

    def main(self, argv: Sequence[str] | None = None) -> int:
        """The command; its exit code."""
        return program.program(
            self.name, self.add_arguments, self.run, argv, summary=self.summary, example=self.example
        )

    def call(
        self,
        given: Mapping[str, Any],
        *what: Any,
        out: Any = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Any:
        """What the program would put into its file, from Python.

        given      options by name, as the command line has them but with _ for -, of text or of numbers, lists, arrays
        what       more for `build`
        out        the file to write; None keeps nothing on disk
        executor   runs the units of work
        progress   False: no bar and no messages but errors

        ParameterError on a wrong option; FileError, RunError as the program; Interrupted, a KeyboardInterrupt, on Ctrl-C.
        """
        names = [option.name for option in self.options if option.name not in SHELL_ONLY]
        progress, values = checks.flag("progress", progress), {n: _plain(value) for n, value in given.items()}
        for name in values:
            if name in self.elsewhere:
                raise ParameterError(f"{self.name} has no option {name!r}: {self.elsewhere[name]}")
            if name not in names:
                # from Python the grid is an argument of its own
                named = ["alpha" if known == "alpha_grid" else known for known in names]
                raise ParameterError(f"{self.name} has no option {name!r}{program.nearest(name, named)}")
        how = checked(self.options, values)
        place = importlib.import_module("bbp.experiments.options").data_file
        how |= {"out": None if out is None else place("out", out), "executor": executor}
        for option in self.options:
            if out is None and option.name in OF_A_FILE and how[option.name]:
                raise ParameterError(
                    f"{option.name}=True needs out, the name of a file: without it nothing is kept on disk"
                )
        name = f"bbp.{self.name}"
        with signals.heeded(name), program.messages(name, quiet=not progress), self._in_python():
            experiment, engine = self._made(values, *what)
            found, said = engine.obtain(experiment, how)
            if said:
                program.log.info("%s", said)
            engine.tell_failures(experiment, found, "retry_failed=True" if said else "")
            return found

    @contextlib.contextmanager
    def _in_python(self) -> Iterator[None]:
        """Messages of errors with options as Python writes them: resume=True for --resume."""
        flags = {option.written: f"{option.name}=True" for option in self.options if option.flag}
        words = {option.written: option.name for option in self.options} | flags
        words = {word: text for word, text in words.items() if word not in OF_TASKS} | {
            "--save": "out",
            "--out": "out",
            "the same command": "the same call",
        }
        listed = "|".join(sorted(words, key=len, reverse=True))
        parts = re.compile(
            rf"(?<!\w)'[^']*'|(?<![\w/-])({listed})(?![\w-])"
        )  # what is quoted, such as a file, stays
        try:
            yield
        except (ParameterError, RunError, signals.Interrupted) as error:
            error.args = tuple(
                parts.sub(lambda found: words.get(found[0], found[0]), part)
                if isinstance(part, str)
                else part
                for part in error.args
            )
            raise

    def _made(self, values: Mapping[str, Any], *what: Any) -> tuple[Any, Any]:
        """The experiment, and what carries it out: only now JAX and SciPy are imported, so that --help and wrong options are
        answered at once."""
        experiments = importlib.import_module(f"bbp.experiments.{self.name}")
        return experiments.build(values, *what), importlib.import_module("bbp.experiments.carry_out")


SHELL_ONLY = ("out", "save", "task", "merge", "dry_run")  # options that are for the shell
OF_TASKS = ("--task", "--merge", "--dry-run")  # which Python does not have
NO_OBSERVABLES = {"observable": "observables are of sweeps (bbp sweep), and of what reads their files"}
OF_A_FILE = (
    "resume",
    "force",
    "retry_failed",
)  # what they say is of a file, and of what a run has left beside it


def _plain(value: Any) -> Any:
    """Arrays and numbers of NumPy, JAX and xarray as lists and numbers, types of numbers as their names."""
    with contextlib.suppress(TypeError):  # a Dataset has no one array
        if isinstance(value, np.dtype | type):
            return value if np.dtype(value) == object else np.dtype(value).name
        if hasattr(value, "__array__"):
            return np.asarray(value).tolist()
    return list(value) if isinstance(value, tuple | range) else value
