"""Several results in one Dataset, over the union of their grids: models along the dimension `model`, with what tells them
apart, and samples of several seeds along `sample`. What would mix silently is refused.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import fields
from functools import reduce
from typing import Any

import numpy as np
import xarray as xr

from bbp.console.messages import FileError
from bbp.files.variables import DONE, NOT_RUN, described, own_names
from theory.checks import ParameterError
from theory.model import Network

OWN = ("p", "p_star", "a")  # attributes that are coordinates where there are several models
_SOME = ("theory_n_", "given_")  # variables that sweeps of some models have, and of others have not
_FOUND = ("alpha_bbp", "kind")  # and variables
# Attributes that must agree: numbers of different kinds are not one ensemble.
SAME = "format", "prng", "dtype"
SAMPLED = "bbp-sweep", "bbp-descent"
ROUNDING = 1e-5  # relative to the largest, by which two computations of one draw may differ


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
    found = xr.concat(
        plain,
        "model",
        join="outer",
        fill_value=_fill(plain),
        data_vars="all",
        coords="minimal",
        compat="override",
        combine_attrs="drop_conflicts",
    )
    found = found.assign_coords(model=np.arange(len(parts)))
    found = found.assign_coords({name: values for name, values in columns.items() if name not in _FOUND})
    found = found.assign({name: columns[name] for name in _FOUND if name in columns})
    found.attrs = common
    whose = [
        part.assign(unit_model=("unit", np.full(part.sizes["unit"], index))) if "unit" in part.dims else part
        for index, part in enumerate(parts)
    ]
    return _with_units(found, whose)


def split(found: xr.Dataset) -> list[xr.Dataset]:
    """The Dataset of each model, in order; of one model, that."""
    return [one(found, index) for index in range(found.sizes["model"])] if "model" in found.dims else [found]


def require_one(found: xr.Dataset) -> None:
    """ParameterError for a result of several models."""
    if "model" in found.dims:
        raise ParameterError(
            f"choose one of {found.sizes['model']} models: bbp.files.product.one(dataset, index)"
        )


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


def join(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """One result of several sweeps, or of several descents.

    Parameters
    ----------
    parts
        Datasets as `bbp.open` gives them.

    Returns
    -------
    xarray.Dataset
        Over the union of their models (dimension `model` if there are several), n, alpha (and start) and samples. Samples of
        several seeds follow each other along `sample`, where the coordinates `seed` and `draw` say which stream each is of, and
        its number there. A draw that several parts hold counts once. Eigenpairs are those that all parts of a model hold. An
        observable of one's own that only some have measured is NaN elsewhere.

    Raises
    ------
    ParameterError
        For nothing to join, for results that are no samples, for different kinds of result, random streams or precisions, and
        where two parts disagree about the same draw.
    """
    if not parts:
        raise ParameterError("there is no result to join")
    for name in SAME:
        held = list(dict.fromkeys(str(part.attrs.get(name)) for part in parts))
        if len(held) > 1:
            raise ParameterError(f"results of different {name} are not joined: {', '.join(held)}")
    if parts[0].attrs.get("format") not in SAMPLED or not all("sample" in part.dims for part in parts):
        raise ParameterError(
            f"only samples are joined (sweeps, descents), not a {parts[0].attrs.get('format')} result"
        )
    apart = [one for several in parts for one in split(several)]
    for name in dict.fromkeys(name for part in apart for name in own_names(part)):
        kinds = {(part[name].attrs["source"], part[name].dims) for part in apart if name in part}
        if len(kinds) > 1:
            raise ParameterError(f"observables of one name and of different sources are not joined: {name}")
    groups: dict[Any, list[xr.Dataset]] = {}
    for part in apart:
        groups.setdefault(_model_of(part), []).append(part)
    return described(combined([_joined(group) for group in groups.values()]))


def _model_of(part: xr.Dataset) -> tuple[Any, ...]:
    """What tells the model of a result from others: its fields, and the hashes of objects of one's own among them."""
    return tuple(
        (part.attrs.get(f.name, f.default), part.attrs.get(f"{f.name}_source")) for f in fields(Network)
    )


def _unknown(kept: xr.DataArray, part: xr.Dataset) -> xr.Variable:
    sizes = [part.sizes[dim] for dim in kept.dims]
    return xr.Variable(kept.dims, np.full(sizes, np.nan), kept.attrs)


def _joined(parts: list[xr.Dataset]) -> xr.Dataset:
    if len(parts) == 1:
        return parts[0]
    pairs = min(part.sizes["eigenpair"] for part in parts)
    measured = {name: part[name] for part in reversed(parts) for name in own_names(part)}
    for name, kept in measured.items():  # where a part has not measured it, it is not known
        parts = [part if name in part else part.assign({name: _unknown(kept, part)}) for part in parts]
    streams: dict[Any, list[xr.Dataset]] = {}
    for part in parts:
        for seed, stream in _streams(part.isel(eigenpair=slice(pairs))):
            streams.setdefault(seed, []).append(stream)
    joined = {seed: reduce(_merged, own) for seed, own in streams.items()}
    first = parts[0]
    seed = list(joined) if len(joined) > 1 else next(iter(joined))
    config = json.loads(first.attrs.get("config", "{}")) | {"seed": seed}
    attributes = {**first.attrs, "config": json.dumps(config)}
    attributes["finished"] = int(all(part.attrs.get("finished", 1) for part in parts))
    if len(joined) == 1:
        return next(iter(joined.values())).assign_attrs(attributes)
    attributes.pop("seed", None)
    found = _side_by_side(joined)
    found.attrs = attributes
    return found


def _streams(part: xr.Dataset) -> list[tuple[Any, xr.Dataset]]:
    """The samples of each seed, numbered as in its stream."""
    if "seed" not in part.coords:
        return [(part.attrs.get("seed"), part)]
    found = []
    for seed in dict.fromkeys(part.seed.values.tolist()):
        own = part.isel(sample=np.flatnonzero(part.seed.values == seed))
        found.append((seed, own.assign_coords(sample=own.draw.values).drop_vars(["seed", "draw"])))
    return found


def _fill(parts: Sequence[xr.Dataset]) -> dict[Hashable, Any]:
    """What stands where a part has nothing, by name, the first part's types first: numbers NaN, status 0, text empty."""
    kinds = {name: values.dtype.kind for part in reversed(parts) for name, values in part.variables.items()}
    return {name: "" if kind in "OUT" else 0 if kind in "iu" else np.nan for name, kind in kinds.items()}


def _with_units(found: xr.Dataset, parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """`found` with the units of work of the parts one after another; without any where one of them has none."""
    if not all("unit" in part.dims for part in parts):
        return found
    own = [part[[name for name, v in part.data_vars.items() if "unit" in v.dims]] for part in parts]
    rows = xr.concat(own, "unit")
    numbered = found.assign_coords(unit=np.arange(rows.sizes["unit"]))
    return numbered.assign({name: values.variable for name, values in rows.data_vars.items()})


def _merged(one: xr.Dataset, two: xr.Dataset) -> xr.Dataset:
    """Two parts of one stream: of a draw that both hold, the first's that is done."""
    bare = [part.drop_dims("unit", errors="ignore") for part in (one, two)]
    a, b = xr.align(*bare, join="outer", fill_value=_fill([one]))
    both = (a.status == DONE) & (b.status == DONE)
    take = (b.status != NOT_RUN) & (a.status != DONE) & ((b.status == DONE) | (a.status == NOT_RUN))
    found: dict[Hashable, Any] = {}
    for name in [name for name in a.data_vars if name in b.data_vars or "sample" not in a[name].dims]:
        old, new = a[name], b.get(name)
        if new is None:
            found[name] = old.variable
        elif "sample" in old.dims:
            if name not in ("residuals", "reason", "status") and old.dtype.kind in "fiu":
                _agree(str(name), old.where(both), new.where(both))
            taken = xr.where(take, new, old)
            measured = taken.fillna(new.where(both)) if "observable" in old.attrs else taken
            found[name] = measured.transpose(*old.dims).variable
        else:
            found[name] = (old.fillna(new) if old.dtype.kind == "f" else old).variable
    for name, values in found.items():
        values.attrs = dict(a[name].attrs)
    return _with_units(xr.Dataset(found, a.coords, a.attrs), (one, two))


def _agree(name: str, one: xr.DataArray, two: xr.DataArray) -> None:
    """ParameterError where the same draw has different numbers."""
    scale = float(np.nanmax(np.abs(one.values), initial=0.0))
    apart = np.abs(one.values - two.values) > ROUNDING * scale
    if apart.any():
        at = one.isel(dict(zip(one.dims, np.argwhere(apart)[0], strict=True)))
        where = ", ".join(f"{dim} = {at[dim].item()}" for dim in at.coords if dim in one.dims)
        raise ParameterError(f"the parts disagree about one draw: {name} at {where}")


def _side_by_side(streams: dict[Any, xr.Dataset]) -> xr.Dataset:
    """Samples of several seeds, one after another along `sample`."""
    parts = []
    for seed, part in streams.items():
        own = part.drop_dims("unit", errors="ignore")
        which = {
            "seed": ("sample", np.full(own.sizes["sample"], seed)),
            "draw": ("sample", own.sample.values),
        }
        parts.append(own.assign_coords(which))
    outer = [dim for dim in parts[0].status.dims if dim not in ("sample", "start")]
    union = {dim: reduce(np.union1d, [part[dim].values for part in parts]) for dim in outer}
    whole = [part.reindex(union, fill_value=_fill(parts[:1])) for part in parts]
    names = [name for name in whole[0].data_vars if all(name in part for part in whole)]
    sampled = [part[[name for name in names if "sample" in part[name].dims]] for part in whole]
    found = xr.concat(sampled, "sample", combine_attrs="override")
    found = found.assign_coords(sample=np.arange(found.sizes["sample"]))
    for name in names:
        if "sample" not in whole[0][name].dims:
            each = [part[name] for part in whole]
            joined = reduce(lambda a, b: a.fillna(b), each) if each[0].dtype.kind == "f" else each[0]
            found[name] = joined.variable
    return found
