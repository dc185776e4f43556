"""The tables that a file holds: datasets over the same dimensions side by side, one row a point, errors beside their values.

A file of bbp is datasets over named dimensions, so that its tables need no list: those of one group and the same dimensions are
one table, with the coordinates first. A dataset NAME_error is the error of NAME. Sweeps and descents have a table of averages
over their samples besides, which is the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bbp import store
from bbp.analysis import comparison_file, summary
from bbp.analysis.bootstrap import Estimate, fraction
from bbp.analysis.comparison import PARTS
from bbp.analysis.observables import observables
from bbp.analysis.recovery import recovery
from bbp.experiments import descent_file
from bbp.exports.columns import ERROR, HIGH, LOW, Column, Table, Values
from bbp.exports.scaling import scaling_tables
from bbp.files import hdf5, layout

GRID = ("n", "alpha")
# Names of tables by (group, dimensions); any other is named after its dimensions.
NAMES: dict[tuple[str, str, tuple[str, ...]], str] = {
    ("bbp-sweep", "", ("n", "alpha", "sample", "eigenpair")): "eigenpairs",
    ("bbp-sweep", "", ("n", "alpha", "sample")): "samples",
    ("bbp-sweep", "theory", ("alpha",)): "theory",
    ("bbp-sweep", "theory_n", GRID): "theory_n",
    ("bbp-sweep", "theory_n", ("n",)): "theory_n_draws",
    ("bbp-sweep", "provenance", ("unit",)): "units",
    ("bbp-phase", "", ("p", "a")): "thresholds",
    ("bbp-phase", "", ("p",)): "critical",
    ("bbp-phase", "", ("a",)): "critical_widths",
    ("bbp-phase", "", ("n", "p", "finite_a")): "finite",
    ("bbp-phase", "widths", ("p", "a")): "widths",
    ("bbp-compare", "", GRID): "observables",
    ("bbp-compare", "", ("alpha",)): "theory",
    ("bbp-compare", "", ("crossing",)): "crossings",
    ("bbp-compare", "", ("shift",)): "shifts",
    ("bbp-compare", "", ("alpha_zero_n",)): "alpha_zero",
    ("bbp-descent", "", ("n", "start", "alpha", "sample")): "samples",
    ("bbp-descent", "", ("n", "start", "alpha", "sample", "step")): "path",
    (
        "bbp-descent",
        "",
        ("n", "start", "alpha", "sample", "step", "student_row", "teacher_row"),
    ): "overlap_matrix",
    ("bbp-descent", "", ("n", "start", "alpha", "sample", "hessian_step", "frame", "eigenpair")): "hessians",
    ("bbp-descent", "annealed", ("n", "start", "alpha", "sample", "hessian_step")): "annealed",
    ("bbp-descent", "conditioned", ("n", "start", "alpha", "sample", "hessian_step")): "conditioned",
    ("bbp-descent", "quenched", ("n", "start", "alpha", "sample", "hessian_step")): "quenched",
}
# Columns that stand first, where a table has them; the others follow in order of name.
FIRST = (
    "lowest",
    "theory_n_lowest",
    "overlap",
    "theory_n_overlap",
    "phi_group",
    "theory_n_phi_group",
    "samples",
    "gap",
    "alpha_bbp",
    "kind",
    "jump",
    "alpha_0_overlap",
    "status",
)
SHARES = ("phi", "phi_group")  # columns that are shares of samples
# How columns of a comparison are called here, by their names in its file.
TODAY = {"quenched_present": "theory_n_phi_group"}


def tables(path: str | Path) -> list[Table]:
    """All tables of the file at `path` that hold a row, the main one first; of several models with p, p_star, a in front.

    FileError, one line, where it is not a file of bbp or is damaged.
    """
    form = hdf5.format_of(path)
    with hdf5.reading(path, form) as file:
        models = int(file.attrs.get("models", 0))
        groups = [file[store.group_name(index)] for index in range(models)] if models else [file]
        found = [_of_group(form, group) for group in groups]
    if form == comparison_file.FORMAT:
        found[0] |= scaling_tables(path)
    averages = AVERAGES[form](path) if form in AVERAGES else []
    if not models:
        whole = [found[0][name] for name in _names(form, found[0])]
    else:
        sweeps = store.load_all(path)
        whole = [_stacked([part[name] for part in found], sweeps) for name in _names(form, found[0])]
    return [table for table in (*averages, *whole) if table.rows]


def _of_group(form: str, root: h5py.Group) -> dict[str, Table]:
    """name -> table of all datasets below `root`."""
    held: dict[tuple[str, tuple[str, ...]], dict[str, h5py.Dataset]] = {}
    places: dict[tuple[str, tuple[str, ...]], list[h5py.Dataset]] = {}
    scales = {item.name: item for _, item in layout.walk(root) if isinstance(item, h5py.Dataset)}
    for name, item in layout.walk(root):
        if not isinstance(item, h5py.Dataset) or item.is_scale or item.ndim == 0:
            continue
        group = name.rpartition("/")[0].strip("/")
        along = [scales[dimension[0].name] for dimension in item.dims]
        key = group, tuple(str(scale.name).rpartition("/")[2] for scale in along)
        held.setdefault(key, {})[name.rpartition("/")[2]] = item
        places[key] = along
    found = {}
    for (group, dims), items in held.items():
        name = NAMES.get((form, group, dims), "_".join(filter(None, [group, "-".join(dims)])))
        named = {_today(form, name): item for name, item in items.items()}
        found[name] = Table(name, _columns(dims, places[group, dims], named))
    return found


def _today(form: str, name: str) -> str:
    """The name of a column of finite-N theory, which files of comparisons may call quenched_NAME."""
    if form != comparison_file.FORMAT:
        return name
    return TODAY.get(name, re.sub("^quenched_", "theory_n_", name))


def _columns(
    dims: tuple[str, ...], along: list[h5py.Dataset], items: dict[str, h5py.Dataset]
) -> tuple[Column, ...]:
    grids = np.meshgrid(*(_read(scale) for scale in along), indexing="ij")
    columns = [Column(dim, grid.ravel()) for dim, grid in zip(dims, grids, strict=True)]
    ends = {of: (of + LOW, of + HIGH) for of in items if {of + LOW, of + HIGH} <= set(items)}
    parts = {end for both in ends.values() for end in both} | {of + ERROR for of in items}
    for name in sorted(items, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name)):
        if name in parts:
            continue
        item = items[name]
        error = items.get(name + ERROR)
        errors = None if error is None else _read(error).ravel()
        about = hdf5.text_attribute(item, "long_name") or ""
        low, high = (_read(items[end]).ravel() for end in ends[name]) if name in ends else (None, None)
        interval = None if low is None or high is None else (low, high)
        columns.append(Column(name, _read(item).ravel(), errors, about, interval, name in SHARES))
    return tuple(columns)


def _read(item: h5py.Dataset) -> Values:
    return item.asstr()[()] if h5py.check_string_dtype(item.dtype) else item[()]


def _names(form: str, found: dict[str, Table]) -> list[str]:
    order = [name for (of, _, _), name in NAMES.items() if of == form]
    return sorted(found, key=lambda name: order.index(name) if name in order else len(order))


def _stacked(parts: list[Table], sweeps: list[store.Sweep]) -> Table:
    """One table of several models: p, p_star and a, then the columns of each, one below the other."""
    columns = list(_model_columns(sweeps, [part.rows for part in parts]))
    for index, column in enumerate(parts[0].columns):
        same = [part.columns[index] for part in parts]
        errors = [each.error for each in same if each.error is not None]
        columns.append(
            Column(
                column.name,
                np.concatenate([each.values for each in same]),
                np.concatenate(errors) if errors else None,
                column.about,
                _joined([each.interval for each in same if each.interval is not None]),
                column.share,
            )
        )
    return Table(parts[0].name, tuple(columns))


def _joined(intervals: list[tuple[Values, Values]]) -> tuple[Values, Values] | None:
    if not intervals:
        return None
    low, high = (np.concatenate(ends) for ends in zip(*intervals, strict=True))
    return low, high


def _share(name: str, found: list[Estimate], about: str) -> Column:
    """A column of shares, with the 95 % interval of each (bbp.analysis.bootstrap.fraction)."""
    parts = {part: np.array([getattr(each, part) for each in found]) for part in PARTS}
    return Column(name, parts["value"], parts["error"], about, (parts["low"], parts["high"]), share=True)


def _model_columns(sweeps: list[store.Sweep], rows: list[int]) -> tuple[Column, ...]:
    return tuple(
        Column(name, np.repeat([getattr(sweep.model, name) for sweep in sweeps], rows))
        for name in ("p", "p_star", "a")
    )


def _sweep_averages(path: str | Path) -> list[Table]:
    sweeps = store.load_all(path)
    parts = [_sweep_average(sweep) for sweep in sweeps]
    return [parts[0] if len(parts) == 1 else _stacked(parts, sweeps)]


def _sweep_average(sweep: store.Sweep) -> Table:
    """Averages over the samples of one model beside the theory."""
    n, alpha = (grid.ravel() for grid in np.meshgrid(sweep.n, sweep.alpha, indexing="ij"))
    seen = observables(sweep)
    gap, gap_error = summary.mean_and_error(seen.gap)
    found = summary.summarise(sweep)
    share = [fraction(row) for row in seen.phi_group.reshape(-1, seen.phi_group.shape[-1])]
    many = len(sweep.n)
    return Table(
        "averages",
        (
            Column("n", n, about="input dimension N"),
            Column("alpha", alpha, about="M/N"),
            Column("samples", found.done.ravel(), about="samples done"),
            Column("lowest", found.lowest.ravel(), found.lowest_error.ravel(), "mean lowest eigenvalue"),
            Column(
                "overlap", found.overlap.ravel(), found.overlap_error.ravel(), "mean q2 of the p p* lowest"
            ),
            _share(
                "phi_group",
                share,
                "share of samples whose largest overlap is among the p p* lowest",
            ),
            Column("gap", gap.ravel(), gap_error.ravel(), "from the p p* lowest to the next eigenvalue"),
            Column("theory_edge", np.tile(sweep.edge, many), about="left edge at N = infinity"),
            Column("theory_outlier", np.tile(sweep.outlier, many), about="outlier at N = infinity"),
            Column("theory_overlap", np.tile(sweep.overlap, many), about="its q2 at N = infinity"),
            Column("failed", found.failed.ravel(), about="samples failed"),
        ),
    )


def _descent_averages(path: str | Path) -> list[Table]:
    """Means over samples at the end of the descents, and the fraction that recovers."""
    found = descent_file.load(path)
    shares, means = ("success", "elsewhere", "moving"), ("final", "initial")
    rows: dict[str, list[Any]] = {name: [] for name in ("n", "start", "alpha", *shares, *means)}
    for n in found.dims["n"].tolist():
        for start in found.dims["start"].tolist():
            seen = recovery(found, n, start)
            for index, alpha in enumerate(seen.alpha.tolist()):
                rows["n"].append(n)
                rows["start"].append(start)
                rows["alpha"].append(alpha)
                for name in (*shares, *means):
                    rows[name].append(getattr(seen, name)[index])
    about = {
        "success": "share of samples that recover the teacher",
        "elsewhere": "share of samples that end without it",
        "moving": "share of samples without it whose steps ran out",
        "final": "mean m2 at the end",
        "initial": "mean m2 of the starts",
    }
    columns = [Column(name, np.array(rows[name])) for name in ("n", "start", "alpha")]
    for name, words in about.items():
        if name in shares:
            columns.append(_share(name, rows[name], words))
            continue
        values, errors = (
            np.array([getattr(each, part) for each in rows[name]]) for part in ("value", "error")
        )
        columns.append(Column(name, values, errors, words))
    return [Table("averages", tuple(columns))]


AVERAGES: dict[str, Callable[[str | Path], list[Table]]] = {
    store.FORMAT: _sweep_averages,
    descent_file.FORMAT: _descent_averages,
}
