"""stdin, stdout and stderr as a program finds them: closed, of an encoding too small, or with a reader that has gone.

Text goes to a reader in one line, of bounded length, and without a character that commands a terminal.
"""

from __future__ import annotations

import io
import os
import re
import sys


def prepare() -> None:
    """Make the standard streams fit for use; calling it again changes nothing.

    A closed one is opened on nothing, lest the next file opened take its number and its text. Characters that an encoding
    lacks are spelled out: a table must not end a program whose file has landed.
    """
    _fill_descriptors()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def abandon(name: str) -> None:
    """Point "stdout" or "stderr", whose reader has gone, at nothing, so that its last flush, at the exit, is silent."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, getattr(sys, name).fileno())
    except (OSError, ValueError, AttributeError):  # no file behind it
        setattr(sys, name, os.fdopen(os.dup(nowhere), "w"))
    finally:
        os.close(nowhere)


def _fill_descriptors() -> None:
    """Open 0, 1 and 2 on nothing where they are closed; os.open takes the lowest number that is free."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


LONGEST = 600  # of a message
LONGEST_WORD = 200  # of one unbroken run in it: a value that someone gave
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: object) -> str:
    r"""`text` with control characters spelled out (ESC as \x1b), lines and tabs kept: what a file holds may be hostile.

    >>> plain("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return _COMMANDS.sub(lambda found: ascii(found.group())[1:-1], str(text))


def one_line(text: object) -> str:
    """`text` in one plain line, long values in it and the whole shortened in their middle."""
    words = [_shortened(word, LONGEST_WORD) for word in str(text)[: 100 * LONGEST].split()]
    return plain(_shortened(" ".join(words), LONGEST))


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    kept = most // 2 - 2
    return f"{text[:kept]}...{text[-kept:]}"
