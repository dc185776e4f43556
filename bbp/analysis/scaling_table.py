"""Laws in N as text: every law through every series, what was fitted, how well, and which is left."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from bbp.analysis.laws import FREE, POWER, REJECTED
from bbp.experiments import models
from bbp.exports.digits import decimals, matched

HEAD = f"y(N) = limit + c f(N), [95 % intervals]; rejected: a chi-square as large has probability below {REJECTED:g}"
EFFECTIVE = "the exponent of these sizes, which corrections to another law may make"


def table(found: xr.Dataset) -> str:
    """The whole table of one model's fits."""
    name = [models.words(models.of(found))] if "p" in found.attrs else []
    return "\n".join(
        [*name, HEAD, *(line for i in range(found.sizes["row"]) for line in ["", *_row(found.isel(row=i))])]
    )


def _row(row: xr.Dataset) -> list[str]:
    known = np.isfinite(row.value.values)
    sizes = ", ".join(map(str, row.n.values[known].tolist()))
    if known.sum() < 2:
        return [f"{row.words.item()}: not fitted, {row.why.item()}"]
    limit, theory = float(row.taken_limit), float(row.theory_limit)
    free = math.isnan(limit)
    whose = "theory's" if limit == theory else "given"
    words = (
        "limit fitted" + (f" (theory: {theory:.6g})" if math.isfinite(theory) else "")
        if free
        else f"limit {limit:.6g} ({whose})"
    )
    lines = [f"{row.words.item()}; N = {sizes}; {words}"]
    data = [matched(float(row.value[i]), float(row.error[i])) for i in np.flatnonzero(known)]
    lines.append("  " + ", ".join(f"{value} ± {error}" for value, error in data))
    cells = [["f", "chi2/degrees", "probability", *(["limit"] if free else []), "c", "x"]]
    for law in row.law.values.tolist():
        cells.append([law, *_cells(row.sel(law=law), law, free)])
    wide = [max(len(line[k]) for line in cells if k < len(line)) for k in range(len(cells[0]))]
    lines += [
        "  " + "  ".join(f"{cell:<{wide[k]}}" for k, cell in enumerate(line)).rstrip() for line in cells
    ]
    verdict, why = row.verdict.item(), row.why.item()
    if not verdict:
        return [*lines, f"  not decided: {why}"]
    end = ""
    if verdict == FREE:
        end = f", x = {_interval(row.sel(law=FREE), 'exponent')}: {EFFECTIVE}"
    return [*lines, f"  {verdict}: {why}{end}"]


def _cells(one: xr.Dataset, law: str, free: bool) -> list[str]:
    chi2, degrees, p = float(one.chi2), int(one.degrees), float(one.p_value)
    if math.isnan(chi2):
        return ["too few sizes"]
    cells = [f"{chi2:.3g}/{degrees}", "-" if math.isnan(p) else f"{p:.2g}"]
    if p < REJECTED:
        return [*cells, "rejected"]
    cells += [_interval(one, "limit")] if free else []
    return [
        *cells,
        _interval(one, "coefficient"),
        "" if law in POWER or law != FREE else _interval(one, "exponent"),
    ]


def _interval(one: xr.Dataset, name: str) -> str:
    value, low, high = (float(one[f"{name}{end}"]) for end in ("", "_low", "_high"))
    if not math.isfinite(low) and not math.isfinite(high):
        return f"{value:.3g} [not determined]"
    error = (high - low) / 4 if math.isfinite(high - low) else float(one[f"{name}_error"])
    places = max(decimals(error) or 0, 0)
    ends = ["..." if math.isnan(end) else f"{end:.{places}f}" for end in (low, high)]
    return f"{value:.{places}f} [{ends[0]}, {ends[1]}]"
