"""Several models in one Dataset: the dimension `model`, with what tells them apart along it, over the union of their alphas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from bbp.console.messages import FileError
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
    heads = [part.attrs for part in parts]
    same = [name for name in heads[0] if all(head.get(name) == heads[0][name] for head in heads)]
    common = {name: heads[0][name] for name in same if name not in OWN} | {
        "finished": int(all(head.get("finished", 1) for head in heads)),
        "config": json.dumps([json.loads(head.get("config", "{}")) for head in heads]),
    }
    if "created" in heads[0]:
        common["created"] = heads[0]["created"]
    varied = [name for name in dict.fromkeys(n for head in heads for n in head) if name not in common]
    columns = {
        name: ("model", _column(name, [head.get(name) for head in heads]))
        for name in dict.fromkeys((*OWN, *varied, *(found for found in _FOUND if found in heads[0])))
    }
    plain = [
        part.drop_dims("unit", errors="ignore").assign(
            on_grid=("alpha", np.ones(part.sizes["alpha"], np.int8))
        )
        for part in parts
    ]
    kinds = {name: values.dtype.kind for part in reversed(plain) for name, values in part.variables.items()}
    found = xr.concat(
        plain,
        "model",
        join="outer",
        fill_value={
            name: "" if kind in "OUT" else 0 if kind in "iu" else np.nan for name, kind in kinds.items()
        },
        data_vars="all",
        coords="minimal",
        compat="override",
        combine_attrs="drop_conflicts",
    )
    found = found.assign_coords(model=np.arange(len(parts)))
    found = found.assign_coords({name: values for name, values in columns.items() if name not in _FOUND})
    found = found.assign({name: columns[name] for name in _FOUND if name in columns})
    if all("unit" in part.dims for part in parts):
        units = [
            part[[name for name, values in part.data_vars.items() if "unit" in values.dims]].assign(
                unit_model=("unit", np.full(part.sizes["unit"], index))
            )
            for index, part in enumerate(parts)
        ]
        joined = xr.concat(units, "unit")
        found = found.assign({name: values.variable for name, values in joined.data_vars.items()})
        found = found.assign_coords(unit=np.arange(joined.sizes["unit"]))
    found.attrs = common
    return found


def split(found: xr.Dataset) -> list[xr.Dataset]:
    """The Dataset of each model, in order; of one model, that."""
    return [one(found, index) for index in range(found.sizes["model"])] if "model" in found.dims else [found]


def chosen(found: xr.Dataset, model: int | None, name: str) -> xr.Dataset:
    """One model's result of several, by its index, or the only one; FileError, which calls the file `name`."""
    parts = split(found)
    if model is None and len(parts) == 1:
        return parts[0]
    if model is None or not 0 <= model < len(parts):
        said = [
            {key: part.attrs[key] for key in Network.__dataclass_fields__ if key in part.attrs}
            for part in parts[:8]
        ]
        held = "; ".join(f"{i}: {' '.join(f'{k}={v}' for k, v in one.items())}" for i, one in enumerate(said))
        more = "; ..." if len(parts) > 8 else ""
        wanted = (
            "choose one by its index (bbp plot --model INDEX)" if model is None else f"none has index {model}"
        )
        raise FileError(f"{name} holds {len(parts)} models ({held}{more}): {wanted}")
    return parts[model]


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
