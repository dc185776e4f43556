"""What every command shares: parser, exit codes, errors in one line.

A command is a module bbp/NAME.py with

    add_arguments(parser)   its options, each with help and a default
    run(args) -> int        the work; the result is the exit code (0 well done, 1 something failed)
    main(argv=None) -> int  `return program.program("NAME", add_arguments, run, argv, summary=..., example=...)`

and, last, `if __name__ == "__main__": sys.exit(main())`. It is reached as `bbp NAME`, `python -m bbp.NAME`.
Wrong arguments raise `ParameterError`, unusable files `bbp.console.errors.FileError`, failed runs
`bbp.console.errors.RunError`; `program` turns them into one line on stderr and an exit code. Results go to stdout,
messages (the logger "bbp") to stderr.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

from bbp import __version__
from bbp.console import devices, signals, streams
from bbp.console.commands import COMMANDS, overview
from bbp.console.errors import Interrupted, RunError
from bbp.console.progress import STDERR, Progress, duration, log, messages
from bbp.console.streams import one_line, plain
from theory.checks import NotConverged, ParameterError

__all__ = ["Parser", "Progress", "dispatch", "duration", "guarded", "log", "messages", "program", "show"]

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

    def elsewhere(self, options: Sequence[str], why: str) -> None:
        """Options of other programs that users will look for here, such as --loss, and in a line why they are not here."""
        self._elsewhere |= dict.fromkeys(options, why)

    def error(self, message: str) -> NoReturn:
        """One line on stderr and exit code 2, without the usage."""
        _complain(self.prog, f"{one_line(message)} (see {self.prog} --help)", USAGE)
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
            options = [text for action in self._actions for text in action.option_strings]
            near = _nearest_option(extra[0].split("=")[0], options) if extra[0].startswith("-") else ""
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


def nearest(name: str, names: Sequence[str]) -> str:
    """ "; did you mean X?" for the name most like `name`, or nothing."""
    match = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {match[0]}?" if match else ""


def _nearest_option(name: str, options: Sequence[str]) -> str:
    """The options that have all the words of `name` among theirs (--a: --a-grid or --at-a), else the nearest."""
    words = set(name.strip("-").split("-"))
    having = [option for option in options if words <= set(option.strip("-").split("-"))]
    return f"; did you mean {' or '.join(having)}?" if 0 < len(having) < 4 else nearest(name, options)


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
    streams.prepare()
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
    with signals.heeded(parser.prog):
        try:
            args = parser.parse_args(argv)
        except SystemExit as stop:
            return signals.end(int(stop.code or 0))
        devices.heed()
        with messages(parser.prog, quiet=args.quiet, verbose=args.verbose):
            return signals.end(guarded(parser.prog, lambda: run(args), verbose=args.verbose))


def guarded(prog: str, work: Callable[[], int], *, verbose: bool = False) -> int:
    """The exit code of `work()`; what it raises becomes one line on stderr."""
    try:
        signals.check()
        code = work()
        sys.stdout.flush()
        signals.check()
        return code
    except ParameterError as error:
        return _complain(prog, error, USAGE)
    except (RunError, NotConverged) as error:
        return _complain(prog, error, FAILED)
    except KeyboardInterrupt as error:
        signal = error if isinstance(error, Interrupted) else Interrupted(str(error))
        return _complain(prog, "; ".join(filter(None, [signal.word, str(signal)])), 128 + signal.number)
    except BrokenPipeError:
        # The reader of stdout has gone (`bbp info FILE | head`); point it elsewhere for a silent exit flush.
        streams.abandon("stdout")
        return BROKEN_PIPE
    except MemoryError as error:
        size = re.search(r"allocate (\S+ \S+)", str(error))
        return _complain(prog, "out of memory" + (f": {size[1]} were needed at once" if size else ""), FAILED)
    except OSError as error:
        return _complain(prog, describe(error), USAGE if error.errno in _ASKED else FAILED)
    except Exception as error:
        if verbose:
            traceback.print_exc(file=STDERR)
        if reason := devices.missing(error) or devices.exhausted(error):
            return _complain(prog, reason, FAILED)
        hint = "" if verbose else " (--verbose shows the traceback)"
        return _complain(prog, f"unforeseen {type(error).__name__}: {one_line(error)}{hint}", FAILED)


def show(text: str) -> None:
    """Print a result on stdout, control characters spelled out: some of its text may come from a file."""
    print(plain(text))


def describe(error: OSError) -> str:
    """An OSError in words: "No space left on device: 'results/x.h5'"."""
    name = f": {error.filename!r}" if error.filename else ""
    return f"{error.strerror or one_line(error)}{name}"


def dispatch(argv: Sequence[str]) -> int:
    """The program `bbp`: hand over to the named command, which is imported only then."""
    streams.prepare()
    if not argv or argv[0] in ("-h", "--help"):
        print(overview(), file=sys.stdout if argv else sys.stderr)
        return OK if argv else USAGE
    if argv[0] == "--version":
        print(f"bbp {__version__}")
        return OK
    if argv[0] not in COMMANDS:
        return _complain(
            "bbp", f"no command {argv[0]!r}{nearest(argv[0], list(COMMANDS))} (see bbp --help)", USAGE
        )
    return importlib.import_module(f"bbp.{argv[0]}").main(argv[1:])


def _complain(prog: str, error: object, code: int) -> int:
    """One line on stderr, and the exit code; the words of a process that is leaving already count first."""
    signals.claim()
    STDERR.write(f"{prog}: error: {one_line(error)}\n")
    return code


def callable_as(name: str, function: Callable[..., Any]) -> None:
    """Make the module `name` callable as this function: `bbp.sweep` is what `python -m bbp.sweep` runs, and a function."""
    own = {"__call__": staticmethod(function), "__signature__": inspect.signature(function)}
    sys.modules[name].__class__ = type("Program", (ModuleType,), own)
