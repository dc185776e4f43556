"""The tables of a result, as pandas DataFrames: variables over the same dimensions side by side, one row a point.

NAME_error, NAME_low and NAME_high stand after NAME, of which they are the error and the ends of an interval. Sweeps and
descents have a table of averages over their samples besides, the first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr

from bbp.analysis.comparison import crossings, zeros
from bbp.analysis.recovery import averages
from bbp.analysis.summary import summarise
from bbp.experiments import models
from bbp.files import product
from bbp.files.dataset import GROUPS
from bbp.files.variables import words_of

ENDS = ("_error", "_low", "_high")
SHARES = ("phi", "phi_group", "success", "elsewhere", "moving")  # columns that are shares of samples
# Names of tables by format, group and dimensions; any other is named after its dimensions.
NAMES: dict[tuple[str, str], str] = {
    ("bbp-sweep", "n alpha sample eigenpair"): "eigenpairs",
    ("bbp-sweep", "n alpha sample"): "samples",
    ("bbp-sweep", "theory: alpha"): "theory",
    ("bbp-sweep", "theory_n: n alpha"): "theory_n",
    ("bbp-sweep", "theory_n: n"): "theory_n_draws",
    ("bbp-sweep", "unit"): "units",
    ("bbp-phase", "p a"): "thresholds",
    ("bbp-phase", "p"): "critical",
    ("bbp-phase", "a"): "critical_widths",
    ("bbp-phase", "n p finite_a"): "finite",
    ("bbp-phase", "p alpha at_a"): "times",
    ("bbp-phase", "minima_alpha at_a"): "minima",
    ("bbp-phase", "at_a"): "minima_thresholds",
    ("bbp-phase", "widths: width at_a"): "widths",
    ("bbp-compare", "n alpha"): "observables",
    ("bbp-compare", "alpha"): "theory",
    ("bbp-compare", "crossing"): "crossings",
    ("bbp-compare", "alpha_zero_n"): "alpha_zero",
    ("bbp-fit", "row"): "verdicts",
    ("bbp-fit", "row n"): "values",
    ("bbp-fit", "row law"): "fits",
    ("bbp-descent", "n start alpha sample"): "samples",
    ("bbp-descent", "n start alpha sample step"): "path",
    ("bbp-descent", "n start alpha sample step student_row teacher_row"): "overlap_matrix",
    ("bbp-descent", "n start alpha sample hessian_step frame eigenpair"): "hessians",
    ("bbp-descent", "annealed: n start alpha sample hessian_step"): "annealed",
    ("bbp-descent", "conditioned: n start alpha sample hessian_step"): "conditioned",
    ("bbp-descent", "quenched: n start alpha sample hessian_step"): "quenched",
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
# Names of a group's columns whose coordinates have other names in older files.
_OLD = {"width": "p", "at_a": "a"}


def tables(found: xr.Dataset) -> dict[str, pd.DataFrame]:
    """Tables by name that hold a row, the main one first; of several models one below the other, in front p, p_star, a and
    what else tells the models apart (`model_overlap` where a column has that name).

    A table says in `attrs` what its columns are.
    """
    several = [_of_model(part) for part in product.split(found)]
    if "model" in found.dims:
        more = [name for name in models.DEFAULTS if name in found.coords]
        heads = found[["p", "p_star", "a", *more]].to_dataframe()[["p", "p_star", "a", *more]]
        below: dict[str, list[pd.DataFrame]] = {}
        for index, part in enumerate(several):
            for name, table in part.items():
                below.setdefault(name, []).append(_in_front(heads.loc[index], table))
        return {name: pd.concat(one, ignore_index=True) for name, one in below.items()}
    return several[0]


def parts(table: pd.DataFrame, name: str) -> list[str]:
    """The columns of a quantity: NAME, and NAME_error, NAME_low, NAME_high where there are any."""
    return [name, *(name + end for end in ENDS if name + end in table)]


def quantities(table: pd.DataFrame) -> list[str]:
    """The columns that are no error and no end of an interval of another."""
    ends = {name + end for name in table for end in ENDS}
    return [str(name) for name in table if name not in ends]


def _in_front(head: pd.Series, table: pd.DataFrame) -> pd.DataFrame:
    own = {
        f"model_{name}" if name in table else name: [value] * len(table)
        for name, value in head.items()
        if name not in table or name in models.DEFAULTS
    }
    return pd.concat([pd.DataFrame(own), table], axis=1)


def _of_model(found: xr.Dataset) -> dict[str, pd.DataFrame]:
    form = str(found.attrs["format"])
    made = {"averages": AVERAGES[form](found)} if form in AVERAGES else {}
    made = {name: _table(each.drop_vars("model", errors="ignore")) for name, each in made.items()}
    groups: dict[str, dict[str, xr.DataArray]] = {}
    for name, values in found.data_vars.items():
        if values.dims:
            group = next((g for g in GROUPS.get(form, ()) if str(name).startswith(g + "_")), "")
            key = f"{group}: " * bool(group) + " ".join(map(str, values.dims))
            groups.setdefault(key, {})[str(name).removeprefix(group + "_") if group else str(name)] = values
    order = [key for of, key in NAMES if of == form]
    for key in sorted(groups, key=lambda key: (order.index(key) if key in order else len(order), key)):
        name = NAMES.get((form, key), key.replace(": ", "_").replace(" ", "-"))
        own = groups[key].items()
        bare = {
            each: values.drop_vars([c for c in values.coords if c not in values.dims]) for each, values in own
        }
        table = _table(xr.Dataset(bare))
        made[name] = table.rename(columns=_OLD) if name == "widths" else table
    if form == "bbp-compare":
        made |= {
            name: _judged(name, found, made[name]) for name in ("crossings", "alpha_zero") if name in made
        }
    return {name: table for name, table in made.items() if len(table)}


def _table(found: xr.Dataset) -> pd.DataFrame:
    """A row a point: coordinates first, then quantities in order, each with its error and interval."""
    dims = list(max(found.data_vars.values(), key=lambda values: values.ndim).dims)
    index = [str(dim) for dim in dims if dim in found.coords or len(dims) > 1 or dim == "unit"]
    table = found.to_dataframe(dim_order=dims).reset_index()
    own = [name for name in quantities(table) if name not in dims]
    if found.attrs.get("ordered") is None:
        own.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    table = table[[*index, *(part for name in own for part in parts(table, name))]]
    held = [name for name in (*index, *own) if name in found.variables]
    words = {name: str(found[name].attrs.get("long_name") or words_of(name) or "") for name in held}
    table.attrs = {name: text for name, text in words.items() if text}
    return table


def _judged(name: str, found: xr.Dataset, table: pd.DataFrame) -> pd.DataFrame:
    """A table of crossings or of alpha_0, with what samples do not determine left out, and a verdict that says why."""
    about = table.attrs
    if name == "crossings":
        reach = float(np.ptp(found.alpha.values))
        each = [(one.alpha, one.doubt(reach)) for one in crossings(found)]
        quantity, verdict, first, last = "crossing_alpha", "crossing_verdict", *_CROSSING
    else:
        each = [(one, one.doubt) for one in zeros(found).values()]
        table = table.rename(columns={"alpha_zero_sampled_value": "alpha_zero_sampled"})
        quantity, verdict, first, last = "alpha_zero_sampled", "alpha_zero_verdict", ["alpha_zero_n"], []
    columns = parts(table, quantity)
    table.loc[[bool(doubt) for _, doubt in each], columns] = np.nan
    table[verdict] = [
        f"not determined: {doubt}" if doubt else "determined" if np.isfinite(one.value) else "none"
        for one, doubt in each
    ]
    table = table[[*first, *columns, verdict, *last]]
    table.attrs = about | {verdict: "whether the samples determine it, and why not"}
    return table


_CROSSING = ["crossing_n_small", "crossing_n_large"], ["crossing_found"]
AVERAGES: dict[str, Callable[[xr.Dataset], xr.Dataset]] = {"bbp-sweep": summarise, "bbp-descent": averages}
