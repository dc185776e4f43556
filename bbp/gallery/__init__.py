"""The figures of the documentation: `ENTRIES`, every `Entry` in a module of this folder.

A new figure is a new module here, or an Entry in one. None imports JAX before it computes: a stored figure is drawn without.
"""

import importlib
import pkgutil

from bbp.gallery.base import Entry

# Modules in the order of their figures; any other comes last.
FIRST = ("overlaps", "thresholds", "finite_size", "descent", "recovery", "minima", "inputs")
_MODULES = dict.fromkeys((*FIRST, *(each.name for each in pkgutil.iter_modules(__path__))))
ENTRIES = {
    entry.name: entry
    for module in _MODULES
    for entry in vars(importlib.import_module(f"{__name__}.{module}")).values()
    if isinstance(entry, Entry)
}
