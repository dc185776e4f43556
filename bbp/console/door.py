"""The door to an experiment: a program made of a table of options and the module that builds the experiment from them."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from dataclasses import dataclass

from bbp.console import options, program
from bbp.console.options import Option


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
        return importlib.import_module("bbp.engine.door").carry_out(experiment, how)

    def main(self, argv: Sequence[str] | None = None) -> int:
        """The command; its exit code."""
        return program.program(
            self.name, self.add_arguments, self.run, argv, summary=self.summary, example=self.example
        )
