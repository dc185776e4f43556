"""A descent file as the page shows it: the Hessian's lowest eigenvalue, edge and overlap along gradient flow."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.experiments import models
from bbp.explorer.state import BY_NAME, text_of
from bbp.explorer.sweepfile import Held, options_of
from bbp.plots import style
from bbp.plots.descent import mean_in_time, samples_in_time, spread_alphas
from theory.checks import ParameterError

Array = NDArray[np.float64]
CURVES = 5  # alphas that are shown


def held(found: xr.Dataset) -> Held:
    """The descents of a file from their first start, at the largest N, at a few alphas. ParameterError without Hessians."""
    if not found.sizes["hessian_step"]:
        raise ParameterError("these descents hold no Hessian: run bbp descent with --eigenpairs of 1 or more")
    model, n, start = models.of(found), int(found.n[-1]), str(found.start.values[0])
    one = found.sel(n=n, start=start)
    alphas = spread_alphas(found, CURVES)
    rows = [_curves(one.sel(alpha=alpha)) | {"alpha": alpha} for alpha in alphas]
    tints = [style.ordered(k, len(rows)) for k in range(len(rows))]
    values = {"p": text_of(model.p), "p_star": model.p_star, "a": model.a} | options_of(model)
    values["n"] = int(np.clip(n, BY_NAME["n"].low, BY_NAME["n"].high))
    about = f"N = {n}, {start} start; from dark to light α = " + ", ".join(f"{alpha:.4g}" for alpha in alphas)
    return Held(models.words(model), values, _no_points(), paths=_columns(rows, tints), about=about)


def _no_points() -> dict[str, Array]:
    names = (
        "alpha",
        "n",
        "shape",
        *(f"{name}{end}" for name in ("lowest", "overlap") for end in ("", "_low", "_high")),
    )
    return {name: np.zeros(0) for name in names}


def _curves(one: xr.Dataset) -> dict[str, Any]:
    """Means over samples (time,) at one alpha where the Hessian was looked at; theory is NaN where there is none."""
    moments = np.searchsorted(one.step.values, one.hessian_step.values)
    time = one.time.values[:, moments]
    plain = one.sel(frame="plain")
    seen = {"lowest": plain.eigenvalues.values[..., 0], "overlap": plain.overlaps.values.max(axis=-1)}
    seen |= {"m2": one.m2.values[:, moments]}
    for name, theory in (("lowest_theory", "lowest"), ("edge", "edge"), ("overlap_theory", "overlap")):
        for route in ("conditioned", "quenched"):
            column = f"{route}_{theory}"
            if column in one and np.isfinite(one[column].values).any():
                seen[name] = one[column].values
                break
    at, _ = samples_in_time(time, seen["lowest"])
    found: dict[str, Any] = {"time": at}
    for name in ("lowest", "lowest_theory", "edge", "overlap", "overlap_theory", "m2"):
        found[name] = _mean(time, seen[name], at) if name in seen else np.full(len(at), np.nan)
    return found


def _mean(time: Array, values: Array, at: Array) -> Array:
    """The mean over the samples that have every number, at these times; NaN where there are none."""
    known, mean = mean_in_time(time, values)
    return np.interp(at, known, mean) if len(known) else np.full(len(at), np.nan)


def _columns(rows: list[dict[str, Any]], tints: list[str]) -> dict[str, dict[str, Any]]:
    """Rows of points, one below the other, and lines, one list for each alpha; from the first time after 0, as the axis is
    logarithmic."""
    names = ("time", "lowest", "lowest_theory", "edge", "overlap", "overlap_theory", "m2")
    kept = [row["time"] > 0 for row in rows]
    points: dict[str, Any] = {
        name: np.concatenate([row[name][k] for row, k in zip(rows, kept, strict=True)]) for name in names
    }
    sizes = [int(k.sum()) for k in kept]
    points["alpha"] = np.repeat([row["alpha"] for row in rows], sizes)
    points["color"] = [tint for tint, size in zip(tints, sizes, strict=True) for _ in range(size)]
    lines: dict[str, Any] = {
        name: [row[name][k].tolist() for row, k in zip(rows, kept, strict=True)]
        for name in names
        if name not in ("lowest", "overlap")
    }
    return {"path": points, "path_lines": lines | {"color": tints}}


def axes_of(paths: dict[str, dict[str, Any]]) -> dict[str, tuple[float, float, float, float]]:
    """Ends of the axes of both figures."""
    points = paths["path"]
    time = points["time"]
    ends = (float(time.min()) / 1.2, float(time.max()) * 1.2) if len(time) else (0.1, 10.0)
    values = np.concatenate([points[name] for name in ("lowest", "lowest_theory", "edge")])
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (-1.0, 0.0)
    room = 0.08 * (high - low) or 0.1
    return {"path": (*ends, low - room, high + room), "path_overlap": (*ends, -0.03, 1.03)}
