"""From results to arrays over the points' axes, and to sweeps: the theory beside them, and where it all came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bbp.analysis.finite_theory import finite_theory
from bbp.engine.experiment import Point as AnyPoint
from bbp.engine.tasks import Result, Results
from bbp.experiments import models
from bbp.files import provenance, table
from bbp.files.table import Field
from bbp.store import COLUMNS, OUTER, Sweep
from sims.instance import STREAM
from theory.model import Committee

if TYPE_CHECKING:
    from bbp.experiments.sweep import SweepExperiment


def arrays(
    results: Results,
    columns: Sequence[Field],
    outer: Sequence[str],
    sizes: Mapping[str, int],
    places: Iterable[tuple[tuple[int, ...], AnyPoint, int]],
) -> dict[str, NDArray[Any]]:
    """Columns over the axes `outer` of the points and their own: what was not run holds its fill.

    places   for each point: its index over `outer`, the point, and how many of its samples count
    """
    found = {field.name: field.empty(sizes) for field in table.over(outer, columns)}
    for index, point, number in places:
        if results.any(point):
            for name, values in results.gather(point, number, columns, sizes).items():
                found[name][index][:number] = values
    return found


def sweeps(config: SweepExperiment, results: Results) -> list[Sweep]:
    """One `Sweep` a model, of all that has been run; samples not run are NaN with status 0."""
    return [_sweep(config, results, index) for index in range(len(config.models))]


def _sweep(config: SweepExperiment, results: Results, index: int) -> Sweep:
    model, grid = config.models[index], config.alphas_of(results, index)
    axes = {
        "n": np.array(config.n),
        "alpha": np.array(grid),
        "sample": np.arange(config.samples),
        "eigenpair": np.arange(config.eigenpairs[index]),
    }
    points = [
        ((i, j), (index, n, alpha)) for (i, n), (j, alpha) in product(enumerate(config.n), enumerate(grid))
    ]
    sizes = {name: len(values) for name, values in axes.items()}
    places = ((place, point, config.wanted(results, point)) for place, point in points)
    sampled = arrays(results, COLUMNS, OUTER, sizes, places)
    units = [unit for unit in results.units if unit.point[0] == index]
    (threshold, kind), along = models.transition(model), models.theory_along(model, axes["alpha"])
    theory = {field.name: getattr(along, field.name) for field in fields(along)}
    if isinstance(model, Committee):
        at_n = finite_theory(model, config.n, axes["alpha"], config.seed)
        theory |= {f"{name}_n": values for name, values in at_n.items()}
    return Sweep.of(
        axes | sampled | theory,
        model=model,
        alpha_bbp=threshold,
        kind=kind,
        config=config.record(index),
        provenance=_provenance(units),
        attributes={
            "seed": config.seed,
            "dtype": config.settings["dtype"],
            "device": devices(units),
            "prng": STREAM,
            "finished": int(all(config.complete(results, point) for _, point in points)),
        }
        | provenance.record(),
    )


def devices(units: Iterable[Result]) -> str:
    """The devices that computed, in words."""
    return ", ".join(sorted({unit.device for unit in units if unit.device})) or "none"


def _provenance(units: Sequence[Result]) -> dict[str, NDArray[Any]]:
    units = sorted(units, key=lambda unit: (unit.point, unit.first, unit.count))
    return {
        "n": np.array([unit.point[1] for unit in units], dtype=np.int64),
        "alpha": np.array([unit.point[2] for unit in units], dtype=np.float64),
        "first": np.array([unit.first for unit in units], dtype=np.int64),
        "count": np.array([unit.count for unit in units], dtype=np.int64),
        "seconds": np.array([unit.seconds for unit in units], dtype=np.float64),
        "host": np.array([unit.host for unit in units], dtype=object),
        "device": np.array([unit.device for unit in units], dtype=object),
    }
