"""The comparison file: observables with errors, finite-N theory and scaling fits of one model, for others to open.

Layout (all datasets carry dimension scales, so xarray opens the file with no helper):

    /n /alpha                                   coordinates
    /samples                                    (n, alpha) numbers of samples
    /lowest /overlap /phi /phi_group /gap       (n, alpha) f8 means; with _error, _low, _high: bootstrap error, 95 % interval
    /theory_n_lowest ...                        (n, alpha) f8: finite-N theory (if asked for): lowest, overlap, their _error and
                                                _std, phi_group; theory_n_reason where a draw failed. Files of before call them
                                                quenched_..., and phi_group quenched_present
    /theory_edge /theory_outlier /theory_overlap (alpha) f8, NaN where there is none
    /crossing, /crossing_*                      (crossing): n_small, n_large, alpha, alpha_error, alpha_low, alpha_high, found
    /shift, /shift_*                            (shift): alpha, kind, preferred, decisive, exponent, chi2_power ...
    /alpha_zero_n, /alpha_zero_sampled_*        (alpha_zero_n): value, error, low, high
    /config                                     JSON of the options, with the names of the files
    root attributes                             format, format_version, p, p_star, a, alpha_bbp, kind, alpha_zero_overlap,
                                                alpha_zero_continuation (NaN: no root), versions (JSON), commit, finished
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bbp.analysis.bootstrap import Estimate
from bbp.analysis.comparison import PARTS, THEORY_N, Comparison, TheoryN
from bbp.analysis.finite_size import LAWS, Crossing, ShiftFit
from bbp.analysis.observables import NAMES
from bbp.experiments import models
from bbp.files import hdf5, layout, provenance, table
from bbp.files.table import TEXT, Axis, Field

FORMAT, VERSION = "bbp-compare", 1
AXES = (
    Axis("n"),
    Axis("alpha", "f8"),
    Axis("crossing", words="successive sizes"),
    Axis("shift", words="alphas below alpha_BBP with samples of several sizes"),
    Axis("alpha_zero_n", words="sizes N with alphas close above alpha_BBP"),
)
_GRID = ("n", "alpha")
_THEORY = ("edge", "outlier", "overlap")
_ZEROS = ("overlap", "continuation")
_PART = {
    "value": "mean",
    "error": "its error",
    "low": "low end of its 95 % interval",
    "high": "high end of it",
}
_FITS = {
    "coefficient": "coefficient of the fitted law",
    "error": "its error",
    "chi2": "chi-square of the fit",
}


_AT_N = {
    "lowest": "mean lowest eigenvalue over draws",
    "lowest_error": "its error",
    "lowest_std": "scatter of one draw of it",
    "overlap": "mean over draws of q2 averaged over the p p* lowest",
    "overlap_error": "its error",
    "overlap_std": "scatter of one draw of it",
    "present": "share of draws whose largest overlap is among the p p* lowest",
}
_CROSSING = {part: "crossing_alpha" if part == "value" else f"crossing_alpha_{part}" for part in PARTS}
_ZERO = {part: f"alpha_zero_sampled_{part}" for part in PARTS}
_MEASURED = {name: {part: name if part == "value" else f"{name}_{part}" for part in PARTS} for name in NAMES}


FIELDS = (
    Field("samples", _GRID, "i8", 0, "samples done"),
    *(
        Field(column, _GRID, words=f"{name}: {_PART[part]}")
        for name, columns in _MEASURED.items()
        for part, column in columns.items()
    ),
    *(
        Field(
            f"theory_n_{name}", _GRID, words=f"finite-N theory: {_AT_N[name]}", optional=True,
            path=f"theory_n_{'phi_group' if name == 'present' else name}", before=f"quenched_{name}",
        )
        for name in THEORY_N
    ),
    Field("theory_n_reason", _GRID, TEXT, "", "why its draws failed", optional=True, before="quenched_reason"),
    *(Field(f"theory_{name}", ("alpha",), words=f"{name} at N = infinity") for name in _THEORY),
    Field("crossing_n_small", ("crossing",), "i8", 0, "the smaller size"),
    Field("crossing_n_large", ("crossing",), "i8", 0, "the larger size"),
    Field("crossing_found", ("crossing",), words="share of bootstrap fits that cross"),
    *(Field(name, ("crossing",), words=f"where phi crosses: {_PART[part]}") for part, name in _CROSSING.items()),
    Field("shift_alpha", ("shift",), words="alpha"),
    Field("shift_kind", ("shift",), TEXT, "", "kind of the edge"),
    Field("shift_preferred", ("shift",), TEXT, "", "law of the smaller chi-square"),
    Field("shift_decisive", ("shift",), "i8", 0, "1 where the preference is decisive"),
    Field("shift_exponent", ("shift",), words="exponent of the free fit"),
    Field("shift_exponent_error", ("shift",), words="its error"),
    Field("shift_degrees", ("shift",), "i8", 0, "degrees of freedom of each fit"),
    *(Field(f"shift_{part}_{law}", ("shift",), words=f"{words}, {law}") for law in LAWS for part, words in _FITS.items()),
    *(Field(name, ("alpha_zero_n",), words=f"alpha_0: {_PART[part]}") for part, name in _ZERO.items()),
)  # fmt: skip
TABLES = (("", AXES, FIELDS),)


def save(path: str | Path, comparison: Comparison, **config: Any) -> None:
    """Write one model's comparison to `path`, whole or not at all (OSError)."""
    values = _values(comparison)

    def fill(file: h5py.File) -> None:
        table.write(file, AXES, [field for field in FIELDS if field.name in values], values)
        hdf5.put_json(file, "config", config)
        zeros = {f"alpha_zero_{method}": value for method, value in comparison.alpha_zero.items()}
        kind = {"alpha_bbp": comparison.alpha_bbp, "kind": comparison.kind}
        own = provenance.record() | models.record(comparison.model)
        file.attrs.update(own | kind | zeros | {"finished": int(comparison.finished)})

    hdf5.write(path, fill, format=FORMAT, version=VERSION)


def load(path: str | Path, *, locking: hdf5.Locking = None) -> Comparison:
    """The comparison in the file at `path`; FileError, one line, where it is not one or is damaged."""
    with hdf5.reading(path, FORMAT, VERSION, locking=locking) as file:
        found = table.read(file, AXES, FIELDS)
        attributes = hdf5.attributes(file)
        theory_n = {name: found[f"theory_n_{name}"] for name in (*THEORY_N, "reason")}
        return Comparison(
            model=models.build(attributes),
            alpha_bbp=models.held(attributes)[0],
            kind=models.held(attributes)[1],
            **{name: found[name] for name in (*_GRID, "samples")},
            **{name: found[f"theory_{name}"] for name in _THEORY},
            measured={
                name: {part: found[column] for part, column in columns.items()}
                for name, columns in _MEASURED.items()
            },
            theory_n=TheoryN(**theory_n) if {"theory_n_lowest", "quenched_lowest"} & set(file) else None,
            crossings=[_crossing(found, i) for i in range(len(found["crossing"]))],
            shifts=[_shift(found, i) for i in range(len(found["shift"]))],
            alpha_zero={
                method: layout.number(attributes, f"alpha_zero_{method}", finite=False) for method in _ZEROS
            },
            alpha_zero_sampled={
                int(n): _estimate(found, _ZERO, i) for i, n in enumerate(found["alpha_zero_n"])
            },
            config=hdf5.get_json(file, "config"),
            finished=bool(attributes.get("finished", 1)),
        )


def _values(c: Comparison) -> dict[str, Any]:
    """Coordinates and fields by name, those of finite-N theory only where there are any."""
    values: dict[str, Any] = {name: getattr(c, name) for name in (*_GRID, "samples")}
    values |= {f"theory_{name}": getattr(c, name) for name in _THEORY}
    for name, columns in _MEASURED.items():
        values |= {column: c.measured[name][part] for part, column in columns.items()}
    if c.theory_n is not None:
        names = (*THEORY_N, "reason") if np.any(c.theory_n.reason != "") else THEORY_N
        values |= {f"theory_n_{name}": getattr(c.theory_n, name) for name in names}
    values["crossing"] = np.arange(len(c.crossings))
    values["crossing_n_small"] = np.array([each.sizes[0] for each in c.crossings], dtype=np.int64)
    values["crossing_n_large"] = np.array([each.sizes[1] for each in c.crossings], dtype=np.int64)
    values["crossing_found"] = np.array([each.found for each in c.crossings])
    values |= _columns(_CROSSING, [each.alpha for each in c.crossings])
    values["shift"] = np.arange(len(c.shifts))
    values["shift_alpha"] = np.array([alpha for alpha, _, _ in c.shifts])
    values["shift_kind"] = [kind for _, kind, _ in c.shifts]
    fits = [fit for _, _, fit in c.shifts]
    values["shift_preferred"] = [fit.preferred for fit in fits]
    for name in ("decisive", "degrees"):
        values[f"shift_{name}"] = np.array([getattr(fit, name) for fit in fits], dtype=np.int64)
    for name in ("exponent", "exponent_error"):
        values[f"shift_{name}"] = np.array([getattr(fit, name) for fit in fits])
    for law in LAWS:
        values |= {
            f"shift_{part}_{law}": np.array([getattr(fit, part)[law] for fit in fits]) for part in _FITS
        }
    values["alpha_zero_n"] = np.array(list(c.alpha_zero_sampled), dtype=np.int64)
    return values | _columns(_ZERO, list(c.alpha_zero_sampled.values()))


def _columns(names: dict[str, str], estimates: list[Estimate]) -> dict[str, Any]:
    return {name: np.array([getattr(each, part) for each in estimates]) for part, name in names.items()}


def _estimate(found: dict[str, Any], names: dict[str, str], i: int) -> Estimate:
    return Estimate(**{part: float(found[name][i]) for part, name in names.items()})


def _crossing(found: dict[str, Any], i: int) -> Crossing:
    sizes = int(found["crossing_n_small"][i]), int(found["crossing_n_large"][i])
    return Crossing(sizes, _estimate(found, _CROSSING, i), float(found["crossing_found"][i]))


def _shift(found: dict[str, Any], i: int) -> tuple[float, str, ShiftFit]:
    coefficient, error, chi2 = (
        {law: float(found[f"shift_{part}_{law}"][i]) for law in LAWS} for part in _FITS
    )
    fit = ShiftFit(
        coefficient,
        error,
        chi2,
        preferred=str(found["shift_preferred"][i]),
        decisive=bool(found["shift_decisive"][i]),
        exponent=float(found["shift_exponent"][i]),
        exponent_error=float(found["shift_exponent_error"][i]),
        degrees=int(found["shift_degrees"][i]),
    )
    return float(found["shift_alpha"][i]), str(found["shift_kind"][i]), fit
