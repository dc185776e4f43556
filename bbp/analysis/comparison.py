"""Finite N against theory for one model: observables with errors, finite-N theory beside them, scaling with N; the table."""

from __future__ import annotations

import json
import math
import shutil
import textwrap
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.analysis.estimates import ENDS, Estimate, columns, decimals, held, lines, with_interval
from bbp.analysis.finite_size import Crossing, alpha_zero_sampled, phi_crossing
from bbp.analysis.summary import (
    estimates,
    has_theory_n,
    observables,
    theory_at,
    verdict_table,
)
from bbp.experiments import models
from bbp.files import dataset, variables
from bbp.files.variables import DONE, described, own_names
from theory.checks import ParameterError
from theory.finite.law import UNKNOWN, doubts
from theory.general.spectrum import alpha_zero

Array = NDArray[np.float64]

FORMAT = "bbp-compare"
# Finite-N theory averaged over draws of labels, of what `summary.theory_at` tells.
THEORY_N = "lowest", "lowest_error", "overlap", "overlap_error", "phi_group", "lowest_std", "overlap_std"
WINDOW = 1.25  # alpha_0 is read off samples with alpha_BBP < alpha < WINDOW alpha_BBP
METHODS = ("overlap", "continuation")  # of theory's alpha_0
ZERO = [f"alpha_zero_sampled_{part}" for part in ("value", "error", "low", "high")]
CROSSING = [f"crossing_alpha{end}" for end in ENDS]


def compare(
    sweep: xr.Dataset,
    *,
    draws: int = 16,
    repeats: int = 1000,
    seed: int = 0,
    theory_n: Mapping[str, NDArray[Any]] | None = None,
) -> xr.Dataset:
    """What samples of one model say beside theory.

    Parameters
    ----------
    sweep
        Of one model, as `bbp.open` gives it.
    draws
        Of labels, for finite-N theory; 0 leaves it out.
    repeats, seed
        Of the bootstrap; `seed` is also that of the labels.
    theory_n
        Finite-N theory by name of THEORY_N, each (n, alpha), where it was drawn already (bbp.experiments.compare does that in
        parts), with "reason" where draws failed.

    Returns
    -------
    xarray.Dataset
        lowest, overlap, phi, phi_group, gap (n, alpha) and every other observable of the sweep, with NAME_error and the ends
        NAME_low and NAME_high of 95 % intervals; samples, numbers of them; theory_edge, theory_outlier, theory_overlap
        (alpha); theory_n_NAME (n, alpha) for those of THEORY_N; crossing_* (crossing), of phi for successive sizes;
        alpha_zero_sampled_* (alpha_zero_n), by size, where at least two alphas lie in the window above alpha_BBP. Attributes
        alpha_zero_overlap and alpha_zero_continuation are theory's two estimates, NaN for no root.

    Raises
    ------
    ParameterError
        Where no sample is done.
    """
    require_samples(sweep)
    model, grid = models.of(sweep), ("n", "alpha")
    if theory_n is None and draws:
        rows = [theory_at(model, int(n), sweep.alpha.values, draws, seed) for n in sweep.n.values]
        theory_n = {name: np.stack([row[name] for row in rows]) for name in THEORY_N}
    found = estimates(sweep, repeats=repeats, seed=seed)
    more: dict[str, Any] = {"samples": (grid, (sweep.status == DONE).sum("sample").transpose(*grid).values)}
    more |= {
        f"theory_{name}": ("alpha", sweep[f"theory_{name}"].values) for name in ("edge", "outlier", "overlap")
    }
    for name, values in (theory_n or {}).items():
        if name != "reason" or np.any(values != ""):
            more[f"theory_n_{name}"] = grid, values
    if "theory_n_verdict" in sweep:  # of rows of one's own: as the sweep has it
        held = [str(name) for name in sweep.data_vars if str(name).startswith("theory_n_")]
        more |= {name: (grid, sweep[name].values) for name in held}
    more |= _crossings(sweep, np.random.default_rng([seed, 1]), repeats) | _zeros(sweep)
    own = models.record(model) | {"alpha_bbp": sweep.alpha_bbp, "kind": sweep.kind}
    for method in METHODS:
        root = alpha_zero(model, method=method) if model.is_committee else None
        own[f"alpha_zero_{method}"] = math.nan if root is None else float(root)
    own |= {"config": json.dumps({"draws": draws, "repeats": repeats, "seed": seed}), "finished": 1}
    return described(found.assign(more).assign_attrs({"format": FORMAT} | variables.provenance() | own))


def require_samples(sweep: xr.Dataset) -> None:
    """ParameterError where no sample is done."""
    if not bool((sweep.status == DONE).any()):
        raise ParameterError("the sweep holds no finished sample to compare")


def _crossings(sweep: xr.Dataset, rng: np.random.Generator, repeats: int) -> dict[str, Any]:
    """Variables over (crossing,): where phi of successive sizes crosses."""
    phi, sizes, alpha = observables(sweep).phi_group.values, sweep.n.values, sweep.alpha.values
    found: list[Crossing] = []
    for small, large in pairwise(range(len(sizes))):
        both = np.isfinite(phi[small]).any(axis=-1) & np.isfinite(phi[large]).any(axis=-1)
        if both.sum() >= 4:
            hits, pair = (phi[small][both], phi[large][both]), (int(sizes[small]), int(sizes[large]))
            found.append(phi_crossing(alpha[both], hits, pair, rng, repeats=min(repeats, 400)))
    own = columns("crossing_alpha", ["crossing"], [each.alpha for each in found])
    own["crossing_found"] = "crossing", np.array([each.found for each in found], dtype=float)
    pairs = np.array([each.sizes for each in found], dtype=np.int64).reshape(-1, 2)
    own |= {"crossing_n_small": ("crossing", pairs[:, 0]), "crossing_n_large": ("crossing", pairs[:, 1])}
    return own | {"crossing": np.arange(len(found))}


def _zeros(sweep: xr.Dataset) -> dict[str, Any]:
    """Variables over (alpha_zero_n,): alpha_0 of samples."""
    overlap, alpha = observables(sweep).overlap.values, sweep.alpha.values
    above = (alpha > sweep.alpha_bbp) & (alpha < WINDOW * sweep.alpha_bbp)
    found: dict[int, Estimate] = {}
    for i, n in enumerate(sweep.n.values.tolist()):
        chosen = above & np.isfinite(overlap[i]).any(axis=-1)
        if chosen.sum() >= 2:
            found[n] = alpha_zero_sampled(alpha[chosen], overlap[i][chosen])
    values = columns("", ["alpha_zero_n"], list(found.values())).values()
    return dict(zip(ZERO, values, strict=True)) | {"alpha_zero_n": np.array(list(found), dtype=np.int64)}


def crossings(comparison: xr.Dataset) -> list[Crossing]:
    """The crossings of phi that a comparison holds."""
    pairs = zip(comparison.crossing_n_small.values, comparison.crossing_n_large.values, strict=True)
    sizes = [(int(small), int(large)) for small, large in pairs]
    rows = zip(sizes, held(comparison, CROSSING), comparison.crossing_found.values.tolist(), strict=True)
    return [Crossing(*row) for row in rows]


def zeros(comparison: xr.Dataset) -> dict[int, Estimate]:
    """alpha_0 of samples that a comparison holds, by N."""
    return dict(zip(comparison.alpha_zero_n.values.tolist(), held(comparison, ZERO), strict=True))


WIDTHS = {  # of the table's columns
    "alpha": 6,
    "runs": 4,
    "lowest": 10,
    "theory_N": 10,
    "edge": 7,
    "outlier": 7,
    "q2": 10,
    "q2_N": 10,
    "q2inf": 5,
    "phi": 19,
    "phi_N": 5,
}
COLUMNS = 104  # of a line, where no terminal says: longer ones go on in the next, wider rows in a block below
NARROWEST = 40
AT_N = ("theory_N", "q2_N", "phi_N")  # columns of finite-N theory
ONLY = "finite-N theory, here left out, is for the quadratic committee only"


def table(comparison: xr.Dataset, columns: int | None = None) -> str:
    """The whole table of one model as text; numbers are mean ± bootstrap error over samples.

    columns   of a line; where not given as many as the terminal has
    """
    room = max(columns or shutil.get_terminal_size((COLUMNS, 24)).columns, NARROWEST)
    at_n, model = has_theory_n(comparison), models.of(comparison)
    theory = "theory at this N and at N = infinity" if at_n else "theory at N = infinity"
    draws = dataset.config(comparison).get("draws")
    most = f" (of {draws} draws: ± {0.5 / math.sqrt(draws):.2f} at most)" if draws else ""
    told = [
        f"{models.words(model)}: {models.threshold_words(comparison.alpha_bbp, comparison.kind)}, N = infinity",
        f"lowest eigenvalue, q2 of the p p* lowest eigenvectors: samples, {theory};",
        "phi: share of runs in which these hold the largest q2, with its 95 % interval"
        + (f", phi_N that of theory at this N{most}" if at_n else ""),
        "1.234(5) is 1.234 ± 0.005",
    ]
    if "theory_n_verdict" in comparison:
        told.append("theory for these rows stands below, with its verdict")
    elif not model.is_committee:
        told.append(ONLY)
    elif at_n and (said := doubts(model, comparison.alpha.values, comparison.n.values)):
        told.append(f"{UNKNOWN}: {said}")
    shown = [name for name in WIDTHS if at_n or name not in AT_N] + own_names(comparison)
    head = {name: {"q2_N": "theory_N"}.get(name, name) for name in shown}
    for i, n in enumerate(comparison.n.values):
        there = np.flatnonzero(comparison.samples.values[i])
        rows = [_row(comparison.isel(n=i, alpha=int(j)), at_n) for j in there]
        told += ["", f"N = {n}"]
        for names in _blocks(shown, room):
            heads = [(head[name], f">{_wide(name)}") for name in names]
            told += lines(heads, ([row[name] for name in names] for row in rows), gap=" ")
    if "theory_n_verdict" in comparison:
        told += verdict_table(comparison)
    told += [*_crossing_lines(comparison), *_zero_lines(comparison)]
    return "\n".join(
        line if len(line) <= room else textwrap.fill(line, room, subsequent_indent="    ") for line in told
    )


def _wide(name: str) -> int:
    return WIDTHS.get(name, max(10, len(name)))


def _blocks(names: list[str], columns: int) -> list[list[str]]:
    """The columns in blocks no wider than that, each of which begins with alpha."""
    blocks = [names[:1]]
    for name in names[1:]:
        if sum(_wide(one) + 1 for one in (*blocks[-1], name)) - 1 > columns:
            blocks.append(names[:1])
        blocks[-1].append(name)
    return blocks


def _row(at: xr.Dataset, at_n: bool) -> dict[str, str]:
    """The cells of one point."""

    def measured(name: str) -> str:
        return _plain(float(at[name]), float(at[f"{name}_error"]))

    share, space, interval = with_interval(
        *(float(at[f"phi_group{end}"]) for end in ("", "_low", "_high"))
    ).partition(" ")
    cells = {
        "alpha": f"{float(at.alpha):.4g}",
        "runs": f"{int(at.samples):d}",
        "lowest": measured("lowest"),
        "edge": _number(float(at.theory_edge), 4),
        "outlier": _number(float(at.theory_outlier), 4),
        "q2": measured("overlap"),
        "q2inf": _number(float(at.theory_overlap), 3),
        "phi": share + space + interval.replace("0.", "."),  # 0.83 [.64, .93]
    }
    if at_n:
        cells["theory_N"], cells["q2_N"] = measured("theory_n_lowest"), measured("theory_n_overlap")
        cells["phi_N"] = _number(float(at.theory_n_phi_group), 2)
    return cells | {name: measured(name) for name in own_names(at)}


def _crossing_lines(c: xr.Dataset) -> list[str]:
    """Where phi crosses; "not determined", and why, where fits or interval say too little of the range."""
    lines, reach = [], float(np.ptp(c.alpha.values))
    for crossing in crossings(c):
        words = _estimate(crossing.alpha)
        if doubt := crossing.doubt(reach):
            words = f"not determined ({doubt})"
        elif math.isfinite(crossing.found):
            words += f", {crossing.found:.0%} of bootstrap fits cross"
        lines.append(f"  N = {crossing.sizes[0]} and {crossing.sizes[1]}: alpha = {words}")
    return ["", f"crossings of phi (alpha_BBP = {c.alpha_bbp:.5g}):", *lines] if lines else []


def _zero_lines(c: xr.Dataset) -> list[str]:
    lines = [f"  samples, N = {n}: {_estimate(zero)}" for n, zero in zeros(c).items()]
    if not models.of(c).is_committee:  # both estimates of theory are the committee's
        return ["", "alpha_0:", *lines] if lines else []
    theory = ", ".join(
        f"{method} {_number(c.attrs[f'alpha_zero_{method}'], 5, 'no root')}" for method in METHODS
    )
    return ["", f"alpha_0: {theory}", *lines]


def _estimate(e: Estimate) -> str:
    if not math.isfinite(e.value):
        return "none"
    if not math.isfinite(e.error):
        return f"{e.value:.4f} (too few samples for an error)"
    if e.doubt:
        return f"not determined ({e.doubt})"
    interval = f"[{e.low:.4f}, {e.high:.4f}]" if math.isfinite(e.low) else "(too few samples for an interval)"
    return f"{e.value:.4f} ± {e.error:.4f} {interval}"


def _plain(value: float, error: float) -> str:
    """1.234(5), the error in units of the last digits; the value alone without an error."""
    if not math.isfinite(value):
        return "-"
    if not (math.isfinite(error) and error > 0):
        return f"{value:.4f}"
    if error > abs(value) and error > 1:
        return "not determ."
    places = max(decimals(error) or 0, 0)
    return f"{value:.{places}f}({round(error * 10**places):d})"


def _number(value: float, digits: int, missing: str = "-") -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else missing
