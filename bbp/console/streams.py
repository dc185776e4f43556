"""stdin, stdout and stderr as a program finds them: closed, of an encoding too small, or with a reader that has gone."""

from __future__ import annotations

import io
import os
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
