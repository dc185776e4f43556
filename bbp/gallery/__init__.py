"""The figures of the documentation: `ENTRIES`; and what one is: how its data are made, stored and drawn.

An `Entry` has a name, a caption, a function `build(effort) -> arrays` and a function `draw(data) -> Figure`, and is made of the
latter by `figure`. Its data land in one HDF5 file (bbp.files.dataset), with the configuration that made them.

A new figure is a new module here, or an Entry in one. None imports JAX before it computes: a stored figure is drawn without.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bbp.analysis.summary import of_samples
from bbp.files import dataset, variables
from bbp.plots import style
from theory.model import Network

Array = NDArray[Any]
Arrays = dict[str, Any]  # as an xarray.Dataset takes them: (dimensions, values), or a NumPy number

Data = Mapping[str, Array]  # the arrays of one figure by name, coordinates by that of their dimension


@dataclass(frozen=True)
class Effort:
    """How much to compute. mode "quick" or "paper"; n and samples override the entry's own sizes where given."""

    mode: str = "quick"
    n: tuple[int, ...] | None = None
    samples: int | None = None
    seed: int = 0

    def sizes(self, quick: Sequence[int], paper: Sequence[int]) -> tuple[int, ...]:
        """Input dimensions: those asked for, else the entry's for the mode."""
        return self.n if self.n is not None else tuple(quick if self.mode == "quick" else paper)

    def count(self, quick: int, paper: int) -> int:
        """Number of samples: the one asked for, else the entry's for the mode."""
        return self.samples if self.samples is not None else (quick if self.mode == "quick" else paper)


@dataclass(frozen=True)
class Entry:
    """One figure: `build` gives the arrays, `draw` the picture from stored data."""

    name: str
    caption: str
    build: Callable[[Effort], Arrays]
    draw: Callable[[Data], Figure]


def figure(name: str, build: Callable[[Effort], Arrays]) -> Callable[[Callable[[Data], Figure]], Entry]:
    """Make an `Entry` of a function that draws: the caption is what its docstring says."""
    return lambda draw: Entry(name, " ".join((draw.__doc__ or "").split()), build, draw)


def save(path: Path, entry: Entry, arrays: Arrays, effort: Effort, seconds: float) -> None:
    """Write the data of one figure, whole or not at all (OSError)."""
    own = {"figure": entry.name, "caption": entry.caption, "seconds": seconds, "finished": 1}
    attributes = (
        variables.provenance() | own | {"format": dataset.FIGURE, "config": json.dumps(config(entry, effort))}
    )
    dataset.write(path, xr.Dataset(dict(arrays), attrs=attributes))


def load(path: str | Path, *, locking: dataset.Locking = None) -> tuple[Data, dict[str, Any]]:
    """Data and configuration of a stored figure; FileError, one line, where the file is not one or is damaged."""
    found = dataset.open(path, dataset.FIGURE, locking=locking)
    return arrays_of(found), dataset.config(found)


def arrays_of(found: xr.Dataset) -> Data:
    """The arrays of a figure's Dataset by name."""
    return {str(name): values.values for name, values in found.variables.items()}


def asked(entry: Entry, effort: Effort) -> dict[str, Any]:
    """The options of a figure as plain data."""
    n = None if effort.n is None else list(effort.n)
    return {"figure": entry.name, **asdict(effort), "n": n}


def config(entry: Entry, effort: Effort) -> dict[str, Any]:
    """What decides the numbers of a figure, as plain data."""
    from sims.instance import STREAM  # late: it brings JAX

    return {**asked(entry, effort), "prng": STREAM}


def rounded(alphas: Array) -> Array:
    """alphas to six digits after the point: draws are keyed by the bits of alpha, and the last digit of a threshold must not
    draw them anew."""
    return np.round(alphas, 6)


def sampled(
    model: Network,
    n: int,
    alphas: Sequence[float] | Array,
    samples: int,
    seed: int,
    eigenpairs: int | None = None,
) -> dict[str, Array]:
    """Samples at every alpha: lowest, overlap (mean q2 of the p p_star lowest) and hit (whether the largest overlap is among
    these), each (alpha, sample), and eigenvalues (alpha, sample, k); NaN for a sample that failed."""
    from sims.sampling import sample_point  # late: it brings JAX

    rows: dict[str, list[Array]] = {"lowest": [], "overlap": [], "hit": [], "eigenvalues": []}
    for alpha in alphas:
        point = sample_point(model, n, float(alpha), range(samples), seed, eigenpairs=eigenpairs)
        found = of_samples(model, point)
        for name in rows:
            rows[name].append(found["phi_group" if name == "hit" else name].values)
    return {name: np.array(values) for name, values in rows.items()}


def descents(
    model: Network, n: int, alpha: float, samples: int, seed: int, rules: Mapping[str, Any], **more: Any
) -> Any:
    """A `sims.dynamics.samples.DescentResult` from random starts, stopped by these rules (`sims.dynamics.flow.Rules`)."""
    from sims.dynamics.flow import Rules  # late: it brings JAX
    from sims.dynamics.samples import sample_descents

    return sample_descents(model, n, alpha, range(samples), seed, rules=Rules(**rules), **more)


def points_look(index: int, **more: Any) -> dict[str, Any]:
    """Colour and marker of the index-th set of points."""
    return {"color": style.colour(index), "marker": style.marker(index), "linestyle": "none"} | more


# Modules in the order of their figures; any other comes last.
FIRST = ("overlaps", "thresholds", "finite_size", "descent", "recovery", "minima", "inputs")
_MODULES = dict.fromkeys((*FIRST, *(each.name for each in pkgutil.iter_modules(__path__))))
ENTRIES = {
    entry.name: entry
    for module in _MODULES
    for entry in vars(importlib.import_module(f"{__name__}.{module}")).values()
    if isinstance(entry, Entry)
}
