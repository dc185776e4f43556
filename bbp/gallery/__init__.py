"""The figures of the documentation: `ENTRIES`, every `Entry` in a module of this folder, imported when it is asked for.

A new figure is a new module here, or an Entry in one; where MODULES does not name it, it comes last.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping

from bbp.gallery.base import Entry

# The figures in their order, and the module of each.
MODULES = {
    "overlap": "overlaps",
    "thresholds": "thresholds",
    "phi": "finite_size",
    "alpha-zero": "thresholds",
    "spectra": "eigenvalues",
    "thresholds-two-teachers": "thresholds",
    "underparametrised": "thresholds",
    "activations": "overlaps",
    "what-survives": "thresholds",
    "descent": "descent",
    "recovery": "recovery",
    "growth": "recovery",
    "descent-theory": "descent",
    "lifetime": "descent",
    "minima": "minima",
    "finite-thresholds": "finite_size",
    "edge": "eigenvalues",
    "scatter": "eigenvalues",
    "inputs": "inputs",
    "spectral": "overlaps",
}


def entries_of(module: str) -> dict[str, Entry]:
    """The figures that a module of this folder makes, by name."""
    held = vars(importlib.import_module(f"{__name__}.{module}")).values()
    return {value.name: value for value in held if isinstance(value, Entry)}


class Entries(Mapping[str, Entry]):
    """Figures by name. Modules that MODULES does not name are imported at once, to learn what they make; JAX comes with one
    that does."""

    def __init__(self) -> None:
        known = {"base", *MODULES.values()}
        others = [each.name for each in pkgutil.iter_modules(__path__) if each.name not in known]
        self._modules = MODULES | {name: module for module in others for name in entries_of(module)}

    def __getitem__(self, name: str) -> Entry:
        return entries_of(self._modules[name])[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


ENTRIES = Entries()
