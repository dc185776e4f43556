"""Minima in a phase diagram, p = p* = 1: how many over (alpha, a), and where the teacher makes saddles of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.engine.tasks import TEXT, Columns, Field, Kind
from bbp.experiments import models
from theory.checks import ParameterError
from theory.minima import most_numerous, reach, threshold
from theory.minima.answers import checked
from theory.model import Network

_ROW = ("sample",)
# Fields of `theory.minima.Minima` by name here
_NUMBERS = {name: name for name in ("complexity", "overlap", "loss", "force", "instability")} | {
    "complexity_error": "error"
}


def check(settings: Mapping[str, Any]) -> None:
    """ParameterError where minima of these models cannot be counted."""
    if settings["p_star"] != 1:
        raise ParameterError(f"minima are counted for p = p* = 1, got p_star {settings['p_star']}")
    if 1 not in settings["p"]:
        widths = ",".join(map(str, settings["p"]))
        raise ParameterError(
            f"minima are counted for p = p* = 1, got p {widths}: p must have 1 among its widths"
        )
    for name in ("covariance", "overlap"):
        if settings.get(name, models.DEFAULTS[name]) != models.DEFAULTS[name]:
            raise ParameterError(f"minima are counted for networks without {name}")
    for a in settings["at_a"]:
        checked(models.make(1, 1, a, settings), 1.0, 0.0)


def _model(given: Mapping[str, Any], a: float) -> Network:
    return models.build({**given, "p": 1, "a": a})


def _cells(given: Mapping[str, Any], samples: Sequence[int]) -> Columns:
    """The most numerous minima at cells (alpha, a), alpha outermost."""
    rows: dict[str, list[Any]] = {f"minima_{name}": [] for name in (*_NUMBERS, "reach", "kind")}
    for i, j in (divmod(sample, len(given["a"])) for sample in samples):
        model, alpha = _model(given, given["a"][j]), given["alpha"][i]
        found = most_numerous(model, alpha)
        for name, held in {**_NUMBERS, "kind": "kind"}.items():
            rows[f"minima_{name}"].append(getattr(found, held))
        rows["minima_reach"].append(reach(model, alpha, found))
    return {
        name: np.array(values, object if name == "minima_kind" else float) for name, values in rows.items()
    }


def _unstable(given: Mapping[str, Any], samples: Sequence[int]) -> Columns:
    found = [threshold(_model(given, given["a"][sample])) for sample in samples]
    return {
        "alpha_minima": np.array([each.alpha for each in found]),
        "alpha_minima_error": np.array(
            [each.error if math.isfinite(each.alpha) else math.nan for each in found]
        ),
        "alpha_minima_jump": np.array([each.jump for each in found]),
        "alpha_minima_kind": np.array([each.kind for each in found], dtype=object),
    }


KINDS = {
    "minima": Kind(
        _cells,
        (
            *(Field(f"minima_{name}", _ROW) for name in (*_NUMBERS, "reach")),
            Field("minima_kind", _ROW, TEXT, ""),
        ),
    ),
    "unstable": Kind(
        _unstable,
        (
            *(Field(name, _ROW) for name in ("alpha_minima", "alpha_minima_error", "alpha_minima_jump")),
            Field("alpha_minima_kind", _ROW, TEXT, ""),
        ),
    ),
}


def variables(
    cells: Columns, unstable: Columns, alphas: int
) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
    """Of a phase diagram, from the rows of both kinds."""
    named: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {}
    for rows, reason, dims in (
        (cells, "minima_reason", ("minima_alpha", "at_a")),
        (unstable, "alpha_minima_reason", ("at_a",)),
    ):
        for name, values in rows.items():
            if name != "status":
                shaped = np.reshape(values, (alphas, -1)) if len(dims) == 2 else np.asarray(values)
                named[reason if name == "reason" else name] = dims, shaped
    return named


def table(phase: xr.Dataset) -> list[str]:
    """Lines of the minima at every cell, and of the thresholds of each a beside one another."""
    lines = [
        "minima, p = 1: the most numerous ones",
        f"{'alpha':>9}  {'a':>9}  {'Sigma':>8}  {'overlap':>7}  {'up to':>7}  {'loss':>8}  {'instability':>11}  kind",
    ]
    for j, a in enumerate(phase.at_a.values):
        for i, alpha in enumerate(phase.minima_alpha.values):
            at = phase.isel(minima_alpha=i, at_a=j)
            if at.minima_kind.item():
                lines.append(
                    f"{alpha:9.4g}  {a:9.4g}  {_number(at.minima_complexity, '8.5f')}  {_number(at.minima_overlap, '7.4f')}"
                    f"  {_number(at.minima_reach, '7.4f')}  {_number(at.minima_loss, '8.5f')}"
                    f"  {_number(at.minima_instability, '11.4f')}  {at.minima_kind.item()}"
                )
    lines += [
        "",
        f"{'a':>9}  {'alpha_BBP':>10}  {'alpha_0':>10}  {'time ends':>10}  {'minima unstable':>15}  {'error':>8}  kind",
    ]
    for j, a in enumerate(phase.at_a.values):
        at = phase.isel(at_a=j)
        if kind := at.alpha_minima_kind.item():
            start = [_at_start(at, name) for name in ("widths_alpha_bbp", "widths_alpha_0_overlap")]
            lines.append(
                f"{a:9.4g}  {start[0]}  {start[1]}  {_last_time(at)}  {_number(at.alpha_minima, '15.6f')}"
                f"  {_number(at.alpha_minima_error, '8.1e')}  {kind}"
            )
    return [*lines, ""]


def _at_start(at: xr.Dataset, name: str) -> str:
    """What the cuts say of p = 1, or a dash."""
    return _number(at[name].sel(width=1.0), "10.6f") if 1.0 in at.width.values else f"{'-':>10}"


def _last_time(at: xr.Dataset) -> str:
    """From which alpha of the BBP times on gradient flow of p = 1 never loses the outlier, as far as they were asked for."""
    if "bbp_time" not in at or 1.0 not in at.p.values:
        return f"{'-':>10}"
    kinds, alphas = at.bbp_time_kind.sel(p=1.0).values, at.alpha.values
    lost = np.flatnonzero(kinds == "lost")
    after = lost[-1] + 1 if len(lost) else 0
    if len(lost) and after < len(alphas) and np.all(kinds[after:] == "none"):
        return f"{f'<= {alphas[after]:.4g}':>10}"
    return f"{f'> {alphas[lost[-1]]:.4g}' if len(lost) else '-':>10}"


def _number(value: xr.DataArray, digits: str) -> str:
    width = int(digits.split(".")[0])
    number = float(value)
    return f"{'-':>{width}}" if math.isnan(number) else f"{number:{digits}}"
