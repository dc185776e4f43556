"""The user's programs: sweeps, phase diagrams, comparisons and figures, stored in HDF5."""

import os
import sys

if sys.argv[:1] == ["-m"] and sys.path[0] == os.getcwd() != os.path.dirname(
    os.path.dirname(os.path.realpath(__file__))
):
    # `python -m bbp.sweep` has the current directory before all others: its json.py or theory.py is not what is meant below.
    sys.path.append(sys.path.pop(0))

import importlib
from typing import Any

# An idle thread of OpenBLAS spins for 2^26 processor cycles before it sleeps, and takes a core from what runs next: JAX,
# the other copy of OpenBLAS (NumPy and SciPy each bring one), other processes. 2^20 cycles still span the gaps within one
# routine. The library reads this when NumPy is first imported: after this line in every program; worker processes inherit it.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")

from bbp import former
from bbp.console import process

sys.meta_path.append(former)

if process.is_program():
    process.begin()

__version__ = "0.5.0"

# What `import bbp` gives, imported when it is first asked for: xarray alone takes half a second.
# Each is a module, and a function (program.callable_as).
_PROGRAMS = "sweep", "phase", "descent", "compare", "join", "fit", "plot"


def __getattr__(name: str) -> Any:
    if name in _PROGRAMS:
        return importlib.import_module(f"bbp.{name}")
    if name == "open":
        from bbp.files.dataset import open

        return open
    if name == "inputs":
        from bbp.files.inputs import inputs

        return inputs
    former.find_spec(f"bbp.{name}")
    raise AttributeError(f"module 'bbp' has no attribute {name!r}")
