"""What every command shares: parser, exit codes, messages, progress.

A command is a module bbp/NAME.py with

    add_arguments(parser)   its options, each with help and a default
    run(args) -> int        the work; the result is the exit code (0 well done, 1 something failed)
    main(argv=None) -> int  `return cli.program("NAME", add_arguments, run, argv, summary=..., example=...)`

and, last, `if __name__ == "__main__": sys.exit(main())`. It is reached as `bbp NAME`, `python -m bbp.NAME`.
Wrong arguments raise `ParameterError`, unusable files `bbp.console.errors.FileError`, failed runs
`bbp.console.errors.RunError`; `program` turns them into one line on stderr and an exit code. Results go to stdout,
messages (the logger "bbp") to stderr.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from tqdm import tqdm

from bbp import __version__
from bbp.console.errors import RunError, Terminated
from theory.checks import NotConverged, ParameterError

COMMANDS = {
    "sweep": "sample Hessians over alpha beside the theory, into one HDF5 file",
    "phase": "thresholds alpha_BBP, their kind and overlap jump over (p, a)",
    "compare": "finite-N samples against theory: a table and a figure",
    "plot": "the figure that fits a file",
    "figures": "every figure of the documentation",
    "descent": "gradient descent and the Hessian along it",
    "explore": "the model in the browser: curves that move, samples, phases",
    "info": "what is in this file",
}
OK, FAILED, USAGE, INTERRUPTED, BROKEN_PIPE, TERMINATED = 0, 1, 2, 130, 141, 143
SPARSE_SECONDS = 30.0

log = logging.getLogger("bbp")


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors, no abbreviations, and the nearest right name for a wrong one."""

    def __init__(self, prog: str, **kwargs: Any):
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(prog, **kwargs)

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: error: {_one_line(message)} (see {self.prog} --help)\n")

    def parse_args(self, args=None, namespace=None):
        known, extra = self.parse_known_args(args, namespace)
        if extra:
            options = [text for action in self._actions for text in action.option_strings]
            near = nearest(extra[0].split("=")[0], options) if extra[0].startswith("-") else ""
            self.error(f"unrecognised argument {extra[0]!r}{near}")
        return known


def nearest(name: str, names: Sequence[str]) -> str:
    """ "; did you mean X?" for the name most like `name`, or nothing."""
    match = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {match[0]}?" if match else ""


def program(
    name: str,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], int],
    argv: Sequence[str] | None = None,
    *,
    summary: str,
    example: str,
) -> int:
    """Parse, run, answer with an exit code: 0 done, 1 failed, 2 wrong arguments or files, 130 interrupted."""
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
    try:
        args = parser.parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    with messages(parser.prog, quiet=args.quiet, verbose=args.verbose):
        return guarded(parser.prog, lambda: run(args), verbose=args.verbose)


def guarded(prog: str, work: Callable[[], int], *, verbose: bool = False) -> int:
    """The exit code of `work()`; what it raises becomes one line on stderr."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except ParameterError as error:
        return _complain(prog, error, USAGE)
    except (RunError, NotConverged) as error:
        return _complain(prog, error, FAILED)
    except KeyboardInterrupt as error:
        word, code = (
            ("terminated", TERMINATED) if isinstance(error, Terminated) else ("interrupted", INTERRUPTED)
        )
        return _complain(prog, "; ".join([word, *filter(None, [str(error)])]), code)
    except BrokenPipeError:
        # The reader of stdout has gone (`bbp info FILE | head`); point it elsewhere for a silent exit flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except MemoryError as error:
        return _complain(prog, f"out of memory: {error}", FAILED)
    except OSError as error:
        return _complain(prog, describe(error), FAILED)
    except Exception as error:
        if verbose:
            traceback.print_exc()
        hint = "" if verbose else " (--verbose shows the traceback)"
        return _complain(prog, f"unforeseen {type(error).__name__}: {_one_line(error)}{hint}", FAILED)


def describe(error: OSError) -> str:
    """An OSError in words: "No space left on device: 'results/x.h5'"."""
    name = f": {error.filename!r}" if error.filename else ""
    return f"{error.strerror or _one_line(error)}{name}"


def dispatch(argv: Sequence[str]) -> int:
    """The program `bbp`: hand over to the named command, which is imported only then."""
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


def overview() -> str:
    """The text of `bbp --help`."""
    lines = [f"  {name:9} {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: bbp [-h] [--version] COMMAND ...",
            "",
            "Hessian BBP transitions of quadratic teacher-student networks: theory, samples, figures.",
            "",
            "commands (each also as python -m bbp.COMMAND):",
            *lines,
            "",
            "example:",
            "  bbp sweep --alpha-grid --p 1 --a 1.0 --n 400 --samples 16 --out results/sweep.h5",
            "  bbp plot results/sweep.h5 --out sweep.png",
        ]
    )


@contextmanager
def messages(prog: str, *, quiet: bool = False, verbose: bool = False) -> Iterator[None]:
    """Send the logger "bbp" to stderr, each message after the program's name, for the length of the block."""
    handler = _Stderr()
    handler.setFormatter(logging.Formatter(f"{prog}: %(message)s"))
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]


class Progress:
    """A bar on a terminal; elsewhere a plain line at most every `SPARSE_SECONDS`; nothing when quiet.

    Use as a context manager; `advance(n, note)` after each piece of work, `grow(n)` when more work appears.
    """

    def __init__(self, total: int, *, unit: str, done: int = 0):
        self.total, self.done, self.unit = total, done, unit
        self._start = self._last = time.monotonic()
        self._first = done
        self._shown = log.isEnabledFor(logging.INFO)
        self._bar = None
        if self._shown and sys.stderr.isatty():
            self._bar = tqdm(total=total, initial=done, unit=unit, file=sys.stderr, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def grow(self, n: int) -> None:
        self.total += n
        if self._bar is not None:
            self._bar.total = self.total
            self._bar.refresh()

    def advance(self, n: int = 1, note: str = "") -> None:
        self.done += n
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(n)
        elif self._shown and time.monotonic() - self._last >= SPARSE_SECONDS:
            self._last = time.monotonic()
            log.info(self._line(note))

    def _line(self, note: str) -> str:
        rate = (time.monotonic() - self._start) / max(self.done - self._first, 1)
        left = duration(rate * (self.total - self.done))
        return f"{self.done}/{self.total} {self.unit}, about {left} left{', ' + note if note else ''}"


def duration(seconds: float) -> str:
    """Seconds in words: "0.4 s", "12 s", "3 min 20 s", "5 h 10 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


class _Stderr(logging.StreamHandler):
    """Writes to whatever sys.stderr is now, through tqdm so that a bar is not torn."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record), file=sys.stderr)


def _complain(prog: str, error: object, code: int) -> int:
    print(f"{prog}: error: {_one_line(error)}", file=sys.stderr)
    return code


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
