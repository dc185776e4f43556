"""From results of units of work to Datasets: columns over the points' axes, the theory beside them, and where it came from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from bbp.analysis.given import verdicts
from bbp.analysis.summary import finite_theory
from bbp.engine.tasks import Field, Result, Results
from bbp.experiments import models
from bbp.experiments.samples import COLUMNS, OUTER
from bbp.files import variables
from bbp.files.dataset import SWEEP
from bbp.files.variables import described
from sims.instance import STREAM
from theory.finite.law import doubts
from theory.model import Network

Places = Sequence[tuple[tuple[int, ...], tuple[Any, ...], int]]


def columns(
    results: Results,
    fields: Sequence[Field],
    outer: Sequence[str],
    axes: Mapping[str, Any],
    places: Places,
) -> xr.Dataset:
    """Columns of units over the axes `outer` of the points and their own; samples that were not run are missing, of status 0.

    axes     coordinates by name
    places   for each point: its index over `outer`, the point, and how many of its samples count
    """
    sizes = {name: len(values) for name, values in axes.items()}
    found = {field.name: field.empty(sizes, outer) for field in fields}
    for index, point, number in places:
        if results.any(point):
            for name, values in results.gather(point, number, fields, sizes).items():
                found[name][index][:number] = values
    words = {f.name: {"long_name": f.words} if f.words else {} for f in fields}
    return xr.Dataset({f.name: ((*outer, *f.dims), found[f.name], words[f.name]) for f in fields}, dict(axes))


def sweep(
    model: Network,
    axes: Mapping[str, Any],
    places: Places,
    results: Results,
    record: Mapping[str, Any],
    finished: bool,
    fields: Sequence[Field] = COLUMNS,
) -> xr.Dataset:
    """The sweep of a model, of all that has been run, with the theory beside it (bbp.store).

    axes, places   see `columns`
    record         the model's configuration, defaults filled in
    fields         what units gave
    """
    own = {point for _, point, _ in places}
    units = [unit for unit in results.units if unit.point in own]
    found = columns(results, fields, OUTER, axes, places).assign(_units(units))
    more = {"format": SWEEP, "seed": record["seed"], "dtype": record["dtype"], "device": devices(units)}
    more |= {"prng": STREAM, "finished": int(finished), "config": json.dumps(dict(record))}
    return with_theory(
        found.assign_attrs(more | variables.provenance(unit.made for unit in units if unit.made)), model
    )


def with_theory(found: xr.Dataset, model: Network) -> xr.Dataset:
    """The same samples with theory at N = infinity, and of a committee at their N, along n and alpha."""
    (threshold, kind), along = models.transition(model), models.theory_along(model, found.alpha.values)
    theory: dict[str, Any] = {f"theory_{name}": ("alpha", values) for name, values in along.items()}
    if model.inputs is not None:
        theory |= verdicts(found, model)
    if model.is_committee:
        at_n = finite_theory(model, found.n.values.tolist(), found.alpha.values, found.attrs["seed"])
        theory |= {f"theory_n_{name}": (OUTER[: values.ndim], values) for name, values in at_n.items()}
    attributes = models.record(model) | {"alpha_bbp": threshold, "kind": kind}
    if model.is_committee and (said := doubts(model, found.alpha.values.tolist(), found.n.values.tolist())):
        attributes["theory_n_doubt"] = said
    return described(found.assign(theory).assign_attrs(attributes))


def devices(units: Iterable[Result]) -> str:
    """The devices that computed, in words."""
    return ", ".join(sorted({unit.device for unit in units if unit.device})) or "none"


def _units(units: Sequence[Result]) -> dict[str, Any]:
    """Variables over "unit": which samples, where, in what time."""
    units = sorted(units, key=lambda unit: (unit.point, unit.first, unit.count))
    rows: dict[str, tuple[list[Any], Any]] = {
        "n": ([unit.point[1] for unit in units], np.int64),
        "alpha": ([unit.point[2] for unit in units], np.float64),
        "first": ([unit.first for unit in units], np.int64),
        "count": ([unit.count for unit in units], np.int64),
        "seconds": ([unit.seconds for unit in units], np.float64),
        "host": ([unit.host for unit in units], object),
        "device": ([unit.device for unit in units], object),
    }
    found = {
        f"unit_{name}": ("unit", np.array(values, dtype=dtype)) for name, (values, dtype) in rows.items()
    }
    return found | {"unit": ("unit", np.arange(len(units)))}
