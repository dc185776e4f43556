"""Programs that run experiments: each a command and a function of Python at once, made of a table of options and of what builds
an experiment from them.

Until every option is checked nothing heavy is imported: --help and wrong options are answered at once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bbp.console import options, process, program
from bbp.console.messages import RunError, log, messages
from bbp.console.process import Interrupted
from theory import checks
from theory.checks import ParameterError

SHELL_ONLY = ("out", "save", "width", "task", "merge", "dry_run")  # options that are for the shell
OF_TASKS = ("--task", "--merge", "--dry-run")  # which Python does not have
OF_A_FILE = ("resume", "force", "retry_failed")  # of a file, and of what a run has left beside it
NO_OBSERVABLES = {"observable": "observables are of sweeps (bbp sweep), and of what reads their files"}


@dataclass(frozen=True)
class Program:
    """A program `bbp NAME` that runs what `build(settings, given)` of `bbp.experiments.NAME` makes of its options.

    options   the table
    rivals    pairs of options of which the one on the command line wins over the other in a TOML file
    summary, example   of --help
    elsewhere          options of other programs, and why they are not here
    """

    name: str
    options: Sequence[options.Option]
    summary: str
    example: str
    rivals: Sequence[tuple[str, str]] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The options, from their table."""
        options.add(parser, self.options)
        for name, why in self.elsewhere.items():
            if isinstance(parser, program.Parser):
                parser.elsewhere([f"--{name}"], why)

    def run(self, args: argparse.Namespace) -> int:
        """Carry out the command; 0 done, 1 if samples failed."""
        values = options.given(args, self.options, self.rivals)
        settings = options.checked(self.options, values)
        experiment = self._built(settings, values)
        from bbp.experiments.carry_out import carry_out

        return carry_out(experiment, settings)

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
        **grids: Any,
    ) -> Any:
        """What the program would put into its file, from Python.

        given      options by name, as the command line has them but with _ for -, of text or of numbers, lists, arrays
        what       more for `build`
        out        the file to write; None keeps nothing on disk
        executor   runs the units of work
        progress   False: no bar and no messages but errors
        grids      more options, of which None keeps the default

        ParameterError on a wrong option; FileError, RunError as the program; Interrupted, a KeyboardInterrupt, on Ctrl-C.
        """
        names = [option.name for option in self.options if option.name not in SHELL_ONLY]
        given = {**{name: values for name, values in grids.items() if values is not None}, **given}
        progress, values = checks.flag("progress", progress), {n: _plain(value) for n, value in given.items()}
        for name in values:
            if name in self.elsewhere:
                raise ParameterError(f"{self.name} has no option {name!r}: {self.elsewhere[name]}")
            if name not in names:
                # from Python the grid is an argument of its own
                named = ["alpha" if known == "alpha_grid" else known for known in names]
                raise ParameterError(f"{self.name} has no option {name!r}{options.nearest(name, named)}")
        how = options.checked(self.options, values)
        how |= {"out": None if out is None else options.data_file("out", out), "executor": executor}
        for option in self.options:
            if out is None and option.name in OF_A_FILE and how[option.name]:
                raise ParameterError(
                    f"{option.name}=True needs out, the name of a file: without it nothing is kept on disk"
                )
        name = f"bbp.{self.name}"
        with process.heeded(name), messages(name, quiet=not progress), self._in_python():
            experiment = self._built(how, values, *what)
            from bbp.experiments import carry_out

            found, said = carry_out.obtain(experiment, how)
            if said:
                log.info("%s", said)
            carry_out.tell_failures(experiment, found, "retry_failed=True" if said else "")
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
        except (ParameterError, RunError, Interrupted) as error:
            error.args = tuple(
                parts.sub(lambda found: words.get(found[0], found[0]), part)
                if isinstance(part, str)
                else part
                for part in error.args
            )
            raise

    def experiment(self, given: Mapping[str, Any], *what: Any) -> Any:
        """The experiment of these options (text or typed values), defaults filled in; ParameterError on a bad one."""
        return self._built(options.checked(self.options, given), given, *what)

    def _built(self, settings: Mapping[str, Any], given: Mapping[str, Any], *what: Any) -> Any:
        # Only now JAX and SciPy are imported: --help and wrong options are answered at once.
        return importlib.import_module(f"bbp.experiments.{self.name}").build(settings, given, *what)


def _plain(value: Any) -> Any:
    """Arrays and numbers of NumPy, JAX and xarray as lists and numbers, types of numbers as their names."""
    with contextlib.suppress(TypeError):  # a Dataset has no one array
        if isinstance(value, np.dtype | type):
            return value if np.dtype(value) == object else np.dtype(value).name
        if hasattr(value, "__array__"):
            return np.asarray(value).tolist()
    return list(value) if isinstance(value, tuple | range) else value
