"""The figures of the documentation: `ENTRIES`, every `Entry` in a module of this folder, in the order of ORDER.

A new figure is a new module here, or an Entry in one; where ORDER does not name it, it comes last.
"""

from __future__ import annotations

import importlib
import pkgutil

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


_found = {
    value.name: value
    for module in pkgutil.iter_modules(__path__)
    for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values()
    if isinstance(value, Entry)
}
ENTRIES = {name: _found[name] for name in dict.fromkeys((*ORDER, *_found))}
