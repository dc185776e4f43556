"""Results put together: seeds, grids of N and alpha, models. What would mix silently is refused."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bbp.analysis.summary import own_names
from bbp.experiments import models
from bbp.files import dataset, disk, product
from bbp.files.variables import DONE, NOT_RUN, described
from theory.checks import ParameterError, shown
from theory.model import Network

SAME = (
    "format",
    "prng",
    "dtype",
)  # attributes that must agree: numbers of different kinds are not one ensemble
SAMPLED = "bbp-sweep", "bbp-descent"
ROUNDING = 1e-5  # relative to the largest, by which two computations of one draw may differ


def join(parts: Iterable[xr.Dataset | str | Path]) -> xr.Dataset:
    """One result of several sweeps, or of several descents: files, or Datasets.

    Parameters
    ----------
    parts
        Files, or Datasets as `bbp.open` gives them.

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
        For nothing to join, for a file given twice, for results that are no samples, for different kinds of result, random
        streams or precisions, and where two parts disagree about the same draw.

    >>> join(["data/finite_size/far.h5", "data/finite_size/far1600.h5"]).n.values.tolist()
    [200, 400, 800, 1600]
    """
    if isinstance(parts, str | bytes | Path | dict | xr.Dataset) or not isinstance(parts, Iterable):
        raise ParameterError(f"parts must be a list of files or results, got {shown(parts)}")
    parts = list(parts)
    disk.require_once(parts)
    opened = [part if isinstance(part, xr.Dataset) else dataset.open(part) for part in parts]
    if not opened:
        raise ParameterError("there is no result to join")
    for name in SAME:
        held = list(dict.fromkeys(str(part.attrs.get(name)) for part in opened))
        if len(held) > 1:
            raise ParameterError(f"results of different {name} are not joined: {', '.join(held)}")
    if opened[0].attrs.get("format") not in SAMPLED or not all("sample" in part.dims for part in opened):
        raise ParameterError(
            f"only samples are joined (sweeps, descents), not a {opened[0].attrs.get('format')} result"
        )
    groups: dict[Network, list[xr.Dataset]] = {}
    apart = [one for several in opened for one in product.split(several)]
    _require_alike(apart)
    for part in apart:
        groups.setdefault(models.of(part), []).append(part)
    return described(product.combined([_of_model(group) for group in groups.values()]))


def _require_alike(parts: list[xr.Dataset]) -> None:
    for name in dict.fromkeys(name for part in parts for name in own_names(part)):
        held = [part[name] for part in parts if name in part]
        if len({(one.attrs["source"], one.dims) for one in held}) > 1:
            raise ParameterError(f"observables of one name and of different sources are not joined: {name}")


def _unknown(kept: xr.DataArray, part: xr.Dataset) -> xr.Variable:
    sizes = [part.sizes[dim] for dim in kept.dims]
    return xr.Variable(kept.dims, np.full(sizes, np.nan), kept.attrs)


def _of_model(parts: list[xr.Dataset]) -> xr.Dataset:
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
    config = {**dataset.config(first), "seed": list(joined) if len(joined) > 1 else next(iter(joined))}
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


def _fill(part: xr.Dataset) -> dict[Hashable, Any]:
    """What stands where a part has nothing: numbers NaN, status 0, text empty."""
    kinds = {name: values.dtype.kind for name, values in part.data_vars.items()}
    return {name: "" if kind in "OUT" else 0 if kind in "iu" else np.nan for name, kind in kinds.items()}


def _merged(one: xr.Dataset, two: xr.Dataset) -> xr.Dataset:
    """Two parts of one stream: of a draw that both hold, the first's that is done."""
    bare = [part.drop_dims("unit", errors="ignore") for part in (one, two)]
    a, b = xr.align(*bare, join="outer", fill_value=_fill(one))
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
    units = [part[[name for name, v in part.data_vars.items() if "unit" in v.dims]] for part in (one, two)]
    joined = xr.Dataset(found, a.coords, a.attrs)
    if all("unit" in part.dims for part in units):
        rows = xr.concat(units, "unit").assign_coords(
            unit=np.arange(sum(part.sizes["unit"] for part in units))
        )
        joined = joined.assign_coords(unit=rows.unit).assign(rows.data_vars)
    return joined


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
    whole = [part.reindex(union, fill_value=_fill(parts[0])) for part in parts]
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
