"""A file as the page shows it: samples of a sweep over the curves, for each model it holds; descents in time."""

from __future__ import annotations

import base64
import binascii
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bbp.analysis.summary import summarise
from bbp.experiments import models, own
from bbp.explorer.answer import COLUMNS, Answer, empty
from bbp.explorer.curves import Array, Columns
from bbp.explorer.state import BY_NAME, COVARIANCES, OPTIONS, State, plain, text_of
from bbp.files import dataset, product
from bbp.plots import style
from bbp.plots.descent import mean_in_time, samples_in_time, spread_alphas
from theory.checks import ParameterError
from theory.model.covariance import covariance
from theory.model.network import Network

MODELS = 12  # of a product that the page offers
UPLOAD = 16 * 2**20  # bytes of a file sent by a page
SWEEP_POINTS = 5_000
CURVES = 5  # alphas of descents
SIGNS = "□○△◇▽⬡■●▲◆▼⬢"  # of sizes N, as figures.SHAPES: open, then filled


@dataclass(frozen=True)
class Held:
    """One model of an opened file: how the page names it, values of a state that shows it, and columns of the page's sources.

    columns     of "sweep"
    quantities  by name of every quantity that averages over samples have: its words, and columns of "quantity"
    paths       of descents: columns of "path" and "path_lines"
    about       what of the file they show
    file        its name
    """

    text: str
    values: dict[str, Any]
    columns: Columns = field(default_factory=lambda: empty("sweep"))
    quantities: dict[str, tuple[str, Columns]] = field(default_factory=dict)
    paths: dict[str, Columns] = field(default_factory=dict)
    about: str = ""
    file: str = ""

    def fits(self, state: State) -> bool:
        """Whether these are samples of the state's model."""
        shown = state.values()
        return all(shown[name] == value for name, value in self.values.items() if name != "n")


def read(path: str | Path) -> list[Held]:
    """The models of a sweep file, or the one of descents. Raises FileError (a ParameterError) where it is neither, or too large
    for a page."""
    if dataset.kind_of(path) == dataset.DESCENT:
        held = [_descents(dataset.open(path))]
    else:
        held = [_sweep(sweep) for sweep in product.split(dataset.open(path, dataset.SWEEP))[:MODELS]]
    points = sum(len(one.columns["alpha"]) for one in held)
    if points > SWEEP_POINTS:
        raise ParameterError(f"the file has {points} points; a page shows {SWEEP_POINTS}")
    return [replace(one, file=Path(path).name) for one in held]


def read_upload(name: str, content: str) -> list[Held]:
    """`read` of bytes in base64 that a page has sent. In a process of its own: the parser of HDF5 is not ours."""
    try:
        file = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise ParameterError("the file did not arrive whole: open it once more") from None
    if len(file) > UPLOAD:
        raise ParameterError(
            f"a page takes files of at most {UPLOAD // 2**20} MiB: start with bbp explore FILE.h5"
        )
    with tempfile.TemporaryDirectory(prefix="bbp-explore-") as folder:
        path = Path(folder) / "sweep.h5"
        path.write_bytes(file)
        try:
            return [replace(one, file=name) for one in read(path)]
        except ParameterError as error:
            raise ParameterError(str(error).replace(str(path), name)) from None


def query_of(held: list[Held]) -> str:
    """The query of a page that starts at the first model of a file that it can show; "" for no file."""
    for one in held:
        try:
            return State.of(one.values).query()
        except ParameterError:
            continue
    return ""


def _values(model: Network, n: int) -> dict[str, Any]:
    """Values of a state that shows samples of this model."""
    limits = BY_NAME["n"]
    values = {"p": text_of(model.p), "p_star": model.p_star, "a": model.a} | options_of(model)
    return values | {"n": int(np.clip(n, limits.low, limits.high))}


def options_of(model: Network) -> dict[str, Any]:
    """The options of a model as the controls have them, defaults included; what a page has no control for is called other."""
    values = {control.name: getattr(State(), control.name) for control in OPTIONS}
    if model.is_committee:
        return values
    unlike = model.teacher_activation, model.gram, model.target, model.output_noise or None, model.inputs
    if any(part is not None for part in unlike):
        return values | {"activation": "other"}
    specs = {covariance(name).spec: name for name in COVARIANCES if name != "identity"}
    for name in ("activation", "loss", "covariance"):
        part = getattr(model, name)
        if part is not None:
            spec = getattr(part, "name", "") or specs.get(part.spec, part.spec)
            values[name] = own.read(name, part) or spec
    for name in models.STUDENT_NUMBERS:
        values[name] = ",".join(map(plain, getattr(model, name) or ()))
    return values | {"noise": model.noise, "overlap": model.overlap}


def _sweep(sweep: xr.Dataset) -> Held:
    """Means and standard errors over samples."""
    averages, model = summarise(sweep), models.of(sweep)
    lowest, overlap = (_averaged(averages, name, name) for name in ("lowest", "overlap"))
    good = np.isfinite(lowest["lowest"])
    words = models.words(model)
    if "theory_n_verdict" in sweep:
        words += f" (theory of these rows: {', '.join(dict.fromkeys(sweep.theory_n_verdict.values.ravel()))})"
    quantities = {}
    for name in (str(name) for name in averages.data_vars if f"{name}_error" in averages):
        columns = _averaged(averages, name, "value")
        columns |= {end: columns.pop(f"value_{end}") for end in ("low", "high")}
        known = np.isfinite(columns["value"])
        told = str(averages[name].attrs.get("long_name", name))
        quantities[name] = told, {key: values[known] for key, values in columns.items()}
    sizes = np.unique(sweep.n.values)
    return Held(
        words,
        _values(model, int(sizes.max())),
        {key: values[good] for key, values in (lowest | overlap).items()},
        quantities,
        about=", ".join(f"{SIGNS[min(k, len(SIGNS) - 1)]} N = {size:g}" for k, size in enumerate(sizes)),
    )


def _averaged(averages: xr.Dataset, name: str, column: str) -> Columns:
    """Columns alpha, n, shape, and one with _low and _high, of a quantity at every point; NaN where there is no mean."""
    n, alpha = np.meshgrid(averages.n.values.astype(np.float64), averages.alpha.values, indexing="ij")
    # each N has a shape on the page, in their order; the last is for all beyond it
    shape = np.minimum(np.searchsorted(np.unique(n), n), len(SIGNS) - 1).astype(np.float64)
    middle, error = averages[name].values, np.nan_to_num(averages[f"{name}_error"].values)
    found = {"alpha": alpha, "n": n, "shape": shape}
    return found | {column: middle, f"{column}_low": middle - error, f"{column}_high": middle + error}


def _descents(found: xr.Dataset) -> Held:
    """The descents of a file from their first start, at the largest N, at a few alphas. ParameterError without Hessians."""
    if not found.sizes["hessian_step"]:
        raise ParameterError("these descents hold no Hessian: run bbp descent with --eigenpairs of 1 or more")
    model, n, start = models.of(found), int(found.n[-1]), str(found.start.values[0])
    one = found.sel(n=n, start=start)
    alphas = spread_alphas(found, CURVES)
    rows = [_in_time(one.sel(alpha=alpha)) for alpha in alphas]
    tints = [style.ordered(k, len(rows)) for k in range(len(rows))]
    sizes = [len(row["time"]) for row in rows]
    points: Columns = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    points |= {"alpha": np.repeat(alphas, sizes), "color": np.repeat(tints, sizes).tolist()}
    lines: Columns = {
        name: [row[name].tolist() for row in rows] for name in COLUMNS["path_lines"] if name in rows[0]
    }
    about = f"N = {n}, {start} start; from dark to light α = " + ", ".join(f"{alpha:.4g}" for alpha in alphas)
    paths = {"path": points, "path_lines": lines | {"color": tints}}
    return Held(models.words(model), _values(model, n), paths=paths, about=about)


def _in_time(one: xr.Dataset) -> dict[str, Array]:
    """Means over samples (time,) at one alpha where the Hessian was looked at, from the first time after 0 on, as the axis is
    logarithmic; theory is NaN where there is none."""
    moments = np.searchsorted(one.step.values, one.hessian_step.values)
    time = one.time.values[:, moments]
    plain_frame = one.sel(frame="plain")
    seen = {
        "lowest": plain_frame.eigenvalues.values[..., 0],
        "overlap": plain_frame.overlaps.values.max(axis=-1),
        "m2": one.m2.values[:, moments],
    }
    for name, theory in (("lowest_theory", "lowest"), ("edge", "edge"), ("overlap_theory", "overlap")):
        for route in ("conditioned", "quenched"):
            column = f"{route}_{theory}"
            if column in one and np.isfinite(one[column].values).any():
                seen[name] = one[column].values
                break
    at, _ = samples_in_time(time, seen["lowest"])
    at = at[at > 0]
    rows = {"time": at}
    for name in ("lowest", "lowest_theory", "edge", "overlap", "overlap_theory", "m2"):
        known, mean = mean_in_time(time, seen[name]) if name in seen else (np.empty(0), np.empty(0))
        rows[name] = np.interp(at, known, mean) if len(known) else np.full(len(at), np.nan)
    return rows


def overlay(held: Held | None, chosen: str) -> Answer:
    """What of a file lies on the page of its model (None: of another): points, the chosen quantity or the first, descents."""
    found = Answer({name: empty(name) for name in ("sweep", "quantity", "path", "path_lines")})
    if held is None:
        return found
    found.sources |= {"sweep": held.columns} | held.paths
    if held.paths:
        points, time = held.paths["path"], held.paths["path"]["time"]
        ends = (float(time.min()) / 1.2, float(time.max()) * 1.2) if len(time) else (0.1, 10.0)
        values = np.concatenate([points[name] for name in ("lowest", "lowest_theory", "edge")])
        found.axes |= {"path": (*ends, *_room(values)), "path_overlap": (*ends, -0.03, 1.03)}
    for _, columns in [held.quantities[name] for name, _ in _named(held, chosen)[:1]]:
        found.sources["quantity"] = columns
        if len(columns["alpha"]):
            ends = _room(np.concatenate([columns["low"], columns["high"]]))
            found.axes["quantity"] = (0.0, 1.05 * float(columns["alpha"].max()), *ends)
    return found


def _room(values: Array) -> tuple[float, float]:
    """Ends of an axis that holds these values."""
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (-1.0, 0.0)
    room = 0.08 * (high - low) or 0.1 * abs(high) or 0.1
    return low - room, high + room


def _named(held: Held | None, chosen: str) -> list[list[str]]:
    """Names and words of the quantities, the one that is shown first."""
    named = [[name, words] for name, (words, _) in held.quantities.items()] if held else []
    return sorted(named, key=lambda row: row[0] != chosen)


def words(held: list[Held], here: Held | None, chosen: str, opened: str) -> dict[str, Any]:
    """What the page says of an open file, of which `here` is the page's model; opened: its name where it has just been."""
    if not held:
        return {"models": [], "quantities": [], "file": "", "paths": ""}
    points = len(here.columns["alpha"]) if here else 0
    about = f"{here.file}: {here.about}" if here else ""
    if points:
        said = f"{points} points of this model (± one standard error)."
    elif here and here.paths:
        said = "descents of this model, in the panel along gradient flow."
    else:
        said = "samples of other models: choose one."
    return {
        "sweep-words": (f"{opened}: " if opened else "") + said,
        "models": [{"text": one.text, "values": one.values} for one in held],
        "quantities": _named(here, chosen),
        "file": about if points else "",
        "paths": about if here and here.paths else "",
    }
