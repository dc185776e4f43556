"""What every command shares: parser, exit codes, errors in one line; and the programs that run experiments.

A command is a module bbp/NAME.py with

    add_arguments(parser)   its options, each with help and a default
    run(args) -> int        the work; the result is the exit code (0 well done, 1 something failed)
    main(argv=None) -> int  `functools.partial(program.program, "NAME", add_arguments, run, summary=..., example=...)`

and, last, `if __name__ == "__main__": sys.exit(main())`. It is reached as `bbp NAME`, `python -m bbp.NAME`.
Wrong arguments raise `ParameterError`, unusable files `bbp.console.messages.FileError`, failed runs
`bbp.console.messages.RunError`; `program` turns them into one line on stderr and an exit code. Results go to stdout,
messages (the logger "bbp") to stderr. Commands that run experiments are made by `bbp.experiments.program.Program`.
"""

from __future__ import annotations

import argparse
import errno
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

from bbp import __version__
from bbp.console import options, process
from bbp.console.messages import STDERR, RunError, heed_jax, in_words, messages, no_device, one_line, plain
from bbp.console.process import Interrupted
from theory.checks import NotConverged, ParameterError

OK, FAILED, USAGE, BROKEN_PIPE = 0, 1, 2, 141
# What the system refuses because of the name or the place that was given; anything else happened to the run.
_ASKED = (
    errno.ENAMETOOLONG,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
)


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors, no abbreviations, and the nearest right name for a wrong one."""

    def __init__(self, prog: str, **kwargs: Any):
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(prog, **kwargs)
        self._elsewhere: dict[str, str] = {}

    def elsewhere(self, names: Sequence[str], why: str) -> None:
        """Options of other programs that users will look for here, such as --loss, and in a line why they are not here."""
        self._elsewhere |= dict.fromkeys(names, why)

    def error(self, message: str) -> NoReturn:
        """One line on stderr and exit code 2, without the usage."""
        complain(self.prog, f"{one_line(message)} (see {self.prog} --help)", USAGE)
        raise SystemExit(USAGE)

    def parse_args(self, args=None, namespace=None):
        """As argparse's, but a wrong option is told with the nearest right one."""
        words = sys.argv[1:] if args is None else list(args)
        for word in words:
            # argparse drops the "--" and hands on an empty list.
            if re.fullmatch("--[a-z-]+=--", word):
                self.error(f"argument {word[:-3]}: expected a value, got '--'")
        known, extra = self.parse_known_args(self._joined(words), namespace)
        if extra:
            if why := self._elsewhere.get(extra[0].split("=")[0]):
                self.error(f"no {extra[0].split('=')[0]} here: {why}")
            names = [text for action in self._actions for text in action.option_strings]
            near = _nearest_option(extra[0].split("=")[0], names) if extra[0].startswith("-") else ""
            self.error(f"unrecognised argument {extra[0]!r}{near}")
        return known

    def _joined(self, words: Sequence[str]) -> list[str]:
        """`--alpha-grid -1:2:5` as `--alpha-grid=-1:2:5`: argparse takes the value for an option, its reader tells more."""
        takes = {
            text
            for action in self._actions
            for text in action.option_strings
            if text[:2] == "--" and action.nargs in (None, "?")
        }
        joined: list[str] = []
        for word in words:
            if joined and joined[-1] in takes and re.match(r"-(\.?\d|inf)", word):
                joined[-1] += f"={word}"
            else:
                joined.append(word)
        return joined


def _nearest_option(name: str, names: Sequence[str]) -> str:
    """The options that have all the words of `name` among theirs (--a: --a-grid or --at-a), else the nearest."""
    words = set(name.strip("-").split("-"))
    having = [option for option in names if words <= set(option.strip("-").split("-"))]
    return f"; did you mean {' or '.join(having)}?" if 0 < len(having) < 4 else options.nearest(name, names)


def program(
    name: str,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], int],
    argv: Sequence[str] | None = None,
    *,
    summary: str,
    example: str,
) -> int:
    """Parse, run, answer with an exit code: 0 done, 1 failed, 2 wrong arguments or files, 128 + number after a signal."""
    process.prepare()
    parser = Parser(prog=f"bbp {name}", description=summary, epilog=f"example:\n{example.rstrip()}")
    add_arguments(parser)
    noise = parser.add_mutually_exclusive_group()
    noise.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="no progress and no messages but errors; results are printed",
    )
    noise.add_argument("-v", "--verbose", action="store_true", help="more messages, and tracebacks of bugs")
    parser.add_argument("--version", action="version", version=f"bbp {__version__}")
    with process.heeded(parser.prog):
        try:
            args = parser.parse_args(argv)
        except SystemExit as stop:
            return process.end(int(stop.code or 0))
        heed_jax()
        with messages(parser.prog, quiet=args.quiet, verbose=args.verbose):
            return process.end(guarded(parser.prog, lambda: run(args), verbose=args.verbose))


def guarded(prog: str, work: Callable[[], int], *, verbose: bool = False) -> int:
    """The exit code of `work()`; what it raises becomes one line on stderr."""
    try:
        process.check()
        code = work()
        sys.stdout.flush()
        process.check()
        return code
    except ParameterError as error:
        return complain(prog, error, USAGE)
    except (RunError, NotConverged) as error:
        return complain(prog, error, FAILED)
    except KeyboardInterrupt as error:
        signal = error if isinstance(error, Interrupted) else Interrupted(str(error))
        return complain(prog, "; ".join(filter(None, [signal.word, str(signal)])), 128 + signal.number)
    except BrokenPipeError:
        # The reader of stdout has gone (`bbp info FILE | head`); point it elsewhere for a silent exit flush.
        process.abandon("stdout")
        return BROKEN_PIPE
    except MemoryError as error:
        size = re.search(r"allocate (\S+ \S+)", str(error))
        return complain(prog, "out of memory" + (f": {size[1]} were needed at once" if size else ""), FAILED)
    except OSError as error:
        return complain(prog, in_words(error), USAGE if error.errno in _ASKED else FAILED)
    except Exception as error:
        if verbose:
            traceback.print_exc(file=STDERR)
        if reason := no_device(error):
            return complain(prog, reason, FAILED)
        hint = "" if verbose else " (--verbose shows the traceback)"
        return complain(prog, f"unforeseen {type(error).__name__}: {one_line(error)}{hint}", FAILED)


def show(text: str) -> None:
    """Print a result on stdout, control characters spelled out: some of its text may come from a file."""
    print(plain(text))


def complain(prog: str, error: object, code: int) -> int:
    """One line on stderr, and the exit code; the words of a process that is leaving already count first."""
    process.claim()
    STDERR.write(f"{prog}: error: {one_line(error)}\n")
    return code


def callable_as(name: str, function: Callable[..., Any]) -> None:
    """Make the module `name` callable as this function: `bbp.sweep` is what `python -m bbp.sweep` runs, and a function."""
    own = {"__call__": staticmethod(function), "__signature__": inspect.signature(function)}
    sys.modules[name].__class__ = type("Program", (ModuleType,), own)
