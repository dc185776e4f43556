"""From results to arrays over the points' axes, and to sweeps: the theory beside them, and where it all came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.analysis.finite_theory import finite_theory
from bbp.engine.tasks import Point as AnyPoint
from bbp.engine.tasks import Result, Results
from bbp.experiments import models
from bbp.files import provenance, table
from bbp.files.table import Field
from bbp.store import COLUMNS, OUTER, Sweep
from sims.instance import STREAM


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


def sweep(
    model: models.Model,
    axes: Mapping[str, NDArray[Any]],
    places: Sequence[tuple[tuple[int, ...], AnyPoint, int]],
    results: Results,
    record: Mapping[str, Any],
    finished: bool,
) -> Sweep:
    """The `Sweep` of a model, of all that has been run, with the theory beside it; samples not run are NaN with status 0.

    axes     coordinates of the file by name
    places   see `arrays`
    record   the model's configuration, defaults filled in
    """
    sizes = {name: len(values) for name, values in axes.items()}
    sampled = arrays(results, COLUMNS, OUTER, sizes, places)
    own = {point for _, point, _ in places}
    units = [unit for unit in results.units if unit.point in own]
    (threshold, kind), along = models.transition(model), models.theory_along(model, axes["alpha"])
    theory = {field.name: getattr(along, field.name) for field in fields(along)}
    if model.is_committee:
        at_n = finite_theory(model, axes["n"].tolist(), axes["alpha"], record["seed"])
        theory |= {f"{name}_n": values for name, values in at_n.items()}
    return Sweep.of(
        {**axes, **sampled, **theory},
        model=model,
        alpha_bbp=threshold,
        kind=kind,
        config=dict(record),
        provenance=_provenance(units),
        attributes={
            "seed": record["seed"],
            "dtype": record["dtype"],
            "device": devices(units),
            "prng": STREAM,
            "finished": int(finished),
        }
        | provenance.record(unit.made for unit in units if unit.made),
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
