"""Several models in one Dataset: the dimension `model`, with what tells them apart along it, over the union of their alphas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from theory.model import Network

OWN = ("p", "p_star", "a")  # attributes that are coordinates where there are several models
_SOME = ("theory_n_", "given_")  # variables that sweeps of some models have, and of others have not
_FOUND = ("alpha_bbp", "kind")  # and variables


def combined(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """One Dataset of those of several models, of each in order; the only one as it is.

    alpha, eigenpair and variables are the union of theirs: where a model has none, numbers are NaN, status 0, text is empty.
    `on_grid` (model, alpha) says which alphas are a model's. What a model's attributes leave out is what networks have unless
    told otherwise; other text is then empty, integers are -1, numbers NaN.
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
    said: dict[Any, dict[Any, Any]] = {}
    for part in plain:
        for name, values in part.variables.items():
            kind = values.dtype.kind
            fill.setdefault(name, "" if kind in "OUT" else 0 if kind in "iu" else np.nan)
            said.setdefault(name, dict(values.attrs))
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
        variable.attrs = said[name]
    found = found.assign_coords(model=np.arange(len(parts)))
    for name in (*OWN, *varied):
        found = found.assign_coords(
            {name: ("model", _column(name, [part.attrs.get(name) for part in parts]))}
        )
    found = found.assign(
        {
            name: ("model", _column(name, [part.attrs[name] for part in parts]))
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
    held = {str(name): part.variables[name].values.item() for name in alone}
    own = {name: value for name, value in held.items() if name in (*OWN, *_FOUND) or not _is_missing(value)}
    config = json.loads(found.attrs.get("config", "[]"))[index]
    asked = [str(text).rpartition(":")[2] for text in config.get("observable") or ()]
    judged = "theory_n_verdict" in part and not _is_void(part.theory_n_verdict.values)  # of rows of one's own
    absent = [
        name
        for name, values in part.data_vars.items()
        if ("observable" in values.attrs and name not in asked)
        or (str(name).startswith(_SOME) and not judged)
        if _is_void(values.values)
    ]
    if "rows_law" in part.dims and not any("rows_law" in part[name].dims for name in set(part) - set(absent)):
        absent.append("rows_law")
    part = part.drop_vars([*alone, *absent, "model"], errors="ignore").assign_attrs(
        {**own, "config": json.dumps(config)}
    )
    pairs = config.get("eigenpairs")
    return part.isel(eigenpair=slice(pairs)) if pairs and "eigenpair" in part.dims else part


def _column(name: str, values: list[Any]) -> np.ndarray:
    known = [value for value in values if value is not None]
    text = any(isinstance(value, str) for value in known)
    if len(known) < len(values):
        usual = getattr(Network, name, None)  # of a field of the dataclass its default
        whole = all(isinstance(value, int | np.integer) for value in known)
        missing = usual if isinstance(usual, str | float) else "" if text else -1 if whole else np.nan
        values = [missing if value is None else value for value in values]
    return np.array(values, dtype=object if text else None)


def _is_void(values: np.ndarray) -> bool:
    empty = "" if values.dtype.kind in "OUT" else 0
    return bool(np.all(np.isnan(values) if values.dtype.kind == "f" else values == empty))


def _is_missing(value: Any) -> bool:
    return value in ("", -1) or (isinstance(value, float) and np.isnan(value))
