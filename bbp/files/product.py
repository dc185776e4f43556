"""Several models in one Dataset: the dimension `model`, with what tells them apart along it, over the union of their alphas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

OWN = ("p", "p_star", "a")  # attributes that are coordinates where there are several models
_FOUND = ("alpha_bbp", "kind")  # and variables


def combined(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """One Dataset of those of several models, of each in order; the only one as it is.

    alpha and eigenpair are the union of theirs: where a model has none, numbers are NaN and status 0. `on_grid` (model, alpha)
    says which alphas are a model's.
    """
    if len(parts) == 1:
        return parts[0]
    common = {
        name: value
        for name, value in parts[0].attrs.items()
        if name not in OWN and all(p.attrs.get(name) == value for p in parts)
    }
    varied = [
        name
        for name in dict.fromkeys(n for p in parts for n in p.attrs)
        if name not in (*OWN, *_FOUND, *common, "config", "finished", "created")
    ]
    units = [part[[name for name, v in part.data_vars.items() if "unit" in v.dims]] for part in parts]
    plain = [
        part.drop_dims("unit", errors="ignore").assign(
            on_grid=("alpha", np.ones(part.sizes["alpha"], np.int8))
        )
        for part in parts
    ]
    fill: dict[Any, Any] = {}
    for name, values in plain[0].data_vars.items():
        kind = values.dtype.kind
        fill[name] = "" if kind in "OUT" else 0 if kind in "iu" else np.nan
    found = xr.concat(
        plain,
        "model",
        join="outer",
        fill_value=fill,
        data_vars="all",
        coords="minimal",
        compat="override",
        combine_attrs="drop",
    )
    for name, variable in found.variables.items():
        variable.attrs = dict(plain[0].variables[name].attrs)
    found = found.assign_coords(model=np.arange(len(parts)))
    for name in (*OWN, *varied):
        found = found.assign_coords({name: ("model", _column([part.attrs.get(name) for part in parts]))})
    found = found.assign(
        {
            name: ("model", _column([part.attrs[name] for part in parts]))
            for name in _FOUND
            if name in parts[0].attrs
        }
    )
    if all("unit" in part.dims for part in units):
        held = [
            part.assign(unit_model=("unit", np.full(part.sizes["unit"], i))) for i, part in enumerate(units)
        ]
        joined = xr.concat(held, "unit").assign_coords(
            unit=np.arange(sum(part.sizes["unit"] for part in units))
        )
        found = found.assign(
            {name: values.variable for name, values in joined.data_vars.items()}
        ).assign_coords(unit=joined.unit)
    finished = int(all(part.attrs.get("finished", 1) for part in parts))
    configs = json.dumps([json.loads(part.attrs.get("config", "{}")) for part in parts])
    return found.assign_attrs(
        {
            **common,
            **{n: parts[0].attrs[n] for n in ("created",) if n in parts[0].attrs},
            "finished": finished,
            "config": configs,
        }
    )


def split(found: xr.Dataset) -> list[xr.Dataset]:
    """The Dataset of each model, in order; of one model, that."""
    return [one(found, index) for index in range(found.sizes["model"])] if "model" in found.dims else [found]


def one(found: xr.Dataset, index: int) -> xr.Dataset:
    """The Dataset of the model with this index: its own alphas and eigenpairs, and its attributes."""
    part = found.isel(model=index)
    if "on_grid" in part:
        part = part.isel(alpha=np.flatnonzero(part.on_grid.values)).drop_vars("on_grid")
    if "unit" in part.dims:
        part = part.isel(unit=np.flatnonzero(part.unit_model.values == index)).drop_vars("unit_model")
        part = part.assign_coords(unit=np.arange(part.sizes["unit"]))
    alone = [
        name for name, values in part.variables.items() if name != "model" and found[name].dims == ("model",)
    ]
    own = {str(name): part.variables[name].values.item() for name in alone}
    config = json.loads(found.attrs.get("config", "[]"))[index]
    part = part.drop_vars([*alone, "model"], errors="ignore").assign_attrs(
        {**own, "config": json.dumps(config)}
    )
    pairs = config.get("eigenpairs")
    return part.isel(eigenpair=slice(pairs)) if pairs and "eigenpair" in part.dims else part


def _column(values: list[Any]) -> np.ndarray:
    text = any(isinstance(value, str) for value in values)
    return np.array(values, dtype=object if text else None)
