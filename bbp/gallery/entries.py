"""The figures, found: every `Entry` in a module of this folder, in the order of the documentation.

A new figure is one new module here; where it is not named in ORDER it comes last.
"""

from __future__ import annotations

import importlib
import pkgutil

from bbp import gallery
from bbp.gallery.base import Entry

ORDER = (
    "overlap",
    "thresholds",
    "phi",
    "alpha-zero",
    "spectra",
    "thresholds-two-teachers",
    "underparametrised",
    "activations",
    "what-survives",
    "descent",
    "recovery",
    "growth",
    "descent-theory",
    "lifetime",
    "minima",
    "finite-thresholds",
    "edge",
    "scatter",
    "inputs",
    "spectral",
)


def _found() -> list[Entry]:
    names = sorted(module.name for module in pkgutil.iter_modules(gallery.__path__))
    modules = [importlib.import_module(f"bbp.gallery.{name}") for name in names if name != "entries"]
    return [value for module in modules for value in vars(module).values() if isinstance(value, Entry)]


def _place(entry: Entry) -> tuple[int, str]:
    return (ORDER.index(entry.name) if entry.name in ORDER else len(ORDER)), entry.name


ENTRIES: dict[str, Entry] = {entry.name: entry for entry in sorted(_found(), key=_place)}
