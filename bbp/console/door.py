"""The door to an experiment: a program, and a function of Python, made of a table of options and what builds it from them."""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from bbp.console import options, program, signals
from bbp.console.options import Option
from bbp.files import outputs
from theory.checks import ParameterError


@dataclass(frozen=True)
class Door:
    """A program `bbp NAME` that runs what `build(given)` of `bbp.experiments.NAME` makes of its options.

    options   the table
    rivals    pairs of options of which the one on the command line wins over the other in a TOML file
    summary, example   of --help
    """

    name: str
    options: Sequence[Option]
    summary: str
    example: str
    rivals: Sequence[tuple[str, str]] = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The options, from their table."""
        options.add(parser, self.options)

    def run(self, args: argparse.Namespace) -> int:
        """Carry out the command; 0 done, 1 if samples failed."""
        given = options.given(args, self.options, self.rivals)
        how = options.checked(self.options, given)
        # Only now JAX and SciPy are imported: --help and wrong options are answered at once.
        experiment = importlib.import_module(f"bbp.experiments.{self.name}").build(given)
        return importlib.import_module("bbp.experiments.carry_out").carry_out(experiment, how)

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
        names = [option.name for option in self.options if option.name not in COMMANDS]
        values = {name: _plain(value) for name, value in given.items()}
        for name in values:
            if name not in names:
                raise ParameterError(f"{self.name} has no option {name!r}{program.nearest(name, names)}")
        how = options.checked(self.options, values)
        how |= {"out": None if out is None else outputs.destination(out), "executor": executor}
        name = f"bbp.{self.name}"
        with signals.heeded(name), program.messages(name, quiet=not progress):
            experiment = importlib.import_module(f"bbp.experiments.{self.name}").build(values, *what)
            engine = importlib.import_module("bbp.experiments.carry_out")
            found, said = engine.obtain(experiment, how)
            if said:
                program.log.info("%s", said)
            engine.tell_failures(experiment, found, kept=bool(said))
            return found


COMMANDS = ("out", "save", "task", "merge", "dry_run")  # options that are for the shell


def _plain(value: Any) -> Any:
    """Arrays and numbers of NumPy as lists and numbers."""
    return (
        value.tolist()
        if hasattr(value, "tolist")
        else list(value)
        if isinstance(value, tuple | range)
        else value
    )


def callable_as(name: str, function: Callable[..., Any]) -> None:
    """Make the module `name` callable as this function: `bbp.sweep` is what `python -m bbp.sweep` runs, and a function."""
    own = {"__call__": staticmethod(function), "__signature__": inspect.signature(function)}
    sys.modules[name].__class__ = type("Program", (ModuleType,), own)
