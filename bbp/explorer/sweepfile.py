"""A sweep file as the page lays it over the curves: means and standard errors over samples, for each model it holds."""

from __future__ import annotations

import base64
import binascii
import importlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.analysis.summary import summarise
from bbp.experiments import descent_file, models, own
from bbp.explorer.figures import SHAPES, SIGNS
from bbp.explorer.limits import SWEEP_POINTS, UPLOAD
from bbp.explorer.state import BY_NAME, COVARIANCES, OPTIONS, State, plain, text_of
from bbp.files import dataset, product
from theory.checks import ParameterError
from theory.model.covariance import covariance
from theory.model.network import Network

Message = dict[str, Any]
MODELS = 12  # of a product that the page offers


@dataclass(frozen=True)
class Held:
    """One model of an opened file: how the page names it, values of a state that shows it, columns of its points; and of every
    quantity that averages over its samples have, by name, its words and columns (`bbp.explorer.figures.COLUMNS`).

    paths   of descents: columns of the sources "path" and "path_lines"; about: what of the file they show; file: its name
    """

    text: str
    values: dict[str, Any]
    columns: dict[str, NDArray[np.float64]]
    quantities: dict[str, tuple[str, dict[str, NDArray[np.float64]]]] = field(default_factory=dict)
    paths: dict[str, dict[str, Any]] = field(default_factory=dict)
    about: str = ""
    file: str = ""

    def fits(self, state: State) -> bool:
        """Whether these are samples of the state's model."""
        shown = state.values()
        return all(shown[name] == value for name, value in self.values.items() if name != "n")


def read(path: str | Path) -> list[Held]:
    """The models of a sweep file, or the one of descents. Raises FileError (a ParameterError) where it is neither, or too large
    for a page."""
    if dataset.kind_of(path) == descent_file.FORMAT:
        one = importlib.import_module("bbp.explorer.descentfile").held(dataset.open(path))
        return [replace(one, file=Path(path).name)]
    held = [
        replace(_held(sweep), file=Path(path).name)
        for sweep in product.split(dataset.open(path, dataset.SWEEP))[:MODELS]
    ]
    points = sum(len(one.columns["alpha"]) for one in held)
    if points > SWEEP_POINTS:
        raise ParameterError(f"the file has {points} points; a page shows {SWEEP_POINTS}")
    return held


def read_upload(request: Message) -> Iterator[Message]:
    """`read` of bytes that a page has sent: request["content"] in base64. For a worker: the parser of HDF5 is not ours."""
    try:
        content = base64.b64decode(request["content"], validate=True)
    except (binascii.Error, ValueError):
        raise ParameterError("the file did not arrive whole: open it once more") from None
    if len(content) > UPLOAD:
        raise ParameterError(
            f"a page takes files of at most {UPLOAD // 2**20} MiB: start with bbp explore FILE.h5"
        )
    with tempfile.TemporaryDirectory(prefix="bbp-explore-") as folder:
        path = Path(folder) / "sweep.h5"
        path.write_bytes(content)
        try:
            held = read(path)
        except ParameterError as error:
            raise ParameterError(str(error).replace(str(path), request["name"])) from None
    yield {"kind": "result", "held": held}


def _held(sweep: xr.Dataset) -> Held:
    averages = summarise(sweep)
    n, alpha = np.meshgrid(sweep.n.values.astype(np.float64), sweep.alpha.values, indexing="ij")
    good = np.isfinite(averages.lowest.values)
    columns = {"alpha": alpha[good], "n": n[good], "shape": _shape(n)[good]}
    for name in ("lowest", "overlap"):
        middle = averages[name].values[good]
        error = np.nan_to_num(averages[f"{name}_error"].values[good])
        columns |= {name: middle, f"{name}_low": middle - error, f"{name}_high": middle + error}
    model = models.of(sweep)
    values = {"p": text_of(model.p), "p_star": model.p_star, "a": model.a} | options_of(model)
    limits = BY_NAME["n"]
    values["n"] = int(np.clip(sweep.n.values.max(), limits.low, limits.high))
    words = models.words(model)
    if "theory_n_verdict" in sweep:
        words += f" (theory of these rows: {', '.join(dict.fromkeys(sweep.theory_n_verdict.values.ravel()))})"
    sizes = np.unique(n)
    about = ", ".join(f"{SIGNS[min(k, len(SIGNS) - 1)]} N = {size:g}" for k, size in enumerate(sizes))
    return Held(words, values, columns, _quantities(averages), about=about)


def _shape(n: NDArray[np.float64]) -> NDArray[np.float64]:
    """The number of the shape that each N has on the page, in their order; the last is for all beyond it."""
    return np.minimum(np.searchsorted(np.unique(n), n), 2 * len(SHAPES) - 1).astype(np.float64)


def _quantities(averages: xr.Dataset) -> dict[str, tuple[str, dict[str, NDArray[np.float64]]]]:
    found = {}
    n, alpha = np.meshgrid(averages.n.values.astype(np.float64), averages.alpha.values, indexing="ij")
    for name in (name for name in averages.data_vars if f"{name}_error" in averages):
        middle, error = averages[name].values, np.nan_to_num(averages[f"{name}_error"].values)
        good = np.isfinite(middle)
        columns = {
            "alpha": alpha,
            "n": n,
            "shape": _shape(n),
            "value": middle,
            "low": middle - error,
            "high": middle + error,
        }
        words = str(averages[name].attrs.get("long_name", name))
        found[str(name)] = words, {key: values[good] for key, values in columns.items()}
    return found


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
            values[name] = (
                own.read(name, part) or getattr(part, "name", "") or specs.get(part.spec, part.spec)
            )
    for name in models.STUDENT_NUMBERS:
        values[name] = ",".join(map(plain, getattr(model, name) or ()))
    return values | {"noise": model.noise, "overlap": model.overlap}


def query_of(held: list[Held]) -> str:
    """The query of a page that starts at the first model of a file that it can show; "" for no file."""
    for one in held:
        try:
            return State.of(one.values).query()
        except ParameterError:
            continue
    return ""
