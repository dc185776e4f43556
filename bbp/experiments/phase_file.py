"""A phase diagram as a Dataset: alpha_BBP, its kind and what belongs to it over (p, a).

    p, a                           coordinates; p is a float, inf for infinite width
    alpha_bbp, jump                (p, a): the transition, and the jump of the squared overlap (0 if continuous)
    kind                           (p, a) "continuous", "discontinuous"; networks without a threshold: "none", "no edge",
                                   "unresolved"; "" where it was not computed, or failed
    reason                         (p, a) why it failed, or empty
    alpha_0_overlap,               (p, a): the two estimates of alpha_0; NaN where an estimate has no root, alpha_BBP where the
    alpha_0_continuation           transition is continuous
    p_c                            (a): the smallest width whose transition is discontinuous, missing if beyond 2^40
    a_c, alpha_c                   (p): where the kind changes, and alpha_BBP there; a_c = 0 and alpha_c = its limit for p = inf
    n, finite_a                    coordinates of the finite-N thresholds, if any were asked for
    alpha_bbp_n, alpha_bbp_n_error (n, p, finite_a), NaN for p = inf, and where it failed
    alpha_bbp_n_reason             (n, p, finite_a) why it failed, or empty
    bbp_time, bbp_time_error       (p, alpha, at_a), alpha a coordinate, if asked for: when gradient flow loses (or gains) the
                                   outlier at N = infinity, NaN where it does not
    bbp_time_kind, bbp_time_reason (p, alpha, at_a) "lost", "born", "none", "no edge", "unresolved"; why it failed, or empty
    minima_complexity (_error),    (minima_alpha, at_a), minima_alpha a coordinate, if asked for: the most numerous minima of
    _overlap, _loss, _force,       p = 1, as `theory.minima.Minima` has them; _reach: the largest overlap with the teacher at
    _instability, _kind, _reach,   which there are minima, NaN where that is not found; _kind "marginal", "stable", "unresolved"
    _reason
    alpha_minima, _error, _jump,   (at_a): from which alpha on the most numerous minima orthogonal to the teacher are unstable
    _kind, _reason                 towards it, as `theory.minima.threshold` has it
    width, at_a                    coordinates of the lines: alpha_BBP against p at a few a
    widths_alpha_bbp, ...          (width, at_a): what the lines up to alpha_0 are over (p, a)
    attributes                     p_star, versions (JSON), commit, finished, config (JSON)

In the file (`bbp.files.dataset`) widths_alpha_bbp is /widths/alpha_bbp and config is /config.

`table` closes `bbp phase`: a few rows for each p, the tricritical points, and thresholds at finite N.
"""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from bbp.experiments import models
from bbp.files import dataset
from theory.finite.law import UNKNOWN, doubt
from theory.model import Network

# Of minima, as `theory.minima.Minima` and `reach` have them: variables minima_NAME.
MINIMA = "complexity", "overlap", "loss", "force", "instability", "complexity_error", "reach", "kind"
MAP = ("alpha_bbp", "jump", "alpha_0_overlap", "alpha_0_continuation", "kind", "reason")  # over (p, a)


def widths(phase: xr.Dataset) -> xr.Dataset:
    """The lines of a phase diagram as a map over (p, a) of its own."""
    own = {f"widths_{name}": name for name in MAP if f"widths_{name}" in phase}
    return phase[list(own)].rename(own).rename({"width": "p", "at_a": "a"})


def discontinuous(found: xr.Dataset) -> np.ndarray:
    """(p, a) whether q2 jumps."""
    return found.kind.values == "discontinuous"


ROWS = 6  # rows of the table for each p


def table(phase: xr.Dataset) -> str:
    """A few rows for each p, spread over a, and the tricritical point of each."""
    lines: list[str] = []
    special = models.special(dataset.config(phase))
    network = " ".join(f"{name}={models.short(value)}" for name, value in special.items())
    head = f"{'a':>9}  {'alpha_BBP':>12}  {'kind':<13}  {'jump':>8}  {'alpha_0 (overlap)':>17}"
    if not network:
        head += f"  {'(continuation)':>14}"
    size = phase.sizes["a"]
    chosen = np.unique(np.linspace(0, size - 1, min(ROWS, size)).round().astype(int))
    for p in phase.p.values:
        row = phase.sel(p=p)
        more = network or tricritical_words(float(row.a_c), float(row.alpha_c))
        lines += [f"p = {p:g}, p* = {phase.attrs['p_star']}: {more}", head]
        for at in (row.isel(a=column) for column in chosen):
            cells = [
                f"{float(at.a):9.4g}",
                _cell(at.alpha_bbp, "12.10g"),
                f"{at.kind.item():<13}",
                _cell(at.jump, "8.5f"),
                _cell(at.alpha_0_overlap, "17.6f"),
                "" if network else _cell(at.alpha_0_continuation, "14.6f"),
            ]
            lines.append("  ".join(cells).rstrip())
        lines.append("")
    if "alpha_bbp_n" in phase:
        lines += finite_table(phase)
        if np.isinf(phase.p).any():
            lines += ["p = inf has no threshold at finite N: its labels have no finite-p fluctuation", ""]
    if "bbp_time" in phase:
        lines += time_table(phase)
    if "minima_kind" in phase:
        lines += minima_table(phase)
    lines.append(f"shown: {chosen.size} of {size} a for each p; the file holds all")
    return "\n".join(lines)


def finite_table(phase: xr.Dataset) -> list[str]:
    """Lines of the thresholds at finite N, one for each N, p and a."""
    lines = [f"{'N':>12}  {'p':>4}  {'a':>9}  {'alpha_BBP(N)':>12}  {'error':>9}"]
    found = phase[["alpha_bbp_n", "alpha_bbp_n_error"]].to_dataframe(["n", "p", "finite_a"])
    for (n, p, a), (alpha, error) in zip(found.index, found.to_numpy(), strict=True):
        if np.isfinite(alpha):
            lines.append(f"{n:12d}  {p:4g}  {a:9.4g}  {alpha:12.6f}  {error:9.6f}")
            said = doubt(Network(p, int(phase.attrs["p_star"]), a), alpha, n)
            lines += [f"{'':12}  {UNKNOWN}: {said}"] if said else []
    return [*lines, ""]


def time_table(phase: xr.Dataset) -> list[str]:
    """Lines of the BBP times, one for each width, alpha and a."""
    lines = [f"{'p':>4}  {'alpha':>9}  {'a':>9}  {'BBP time':>9}  {'error':>8}  kind"]
    found = phase[["bbp_time", "bbp_time_error", "bbp_time_kind"]].to_dataframe(["p", "alpha", "at_a"])
    for (p, alpha, a), (time, error, kind) in zip(found.index, found.to_numpy(), strict=True):
        if kind:
            lines.append(
                f"{p:4g}  {alpha:9.4g}  {a:9.4g}  {time:9.4f}  {error:8.4f}  {kind}".replace("nan", "  -")
            )
    return [*lines, ""]


def minima_table(phase: xr.Dataset) -> list[str]:
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
                    f"{alpha:9.4g}  {a:9.4g}  {_cell(at.minima_complexity, '8.5f')}  {_cell(at.minima_overlap, '7.4f')}"
                    f"  {_cell(at.minima_reach, '7.4f')}  {_cell(at.minima_loss, '8.5f')}"
                    f"  {_cell(at.minima_instability, '11.4f')}  {at.minima_kind.item()}"
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
                f"{a:9.4g}  {start[0]}  {start[1]}  {_last_time(at)}  {_cell(at.alpha_minima, '15.6f')}"
                f"  {_cell(at.alpha_minima_error, '8.1e')}  {kind}"
            )
    return [*lines, ""]


def _at_start(at: xr.Dataset, name: str) -> str:
    """What the cuts say of p = 1, or a dash."""
    return _cell(at[name].sel(width=1.0), "10.6f") if 1.0 in at.width.values else f"{'-':>10}"


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


def tricritical_words(a_c: float, alpha_c: float) -> str:
    """Where the kind changes, in words."""
    if a_c == 0:
        return "discontinuous at every a"
    if not math.isfinite(a_c):
        return "continuous at every a"
    return f"continuous below a_c = {a_c:.9g}, discontinuous above; alpha_BBP(a_c) = {alpha_c:.9g}"


def _cell(number: xr.DataArray, form: str) -> str:
    """The number in this form, or a dash where there is none."""
    value = float(number)
    return f"{'-':>{form.split('.')[0]}}" if math.isnan(value) else f"{value:{form}}"
