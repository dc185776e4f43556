"""The comparison file: observables with errors, quenched theory and scaling fits of one model, for others to open.

Layout (all datasets carry dimension scales, so xarray opens the file with no helper):

    /n /alpha                                   coordinates
    /samples                                    (n, alpha) numbers of samples
    /lowest /overlap /phi /phi_group /gap       (n, alpha) f8 means; with _error, _low, _high: bootstrap error, 95 % interval
    /quenched_lowest ...                        (n, alpha) f8: lowest, overlap, their _error and _std, present (if asked for)
    /theory_edge /theory_outlier /theory_overlap (alpha) f8, NaN where there is none
    /crossing, /crossing_*                      (crossing): n_small, n_large, alpha, alpha_error, alpha_low, alpha_high, found
    /shift, /shift_*                            (shift): alpha, kind, preferred, decisive, exponent, chi2_power ...
    /alpha_zero_n, /alpha_zero_sampled_*        (alpha_zero_n): value, error, low, high
    /config                                     JSON of the options, with the names of the files
    root attributes                             format, format_version, p, p_star, a, alpha_bbp, kind, alpha_zero_overlap,
                                                alpha_zero_continuation (NaN: no root), versions (JSON), commit
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bbp.analysis.bootstrap import Estimate
from bbp.analysis.comparison import PARTS, Comparison, QuenchedCurve
from bbp.analysis.finite_size import LAWS, Crossing, ShiftFit
from bbp.analysis.observables import NAMES
from bbp.experiments import models
from bbp.files import hdf5, layout, provenance

FORMAT, VERSION = "bbp-compare", 1
_QUENCHED = ("lowest", "lowest_error", "overlap", "overlap_error", "present")
_SCATTER = ("lowest_std", "overlap_std")
_THEORY = ("edge", "outlier", "overlap")
_TEXTS = ("shift_kind", "shift_preferred")


def save(path: str | Path, comparison: Comparison, **config: Any) -> None:
    """Write one model's comparison to `path`, whole or not at all (OSError)."""

    def fill(file: h5py.File) -> None:
        n, alpha = (hdf5.coordinate(file, name, getattr(comparison, name)) for name in ("n", "alpha"))
        _put(file, "samples", comparison.samples, n, alpha)
        for name in NAMES:
            for part in PARTS:
                _put(
                    file,
                    name if part == "value" else f"{name}_{part}",
                    comparison.measured[name][part],
                    n,
                    alpha,
                )
        if comparison.quenched is not None:
            for name in (*_QUENCHED, *_SCATTER):
                _put(file, f"quenched_{name}", getattr(comparison.quenched, name), n, alpha)
        for name in _THEORY:
            _put(file, f"theory_{name}", getattr(comparison, name), alpha)
        _put_crossings(file, comparison.crossings)
        _put_shifts(file, comparison.shifts)
        _put_zeros(file, comparison.alpha_zero_sampled)
        hdf5.put_json(file, "config", config)
        named = models.record(comparison.model)
        zeros = {f"alpha_zero_{method}": value for method, value in comparison.alpha_zero.items()}
        kind = {"alpha_bbp": comparison.alpha_bbp, "kind": comparison.kind}
        file.attrs.update(provenance.record() | named | kind | zeros | {"finished": 1})

    hdf5.write(path, fill, format=FORMAT, version=VERSION)


def load(path: str | Path, *, locking: hdf5.Locking = None) -> Comparison:
    """The comparison in the file at `path`; FileError, one line, where it is not one or is damaged."""
    with hdf5.reading(path, FORMAT, VERSION, locking=locking) as file:
        return _comparison(_datasets(file), hdf5.attributes(file))


def _datasets(file: h5py.File) -> dict[str, Any]:
    """Every dataset by its name, its type and shape looked at first: columns by their group, the rest over (n, alpha)."""
    n, alpha = (layout.values(file, name, kind, (None,)) for name, kind in (("n", "i"), ("alpha", "f")))
    get = {"n": n, "alpha": alpha, "samples": layout.values(file, "samples", "i", (n.size, alpha.size))}
    names = [name if part == "value" else f"{name}_{part}" for name in NAMES for part in PARTS]
    names += [f"quenched_{name}" for name in _QUENCHED] if "quenched_lowest" in file else []
    names += [f"quenched_{name}" for name in _SCATTER if f"quenched_{name}" in file]
    get |= {name: layout.values(file, name, "f", (n.size, alpha.size)) for name in names}
    get |= {f"theory_{name}": layout.values(file, f"theory_{name}", "f", (alpha.size,)) for name in _THEORY}
    for group in ("crossing", "shift", "alpha_zero_n"):
        get[group] = layout.values(file, group, "i", (None,))
        prefix = "alpha_zero_sampled_" if group == "alpha_zero_n" else f"{group}_"
        for name in file:
            if name.startswith(prefix):
                kinds = "O" if name in _TEXTS else "fi"
                get[name] = layout.values(file, name, kinds, (get[group].size,))
    layout.require((alpha > 0) & np.isfinite(alpha), "alpha", "positive and finite")
    return get


def _comparison(get: dict[str, Any], attributes: dict[str, Any]) -> Comparison:
    measured = {
        name: {part: get[name if part == "value" else f"{name}_{part}"] for part in PARTS} for name in NAMES
    }
    unknown = np.full(get["samples"].shape, np.nan)
    quenched = (
        QuenchedCurve(*(get.get(f"quenched_{name}", unknown) for name in (*_QUENCHED, *_SCATTER)))
        if "quenched_lowest" in get
        else None
    )
    return Comparison(
        model=models.build(attributes),
        alpha_bbp=models.held(attributes)[0],
        kind=models.held(attributes)[1],
        n=get["n"],
        alpha=get["alpha"],
        **{name: get[f"theory_{name}"] for name in _THEORY},
        samples=get["samples"],
        measured=measured,
        quenched=quenched,
        crossings=_crossings(get),
        shifts=_shifts(get),
        alpha_zero={
            method: layout.number(attributes, f"alpha_zero_{method}", finite=False)
            for method in ("overlap", "continuation")
        },
        alpha_zero_sampled={
            int(n): Estimate(*(float(get[f"alpha_zero_sampled_{part}"][i]) for part in PARTS))
            for i, n in enumerate(get["alpha_zero_n"])
        },
    )


def _put(file: h5py.File, name: str, values: Any, *scales: h5py.Dataset) -> None:
    values = np.asarray(values)
    dtype = h5py.string_dtype() if values.dtype.kind in "OU" else None
    data = values.astype(object) if dtype else values
    hdf5.attach(file.create_dataset(name, data=data, dtype=dtype), scales)


def _columns(file: h5py.File, name: str, columns: dict[str, list]) -> None:
    length = len(next(iter(columns.values())))
    scale = hdf5.coordinate(file, name, np.arange(length))
    for column, values in columns.items():
        text = any(isinstance(value, str) for value in values) or column in ("kind", "preferred")
        _put(file, f"{name}_{column}", np.asarray(values, dtype=object if text else None), scale)


def _put_crossings(file: h5py.File, crossings: list[Crossing]) -> None:
    columns: dict[str, list] = {
        "n_small": [c.sizes[0] for c in crossings],
        "n_large": [c.sizes[1] for c in crossings],
        "found": [c.found for c in crossings],
    }
    for part in PARTS:
        columns["alpha" if part == "value" else f"alpha_{part}"] = [getattr(c.alpha, part) for c in crossings]
    _columns(file, "crossing", columns)


def _crossings(get: dict[str, Any]) -> list[Crossing]:
    columns = [get["crossing_alpha" if part == "value" else f"crossing_alpha_{part}"] for part in PARTS]
    sizes = zip(get["crossing_n_small"], get["crossing_n_large"], strict=True)
    return [
        Crossing(
            (int(small), int(large)),
            Estimate(*(float(c[i]) for c in columns)),
            float(get["crossing_found"][i]),
        )
        for i, (small, large) in enumerate(sizes)
    ]


def _put_shifts(file: h5py.File, shifts: list[tuple[float, str, ShiftFit]]) -> None:
    columns: dict[str, list] = {
        "alpha": [alpha for alpha, _, _ in shifts],
        "kind": [kind for _, kind, _ in shifts],
        "preferred": [fit.preferred for _, _, fit in shifts],
        "decisive": [int(fit.decisive) for _, _, fit in shifts],
        "exponent": [fit.exponent for _, _, fit in shifts],
        "exponent_error": [fit.exponent_error for _, _, fit in shifts],
        "degrees": [fit.degrees for _, _, fit in shifts],
    }
    for law in LAWS:
        for part in ("coefficient", "error", "chi2"):
            columns[f"{part}_{law}"] = [getattr(fit, part)[law] for _, _, fit in shifts]
    _columns(file, "shift", columns)


def _shifts(get: dict[str, Any]) -> list[tuple[float, str, ShiftFit]]:
    rows = []
    for i, alpha in enumerate(get["shift_alpha"]):
        coefficient, error, chi2 = (
            {law: float(get[f"shift_{part}_{law}"][i]) for law in LAWS}
            for part in ("coefficient", "error", "chi2")
        )
        fit = ShiftFit(
            coefficient,
            error,
            chi2,
            preferred=str(get["shift_preferred"][i]),
            decisive=bool(get["shift_decisive"][i]),
            exponent=float(get["shift_exponent"][i]),
            exponent_error=float(get["shift_exponent_error"][i]),
            degrees=int(get["shift_degrees"][i]),
        )
        rows.append((float(alpha), str(get["shift_kind"][i]), fit))
    return rows


def _put_zeros(file: h5py.File, zeros: dict[int, Estimate]) -> None:
    scale = hdf5.coordinate(file, "alpha_zero_n", np.array(list(zeros), dtype=np.int64))
    for part in PARTS:
        values = np.array([getattr(z, part) for z in zeros.values()], dtype=np.float64)
        _put(file, f"alpha_zero_sampled_{part}", values, scale)
