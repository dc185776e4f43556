"""What a phase diagram says: its cuts as a map of their own, where q2 jumps, the closing table."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from bbp.analysis.estimates import lines
from bbp.experiments import models
from bbp.files import dataset
from theory.finite.law import UNKNOWN, doubt
from theory.model import Network

ROWS = 6  # of the table for each p


def widths(phase: xr.Dataset) -> xr.Dataset:
    """The lines of a phase diagram as a map over (p, a) of its own."""
    own = {str(name): str(name).removeprefix("widths_") for name in phase if str(name).startswith("widths_")}
    return phase[list(own)].rename(own).rename({"width": "p", "at_a": "a"})


def discontinuous(found: xr.Dataset) -> np.ndarray:
    """(p, a) whether q2 jumps."""
    return found.kind.values == "discontinuous"


def table(phase: xr.Dataset) -> str:
    """A few rows for each p, spread over a, and its tricritical point; thresholds at finite N, BBP times and minima."""
    special = models.special(dataset.config(phase))
    network = " ".join(f"{name}={models.short(value)}" for name, value in special.items())
    columns = {
        "a": ("a", "9.4g"),
        "alpha_bbp": ("alpha_BBP", "12.10g"),
        "kind": ("kind", "<13"),
        "jump": ("jump", "8.5f"),
        "alpha_0_overlap": ("alpha_0 (overlap)", "17.6f"),
    }
    if not network:
        columns["alpha_0_continuation"] = "(continuation)", "14.6f"
    size, told = phase.sizes["a"], list[str]()
    chosen = np.unique(np.linspace(0, size - 1, min(ROWS, size)).round().astype(int))
    for p in phase.p.values:
        at = phase.sel(p=p).isel(a=chosen)
        more = network or _tricritical_words(float(at.a_c), float(at.alpha_c))
        told.append(f"p = {p:g}, p* = {phase.attrs['p_star']}: {more}")
        told += [*lines(list(columns.values()), zip(*(at[name].values for name in columns), strict=True)), ""]
    for name, some in (
        ("alpha_bbp_n", _finite_lines),
        ("bbp_time", _time_lines),
        ("minima_kind", _minima_lines),
    ):
        told += [*some(phase), ""] if name in phase else []
    return "\n".join([*told, f"shown: {chosen.size} of {size} a for each p; the file holds all"])


def _finite_lines(phase: xr.Dataset) -> list[str]:
    """The thresholds at finite N, one for each N, p and a, and where the law behind one is not known to hold."""
    columns = [("N", "12d"), ("p", "4g"), ("a", "9.4g"), ("alpha_BBP(N)", "12.6f"), ("error", "9.6f")]
    found = phase[["alpha_bbp_n", "alpha_bbp_n_error"]].to_dataframe(["n", "p", "finite_a"]).dropna()
    head, *rows = lines(
        columns, ((*at, *numbers) for at, numbers in zip(found.index, found.to_numpy(), strict=True))
    )
    told = [head]
    for row, (n, p, a), alpha in zip(rows, found.index, found.alpha_bbp_n, strict=True):
        said = doubt(Network(p, int(phase.attrs["p_star"]), a), alpha, n)
        told += [row, *([f"{'':12}  {UNKNOWN}: {said}"] if said else [])]
    if np.isinf(phase.p).any():
        told += ["", "p = inf has no threshold at finite N: its labels have no finite-p fluctuation"]
    return told


def _time_lines(phase: xr.Dataset) -> list[str]:
    """The BBP times, one for each width, alpha and a."""
    columns = [
        ("p", "4g"),
        ("alpha", "9.4g"),
        ("a", "9.4g"),
        ("BBP time", "9.4f"),
        ("error", "8.4f"),
        ("kind", ""),
    ]
    found = phase[["bbp_time", "bbp_time_error", "bbp_time_kind"]].to_dataframe(["p", "alpha", "at_a"])
    return lines(columns, found[found.bbp_time_kind != ""].reset_index().to_numpy())


def _minima_lines(phase: xr.Dataset) -> list[str]:
    """The minima at every cell, and the thresholds of each a beside one another."""
    columns = {
        "minima_alpha": ("alpha", "9.4g"),
        "at_a": ("a", "9.4g"),
        "minima_complexity": ("Sigma", "8.5f"),
        "minima_overlap": ("overlap", "7.4f"),
        "minima_reach": ("up to", "7.4f"),
        "minima_loss": ("loss", "8.5f"),
        "minima_instability": ("instability", "11.4f"),
        "minima_kind": ("kind", ""),
    }
    found = phase[list(columns)[2:]].to_dataframe(["at_a", "minima_alpha"]).reset_index()[list(columns)]
    cells = lines(list(columns.values()), found[found.minima_kind != ""].to_numpy())
    ends = [("a", "9.4g"), ("alpha_BBP", "10.6f"), ("alpha_0", "10.6f"), ("time ends", "10")]
    ends += [("minima unstable", "15.6f"), ("error", "8.1e"), ("kind", "")]
    rows = []
    for at in (phase.isel(at_a=j) for j in range(phase.sizes["at_a"])):
        start = at.sel(width=1.0) if 1.0 in at.width.values else None  # what the cuts say of p = 1
        cuts = [
            math.nan if start is None else float(start[f"widths_{name}"])
            for name in ("alpha_bbp", "alpha_0_overlap")
        ]
        unstable = float(at.alpha_minima), float(at.alpha_minima_error), at.alpha_minima_kind.item()
        rows += [[float(at.at_a), *cuts, _last_time(at), *unstable]] if unstable[2] else []
    return ["minima, p = 1: the most numerous ones", *cells, "", *lines(ends, rows)]


def _last_time(at: xr.Dataset) -> str:
    """From which alpha of the BBP times on gradient flow of p = 1 never loses the outlier, as far as they were asked for."""
    if "bbp_time" not in at or 1.0 not in at.p.values:
        return "-"
    kinds, alphas = at.bbp_time_kind.sel(p=1.0).values, at.alpha.values
    lost = np.flatnonzero(kinds == "lost")
    after = lost[-1] + 1 if len(lost) else 0
    if len(lost) and after < len(alphas) and np.all(kinds[after:] == "none"):
        return f"<= {alphas[after]:.4g}"
    return f"> {alphas[lost[-1]]:.4g}" if len(lost) else "-"


def _tricritical_words(a_c: float, alpha_c: float) -> str:
    """Where the kind changes, in words."""
    if a_c == 0:
        return "discontinuous at every a"
    if not math.isfinite(a_c):
        return "continuous at every a"
    return f"continuous below a_c = {a_c:.9g}, discontinuous above; alpha_BBP(a_c) = {alpha_c:.9g}"
