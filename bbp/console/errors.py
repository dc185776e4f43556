"""Errors of the programs that are not wrong arguments: files to refuse, runs that fail."""

from __future__ import annotations

from bbp.console.signals import Interrupted
from theory.checks import ParameterError

__all__ = ["FileError", "Interrupted", "RunError"]


class FileError(ParameterError):
    """A file or directory that cannot be used as asked: foreign, truncated, taken, read-only. Exit code 2."""


class RunError(RuntimeError):
    """A run that could not do its work: disk full, lost workers, a missing optional package. Exit code 1."""
