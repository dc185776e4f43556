r"""The tables of a result, as pandas DataFrames: variables over the same dimensions side by side, one row a point; and a table
as CSV, LaTeX or JSON.

NAME_error, NAME_low and NAME_high stand after NAME, of which they are the error and the ends of an interval. Sweeps and
descents have a table of averages over their samples besides, the first.

Numbers with an error have its digits: two of the error's own, the value's as far as these. In CSV an unknown number is an empty
cell and infinity is "inf"; in JSON they are null and "inf", and no digit is left out. Heads of columns in LaTeX are the field's
symbols, and words where it has none. A name of several words ends in that of a symbol more often than not, and its other words
say which: erf_alpha_bbp is "erf $\alpha_\mathrm{BBP}$".
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bbp.analysis.comparison import crossings, zeros
from bbp.analysis.estimates import decimals, matched, plain, with_interval
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


DIGITS = {"csv": 12, "latex": 6, "json": 17}  # significant ones of a number without an error
WIDE, APART = 45.0, 1.2  # em: a line of 16 cm at 10 pt, and the gap between two columns
_NARROW = dict.fromkeys(".,[]", 0.28) | dict.fromkeys("()", 0.39) | {"-": 0.78, " ": 0.33}  # em; others 0.5


def as_csv(name: str, table: pd.DataFrame, digits: int = DIGITS["csv"]) -> str:
    """A head and a row for each point; an error is a column NAME_error after its value."""
    del name
    names = quantities(table)
    written = chosen(table, names).map(lambda value: plain(value, digits))
    for column in names:
        if column + "_error" in table:
            both = [
                matched(float(v), float(e), digits)
                for v, e in zip(table[column], table[column + "_error"], strict=True)
            ]
            written[column], written[column + "_error"] = zip(*both, strict=True)
    return written.to_csv(index=False, lineterminator="\n")


def as_latex(name: str, table: pd.DataFrame, digits: int = DIGITS["latex"]) -> str:
    """A tabular for the package booktabs: a value and its error as 0.374(11), the error in units of the last digit.

    A share stands with its interval, 1.00 [0.88, 1.00]. Numbers without an error have as many decimals as their column needs.
    """
    del name
    names = quantities(table)
    aligned = "".join("r" if table[column].dtype.kind in "fiu" else "l" for column in names)
    lines = [r"\begin{tabular}{" + aligned + "}", r"\toprule", " & ".join(heads(names)) + r" \\", r"\midrule"]
    cells = [_latex_column(table, column, digits) for column in names]
    lines += [" & ".join(row) + r" \\" for row in zip(*cells, strict=True)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def as_json(name: str, table: pd.DataFrame, digits: int = DIGITS["json"]) -> str:
    """{"table": name, "about": {column: words}, "rows": [{column: value}]}, errors as NAME_error, every digit kept."""
    rows = [
        {column: _json(value, digits) for column, value in row.items()} for row in table.to_dict("records")
    ]
    about = {column: words for column, words in table.attrs.items() if column in table}
    return json.dumps({"table": name, "about": about, "rows": rows}, indent=1, allow_nan=False) + "\n"


def fitting(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The table's first columns, as many as fit on a page, without those that are empty; and the names of those left out.

    The others stand in CSV and JSON, and where they are asked for by name.
    """
    kept: list[str] = []
    room, names = WIDE, quantities(table)
    for column, head in zip(names, heads(names), strict=True):
        if table[column].isna().all() or (table[column] == "").all():
            continue
        room -= max(map(_printed, [head, *_latex_column(table, column, DIGITS["latex"])])) + APART * bool(
            kept
        )
        if room < 0:
            break
        kept.append(column)
    kept = kept or names
    return chosen(table, kept), [column for column in names if column not in kept]


def chosen(table: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """These quantities of a table, with their errors and intervals, in this order."""
    return table[[part for column in columns for part in parts(table, column)]]


def _printed(cell: str) -> float:
    """About the width in em of a cell of LaTeX."""
    mathematics = re.sub(
        r"\$[^$]*\$", lambda found: found.group().replace(" ", ""), cell.replace(r"\mathrm", "")
    )
    letters = re.sub(r"[${}^_\\]", "", re.sub(r"\\[A-Za-z]+", "x", mathematics))
    return sum(_NARROW.get(letter, 0.5) for letter in letters)


def _latex_column(table: pd.DataFrame, name: str, digits: int) -> list[str]:
    """The cells of a column: shares with intervals, numbers with errors, or all to the decimals of the longest."""
    values = table[name].tolist()
    if name in SHARES and name + "_low" in table:
        ends = zip(values, table[name + "_low"], table[name + "_high"], strict=True)
        written = (with_interval(*map(float, cell)) for cell in ends)
        return ["--" if cell == "-" else f"${cell}$" for cell in written]
    if name + "_error" in table:
        return [
            _with_error(float(v), float(e), digits)
            for v, e in zip(values, table[name + "_error"], strict=True)
        ]
    cells = [_latex(value, digits) for value in values]
    if table[name].dtype.kind != "f":
        return cells
    plainly = [plain(value, digits) for value in values if math.isfinite(value)]
    if any("e" in text for text in plainly):
        return cells
    places = max((len(text.partition(".")[2]) for text in plainly), default=0)
    both = zip(values, cells, strict=True)
    return [f"${value:.{places}f}$" if math.isfinite(value) else cell for value, cell in both]


def _latex(value: Any, digits: int) -> str:
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        return "--" if math.isnan(value) else r"$\infty$" if value > 0 else r"$-\infty$"
    text = plain(value, digits)
    if isinstance(value, float | np.floating):
        number, _, power = text.partition("e")
        return f"${number} \\times 10^{{{int(power)}}}$" if power else f"${number}$"
    return escaped(text)


def _with_error(value: float, error: float, digits: int) -> str:
    places = decimals(error)
    if places is None or not math.isfinite(value):
        return _latex(value, digits)
    shown, spread = matched(value, error, digits)
    return f"${shown}({spread.replace('.', '').lstrip('0') if places > 1 else spread})$"


def _json(value: Any, digits: int) -> Any:
    plainly = value.item() if isinstance(value, np.generic) else value
    if isinstance(plainly, float) and not math.isfinite(plainly):
        return None if math.isnan(plainly) else "inf" if plainly > 0 else "-inf"
    return float(f"{plainly:.{digits}g}") if isinstance(plainly, float) else plainly


FORMS: Mapping[str, Callable[[str, pd.DataFrame, int], str]] = {
    "csv": as_csv,
    "latex": as_latex,
    "json": as_json,
}

SYMBOLS = {
    "n": "$N$",
    "p": "$p$",
    "p_star": "$p^*$",
    "a": "$a$",
    "finite_a": "$a$",
    "m2": "$m^2$",
    "alpha": r"$\alpha$",
    "alpha_bbp": r"$\alpha_\mathrm{BBP}$",
    "alpha_bbp_n": r"$\alpha_\mathrm{BBP}(N)$",
    "alpha_0": r"$\alpha_0$",
    "alpha_0_overlap": r"$\alpha_0$, overlap",
    "alpha_0_continuation": r"$\alpha_0$, continuation",
    "a_c": "$a_c$",
    "p_c": "$p_c$",
    "alpha_c": r"$\alpha_\mathrm{BBP}(a_c)$",
    "jump": r"$\Delta q^2$",
    "lowest": r"$\lambda_1$",
    "eigenvalue": r"$\lambda$",
    "eigenvalues": r"$\lambda$",
    "overlap": "$q^2$",
    "overlaps": "$q^2$",
    "overlap_matrix": r"$w_k \cdot w^*_l / N$",
    "phi": r"$\phi$",
    "phi_group": r"$\phi_{pp^*}$",
    "gap": r"$\Delta\lambda$",
    "edge": r"$\lambda_-$",
    "outlier": r"$\lambda_\mathrm{out}$",
    "theory_edge": r"$\lambda_-$",
    "theory_outlier": r"$\lambda_\mathrm{out}$",
    "theory_overlap": r"$q^2$ of $\lambda_\mathrm{out}$",
    "theory_n_lowest": r"$\lambda_1$, theory",
    "theory_n_overlap": "$q^2$, theory",
    "theory_n_phi_group": r"$\phi_{pp^*}$, theory",
    "theory_n_lowest_std": r"$\lambda_1$, theory, scatter",
    "theory_n_overlap_std": "$q^2$, theory, scatter",
    "lowest_std": r"$\lambda_1$, scatter",
    "overlap_std": "$q^2$, scatter",
    "success": "recovered",
    "elsewhere": "ended elsewhere",
    "moving": "still moving",
    "final": "$m^2$, end",
    "initial": "$m^2$, start",
    "crossing_n_small": "$N_1$",
    "crossing_n_large": "$N_2$",
    "crossing_alpha": r"$\alpha$",
    "crossing_found": "fits that cross",
    "crossing_verdict": "verdict",
    "alpha_zero_n": "$N$",
    "alpha_zero_sampled": r"$\alpha_0$, samples",
    "alpha_zero_verdict": "verdict",
}
_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
}


def heads(names: Sequence[str]) -> list[str]:
    r"""The heads of a table's columns, no two alike.

    >>> heads(["alpha", "overlap", "overlaps", "max_overlap_rank"])
    ['$\\alpha$', '$q^2$, overlap', '$q^2$, overlaps', 'max overlap rank']
    """
    found = [_head(name) for name in names]
    often = Counter(found)
    return [
        f"{head}, {_words(name.split('_'))}" if often[head] > 1 else head
        for head, name in zip(found, names, strict=True)
    ]


def escaped(text: str) -> str:
    r"""Text with the characters that LaTeX takes for its own spelled out.

    >>> escaped("p_c & 5%")
    'p\\_c \\& 5\\%'
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def _head(name: str) -> str:
    words = name.split("_")
    for start in range(len(words)):
        symbol = SYMBOLS.get("_".join(words[start:]))
        if symbol is not None:
            return " ".join(filter(None, [_words(words[:start]), symbol]))
    return _words(words)


def _words(words: Sequence[str]) -> str:
    return escaped(" ".join(words))
